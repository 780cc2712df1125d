"""Trains both twins in the distributed cells, compares all that their ranks leave, and writes docs/parity.md.

    python scripts/parity_ranks.py            # what `make parity` runs after parity_matrix.py
    python scripts/parity_ranks.py --whole    # `make parity-whole`: the full product of everything, two hours

CPU and gloo. The full product of strategy, ranks, precision, accumulation and clipping for the strategies whose ranks
are started by a command line, one session of ranks training one twin in many cells; for compiled networks, and for
ddp_spawn and ddp_fork, starting ranks anew in every run, a selection in which every pair of values of two axes meets.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from parity_matrix import OVERFLOW, ROOT, Cell, covering, fault, overlay, write_page
from project.hand.distributed import process_group
from project.parity.twins import Twin, newest_run, train_here
from project.ranks.world import World

BEGIN, END = "<!-- figures of the distributed cells -->", "<!-- end of the distributed figures -->"

STRATEGIES: dict[str, list[str]] = {
    "ddp": ["--trainer.strategy=ddp"],
    "ddp, unused parameters": ["--trainer.strategy=ddp_find_unused_parameters_true"],
    "ddp, bucket views": ["--trainer.strategy=ddp", "--distributed.gradient_as_bucket_view=true"],
    "ddp, static graph": ["--trainer.strategy=ddp", "--distributed.static_graph=true"],
    "fsdp2": ["--trainer.strategy=fsdp2"],
    "fsdp2, reduced once": ["--trainer.strategy=fsdp2", "--distributed.reduce_once_per_window=true"],
}
"""Strategies whose ranks are started by a command line."""

STARTING: dict[str, list[str]] = {
    "ddp_spawn": ["--trainer.strategy=ddp_spawn"],
    "ddp_fork": ["--trainer.strategy=ddp_fork"],
}
"""Strategies whose ranks are started as functions."""

OTHERS: dict[str, dict[str, list[str]]] = {
    "ranks": {"2": ["--trainer.devices=2"], "3": ["--trainer.devices=3"]},
    "precision": {
        "32-true": ["--trainer.precision=32-true"],
        "bf16-mixed": ["--trainer.precision=bf16-mixed"],
        "16-mixed": ["--trainer.precision=16-mixed", OVERFLOW, "--trainer.max_epochs=6"],
    },
    "accumulation": {number: [f"--trainer.accumulate_grad_batches={number}"] for number in ("1", "3")},
    "clipping": {
        "none": ["--trainer.gradient_clip_val=null"],
        "norm": ["--trainer.gradient_clip_val=0.5"],
        "value": ["--trainer.gradient_clip_val=0.05", "--trainer.gradient_clip_algorithm=value"],
    },
}
COMPILE: dict[str, list[str]] = {"off": [], "on": ["--model.compile=true", "--trainer.deterministic=true"]}

NUM_TRAIN = 49
"""Rows: 7 micro-batches of 4 on each of two ranks, of which the last, alone in its window, leaves a rank without a row;
or 5 on each of three, the last window of 3 being short and the last micro-batch leaving two ranks without a row."""


TIMEOUT_SECONDS = 600
"""For which the ranks of a session wait for each other: one may be compiling."""


def product(strategies: Sequence[str]) -> list[Cell]:
    """Every combination but accumulation with a static graph, which torch does not take."""
    axes = {"strategy": list(strategies), **{axis: list(values) for axis, values in OTHERS.items()}}
    return [
        cell for values in itertools.product(*axes.values()) if allowed(cell := dict(zip(axes, values, strict=True)))
    ]


def pairs(strategies: Sequence[str], compiled: str) -> list[Cell]:
    """Cells in which every pair of values of two axes meets, as far as torch takes it."""
    axes = {"strategy": list(strategies), **{axis: list(values) for axis, values in OTHERS.items()}}
    cells = [dict(cell) | {"compile": compiled} for cell in covering(axes)]
    return [cell if allowed(cell) else cell | {"accumulation": "1"} for cell in cells]


def allowed(cell: Cell) -> bool:
    """Whether torch takes this combination."""
    return cell["strategy"] != "ddp, static graph" or cell["accumulation"] == "1"


def options(cell: Cell) -> list[str]:
    """What both twins are given in this cell."""
    chosen = {**STRATEGIES, **STARTING}[cell["strategy"]] + COMPILE[cell.get("compile", "off")]
    values = [option for axis, choices in OTHERS.items() for option in choices[cell[axis]]]
    sizes = [
        "--trainer.max_epochs=2",
        "--data.batch_size=4",
        "--model.network.num_filters=8",
        "--model.not_finite=ignore",
    ]
    return [*overlay("default"), *sizes, *chosen, *values, "--trainer.accelerator=cpu", "--trace.level=full"]


def run_all(folder: Path, cells: Sequence[Cell], arguments: Sequence[str]) -> list[str | None]:
    """Train both twins in all cells, side by side; returns each cell's fault.

    Cells with the same number of ranks share a session; those of `STARTING` start their ranks themselves.
    """
    for ranks in ("2", "3", "1"):
        mine = [(number, cell) for number, cell in enumerate(cells) if session_of(cell) == ranks]
        if mine:
            run_session(folder, ranks, mine, arguments)
    return faults_of(folder, cells)


def faults_of(folder: Path, cells: Sequence[Cell]) -> list[str | None]:
    """Compare what the two sessions left below `folder`."""
    found = []
    for number, cell in enumerate(cells):
        home = folder / session_of(cell) / f"cell_{number}"
        found.append(fault(cell, newest_run(home, "hand"), newest_run(home, "lit")))
    return found


def session_of(cell: Cell) -> str:
    """Ranks of the session in which this cell is run."""
    return "1" if cell["strategy"] in STARTING else cell["ranks"]


def run_session(folder: Path, ranks: str, cells: Sequence[tuple[int, Cell]], arguments: Sequence[str]) -> None:
    """Run one session of each twin, side by side.

    Raises:
        RuntimeError: where a twin could not be trained; its messages are above.
    """
    plan = folder / f"plan_{ranks}.json"
    content = {"folder": str(folder / ranks), "cells": dict(cells), "arguments": list(arguments)}
    plan.write_text(json.dumps(content), encoding="utf-8")
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "TORCHINDUCTOR_CACHE_DIR": str(ROOT / ".cache" / "inductor"),
        "PYTHONPATH": os.pathsep.join([str(ROOT / "scripts"), os.environ.get("PYTHONPATH", "")]),
    }
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", ranks]
    launcher += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0", "--local-addr", "localhost"]
    workers: dict[Twin, subprocess.Popen[bytes]] = {}
    twins: tuple[Twin, ...] = ("hand", "lit")
    for twin in twins:
        with (folder / f"{twin}_{ranks}.out").open("wb") as output:
            command = [*(launcher if ranks != "1" else [sys.executable]), __file__, "--worker", twin, str(plan)]
            workers[twin] = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment)
    codes = {twin: worker.wait() for twin, worker in workers.items()}
    for twin, code in codes.items():
        if code:
            said = (folder / f"{twin}_{ranks}.out").read_text(encoding="utf-8", errors="replace")
            raise RuntimeError(f"the {twin} twin ended with code {code}:\n{said[-4000:]}")


def work(twin: Twin, plan: dict[str, Any]) -> None:
    """Train the twin in all cells of a session, as one of its ranks, which stay connected from cell to cell."""
    with process_group(World.here(), torch.device("cpu"), TIMEOUT_SECONDS):
        for number, cell in plan["cells"].items():
            torch._dynamo.reset()
            torch.use_deterministic_algorithms(False)
            train_here(twin, Path(plan["folder"]) / f"cell_{number}", [*options(cell), *plan["arguments"]])


def corpus_arguments(folder: Path) -> list[str]:
    """Write the tiny corpus of the tests; returns the options that name it."""
    sys.path.insert(0, str(ROOT / "tests"))
    from tiny_corpus import write_corpus

    return write_corpus(folder, num_train=NUM_TRAIN).arguments


def main() -> int:
    """Run the matrix; returns 1 where a cell is not equal."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worker", nargs=2, metavar=("TWIN", "PLAN"), help=argparse.SUPPRESS)
    parser.add_argument("--whole", action="store_true", help="no selections: the full product")
    known = parser.parse_args()
    if known.worker:
        work(known.worker[0], json.loads(Path(known.worker[1]).read_text(encoding="utf-8")))
        return 0
    parts = {
        "full product, eager": product(list(STRATEGIES)),
        "pairs, compiled": pairs(list(STRATEGIES), "on"),
        "pairs, ddp_spawn and ddp_fork": pairs(list(STARTING), "off"),
    }
    if known.whole:
        eager = product([*STRATEGIES, *STARTING])
        compiled: list[Cell] = [{**cell, "compile": "on"} for cell in eager]
        parts = {"full product, eager": eager, "full product, compiled": compiled}
    cells = [cell for part in parts.values() for cell in part]
    start_seconds = time.perf_counter()
    with tempfile.TemporaryDirectory() as name:
        faults = run_all(Path(name), cells, corpus_arguments(Path(name)))
    seconds = time.perf_counter() - start_seconds
    for cell, found in zip(cells, faults, strict=True):
        if found is not None:
            print(f"NOT EQUAL: {', '.join(f'{axis} {value}' for axis, value in cell.items())}: {found}")
    print(f"{faults.count(None)} of {len(cells)} distributed cells equal, every bit, in {seconds / 60:.1f} minutes")
    command = "make parity-whole" if known.whole else "make parity"
    write_page(figures(parts, cells, faults, seconds, command), BEGIN, END)
    return 0 if not any(faults) else 1


def figures(
    parts: dict[str, list[Cell]], cells: Sequence[Cell], faults: Sequence[str | None], seconds: float, command: str
) -> list[str]:
    """What the page says of the matrix."""
    names = [*STRATEGIES, *STARTING]
    lines = [
        f"`{command}`: {faults.count(None)} of {len(cells)} cells equal, every bit (gloo, torch {torch.__version__}, "
        f"{seconds / 60:.0f} minutes).",
        "",
        f"| cells | {' | '.join(names)} |",
        f"|---|{'---|' * len(names)}",
    ]
    start = 0
    for title, part in parts.items():
        verdicts = list(zip(part, faults[start : start + len(part)], strict=True))
        start += len(part)
        counts = []
        for name in names:
            found = [fault for cell, fault in verdicts if cell["strategy"] == name]
            counts.append(f"{found.count(None)} of {len(found)}" if found else "")
        lines.append(f"| {title} | {' | '.join(counts)} |")
    return lines


if __name__ == "__main__":
    sys.exit(main())
