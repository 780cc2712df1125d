"""The training loop, written by hand; it reads from top to bottom, and one optimizer step fits on a screen.

It is the loop that every PyTorch text teaches, grown only by what mixed precision, accumulation, clipping and an exact
count of examples need. B: micro-batch size, T: tokens, C: classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import islice

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from project.task.batch import Batch
from project.task.objective import Figures, figures, loss_counts, normalise, summed_loss
from project.task.plan import Plan
from project.task.recipe import Recipe


@dataclass
class Interval:
    """What was trained since the last logged step; the loss stays on the device until it is logged."""

    loss: Tensor
    num_examples: int = 0


@dataclass
class Training:
    """Everything that a training run moves."""

    recipe: Recipe
    plan: Plan
    device: torch.device
    network: nn.Module
    optimizer: Optimizer
    lr_scheduler: LRScheduler | None
    scaler: torch.amp.GradScaler
    """Disabled unless the precision is 16-mixed: it then hands everything through unchanged."""
    autocast: Callable[[], AbstractContextManager[object]]
    class_weights: Tensor | None
    gradient_clip_val: float | None = None
    gradient_clip_algorithm: str = "norm"
    epoch: int = 0
    step: int = 0
    """Optimizer steps so far, skipped ones included."""
    num_window_examples: int = 0
    interval: Interval = field(init=False)

    def __post_init__(self) -> None:
        self.interval = Interval(torch.zeros((), device=self.device))

    @property
    def parameters(self) -> list[nn.Parameter]:
        """The parameters in the optimizer's order, in which a clipping norm is summed."""
        return [parameter for group in self.optimizer.param_groups for parameter in group["params"]]


def train_epoch(training: Training, batches: Iterator[Batch]) -> Iterator[int]:
    """Train one epoch; yields the number of each micro-batch that is done, so that the caller can validate and log."""
    run, plan = training, training.plan
    for micro_batch, batch in enumerate(islice(batches, plan.num_micro_batches)):
        run.network.train()
        batch = to_device(batch, run.device)

        with run.autocast():
            logits = run.network(batch.tokens, batch.lengths)  # (B, T) → (B, C)
            loss = summed_loss(
                logits,
                batch.labels,
                label_smoothing=run.recipe.label_smoothing,
                class_weights=run.class_weights,
            )
        run.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]  # a sum: gradients of the window's examples add up

        run.num_window_examples += len(batch.labels)
        run.interval.loss += loss.detach()
        run.interval.num_examples += len(batch.labels)

        if plan.closes_window(micro_batch):
            optimizer_step(run)
        if micro_batch + 1 == plan.num_micro_batches and run.lr_scheduler is not None and run.recipe.advances_per_epoch:
            run.lr_scheduler.step()
        yield micro_batch
    run.epoch += 1


def optimizer_step(training: Training) -> None:
    """One optimizer step: unscale → normalise → clip → step → scaler update → zero_grad → scheduler."""
    run, parameters = training, training.parameters
    run.scaler.unscale_(run.optimizer)
    normalise(parameters, run.num_window_examples)
    run.num_window_examples = 0

    if run.gradient_clip_val and run.gradient_clip_algorithm == "norm":
        nn.utils.clip_grad_norm_(parameters, run.gradient_clip_val)
    elif run.gradient_clip_val:
        nn.utils.clip_grad_value_(parameters, run.gradient_clip_val)

    scale = run.scaler.get_scale()
    run.scaler.step(run.optimizer)  # skipped by the scaler where a gradient is not finite
    run.scaler.update()
    skipped = run.scaler.get_scale() < scale
    run.optimizer.zero_grad(set_to_none=True)
    run.step += 1

    if run.lr_scheduler is not None and run.recipe.advances_per_step and not skipped:
        run.lr_scheduler.step()


@torch.inference_mode()
def evaluate(
    network: nn.Module,
    batches: Iterator[Batch],
    num_classes: int,
    device: torch.device,
    autocast: Callable[[], AbstractContextManager[object]],
) -> Figures:
    """Metrics over the batches, each example counted once, as integers."""
    network.eval()
    confusion = torch.zeros(num_classes, num_classes, dtype=torch.int64, device=device)  # (true, predicted)
    losses = torch.zeros(2, dtype=torch.int64, device=device)
    for batch in batches:
        batch = to_device(batch, device)
        with autocast():
            logits = network(batch.tokens, batch.lengths)
        pairs = batch.labels * num_classes + logits.argmax(dim=1)
        confusion += torch.bincount(pairs, minlength=num_classes**2).view(num_classes, num_classes)
        losses += loss_counts(logits, batch.labels)
    return figures(confusion.cpu(), losses.cpu())


def to_device(batch: Batch, device: torch.device) -> Batch:
    """The batch's tensors on the device."""
    return Batch(*(tensor.to(device, non_blocking=True) for tensor in batch))
