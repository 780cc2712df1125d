"""Shared numbers against the same numbers found in another way: counted one by one, or by what a distribution promises.

End-to-end tests compare one twin with the other, and both take these from the same code.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pytest
import torch
from torch import Tensor, nn

import naive
from project.data.config import DataConfig
from project.data.order import OrderedBatches, epoch_order
from project.data.splits import Data
from project.learn.not_finite import LossWatch
from project.learn.objective import loss_counts
from project.learn.plan import Plan
from project.learn.recipe import Recipe
from project.network import Committee, Pooling, Residual, TextCNN, Transformer
from project.network.committee import Bag
from project.ranks.world import World
from tiny_corpus import Corpus

T = TypeVar("T")


def dealt(examples: Sequence[T], batch_size: int, world_size: int, *, drop_last: bool) -> list[list[list[T]]]:
    """An epoch's examples dealt out like cards, one to each rank in turn: for each micro-batch, every rank's hand."""
    micro_batches = []
    for first in range(0, len(examples), batch_size * world_size):
        together = examples[first : first + batch_size * world_size]
        if drop_last and len(together) < batch_size * world_size:
            continue
        hands: list[list[T]] = [[] for _ in range(world_size)]
        for place, example in enumerate(together):
            hands[place % world_size].append(example)
        micro_batches.append(hands)
    return micro_batches


# Losses and labels


def test_the_evaluation_loss_counts_each_example_to_the_nearest_unit() -> None:
    """Sure and right answers: their losses are so small that they are no whole number of units."""
    labels = torch.arange(5).repeat(10)
    logits = 9.0 * nn.functional.one_hot(labels, 5) + torch.rand(50, 5)
    losses = nn.functional.cross_entropy(logits, labels, reduction="none").tolist()
    assert any(loss * 2**32 % 1 >= 0.5 for loss in losses)
    assert loss_counts(logits, labels).tolist() == [sum(round(loss * 2**32) for loss in losses), 0]


@pytest.mark.parametrize("loss", [math.nan, math.inf, -math.inf, 3e38])
def test_a_step_is_left_out_for_each_kind_of_loss_that_is_not_finite(loss: float) -> None:
    class Lines:
        path = "train.jsonl"

        def line(self, index: int) -> int:
            return index + 1

    network = nn.Linear(2, 2)
    watch = LossWatch("skip", network, Lines(), World(), lambda line: None)  # type: ignore[arg-type]
    watch.begin()
    watch.saw(1, torch.tensor(1.0), torch.arange(3))
    watch.saw(1, torch.tensor(loss), torch.arange(3))
    assert watch.leave_out_if_not_finite(network.parameters()) is not math.isfinite(loss)


def test_rows_are_counted_by_class(corpus: Corpus) -> None:
    """Of the training rows, with the classes in the alphabet's order."""
    data = Data(DataConfig(str(corpus.train), str(corpus.val), cache_dir=str(corpus.cache)))
    data.fit_vocabulary()
    data.open_split("val")
    data.open_split("train")
    labels = [json.loads(line)["label"] for line in corpus.train.read_text(encoding="utf-8").splitlines()]
    counts = [labels.count(label) for label in sorted(set(labels))]
    assert len(set(counts)) > 1
    assert data.label_counts.tolist() == counts


# The plan


@pytest.mark.parametrize("world_size", [1, 2, 3, 5])
@pytest.mark.parametrize("batch_size", [1, 2, 3, 8])
def test_the_plan_counts_what_is_dealt_out(batch_size: int, world_size: int) -> None:
    for num_examples, drop_last in itertools.product(range(1, 35), (False, True)):
        micro_batches = dealt(range(num_examples), batch_size, world_size, drop_last=drop_last)
        if not micro_batches:
            continue  # refused; see test_plan.py
        for rank in range(world_size):
            plan = Plan(num_examples, batch_size, drop_last=drop_last, world_size=world_size, rank=rank)
            assert plan.num_micro_batches == len(micro_batches)
            num_rows = 0
            for number, hands in enumerate(micro_batches):
                assert plan.num_counted(number) == len(hands[rank])
                assert plan.num_counted_together(number) == sum(map(len, hands))
                assert plan.num_rows(0, number) == num_rows
                num_rows += sum(map(len, hands))
            assert plan.num_rows(2, 0) == 2 * num_rows


