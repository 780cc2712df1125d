"""What is logged of an interval: the mean loss over its examples, however they were batched."""

from __future__ import annotations

import torch

from project.learn.interval import Interval


def test_the_logged_loss_is_the_mean_over_examples() -> None:
    interval = Interval.begin(torch.device("cpu"))
    for losses in ([1.0, 2.0, 3.0], [10.0]):  # a mean of the batches' means would be 6
        interval.add(torch.tensor(losses, requires_grad=True).sum(), len(losses))
    assert not interval.loss.requires_grad
    interval.grad_norm, interval.lr = torch.tensor(0.5), 0.25
    assert interval.scalars(interval.loss) == {"train/loss": 4.0, "train/grad_norm": 0.5, "train/lr": 0.25}


def test_the_loss_of_all_ranks_is_divided_by_the_examples_of_all_ranks() -> None:
    interval = Interval.begin(torch.device("cpu"))
    interval.add(torch.tensor(6.0), 8)
    interval.grad_norm = torch.tensor(0.5)
    assert interval.scalars(torch.tensor(12.0))["train/loss"] == 1.5
