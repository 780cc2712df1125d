"""Which checkpoints a run writes, and how they come to be files that the hand-written twin reads and writes too.

last.ckpt is written after every validation, best.ckpt when the watched metric improved. Lightning's own
`ModelCheckpoint(save_last=True)` writes last.ckpt only together with a new best one, so its "last" can be many epochs
old.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import lightning as L
from lightning.pytorch.callbacks import Checkpoint as CheckpointCallback
from lightning.pytorch.plugins.io import CheckpointIO
from lightning.pytorch.plugins.precision import MixedPrecision

from project.config import Checkpoint
from project.errors import UserError
from project.task.checkpoint import read_checkpoint, write_checkpoint


class BestAndLast(CheckpointCallback):
    """Writes `<run>/checkpoints/last.ckpt` and `best.ckpt`.

    Attributes:
        best_value: the watched metric at its best, NaN before the first validation.
        best_epoch: the epoch, from 0, after which it was reached.
    """

    def __init__(self, folder: Path, config: Checkpoint) -> None:
        self.last = folder / "last.ckpt"
        self.best = folder / "best.ckpt"
        self.config = config
        self.best_value = math.nan
        self.best_epoch = -1
        self._saved_at_step = -1

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Save, unless this is a sanity check or a validation of its own."""
        if trainer.state.fn != "fit" or trainer.sanity_checking:
            return
        improved = self._improved(trainer)
        self._save(trainer, self.last)
        if improved:
            self._save(trainer, self.best)

    def on_train_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Save what was trained since the last validation, if anything."""
        if self._saved_at_step != trainer.global_step:
            self._save(trainer, self.last)

    def state_dict(self) -> dict[str, Any]:
        """The bookkeeping of best, as plain numbers."""
        return {"best_value": self.best_value, "best_epoch": self.best_epoch}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take the bookkeeping over."""
        self.best_value, self.best_epoch = state_dict["best_value"], state_dict["best_epoch"]

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
        trainer.save_checkpoint(path, weights_only=False)
        self._saved_at_step = trainer.global_step


class NeutralCheckpointIO(CheckpointIO):
    """Translates between Lightning's checkpoint and the project's (task/checkpoint.py), which is what lies on disk."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        """Write the project's file; Lightning's own bookkeeping stays out of it."""
        if "classifier" not in checkpoint:  # bare weights, by which ddp_spawn and ddp_fork hand them to their parent
            write_checkpoint(path, checkpoint)
            return
        best: dict[str, Any] = checkpoint.get("callbacks", {}).get(BestAndLast.__qualname__, {})
        content = {
            "state_dict": checkpoint["state_dict"],
            "classifier": checkpoint["classifier"],
            "optimizer": next(iter(checkpoint.get("optimizer_states", [])), None),
            "lr_scheduler": next(iter(checkpoint.get("lr_schedulers", [])), None),
            "scaler": checkpoint.get(MixedPrecision.__qualname__) or None,
            "progress": {"epoch": checkpoint["epoch"], "step": checkpoint["global_step"]},
            "best": {"value": best.get("best_value", math.nan), "epoch": best.get("best_epoch", -1)},
        }
        write_checkpoint(path, content)

    def load_checkpoint(self, path: Any, map_location: Any = None, weights_only: bool | None = None) -> dict[str, Any]:
        """Read the project's file, as the dictionary that Lightning expects."""
        if Path(path).name == ".temp.ckpt":  # see `save_checkpoint`; nothing is done with them
            return {}
        content: Mapping[str, Any] = read_checkpoint(path)
        return {
            "state_dict": content["state_dict"],
            "classifier": content["classifier"],
            "epoch": content["progress"]["epoch"],
            "global_step": content["progress"]["step"],
            "pytorch-lightning_version": L.__version__,
        }

    def remove_checkpoint(self, path: Any) -> None:
        """Delete the file."""
        Path(path).unlink(missing_ok=True)
