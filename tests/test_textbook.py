"""Both twins against a loop that shares no code with them, bit for bit: `scripts/textbook.py`.

`naive.py` makes its batches from the file of the corpus; network, optimizer and scheduler are built here, by hand. All
that is the project's on this side is the class of the network.
"""

from __future__ import annotations

import ast
import itertools
import json
import math
import re
import runpy
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

import naive
import textbook
from project.hand.fit import fit
from project.hand.settings import read_settings
from project.lit.cli import Cli
from project.network import Pooling
from tiny_corpus import Corpus, write_corpus

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "scripts" / "textbook.py"

SEED, NUM_EPOCHS, BATCH_SIZE, MAX_TOKENS, LR, DECAY = 5, 3, 7, 10, 0.002, 0.01
INIT_ARGS: dict[str, Any] = {"dim": 8, "ngram_buckets": 50, "hidden": 16, "dropout": 0.3, "token_dropout": 0.1}
DTYPES = {"32-true": torch.float32, "bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}
CLIPS = {"off": math.inf, "norm": 0.1}


class Trained(NamedTuple):
    """What a loop leaves behind."""

    weights: dict[str, Tensor]
    optimizer: dict[str, Any]
    num_advances: int
    """Of the scheduler."""


class Cell(NamedTuple):
    """One way to train."""

    precision: str
    accumulate: int
    clip: str

    @property
    def num_steps(self) -> int:
        """Optimizer steps, skipped ones included: 50 rows are 8 batches of 7, the last one of a single row."""
        return NUM_EPOCHS * {1: 8, 3: 3}[self.accumulate]

    def options(self, corpus: Corpus) -> list[str]:
        """What both twins are given."""
        network = {"class_path": f"{Pooling.__module__}.{Pooling.__qualname__}", "init_args": INIT_ARGS}
        keys = {
            "seed_everything": SEED,
            "trainer.accelerator": "cpu",
            "trainer.max_epochs": NUM_EPOCHS,
            "trainer.log_every_n_steps": 1,
            "trainer.precision": self.precision,
            "trainer.accumulate_grad_batches": self.accumulate,
            "trainer.gradient_clip_val": None if self.clip == "off" else CLIPS[self.clip],
            "model.network": network,
            "model.optimizer": {"class_path": "torch.optim.AdamW", "init_args": {"lr": LR, "weight_decay": DECAY}},
            "model.lr_scheduler": {"class_path": "torch.optim.lr_scheduler.OneCycleLR", "init_args": {"max_lr": LR}},
            "data.batch_size": BATCH_SIZE,
            "data.max_tokens": MAX_TOKENS,
        }
        written = {key: value if isinstance(value, str) else json.dumps(value) for key, value in keys.items()}
        return [*corpus.arguments, *(f"--{key}={value}" for key, value in written.items())]


CELLS = [Cell(*values) for values in itertools.product(DTYPES, (1, 3), CLIPS)]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return write_corpus(tmp_path_factory.mktemp("textbook"), num_train=50)


@pytest.fixture(scope="module")
def textbooks(corpus: Corpus) -> dict[Cell, Trained]:
    torch.set_num_threads(1)  # as each test does for itself
    return {cell: follow_the_textbook(corpus, cell) for cell in CELLS}


def follow_the_textbook(corpus: Corpus, cell: Cell) -> Trained:
    rows = [json.loads(line) for line in corpus.train.read_text(encoding="utf-8").splitlines()]
    known, classes = naive.vocabulary([row["text"] for row in rows]), sorted({row["label"] for row in rows})
    ids = [naive.token_ids(row["text"], known, MAX_TOKENS) for row in rows]
    labels = [classes.index(row["label"]) for row in rows]
    epochs = []
    for epoch in range(NUM_EPOCHS):
        order = naive.order(len(rows), SEED, epoch)
        parts = [order[first : first + BATCH_SIZE] for first in range(0, len(order), BATCH_SIZE)]
        epochs.append([naive.batch([ids[row] for row in part], [labels[row] for row in part]) for part in parts])

    torch.manual_seed(SEED)
    network = Pooling(2 + len(known), len(classes), **INIT_ARGS)
    matrices = [parameter for parameter in network.parameters() if parameter.ndim == 2]
    vectors = [parameter for parameter in network.parameters() if parameter.ndim == 1]
    groups = [{"params": matrices, "weight_decay": DECAY}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=LR)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=LR, total_steps=cell.num_steps)
    torch.manual_seed(SEED)  # for dropout
    textbook.train(network, optimizer, scheduler, epochs, DTYPES[cell.precision], cell.accumulate, CLIPS[cell.clip])
    return Trained(network.state_dict(), optimizer.state_dict(), scheduler.last_epoch)


