"""Leaving out any one thing that a checkpoint holds makes the continued run another one: the comparison can fail."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from interrupted import EACH_STEP, TWINS, content, curves, first_difference, go_on, stopped, train

from project.data.order import OrderedBatches
from tiny_corpus import write_corpus

STEP = 11  # past the overflows, and between two logged steps


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    options = ["--trainer.precision=16-mixed", *EACH_STEP]
    loud = ['--model.class_weights={"animal": 8, "colour": 8, "tool": 8}']  # the first steps overflow
    return train("hand", write_corpus(tmp_path_factory.mktemp("negative")), "whole", *options, *loud)


def without_moments(saved: dict[str, Any]) -> None:
    saved["optimizer"]["state"] = {}


def without_scheduler(saved: dict[str, Any]) -> None:
    saved["lr_scheduler"] = None


def without_scaler(saved: dict[str, Any]) -> None:
    saved["scaler"] = None


def without_interval(saved: dict[str, Any]) -> None:
    saved["ranks"][0]["interval"] = {"loss": torch.zeros(()), "num_examples": 0}


@pytest.mark.parametrize("twin", TWINS)
@pytest.mark.parametrize(
    "leave_out",
    [None, without_moments, without_scheduler, without_scaler, without_interval, "random state", "position"],
)
def test_left_out(
    twin: str,
    leave_out: str | Callable[[dict[str, Any]], None] | None,
    whole: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = stopped(whole, STEP, f"{twin}-{getattr(leave_out, '__name__', leave_out)}")
    if leave_out == "random state":
        monkeypatch.setattr("project.checkpoint.rank_state.restore_random_states", lambda states, device: None)
    elif leave_out == "position":
        monkeypatch.setattr(OrderedBatches, "seek", lambda self, epoch, micro_batch: None)
    elif callable(leave_out):
        last = run / "checkpoints" / "last.ckpt"
        saved = torch.load(last, weights_only=True)
        leave_out(saved)
        torch.save(saved, last)
    go_on(twin, run)
    is_exact = first_difference((content(run), curves(run)), (content(whole), curves(whole))) is None
    assert is_exact == (leave_out is None)


def test_the_comparison_sees_every_bit() -> None:
    nan = float("nan")
    for one, other, is_equal in [
        (torch.tensor([0.0, nan]), torch.tensor([0.0, nan]), True),
        (torch.tensor([0.0]), torch.tensor([-0.0]), False),
        (torch.tensor([1]), torch.tensor([2]), False),
        (torch.tensor([1.0]), torch.tensor([[1.0]]), False),
        (torch.tensor([1.0]), torch.tensor([1.0], dtype=torch.float64), False),
        (0.0, -0.0, False),
        (nan, nan, True),
        (-float("inf"), -float("inf"), True),
        (1.0, nan, False),
        ("a", "b", False),
    ]:
        for wrapped in (lambda value: value, lambda value: {"key": [value]}):
            assert (first_difference(wrapped(one), wrapped(other)) is None) == is_equal, f"{one} and {other}"
