"""Several processes by hand: who this one is, how the others are started, and what is added up between them.

torchrun (or the launcher below, which is torchrun's own) starts the ranks and tells each who it is through
environment variables; torch.distributed does the rest.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch


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
        """As torchrun says; alone where it says nothing."""
        number = {name: int(os.environ.get(name, default)) for name, default in VARIABLES.items()}
        return cls(number["RANK"], number["WORLD_SIZE"], number["LOCAL_RANK"])

    def total(self, number: float, device: torch.device) -> float:
        """The sum of a number over all ranks."""
        if self.size == 1:
            return number
        return float(self.added_up(torch.tensor(float(number), dtype=torch.float64, device=device)))

    def added_up(self, tensor: Tensor) -> Tensor:
        """The sum over all ranks, in place."""
        if self.size > 1:
            dist.all_reduce(tensor)
        return tensor

    def share_buffers(self, network: nn.Module) -> None:
        """Give every rank the main process's buffers, as DistributedDataParallel does before each of its forwards."""
        if self.size > 1:
            for buffer in network.buffers():
                dist.broadcast(buffer, src=0)

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
    """The ranks' process group, destroyed at the end; nothing for a process that is alone."""
    if world.size == 1:
        yield
        return
    backend = "nccl" if device.type == "cuda" else "gloo"
    if device.type == "cuda":
        torch.cuda.set_device(device)  # where nccl exchanges Python objects, too
    dist.init_process_group(backend, timeout=timedelta(seconds=timeout_seconds))
    try:
        yield
    finally:
        dist.destroy_process_group()


def is_launched() -> bool:
    """Whether torchrun started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def launch(num_processes: int, arguments: Sequence[str]) -> int:
    """Start `hand` with these arguments in several processes of this machine; returns the exit code."""
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=num_processes,
        run_id=str(os.getpid()),
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        max_restarts=0,
    )
    try:
        elastic_launch(config, sys.executable)("-m", "project", "hand", *arguments)
    except ChildFailedError as error:
        _, failure = error.get_first_failure()
        return int(failure.exitcode)
    return 0
