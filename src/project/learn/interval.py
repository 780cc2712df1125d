"""The sums that a logged step reports."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass
class Interval:
    """Sums since the last logged step. They stay on the device until then, so no other step waits for them."""

    loss: Tensor
    """Sum over this rank's examples, () float32."""
    num_examples: int = 0
    """Examples of all ranks."""
    grad_norm: Tensor | None = None
    """Norm of the logged step's gradients before clipping, () float32."""
    lr: float = 0.0
    """Learning rate of the first parameter group in the logged step."""

    @classmethod
    def begin(cls, device: torch.device) -> Interval:
        """Return an empty interval."""
        return cls(torch.zeros((), device=device))

    def add(self, loss: Tensor, num_examples: int) -> None:
        """Add a micro-batch: its summed loss, () float32, and its number of examples on all ranks together."""
        self.loss += loss.detach()
        self.num_examples += num_examples

    def scalars(self, loss_of_all_ranks: Tensor) -> dict[str, float]:
        """The scalars to log. Reads the loss, () float32, the sum over all ranks, off the device."""
        assert self.grad_norm is not None
        return {
            "train/loss": float(loss_of_all_ranks) / self.num_examples,
            "train/grad_norm": float(self.grad_norm),
            "train/lr": self.lr,
        }
