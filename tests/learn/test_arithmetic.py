"""Counts, orders, losses and recipes: lines that the tests of each module by itself would let break."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim.lr_scheduler import OneCycleLR, ReduceLROnPlateau

from project.data.order import epoch_order
from project.errors import UserError
from project.learn.objective import LOSS_UNIT, loss_counts, scores
from project.learn.plan import Plan
from project.learn.recipe import Recipe, describe_network
from project.network import Pooling

PLAN = Plan(num_examples=31, batch_size=8, max_epochs=3)  # 12 optimizer steps


def make(**changes: Any) -> Recipe:
    fields: dict[str, Any] = {"network": Pooling, "optimizer": functools.partial(torch.optim.AdamW, lr=0.1)}
    return Recipe(**(fields | changes))


def counted(labels: list[int], predicted: list[int], num_classes: int) -> torch.Tensor:
    confusion = torch.zeros(num_classes, num_classes, dtype=torch.int64)
    for true, guess in zip(labels, predicted, strict=True):
        confusion[true, guess] += 1
    return confusion


@pytest.mark.parametrize(
    ("settings", "num_micro_batches", "num_windows", "total_steps"),
    [
        ({"max_epochs": 2, "max_steps": 70}, 4, 4, 8),
        ({"limit_train_batches": 0.7}, 2, 2, 2),  # 2.8 of 4: rounded down, as Lightning does
    ],
)
def test_counts(settings: dict[str, Any], num_micro_batches: int, num_windows: int, total_steps: int) -> None:
    plan = Plan(num_examples=31, batch_size=8, **settings)
    assert (plan.num_micro_batches, plan.num_windows, plan.total_steps) == (num_micro_batches, num_windows, total_steps)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [(0, 3), (1, 3), (2, 3), (3, 3)]),
        ({"check_val_every_n_epoch": 3}, [(2, 3)]),
        ({"check_val_every_n_epoch": 2, "val_check_interval": 2}, [(1, 1), (1, 3), (3, 1), (3, 3)]),
        ({"check_val_every_n_epoch": None, "val_check_interval": 6}, [(1, 1), (2, 3)]),
        ({"val_check_interval": 0.1, "check_val_every_n_epoch": 4}, [(3, place) for place in range(4)]),
    ],
)
def test_validations_fall_where_the_settings_say(settings: dict[str, Any], expected: list[tuple[int, int]]) -> None:
    """Four epochs of 4 micro-batches."""
    plan = Plan(num_examples=31, batch_size=8, **settings)
    places = [(epoch, place) for epoch in range(4) for place in range(4) if plan.validates_after(epoch, place)]
    assert places == expected


@pytest.mark.parametrize(("max_steps", "num_epochs"), [(8, 2), (9, 3), (70, 5)])
def test_an_epoch_that_is_cut_short_counts(max_steps: int, num_epochs: int) -> None:
    assert Plan(num_examples=31, batch_size=8, max_epochs=5, max_steps=max_steps).num_epochs == num_epochs


def test_the_order_stays_what_it_was() -> None:
    """Written down: another order would continue no run that was begun before."""
    assert epoch_order(8, seed=3, epoch=2).tolist() == [4, 3, 0, 7, 5, 6, 2, 1]


def test_a_class_that_is_only_guessed_counts_in_macro_f1() -> None:
    labels, predicted = [0, 0, 0, 1], [0, 0, 2, 1]  # class 2 is in no label, class 3 in neither
    found = scores(counted(labels, predicted, 4), torch.tensor([0, 0]))
    assert found.f1 == (0.8, 1.0, 0.0, 0.0)
    assert found.macro_f1 == pytest.approx((0.8 + 1.0 + 0.0) / 3, rel=1e-15)


def test_the_evaluation_loss_of_half_precision_logits_is_computed_in_float32() -> None:
    logits, labels = torch.randn(64, 5).bfloat16(), torch.randint(0, 5, (64,))
    assert torch.equal(loss_counts(logits, labels), loss_counts(logits.float(), labels))


def test_metrics_are_logged_under_the_name_of_their_split() -> None:
    found = scores(counted([0, 0, 0, 1, 1], [0, 0, 1, 1, 0], 2), torch.tensor([int(5 / LOSS_UNIT), 0]))
    logged = found.logged("val")
    assert logged == {"val/loss": 1.0, "val/accuracy": 3 / 5, "val/macro_f1": found.macro_f1}


def test_one_cycle_by_epochs_and_steps_per_epoch_is_left_alone() -> None:
    optimizer = make().build_optimizer(make().build_network(20, 4))
    factory = functools.partial(OneCycleLR, max_lr=0.1, total_steps=None, epochs=5, steps_per_epoch=2)
    scheduler = make(lr_scheduler=factory).build_lr_scheduler(optimizer, PLAN)
    assert isinstance(scheduler, OneCycleLR)
    assert scheduler.total_steps == 10


def test_without_a_scheduler_the_rate_is_constant() -> None:
    optimizer = make().build_optimizer(make().build_network(20, 4))
    assert make().build_lr_scheduler(optimizer, PLAN) is None


@pytest.mark.parametrize(
    ("settings", "per_step", "per_epoch"),
    [
        ({}, True, False),
        ({"lr_interval": "epoch"}, False, True),
        ({"lr_monitor": "val/loss"}, False, False),  # ReduceLROnPlateau advances after validations
        ({"lr_monitor": "val/loss", "lr_interval": "epoch"}, False, False),
    ],
)
def test_when_the_scheduler_advances(settings: dict[str, Any], per_step: bool, per_epoch: bool) -> None:
    recipe = make(lr_scheduler=ReduceLROnPlateau, **settings)
    assert (recipe.advances_per_step, recipe.advances_per_epoch) == (per_step, per_epoch)


def test_frozen_parameters_are_not_handed_to_the_optimizer() -> None:
    network = make().build_network(20, 4)
    frozen = next(network.parameters()).requires_grad_(False)
    optimizer = make().build_optimizer(network)
    handed = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    assert handed == {id(parameter) for parameter in network.parameters()} - {id(frozen)}


@pytest.mark.parametrize(
    ("value", "kind"),
    [([1, nn.ReLU()], "list"), ((torch.float32,), "tuple"), ({"a": [nn.ReLU()]}, "dict"), ({1: "a"}, "dict")],
    ids=str,
)
def test_what_is_not_plain_inside_a_list_or_mapping_is_refused_too(value: object, kind: str) -> None:
    def factory(num_tokens: int, num_classes: int) -> nn.Module:
        return Pooling(num_tokens, num_classes)

    factory.keywords = {"layers": value}  # type: ignore[attr-defined]  # as functools.partial has them
    with pytest.raises(UserError, match=rf"model.network.init_args.layers: a {kind} cannot be stored"):
        describe_network(factory, Pooling(20, 4))
    factory.keywords = {"layers": [1, 2.0, "x", None, True, {"a": (3,)}]}  # type: ignore[attr-defined]
    assert describe_network(factory, Pooling(20, 4))["init_args"] == factory.keywords  # type: ignore[attr-defined]
