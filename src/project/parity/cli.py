"""The command `compare`: trains both twins on one configuration, or compares two traces or run folders."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from itertools import compress
from pathlib import Path

from project.commands.report import terminal
from project.commands.runs import FINISHED
from project.errors import UserError
from project.parity.compare import Divergence, Tolerance, first_divergence, pin_down
from project.parity.quantities import LAST, PREDICTIONS, Row, rows_of_runs, rows_of_traces
from project.parity.report import Report, Side, print_report, write_json
from project.parity.twins import NAMES, Twin, train
from project.parity.ulp import INCOMPARABLE
from project.trace.reading import TRACE, Trace, held, number, read_trace, shared
from project.trace.stages import STAGES


def run(known: argparse.Namespace, rest: Sequence[str]) -> int:
    """Compare as the options say, print the outcome and return the exit code.

    Args:
        known: json, ulp, rtol and keep.
        rest: options of the twins, or two paths.

    Raises:
        UserError: where the options do not go together, or one of the two cannot be had.
    """
    if not 0 <= known.ulp < INCOMPARABLE or not 0 <= known.rtol < 1:
        raise UserError("compare: --ulp takes a count from 0, --rtol a fraction from 0 to below 1")
    if known.json is not None and not known.json.absolute().parent.is_dir():  # before training
        raise UserError(f"--json: {known.json} cannot be written: no such folder; make it first")
    tolerance = Tolerance(known.ulp, known.rtol)
    if not rest:
        raise UserError("compare: nothing to compare; give it --config FILE, or two traces or run folders")
    if rest[0].startswith("-"):  # options of the twins
        with tempfile.TemporaryDirectory() if known.keep is None else nullcontext(known.keep) as folder:
            report = compare_twins(rest, Path(folder), tolerance)
    elif known.keep is not None:
        raise UserError("compare: --keep goes with --config; two paths leave nothing to keep")
    elif len(rest) != 2 or rest[1].startswith("-"):
        raise UserError(f"compare: takes two traces or run folders, --json, --ulp, --rtol; found {' '.join(rest)}")
    else:
        report = compare_paths(Path(rest[0]), Path(rest[1]), tolerance)
    if rest[0].startswith("-") and known.keep is None:
        report.a.path = report.b.path = None  # the folder was temporary
    print_report(report, terminal())
    if known.json is not None:
        write_json(report, known.json)
    return 0 if report.is_equal else 1


def compare_paths(
    a: Path, b: Path, tolerance: Tolerance, *, names: tuple[str, str] = ("A", "B"), alike: bool = False
) -> Report:
    """Compare two traces, or two run folders with their checkpoints and predictions.

    Args:
        a: one trace or run folder.
        b: the other.
        tolerance: how far apart numbers may be.
        names: what the report calls them.
        alike: both were made in the same way, as in `first_divergence`.

    Raises:
        UserError: where one of them cannot be read, or they have nothing in common.
    """
    for path in (a, b):
        if not path.exists():
            raise UserError(f"{path}: no such file or folder; name a trace or a run folder")
        if path.is_dir() and not any((path / file).is_file() for file in (TRACE, LAST)):
            raise UserError(f"{path}: not a run folder, which holds {TRACE} or {LAST}; name one, or a trace")
    are_folders = a.is_dir() and b.is_dir()
    untraced = [are_folders and not (path / TRACE).is_file() for path in (a, b)]
    left, right = (None if lacks else read_trace(path) for path, lacks in zip((a, b), untraced, strict=True))
    report = Report(_side(names[0], a, left), _side(names[1], b, right), tolerance)
    if left is not None and right is not None:
        report.rows += rows_of_traces(left, right, tolerance)
        report.divergence = first_divergence(left, right, tolerance, alike=alike)
        report.num_records = min(map(len, shared(left, right)))
        if are_folders:
            _add_ranks(report, a, b, names, alike)
        report.notes += _notes(dict(zip(names, (left, right), strict=True)), alike)
    else:
        without = " and ".join(compress(names, untraced))
        report.notes.append(f"no {TRACE} in {without}, so the first difference is unknown; see --trace.level")
    if are_folders:
        unfinished = [name for name, path in zip(names, (a, b), strict=True) if not (path / FINISHED).is_file()]
        report.notes += [f"{name} is not finished: no {FINISHED} in it" for name in unfinished]
        report.rows += rows_of_runs(a, b, tolerance)
        for file in (LAST, PREDICTIONS):
            having = [name for name, path in zip(names, (a, b), strict=True) if (path / file).is_file()]
            if len(having) == 1:
                report.notes.append(f"only in {having[0]}, not compared: {file}")
    if not report.rows and not report.num_records and report.divergence is None:
        raise UserError(f"compare: {a} and {b} have no records of a trace in common, nor {LAST}")
    return report


def _add_ranks(report: Report, a: Path, b: Path, names: tuple[str, str], alike: bool) -> None:
    """Compare the traces of the other ranks; the report names the rank that diverges first."""
    files = [{path.name for path in folder.glob("trace.rank*.jsonl")} for folder in (a, b)]
    for name, only in zip(names, (files[0] - files[1], files[1] - files[0]), strict=True):
        if alike:  # a rank without a trace is a difference
            report.rows += [Row(f"{file}, only in {name}", num_missing=1) for file in sorted(only)]
        else:
            report.notes += [f"only in {name}, not compared: {file}" for file in sorted(only)]
    for file in sorted(files[0] & files[1]):
        left, right = read_trace(a / file), read_trace(b / file)
        report.num_records += min(map(len, shared(left, right)))
        found = first_divergence(left, right, report.tolerance, alike=alike)
        if found is not None and (report.divergence is None or _order(found) < _order(report.divergence)):
            report.divergence, report.trace_file = found, file


def _order(divergence: Divergence) -> tuple[int, int]:
    """Sort divergences by record, then by stage."""
    return max(divergence.numbers), STAGES.index(divergence.stage)


def compare_twins(arguments: Sequence[str], folder: Path, tolerance: Tolerance) -> Report:
    """Train both twins below `folder`; where they differ, train again to find the element that differs.

    Raises:
        UserError: where training fails.
    """
    runs = _train_both(arguments, folder, [])
    report = compare_paths(runs["hand"], runs["lit"], tolerance, names=(NAMES["hand"], NAMES["lit"]), alike=True)
    if report.divergence is not None and any(difference.tensor for difference in report.divergence.differences):
        again = _train_both(arguments, folder, [f"--trace.tensors_at={place}" for place in report.divergence.numbers])
        file = Path(report.trace_file).with_suffix(".pt")
        whole = again["hand"] / file, again["lit"] / file
        if all(path.is_file() for path in whole):
            pin_down(report.divergence, *whole)
    return report


def _train_both(arguments: Sequence[str], folder: Path, own: Sequence[str]) -> dict[Twin, Path]:
    runs = {}
    for position, (twin, name) in enumerate(NAMES.items()):
        again = " again, saving the tensors of the first difference" if own else ""
        print(f"training: {name}{again}", file=sys.stderr)
        runs[twin] = train(twin, folder, [*arguments, "--trace.level=full", *own[position : position + 1]])
    return runs


def _side(name: str, path: Path, trace: Trace | None) -> Side:
    metrics: dict[str, float] = {}
    for record in trace.records if trace is not None else []:
        if record["kind"] == "evaluation":
            found = {key: number(value) for key, value in record["stages"].get("evaluation", {}).items()}
            metrics = {key: value for key, value in found.items() if value is not None}
    mark = path / FINISHED
    seconds = json.loads(mark.read_text(encoding="utf-8"))["seconds"] if mark.is_file() else None
    return Side(name, str(path), metrics, seconds)


def _notes(traces: dict[str, Trace], alike: bool) -> list[str]:
    """Notes on differences between the headers, on records that only one trace has, and on a trace that is cut off."""
    (name_a, a), (name_b, b) = traces.items()
    notes = [
        f"{key}: {a.header.get(key)} in {name_a}, {b.header.get(key)} in {name_b}"
        for key in ("torch", "device", "level")
        if a.header.get(key) != b.header.get(key)
    ]
    for name, trace, other in ((name_a, a, b), (name_b, b, a)):
        if trace.is_cut_off:
            notes.append(f"{name} ends in the middle of a line, as of a run that was killed; the rest is compared")
        lone = held(trace) - held(other)
        whole = [part for part in sorted(lone) if part[:-1] not in lone and (len(part) == 3 or not alike)]
        if whole:
            notes.append(f"only in {name}, not compared: {', '.join('.'.join(part) for part in whole)}")
    return notes
