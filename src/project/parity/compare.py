"""Holds two traces against each other, record by record and stage by stage, and finds the first difference."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import torch

from project.errors import UserError
from project.parity.ulp import ulp_distance, ulp_distances
from project.trace import FORMAT, STAGES

POSITION = ("kind", "epoch", "micro_batch", "step")
FIRST_STAGE = {"micro_batch": "data", "step": "optimizer"}
"""Stage at which two runs part where one of them lacks a record of this kind; other kinds are stages themselves."""


@dataclass(frozen=True)
class Tolerance:
    """What counts as equal where bits need not agree: either bound is enough."""

    ulp: int = 0
    rtol: float = 0.0

    @property
    def is_exact(self) -> bool:
        """Whether every bit must agree."""
        return self.ulp == 0 and self.rtol == 0

    def accepts(self, a: float, b: float) -> bool:
        """Whether two numbers are equal enough."""
        if ulp_distance(a, b) <= self.ulp:
            return True
        return math.isfinite(a) and math.isfinite(b) and abs(a - b) <= self.rtol * max(abs(a), abs(b))


EXACT = Tolerance()


@dataclass(frozen=True)
class Trace:
    """A trace as it was read."""

    path: Path
    header: dict[str, Any]
    records: list[dict[str, Any]]


@dataclass
class Difference:
    """One quantity that differs."""

    quantity: str
    """Such as `loss`; `norm of gradients head.weight`; `head.weight[3, 17]` for an element."""
    a: Any
    b: Any
    ulp: int | None = None
    """None where the two cannot be subtracted."""

    @property
    def value(self) -> float:
        """Absolute difference; infinite where the two cannot be subtracted."""
        if isinstance(self.a, float) and isinstance(self.b, float) and math.isfinite(self.a - self.b):
            return abs(self.a - self.b)
        return math.inf


@dataclass
class Divergence:
    """The first place where two traces part."""

    stage: str
    position: dict[str, Any]
    """kind, epoch, micro_batch and step, as far as the record has them."""
    differences: list[Difference]
    """Of that stage, the largest first."""
    numbers: tuple[int, int] = (-1, -1)
    """Number of the record in each trace, -1 where one lacks it."""
    notes: list[str] = field(default_factory=list)


def read_trace(path: str | Path) -> Trace:
    """Read a trace, or the trace of a run folder.

    Raises:
        UserError: where there is none, or it is damaged: file:line and what is wrong.
    """
    path = Path(path)
    if path.is_dir():
        path = path / "trace.jsonl"
    try:
        content = path.read_bytes()
    except OSError as error:
        hint = "; train with --trace.level full" if path.name == "trace.jsonl" else ""
        raise UserError(f"{path}: no trace can be read here ({error.strerror}){hint}") from None
    lines = []
    for number, line in enumerate(content.splitlines(), start=1):
        try:
            lines.append(msgspec.json.decode(line, type=dict[str, Any]))
        except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
            raise UserError(f"{path}:{number}: not a line of a trace ({error}); was it cut off?") from None
    if not lines or lines[0].get("kind") != "trace":
        raise UserError(f"{path}:1: not a trace: its first line must say kind trace")
    if lines[0].get("format") != FORMAT:
        raise UserError(f"{path}:1: format {lines[0].get('format')!r}, but this version reads format {FORMAT}")
    for number, record in enumerate(lines[1:], start=2):
        if not isinstance(record.get("kind"), str) or not isinstance(record.get("stages"), dict):
            raise UserError(f"{path}:{number}: a record needs kind and stages")
    return Trace(path, lines[0], lines[1:])


def first_divergence(a: Trace, b: Trace, tolerance: Tolerance = EXACT) -> Divergence | None:
    """The first place where the traces part, or None.

    Only what both saw is compared: kinds of records, stages and quantities that one of them has nowhere are left out.
    """
    common = {record["kind"] for record in a.records} & {record["kind"] for record in b.records}
    left, right = _numbered(a, common), _numbered(b, common)
    for place in range(max(len(left), len(right))):
        if place == len(left) or place == len(right) or _position(left[place][1]) != _position(right[place][1]):
            return _missing(left[place:], right[place:])
        (number_a, record_a), (number_b, record_b) = left[place], right[place]
        for stage in STAGES:
            if stage not in record_a["stages"] or stage not in record_b["stages"]:
                continue
            found = list(differences(record_a["stages"][stage], record_b["stages"][stage], stage, tolerance))
            if found:
                found.sort(key=lambda difference: difference.value, reverse=True)
                return Divergence(stage, _position(record_a), found, (number_a, number_b))
    return None


def differences(a: Mapping[str, Any], b: Mapping[str, Any], stage: str, tolerance: Tolerance) -> Iterator[Difference]:
    """What differs between two records of one stage, of the quantities that both have."""
    if stage == "rng" and not tolerance.is_exact:
        return  # another device or version draws other numbers
    for quantity in (name for name in a if name in b):
        left, right = a[quantity], b[quantity]
        if isinstance(left, dict) and isinstance(right, dict):
            yield from _tensor_differences(quantity, left, right, tolerance)
        elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
            for position, (one, other) in enumerate(zip(left, right, strict=True)):
                yield from _scalar_differences(f"{quantity}[{position}]", one, other, tolerance)
        else:
            yield from _scalar_differences(quantity, left, right, tolerance)


def pin_down(divergence: Divergence, a: Path, b: Path) -> None:
    """Replace norms by elements, from the whole tensors that both runs saved at the diverging record.

    Args:
        divergence: its differences are replaced where the tensors tell more.
        a: what `tensors_at` saved in one run.
        b: the same of the other.
    """
    left, right = (torch.load(path, weights_only=True).get(divergence.stage, {}) for path in (a, b))
    found = []
    for name in (name for name in left if name in right):
        one, other = left[name], right[name]
        if one.shape != other.shape or one.dtype != other.dtype:
            found.append(Difference(name, f"{one.dtype} {tuple(one.shape)}", f"{other.dtype} {tuple(other.shape)}"))
        elif int((ulp := ulp_distances(one, other)).max() if one.numel() else 0):
            distance = (one.double() - other.double()).abs().nan_to_num(nan=math.inf)
            at = int((distance if float(distance.max()) > 0 else ulp).argmax())
            index = ", ".join(str(int(i)) for i in torch.unravel_index(torch.tensor(at), one.shape))
            element = f"{name}[{index}]" if index else name
            found.append(
                Difference(element, float(one.flatten()[at]), float(other.flatten()[at]), int(ulp.flatten()[at]))
            )
    if found:
        found.sort(key=lambda difference: difference.value, reverse=True)
        scalars = [
            difference for difference in divergence.differences if not difference.quantity.startswith("norm of ")
        ]
        divergence.differences = [*found, *(scalar for scalar in scalars if scalar.quantity != "norm")]


def _numbered(trace: Trace, kinds: set[str]) -> list[tuple[int, dict[str, Any]]]:
    return [(number, record) for number, record in enumerate(trace.records) if record["kind"] in kinds]


def _position(record: dict[str, Any]) -> dict[str, Any]:
    return {key: record[key] for key in POSITION if key in record}


def _missing(left: Sequence[tuple[int, dict[str, Any]]], right: Sequence[tuple[int, dict[str, Any]]]) -> Divergence:
    """Both go on, but not with the same record: one lacks what the other has."""
    b_lacks_it = not right or (bool(left) and _comes_first([r for _, r in left], [r for _, r in right]))
    number, record = left[0] if b_lacks_it else right[0]
    position = _position(record)
    what = ", ".join(f"{key} {value}" for key, value in position.items())
    difference = Difference("record", what, "missing") if b_lacks_it else Difference("record", "missing", what)
    kind = position["kind"]
    numbers = (number, -1) if b_lacks_it else (-1, number)
    return Divergence(FIRST_STAGE.get(kind, kind), position, [difference], numbers)


def _comes_first(left: Sequence[dict[str, Any]], right: Sequence[dict[str, Any]]) -> bool:
    """Whether it is the right trace that lacks the left one's first record, and not the other way round.

    Of two kinds, the one that the other trace reaches later, or never, is the one that it lacks here.
    """
    one, other = left[0], right[0]
    if one["kind"] == other["kind"]:
        return [one.get(key, 0) for key in POSITION[1:]] < [other.get(key, 0) for key in POSITION[1:]]
    until_one = next((place for place, record in enumerate(right) if record["kind"] == one["kind"]), len(right))
    until_other = next((place for place, record in enumerate(left) if record["kind"] == other["kind"]), len(left))
    return until_one > until_other


def _tensor_differences(
    quantity: str, left: Mapping[str, Any], right: Mapping[str, Any], tolerance: Tolerance
) -> Iterator[Difference]:
    for name in sorted(left.keys() | right.keys()):
        one, other = left.get(name), right.get(name)
        label = f"{quantity} {name}"
        if one is None or other is None:
            yield Difference(label, "missing" if one is None else "there", "missing" if other is None else "there")
        elif not (tolerance.is_exact and one == other):
            (digest_a, norm_a), (digest_b, norm_b) = one, other
            norms = list(_scalar_differences(f"norm of {label}", norm_a, norm_b, tolerance))
            if norms:
                yield from norms
            elif tolerance.is_exact:
                yield Difference(f"bits of {label}", digest_a, digest_b)


def _scalar_differences(quantity: str, one: Any, other: Any, tolerance: Tolerance) -> Iterator[Difference]:
    if one == other:
        return
    a, b = _number(one), _number(other)
    if a is None or b is None:
        yield Difference(quantity, one, other)
    elif not tolerance.accepts(a, b):
        yield Difference(quantity, a, b, ulp_distance(a, b))


def _number(value: Any) -> float | None:
    """A number written in hexadecimal; everything else is compared as it stands."""
    if isinstance(value, str) and (value.lstrip("-").startswith("0x") or value.lstrip("-") in ("inf", "nan")):
        return float.fromhex(value)
    return None
