"""The report of `compare`: tables and the first divergence in the terminal, and all of it as JSON."""

from __future__ import annotations

import json
import math
import textwrap
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from project.errors import UserError
from project.parity.compare import MISSING, THERE, Difference, Divergence, Tolerance
from project.parity.quantities import Row
from project.parity.ulp import INCOMPARABLE
from project.trace.stages import USUAL_CAUSES

SHOWN = 3
"""Differences that are printed; JSON has all of them."""


@dataclass
class Side:
    """One of the two runs."""

    name: str
    path: str | None = None
    """Its trace or run folder; None where it was temporary."""
    metrics: dict[str, float] = field(default_factory=dict)
    """Of the last validation."""
    seconds: float | None = None
    """Of training, with writing the trace."""


@dataclass
class Report:
    """The outcome of a comparison."""

    a: Side
    b: Side
    tolerance: Tolerance
    rows: list[Row] = field(default_factory=list)
    divergence: Divergence | None = None
    num_records: int = 0
    """Trace records that were compared."""
    trace_file: str = "trace.jsonl"
    """The trace of the rank that diverges first."""
    notes: list[str] = field(default_factory=list)

    @property
    def is_equal(self) -> bool:
        """Whether nothing differs by more than the tolerance."""
        return self.divergence is None and all(row.is_equal for row in self.rows)


def print_report(report: Report, console: Console) -> None:
    """Print the tables and the first divergence, or the verdict."""
    a, b = report.a, report.b
    for side in (a, b):
        if side.path is not None:
            console.print(Text(f"{side.name}: {side.path}"))
    if report.rows:
        console.print(_rows_table(report.rows))
    if a.metrics or b.metrics or a.seconds is not None or b.seconds is not None:
        console.print(_sides_table(a, b))
    for note in report.notes:
        console.print(Text(f"note: {note}"))
    if report.divergence is not None:
        _print_divergence(report.divergence, a.name, b.name, console)
    elif not report.is_equal:
        different = ", ".join(row.quantity for row in report.rows if not row.is_equal)
        lacking = "there are no traces to find the first difference"
        where = "the traces that both have are equal" if report.num_records else lacking
        console.print(Text(f"different: {different}; {where}"))
    else:
        bound = "every bit" if report.tolerance.is_exact else f"within {_tolerance(report.tolerance)}"
        num_values = sum(row.num_values for row in report.rows)
        console.print(Text(f"equal, {bound}: {num_values:,} values, {report.num_records:,} records of the traces"))


def write_json(report: Report, path: Path) -> None:
    """Write the report as JSON; floats also in hexadecimal.

    Raises:
        UserError: where the file cannot be written.
    """
    content: dict[str, Any] = {
        "equal": report.is_equal,
        "tolerance": asdict(report.tolerance),
        "a": asdict(report.a),
        "b": asdict(report.b),
        "quantities": [{**asdict(row), "equal": row.is_equal} for row in report.rows],
        "num_records": report.num_records,
        "notes": report.notes,
        "first_divergence": None,
    }
    if (divergence := report.divergence) is not None:
        content["first_divergence"] = {
            "stage": divergence.stage,
            **divergence.position,
            "records": divergence.numbers,
            "differences": [_difference_json(difference) for difference in divergence.differences],
            "usual_causes": USUAL_CAUSES[divergence.stage],
        }
    try:
        path.write_text(json.dumps(_plain(content), indent=2, allow_nan=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise UserError(f"--json: {path} cannot be written: {error.strerror}") from None


def _rows_table(rows: list[Row]) -> Table:
    table = Table()
    table.add_column("quantity")
    table.add_column("values", justify="right")
    table.add_column("equal?")
    table.add_column("max ULP", justify="right")
    table.add_column("max difference", justify="right")
    for row in rows:
        different = [f"{row.num_different:,} differ"] if row.num_different else []
        missing = [f"{row.num_missing:,} missing"] if row.num_missing else []
        verdict = ", ".join([*different, *missing]) or "equal"
        table.add_row(row.quantity, f"{row.num_values:,}", verdict, _ulp(row.max_ulp), f"{row.max_difference:.3g}")
    return table


def _sides_table(a: Side, b: Side) -> Table:
    table = Table()
    table.add_column("last validation, wall time")
    table.add_column(a.name, justify="right")
    table.add_column(b.name, justify="right")
    for name in a.metrics | b.metrics:
        table.add_row(Text(name), *(f"{side.metrics[name]:.6f}" if name in side.metrics else "" for side in (a, b)))
    if a.seconds is not None or b.seconds is not None:
        table.add_row("training", *("" if side.seconds is None else f"{side.seconds:.1f} s" for side in (a, b)))
    return table


def _print_divergence(divergence: Divergence, name_a: str, name_b: str, console: Console) -> None:
    position = dict(divergence.position)
    step = "optimizer step {}" if position["kind"] in ("micro_batch", "step") else "after {} optimizer steps"
    words = {"epoch": "epoch {}", "micro_batch": "micro-batch {}", "step": step}
    where = ", ".join(words[key].format(position[key]) for key in words if key in position)
    console.print(Text(f"first divergence: {where}, stage {divergence.stage}   (all counted from 0)", style="bold"))
    width = max(len(name_a), len(name_b))
    for difference in divergence.differences[:SHOWN]:
        sides = {name_a: difference.a, name_b: difference.b}
        missing_in = "".join(f"missing in {name}" for name, value in sides.items() if value == MISSING)
        console.print(Text(f"  {difference.quantity}: {missing_in or _distance(difference)}"))
        for name, value in sides.items():
            if value not in (MISSING, THERE):
                console.print(Text(f"    {name:<{width}}  {_value(value)}"))
    more = len(divergence.differences) - SHOWN
    if more > 0:
        console.print(Text(f"  and {more:,} more in this stage"))
    causes = f"usual causes: {USUAL_CAUSES[divergence.stage]}"
    console.print(Text(textwrap.indent(textwrap.fill(causes, min(console.width, 120) - 2), "  ")))


def _distance(difference: Difference) -> str:
    if difference.ulp is None:
        return "differs" if difference.tensor is None else "differ, though its norm does not"
    ulp = [f"{_ulp(difference.ulp)} ULP"] if isinstance(difference.a, float) and difference.ulp < INCOMPARABLE else []
    value = [f"{difference.value:.3g} in value"] if math.isfinite(difference.value) else []
    return ", ".join([*ulp, *value]) or "not comparable"


def _value(value: Any) -> str:
    return f"{value.hex()}  {value!r}" if isinstance(value, float) else str(value)


def _ulp(ulp: int) -> str:
    if ulp == INCOMPARABLE:
        return "not comparable"
    return f"{ulp:,}" if ulp < 10**9 else f"{ulp:.2e}"


def _tolerance(tolerance: Tolerance) -> str:
    parts = [f"{tolerance.ulp} ULP"] if tolerance.ulp else []
    return " or ".join([*parts, *([f"a relative difference of {tolerance.rtol:g}"] if tolerance.rtol else [])])


def _difference_json(difference: Difference) -> dict[str, Any]:
    sides = {"a": difference.a, "b": difference.b}
    hexadecimal = {f"{side}_hex": value.hex() for side, value in sides.items() if isinstance(value, float)}
    return {**asdict(difference), **hexadecimal, "difference": None if difference.ulp is None else difference.value}


def _plain(value: Any) -> Any:
    """Values for JSON: infinity and NaN as strings, `INCOMPARABLE` as null."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if value == INCOMPARABLE else value
