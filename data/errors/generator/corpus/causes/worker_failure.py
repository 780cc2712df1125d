"""Loader workers that cannot start or are killed: pickling and settings are raised, killing is rendered.

Nothing here starts a process: the pickler that a spawned worker goes through is called by itself.
"""

from __future__ import annotations

import io
import random
import re
import sqlite3
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from itertools import chain
from multiprocessing import context, process, reduction, spawn
from typing import Any

import torch
import torch.multiprocessing  # registers how tensors cross to another process
from torch._utils import ExceptionWrapper
from torch.utils.data import DataLoader, Dataset

from corpus.causes.worker_wordings import KILLED, SHARED_MEMORY, SLOTS, STARTING
from corpus.message import Message
from corpus.raising import caught
from corpus.slots import render

CAUSE = "worker_failure"
NUM_EACH = 4
_FORKED = (
    "Cannot re-initialize CUDA in forked subprocess. "
    "To use CUDA with multiprocessing, you must use the 'spawn' start method"
)


def messages(rng: random.Random) -> Iterator[Message]:
    """Pickling for a spawned worker, the loader's options, start methods; then what kills workers."""
    yield from _pickling(rng)
    yield from _options(rng)
    yield from _starting(rng)
    yield from render(CAUSE, chain(KILLED, STARTING, SHARED_MEMORY), SLOTS, rng, num_each=NUM_EACH)


class _Samples(Dataset[int]):
    """A dataset that holds what its worker must be sent."""

    def __init__(self, held: object) -> None:
        self.held = held

    def __getitem__(self, index: int) -> int:
        return index

    def __len__(self) -> int:
        return 8


def _sent_to_worker(held: object) -> None:
    """Pickle a dataset as the spawn start method does."""
    reduction.dump(_Samples(held), io.BytesIO())


def _local_function(owner: str, name: str) -> Callable[[], None]:
    """A function that says it was defined inside `owner`."""

    def function() -> None: ...

    function.__qualname__ = f"{owner}.<locals>.{name}"
    function.__name__ = name
    function.__module__ = "__main__"
    return function


def _pickling(rng: random.Random) -> Iterator[Message]:
    owners = ["main", "get_dataloader", "train", "DataModule.train_dataloader", "build_transforms", "make_loader"]
    names = ["<lambda>", "collate", "collate_fn", "worker_init_fn", "seed_worker", "transform", "MyDataset"]
    for owner in owners:
        for name in rng.sample(names, 2):
            yield caught(CAUSE, "local function", partial(_sent_to_worker, _local_function(owner, name)), core=True)
    for name in ("<lambda>", "collate_fn", "pad_batch", "Augment"):
        function = _local_function("main", name)
        function.__qualname__ = name
        yield caught(CAUSE, "function not found", partial(_sent_to_worker, function), core=True)
    for module in ("dataset", "utils.data", "models.loader"):
        function.__module__ = module
        yield caught(CAUSE, "module not found", partial(_sent_to_worker, function))
    leaf = torch.ones(2, requires_grad=True)
    with tempfile.TemporaryFile() as file, closing(sqlite3.connect(":memory:")) as connection:
        held: dict[str, Any] = {
            "lock": threading.Lock(),
            "reentrant lock": threading.RLock(),
            "generator": (index for index in range(3)),
            "module": io,
            "file": file,
            "text file": io.TextIOWrapper(file),
            "database": connection,
            "thread": threading.local(),
            "non-leaf tensor": leaf * 2,
            "memoryview": memoryview(b"a"),
            "code": _sent_to_worker.__code__,
            "frame iterator": {}.keys(),
            "event": threading.Event(),
        }
        for kind, value in held.items():
            yield caught(CAUSE, f"pickle {kind}", partial(_sent_to_worker, value))
        held["text file"].detach()


def _options(rng: random.Random) -> Iterator[Message]:
    """Options of the loader that only workers have, or that no worker can have."""
    samples = _Samples(None)
    loader: Callable[..., Any] = partial(DataLoader, samples)
    for _ in range(3):
        num = rng.randint(2, 16)
        yield caught(CAUSE, "negative workers", partial(loader, num_workers=-num))
        yield caught(CAUSE, "prefetch without workers", partial(loader, prefetch_factor=num))
        yield caught(CAUSE, "persistent without workers", partial(loader, persistent_workers=True))
        yield caught(CAUSE, "context without workers", partial(loader, multiprocessing_context="spawn"))
        name = rng.choice(("forkspawn", "thread", "Spawn", "forked"))
        yield caught(CAUSE, "unknown context", partial(loader, num_workers=num, multiprocessing_context=name))
        yield caught(CAUSE, "context of another type", partial(loader, num_workers=num, multiprocessing_context=num))
        yield caught(CAUSE, "negative timeout", partial(loader, num_workers=num, timeout=-num))
    yield caught(CAUSE, "timeout without workers", lambda: next(iter(DataLoader(samples, timeout=5))))


def _starting(rng: random.Random) -> Iterator[Message]:
    methods = context.DefaultContext(context.ForkContext())
    methods.set_start_method("fork")
    for method in ("spawn", "forkserver"):
        yield caught(CAUSE, "start method twice", partial(methods.set_start_method, method), core=True)
    for name in ("forks", "thread", "windows"):
        yield caught(CAUSE, "unknown start method", partial(methods.get_context, name))
    with _importing_main():
        check: Callable[[], object] = spawn._check_not_importing_main  # type: ignore[attr-defined]
        yield caught(CAUSE, "importing main", check, core=True)
    worker = process.BaseProcess()
    yield caught(CAUSE, "join before start", worker.join)
    worker._parent_pid = -1  # type: ignore[attr-defined]  # as if another process had made it
    yield caught(CAUSE, "join of another's child", worker.join)
    yield caught(CAUSE, "test of another's child", worker.is_alive, core=True)
    for error in (
        OSError(24, "Too many open files"),
        OSError(12, "Cannot allocate memory"),
        RuntimeError(_FORKED),
        RuntimeError("received 0 items of ancdata"),
        ConnectionResetError(104, "Connection reset by peer"),
        BrokenPipeError(32, "Broken pipe"),
    ):  # fmt: skip
        yield caught(CAUSE, "error in worker", partial(_retold, error, rng.randint(0, 7)), core=True)


@contextmanager
def _importing_main() -> Iterator[None]:
    """Look like a spawned child that is still importing the main module."""
    current = process.current_process()
    setattr(current, "_inheriting", True)  # noqa: B010 - the attribute exists only while a child starts
    try:
        yield
    finally:
        delattr(current, "_inheriting")


def _retold(error: Exception, worker: int) -> None:
    """Raise `error` as the main process does that reads it from a worker's queue."""
    wrap: Callable[..., Any] = ExceptionWrapper
    try:
        raise error
    except Exception:
        wrapper = wrap(where=f"in DataLoader worker process {worker}")
    own_frame = rf'File "{re.escape(__file__)}", line \d+, in _retold\n.*'
    users_frame = 'File "dataset.py", line 31, in __getitem__\n    return self.images[index].cuda()'
    wrapper.exc_msg = re.sub(own_frame, users_frame, wrapper.exc_msg)
    wrapper.reraise()
