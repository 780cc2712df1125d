"""What was trained since the last logged step."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass
class Interval:
    """Sums that stay on the device until a step is logged, so that no other step waits for them."""

    loss: Tensor
    """() float32, the sum over this rank's examples."""
    num_examples: int = 0
    """Of all ranks."""
    grad_norm: Tensor | None = None
    """() float32, of the logged step, before clipping."""
    lr: float = 0.0
    """The first group's learning rate in the logged step."""

    @classmethod
    def begin(cls, device: torch.device) -> Interval:
        """An empty one."""
        return cls(torch.zeros((), device=device))

    def add(self, loss: Tensor, num_examples: int) -> None:
        """A micro-batch was trained, with this summed loss, () float32, and so many examples on all ranks together."""
        self.loss += loss.detach()
        self.num_examples += num_examples

    def scalars(self, loss_of_all_ranks: Tensor) -> dict[str, float]:
        """What is logged. The loss, () float32, summed over the ranks, is read off the device here."""
        assert self.grad_norm is not None
        return {
            "train/loss": float(loss_of_all_ranks) / self.num_examples,
            "train/grad_norm": float(self.grad_norm),
            "train/lr": self.lr,
        }
