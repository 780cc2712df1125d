"""Both twins against a loop that shares no code with them, bit for bit: `scripts/textbook.py`.

It is fed by `naive.py`, from the corpus's file to the batches; network, optimizer and scheduler are made here by hand.
What is left of the project on this side is the class of the network.
"""

from __future__ import annotations

import ast
import itertools
import json
import math
import re
import runpy
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn

import naive
import textbook
from project.hand.fit import fit
from project.hand.settings import read_settings
from project.lit.cli import Cli
from project.network import Pooling
from tiny_corpus import Corpus, write_corpus

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "scripts" / "textbook.py"

SEED, EPOCHS, BATCH_SIZE, MAX_TOKENS, LR, DECAY = 5, 3, 7, 10, 0.002, 0.01
NETWORK = {"dim": 8, "ngram_buckets": 50, "hidden": 16, "dropout": 0.3, "token_dropout": 0.1}
DTYPES = {"32-true": torch.float32, "bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}
CLIPS = {"off": None, "norm": 0.1}
CELLS = [*itertools.product(DTYPES, (1, 3), CLIPS)]


class Trained(NamedTuple):
    """What a loop leaves behind."""

    network: Mapping[str, torch.Tensor]
    optimizer: dict[str, Any]
    num_advances: int
    """Of the scheduler."""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """50 training rows: the last micro-batch of an epoch holds one example."""
    return write_corpus(tmp_path_factory.mktemp("textbook"))


@pytest.fixture(scope="module")
def epochs(corpus: Corpus) -> list[list[tuple[torch.Tensor, ...]]]:
    """The batches of each epoch."""
    rows = [json.loads(line) for line in corpus.train.read_text(encoding="utf-8").splitlines()]
    ids = naive.token_ids([row["text"] for row in rows], MAX_TOKENS)
    assert max(map(len, ids)) == MAX_TOKENS
    classes = sorted({row["label"] for row in rows})
    labels = [classes.index(row["label"]) for row in rows]
    found = []
    for epoch in range(EPOCHS):
        order = naive.order(len(rows), SEED, epoch)
        parts = [order[first : first + BATCH_SIZE] for first in range(0, len(order), BATCH_SIZE)]
        found.append([naive.batch([ids[row] for row in part], [labels[row] for row in part]) for part in parts])
    return found
