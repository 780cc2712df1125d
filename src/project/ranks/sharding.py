"""What `fully_shard` has shared out between ranks, put together again for checkpoints, and shared out once more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer


def is_sharded(tensor: object) -> bool:
    """Whether it is a DTensor; asked without importing that module, which takes half a second."""
    return hasattr(tensor, "full_tensor")


def full_tensors(value: Any) -> Any:
    """The value, with whole tensors in place of sharded ones, in nested dictionaries, lists and tuples.

    A collective: every rank has to call it, at the same place.
    """
    if is_sharded(value):
        return value.full_tensor()
    if isinstance(value, dict):
        return type(value)((key, full_tensors(item)) for key, item in value.items())
    if isinstance(value, list | tuple):
        return type(value)(map(full_tensors, value))
    return value


def sharded_like(value: Tensor, like: Tensor) -> Tensor:
    """This rank's part of a whole tensor, as `like` is shared out; the tensor itself where that is not.

    No collective: every rank has the whole.
    """
    if not is_sharded(like):
        return value
    from torch.distributed.tensor import DTensor, distribute_tensor  # takes half a second, so only here

    assert isinstance(like, DTensor)
    return distribute_tensor(value.to(like.device), like.device_mesh, like.placements, src_data_rank=None)


def sharded_weights(state: Mapping[str, Tensor], network: nn.Module) -> dict[str, Tensor]:
    """Whole weights and buffers as this network's `load_state_dict` takes them."""
    own = network.state_dict()
    return {name: sharded_like(value, own[name]) if name in own else value for name, value in state.items()}


def sharded_state(state: dict[str, Any], optimizer: Optimizer) -> dict[str, Any]:
    """A whole state dict as this optimizer's `load_state_dict` takes it."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]

    def mine(index: int, value: Any) -> Any:
        like = parameters[index]
        return sharded_like(value, like) if isinstance(value, Tensor) and value.shape == like.shape else value

    entries = {
        index: {name: mine(index, value) for name, value in entry.items()} for index, entry in state["state"].items()
    }
    return {**state, "state": entries}


def class_of(module: nn.Module) -> type[nn.Module]:
    """The module's class as it was written; `fully_shard` puts one of its own in its place."""
    found = type(module)
    first, *others = found.__bases__
    return others[0] if first.__name__ == "FSDPModule" else found