def train_by_hand(corpus: Corpus, cell: Cell) -> Trained:
    run = fit(read_settings("fit", cell.options(corpus))).training
    assert run.lr_scheduler is not None
    return Trained(run.network.state_dict(), run.optimizer.state_dict(), run.lr_scheduler.last_epoch)


def train_with_lightning(corpus: Corpus, cell: Cell) -> Trained:
    cli = Cli("fit", cell.options(corpus))
    cli.trainer.fit(cli.model, datamodule=cli.datamodule)
    optimizer, scheduler = cli.trainer.optimizers[0], cli.trainer.lr_scheduler_configs[0].scheduler
    return Trained(cli.model.network.state_dict(), optimizer.state_dict(), scheduler.last_epoch)


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: "-".join(map(str, cell)))
def test_both_twins_equal_the_textbook(cell: Cell, corpus: Corpus, textbooks: dict[Cell, Trained]) -> None:
    expected = textbooks[cell]
    for train in (train_by_hand, train_with_lightning):
        found = train(corpus, cell)
        assert found.weights.keys() == expected.weights.keys()
        for name, tensor in expected.weights.items():
            assert torch.equal(found.weights[name], tensor), (train.__name__, name)
        assert found.optimizer["param_groups"] == expected.optimizer["param_groups"], train.__name__
        assert found.optimizer["state"].keys() == expected.optimizer["state"].keys()
        for index, state in expected.optimizer["state"].items():
            for name, tensor in state.items():
                assert torch.equal(found.optimizer["state"][index][name], tensor), (train.__name__, index, name)
        assert found.num_advances == expected.num_advances, train.__name__


def test_each_cell_trains_in_a_way_of_its_own(textbooks: dict[Cell, Trained]) -> None:
    """A cell that repeats another one would be no test of what it is named after."""
    for one, other in itertools.combinations(CELLS, 2):
        ours, theirs = textbooks[one].weights, textbooks[other].weights
        assert any(not torch.equal(ours[name], theirs[name]) for name in ours), (one, other)


def test_float16_overflows_and_the_schedule_waits(textbooks: dict[Cell, Trained]) -> None:
    for cell, trained in textbooks.items():
        if cell.precision == "16-mixed":
            assert 0 < trained.num_advances < cell.num_steps, cell
        else:
            assert trained.num_advances == cell.num_steps, cell


def test_the_textbook_fits_on_a_page_and_knows_nothing_of_the_project() -> None:
    lines = SCRIPT.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 60
    assert max(map(len, lines)) <= 120
    assert {int(number) for line in lines for number in re.findall(r"  # (\d)", line)} == set(range(1, 10))
    statements = ast.walk(ast.parse("\n".join(lines)))
    imported = {alias.name for node in statements if isinstance(node, ast.Import) for alias in node.names}
    statements = ast.walk(ast.parse("\n".join(lines)))
    imported |= {str(node.module) for node in statements if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in imported} == {"collections", "json", "pathlib", "torch"}


def test_the_textbook_runs_by_itself_and_learns(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(SCRIPT), run_name="__main__")
    losses = [float(line.rpartition(" ")[2]) for line in capsys.readouterr().out.splitlines()]
    assert len(losses) == 6
    assert losses[-1] < 0.8 * losses[0]
