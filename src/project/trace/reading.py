"""Reads traces, and finds what two of them have in common."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from project.errors import UserError
from project.trace.stages import STAGES
from project.trace.tracer import FORMAT

TRACE = "trace.jsonl"
"""File name of the trace in a run folder."""

Numbered = list[tuple[int, dict[str, Any]]]
"""Records with their numbers in the trace."""


class Record(msgspec.Struct):
    """The form of a record, which reading checks."""

    kind: Literal["micro_batch", "step", "evaluation", "checkpoint"]
    stages: dict[
        Literal[STAGES],  # type: ignore[valid-type]
        dict[str, dict[str, tuple[str, str | float]] | list[Any] | str | bool | float | None],
    ]
    epoch: int = 0
    micro_batch: int = 0
    step: int = 0


@dataclass(frozen=True)
class Trace:
    """A trace that was read."""

    path: Path
    header: dict[str, Any]
    records: list[dict[str, Any]]
    is_cut_off: bool = False
    """Whether an incomplete last line was left out, as a killed run leaves one."""


def read_trace(path: str | Path) -> Trace:
    """Read a trace file, or the trace of a run folder.

    Raises:
        UserError: there is no trace, or it is damaged; the message gives file and line.
    """
    path = Path(path)
    if path.is_dir():
        path = path / TRACE
        if not path.exists():
            raise UserError(f"{path.parent}: no {TRACE} in this folder; train with --trace.level full")
    try:
        first, *rest = path.read_bytes().split(b"\n")
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); name a trace or a run folder") from None
    header: dict[str, Any] = {}
    with suppress(msgspec.DecodeError, UnicodeDecodeError):
        header = msgspec.json.decode(first, type=dict[str, Any])
    if header.get("kind") != "trace":
        raise UserError(f"{path}:1: not a trace, which begins with a line of kind trace; name a trace or a run folder")
    if header.get("format") != FORMAT:
        raise UserError(f"{path}:1: format {header.get('format')!r}, but this version reads format {FORMAT}")
    records = []
    for place, line in enumerate(rest, start=2):
        if not line.strip():
            continue
        try:
            records.append(msgspec.json.decode(line, type=dict[str, Any]))
            msgspec.convert(records[-1], type=Record)
        except msgspec.ValidationError as error:
            raise UserError(f"{path}:{place}: not a record of a trace ({error})") from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            if place == len(rest) + 1:  # the last line, and it has no line end
                return Trace(path, header, records, is_cut_off=True)
            raise UserError(f"{path}:{place}: not a record of a trace ({error})") from None
    return Trace(path, header, records)


def held(trace: Trace) -> set[tuple[str, ...]]:
    """Every (kind,), (kind, stage) and (kind, stage, quantity) in the trace's records."""
    found: set[tuple[str, ...]] = set()
    for record in trace.records:
        kind = record["kind"]
        found |= {(kind,), *((kind, stage) for stage in record["stages"])}
        found |= {(kind, stage, name) for stage, quantities in record["stages"].items() for name in quantities}
    return found


def shared(a: Trace, b: Trace, *, alike: bool = False) -> tuple[Numbered, Numbered]:
    """The records of both, reduced to what both traces hold; `alike` keeps all kinds and stages."""
    both = held(a) & held(b)
    if alike:
        both |= {part for part in held(a) | held(b) if len(part) < 3}
    return _reduced(a, both), _reduced(b, both)


def place_of(record: dict[str, Any]) -> tuple[Any, ...]:
    """Kind, epoch, micro-batch and optimizer step of a record; records with the same place are compared.

    The place of a micro-batch does not depend on the optimizer step.
    """
    kind = record["kind"]
    return kind, record.get("epoch", 0), record.get("micro_batch", 0), kind != "micro_batch" and record.get("step", 0)


def number(value: Any) -> float | None:
    """A floating-point number of a trace, a hexadecimal string or a JSON number; None for everything else."""
    if isinstance(value, float):
        return value
    if isinstance(value, str) and (value.lstrip("-").startswith("0x") or value.lstrip("-") in ("inf", "nan")):
        with suppress(ValueError, OverflowError):
            return float.fromhex(value)
    return None


def _reduced(trace: Trace, both: set[tuple[str, ...]]) -> Numbered:
    return [
        (place, record | {"stages": _stages(record, both)})
        for place, record in enumerate(trace.records)
        if (record["kind"],) in both
    ]


def _stages(record: dict[str, Any], both: set[tuple[str, ...]]) -> dict[str, dict[str, Any]]:
    kind = record["kind"]
    return {
        stage: {name: value for name, value in quantities.items() if (kind, stage, name) in both}
        for stage, quantities in record["stages"].items()
        if (kind, stage) in both
    }
