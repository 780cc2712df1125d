"""The `trace` group of the configuration."""

from __future__ import annotations

from dataclasses import dataclass

from jsonargparse.typing import NonNegativeInt

from project.trace.tracer import Level


@dataclass
class Trace:
    """What each step leaves behind in the run's trace.jsonl, for `compare`."""

    level: Level | None = None
    """cheap: example ids, losses, learning rates; full: also digests of all gradients and weights; null: no trace."""
    tensors_at: NonNegativeInt | None = None
    """Number of the trace's record, from 0, whose tensors are saved whole in trace.pt."""
