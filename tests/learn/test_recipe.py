"""What is built from the `model` group."""

from __future__ import annotations

import functools
import shutil
import sysconfig
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim.lr_scheduler import OneCycleLR, ReduceLROnPlateau

from project.errors import UserError
from project.learn.plan import Plan
from project.learn.recipe import Recipe, check_compiler, describe_network, network_from
from project.network import Pooling

PLAN = Plan(num_examples=31, batch_size=8, max_epochs=3)  # 12 optimizer steps


def make(**changes: Any) -> Recipe:
    fields: dict[str, Any] = {"network": Pooling, "optimizer": functools.partial(torch.optim.AdamW, lr=0.1)}
    return Recipe(**(fields | changes))


def test_the_same_seed_gives_the_same_weights_whatever_was_drawn_before() -> None:
    first = make(seed=3).build_network(20, 4).state_dict()
    torch.rand(17)
    second = make(seed=3).build_network(20, 4).state_dict()
    other = make(seed=4).build_network(20, 4).state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)


def test_building_leaves_the_global_random_stream_and_the_default_dtype_alone() -> None:
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    torch.set_default_dtype(torch.bfloat16)
    try:
        network = make().build_network(20, 4)
        assert torch.get_default_dtype() == torch.bfloat16
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.equal(torch.rand(3), expected)
    assert {parameter.dtype for parameter in network.parameters()} == {torch.float32}


def test_vectors_are_kept_out_of_weight_decay() -> None:
    network = make().build_network(20, 4)
    optimizer = make(optimizer=functools.partial(torch.optim.AdamW, lr=0.1, weight_decay=0.5)).build_optimizer(network)
    decays = {id(p): group["weight_decay"] for group in optimizer.param_groups for p in group["params"]}
    assert set(decays) == {id(parameter) for parameter in network.parameters()}
    for name, parameter in network.named_parameters():
        assert decays[id(parameter)] == (0.5 if parameter.ndim >= 2 else 0.0), name


def test_an_open_number_of_steps_is_filled_in_and_a_given_one_kept() -> None:
    network = make().build_network(20, 4)
    optimizer = make().build_optimizer(network)
    for given, expected in ((None, 12), (30, 30)):
        factory = functools.partial(OneCycleLR, max_lr=0.1, total_steps=given)
        scheduler = make(lr_scheduler=factory).build_lr_scheduler(optimizer, PLAN)
        assert isinstance(scheduler, OneCycleLR)
        assert scheduler.total_steps == expected


def test_a_scheduler_per_epoch_is_given_the_epochs() -> None:
    optimizer = make().build_optimizer(make().build_network(20, 4))
    factory = functools.partial(OneCycleLR, max_lr=0.1, total_steps=None)
    scheduler = make(lr_scheduler=factory, lr_interval="epoch").build_lr_scheduler(optimizer, PLAN)
    assert isinstance(scheduler, OneCycleLR)
    assert scheduler.total_steps == 3


def test_plateau_needs_a_metric_and_others_take_none() -> None:
    optimizer = make().build_optimizer(make().build_network(20, 4))
    with pytest.raises(UserError, match=r"model.lr_monitor: None with ReduceLROnPlateau"):
        make(lr_scheduler=ReduceLROnPlateau).build_lr_scheduler(optimizer, PLAN)
    factory = functools.partial(torch.optim.lr_scheduler.StepLR, step_size=1)
    one_cycle = functools.partial(OneCycleLR, max_lr=0.1, total_steps=None)
    with pytest.raises(UserError, match=r"model.lr_monitor: val/loss with OneCycleLR"):
        make(lr_scheduler=one_cycle, lr_monitor="val/loss").build_lr_scheduler(optimizer, PLAN)
    with pytest.raises(UserError, match=r"model.lr_monitor: val/loss with StepLR"):
        make(lr_scheduler=factory, lr_monitor="val/loss").build_lr_scheduler(optimizer, PLAN)


def test_class_weights_by_label() -> None:
    counts = torch.tensor([1, 3])
    assert make().build_class_weights(["a", "b"], counts) is None
    balanced = make(class_weights="balanced").build_class_weights(["a", "b"], counts)
    assert balanced is not None
    torch.testing.assert_close(balanced, torch.tensor([2.0, 2 / 3]))
    given = make(class_weights={7: 3.0}).build_class_weights([5, 7], counts)
    assert given is not None
    assert given.tolist() == [1.0, 3.0]
    with pytest.raises(UserError, match=r"model.class_weights: no label 'c' in the training rows; known: \['a', 'b'\]"):
        make(class_weights={"c": 1.0}).build_class_weights(["a", "b"], counts)


def test_a_network_is_described_by_plain_data_and_built_again() -> None:
    factory = functools.partial(Pooling, dim=16)
    description = describe_network(factory, factory(20, 4))
    assert description == {
        "class_path": "project.network.pooling.Pooling",
        "init_args": {"dim": 16},
    }
    rebuilt = network_from(description)(20, 4)
    assert {name: p.shape for name, p in rebuilt.named_parameters()} == {
        name: p.shape for name, p in factory(20, 4).named_parameters()
    }


def test_what_cannot_stand_in_a_checkpoint_is_refused() -> None:
    def factory(num_tokens: int, num_classes: int) -> nn.Module:
        return Pooling(num_tokens, num_classes)

    factory.keywords = {"activation": nn.ReLU()}  # type: ignore[attr-defined]  # as functools.partial has them
    with pytest.raises(UserError, match=r"model.network.init_args.activation: a ReLU cannot be stored"):
        describe_network(factory, Pooling(20, 4))


@pytest.mark.parametrize(
    ("class_path", "said"),
    [
        ("no.such.module.Network", "there is no module no"),
        ("torch.nn.NoSuchNetwork", "network class cannot be imported"),
        ("torch.save", "names this as its network, but it is not a torch.nn.Module"),
        ("torch.os.system", "network class cannot be imported"),
        ("os.system", "refused, os is none of torch, lightning, "),
        ("print", "there is no module print"),
    ],
)
def test_a_checkpoint_that_names_no_network_is_refused(class_path: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        network_from({"class_path": class_path, "init_args": {}})


def test_what_compile_misses_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(UserError, match=r"no C\+\+ compiler"):
        check_compiler()
    monkeypatch.setattr(shutil, "which", lambda name: name)
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    with pytest.raises(UserError, match=r"Python.h is missing"):
        check_compiler()
    (tmp_path / "Python.h").touch()
    check_compiler()


def test_what_a_class_refuses_is_said_with_its_key() -> None:
    network = make().build_network(20, 4)
    with pytest.raises(UserError, match=r"model.network: dim"):
        make(network=functools.partial(Pooling, dim=0)).build_network(20, 4)
    with pytest.raises(UserError, match=r"model.optimizer: Invalid learning rate"):
        make(optimizer=functools.partial(torch.optim.AdamW, lr=-1.0)).build_optimizer(network)
    scheduler_class: Any = torch.optim.lr_scheduler.StepLR
    factory = functools.partial(scheduler_class, step_size=1, gama=1)
    with pytest.raises(UserError, match=r"model.lr_scheduler: .*gama"):
        make(lr_scheduler=factory).build_lr_scheduler(make().build_optimizer(network), PLAN)
