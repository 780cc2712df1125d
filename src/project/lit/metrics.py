"""The evaluation loss as a torchmetrics metric."""

from __future__ import annotations

import torch
from torch import Tensor
from torchmetrics import Metric


class LossCounts(Metric):
    """Sums `loss_counts` over micro-batches and ranks, (2,) int64."""

    full_state_update = False
    total: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.add_state("total", torch.zeros(2, dtype=torch.int64), dist_reduce_fx="sum")

    def update(self, counts: Tensor) -> None:
        """Add one micro-batch's counts, (2,) int64."""
        self.total += counts

    def compute(self) -> Tensor:
        """The sum so far, (2,) int64."""
        return self.total
