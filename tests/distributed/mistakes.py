"""Mistakes that only several ranks can make, planted into the hand-written twin."""

from __future__ import annotations

import importlib
from pathlib import Path

import torch

from parity.mistakes import LOOP, Mistake, planted
from project.hand.distributed import process_group
from project.ranks.world import World

OWN_COUNT = [
    ("num_window_examples += plan.num_counted_together(micro_batch)", "num_window_examples += num_examples"),
    ("training.num_window_examples / training.world.size", "(training.num_window_examples or 1)"),
]
ORDER = "data/order.py"
SHARE = "mine = together[self.rank :: self.world_size].tolist()"

MISTAKES = [
    Mistake("mean of the ranks' means", "normalise", {LOOP: OWN_COUNT}),
    Mistake(
        "the ranks' number forgotten in the mean",
        "normalise",
        {LOOP: [("training.num_window_examples / training.world.size", "training.num_window_examples")]},
    ),
    Mistake(
        "gradients never added up between ranks",
        "backward",
        {LOOP: [("enabled=not plan.closes_window(micro_batch)", "enabled=True")]},
    ),
    Mistake(
        "gradients added up at every micro-batch",
        "backward",
        {LOOP: [("enabled=not plan.closes_window(micro_batch)", "enabled=False")]},
    ),
    Mistake(
        "the row that stands in counted",
        "forward",
        {LOOP: [("only_counted(logits, batch.labels, num_examples)", "logits, batch.labels")]},
    ),
    Mistake(
        "dropout alike in all ranks",
        "rng",
        {"hand/fit.py": [("torch.manual_seed(settings.seed + world.rank)", "torch.manual_seed(settings.seed)")]},
    ),
    Mistake("every rank sees all rows", "data", {ORDER: [(SHARE, "mine = together.tolist()")]}),
    Mistake(
        "ranks take neighbouring rows",
        "data",
        {ORDER: [(SHARE, "mine = together.chunk(self.world_size)[self.rank % len(together)].tolist()")]},
    ),
    Mistake(
        "each rank validates its own rows only",
        "evaluation",
        {
            LOOP: [
                (
                    "Counts(world.all_reduce_(confusion).cpu(), world.all_reduce_(losses).cpu())",
                    "Counts(confusion, losses)",
                )
            ]
        },
    ),
    Mistake("loss multiplied by the number of ranks", "backward", {LOOP: [("scale(loss)", "scale(loss * 2)")]}),
    Mistake("none", "none", {LOOP: [("import torch\n", "import torch\n\n")]}),
]
"""The last changes nothing: planting itself is not what is caught."""


def train_all(folder: Path, arguments: list[str]) -> None:
    """What a rank does: train Lightning's twin, and the other one with each mistake, in runs named by its number."""
    with process_group(World.here(), torch.device("cpu"), timeout_seconds=120):
        name = [f"--trainer.default_root_dir={folder}", "--name=lit"]
        importlib.import_module("project.lit.cli").main(["fit", *arguments, *name])
        for number, mistake in enumerate(MISTAKES):
            _train(mistake, [*arguments, f"--trainer.default_root_dir={folder}", f"--name=hand_{number}"])


def train_with_mean_of_means(arguments: list[str]) -> None:
    """What a rank does: train the hand-written twin, each rank dividing by what it counted itself."""
    with process_group(World.here(), torch.device("cpu"), timeout_seconds=120):
        _train(MISTAKES[0], arguments)


def _train(mistake: Mistake, arguments: list[str]) -> None:
    with planted(mistake.edits):
        importlib.import_module("project.hand.cli").main(arguments)
