"""How a window is cut into micro-batches changes nothing; and what would change something is seen.

The oracle is the float64 gradient of the whole window's mean loss; the bound is derived in `gradient_oracle`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.autograd import gradcheck, gradgradcheck

from gradient_oracle import Problem, distances
from project.data.batch import collate
from project.data.dataset import Example
from project.data.order import OrderedBatches
from project.learn.objective import normalise, summed_loss
from project.learn.plan import Plan
from project.network import Pooling, TextCNN, Transformer

NUM_TOKENS, NUM_CLASSES = 60, 4
LENGTHS = [1, 2, 3, 5, 8, 13, 16, 21, 32, 34, 4, 9]  # tokens of the twelve examples; 16 and 32 fill their tiles
WINDOW = range(len(LENGTHS))
FAR = 100  # bounds that a wrong gradient is off by at least, in every parameter; measured: 884, most of them 10,000

NETWORKS: dict[str, Callable[[int, int], nn.Module]] = {
    "pooling": partial(Pooling, dim=16, ngram_buckets=100, hidden=16, dropout=0.0),
    "textcnn": partial(TextCNN, dim=16, widths=(1, 2, 3), num_filters=8, hidden=16, dropout=0.0),
    "transformer": partial(Transformer, dim=16, num_heads=2, hidden=16, dropout=0.0),
}


@pytest.fixture(scope="module", params=NETWORKS)
def problem(request: pytest.FixtureRequest) -> Problem:
    """A network without dropout, and twelve texts of different lengths."""
    torch.manual_seed(1)
    network = NETWORKS[request.param](NUM_TOKENS, NUM_CLASSES)
    labels = torch.randint(NUM_CLASSES, (len(LENGTHS),))
    texts = [torch.randint(2, NUM_TOKENS, (length,)) for length in LENGTHS]
    examples = [Example(text, int(labels[index]), index) for index, text in enumerate(texts)]

    def logits(network: nn.Module, indices: Sequence[int]) -> Tensor:
        batch = collate([examples[index] for index in indices])
        answers: Tensor = network(batch.tokens, batch.lengths)
        return answers

    return Problem(network, logits, labels, LENGTHS)


@pytest.fixture(scope="module")
def exact(problem: Problem) -> list[Tensor]:
    """The true gradient of the whole window."""
    return problem.true_gradient(WINDOW)


@pytest.fixture(scope="module")
def bound(problem: Problem) -> list[float]:
    """How far from it a float32 gradient may be, parameter by parameter."""
    return problem.bound(WINDOW)


def accumulated(problem: Problem, micro_batches: Sequence[Sequence[int]]) -> list[Tensor]:
    """The project's gradient of a window: backward from each micro-batch's sum, one division at the end."""
    problem.network.zero_grad()
    for indices in micro_batches:
        loss = summed_loss(problem.logits(problem.network, indices), problem.labels[list(indices)])
        loss.backward()  # type: ignore[no-untyped-call]
    normalise(problem.network.parameters(), sum(map(len, micro_batches)))
    return [parameter.grad for parameter in problem.network.parameters() if parameter.grad is not None]


def averaged(problem: Problem, micro_batches: Sequence[Sequence[int]], num_micro_batches: int) -> list[Tensor]:
    """The usual gradient of a window: mean losses, each divided by the number of micro-batches of a full window."""
    gradients = [problem.gradient(indices, torch.float32) for indices in micro_batches]
    return [torch.stack(each).sum(dim=0) / num_micro_batches for each in zip(*gradients, strict=True)]


@st.composite
def partitions(draw: st.DrawFn) -> list[list[int]]:
    """The window's examples in any order, cut into micro-batches anywhere."""
    order = draw(st.permutations(WINDOW))
    cuts = draw(st.sets(st.integers(1, len(order) - 1)))
    return [order[start:end] for start, end in pairwise([0, *sorted(cuts), len(order)])]


# Micro-batches


