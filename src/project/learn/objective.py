"""The loss, how gradients are normalised, and the metrics.

An optimizer step uses the sum of the examples' gradients over the window and all ranks, divided by the number of
examples in it. So the loss is a sum, and the division happens once, at the step.

Shapes: B examples in the micro-batch, C classes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from project.private import divide_

LOSS_UNIT = 2.0**-32
"""Evaluation losses are summed as integer multiples of this, so the sum does not depend on the order."""


def summed_loss(
    logits: Tensor, labels: Tensor, *, label_smoothing: float = 0.0, class_weights: Tensor | None = None
) -> Tensor:
    """Sum of the examples' cross-entropies, () float32.

    Args:
        logits: (B, C), any floating dtype; the loss is computed in float32.
        labels: (B,) int64.
        label_smoothing: share of the target spread over all classes, 0 to 1.
        class_weights: (C,) float32, factors on the examples' losses by class. The normaliser is still the number of
            examples.
    """
    losses = functional.cross_entropy(logits.float(), labels, label_smoothing=label_smoothing, reduction="none")  # (B,)
    if class_weights is not None:
        losses = losses * class_weights[labels]
    return losses.sum()


def only_counted(logits: Tensor, labels: Tensor, num_examples: int) -> tuple[Tensor, Tensor]:
    """The rows that enter the loss: all of them, or none if this rank has no examples left.

    A rank without examples has one stand-in row (data/order.py), so that it joins every collective.

    Args:
        logits: (B, C).
        labels: (B,) int64.
        num_examples: examples of this rank's micro-batch that count, B or 0.
    """
    return (logits, labels) if num_examples else (logits[:0], labels[:0])


def normalise(parameters: Iterable[nn.Parameter], num_examples: float) -> None:
    """Divide the accumulated gradients, in place, by the number of examples of the window."""
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    divide_(gradients, float(num_examples))


def balanced_weights(label_counts: Tensor) -> Tensor:
    """Class weights inverse to frequency, (C,) float32: n / (C · count), with a mean of 1 over the n examples.

    The formula of scikit-learn's `class_weight="balanced"` (King and Zeng 2001). `label_counts` is (C,) int64.
    """
    counts = label_counts.double()
    return (counts.sum() / (len(counts) * counts)).float()


def loss_counts(logits: Tensor, labels: Tensor) -> Tensor:
    """The micro-batch's cross-entropy as two integers, (2,) int64, without smoothing or class weights.

    The first is the sum of the finite losses in units of `LOSS_UNIT`, the second the number of losses not finite.
    """
    losses = functional.cross_entropy(logits.float(), labels, reduction="none").double()
    finite = losses.isfinite()
    units = torch.round(torch.where(finite, losses, 0.0) / LOSS_UNIT).long()
    return torch.stack([units.sum(), (~finite).sum()])


@dataclass(frozen=True)
class Scores:
    """Metrics of one evaluation, computed in float64 from integer counts.

    `precision`, `recall`, `f1` and `support` hold one value per class. A ratio with denominator 0 is 0.
    """

    loss: float
    accuracy: float
    macro_f1: float
    """Mean F1 over the classes that occur in labels or predictions."""
    precision: tuple[float, ...]
    recall: tuple[float, ...]
    f1: tuple[float, ...]
    support: tuple[int, ...]

    def logged(self, split: str) -> dict[str, float]:
        """The metrics to log, as `<split>/loss`, `<split>/accuracy` and `<split>/macro_f1`."""
        return {f"{split}/{name}": getattr(self, name) for name in ("loss", "accuracy", "macro_f1")}


def scores(confusion: Tensor, losses: Tensor) -> Scores:
    """Compute the metrics from counts.

    Args:
        confusion: (C, C) int64; rows are true classes, columns predicted ones.
        losses: (2,) int64, the sum of `loss_counts`; one loss that is not finite makes `Scores.loss` NaN.
    """
    counts = confusion.double()
    correct, support, predicted = counts.diagonal(), counts.sum(dim=1), counts.sum(dim=0)
    precision = torch.where(predicted > 0, correct / predicted, 0.0)
    recall = torch.where(support > 0, correct / support, 0.0)
    occurring = support + predicted > 0
    f1 = torch.where(occurring, 2 * correct / (support + predicted), 0.0)
    num_examples = int(confusion.sum())
    total_units, num_not_finite = losses.tolist()
    return Scores(
        loss=float("nan") if num_not_finite else total_units * LOSS_UNIT / num_examples,
        accuracy=float(correct.sum() / num_examples),
        macro_f1=float(f1.sum() / occurring.sum()),
        precision=tuple(precision.tolist()),
        recall=tuple(recall.tolist()),
        f1=tuple(f1.tolist()),
        support=tuple(int(count) for count in support.tolist()),
    )
