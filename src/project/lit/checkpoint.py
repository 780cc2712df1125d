"""Which checkpoints a run writes, and how they come to be files that the hand-written twin reads and writes too.

last.ckpt is written after every validation and when asked, best.ckpt when the watched metric improved. Lightning's own
`ModelCheckpoint(save_last=True)` writes last.ckpt only together with a new best one, so its "last" can be many epochs
old.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import lightning as L
from lightning.pytorch.callbacks import Checkpoint as CheckpointCallback
from lightning.pytorch.plugins.io import CheckpointIO
from lightning.pytorch.plugins.precision import MixedPrecision
from torch.distributed.distributed_c10d import _get_default_store

from project.checkpoint.config import Checkpoint
from project.checkpoint.file import check_writable, keep_previous, read_checkpoint
from project.checkpoint.writer import CheckpointWriter
from project.errors import UserError
from project.ranks.agreement import agreed


class BestAndLast(CheckpointCallback):
    """Writes `<run>/checkpoints/last.ckpt` and `best.ckpt`.

    Attributes:
        best_value: the watched metric at its best, NaN before the first validation.
        best_epoch: the epoch, from 0, after which it was reached.
    """

    def __init__(self, folder: Path, config: Checkpoint, writer: CheckpointWriter) -> None:
        self.last = folder / "last.ckpt"
        self.best = folder / "best.ckpt"
        self.config = config
        self.writer = writer
        self.best_value = math.nan
        self.best_epoch = -1
        self.saved_at_step = -1

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Find out now whether the folder can be written, not after an epoch."""
        if trainer.is_global_zero:
            check_writable(self.last.parent)
        self._saved_at_seconds = time.perf_counter()

    def on_window_end(self, trainer: L.Trainer, *, arrived: bool) -> None:
        """Save, after an optimizer step that no validation follows, if it is time; `arrived` as for `agreed`.

        The LightningModule calls this once it has logged the step: Lightning's on_train_batch_end comes before that.
        """
        every_n_steps, every_minutes = self.config.save_every_n_steps, self.config.save_every_minutes
        is_due = every_n_steps is not None and trainer.global_step % every_n_steps == 0
        if every_minutes is not None:
            is_late = time.perf_counter() - self._saved_at_seconds >= 60 * every_minutes
            if trainer.world_size > 1:  # clocks differ between ranks: the main one's decides
                word = "late" if is_late and trainer.is_global_zero else None
                key, store = f"save after {self.saved_at_step}", _get_default_store()
                is_late = agreed(store, key, trainer.global_step, word, arrived=arrived) is not None
            is_due |= is_late
        if is_due:
            self._save(trainer, self.last)

    def stopped(self, trainer: L.Trainer) -> None:
        """Save, when a signal ends the run."""
        self._save(trainer, self.last)
        self.writer.wait_for()
        trainer.strategy.barrier()  # whoever left before would have the launcher end the rank that still writes

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Save, unless this is a sanity check or a validation of its own.

        The best first: last.ckpt, which says what was best, must not be ahead of it.
        """
        if trainer.state.fn != "fit" or trainer.sanity_checking:
            return
        if self._improved(trainer):
            self._save(trainer, self.best)
        self._save(trainer, self.last)

    def on_train_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Save what was trained since the last time, if anything; nothing is left to be written afterwards."""
        if self.saved_at_step != trainer.global_step:
            self._save(trainer, self.last)
        self.writer.wait_for()

    def _improved(self, trainer: L.Trainer) -> bool:
        monitor = self.config.monitor
        if monitor not in trainer.callback_metrics:
            known = ", ".join(sorted(name for name in trainer.callback_metrics if name.startswith("val/")))
            raise UserError(f"checkpoint.monitor: no metric {monitor!r}; known: {known}")
        value = float(trainer.callback_metrics[monitor])
        better = value > self.best_value if self.config.mode == "max" else value < self.best_value
        if better or math.isnan(self.best_value):
            self.best_value, self.best_epoch = value, trainer.current_epoch
            return True
        return False

    def _save(self, trainer: L.Trainer, path: Path) -> None:
        module: Any = trainer.lightning_module
        module.watch.before_saving(trainer.global_step)
        self.writer.wait_for(path)
        if path == self.last and trainer.is_global_zero:
            keep_previous(path, self.saved_at_step, self.config.keep_last)
        trainer.save_checkpoint(path, weights_only=False)
        if path == self.last:
            self.saved_at_step = trainer.global_step
            self._saved_at_seconds = time.perf_counter()


class NeutralCheckpointIO(CheckpointIO):
    """Translates between Lightning's checkpoint and the project's (checkpoint/file.py), which is what lies on disk."""

    def __init__(self, writer: CheckpointWriter) -> None:
        super().__init__()
        self.writer = writer

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        """Write the project's file; Lightning's own bookkeeping stays out of it."""
        content = {
            "state_dict": checkpoint["state_dict"],
            "classifier": checkpoint["classifier"],
            "optimizer": next(iter(checkpoint.get("optimizer_states", [])), None),
            "lr_scheduler": next(iter(checkpoint.get("lr_schedulers", [])), None),
            "scaler": checkpoint.get(MixedPrecision.__qualname__) or None,
            **checkpoint["run"],
        }
        self.writer.write(Path(path), content)

    def load_checkpoint(self, path: Any, map_location: Any = None, weights_only: bool | None = None) -> dict[str, Any]:
        """Read the project's file, as the dictionary that Lightning expects; `run` holds what Lightning knows not."""
        content: Mapping[str, Any] = read_checkpoint(path)
        scheduler, scaler = content.get("lr_scheduler"), content.get("scaler")
        return {
            "state_dict": content["state_dict"],
            "classifier": content["classifier"],
            "optimizer_states": [content.get("optimizer")],
            "lr_schedulers": [] if scheduler is None else [scheduler],
            **({} if scaler is None else {MixedPrecision.__qualname__: scaler}),
            "epoch": content["progress"]["epoch"],
            "global_step": content["progress"]["step"],
            "pytorch-lightning_version": L.__version__,
            "path": str(path),
            "run": dict(content),
        }

    def teardown(self) -> None:
        """Lightning calls this at the end of a run, however it ended."""
        self.writer.close()

    def remove_checkpoint(self, path: Any) -> None:
        """Delete the file."""
        Path(path).unlink(missing_ok=True)
