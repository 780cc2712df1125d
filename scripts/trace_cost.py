"""What a trace costs: steps of the hand-written loop without one, with a cheap one and with a full one, in turn.

    python scripts/trace_cost.py

All three train the same network on the same batches, one step each by turns, on one thread. Time is processor time, so
that other programs on the same cores count as little as they can; still they make steps differ by some percent, so the
time within the tracer's own calls is counted, too. What writing costs is in both, spread over the steps.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, cast

import torch
from rich.console import Console
from rich.table import Table

from project.data.batch import Batch
from project.errors import UserError
from project.hand.fit import open_trace, prepare
from project.hand.loop import Training, train_epoch
from project.hand.settings import read_settings
from project.trace.config import Trace
from project.trace.tracer import Level, Tracer

LEVELS: dict[str, Level | None] = {"none": None, "cheap": "cheap", "full": "full"}
NETWORKS = {
    "default configuration": [],
    "a small network": [
        "--model.network=project.network.Pooling",
        *(f"--model.network.{key}=8" for key in ("dim", "hidden", "ngram_buckets")),
    ],
}
"""Rows of the table, and their options."""
FLUSH_EVERY = 20
"""Steps between writes; after 128 steps the tracer would write by itself, within a step."""


class Added(NamedTuple):
    """What a trace adds to a step, in seconds."""

    in_calls: float
    """Mean time within the tracer's calls."""
    difference: float
    """Median over the steps of the difference to the same step without a trace, and the mean of the writes."""
    smallest: float
    """The same over each fifth of the steps: the smallest of the five,"""
    largest: float
    """and the largest."""


class Cost(NamedTuple):
    """Of one network."""

    network: str
    num_parameters: int
    step_seconds: float
    """A step without a trace, median."""
    added: dict[str, Added]
    """By level."""


class Watched:
    """A tracer that counts the seconds within its calls."""

    def __init__(self, trace: Tracer) -> None:
        self.trace = trace
        self.seconds = 0.0

    def __getattr__(self, name: str) -> Callable[..., None]:
        def call(*args: Any, **kwargs: Any) -> None:
            self.seconds += timed(partial(getattr(self.trace, name), *args, **kwargs))

        return call


def measure(arguments: Sequence[str], num_steps: int, folder: Path) -> Cost:
    """Train `num_steps` steps of each kind on the configuration that the arguments name; traces go into `folder`."""
    settings = read_settings("fit", arguments)
    runs: dict[str, Training] = {}
    watched: dict[str, Watched] = {}
    for name, level in LEVELS.items():
        training, data, _ = prepare(settings)
        watched[name] = Watched(open_trace(folder / name, Trace(level), training))
        training.trace = cast(Tracer, watched[name])
        runs[name] = training
    batches = list(data.loader("train"))
    steps = {name: endless(training, batches) for name, training in runs.items()}
    for name in LEVELS:  # the first step allocates
        next(steps[name])
        watched[name].seconds = 0.0
    seconds: dict[str, list[float]] = {name: [] for name in LEVELS}
    writing = dict.fromkeys(LEVELS, 0.0)
    for number in range(num_steps):
        order = list(LEVELS)[number % 3 :] + list(LEVELS)[: number % 3]
        for name in order:
            seconds[name].append(timed(partial(next, steps[name])))
        if number % FLUSH_EVERY == FLUSH_EVERY - 1 or number == num_steps - 1:
            for name in order:
                writing[name] += timed(runs[name].trace.flush)
    added = {}
    for name in ("cheap", "full"):
        differences = [one - other for one, other in zip(seconds[name], seconds["none"], strict=True)]
        fifths = [median(differences[fifth::5]) for fifth in range(min(5, num_steps))]
        typical = [each + writing[name] / num_steps for each in (median(differences), min(fifths), max(fifths))]
        added[name] = Added(watched[name].seconds / num_steps, *typical)
        watched[name].trace.close()
    network = runs["none"].network
    num_parameters = sum(parameter.numel() for parameter in network.parameters())
    return Cost(type(network).__name__, num_parameters, median(seconds["none"]), added)


def endless(training: Training, batches: Sequence[Batch]) -> Iterator[int]:
    """One micro-batch each time, which is an optimizer step here; epoch after epoch."""
    while True:
        yield from train_epoch(training, batches)


def timed(work: Callable[[], object]) -> float:
    """Processor seconds that the work takes."""
    start = time.process_time()
    work()
    return time.process_time() - start


def main(argv: Sequence[str]) -> int:
    """Measure and print one table; further options are the configuration's own."""
    parser = argparse.ArgumentParser(description="What a trace adds to a training step.", allow_abbrev=False)
    parser.add_argument("--config", default="configs/default.yaml", help="the configuration; default %(default)s")
    parser.add_argument("--steps", type=int, default=200, help="steps of each kind; default %(default)s")
    known, options = parser.parse_known_args(argv)
    torch.set_num_threads(1)
    table = Table("network", "parameters", "a step", "trace", "in its calls", "difference of steps (range)")
    for row, own in NETWORKS.items():
        with tempfile.TemporaryDirectory() as folder:
            try:
                cost = measure(["--config", known.config, *own, *options], known.steps, Path(folder))
            except UserError as error:
                print(f"error: {error}", file=sys.stderr)
                return 2
        about = [f"{row}: {cost.network}", f"{cost.num_parameters:,}", f"{1000 * cost.step_seconds:.2f} ms"]
        for name, added in cost.added.items():
            in_calls, difference, smallest, largest = (f"{value / cost.step_seconds:.2%}" for value in added)
            table.add_row(*about, name, in_calls, f"{difference} ({smallest} to {largest})")
            about = ["", "", ""]
    Console(width=120).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
