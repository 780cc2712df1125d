"""This process among the ranks of the run, and the collectives of torch.distributed that they use."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from project.private import default_store
from project.ranks.environment import is_rank

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store

T = TypeVar("T")


@dataclass(frozen=True)
class World:
    """This process among the ranks of the run. All ranks call the collectives in the same order."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    """Among the ranks of this machine."""

    @classmethod
    def here(cls) -> World:
        """As torchrun's environment variables say; one process without torchrun, on a cluster too."""
        if not is_rank():
            return ALONE
        return cls(*(int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK")))

    @property
    def is_main(self) -> bool:
        """Whether this process logs, prints and saves for all ranks."""
        return self.rank == 0

    @property
    def store(self) -> Store | None:
        """The key-value store of the process group; None for one process."""
        return None if self.size == 1 else default_store()

    def all_reduce_(self, tensor: Tensor) -> Tensor:
        """Sum the tensor over all ranks, in place, and return it."""
        if self.size > 1:
            dist.all_reduce(tensor)
        return tensor

    def barrier(self) -> None:
        """Wait until all ranks have called this."""
        if self.size > 1:
            # nccl warns if it has to guess the device.
            dist.barrier(device_ids=[torch.cuda.current_device()] if dist.get_backend() == "nccl" else None)

    def broadcast_buffers(self, network: nn.Module) -> None:
        """Copy the main rank's buffers to all ranks, as DistributedDataParallel does before each forward pass."""
        if self.size > 1:
            for buffer in network.buffers():
                dist.broadcast(buffer, src=0)

    def all_gather(self, value: T) -> list[T]:
        """The values of all ranks, in the order of ranks; a value is a Python object or a CPU tensor."""
        found = [value] * self.size
        if self.size > 1:
            dist.all_gather_object(found, value)
        return found

    def any(self, flag: bool) -> bool:
        """Whether the flag is set on any rank; a collective."""
        return any(self.all_gather(flag))


ALONE = World()