@pytest.mark.parametrize("accumulate", [1, 2, 3, 41])
@pytest.mark.parametrize("limit", [1.0, 0.5, 4])
def test_the_plan_closes_windows_and_counts_steps_as_a_loop_does(accumulate: int, limit: int | float) -> None:
    """Windows are filled one micro-batch at a time, and steps are counted where a loop would make them."""
    for num_examples, max_epochs, max_steps in itertools.product(range(2, 35), (1, 3, -1), (-1, 1, 4)):
        if max_epochs == max_steps == -1:
            continue  # refused; see test_plan.py
        available = len(dealt(range(num_examples), 2, 1, drop_last=False))
        num_micro_batches = math.floor(available * limit) if isinstance(limit, float) else min(available, limit)
        if num_micro_batches == 0:
            continue
        settings: dict[str, Any] = {"accumulate_grad_batches": accumulate, "limit_train_batches": limit}
        plan = Plan(num_examples, 2, max_epochs=max_epochs, max_steps=max_steps, **settings)
        closes: list[bool] = []
        num_steps = num_waiting = epoch = 0
        while epoch != max_epochs and num_steps != max_steps:
            closes.clear()
            for micro_batch in range(num_micro_batches):
                num_waiting += 1
                closes.append(num_waiting == accumulate or micro_batch == num_micro_batches - 1)
                if closes[-1]:
                    num_waiting = 0
                    num_steps += num_steps != max_steps
            epoch += 1
        assert [plan.closes_window(micro_batch) for micro_batch in range(num_micro_batches)] == closes
        assert [plan.closes_epoch(place) for place in range(num_micro_batches)].index(True) == num_micro_batches - 1
        assert (plan.num_windows, plan.num_epochs, plan.total_steps) == (sum(closes), epoch, num_steps)


# The order


def test_split_mix_is_the_published_one() -> None:
    """The first numbers of seed 1234567, as other implementations of SplitMix64 list them."""
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    assert [naive.split_mix(1234567, count) for count in (1, 2, 3, 4)] == published


@pytest.mark.parametrize("num_examples", [1, 2, 50, 1001])
def test_an_epochs_order_is_the_naive_one(num_examples: int) -> None:
    found = {}
    for seed, epoch in itertools.product((0, 1, 5, 2**32 + 1), range(4)):
        order = epoch_order(num_examples, seed, epoch).tolist()
        assert order == naive.order(num_examples, seed, epoch)
        assert sorted(order) == list(range(num_examples))
        found[seed, epoch] = tuple(order)
    if num_examples >= 50:
        assert len(set(found.values())) == len(found)


