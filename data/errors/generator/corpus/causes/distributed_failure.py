"""Distributed failures: what a single CPU process can raise for itself, and the known wordings of the rest.

The raised ones use a process group of one rank over an in-memory store, taken down again before the next begins.
"""

from __future__ import annotations

import os
import random
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from itertools import chain
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed as dist
from torch import nn
from torch._C import _distributed_c10d as c10d
from torch.distributed.device_mesh import init_device_mesh
from torch.utils.data import DistributedSampler, TensorDataset

from corpus.causes.distributed_wordings import DDP, GLOO_AND_STORE, LAUNCHERS, NCCL, SLOTS
from corpus.message import Message
from corpus.raising import caught
from corpus.slots import render

CAUSE = "distributed_failure"
NUM_EACH = 3


def messages(rng: random.Random) -> Iterator[Message]:
    """Process groups that are missing, doubled or wrongly used, then NCCL, Gloo, stores, DDP and launchers."""
    yield from _without_process_group()
    yield from _environment(rng)
    yield from _stores(rng)
    with _one_rank():
        yield caught(CAUSE, "initialised twice", lambda: dist.init_process_group("gloo"), core=True)
        for _ in range(3):
            yield from _wrong_use(rng)
        yield from _unused_parameters(rng)
    yield from render(CAUSE, chain(NCCL, GLOO_AND_STORE, DDP, LAUNCHERS), SLOTS, rng, num_each=NUM_EACH)


@contextmanager
def _one_rank() -> Iterator[None]:
    with patch.object(sys, "excepthook", sys.excepthook):  # the process group puts its own in place
        dist.init_process_group("gloo", store=c10d.HashStore(), rank=0, world_size=1)
        try:
            yield
        finally:
            dist.destroy_process_group()


def _without_process_group() -> Iterator[Message]:
    tensor = torch.zeros(2)
    calls: dict[str, Callable[[], object]] = {
        "get_rank": dist.get_rank,
        "get_world_size": dist.get_world_size,
        "barrier": dist.barrier,
        "all_reduce": lambda: dist.all_reduce(tensor),
        "broadcast": lambda: dist.broadcast(tensor, src=0),
        "all_gather": lambda: dist.all_gather([tensor], tensor),
        "new_group": lambda: dist.new_group([0]),
        "DistributedDataParallel": lambda: nn.parallel.DistributedDataParallel(nn.Linear(2, 2)),
        "DistributedSampler": lambda: DistributedSampler(TensorDataset(tensor)),
    }
    for name, call in calls.items():
        yield caught(CAUSE, f"no process group: {name}", call, core=True)


def _environment(rng: random.Random) -> Iterator[Message]:
    """`init_process_group` with one variable of the launcher's missing or wrong."""
    names = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    whole = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": str(rng.randint(20000, 40000))}
    for missing in names:
        kept = {name: value for name, value in os.environ.items() if name not in names}
        kept |= {name: value for name, value in whole.items() if name != missing}
        with patch.dict(os.environ, kept, clear=True):
            yield caught(CAUSE, "environment variable", lambda: dist.init_process_group("gloo"), core=True)
    start = dist.init_process_group
    for address in ("localhost:29500", "127.0.0.1:23456", "node0:1234", "env", "10.1.1.20:8888"):
        yield caught(CAUSE, "init method", partial(start, "gloo", address, rank=0, world_size=2))
    for url in ("tcp://localhost", "tcp://10.0.0.7:29500", "tcp://node1:23456?rank=0"):
        yield caught(CAUSE, "tcp rendezvous", partial(start, "gloo", url))
    for backend in ("nccl", "mpi", "ucc", "xccl"):
        run = partial(start, backend, store=c10d.HashStore(), rank=0, world_size=1)
        yield caught(CAUSE, f"backend not built in: {backend}", run, core=backend == "nccl")
    for backend in ("ncll", "NCCL2", "cuda", "ddp"):
        run = partial(start, backend, store=c10d.HashStore(), rank=0, world_size=1)
        yield caught(CAUSE, "backend name", run)


