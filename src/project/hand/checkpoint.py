"""Which checkpoints a run writes: last.ckpt after every validation, best.ckpt when the watched metric improved."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from project.config import Checkpoint
from project.hand.loop import Training
from project.task.checkpoint import describe, write_checkpoint
from project.task.data import Data
from project.task.objective import Figures
from project.task.sharding import whole


def checkpoint_of(training: Training, data: Data) -> dict[str, Any]:
    """What is saved of a run, but for the bookkeeping of best; see task/checkpoint.py."""
    run = training
    return {
        "state_dict": whole(run.network.state_dict()),
        "classifier": describe(run.recipe.network, run.network, data.vocabulary, data.config.max_tokens),
        "optimizer": whole(run.optimizer.state_dict()),
        "lr_scheduler": None if run.lr_scheduler is None else run.lr_scheduler.state_dict(),
        "scaler": run.scaler.state_dict() if run.scaler.is_enabled() else None,
        "progress": {"epoch": run.epoch, "step": run.step},
    }


class BestAndLast:
    """Writes `<run>/checkpoints/last.ckpt` and `best.ckpt`.

    Attributes:
        best_value: the watched metric at its best, NaN before the first validation.
        best_epoch: the epoch, from 0, after which it was reached.
    """

    def __init__(self, folder: Path, config: Checkpoint, training: Training, data: Data) -> None:
        self.last = folder / "last.ckpt"
        self.best = folder / "best.ckpt"
        self.config = config
        self.training = training
        self.data = data
        self.best_value = math.nan
        self.best_epoch = -1
        self._saved_at_step = -1

    def validated(self, figures: Figures) -> None:
        """Save, after a validation."""
        improved = self._improved(figures)
        self._save(self.last)
        if improved:
            self._save(self.best)

    def finished(self) -> None:
        """Save what was trained since the last validation, if anything."""
        if self._saved_at_step != self.training.step:
            self._save(self.last)

    def _improved(self, figures: Figures) -> bool:
        value = figures.metric(self.config.monitor)
        better = value > self.best_value if self.config.mode == "max" else value < self.best_value
        if better or math.isnan(self.best_value):
            self.best_value, self.best_epoch = value, self.training.epoch
            return True
        return False

    def _save(self, path: Path) -> None:
        content = checkpoint_of(self.training, self.data)
        self.training.trace.checkpoint(self.training.step, content["state_dict"])
        if self.training.world.is_main:
            write_checkpoint(path, {**content, "best": {"value": self.best_value, "epoch": self.best_epoch}})
        self._saved_at_step = self.training.step
