"""The groups `checkpoint` and `early_stopping`: which weights are kept, and when a run ends early."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from jsonargparse.typing import NonNegativeInt, PositiveFloat, PositiveInt

Monitor = Literal["val/loss", "val/accuracy", "val/macro_f1"]


@dataclass
class Checkpoint:
    """Which weights count as best, and when last.ckpt is written beside after every validation and at the end."""

    monitor: Monitor = "val/macro_f1"
    """The metric that decides."""
    mode: Literal["min", "max"] = "max"
    """Whether smaller or larger is better."""
    save_every_n_steps: PositiveInt | None = None
    """Optimizer steps between writing last.ckpt; null: validations alone decide."""
    save_every_minutes: PositiveFloat | None = None
    """Minutes between writing last.ckpt, at the next optimizer step; null: validations alone decide."""
    async_save: bool = False
    """Write in the background: a step waits for a copy of the tensors in the CPU's memory only."""
    keep_last: PositiveInt = 1
    """How many of the newest are kept: last.ckpt, and before it step-<step>.ckpt. best.ckpt is kept in any case."""


@dataclass
class EarlyStopping:
    """End the run when validation stops improving."""

    patience: NonNegativeInt | None = None
    """Validations without improvement before the run ends; null: never."""
    monitor: Monitor = "val/macro_f1"
    """The metric that is watched."""
    mode: Literal["min", "max"] = "max"
    """Whether smaller or larger is better."""
    min_delta: float = 0.0
    """A smaller change is no improvement."""
