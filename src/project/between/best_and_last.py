"""When a run writes best.ckpt (the monitored metric improved) and last.ckpt (every validation, step, minute, signal).

Lightning's `ModelCheckpoint(save_last=True)` writes last.ckpt only with a new best one, so it can be epochs old.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from project.checkpoint.config import Checkpoint
from project.checkpoint.file import check_writable, keep_previous
from project.checkpoint.position import best, best_in
from project.checkpoint.writer import CheckpointWriter
from project.ranks.agreement import agreed
from project.ranks.world import World


class BestAndLast:
    """Decides when to write best.ckpt and last.ckpt. All ranks call the methods in the same order.

    Args:
        folder: where the two files go.
        config: the monitored metric, and when to write last.ckpt.
        world: this rank among the others; the main rank writes.

    Attributes:
        writer: writes the files, now or in the background.
        best_value: the best value of the monitored metric; NaN before the first validation.
        best_epoch: its epoch, from 0; -1 before the first validation.
        saved_at_step: optimizer steps in last.ckpt; -1 where this run has written none.
    """

    def __init__(self, folder: Path, config: Checkpoint, world: World) -> None:
        self.best = folder / "best.ckpt"
        self.last = folder / "last.ckpt"
        self.config = config
        self.world = world
        self.writer = CheckpointWriter(config.async_save)
        self.best_value = math.nan
        self.best_epoch = -1
        self.saved_at_step = -1
        if world.is_main:
            check_writable(folder)  # before training, not after an epoch of it
        self._saved_at_seconds = time.perf_counter()

    def agree_to_save(self, step: int, *, is_complete: bool) -> bool:
        """Whether all ranks save after this optimizer step; `is_complete` as for `agreed`."""
        every_n_steps, every_minutes = self.config.save_every_n_steps, self.config.save_every_minutes
        is_due = every_n_steps is not None and bool(step % every_n_steps == 0)
        if every_minutes is None:
            return is_due
        is_late = time.perf_counter() - self._saved_at_seconds >= 60 * every_minutes
        if (store := self.world.store) is not None:  # the main rank's clock decides
            word = "late" if is_late and self.world.is_main else None
            key = f"save after {self.saved_at_step}"
            is_late = agreed(store, key, step, word, is_complete=is_complete) is not None
        return is_due or is_late

    def keep_if_best(self, epoch: int, metrics: Mapping[str, float]) -> bool:
        """Remember a validation that is the best so far; returns whether it is."""
        value = metrics[self.config.monitor]
        better = value > self.best_value if self.config.mode == "max" else value < self.best_value
        if better or math.isnan(self.best_value):
            self.best_value, self.best_epoch = value, epoch
            return True
        return False

    def make_way(self, path: Path) -> None:
        """Before `path` is written: wait for its last writing, and keep the previous last.ckpt if configured."""
        if self.world.is_main:
            self.writer.wait_for(path)
            if path == self.last:
                keep_previous(path, self.saved_at_step, self.config.keep_last)

    def wrote_last(self, step: int) -> None:
        """Note that last.ckpt holds this many optimizer steps now."""
        self.saved_at_step = step
        self._saved_at_seconds = time.perf_counter()

    def state_dict(self) -> dict[str, Any]:
        """The state for a checkpoint."""
        return best(self.best_value, self.best_epoch, self.config)

    def load_state_dict(self, path: Path, content: Mapping[str, Any]) -> None:
        """Restore from the checkpoint `path` with this content; from another folder it brings no best.ckpt."""
        if path.parent == self.last.parent:
            self.best_value, self.best_epoch = best_in(content, self.config)
        if path == self.last:
            self.saved_at_step = content["progress"]["step"]
