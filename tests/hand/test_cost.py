"""What the hand-written loop must not do: wait for the device within a step, or keep a graph alive."""

from __future__ import annotations

import importlib
import itertools
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from parity.mistakes import planted
from tiny_corpus import Corpus

CONFIG = Path(__file__).parents[2] / "configs" / "default.yaml"


def prepared(corpus: Corpus, *more: str) -> tuple[Any, Any, Any]:
    """`hand.loop`, a run and its rows, of the project as it can be imported now."""
    fit, settings = (importlib.import_module(f"project.hand.{name}") for name in ("fit", "settings"))
    arguments = ["--config", str(CONFIG), *corpus.arguments, "--trainer.accelerator=cpu", "--data.batch_size=7", *more]
    training, data, _ = fit.prepare(settings.read_settings("fit", arguments))
    return importlib.import_module("project.hand.loop"), training, data


def graph_sizes(corpus: Corpus) -> list[int]:
    """After each micro-batch, how many nodes of a graph the accumulated loss holds on to."""
    loop, training, data = prepared(corpus, "--trainer.log_every_n_steps=1000")
    sizes = []
    for _ in loop.train_epoch(training, data.loader("train")):
        seen, waiting = set(), [training.interval.loss.grad_fn]
        while waiting:
            node = waiting.pop()
            if node is not None and node not in seen:
                seen.add(node)
                waiting += [following for following, _ in node.next_functions]
        sizes.append(len(seen))
    return sizes


def test_the_accumulated_loss_keeps_no_graph(corpus: Corpus) -> None:
    assert graph_sizes(corpus) == [0] * 8


def test_a_loss_accumulated_with_its_graph_is_caught(corpus: Corpus) -> None:
    """The planted mistake: memory grows with every micro-batch."""
    kept = ("self.loss += loss.detach()", "self.loss = self.loss + loss")
    with planted({"learn/interval.py": [kept]}):
        sizes = graph_sizes(corpus)
    assert all(later > earlier for earlier, later in itertools.pairwise(sizes))


def test_nothing_is_read_off_the_device_within_a_step(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    loop, training, data = prepared(corpus, "--trainer.log_every_n_steps=1000", "--trainer.accumulate_grad_batches=3")
    reads: list[str] = []
    for name in ("item", "tolist", "__float__", "__int__", "__bool__", "cpu", "numpy"):
        original = getattr(torch.Tensor, name)

        def watched(self: torch.Tensor, *arguments: Any, original: Any = original, name: str = name) -> Any:
            reads.append(f"{name} {sys._getframe(1).f_code.co_filename}")
            return original(self, *arguments)

        monkeypatch.setattr(torch.Tensor, name, watched)
    steps = loop.train_epoch(training, list(data.loader("train")))
    reads.clear()
    assert len(list(steps)) == 8
    # torch's AdamW counts its steps in tensors on the CPU and reads those.
    assert [read for read in reads if "/torch/" not in read] == []