@settings(deadline=None, max_examples=60, derandomize=True)
@given(micro_batches=partitions())
@example(micro_batches=[[*WINDOW]])
@example(micro_batches=[[index] for index in WINDOW])
@example(micro_batches=[[index] for index in reversed(WINDOW)])
def test_any_partition_in_any_order_gives_the_windows_gradient(
    problem: Problem, exact: list[Tensor], bound: list[float], micro_batches: list[list[int]]
) -> None:
    found = accumulated(problem, micro_batches)
    assert all(distance <= limit for distance, limit in zip(distances(found, exact), bound, strict=True))


@pytest.mark.parametrize("micro_batches", [[range(11), [11]], [range(5), range(5, 10), range(10, 12)]])
def test_a_mean_of_unequal_means_is_far_beyond_the_bound(
    problem: Problem, exact: list[Tensor], bound: list[float], micro_batches: list[Sequence[int]]
) -> None:
    found = averaged(problem, micro_batches, len(micro_batches))
    assert all(distance > FAR * limit for distance, limit in zip(distances(found, exact), bound, strict=True))


def test_a_mean_of_equal_means_is_within_the_bound(problem: Problem, exact: list[Tensor]) -> None:
    """So the control fails for its inequality and nothing else."""
    found = averaged(problem, [range(4), range(4, 8), range(8, 12)], 3)
    bound = problem.bound(WINDOW, num_more_roundings=2)  # divided twice
    assert all(distance <= limit for distance, limit in zip(distances(found, exact), bound, strict=True))


@pytest.mark.parametrize(("batch_size", "sizes"), [(1, [3, 3, 1]), (2, [6, 1])])
def test_seven_examples_in_windows_of_three(problem: Problem, batch_size: int, sizes: list[int]) -> None:
    """Each window's gradient is its own full-batch gradient, however few examples the last one holds."""
    plan = Plan(num_examples=7, batch_size=batch_size, accumulate_grad_batches=3)
    windows: list[list[list[int]]] = [[]]
    for micro_batch, indices in enumerate(OrderedBatches(7, batch_size, seed=0)):
        windows[-1].append(indices)
        if plan.closes_window(micro_batch):
            windows.append([])
    assert windows.pop() == []
    assert [sum(map(len, window)) for window in windows] == sizes
    for window in windows:
        examples = [index for indices in window for index in indices]
        exact, bound = problem.true_gradient(examples), problem.bound(examples)
        for distance, limit in zip(distances(accumulated(problem, window), exact), bound, strict=True):
            assert distance <= limit
        of_three = distances(averaged(problem, window, 3), exact)
        if len(window) < 3:  # the short last window, divided by three all the same
            assert all(distance > FAR * limit for distance, limit in zip(of_three, bound, strict=True))


# Derivatives: the checks that the tests of gradients rest on can tell right from wrong.


class Cube(torch.autograd.Function):
    """x³ with its derivative written by hand, itself differentiable."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        x: Tensor
        (x,) = ctx.saved_tensors
        return gradient * 3 * x * x


class StraightThrough(torch.autograd.Function):
    """Rounding that passes its gradient on as if it were the identity: useful, and no derivative."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.round()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient


def points() -> Tensor:
    """Six float64 numbers, none near a half, where rounding jumps."""
    return torch.tensor([-2.2, -1.1, -0.3, 0.2, 0.9, 1.7], dtype=torch.float64, requires_grad=True)


def test_gradcheck_accepts_a_derivative_and_refuses_a_pretence() -> None:
    assert gradcheck(Cube.apply, points())
    assert gradgradcheck(Cube.apply, points())
    assert not gradcheck(StraightThrough.apply, points(), raise_exception=False)


def test_double_backward_of_the_cube_is_exact() -> None:
    x = torch.tensor(2.0, requires_grad=True)
    (slope,) = torch.autograd.grad(Cube.apply(x), x, create_graph=True)  # type: ignore[no-untyped-call]
    (curvature,) = torch.autograd.grad(slope, x)
    assert (slope.item(), curvature.item()) == (12.0, 12.0)
