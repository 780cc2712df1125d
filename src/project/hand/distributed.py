"""Several processes by hand: who this one is, what is added up between them, and how a network is shared by them.

torchrun (or ranks/launch.py, which is torchrun's own launcher) starts the ranks and tells each who it is through
environment variables; torch.distributed does the rest.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.distributed_c10d import _get_default_store
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.nn.parallel import DistributedDataParallel

from project.ranks.config import Distributed
from project.ranks.environment import is_rank
from project.ranks.launch import join_ranks, leave_ranks

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store

T = TypeVar("T")


@dataclass(frozen=True)
class World:
    """This process among those of the run."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    """Among those of this machine."""

    @property
    def is_main(self) -> bool:
        """Whether this process logs, prints and saves for all."""
        return self.rank == 0

    @classmethod
    def here(cls) -> World:
        """As torchrun says; alone where it says nothing, whatever a cluster has left in the environment."""
        if not is_rank():
            return ALONE
        number = {name: int(os.environ.get(name, default)) for name, default in VARIABLES.items()}
        return cls(number["RANK"], number["WORLD_SIZE"], number["LOCAL_RANK"])

    def added_up(self, tensor: Tensor) -> Tensor:
        """The sum over all ranks, in place."""
        if self.size > 1:
            dist.all_reduce(tensor)
        return tensor

    @property
    def store(self) -> Store | None:
        """Where the ranks leave each other word; None for a process that is alone."""
        return None if self.size == 1 else _get_default_store()

    def meet(self) -> None:
        """Wait for the other ranks."""
        if self.size > 1:  # nccl warns where it has to guess the device
            dist.barrier(device_ids=[torch.cuda.current_device()] if dist.get_backend() == "nccl" else None)

    def any_of(self, flag: bool) -> bool:
        """Whether any rank says so."""
        return any(self.gathered(flag))

    def share_buffers(self, network: nn.Module) -> None:
        """Give every rank the main process's buffers, as DistributedDataParallel does before each of its forwards."""
        if self.size > 1:
            for buffer in network.buffers():
                dist.broadcast(buffer, src=0)

    def gathered(self, value: T) -> list[T]:
        """Each rank's value, such as a CPU tensor of any length, in the order of ranks, in every process."""
        found = [value] * self.size
        if self.size > 1:
            dist.all_gather_object(found, value)
        return found

    def from_main(self, text: str) -> str:
        """The main process's text, in every process."""
        if self.size == 1:
            return text
        shared = [text]
        dist.broadcast_object_list(shared)
        return shared[0]


ALONE = World()

VARIABLES = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}


@contextmanager
def process_group(world: World, device: torch.device, timeout_seconds: float) -> Iterator[None]:
    """The ranks' process group, destroyed at the end; nothing for a process that is alone, or has one already.

    By then nothing may hold a DistributedDataParallel that was built within.
    """
    if world.size == 1 or dist.is_initialized():
        yield
        return
    backend = "nccl" if device.type == "cuda" else "gloo"
    if device.type == "cuda":
        torch.cuda.set_device(device)  # where nccl exchanges Python objects, too
    join_ranks(backend, timedelta(seconds=timeout_seconds))
    yield
    leave_ranks()  # not after an exception: that would take ranks that perhaps no longer answer


def distributed(
    network: nn.Module, strategy: str, options: Distributed, world: World, device: torch.device
) -> nn.Module:
    """The network as it is called: between several ranks, backward adds up the gradients.

    `fsdp2` shares out parameters, gradients and optimizer state, in place: build the optimizer afterwards.
    """
    if world.size == 1:
        return network
    if strategy == "fsdp2":
        # Logits may be a view, which is harmless as long as nothing is written into them.
        warnings.filterwarnings("ignore", message="FSDP2-wrapped module .* returned a view tensor")
        fully_shard(network, mesh=init_device_mesh(device.type, (world.size,)))
        return network
    return DistributedDataParallel(
        network,
        find_unused_parameters=strategy == "ddp_find_unused_parameters_true",
        static_graph=options.static_graph,
        gradient_as_bucket_view=options.gradient_as_bucket_view,
    )


def gradients_stay_here(model: nn.Module, options: Distributed, keep: bool) -> AbstractContextManager[object]:
    """Within a window, ranks add up their own gradients; its last backward adds up those of all ranks.

    `fsdp2` adds up on every micro-batch, as under Lightning, unless the options say otherwise.
    """
    if isinstance(model, FSDPModule) and options.reduce_once_per_window:
        model.set_requires_gradient_sync(not keep)
    return model.no_sync() if keep and isinstance(model, DistributedDataParallel) else nullcontext()
