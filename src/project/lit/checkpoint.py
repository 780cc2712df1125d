"""What the Lightning twin saves of a run, and how Lightning's checkpoint becomes the project's file and back."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import lightning as L
from lightning.pytorch.plugins.io import CheckpointIO

from project.between.steps import Between
from project.checkpoint.file import read_checkpoint
from project.checkpoint.position import fingerprints, progress
from project.checkpoint.rank_state import rank_state
from project.lit.module import LitClassifier
from project.private import MIXED_PRECISION_STATE

PREFIX = "network."
"""What Lightning puts before the network's own names: its attribute in the module."""


def run_content(module: LitClassifier, between: Between) -> dict[str, Any]:
    """What continuing the run takes, beside what Lightning saves by itself; every rank has to call this."""
    seconds = time.perf_counter() - module.start_seconds
    return {
        "progress": progress(between.position, module.training_plan, module.recipe.seed, seconds),
        **between.state_dict(),
        "metrics": dict(module.metrics),
        "ranks": module.world.all_gather(rank_state(module.device, module.interval)),
        "fingerprints": fingerprints(module.data),
    }


class NeutralCheckpointIO(CheckpointIO):
    """Translates between Lightning's checkpoint and the project's file (checkpoint/file.py), which lies on disk.

    Args:
        write: writes a file.
        opened: a checkpoint that was read and checked already, by its path; it is not read again.
    """

    def __init__(
        self, write: Callable[[Path, Mapping[str, Any]], None], opened: Mapping[Path, Mapping[str, Any]]
    ) -> None:
        super().__init__()
        self.write = write
        self.opened = opened

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        """Write the project's file; Lightning's own bookkeeping stays out of it."""
        found = {
            "state_dict": {key.removeprefix(PREFIX): value for key, value in checkpoint["state_dict"].items()},
            "classifier": checkpoint["classifier"],
            "optimizer": next(iter(checkpoint.get("optimizer_states", [])), None),
            "lr_scheduler": next(iter(checkpoint.get("lr_schedulers", [])), None),
            "scaler": checkpoint.get(MIXED_PRECISION_STATE) or None,
            **checkpoint["run"],
        }
        self.write(Path(path), found)

    def load_checkpoint(self, path: Any, map_location: Any = None, weights_only: bool | None = None) -> dict[str, Any]:
        """Read the project's file, as the dictionary that Lightning expects; `run` holds what Lightning knows not."""
        found = self.opened.get(Path(path)) or read_checkpoint(path)
        scheduler, scaler = found.get("lr_scheduler"), found.get("scaler")
        return {
            "state_dict": {f"{PREFIX}{key}": value for key, value in found["state_dict"].items()},
            "classifier": found["classifier"],
            "optimizer_states": [found.get("optimizer")],
            "lr_schedulers": [] if scheduler is None else [scheduler],
            **({} if scaler is None else {MIXED_PRECISION_STATE: scaler}),
            "epoch": found["progress"]["epoch"],
            "global_step": found["progress"]["step"],
            "pytorch-lightning_version": L.__version__,
            "callbacks": {},  # without this key Lightning calls no callback's on_load_checkpoint
            "path": str(path),
            "run": dict(found),
        }

    def remove_checkpoint(self, path: Any) -> None:
        """Delete the file."""
        Path(path).unlink(missing_ok=True)
