"""Counts of windows and steps, against counting by hand."""

from __future__ import annotations

from typing import Any

import pytest

from project.errors import UserError
from project.task.plan import Plan


@pytest.mark.parametrize(
    ("settings", "num_micro_batches", "num_windows", "total_steps"),
    [
        ({}, 4, 4, 4),
        ({"max_epochs": 3}, 4, 4, 12),
        ({"accumulate_grad_batches": 3, "max_epochs": 2}, 4, 2, 4),
        ({"accumulate_grad_batches": 41}, 4, 1, 1),
        ({"world_size": 2}, 2, 2, 2),
        ({"max_epochs": 5, "max_steps": 7}, 4, 4, 7),
        ({"max_epochs": -1, "max_steps": 9}, 4, 4, 9),
        ({"limit_train_batches": 3}, 3, 3, 3),
        ({"limit_train_batches": 300}, 4, 4, 4),
        ({"limit_train_batches": 0.5}, 2, 2, 2),
    ],
)
def test_counts(settings: dict[str, Any], num_micro_batches: int, num_windows: int, total_steps: int) -> None:
    plan = Plan(num_examples=31, batch_size=8, **settings)
    assert (plan.num_micro_batches, plan.num_windows, plan.total_steps) == (num_micro_batches, num_windows, total_steps)


def test_an_empty_or_endless_run_is_refused() -> None:
    with pytest.raises(UserError, match=r"trainer.limit_train_batches: 0.1 of 4 micro-batches leaves nothing"):
        Plan(num_examples=31, batch_size=8, limit_train_batches=0.1)
    with pytest.raises(UserError, match="both without limit"):
        Plan(num_examples=31, batch_size=8, max_epochs=-1)
