"""What two runs left behind, quantity by quantity: equal or not, and the largest difference."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from project.checkpoint.archive import load_archive
from project.checkpoint.file import read_checkpoint
from project.parity.compare import EXACT, Tolerance
from project.parity.ulp import INCOMPARABLE, ulp_distance, ulp_distances
from project.trace.reading import Numbered, Trace, number, place_of, shared

TRACED = {
    "training losses": ("forward", ("loss",)),
    "gradient norms": ("normalise", ("norm",)),
    "learning rates": ("scheduler", ("learning_rates",)),
    "validation metrics": ("evaluation", ()),
}
"""Quantity: the stage of a trace that holds it, and its names there; none means all of them."""

LAST = "checkpoints/last.ckpt"
"""Where a run folder keeps what `SAVED` names."""

PREDICTIONS = "probabilities.pt"
"""Where `parity.twins` keeps the class probabilities of the test rows, (N, C) float32."""

SAVED = {
    "state dict": "state_dict",
    "optimizer state": "optimizer",
    "scheduler state": "lr_scheduler",
    "scaler state": "scaler",
    "position": "progress",
    "best metric": "best",
    "early stopping": "early_stopping",
    "random states": "ranks",
}
"""Quantity: its key in a checkpoint."""


@dataclass
class Row:
    """One quantity of two runs."""

    quantity: str
    num_values: int = 0
    num_different: int = 0
    num_missing: int = 0
    """Values that only one of the two has."""
    max_ulp: int = 0
    max_difference: float = 0.0

    @property
    def is_equal(self) -> bool:
        """Whether nothing differs and nothing is missing."""
        return not self.num_different and not self.num_missing

    def differs(self, ulp: int = INCOMPARABLE, difference: float = math.inf) -> None:
        """Count one value that differs; without arguments, the two cannot be subtracted."""
        self.num_different += 1
        self.max_ulp = max(self.max_ulp, ulp)
        self.max_difference = max(self.max_difference, difference if math.isfinite(difference) else math.inf)


def rows_of_traces(a: Trace, b: Trace, tolerance: Tolerance = EXACT) -> Iterator[Row]:
    """What both traces hold of `TRACED`."""
    both = shared(a, b)
    for quantity, (stage, names) in TRACED.items():
        left, right = (dict(_traced(records, stage, names)) for records in both)
        if left or right:
            yield _row(quantity, left, right, tolerance)


def rows_of_runs(a: Path, b: Path, tolerance: Tolerance = EXACT) -> Iterator[Row]:
    """What both run folders hold of `SAVED`, in their last checkpoints, and the predictions of the test rows."""
    paths = [folder / LAST for folder in (a, b)]
    if all(path.is_file() for path in paths):
        left, right = (read_checkpoint(path) for path in paths)
        for quantity, key in SAVED.items():
            if left.get(key) is not None or right.get(key) is not None:
                yield _row(quantity, dict(_leaves(left.get(key) or {})), dict(_leaves(right.get(key) or {})), tolerance)
    paths = [folder / PREDICTIONS for folder in (a, b)]
    if all(path.is_file() for path in paths):
        one, other = (load_archive(path) for path in paths)
        yield _row("test predictions", {"": one}, {"": other}, tolerance)


def _traced(records: Numbered, stage: str, names: tuple[str, ...]) -> Iterator[tuple[Any, Any]]:
    """The values of a stage by their place in the run, so that a record that one run lacks shifts no other."""
    times: Counter[Any] = Counter()
    for _, record in records:
        place = place_of(record)
        times[place] += 1
        for name, value in record["stages"].get(stage, {}).items():
            if not names or name in names:
                for position, item in enumerate(value if isinstance(value, list) else [value]):
                    found = number(item)
                    yield (*place, times[place], name, position), item if found is None else found


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """The values within nested mappings and lists, by the names that lead to them."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            # Whether a scheduler is just now advancing, and how long the run has taken, are of no consequence.
            if key not in ("_get_lr_called_within_step", "seconds"):
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
            only = left.get(name, right.get(name))
            size = only.numel() if isinstance(only, Tensor) else 1
            row.num_values += size
            row.num_missing += size
        elif isinstance(left[name], Tensor) and isinstance(right[name], Tensor):
            _compare_tensors(row, left[name], right[name], tolerance)
        else:
            row.num_values += 1
            _compare_scalars(row, left[name], right[name], tolerance)
    return row


def _compare_scalars(row: Row, one: Any, other: Any, tolerance: Tolerance) -> None:
    if isinstance(one, float) and isinstance(other, float):
        if not tolerance.accepts(one, other):
            row.differs(ulp_distance(one, other), abs(one - other))
    elif type(one) is not type(other) or one != other:
        row.differs()


def _compare_tensors(row: Row, one: Tensor, other: Tensor, tolerance: Tolerance) -> None:
    row.num_values += one.numel()
    if one.shape != other.shape or one.dtype != other.dtype:
        row.differs()
        return
    ulp = ulp_distances(one, other)
    difference = (one.double() - other.double()).abs()
    wrong = ulp > (tolerance.ulp if one.is_floating_point() else 0)
    if tolerance.rtol and one.is_floating_point():
        bound = tolerance.rtol * torch.maximum(one.double().abs(), other.double().abs())
        wrong &= ~(difference.isfinite() & (difference <= bound))
    if num_different := int(wrong.sum()):
        row.differs(int(ulp[wrong].max()), float(difference[wrong].nan_to_num(nan=math.inf, posinf=math.inf).max()))
        row.num_different += num_different - 1
