"""Compares two runs quantity by quantity: how many values differ, and by how much at most."""

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
"""Quantity: its stage in a trace, and its names there; () means all names."""

LAST = "checkpoints/last.ckpt"
"""The checkpoint of a run folder that is compared."""

PREDICTIONS = "probabilities.pt"
"""The file with the class probabilities of the test rows, (N, C) float32; `parity.twins` writes it."""

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
"""Quantity: its key in the checkpoint."""


@dataclass
class Row:
    """The comparison of one quantity."""

    quantity: str
    num_values: int = 0
    num_different: int = 0
    num_missing: int = 0
    """Values that only one run has."""
    max_ulp: int = 0
    max_difference: float = 0.0

    @property
    def is_equal(self) -> bool:
        """Whether no value differs or is missing."""
        return not self.num_different and not self.num_missing

    def add_different(self, num_values: int = 1, ulp: int = INCOMPARABLE, difference: float = math.inf) -> None:
        """Count values that differ, by this much at most; by default they cannot be subtracted."""
        self.num_different += num_values
        self.max_ulp = max(self.max_ulp, ulp)
        self.max_difference = max(self.max_difference, difference if math.isfinite(difference) else math.inf)


def rows_of_traces(a: Trace, b: Trace, tolerance: Tolerance = EXACT) -> Iterator[Row]:
    """Compare the quantities of `TRACED` that both traces share."""
    both = shared(a, b)
    for quantity, (stage, names) in TRACED.items():
        left, right = (dict(_traced(records, stage, names)) for records in both)
        if left or right:
            yield _row(quantity, left, right, tolerance)


def rows_of_runs(a: Path, b: Path, tolerance: Tolerance = EXACT) -> Iterator[Row]:
    """Compare the quantities of `SAVED` in the last checkpoints, and the predictions of the test rows."""
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
    """The values of a stage by their place in the run, so a missing record does not shift the others."""
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
    """The values in nested mappings and lists, by their path."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            if key not in ("_get_lr_called_within_step", "seconds"):  # internal to a scheduler; wall time
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
            row.add_different(1, ulp_distance(one, other), abs(one - other))
    elif type(one) is not type(other) or one != other:
        row.add_different()


def _compare_tensors(row: Row, one: Tensor, other: Tensor, tolerance: Tolerance) -> None:
    row.num_values += one.numel()
    if one.shape != other.shape or one.dtype != other.dtype:
        row.add_different()
        return
    ulp = ulp_distances(one, other)
    difference = (one.double() - other.double()).abs()
    wrong = ulp > (tolerance.ulp if one.is_floating_point() else 0)
    if tolerance.rtol and one.is_floating_point():
        bound = tolerance.rtol * torch.maximum(one.double().abs(), other.double().abs())
        wrong &= ~(difference.isfinite() & (difference <= bound))
    if num_different := int(wrong.sum()):
        largest = float(difference[wrong].nan_to_num(nan=math.inf, posinf=math.inf).max())
        row.add_different(num_different, int(ulp[wrong].max()), largest)
