"""Compares two traces record by record and stage by stage, and finds the first difference."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from project.checkpoint.archive import load_archive
from project.parity.ulp import ulp_distance, ulp_distances
from project.trace.reading import Numbered, number, place_of, shared
from project.trace.reading import Trace as Trace
from project.trace.reading import read_trace as read_trace
from project.trace.stages import STAGES

POSITION = ("kind", "epoch", "micro_batch", "step")
FIRST_STAGE = {"micro_batch": "data", "step": "optimizer"}
"""The stage that a missing record of this kind belongs to; other kinds are stages themselves."""
KINDS = ("step", "evaluation", "checkpoint", "micro_batch")
"""Of records. Where two runs have different next records, the one that comes first here is the missing one."""
MISSING, THERE = "missing", "there"
"""Stand for a missing record or value, and for a present one that is more than a number."""


@dataclass(frozen=True)
class Tolerance:
    """How far apart equal floats may be; one of the two bounds suffices. Integers must always agree."""

    ulp: int = 0
    rtol: float = 0.0

    @property
    def is_exact(self) -> bool:
        """Whether every bit must agree."""
        return self.ulp == 0 and self.rtol == 0

    def accepts(self, a: float, b: float) -> bool:
        """Whether two numbers are within one of the bounds."""
        if ulp_distance(a, b) <= self.ulp:
            return True
        finite = math.isfinite(a) and math.isfinite(b)
        return self.rtol > 0 and finite and abs(a - b) <= self.rtol * max(abs(a), abs(b))


EXACT = Tolerance()


@dataclass
class Difference:
    """One quantity that differs."""

    quantity: str
    """Such as `loss`; `norm of gradients head.weight`; `gradients head.weight[3, 17]` for an element."""
    a: Any
    b: Any
    ulp: int | None = None
    """None where the values cannot be subtracted."""
    tensor: str | None = None
    """Such as `gradients head.weight`, where the trace only has norm and digest of the tensor."""

    @property
    def value(self) -> float:
        """Absolute difference; infinite where the values cannot be subtracted, 0 for tensors of equal norm."""
        if self.ulp is None:
            return math.inf if self.tensor is None else 0.0
        distance = float(abs(self.a - self.b))
        return distance if math.isfinite(distance) else math.inf


@dataclass
class Divergence:
    """The first place where two traces differ."""

    stage: str
    position: dict[str, Any]
    """kind, epoch, micro_batch and step of the record; other records have the last micro_batch before them."""
    differences: list[Difference]
    """In that stage, the largest first."""
    numbers: tuple[int, int] = (-1, -1)
    """Number of the record in each trace; -1 where it is missing."""


def first_divergence(a: Trace, b: Trace, tolerance: Tolerance = EXACT, *, alike: bool = False) -> Divergence | None:
    """The first place where the traces differ, or None.

    Args:
        a: one trace.
        b: the other.
        tolerance: how far apart numbers may be.
        alike: both traces were made in the same way. Then a kind of record or a stage that only one of them has is a
            difference; otherwise it is ignored. Quantities that only one of them has are always ignored.
    """
    left, right = shared(a, b, alike=alike)
    for place in range(max(len(left), len(right))):
        if place == len(left) or place == len(right) or place_of(left[place][1]) != place_of(right[place][1]):
            return _missing(left, right, place)
        (number_a, record_a), (number_b, record_b) = left[place], right[place]
        if record_a.get("step", 0) != record_b.get("step", 0):
            steps = Difference("optimizer step that it goes into", record_a.get("step", 0), record_b.get("step", 0))
            return Divergence("data", _position(left, place), [steps], (number_a, number_b))
        for stage in STAGES:
            one, other = record_a["stages"].get(stage), record_b["stages"].get(stage)
            if one is not None and other is not None:
                found = list(differences(one, other, stage, tolerance))
            elif one is None and other is None:
                continue
            else:
                found = [Difference(f"stage {stage}", _there(one), _there(other))]
            if found:
                return Divergence(stage, _position(left, place), sorted(found, key=_order), (number_a, number_b))
    return None


def differences(a: Mapping[str, Any], b: Mapping[str, Any], stage: str, tolerance: Tolerance) -> Iterator[Difference]:
    """The differences between two records of one stage."""
    if stage == "rng" and not tolerance.is_exact:
        return  # devices and versions draw different numbers
    for quantity in dict.fromkeys([*a, *b]):
        left, right = (_entries(quantity, side.get(quantity)) for side in (a, b))
        for name in dict.fromkeys([*left, *right]):
            yield from _entry_differences(name, left.get(name), right.get(name), tolerance)


def pin_down(divergence: Divergence, a: Path, b: Path) -> None:
    """Replace differences of norms by the element that differs most.

    Args:
        divergence: its differences are replaced, in place.
        a: the tensors of the diverging record, which one run saved for `tensors_at`.
        b: those of the other run.
    """
    left, right = (load_archive(path).get(divergence.stage, {}) for path in (a, b))
    for place, difference in enumerate(divergence.differences):
        label = difference.tensor or ""
        name = label.partition(" ")[2]
        if name not in left or name not in right:
            continue
        one, other = left[name], right[name]
        if one.shape != other.shape or one.dtype != other.dtype:
            kinds = [f"{tensor.dtype} {tuple(tensor.shape)}" for tensor in (one, other)]
            divergence.differences[place] = Difference(f"dtype or shape of {label}", kinds[0], kinds[1])
        elif bool((ulp := ulp_distances(one, other)).any()):
            distance = (one.double() - other.double()).abs().nan_to_num(nan=math.inf, posinf=math.inf)
            at = int(distance.where(ulp > 0, -1.0).argmax())
            index = ", ".join(str(int(i)) for i in torch.unravel_index(torch.tensor(at), one.shape))
            element, its_ulp = f"{label}[{index}]" if index else label, int(ulp.flatten()[at])
            divergence.differences[place] = Difference(
                element, one.flatten()[at].item(), other.flatten()[at].item(), its_ulp
            )
    divergence.differences.sort(key=_order)


def _order(difference: Difference) -> tuple[bool, float]:
    """Sort the largest first, and last the norm of all tensors together, which adds nothing."""
    return difference.quantity == "norm", -difference.value


def _position(records: Numbered, place: int) -> dict[str, Any]:
    """Where in the run a record is; other records have the last micro_batch before them."""
    before = (record for _, record in reversed(records[: place + 1]) if record["kind"] == "micro_batch")
    micro_batch = next(before, {})
    found = {key: micro_batch[key] for key in ("epoch", "micro_batch") if key in micro_batch} | records[place][1]
    return {key: found[key] for key in POSITION if key in found}


def _missing(left: Numbered, right: Numbered, place: int) -> Divergence:
    """The divergence of two traces with different next records, or of which one has ended."""
    rests = [[record for _, record in records[place:]] for records in (left, right)]
    b_lacks_it = not rests[1] or (bool(rests[0]) and _b_lacks_it(*rests))
    there = left if b_lacks_it else right
    number, record = there[place]
    kind = str(record["kind"])
    lacks = (THERE, MISSING) if b_lacks_it else (MISSING, THERE)
    more = "" if all(rests) else " and all that follow"
    difference = Difference(f"the record of this {kind.replace('_', '-')}{more}", *lacks)
    numbers = (number, -1) if b_lacks_it else (-1, number)
    return Divergence(FIRST_STAGE.get(kind, kind), _position(there, place), [difference], numbers)


def _b_lacks_it(left: list[dict[str, Any]], right: list[dict[str, Any]]) -> bool:
    """Whether the right trace lacks the left one's first record; otherwise the left one lacks the right one's.

    The missing record is the one that the other trace has later, or never. Between equals it is the one that comes
    first in a run, then in `KINDS`.
    """
    one, other = left[0], right[0]
    until_one = next((place for place, record in enumerate(right) if place_of(record) == place_of(one)), math.inf)
    until_other = next((place for place, record in enumerate(left) if place_of(record) == place_of(other)), math.inf)
    if until_one != until_other:
        return until_one > until_other
    keys = [key for key in POSITION[1:] if key in one and key in other]
    ranks = [([record[key] for key in keys], KINDS.index(record["kind"])) for record in (one, other)]
    return ranks[0] < ranks[1]


def _entries(quantity: str, value: Any) -> dict[str, Any]:
    """The values of a quantity by their names in a report; {} for None."""
    if isinstance(value, dict):
        return {f"{quantity} {name}": tuple(item) for name, item in value.items()}
    if isinstance(value, list):
        return {f"{quantity}[{position}]": item for position, item in enumerate(value)}
    return {} if value is None else {quantity: value}


def _entry_differences(name: str, one: Any, other: Any, tolerance: Tolerance) -> Iterator[Difference]:
    if one == other:
        return
    if isinstance(one, tuple) and isinstance(other, tuple):  # digest and norm of a tensor
        if one[0] == other[0]:
            return  # the same bits; another device may sum them to another norm
        norms = list(_entry_differences(f"norm of {name}", one[1], other[1], tolerance))
        if norms or tolerance.is_exact:
            difference = norms[0] if norms else Difference(f"bits of {name}", one[0], other[0])
            difference.tensor = name
            yield difference
        return
    a, b = number(one), number(other)
    if a is None or b is None:
        yield Difference(name, _there(one) if a is None else a, _there(other) if b is None else b)
    elif not tolerance.accepts(a, b):
        yield Difference(name, a, b, ulp_distance(a, b))


def _there(value: Any) -> Any:
    """How a report shows a value that cannot be subtracted."""
    return MISSING if value is None else THERE if isinstance(value, dict | tuple) else value
