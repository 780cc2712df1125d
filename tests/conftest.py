"""What many tests need: a tiny corpus, the same start for each test, and nothing slow that no test looks at."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from pathlib import Path

import docstring_parser
import pytest
import torch
from torch.utils.tensorboard import SummaryWriter

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
def _quick() -> Iterator[None]:
    """No test pulls the plug, so none waits for the disk; and jsonargparse reads the docstrings of a class once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda file: None)
        patch.setattr(docstring_parser, "parse_from_object", functools.cache(docstring_parser.parse_from_object))
        yield


@pytest.fixture(autouse=True)
def _no_pictures(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The picture of a validation takes longer than the validation; marked tests look at it."""
    if request.node.get_closest_marker("pictures") is None:
        monkeypatch.setattr(SummaryWriter, "add_figure", lambda *_: None)


@pytest.fixture(autouse=True)
def _global_state() -> None:
    """Each test starts from the same random stream and leaves one thread for the machine's other core."""
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(False)  # a trainer of an earlier test may have left it on
    torch.set_num_threads(1)
