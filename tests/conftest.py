"""What many tests need: a tiny corpus, the same start for each test, and nothing slow that no test looks at."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from quick import do_not_wait, draw_nothing
from tiny_corpus import Corpus, write_corpus

os.environ["OMP_NUM_THREADS"] = "1"  # of processes that tests start: there are as many test processes as cores


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is prepared from corpora: the same rows are prepared once, whichever test asks first."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def corpus(tmp_path: Path, cache: Path) -> Corpus:
    """A tiny corpus of this test alone, but for the cache."""
    return write_corpus(tmp_path, cache=cache)


@pytest.fixture(scope="session", autouse=True)
def _no_waiting() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        do_not_wait(patch)
        yield


@pytest.fixture(autouse=True)
def _no_pictures(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests that are marked look at pictures; the others draw none."""
    if request.node.get_closest_marker("pictures") is None:
        draw_nothing(monkeypatch)


@pytest.fixture(autouse=True)
def _global_state() -> None:
    """Each test starts from the same random stream and leaves one thread for the machine's other core."""
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(False)  # a trainer of an earlier test may have left it on
    torch.set_num_threads(1)
