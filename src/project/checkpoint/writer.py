"""Writes a run's checkpoints at once, or in the background while training continues."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from project.checkpoint.file import tensors_in, write_checkpoint
from project.private import storage_key


class CheckpointWriter:
    """Writes files one after another, in the order of the calls.

    Args:
        in_background: let a thread write, so that `write` returns once the tensors are copied to the CPU's memory. A
            file is finished before the next one of its name begins. After an error nothing more is written.
    """

    def __init__(self, in_background: bool) -> None:
        self.in_background = in_background
        self._pool: ThreadPoolExecutor | None = None
        self._pending: dict[Path, Future[None]] = {}
        self._error: Exception | None = None

    def write(self, path: Path, content: Mapping[str, Any]) -> None:
        """Write the content as it is now.

        Raises:
            UserError: this file, or an earlier one in the background, cannot be written.
        """
        if not self.in_background:
            write_checkpoint(path, content)
            return
        self.wait_for(path)
        self._pool = self._pool or ThreadPoolExecutor(1, thread_name_prefix="checkpoints")
        self._pending[path] = self._pool.submit(self._write, path, copied(content))

    def wait_for(self, *paths: Path) -> None:
        """Wait until these files are written; without arguments, until all are.

        Raises:
            UserError: a file could not be written.
        """
        wait([self._pending.pop(path) for path in paths or list(self._pending) if path in self._pending])
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """Wait for all files; errors are not raised."""
        if self._pool is not None:
            self._pool.shutdown()

    def _write(self, path: Path, content: Mapping[str, Any]) -> None:
        if self._error is None:
            try:
                write_checkpoint(path, content)
            except Exception as error:  # the training thread raises it
                self._error = error


def copied(content: Mapping[str, Any]) -> dict[str, Any]:
    """A deep copy with tensors in the CPU's memory, complete when this returns.

    Tensors that share storage share it in the copy, and an object that occurs twice is one object there. So
    `torch.save` writes the same file.
    """
    storages: dict[int, Tensor] = {}
    copies: dict[int, Any] = {id(tensor): _on_cpu(tensor, storages) for tensor in tensors_in(content)}
    for device in {tensor.device for tensor in tensors_in(content) if tensor.is_cuda}:
        torch.cuda.synchronize(device)
    return copy.deepcopy(dict(content), copies)


def _on_cpu(tensor: Tensor, storages: dict[int, Tensor]) -> Tensor:
    """The tensor's view of a CPU copy of its storage; tensors that share storage share the copy."""
    storage = tensor.untyped_storage()
    if storage_key(tensor) not in storages:
        all_bytes = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage)
        mine = torch.empty(storage.nbytes(), dtype=torch.uint8, pin_memory=tensor.is_cuda)
        storages[storage_key(tensor)] = mine.copy_(all_bytes, non_blocking=True)
    place = (tensor.storage_offset(), tensor.size(), tensor.stride())
    return torch.empty(0, dtype=tensor.dtype).set_(storages[storage_key(tensor)].untyped_storage(), *place)
