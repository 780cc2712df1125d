"""What two runs left behind, quantity by quantity: equal or not, and the largest difference."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from project.parity.compare import EXACT, Tolerance, Trace
from project.parity.ulp import ulp_distance, ulp_distances
from project.task.checkpoint import read_checkpoint

TRACED = {
    "training losses": ("forward", ("loss",)),
    "gradient norms": ("normalise", ("norm",)),
    "learning rates": ("scheduler", ("learning_rates",)),
    "validation metrics": ("evaluation", ()),
}
"""Quantity: the stage of a trace that holds it, and its names there; none means all of them."""

SAVED = {
    "state dict": "state_dict",
    "optimizer state": "optimizer",
    "scheduler state": "lr_scheduler",
    "scaler state": "scaler",
}
"""Quantity: its key in a checkpoint."""


@dataclass
class Row:
    """One quantity of two runs."""

    quantity: str
    num_values: int = 0
    num_different: int = 0
    max_ulp: int = 0
    max_difference: float = 0.0

    def differs(self, ulp: int | None = None, difference: float = math.inf) -> None:
        """Count one value that differs; without `ulp`, the two cannot be subtracted."""
        self.num_different += 1
        self.max_ulp = max(self.max_ulp, 0 if ulp is None else ulp)
        self.max_difference = max(self.max_difference, difference)


def rows_of_traces(a: Trace, b: Trace, tolerance: Tolerance = EXACT) -> Iterator[Row]:
    """What both traces hold of `TRACED`."""
    for quantity, (stage, names) in TRACED.items():
        left, right = (list(_traced(trace, stage, names)) for trace in (a, b))
        if left and right:
            yield _row(quantity, dict(enumerate(left)), dict(enumerate(right)), tolerance)


def rows_of_runs(a: Path, b: Path, tolerance: Tolerance = EXACT) -> Iterator[Row]:
    """What both run folders hold of `SAVED`, in their last checkpoints, and the predictions of the test rows."""
    paths = [folder / "checkpoints" / "last.ckpt" for folder in (a, b)]
    if all(path.is_file() for path in paths):
        left, right = (read_checkpoint(path) for path in paths)
        for quantity, key in SAVED.items():
            if left.get(key) is not None or right.get(key) is not None:
                yield _row(quantity, dict(_leaves(left.get(key))), dict(_leaves(right.get(key))), tolerance)
    paths = [folder / "probabilities.pt" for folder in (a, b)]
    if all(path.is_file() for path in paths):
        one, other = (torch.load(path, weights_only=True) for path in paths)
        yield _row("test predictions", {"": one}, {"": other}, tolerance)


def _traced(trace: Trace, stage: str, names: tuple[str, ...]) -> Iterator[float]:
    for record in trace.records:
        quantities = record["stages"].get(stage, {})
        for name, value in quantities.items():
            if not names or name in names:
                yield from (float.fromhex(item) for item in (value if isinstance(value, list) else [value]))


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """The values within nested mappings and lists, by the names that lead to them."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            if key != "_get_lr_called_within_step":  # whether a scheduler is just now advancing; of no consequence
                yield from _leaves(item, f"{name}.{key}")
    elif isinstance(value, list | tuple):
        for position, item in enumerate(value):
            yield from _leaves(item, f"{name}[{position}]")
    else:
        yield name, value


def _row(quantity: str, left: Mapping[Any, Any], right: Mapping[Any, Any], tolerance: Tolerance) -> Row:
    row = Row(quantity)
    for name in left.keys() | right.keys():
        if name not in left or name not in right:
            row.num_values += 1
            row.differs()
        elif isinstance(left[name], Tensor) and isinstance(right[name], Tensor):
            _compare_tensors(row, left[name], right[name], tolerance)
        else:
            row.num_values += 1
            _compare_scalars(row, left[name], right[name], tolerance)
    return row


def _compare_scalars(row: Row, one: Any, other: Any, tolerance: Tolerance) -> None:
    if isinstance(one, float) and isinstance(other, float):
        if not tolerance.accepts(one, other):
            difference = abs(one - other)
            row.differs(ulp_distance(one, other), difference if math.isfinite(difference) else math.inf)
    elif type(one) is not type(other) or one != other:
        row.differs()


def _compare_tensors(row: Row, one: Tensor, other: Tensor, tolerance: Tolerance) -> None:
    row.num_values += one.numel()
    if one.shape != other.shape or one.dtype != other.dtype:
        row.differs()
        return
    ulp = ulp_distances(one, other)
    difference = (one.double() - other.double()).abs()
    wrong = ulp > tolerance.ulp
    if tolerance.rtol:
        wrong &= ~(difference <= tolerance.rtol * torch.maximum(one.double().abs(), other.double().abs()))
    if bool(wrong.any()):
        row.num_different += int(wrong.sum())
        row.max_ulp = max(row.max_ulp, int(ulp[wrong].max()))
        row.max_difference = max(row.max_difference, float(difference[wrong].nan_to_num(nan=math.inf).max()))
