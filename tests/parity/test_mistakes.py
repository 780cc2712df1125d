"""The check can fail: each planted mistake is caught, at the stage where it was made."""

from __future__ import annotations

import importlib
import warnings
from contextlib import suppress
from pathlib import Path

import pytest

from parity.mistakes import LOOP, MISTAKES, OVERFLOW, Edits, Mistake, planted
from project.parity.compare import Divergence, Trace, first_divergence, read_trace
from project.parity.twins import newest_run, train_here
from tiny_corpus import Corpus, write_corpus

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """50 training rows: with batches of 7 the last micro-batch of an epoch holds one example."""
    return write_corpus(tmp_path_factory.mktemp("mistakes"))


@pytest.fixture(scope="module")
def right() -> dict[tuple[str, ...], Trace]:
    """Traces of the Lightning twin, by their options, so that mistakes with the same ones share a run."""
    return {}


def arguments(corpus: Corpus, options: tuple[str, ...]) -> list[str]:
    base = ["--config", str(ROOT / "configs" / "default.yaml"), *corpus.arguments]
    return [
        *base,
        "--trainer.max_epochs=2",
        "--trainer.accelerator=cpu",
        "--data.batch_size=7",
        "--trace.level=full",
        *options,
    ]


def lightning_trace(corpus: Corpus, options: tuple[str, ...], right: dict[tuple[str, ...], Trace]) -> Trace:
    if options not in right:
        right[options] = read_trace(train_here("lit", corpus.folder / f"lit{len(right)}", arguments(corpus, options)))
    return right[options]


def hand_trace(corpus: Corpus, folder: Path, options: tuple[str, ...], edits: Edits) -> Trace:
    """The trace of the hand-written twin with `edits`, up to where it went down if it did."""
    own = [f"--trainer.default_root_dir={folder}", "--name=hand"]
    with planted(edits):
        main = importlib.import_module("project.hand.cli").main
        with suppress(ValueError), warnings.catch_warnings():  # as of a scheduler asked for more steps than it has
            warnings.simplefilter("ignore")
            main([*arguments(corpus, options), *own])
    return read_trace(newest_run(folder, "hand"))


def part(corpus: Corpus, folder: Path, mistake: Mistake, right: dict[tuple[str, ...], Trace]) -> Divergence | None:
    expected = lightning_trace(corpus, mistake.options, right)
    found = hand_trace(corpus, folder, mistake.options + mistake.own_options, mistake.edits)
    return first_divergence(found, expected)


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_mistake_is_caught_at_its_stage(
    mistake: Mistake, corpus: Corpus, right: dict[tuple[str, ...], Trace], tmp_path: Path
) -> None:
    divergence = part(corpus, tmp_path, mistake, right)
    assert divergence is not None, "the mistake was not caught"
    assert divergence.stage == mistake.stage, divergence


@pytest.mark.parametrize("options", sorted({mistake.options for mistake in MISTAKES}), ids=" ".join)
def test_without_a_mistake_the_same_runs_are_equal(
    options: tuple[str, ...], corpus: Corpus, right: dict[tuple[str, ...], Trace], tmp_path: Path
) -> None:
    """With an edit that changes no arithmetic, so that planting itself cannot be what is caught."""
    harmless = {LOOP: [("import torch\n", "import torch\n\n")]}
    assert part(corpus, tmp_path, Mistake("none", "none", harmless, options), right) is None


def test_an_overflow_is_forced_where_it_matters(corpus: Corpus, right: dict[tuple[str, ...], Trace]) -> None:
    trace = lightning_trace(corpus, OVERFLOW, right)
    skipped = [record["stages"]["optimizer"]["skipped"] for record in trace.records if record["kind"] == "step"]
    assert skipped[0]
    assert not skipped[-1]


def test_there_are_enough_of_them_and_each_is_its_own() -> None:
    assert len({mistake.name for mistake in MISTAKES}) == len(MISTAKES) >= 24
