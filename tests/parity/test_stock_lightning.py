"""A control that is not ours: what a LightningModule as every tutorial writes it makes of accumulation.

A mean loss, Lightning's own division by `accumulate_grad_batches`, torch's own loader. Full windows of equal
micro-batches come out right; a short last window takes too small a step (upstream issue 19987), and micro-batches of
different sizes weigh their examples unequally. One step at a time is held against the true gradient at the very
weights it started from, so no error of an earlier step is carried along; the learning rate is 1, so no product rounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import lightning as L
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from gradient_oracle import UNIT_ROUNDOFF, Problem, distances
from project.learn.objective import normalise, summed_loss

NUM_FEATURES, NUM_CLASSES = 5, 3
ACCUMULATE = 3
# Beside adding: 1/N, the loss times 1/N backwards, the mean's division, and the division by n of the bound itself.
NUM_MORE_ROUNDINGS = 4


class Stock(L.LightningModule):
    """A linear classifier that leaves everything but the mean loss to the Trainer."""

    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Linear(NUM_FEATURES, NUM_CLASSES)
        self.weights = [snapshot(self.network)]
        """Before the first optimizer step, and after each."""

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        features, labels = batch
        return functional.cross_entropy(self.network(features), labels)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        optimizer = torch.optim.SGD(self.parameters(), lr=1.0)
        optimizer.register_step_post_hook(lambda *_: self.weights.append(snapshot(self.network)))
        return optimizer


def snapshot(network: nn.Module) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in network.parameters()]


@dataclass(frozen=True)
class Step:
    """One optimizer step: the weights it started from and ended at, and the micro-batches of its window."""

    start: list[Tensor]
    end: list[Tensor]
    window: list[range]
    problem: Problem
    """The examples, and the network as it was at the start."""

    @property
    def examples(self) -> list[int]:
        """All examples of the window."""
        return [index for indices in self.window for index in indices]

    @property
    def taken(self) -> list[Tensor]:
        """What Lightning subtracted from the weights, float64."""
        return [before.double() - after.double() for before, after in zip(self.start, self.end, strict=True)]

    @property
    def right(self) -> list[Tensor]:
        """What should have been subtracted: the window's sum over the window's count, float64."""
        return self.problem.true_gradient(self.examples)

    @property
    def bound(self) -> list[float]:
        """How far apart float32 can have put the two: the gradient's bound, and the rounding of the new weights."""
        gradients = self.problem.bound(self.examples, num_more_roundings=NUM_MORE_ROUNDINGS)
        return [one + UNIT_ROUNDOFF * float(end.norm()) for one, end in zip(gradients, self.end, strict=True)]


def train(folder: Path, num_examples: int, batch_size: int) -> list[Step]:
    """One epoch of the stock module over `num_examples` points; its optimizer steps."""
    features, labels = torch.randn(num_examples, NUM_FEATURES), torch.randint(NUM_CLASSES, (num_examples,))
    module = Stock()
    L.Trainer(
        accelerator="cpu",
        devices=1,
        max_epochs=1,
        accumulate_grad_batches=ACCUMULATE,
        default_root_dir=folder,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    ).fit(module, DataLoader(TensorDataset(features, labels), batch_size=batch_size))

    def logits(network: nn.Module, indices: Sequence[int]) -> Tensor:
        (parameter, *_) = network.parameters()
        answers: Tensor = network(features[list(indices)].to(parameter.dtype))
        return answers

    def problem_at(weights: list[Tensor]) -> Problem:
        network = nn.Linear(NUM_FEATURES, NUM_CLASSES)
        nn.utils.vector_to_parameters(nn.utils.parameters_to_vector(weights), network.parameters())
        return Problem(network, logits, labels, [1] * num_examples)

    cuts = range(0, num_examples, batch_size)
    micro_batches = [range(start, min(start + batch_size, num_examples)) for start in cuts]
    windows = [micro_batches[first : first + ACCUMULATE] for first in range(0, len(micro_batches), ACCUMULATE)]
    ends = module.weights
    assert len(ends) == len(windows) + 1
    return [
        Step(start, end, window, problem_at(start))
        for start, end, window in zip(ends[:-1], ends[1:], windows, strict=True)
    ]


