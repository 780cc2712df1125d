"""Trains both twins in every cell of the parity matrix, compares all that they leave behind, and writes docs/parity.md.

    python scripts/parity_matrix.py                 # what `make parity` runs
    python scripts/parity_matrix.py --no-compile    # only the cells without torch.compile, which start fast

The full product of precision, accumulation, clipping and compile; and, of the other axes, a selection in which every
pair of values of two axes meets at least once. Each twin runs its cells in a process of its own, both side by side.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from project.parity.cli import compare_paths
from project.parity.compare import EXACT, read_trace
from project.parity.twins import Twin, newest_run, train_here

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "parity.md"
BEGIN, END = "<!-- figures of make parity -->", "<!-- end of figures -->"

Cell = Mapping[str, str]
"""Axis: value."""

NUM_TRAIN = 49
"""Rows: batches of four leave a last one of one example, and 13 micro-batches leave 3, 4 and 41 a short last window."""

OVERFLOW = '--model.class_weights={"animal": 8, "colour": 8, "tool": 8}'
"""Losses eight times as large overflow float16 until the scaler has halved its scale a few times."""


def overlay(name: str) -> list[str]:
    """The option that adds a configuration of the project."""
    return ["--config", str(ROOT / "configs" / f"{name}.yaml")]


AXES: dict[str, dict[str, list[str]]] = {
    "precision": {
        "32-true": ["--trainer.precision=32-true"],
        "bf16-mixed": ["--trainer.precision=bf16-mixed"],
        "bf16-true": ["--trainer.precision=bf16-true"],
        "16-mixed": ["--trainer.precision=16-mixed", OVERFLOW],
    },
    "accumulation": {number: [f"--trainer.accumulate_grad_batches={number}"] for number in ("1", "3", "4", "41")},
    "clipping": {
        "none": ["--trainer.gradient_clip_val=null"],
        "norm": ["--trainer.gradient_clip_val=0.5"],
        "value": ["--trainer.gradient_clip_val=0.05", "--trainer.gradient_clip_algorithm=value"],
    },
    "compile": {"off": [], "on": overlay("compile")},
    "network": {
        "TextCNN": [],
        "pooling": overlay("pooling"),
        "Transformer": overlay("transformer"),
        "checkpointing": overlay("checkpointing"),
    },
    "data": {
        "0 workers": [],
        "2 workers": ["--data.num_workers=2"],
        "drop_last": ["--data.drop_last=true"],
    },
    "optimizer": {
        "AdamW, OneCycle": [],
        "SGD, per epoch": overlay("sgd"),
        "AdamW, plateau": overlay("plateau"),
    },
}
"""The first value of each axis is the default where an axis is not varied. Overlays come first, in `options`."""


def product() -> list[Cell]:
    """Every combination of precision, accumulation, clipping and compile."""
    varied = ("precision", "accumulation", "clipping", "compile")
    return [dict(zip(varied, values, strict=True)) for values in itertools.product(*(AXES[axis] for axis in varied))]


def pairs() -> list[Cell]:
    """Cells without compile in which every pair of values of two axes meets."""
    return covering({axis: list(values) for axis, values in AXES.items() if axis != "compile"})


def covering(axes: Mapping[str, Sequence[str]], seed: int = 0) -> list[Cell]:
    """Cells in which every pair of values of two axes meets; chosen greedily, the same each time."""
    left = {
        ((one, a), (other, b))
        for one, other in itertools.combinations(axes, 2)
        for a, b in itertools.product(axes[one], axes[other])
    }
    numbers = random.Random(seed)
    cells: list[Cell] = []
    while left:
        (one, a), (other, b) = min(left)
        tries = [
            {axis: numbers.choice(values) for axis, values in axes.items()} | {one: a, other: b} for _ in range(50)
        ]
        best = max(tries, key=lambda cell: len(left & set(itertools.combinations(cell.items(), 2))))
        left -= set(itertools.combinations(best.items(), 2))
        cells.append(best)
    return cells


def options(cell: Cell) -> list[str]:
    """What both twins are given in this cell."""
    chosen = [option for axis, value in cell.items() for option in AXES[axis][value]]
    overlays = [part for flag, file in itertools.pairwise(chosen) if flag == "--config" for part in (flag, file)]
    values = [option for option in chosen if option.startswith("--") and option != "--config"]
    # Some cells train into NaN, alike in both twins.
    return ["--config", str(ROOT / "configs" / "default.yaml"), *overlays, *values, "--model.not_finite=ignore"]


def run_cells(twin: Twin, folder: Path, cells: Sequence[Cell], arguments: Sequence[str]) -> Iterator[Path]:
    """Train `twin` in each cell, in this process; yields the run folders.

    A compiled network starts from a cold dynamo each time: the first shape that it sees gets a graph of its own.
    """
    for number, cell in enumerate(cells):
        torch._dynamo.reset()
        torch.use_deterministic_algorithms(False)
        yield train_here(twin, folder / f"cell_{number}", [*options(cell), *arguments, "--trace.level=full"])


def fault(cell: Cell, hand: Path, lit: Path) -> str | None:
    """What is wrong with a cell: the twins differ, or float16 never overflowed although it was to be forced to."""
    report = compare_paths(hand, lit, EXACT, alike=True)
    if not report.is_equal:
        stage = report.divergence.stage if report.divergence else "only in what was saved"
        return f"the twins differ, stage {stage}"
    if cell.get("precision") == "16-mixed":
        steps = [record["stages"]["optimizer"] for record in read_trace(hand).records if record["kind"] == "step"]
        if len({step["skipped"] for step in steps}) < 2:
            return "not both an overflow and a step that was taken"
    return None


def corpus_arguments(folder: Path) -> list[str]:
    """Write the tiny corpus of the tests; returns the options that name it, with the run's size."""
    sys.path.insert(0, str(ROOT / "tests"))
    from tiny_corpus import write_corpus

    corpus = write_corpus(folder, num_train=NUM_TRAIN)
    return [*corpus.arguments, "--trainer.max_epochs=6", "--trainer.accelerator=cpu", "--data.batch_size=4"]