@pytest.mark.parametrize("is_grouped", [False, True])
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("num_examples", [1, 13, 230])  # 230: more than the 50 batches that are grouped together
def test_ranks_are_given_what_is_dealt_out_of_the_naive_order(
    num_examples: int, drop_last: bool, is_grouped: bool
) -> None:
    lengths = [1 + (7 * example) % 11 for example in range(num_examples)]
    for batch_size, world_size, epoch in itertools.product((1, 2), (1, 2, 3), (0, 3)):
        examples = naive.order(num_examples, 4, epoch)
        if drop_last:
            examples = examples[: num_examples // (batch_size * world_size) * batch_size * world_size]
        if is_grouped and examples:
            examples = naive.grouped(examples, lengths, batch_size * world_size, 4, epoch)
        expected = dealt(examples, batch_size, world_size, drop_last=drop_last)
        for rank in range(world_size):
            batches = OrderedBatches(
                num_examples,
                batch_size,
                seed=4,
                rank=rank,
                world_size=world_size,
                drop_last=drop_last,
                lengths=torch.tensor(lengths) if is_grouped else None,
            )
            batches.set_epoch(epoch)
            # A rank that is dealt nothing joins in with the first one's first example, as -1 - index.
            assert list(batches) == [hands[rank] or [-1 - hands[0][0]] for hands in expected]
            assert len(batches) == len(expected)
            if len(expected) > 2:
                batches.seek(epoch, 2)
                assert list(batches) == [hands[rank] or [-1 - hands[0][0]] for hands in expected[2:]]


# The initial weights
#
# The mean of many independent draws is off by more than `FAR` standard errors in one case of two million: the tail of a
# normal distribution. The seed is fixed, so a test that passes does so each time.

FAR = 5.0
NUM_TOKENS, NUM_CLASSES = 1_000, 20


def check_uniform(weight: Tensor, fan_in: int) -> None:
    """U(-b, b) with b = 1/√fan_in: its mean square is b²/3, and that of w⁴ is b⁴/5."""
    values, bound, n = weight.detach().double(), 1 / math.sqrt(fan_in), weight.numel()
    assert values.abs().max() <= torch.tensor(bound)  # exact: as float32 holds it
    if n >= 1000:
        assert abs(values.mean()) <= FAR * bound / math.sqrt(3 * n)
        assert abs(values.square().mean() - bound**2 / 3) <= FAR * bound**2 * math.sqrt((1 / 5 - 1 / 9) / n)
        assert values.abs().max() >= bound * (1 - 20 / n)  # all are smaller with a probability of (1 - 20/n)ⁿ < e⁻²⁰


def check_normal(weight: Tensor, std: float) -> None:
    """N(0, std²): the variance of w² is 2 std⁴, and a share of 0.0027 lies beyond three std."""
    values, n = weight.detach().double(), weight.numel()
    share = math.erfc(3 / math.sqrt(2))
    assert abs(values.mean()) <= FAR * std / math.sqrt(n)
    assert abs(values.square().mean() - std**2) <= FAR * std**2 * math.sqrt(2 / n)
    assert abs((values.abs() > 3 * std).sum() - share * n) <= FAR * math.sqrt(share * n)


def check_module(module: nn.Module, std: float) -> list[Tensor]:
    """Check a module's own parameters; returns those."""
    if isinstance(module, nn.Linear):
        check_uniform(module.weight, module.in_features)
        check_uniform(module.bias, module.in_features)
        return [module.weight, module.bias]
    if isinstance(module, nn.LayerNorm):
        assert module.weight.eq(1).all()
        assert module.bias.eq(0).all()
        return [module.weight, module.bias]
    if isinstance(module, Residual):
        assert module.scale.tolist() == [1.0]
        assert module.calls.item() == 0
        return [module.scale]
    if isinstance(module, Bag):
        assert not module.tokens.weight.any()
        assert not module.pairs.weight.any()
        return [module.tokens.weight, module.pairs.weight]
    if isinstance(module, nn.Embedding | nn.EmbeddingBag) and module.weight.any():  # a bag's are zero, as seen above
        assert not module.weight[0].any()
        check_normal(module.weight[1:], std)
        return [module.weight]
    return []


NETWORKS: dict[str, tuple[Callable[..., nn.Module], float]] = {
    "pooling": (Pooling, 0.1),
    "textcnn": (TextCNN, 0.1),
    "transformer": (Transformer, 0.5),
    "committee": (functools.partial(Committee, bag_buckets=500, dim=64), 0.1),
}
"""Each network, and the standard deviation of its embeddings."""


@pytest.mark.parametrize("name", NETWORKS)
def test_initial_weights_are_drawn_as_documented(name: str) -> None:
    build, std = NETWORKS[name]
    torch.manual_seed(1)
    network = build(NUM_TOKENS, NUM_CLASSES)
    checked = {id(tensor) for module in network.modules() for tensor in check_module(module, std)}
    assert checked == {id(parameter) for parameter in network.parameters()}


@pytest.mark.parametrize("name", NETWORKS)
def test_the_seed_alone_decides_the_initial_weights(name: str) -> None:
    build, _ = NETWORKS[name]

    def built(seed: int) -> dict[str, Tensor]:
        recipe = Recipe(build, functools.partial(torch.optim.SGD, lr=0.1), seed=seed)
        return recipe.build_network(NUM_TOKENS, NUM_CLASSES).state_dict()

    first, again, other = built(3), built(3), built(4)
    torch.manual_seed(3)
    by_hand = build(NUM_TOKENS, NUM_CLASSES).state_dict()
    for tensor_name, tensor in first.items():
        assert torch.equal(tensor, again[tensor_name])
        assert torch.equal(tensor, by_hand[tensor_name])
        is_drawn = bool(tensor.ne(tensor.flatten()[0]).any())  # ones, zeros and counts are not
        assert torch.equal(tensor, other[tensor_name]) != is_drawn, tensor_name
