"""Which checkpoints a run writes: best.ckpt when the watched metric improved, last.ckpt after every validation and
whenever it is asked for.

Lightning's `ModelCheckpoint(save_last=True)` writes its last.ckpt only together with a new best one, so it can be many
epochs old.
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
    """Decides when `<run>/checkpoints/best.ckpt` and `last.ckpt` are written. All ranks call it alike.

    Args:
        folder: where the two files go.
        config: the metric that decides, and when last.ckpt is written.
        world: this rank among the others; the main one writes.

    Attributes:
        writer: writes the files, at once or in the background.
        best_value: the watched metric at its best, NaN before the first validation.
        best_epoch: the epoch, from 0, after which it was reached; -1 before the first validation.
        saved_at_step: optimizer steps that last.ckpt holds; -1 where this run has written none.
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
            check_writable(folder)  # now, not after an epoch
        self._saved_at_seconds = time.perf_counter()

    def is_due(self, step: int, *, is_complete: bool) -> bool:
        """Whether it is time to save after this optimizer step, on all ranks alike; `is_complete` as for `agreed`."""
        every_n_steps, every_minutes = self.config.save_every_n_steps, self.config.save_every_minutes
        is_due = every_n_steps is not None and bool(step % every_n_steps == 0)
        if every_minutes is None:
            return is_due
        is_late = time.perf_counter() - self._saved_at_seconds >= 60 * every_minutes
        if (store := self.world.store) is not None:  # clocks differ between ranks: the main one's decides
            word = "late" if is_late and self.world.is_main else None
            key = f"save after {self.saved_at_step}"
            is_late = agreed(store, key, step, word, is_complete=is_complete) is not None
        return is_due or is_late

    def improved(self, epoch: int, metrics: Mapping[str, float]) -> bool:
        """Whether a validation is the best so far; it is then remembered as such."""
        value = metrics[self.config.monitor]
        better = value > self.best_value if self.config.mode == "max" else value < self.best_value
        if better or math.isnan(self.best_value):
            self.best_value, self.best_epoch = value, epoch
            return True
        return False

    def make_way(self, path: Path) -> None:
        """Before `path` is written: wait for the last time, and keep the previous last.ckpt if that is wanted."""
        if self.world.is_main:
            self.writer.wait_for(path)
            if path == self.last:
                keep_previous(path, self.saved_at_step, self.config.keep_last)

    def wrote_last(self, step: int) -> None:
        """last.ckpt holds this many optimizer steps now."""
        self.saved_at_step = step
        self._saved_at_seconds = time.perf_counter()

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint holds of it."""
        return best(self.best_value, self.best_epoch, self.config)

    def load_state_dict(self, path: Path, content: Mapping[str, Any]) -> None:
        """Go on from the checkpoint `path` with this content. A file from elsewhere has no best.ckpt beside it."""
        if path.parent == self.last.parent:
            self.best_value, self.best_epoch = best_in(content, self.config)
        if path == self.last:
            self.saved_at_step = content["progress"]["step"]
