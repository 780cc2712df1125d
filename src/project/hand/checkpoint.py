"""Which checkpoints a run writes: last.ckpt after every validation and when asked, best.ckpt when a metric improved."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

from project.checkpoint.config import Checkpoint
from project.checkpoint.file import check_writable, describe, keep_previous
from project.checkpoint.position import Position, best, fingerprints, progress
from project.checkpoint.random_states import random_states
from project.checkpoint.writer import CheckpointWriter
from project.data.splits import Data
from project.hand.early_stopping import EarlyStopping
from project.hand.loop import Training
from project.ranks.agreement import agreed
from project.ranks.sharding import whole


class BestAndLast:
    """Writes `<run>/checkpoints/last.ckpt` and `best.ckpt`.

    Attributes:
        best_value: the watched metric at its best, NaN before the first validation.
        best_epoch: the epoch, from 0, after which it was reached.
    """

    def __init__(
        self, folder: Path, config: Checkpoint, training: Training, data: Data, early_stopping: EarlyStopping
    ) -> None:
        self.last = folder / "last.ckpt"
        self.best = folder / "best.ckpt"
        self.config = config
        self.training = training
        self.data = data
        self.early_stopping = early_stopping
        self.best_value = math.nan
        self.best_epoch = -1
        self.saved_at_step = -1
        self.writer = CheckpointWriter(config.async_save)
        if training.world.is_main:
            check_writable(folder)
        self._saved_at_seconds = time.perf_counter()

    def trained(self, *, arrived: bool) -> None:
        """Save, after an optimizer step that no validation follows, if it is time; `arrived` as for `agreed`."""
        every_n_steps, every_minutes = self.config.save_every_n_steps, self.config.save_every_minutes
        is_due = every_n_steps is not None and self.training.step % every_n_steps == 0
        if every_minutes is not None:
            is_late = time.perf_counter() - self._saved_at_seconds >= 60 * every_minutes
            if (store := self.training.world.store) is not None:  # clocks differ between ranks: the main one's decides
                word = "late" if is_late and self.training.world.is_main else None
                key = f"save after {self.saved_at_step}"
                is_late = agreed(store, key, self.training.step, word, arrived=arrived) is not None
            is_due |= is_late
        if is_due:
            self._save(self.last)

    def validated(self) -> None:
        """Save, after a validation. The best first: last.ckpt, which says what was best, must not be ahead of it."""
        if self._improved():
            self._save(self.best)
        self._save(self.last)

    def stopped(self, *, validation_due: bool) -> None:
        """Save, when a signal ends the run."""
        self._save(self.last, validation_due=validation_due)
        self.writer.wait_for()
        self.training.world.meet()  # whoever left before would have the launcher end the rank that still writes

    def finished(self) -> None:
        """Save what was trained since the last time, if anything; nothing is left to be written afterwards."""
        if self.saved_at_step != self.training.step:
            self._save(self.last)
        self.writer.wait_for()

    def content(self, *, validation_due: bool) -> dict[str, Any]:
        """What is saved of a run; see checkpoint/file.py."""
        run, stopping = self.training, self.early_stopping
        position = Position(run.epoch, run.micro_batch, run.step, validation_due)
        mine = {
            "random": random_states(run.device),
            "interval": {"loss": run.interval.loss.cpu(), "num_examples": run.interval.num_examples},
        }
        return {
            "state_dict": whole(run.network.state_dict()),
            "classifier": describe(run.recipe.network, run.network, self.data.vocabulary, self.data.config.max_tokens),
            "optimizer": whole(run.optimizer.state_dict()),
            "lr_scheduler": None if run.lr_scheduler is None else run.lr_scheduler.state_dict(),
            "scaler": run.scaler.state_dict() if run.scaler.is_enabled() else None,
            "progress": progress(position, run.plan, run.recipe.seed, time.perf_counter() - run.start_seconds),
            "best": best(self.best_value, self.best_epoch, self.config),
            "early_stopping": {
                "best_value": stopping.best_value,
                "num_without": stopping.num_without,
                "stopped": stopping.stopped,
            },
            "metrics": dict(run.metrics),
            "ranks": run.world.gathered(mine),
            "fingerprints": fingerprints(self.data),
        }

    def _improved(self) -> bool:
        value = self.training.metrics[self.config.monitor]
        better = value > self.best_value if self.config.mode == "max" else value < self.best_value
        if better or math.isnan(self.best_value):
            self.best_value, self.best_epoch = value, self.training.epoch
            return True
        return False

    def _save(self, path: Path, *, validation_due: bool = False) -> None:
        self.training.watch.before_saving(self.training.step)
        content = self.content(validation_due=validation_due)
        self.training.trace.checkpoint(self.training.step, content["state_dict"])
        self.training.trace.flush()
        if self.training.world.is_main:
            self.writer.wait_for(path)
            if path == self.last:
                keep_previous(path, self.saved_at_step, self.config.keep_last)
            self.writer.write(path, content)
        if path == self.last:
            self.saved_at_step = self.training.step
            self._saved_at_seconds = time.perf_counter()
