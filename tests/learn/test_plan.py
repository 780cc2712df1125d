"""Counts of windows and steps, against counting by hand."""

from __future__ import annotations

from typing import Any

import pytest

from project.data.order import OrderedBatches
from project.errors import UserError
from project.learn.plan import Plan


@pytest.mark.parametrize(
    ("settings", "num_micro_batches", "num_windows", "total_steps"),
    [
        ({}, 4, 4, 4),
        ({"max_epochs": 3}, 4, 4, 12),
        ({"accumulate_grad_batches": 3, "max_epochs": 2}, 4, 2, 4),
        ({"accumulate_grad_batches": 41}, 4, 1, 1),
        ({"world_size": 2}, 2, 2, 2),
        ({"drop_last": True}, 3, 3, 3),
        ({"drop_last": True, "world_size": 2}, 1, 1, 1),  # 15 rows do not fill the second micro-batch of both ranks
        ({"drop_last": True, "accumulate_grad_batches": 3, "max_epochs": 2}, 3, 1, 2),
        ({"drop_last": True, "limit_train_batches": 0.67}, 2, 2, 2),
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


@pytest.mark.parametrize("world_size", [1, 2])
def test_drop_last_needs_rows_for_one_whole_micro_batch(world_size: int) -> None:
    num_needed = 8 * world_size
    assert Plan(num_examples=num_needed, batch_size=8, world_size=world_size, drop_last=True).num_micro_batches == 1
    assert Plan(num_examples=num_needed - 1, batch_size=8, world_size=world_size).num_micro_batches == 1
    with pytest.raises(UserError) as caught:
        Plan(num_examples=num_needed - 1, batch_size=8, world_size=world_size, drop_last=True)
    assert str(caught.value) == (
        f"data.drop_last: {num_needed - 1} training rows do not fill one micro-batch of 8 on each rank (world size "
        f"{world_size}), which leaves nothing to train on; lower data.batch_size or turn data.drop_last off"
    )


@pytest.mark.parametrize("num_examples", [12, 13, 17, 18])
@pytest.mark.parametrize("world_size", [1, 3])
@pytest.mark.parametrize("drop_last", [False, True])
def test_plan_and_order_count_the_same_micro_batches(num_examples: int, world_size: int, drop_last: bool) -> None:
    plan = Plan(num_examples=num_examples, batch_size=4, world_size=world_size, drop_last=drop_last)
    for rank in range(world_size):
        batches = OrderedBatches(num_examples, 4, seed=0, rank=rank, world_size=world_size, drop_last=drop_last)
        assert len(batches) == len(list(batches)) == plan.num_micro_batches


@pytest.mark.parametrize(
    ("settings", "accepted"),
    [
        ({}, True),
        ({"val_check_interval": 4}, True),
        ({"val_check_interval": 3}, False),
        ({"val_check_interval": 0.3}, False),  # every 3 of 13
        ({"val_check_interval": 0.5}, True),  # every 6 of 13
        ({"val_check_interval": 5, "accumulate_grad_batches": 5}, True),
        ({"val_check_interval": 4, "check_val_every_n_epoch": None}, False),  # the second epoch starts a new window
        ({"val_check_interval": 26, "check_val_every_n_epoch": None}, True),
    ],
)
def test_a_validation_never_cuts_a_window(settings: dict[str, Any], accepted: bool) -> None:
    """13 micro-batches in windows of 2."""
    fields: dict[str, Any] = {"num_examples": 104, "batch_size": 8, "accumulate_grad_batches": 2} | settings
    if accepted:
        plan = Plan(**fields)
        places = [(epoch, place) for epoch in range(4) for place in range(13) if plan.validates_after(epoch, place)]
        assert places
        assert all(plan.closes_window(place) for _, place in places)
    else:
        with pytest.raises(UserError, match=r"trainer.val_check_interval: \d+ micro-batches .* take a multiple"):
            Plan(**fields)
