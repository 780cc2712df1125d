"""The command `compare`: trains both twins on one configuration, or takes two traces or run folders as they are."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import NoReturn

from project.errors import UserError
from project.parity.compare import Tolerance, Trace, first_divergence, pin_down, read_trace
from project.parity.quantities import rows_of_runs, rows_of_traces
from project.parity.report import Report, Side, print_report, write_json
from project.parity.twins import Twin, train
from project.report import terminal
from project.runs import FINISHED

USAGE = """\
python -m project compare [options] --config FILE [--config FILE …] [--any.key VALUE …]
       python -m project compare [options] A B"""

DESCRIPTION = """\
Train both twins on one configuration, each in a fresh process, and compare every bit of what they leave behind; or
compare two traces or run folders, made anywhere. Says where they first part: epoch, micro-batch, optimizer step, stage.
Exit codes: 0 equal, 1 different, 2 could not run."""

NAMES: dict[Twin, str] = {"hand": "hand", "lit": "Lightning"}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UserError(f"compare: {message}; see python -m project compare --help")


def main(arguments: Sequence[str]) -> int:
    """Run `compare`; returns the exit code."""
    parser = _Parser(
        prog="python -m project compare",
        usage=USAGE,
        description=DESCRIPTION,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the outcome as JSON, too")
    parser.add_argument("--ulp", type=int, default=0, help="count numbers as equal up to this many ULP apart")
    parser.add_argument("--rtol", type=float, default=0.0, help="count numbers as equal up to this relative difference")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep both runs and their traces here")
    known, rest = parser.parse_known_args(list(arguments))
    if known.ulp < 0 or not 0 <= known.rtol < 1:
        raise UserError("compare: --ulp takes a count from 0, --rtol a fraction from 0 to below 1")
    tolerance = Tolerance(known.ulp, known.rtol)
    if rest and not rest[0].startswith("-"):
        if len(rest) != 2:
            raise UserError(f"compare: takes two traces or run folders, found {len(rest)}: {' '.join(rest)}")
        report = compare_paths(Path(rest[0]), Path(rest[1]), tolerance)
    elif rest:
        with tempfile.TemporaryDirectory() if known.keep is None else nullcontext(known.keep) as folder:
            report = compare_twins(rest, Path(folder), tolerance)
    else:
        raise UserError("compare: nothing to compare; give it --config FILE, or two traces or run folders")
    print_report(report, terminal())
    if known.json is not None:
        write_json(report, known.json)
    return 0 if report.is_equal else 1


def compare_paths(a: Path, b: Path, tolerance: Tolerance) -> Report:
    """Compare two traces or run folders as they are.

    Raises:
        UserError: where one of them cannot be read.
    """
    left, right = read_trace(a), read_trace(b)
    rows = list(rows_of_traces(left, right, tolerance))
    if a.is_dir() and b.is_dir():
        rows += rows_of_runs(a, b, tolerance)
    return Report(
        a=_side(str(a), a, left),
        b=_side(str(b), b, right),
        tolerance=tolerance,
        rows=rows,
        divergence=first_divergence(left, right, tolerance),
        num_records=min(len(left.records), len(right.records)),
        notes=_notes(left, right),
    )


def compare_twins(arguments: Sequence[str], folder: Path, tolerance: Tolerance) -> Report:
    """Train both twins below `folder`, and once more where they part, to learn which element of which tensor differs.

    Raises:
        UserError: where one of them cannot be trained.
    """
    runs = _train_both(arguments, folder, [])
    report = compare_paths(runs["hand"], runs["lit"], tolerance)
    report.a.name, report.b.name = NAMES["hand"], NAMES["lit"]
    if report.divergence is not None and -1 not in report.divergence.numbers:
        again = _train_both(arguments, folder, [f"--trace.tensors_at={number}" for number in report.divergence.numbers])
        whole = [again[twin] / "trace.pt" for twin in NAMES]
        if all(path.is_file() for path in whole):
            pin_down(report.divergence, *whole)
    return report


def _train_both(arguments: Sequence[str], folder: Path, own: Sequence[str]) -> dict[Twin, Path]:
    runs = {}
    for position, (twin, name) in enumerate(NAMES.items()):
        again = " again, saving the tensors where they part" if own else ""
        print(f"training: {name}{again}", file=sys.stderr)
        runs[twin] = train(twin, folder, [*arguments, "--trace.level=full", *own[position : position + 1]])
    return runs


def _side(name: str, path: Path, trace: Trace) -> Side:
    metrics: dict[str, float] = {}
    for record in trace.records:
        if record["kind"] == "evaluation":
            metrics = {key: float.fromhex(value) for key, value in record["stages"]["evaluation"].items()}
    mark = path / FINISHED
    seconds = json.loads(mark.read_text(encoding="utf-8"))["seconds"] if mark.is_file() else None
    return Side(name, metrics, seconds)


def _notes(a: Trace, b: Trace) -> list[str]:
    """What a reader should know of two traces that were not made alike."""
    notes = [
        f"{key}: {a.header.get(key)} against {b.header.get(key)}"
        for key in ("torch", "device", "level")
        if a.header.get(key) != b.header.get(key)
    ]
    for mine, other in ((a, b), (b, a)):
        only = {record["kind"] for record in mine.records} - {record["kind"] for record in other.records}
        if only:
            notes.append(f"only in {mine.path}, not compared: records of kind {', '.join(sorted(only))}")
    return notes