def _stores(rng: random.Random) -> Iterator[Message]:
    """Addresses in use, and values that no other rank ever set. The real port gives way to a drawn one."""
    server = c10d.TCPStore("localhost", 0, None, True, wait_for_workers=False)
    for _ in range(3):
        message = caught(CAUSE, "server socket", lambda: c10d.TCPStore("localhost", server.port, None, True), core=True)
        port = rng.choice((29500, 29501, 29400, 12355, 23456, 1234, 6006))
        yield replace(message, text=re.sub(rf"\b{server.port}\b", str(port), message.text))
    for key in ("default_pg/0//cuda//0", "worker1", "torchelastic/role_info/0"):
        wait = timedelta(milliseconds=rng.randint(10, 60))
        yield caught(CAUSE, "store wait", partial(c10d.HashStore().wait, [key], wait))


def _wrong_use(rng: random.Random) -> Iterator[Message]:
    """Collectives, groups and DDP asked for what a group of one rank cannot give."""
    ddp = nn.parallel.DistributedDataParallel
    tensor = torch.zeros(rng.randint(2, 64))
    other = rng.randint(1, 7)
    calls: dict[str, Callable[[], object]] = {
        "collective of a list": lambda: dist.all_reduce([tensor]),
        "gather of unlike sizes": lambda: dist.all_gather([torch.zeros(other + 70)], tensor),
        "gather of unlike dtypes": lambda: dist.all_gather([tensor.double()], tensor),
        "gather list": lambda: dist.all_gather([tensor] * (other + 1), tensor),
        "scatter list": lambda: dist.scatter(tensor, [tensor] * (other + 1), src=0),
        "reduce_scatter list": lambda: dist.reduce_scatter(tensor, [tensor, tensor]),
        "all_to_all": lambda: dist.all_to_all_single(tensor, tensor, [1], [2]),
        "group beyond the world": lambda: dist.new_group([0, other]),
        "group twice the same": lambda: dist.new_group([other] * 2),
        "mesh beyond the world": lambda: init_device_mesh("cpu", (other + 1,)),
        "reduce op": lambda: dist.all_reduce(tensor, op=dist.ReduceOp.BAND),
        "reduce op of complex": lambda: dist.all_reduce(tensor * 1j, op=dist.ReduceOp.MAX),
        "DDP without parameters": lambda: ddp(nn.ReLU()),
        "DDP of a frozen module": lambda: ddp(nn.Linear(2, 2).requires_grad_(False)),
        "DDP devices": lambda: ddp(nn.Linear(2, 2), device_ids=[0, other]),
        "DDP device of a CPU module": lambda: ddp(nn.Linear(2, 2), device_ids=[other]),
        "sampler rank": lambda: DistributedSampler(TensorDataset(tensor), num_replicas=other, rank=other + 1),
    }
    for name, call in calls.items():
        yield caught(CAUSE, name, call)


class _Branches(nn.Module):
    """Layers of which only the first `num_used` take part in the loss."""

    def __init__(self, num_layers: int, num_used: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(2, 2) for _ in range(num_layers))
        self.num_used = num_used

    def forward(self, inputs: torch.Tensor) -> Any:
        for layer in self.layers[: self.num_used]:
            inputs = layer(inputs)
        return inputs


def _unused_parameters(rng: random.Random) -> Iterator[Message]:
    for _ in range(8):
        num_layers = rng.randint(2, 24)
        model = nn.parallel.DistributedDataParallel(_Branches(num_layers, rng.randint(1, num_layers - 1)))

        def two_steps(model: nn.Module = model) -> None:
            for _ in range(2):
                model(torch.zeros(1, 2)).sum().backward()

        yield caught(CAUSE, "unused parameters", two_steps, core=True)
