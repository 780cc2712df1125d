"""FSDP2 shards tensors over ranks; checkpoints hold full tensors. This module converts both ways."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer


def is_sharded(tensor: object) -> bool:
    """Whether it is a DTensor. Importing DTensor takes half a second, so this asks for a method instead."""
    return hasattr(tensor, "full_tensor")


def full_tensors(value: Any) -> Any:
    """The value with full tensors in place of sharded ones, in nested dictionaries, lists and tuples.

    A collective: all ranks call it in the same order.
    """
    if is_sharded(value):
        return value.full_tensor()
    if isinstance(value, dict):
        return type(value)((key, full_tensors(item)) for key, item in value.items())
    if isinstance(value, list | tuple):
        return type(value)(map(full_tensors, value))
    return value


def sharded_like(value: Tensor, like: Tensor) -> Tensor:
    """This rank's shard of a full tensor, with the placement of `like`; the tensor itself if `like` is not sharded.

    No collective: every rank has the full tensor.
    """
    if not is_sharded(like):
        return value
    from torch.distributed.tensor import DTensor, distribute_tensor

    assert isinstance(like, DTensor)
    return distribute_tensor(value.to(like.device), like.device_mesh, like.placements, src_data_rank=None)


def sharded_weights(state: Mapping[str, Tensor], network: nn.Module) -> dict[str, Tensor]:
    """Full weights and buffers, sharded for this network's `load_state_dict`."""
    own = network.state_dict()
    return {name: sharded_like(value, own[name]) if name in own else value for name, value in state.items()}


def sharded_state(state: dict[str, Any], optimizer: Optimizer) -> dict[str, Any]:
    """A state dict of full tensors, sharded for this optimizer's `load_state_dict`."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]

    def shard(index: int, value: Any) -> Any:
        like = parameters[index]
        return sharded_like(value, like) if isinstance(value, Tensor) and value.shape == like.shape else value

    entries = {
        index: {name: shard(index, value) for name, value in entry.items()} for index, entry in state["state"].items()
    }
    return {**state, "state": entries}


def class_of(module: nn.Module) -> type[nn.Module]:
    """The module's own class; `fully_shard` gives the module a subclass of it."""
    found = type(module)
    first, *others = found.__bases__
    return others[0] if first.__name__ == "FSDPModule" else found
