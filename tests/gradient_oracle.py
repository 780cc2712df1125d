"""True gradients in float64, and how far from them a float32 gradient may be; the yardstick of the gradient tests.

The bound. Let g_i be the gradient of example i's loss in exact arithmetic and G = (g_1 + ... + g_n) / n the gradient of
a window. Float32 computes ĝ_i instead and adds them up, in some order and in some tree, to Ĝ.

1. Adding m numbers, whatever the order and the tree, is off by at most gamma(m - 1) times the sum of their absolute
   values, where gamma(k) = k u / (1 - k u) and u = eps / 2 = 2⁻²⁴ (Higham 2002, "Accuracy and Stability of Numerical
   Algorithms", lemma 3.1 and section 4.2). Each further rounding of a term or of the sum adds one to k; the division by
   n is one. This holds element by element, hence in the 2-norm with the sum of the ‖ĝ_i‖ as the scale. m is the
   number of terms of the longest sum. That is not n: the same weights serve every token, so a weight's gradient has one
   term for each token of the window (those of padding are zeros, which add exactly).
2. The network itself rounds, the more the deeper it is. Bounds by depth exist, but they need the condition of every
   layer; this part is measured: the sum of ‖ĝ_i - g_i‖, each example alone in both precisions.

Together, for each parameter: ‖Ĝ - G‖ ≤ (gamma(m - 1 + more) Σ‖ĝ_i‖ + Σ‖ĝ_i - g_i‖) / n. The window's partition is not
in it, so one bound holds for all partitions and orders.

Two liberties. ‖ĝ_i‖ stands for the absolute values of an example's terms, which is less where its tokens cancel; and
beside others an example may round otherwise than alone. The first part pays for both: roundings grow like √m and not
like the worst case m. The bound presumes that both precisions are on the same side of each kink (ReLU, maximum); the
tests' numbers are fixed, and one on the wrong side would show as a failure.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

UNIT_ROUNDOFF = torch.finfo(torch.float32).eps / 2


def gamma(num_roundings: int) -> float:
    """k u / (1 - k u): the relative error that k roundings of float32 can add up to."""
    return num_roundings * UNIT_ROUNDOFF / (1 - num_roundings * UNIT_ROUNDOFF)


@dataclass(frozen=True)
class Problem:
    """Labelled examples and a float32 network that answers them."""

    network: nn.Module
    logits: Callable[[nn.Module, Sequence[int]], Tensor]
    """Answers (B, C) of a network to the examples with these indices."""
    labels: Tensor
    """(N,) int64."""
    num_terms: Sequence[int]
    """How many terms each example adds to the gradient of a weight: its tokens, or 1."""

    def gradient(self, window: Sequence[int], dtype: torch.dtype) -> list[Tensor]:
        """Gradient of the window's mean loss, of all its examples at once, computed in `dtype`; float64 tensors."""
        network = copy.deepcopy(self.network).to(dtype)
        loss = functional.cross_entropy(self.logits(network, window), self.labels[list(window)])
        return [gradient.double() for gradient in torch.autograd.grad(loss, list(network.parameters()))]

    def true_gradient(self, window: Sequence[int]) -> list[Tensor]:
        """The oracle: the gradient in float64."""
        return self.gradient(window, torch.float64)

    def bound(self, window: Sequence[int], *, num_more_roundings: int = 1) -> list[float]:
        """For each parameter, how far a float32 gradient of this window may be from the true one.

        `num_more_roundings` counts what happens to a term, or to the sum, beside adding: the division by n.
        """
        rounded = [self.gradient([index], torch.float32) for index in window]
        exact = [self.gradient([index], torch.float64) for index in window]
        num_roundings = sum(self.num_terms[index] for index in window) - 1 + num_more_roundings
        bounds = []
        for ours, theirs in zip(zip(*rounded, strict=True), zip(*exact, strict=True), strict=True):
            scale = sum(float(one.norm()) for one in ours)
            depth = sum(distances(ours, theirs))
            bounds.append((gamma(num_roundings) * scale + depth) / len(window))
        return bounds


def distances(found: Sequence[Tensor], expected: Sequence[Tensor]) -> list[float]:
    """‖found - expected‖₂ of each pair, taken in float64."""
    return [float((one.double() - other.double()).norm()) for one, other in zip(found, expected, strict=True)]
