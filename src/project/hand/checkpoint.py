"""What the hand-written twin saves; checkpoint/file.py describes the file."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from project.between.steps import Between
from project.checkpoint.file import describe
from project.checkpoint.position import fingerprints, progress
from project.checkpoint.rank_state import rank_state
from project.data.splits import Data
from project.hand.loop import Training
from project.ranks.sharding import full_tensors


def run_content(training: Training, data: Data, between: Between) -> dict[str, Any]:
    """The state of a run beside weights, optimizer, scheduler and scaler. A collective: all ranks call this."""
    seconds = time.perf_counter() - training.start_seconds
    return {
        "progress": progress(between.position, training.plan, training.recipe.seed, seconds),
        **between.state_dict(),
        "metrics": dict(training.metrics),
        "ranks": training.world.all_gather(rank_state(training.device, training.interval)),
        "fingerprints": fingerprints(data),
    }


def save_checkpoint(training: Training, data: Data, between: Between, path: Path) -> None:
    """Write the project's file: all ranks gather the content, the main rank writes it."""
    assert between.checkpoints is not None
    scheduler, scaler = training.lr_scheduler, training.scaler
    content = {
        "state_dict": full_tensors(training.network.state_dict()),
        "classifier": describe(training.recipe.network, training.network, data.vocabulary, data.config.max_tokens),
        "optimizer": full_tensors(training.optimizer.state_dict()),
        "lr_scheduler": None if scheduler is None else scheduler.state_dict(),
        "scaler": scaler.state_dict() if scaler.is_enabled() else None,
        **run_content(training, data, between),
    }
    training.trace.checkpoint(training.step, content["state_dict"])
    training.trace.flush()  # a killed run continues from here
    if training.world.is_main:
        between.checkpoints.writer.write(path, content)
