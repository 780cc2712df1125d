"""This process among those of the run, and what the ranks tell each other."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from project.private import default_store
from project.ranks.environment import is_rank

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch._C._distributed_c10d import Store

T = TypeVar("T")


@dataclass(frozen=True)
class World:
    """This process among those of the run. All ranks call each method that exchanges something, in the same order."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    """Among the ranks of this machine."""

    @classmethod
    def here(cls) -> World:
        """As torchrun says; alone where it says nothing, whatever a cluster has left in the environment."""
        if not is_rank():
            return ALONE
        return cls(*(int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK")))

    @property
    def is_main(self) -> bool:
        """Whether this process logs, prints and saves for all ranks."""
        return self.rank == 0

    @property
    def store(self) -> Store | None:
        """The key-value store that the ranks share; None for a process that is alone."""
        return None if self.size == 1 else default_store()

    def all_reduce_(self, tensor: Tensor) -> Tensor:
        """Sum the tensor over all ranks, in place."""
        if self.size > 1:
            import torch.distributed as dist

            dist.all_reduce(tensor)
        return tensor

    def barrier(self) -> None:
        """Wait until all ranks are here."""
        if self.size > 1:
            import torch
            import torch.distributed as dist

            # nccl warns where it has to guess the device.
            dist.barrier(device_ids=[torch.cuda.current_device()] if dist.get_backend() == "nccl" else None)

    def broadcast_buffers(self, network: nn.Module) -> None:
        """Give every rank the main rank's buffers, as DistributedDataParallel does before each forward pass."""
        if self.size > 1:
            import torch.distributed as dist

            for buffer in network.buffers():
                dist.broadcast(buffer, src=0)

    def all_gather(self, value: T) -> list[T]:
        """Each rank's value, a Python object or CPU tensor, in the order of ranks, on every rank."""
        found = [value] * self.size
        if self.size > 1:
            import torch.distributed as dist

            dist.all_gather_object(found, value)
        return found

    def any(self, flag: bool) -> bool:
        """Whether the flag is set on any rank."""
        return any(self.all_gather(flag))


ALONE = World()
