"""What the Lightning twin saves; translates between Lightning's checkpoint and the project's file."""

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
"""Lightning puts this before the network's own names: `LitClassifier` holds it as an attribute."""


def run_content(module: LitClassifier, between: Between) -> dict[str, Any]:
    """The state of a run beside weights, optimizer, scheduler and scaler. A collective: all ranks call this."""
    seconds = time.perf_counter() - module.start_seconds
    return {
        "progress": progress(between.position, module.plan, module.recipe.seed, seconds),
        **between.state_dict(),
        "metrics": dict(module.metrics),
        "ranks": module.world.all_gather(rank_state(module.device, module.interval)),
        "fingerprints": fingerprints(module.data),
    }


class NeutralCheckpointIO(CheckpointIO):
    """Writes and reads the project's file (checkpoint/file.py), and leaves Lightning's own bookkeeping out of it.

    Args:
        write: writes a file.
        opened: checkpoints that were read and checked already, by path; they are not read again.
    """

    def __init__(
        self, write: Callable[[Path, Mapping[str, Any]], None], opened: Mapping[Path, Mapping[str, Any]]
    ) -> None:
        super().__init__()
        self.write = write
        self.opened = opened

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        """Write the project's file: Lightning gathers the content, the main rank writes it."""
        content = {
            "state_dict": {key.removeprefix(PREFIX): value for key, value in checkpoint["state_dict"].items()},
            "classifier": checkpoint["classifier"],
            "optimizer": next(iter(checkpoint.get("optimizer_states", [])), None),
            "lr_scheduler": next(iter(checkpoint.get("lr_schedulers", [])), None),
            "scaler": checkpoint.get(MIXED_PRECISION_STATE) or None,
            **checkpoint["run"],
        }
        self.write(Path(path), content)

    def load_checkpoint(self, path: Any, map_location: Any = None, weights_only: bool | None = None) -> dict[str, Any]:
        """Read the project's file as Lightning's dictionary; the whole content is under `run`."""
        content = self.opened.get(Path(path)) or read_checkpoint(path)
        scheduler, scaler = content.get("lr_scheduler"), content.get("scaler")
        return {
            "state_dict": {f"{PREFIX}{key}": value for key, value in content["state_dict"].items()},
            "classifier": content["classifier"],
            "optimizer_states": [content.get("optimizer")],
            "lr_schedulers": [] if scheduler is None else [scheduler],
            **({} if scaler is None else {MIXED_PRECISION_STATE: scaler}),
            "epoch": content["progress"]["epoch"],
            "global_step": content["progress"]["step"],
            "pytorch-lightning_version": L.__version__,
            "callbacks": {},  # without this key Lightning calls no callback's on_load_checkpoint
            "path": str(path),
            "run": dict(content),
        }

    def remove_checkpoint(self, path: Any) -> None:
        """Delete the file."""
        Path(path).unlink(missing_ok=True)