def within(step: Step, found: Sequence[Tensor], expected: Sequence[Tensor], times: float = 1.0) -> list[bool]:
    """For each parameter, whether the two are no further apart than `times` the step's bound."""
    return [far <= times * limit for far, limit in zip(distances(found, expected), step.bound, strict=True)]


@pytest.mark.parametrize(("num_examples", "batch_size"), [(6, 1), (12, 2), (9, 3)])
def test_full_windows_of_equal_micro_batches_are_right(tmp_path: Path, num_examples: int, batch_size: int) -> None:
    for step in train(tmp_path, num_examples, batch_size):
        assert all(within(step, step.taken, step.right))


@pytest.mark.parametrize(("num_examples", "batch_size", "share"), [(7, 1, 1 / 3), (8, 1, 2 / 3), (14, 2, 1 / 3)])
def test_a_short_last_window_takes_only_its_share_of_the_right_step(
    tmp_path: Path, num_examples: int, batch_size: int, share: float
) -> None:
    """k micro-batches of N: divided by N instead of by k, the step is k/N of the right one."""
    *full, last = train(tmp_path, num_examples, batch_size)
    assert full
    for step in full:
        assert all(within(step, step.taken, step.right))

    assert not any(within(last, last.taken, last.right, times=1_000))
    assert all(within(last, last.taken, [share * right for right in last.right]))
    lengths = [float(torch.cat([part.flatten() for part in parts]).norm()) for parts in (last.taken, last.right)]
    assert lengths[0] / lengths[1] == pytest.approx(share, abs=sum(last.bound) / lengths[1])


def test_the_epochs_weights_are_off_by_what_the_short_window_lost(tmp_path: Path) -> None:
    """The whole epoch, right, in float64 from the same start: two thirds of the last step are missing."""
    steps = train(tmp_path, 7, 1)
    weights = [start.double() for start in steps[0].start]
    for step in steps:
        network = nn.Linear(NUM_FEATURES, NUM_CLASSES, dtype=torch.float64)
        nn.utils.vector_to_parameters(nn.utils.parameters_to_vector(weights), network.parameters())
        gradient = Problem(network, step.problem.logits, step.problem.labels, []).true_gradient(step.examples)
        weights = [before - part for before, part in zip(weights, gradient, strict=True)]
    ends = steps[-1].end
    for far, right, limit in zip(distances(ends, weights), steps[-1].right, steps[-1].bound, strict=True):
        assert far > 1_000 * limit
        assert far / float(right.norm()) == pytest.approx(2 / 3, rel=1e-6)  # measured: 2e-8, roundings of three steps


@pytest.mark.parametrize("num_examples", [8, 7])
def test_unequal_micro_batches_are_averaged_as_if_they_were_equal(tmp_path: Path, num_examples: int) -> None:
    """Three, three and two (or one): a mean of means, in which an example of the last one counts for more."""
    (step,) = train(tmp_path, num_examples, 3)
    assert not any(within(step, step.taken, step.right, times=1_000))
    gradients = zip(*(step.problem.true_gradient(indices) for indices in step.window), strict=True)
    means = [torch.stack(each).mean(dim=0) for each in gradients]
    heaviest = num_examples / (ACCUMULATE * len(step.window[-1]))  # weight of an example there; the right one is 1
    assert all(within(step, step.taken, means, times=heaviest))


@pytest.mark.parametrize(("num_examples", "batch_size"), [(7, 1), (8, 3), (7, 3)])
def test_the_projects_arithmetic_is_right_where_the_stock_module_is_not(
    tmp_path: Path, num_examples: int, batch_size: int
) -> None:
    last = train(tmp_path, num_examples, batch_size)[-1]
    network = last.problem.network
    for indices in last.window:
        loss = summed_loss(last.problem.logits(network, indices), last.problem.labels[list(indices)])
        loss.backward()  # type: ignore[no-untyped-call]
    normalise(network.parameters(), len(last.examples))
    found = [parameter.grad for parameter in network.parameters() if parameter.grad is not None]
    assert all(within(last, found, last.right))
