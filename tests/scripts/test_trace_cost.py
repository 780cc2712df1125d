"""The script that measures what a trace costs runs; its figures are no test's affair."""

from __future__ import annotations

from pathlib import Path

import pytest

import trace_cost
from tiny_corpus import Corpus

CONFIG = ["--config", str(Path(__file__).parents[2] / "configs" / "default.yaml")]


def test_it_prints_both_levels_of_both_networks(corpus: Corpus, capsys: pytest.CaptureFixture[str]) -> None:
    assert trace_cost.main([*CONFIG, "--steps=3", *corpus.arguments]) == 0
    out = capsys.readouterr().out
    assert all(out.count(word) == 2 for word in ("cheap", "full"))
    assert all(out.count(word) == 1 for word in ("TextCNN", "Pooling"))


def test_the_small_network_is_small(corpus: Corpus, tmp_path: Path) -> None:
    default, small = (
        trace_cost.measure([*CONFIG, *own, *corpus.arguments], 2, tmp_path / row)
        for row, own in trace_cost.NETWORKS.items()
    )
    assert small.num_parameters < default.num_parameters / 10
    assert all(cost.added["full"].in_calls > cost.added["cheap"].in_calls > 0 for cost in (default, small))


def test_a_fault_is_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert trace_cost.main(["--config", str(tmp_path / "none.yaml")]) == 2
    assert capsys.readouterr().err.startswith("error: ")