def main() -> int:
    """Run the matrix; returns 1 where a cell is not equal."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-compile", action="store_true", help="leave out the compiled cells, and the page")
    parser.add_argument("--worker", nargs=2, metavar=("TWIN", "PLAN"), help=argparse.SUPPRESS)
    known = parser.parse_args()
    if known.worker:
        twin, plan = known.worker[0], json.loads(Path(known.worker[1]).read_text(encoding="utf-8"))
        torch.set_num_threads(1)
        for number, _ in enumerate(run_cells(twin, Path(plan["folder"]), plan["cells"], plan["arguments"])):
            print(f"{twin}: cell {number + 1} of {len(plan['cells'])}", file=sys.stderr, flush=True)
        return 0
    cells = [cell for cell in [*product(), *pairs()] if not (known.no_compile and cell.get("compile") == "on")]
    start_seconds = time.perf_counter()
    with tempfile.TemporaryDirectory() as name:
        faults = run_both(Path(name), cells)
    seconds = time.perf_counter() - start_seconds
    for cell, found in zip(cells, faults, strict=True):
        if found is not None:
            print(f"NOT EQUAL: {', '.join(f'{axis} {value}' for axis, value in cell.items())}: {found}")
    num_equal = faults.count(None)
    print(f"{num_equal} of {len(cells)} cells equal, every bit, in {seconds / 60:.1f} minutes")
    if not known.no_compile:
        write_page(figures(cells, faults, seconds), BEGIN, END)
    return 0 if num_equal == len(cells) else 1


def run_both(folder: Path, cells: Sequence[Cell]) -> list[str | None]:
    """Train both twins in all cells, side by side; returns each cell's fault.

    Raises:
        RuntimeError: where a twin could not be trained.
    """
    plan = folder / "plan.json"
    arguments = corpus_arguments(folder)
    plan.write_text(json.dumps({"folder": str(folder), "cells": cells, "arguments": arguments}), encoding="utf-8")
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(ROOT / ".cache" / "inductor"), "OMP_NUM_THREADS": "1"}
    twins: tuple[Twin, ...] = ("hand", "lit")
    workers = {}
    for twin in twins:
        command = [sys.executable, __file__, "--worker", twin, str(plan)]
        with (folder / f"{twin}.out").open("wb") as output:
            workers[twin] = subprocess.Popen(command, stdout=output, env=environment)
    for twin, worker in workers.items():
        if worker.wait():
            raise RuntimeError(f"the {twin} twin ended with code {worker.returncode}; its messages stand above")
    return [
        fault(cell, *(newest_run(folder / f"cell_{number}", twin) for twin in twins))
        for number, cell in enumerate(cells)
    ]


def figures(cells: Sequence[Cell], faults: Sequence[str | None], seconds: float) -> list[str]:
    """What the page says of the matrix."""
    verdicts = list(zip(cells, faults, strict=True))
    full = [(cell, found) for cell, found in verdicts if "compile" in cell]
    rest = [found for cell, found in verdicts if "compile" not in cell]
    accumulations = list(AXES["accumulation"])
    lines = [
        f"{faults.count(None)} of {len(cells)} cells equal, every bit "
        f"(torch {torch.__version__}, {seconds / 60:.0f} minutes).",
        "",
        "Equal cells of the full product; each number counts the three ways of clipping (none, norm, value):",
        "",
        f"| precision | compile | {' | '.join(f'accumulate {number}' for number in accumulations)} |",
        f"|---|---|{'---|' * len(accumulations)}",
    ]
    for precision, compiled in itertools.product(AXES["precision"], AXES["compile"]):
        counts = []
        for number in accumulations:
            wanted: Any = {"precision": precision, "compile": compiled, "accumulation": number}
            found = [fault for cell, fault in full if wanted.items() <= cell.items()]
            counts.append(f"{found.count(None)} of {len(found)}")
        lines.append(f"| {precision} | {compiled} | {' | '.join(counts)} |")
    lines += ["", f"Pairs of all axes but compile: {rest.count(None)} of {len(rest)} cells equal."]
    return lines


def write_page(lines: Sequence[str], begin: str, end: str) -> None:
    """Put the lines between two marks of docs/parity.md."""
    text = PAGE.read_text(encoding="utf-8")
    before, after = text[: text.index(begin) + len(begin)], text[text.index(end) :]
    PAGE.write_text("\n".join([before, *lines, after]), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
