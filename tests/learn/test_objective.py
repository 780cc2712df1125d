"""Loss, normalisation and metrics against values computed another way."""

from __future__ import annotations

import math

import pytest
import torch
from sklearn.metrics import accuracy_score, f1_score, precision_recall_fscore_support
from torch import nn

from project.learn.objective import LOSS_UNIT, balanced_weights, loss_counts, normalise, scores, summed_loss


def test_the_summed_loss_is_the_sum_of_negative_log_probabilities() -> None:
    logits = torch.tensor([[2.0, 0.0], [0.0, 1.0]])
    labels = torch.tensor([0, 0])
    expected = math.log(1 + math.exp(-2)) + math.log(1 + math.exp(1))
    assert float(summed_loss(logits, labels)) == pytest.approx(expected, rel=1e-6)


def test_smoothing_and_class_weights_enter_the_sum() -> None:
    logits, labels = torch.randn(6, 3), torch.tensor([0, 1, 2, 2, 1, 0])
    log_probabilities = logits.log_softmax(dim=1)
    weights = torch.tensor([1.0, 2.0, 4.0])
    target = torch.full((6, 3), 0.3 / 3)
    target[torch.arange(6), labels] += 0.7
    expected = -((target * log_probabilities).sum(dim=1) * weights[labels]).sum()
    found = summed_loss(logits, labels, label_smoothing=0.3, class_weights=weights)
    torch.testing.assert_close(found, expected)


def test_half_precision_logits_are_summed_in_float32() -> None:
    logits = torch.randn(4, 3).bfloat16()
    assert summed_loss(logits, torch.zeros(4, dtype=torch.long)).dtype == torch.float32


def test_normalise_divides_what_has_a_gradient() -> None:
    with_gradient, without = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))
    with_gradient.grad = torch.tensor([3.0, 6.0])
    normalise([with_gradient, without], 3)
    assert with_gradient.grad.tolist() == [1.0, 2.0]
    assert without.grad is None


def test_balanced_weights_weigh_each_class_alike() -> None:
    counts = torch.tensor([10, 30, 60])
    weights = balanced_weights(counts)
    torch.testing.assert_close(weights * counts, torch.full((3,), 100 / 3))


def counted(labels: list[int], predicted: list[int], num_classes: int) -> torch.Tensor:
    confusion = torch.zeros(num_classes, num_classes, dtype=torch.int64)
    for true, guess in zip(labels, predicted, strict=True):
        confusion[true, guess] += 1
    return confusion


def test_figures_of_a_case_counted_by_hand() -> None:
    # class 0: 2 of 3 found, one wrong guess; class 1: 1 of 2 found; class 2 never occurs and is never guessed
    found = scores(counted([0, 0, 0, 1, 1], [0, 0, 1, 1, 0], 3), torch.tensor([int(5 / LOSS_UNIT), 0]))
    assert found.accuracy == 3 / 5
    assert found.precision == (2 / 3, 1 / 2, 0.0)
    assert found.recall == (2 / 3, 1 / 2, 0.0)
    assert found.f1 == (2 / 3, 1 / 2, 0.0)
    assert found.macro_f1 == pytest.approx((2 / 3 + 1 / 2) / 2, rel=1e-15)
    assert found.support == (3, 2, 0)
    assert found.loss == 1.0


def test_figures_agree_with_scikit_learn() -> None:
    labels, predicted = torch.randint(0, 7, (2, 500)).tolist()
    found = scores(counted(labels, predicted, 7), torch.tensor([0, 0]))
    precision, recall, f1, support = precision_recall_fscore_support(labels, predicted, zero_division=0)
    assert found.accuracy == accuracy_score(labels, predicted)
    assert found.macro_f1 == pytest.approx(f1_score(labels, predicted, average="macro"), rel=1e-14)
    for ours, theirs in ((found.precision, precision), (found.recall, recall), (found.f1, f1)):
        assert ours == pytest.approx(list(theirs), rel=1e-14)
    assert found.support == tuple(support)


def test_the_evaluation_loss_does_not_depend_on_the_order_or_the_batches() -> None:
    logits, labels = torch.randn(301, 5) * 4, torch.randint(0, 5, (301,))
    whole = loss_counts(logits, labels)
    for batch_size in (1, 7, 64):
        order = torch.randperm(301)
        parts = [loss_counts(logits[part], labels[part]) for part in torch.split(order, batch_size)]
        assert torch.equal(torch.stack(parts).sum(dim=0), whole)
    expected = nn.functional.cross_entropy(logits.double(), labels, reduction="sum")
    assert float(whole[0]) * LOSS_UNIT == pytest.approx(float(expected), rel=1e-6)


def test_a_loss_that_is_not_finite_shows() -> None:
    logits = torch.tensor([[0.0, 0.0], [float("nan"), 0.0], [float("-inf"), 0.0]])
    counts = loss_counts(logits, torch.zeros(3, dtype=torch.long))
    assert counts[1] == 2
    assert math.isnan(scores(torch.tensor([[3, 0], [0, 0]]), counts).loss)
