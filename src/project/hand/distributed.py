"""Several ranks by hand: the process group, DistributedDataParallel, FSDP2.

torchrun or ranks/launch.py has started the ranks; environment variables tell each its number.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta

import torch
from torch import nn

from project.ranks.config import Distributed
from project.ranks.world import World


@contextmanager
def process_group(world: World, device: torch.device, timeout_seconds: float) -> Iterator[None]:
    """Create the process group and destroy it at the end; do nothing for one process, or where a group exists.

    At the end nothing may hold a DistributedDataParallel that was built within.
    """
    if world.size == 1 or torch.distributed.is_initialized():
        yield
        return
    from project.ranks.launch import join_ranks, leave_ranks

    if device.type == "cuda":
        torch.cuda.set_device(device)  # nccl exchanges Python objects there
    join_ranks("nccl" if device.type == "cuda" else "gloo", timedelta(seconds=timeout_seconds))
    yield
    leave_ranks()  # not after an exception: other ranks may hang, and this would wait for them


def distributed(
    network: nn.Module, strategy: str, options: Distributed, world: World, device: torch.device
) -> nn.Module:
    """The network as the loop calls it: with several ranks, backward averages the gradients over them.

    `fsdp2` shards parameters, gradients and optimizer state, in place: build the optimizer afterwards.
    """
    if world.size == 1:
        return network
    if strategy == "fsdp2":
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        # Logits may be a view. Nothing is written into them, so this is harmless.
        warnings.filterwarnings("ignore", message="FSDP2-wrapped module .* returned a view tensor")
        fully_shard(network, mesh=init_device_mesh(device.type, (world.size,)))
        return network
    return nn.parallel.DistributedDataParallel(
        network,
        find_unused_parameters=strategy == "ddp_find_unused_parameters_true",
        static_graph=options.static_graph,
        gradient_as_bucket_view=options.gradient_as_bucket_view,
    )


def no_sync(model: nn.Module, options: Distributed, *, enabled: bool) -> AbstractContextManager[object]:
    """Within, if enabled, backward does not exchange gradients between ranks.

    `fsdp2` exchanges them in every micro-batch, as under Lightning, unless `reduce_once_per_window` is set.
    """
    if options.reduce_once_per_window:
        model.set_requires_gradient_sync(not enabled)  # type: ignore[operator]  # an FSDPModule
    if enabled and isinstance(model, nn.parallel.DistributedDataParallel):
        return model.no_sync()
    return nullcontext()
