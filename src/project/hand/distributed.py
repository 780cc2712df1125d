"""Several ranks by hand: how they connect, and how they share a network.

torchrun, or ranks/launch.py, which is torchrun's own launcher, starts the ranks and tells each who it is through
environment variables; torch.distributed does the rest.
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
    """The ranks' process group, destroyed at the end; nothing for a process that is alone, or has one already.

    By then nothing may hold a DistributedDataParallel that was built within.
    """
    if world.size == 1 or torch.distributed.is_initialized():
        yield
        return
    from project.ranks.launch import join_ranks, leave_ranks

    if device.type == "cuda":
        torch.cuda.set_device(device)  # where nccl exchanges Python objects, too
    join_ranks("nccl" if device.type == "cuda" else "gloo", timedelta(seconds=timeout_seconds))
    yield
    leave_ranks()  # not after an exception: that would take ranks that perhaps no longer answer


def distributed(
    network: nn.Module, strategy: str, options: Distributed, world: World, device: torch.device
) -> nn.Module:
    """The network as it is called: between several ranks, backward sums the gradients.

    `fsdp2` shares out parameters, gradients and optimizer state, in place: build the optimizer afterwards.
    """
    if world.size == 1:
        return network
    if strategy == "fsdp2":
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        # Logits may be a view, which is harmless as long as nothing is written into them.
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
    """Where enabled, backward keeps this rank's gradients to itself; the window's last one sums those of all ranks.

    `fsdp2` sums at every micro-batch, as under Lightning, unless the options say otherwise.
    """
    if options.reduce_once_per_window:
        model.set_requires_gradient_sync(not enabled)  # type: ignore[operator]  # an FSDPModule
    if enabled and isinstance(model, nn.parallel.DistributedDataParallel):
        return model.no_sync()
    return nullcontext()
