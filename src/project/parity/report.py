"""What `compare` says: the table and the first divergence for a person, the same as JSON for a program."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from project.errors import UserError
from project.parity.compare import Difference, Divergence, Tolerance
from project.parity.quantities import Row
from project.parity.stages import USUAL_CAUSES
from project.parity.ulp import INCOMPARABLE

SHOWN = 3
"""Differences of the diverging stage that are printed."""


@dataclass
class Side:
    """One of the two runs."""

    name: str
    metrics: dict[str, float] = field(default_factory=dict)
    """Of its last validation."""
    seconds: float | None = None
    """Of training, traces included."""


@dataclass
class Report:
    """The outcome of a comparison."""

    a: Side
    b: Side
    tolerance: Tolerance
    rows: list[Row]
    divergence: Divergence | None
    num_records: int
    notes: list[str] = field(default_factory=list)

    @property
    def is_equal(self) -> bool:
        """Whether nothing differs by more than the tolerance."""
        return self.divergence is None and not any(row.num_different for row in self.rows)


def print_report(report: Report, console: Console) -> None:
    """Table, first divergence, verdict."""
    a, b = report.a, report.b
    if report.rows:
        console.print(_rows_table(report))
    if a.metrics or a.seconds is not None:
        console.print(_sides_table(a, b))
    for note in report.notes:
        console.print(Text(f"note: {note}"))
    if report.divergence is not None:
        _print_divergence(report.divergence, a.name, b.name, console)
    elif not report.is_equal:
        different = ", ".join(row.quantity for row in report.rows if row.num_different)
        console.print(Text(f"different: {different}; the traces do not say where they part"))
    else:
        bound = "every bit" if report.tolerance.is_exact else f"within {_tolerance(report.tolerance)}"
        num_values = sum(row.num_values for row in report.rows)
        console.print(Text(f"equal, {bound}: {num_values:,} values, {report.num_records:,} records of the traces"))


def write_json(report: Report, path: Path) -> None:
    """The same for programs; floats also stand in hexadecimal.

    Raises:
        UserError: where the file cannot be written.
    """
    content: dict[str, Any] = {
        "equal": report.is_equal,
        "tolerance": asdict(report.tolerance),
        "a": asdict(report.a),
        "b": asdict(report.b),
        "quantities": [_finite(asdict(row)) | {"equal": not row.num_different} for row in report.rows],
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
        path.write_text(json.dumps(content, indent=2, default=str) + "\n", encoding="utf-8")
    except OSError as error:
        raise UserError(f"--json: {path} cannot be written: {error.strerror}") from None


def _rows_table(report: Report) -> Table:
    table = Table(title=Text(f"{report.a.name} against {report.b.name}"), title_justify="left")
    table.add_column("quantity")
    table.add_column("values", justify="right")
    table.add_column("equal")
    table.add_column("largest difference: ULP", justify="right")
    table.add_column("value", justify="right")
    for row in report.rows:
        verdict = "equal" if not row.num_different else f"{row.num_different:,} differ"
        table.add_row(row.quantity, f"{row.num_values:,}", verdict, _ulp(row.max_ulp), f"{row.max_difference:.3g}")
    return table


def _sides_table(a: Side, b: Side) -> Table:
    table = Table()
    table.add_column("last validation, wall time")
    table.add_column(Text(a.name), justify="right")
    table.add_column(Text(b.name), justify="right")
    for name in a.metrics:
        other = b.metrics.get(name)
        table.add_row(Text(name), f"{a.metrics[name]:.6f}", "" if other is None else f"{other:.6f}")
    if a.seconds is not None and b.seconds is not None:
        table.add_row("training, traced", f"{a.seconds:.1f} s", f"{b.seconds:.1f} s")
    return table


def _print_divergence(divergence: Divergence, name_a: str, name_b: str, console: Console) -> None:
    position = dict(divergence.position)
    words = {"epoch": "epoch", "micro_batch": "micro-batch", "step": "optimizer step"}
    where = ", ".join(f"{word} {position[key]}" for key, word in words.items() if key in position)
    console.print(Text(f"first divergence: {where}, stage {divergence.stage}   (all counted from 0)", style="bold"))
    width = max(len(name_a), len(name_b))
    for difference in divergence.differences[:SHOWN]:
        console.print(Text(f"  {difference.quantity}: {_distance(difference)}"))
        console.print(Text(f"    {name_a:<{width}}  {_value(difference.a)}"))
        console.print(Text(f"    {name_b:<{width}}  {_value(difference.b)}"))
    more = len(divergence.differences) - SHOWN
    if more > 0:
        console.print(Text(f"  and {more:,} more in this stage"))
    console.print(Text(f"  usual causes: {USUAL_CAUSES[divergence.stage]}"))


def _distance(difference: Difference) -> str:
    if difference.ulp is None:
        return "differs"
    value = "" if math.isinf(difference.value) else f", {difference.value:.3g} in value"
    return f"{_ulp(difference.ulp)} ULP{value}"


def _value(value: Any) -> str:
    return f"{value.hex()}  {value!r}" if isinstance(value, float) else str(value)


def _ulp(ulp: int) -> str:
    return "not comparable" if ulp == INCOMPARABLE else f"{ulp:,}"


def _tolerance(tolerance: Tolerance) -> str:
    parts = [f"{tolerance.ulp} ULP"] if tolerance.ulp else []
    return " or ".join([*parts, *([f"a relative difference of {tolerance.rtol:g}"] if tolerance.rtol else [])])


def _difference_json(difference: Difference) -> dict[str, Any]:
    hexadecimal = {
        f"{side}_hex": value.hex()
        for side, value in (("a", difference.a), ("b", difference.b))
        if isinstance(value, float)
    }
    return _finite({**asdict(difference), **hexadecimal, "difference": difference.value})


def _finite(values: dict[str, Any]) -> dict[str, Any]:
    """JSON knows no infinity and no NaN: they become strings."""
    return {
        name: str(value) if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in values.items()
    }
