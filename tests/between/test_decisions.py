"""When a run ends early and which validation is the best, against rules that look at all validations so far.

Both twins ask the same two objects, so comparing the twins finds no mistake in them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import pytest

from project.between.best_and_last import BestAndLast
from project.between.early_stopping import EarlyStopping
from project.checkpoint.config import Checkpoint
from project.checkpoint.config import EarlyStopping as EarlyStoppingConfig
from project.ranks.world import World

Mode = Literal["min", "max"]
MODES: list[Mode] = ["min", "max"]


def is_better(value: float, other: float, mode: Mode) -> bool:
    return value > other if mode == "max" else value < other


def num_until_the_end(values: Sequence[float], patience: int, delta: float, mode: Mode) -> int | None:
    """After how many validations the run ends: the last `patience` of them were no better than the best before them."""
    sign = 1 if mode == "max" else -1
    for num_done in range(1, len(values) + 1):
        records = [values[0]]
        since = 0
        for value in values[1:num_done]:
            is_record = is_better(value - sign * delta, records[-1], mode)
            records += [value] if is_record else []
            since = 0 if is_record else since + 1
        if not math.isfinite(values[num_done - 1]) or (since and since >= patience):
            return num_done
    return None


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("delta", [0.0, 1.0])
@pytest.mark.parametrize("patience", [0, 1, 2, 3])
def test_a_run_ends_after_so_many_validations_without_a_better_one(patience: int, delta: float, mode: Mode) -> None:
    for values in itertools.product((1.0, 2.0, 3.0), repeat=5):
        stopping = EarlyStopping(EarlyStoppingConfig(patience, "val/loss", mode, delta))
        ended = None
        for number, value in enumerate(values, start=1):
            # a run that is stopped and continued after each validation
            state, stopping = stopping.state_dict(), EarlyStopping(stopping.config)
            stopping.load_state_dict(state, {})
            stopping.validated({"val/loss": value, "val/accuracy": -value})
            if stopping.should_stop:
                ended = number
                break
        assert ended == num_until_the_end(values, patience, delta, mode), values


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_metric_that_is_not_finite_ends_the_run_where_one_is_watched(value: float) -> None:
    for patience in (None, 5):
        stopping = EarlyStopping(EarlyStoppingConfig(patience, "val/loss"))
        stopping.validated({"val/loss": value})
        assert stopping.should_stop is (patience is not None)


@pytest.mark.parametrize("mode", MODES)
def test_the_best_validation_is_the_first_of_the_best_ones(mode: Mode, tmp_path: Path) -> None:
    for values in itertools.product((1.0, 2.0, 3.0), repeat=4):
        kept = BestAndLast(tmp_path, Checkpoint("val/loss", mode), World(rank=1, size=2))  # a rank that writes nothing
        saved = [epoch for epoch, value in enumerate(values) if kept.keep_if_best(epoch, {"val/loss": value})]
        expected = [
            epoch
            for epoch, value in enumerate(values)
            if all(is_better(value, before, mode) for before in values[:epoch])
        ]
        assert saved == expected, values
        assert (kept.best_value, kept.best_epoch) == (values[expected[-1]], expected[-1])
