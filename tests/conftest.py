"""What many tests need: a tiny corpus, and the same start for each test."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tiny_corpus import Corpus, write_corpus


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    """A tiny corpus of this test alone."""
    return write_corpus(tmp_path)


@pytest.fixture(autouse=True)
def _global_state() -> None:
    """Each test starts from the same random stream and leaves one thread for the machine's other core."""
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(False)  # a trainer of an earlier test may have left it on
    torch.set_num_threads(1)
