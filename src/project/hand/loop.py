"""The training loop, written by hand; it reads from top to bottom, and one optimizer step fits on a screen.

It is the loop that every PyTorch text teaches, grown only by what mixed precision, accumulation, clipping and an exact
count of examples need. Each line that begins with `trace` looks and changes nothing.
B: micro-batch size, T: tokens, C: classes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import islice

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from project.data.batch import Batch
from project.data.order import interleaved
from project.hand.distributed import ALONE, World, gradients_stay_here
from project.learn.not_finite import LossWatch
from project.learn.objective import loss_counts, normalise, summed_loss
from project.learn.plan import Plan
from project.learn.recipe import Recipe
from project.ranks.config import Distributed
from project.trace.tracer import OFF, Tracer


@dataclass
class Interval:
    """What was trained since the last logged step; it stays on the device until it is logged."""

    loss: Tensor
    """Sum over this rank's examples."""
    num_examples: int = 0
    """Of all ranks."""
    grad_norm: Tensor | None = None
    """Of the step that is logged, before clipping."""
    lr: float = 0.0
    """Of the step that is logged."""


@dataclass
class Training:
    """Everything that a training run moves."""

    recipe: Recipe
    plan: Plan
    device: torch.device
    network: nn.Module
    model: nn.Module
    """The network as it is called: several ranks share it through DistributedDataParallel or `fully_shard`."""
    world: World
    distributed: Distributed
    optimizer: Optimizer
    lr_scheduler: LRScheduler | None
    scaler: torch.amp.GradScaler
    """Disabled unless the precision is 16-mixed: it then hands everything through unchanged."""
    autocast: Callable[[], AbstractContextManager[object]]
    class_weights: Tensor | None
    watch: LossWatch
    gradient_clip_val: float | None = None
    gradient_clip_algorithm: str = "norm"
    log_every_n_steps: int = 50
    """Optimizer steps between logged ones; 0: none is logged."""
    trace: Tracer = OFF
    epoch: int = 0
    micro_batch: int = 0
    """Micro-batches of this epoch that are done."""
    step: int = 0
    """Optimizer steps so far, skipped ones included."""
    start_seconds: float = field(default_factory=time.perf_counter)
    """The clock when training began; of a resumed run, as if it had not been interrupted."""
    metrics: dict[str, float] = field(default_factory=dict)
    """The last logged training loss and validation metrics, by name."""
    num_window_examples: int = 0
    """Of all ranks: the plan knows them, so no rank has to ask the others."""
    interval: Interval = field(init=False)

    def __post_init__(self) -> None:
        self.interval = Interval(torch.zeros((), device=self.device))

    @property
    def parameters(self) -> list[nn.Parameter]:
        """The parameters in the optimizer's order, in which a clipping norm is summed."""
        return [parameter for group in self.optimizer.param_groups for parameter in group["params"]]

    def logs(self, step: int) -> bool:
        """Whether the run's `step`-th optimizer step, from 1, is logged; the last one always is."""
        return self.log_every_n_steps > 0 and (step % self.log_every_n_steps == 0 or step == self.plan.total_steps)


def train_epoch(training: Training, batches: Iterable[Batch]) -> Iterator[int]:
    """Train what is left of an epoch; yields each micro-batch's number when it is done: a time to validate and log."""
    run, plan, trace = training, training.plan, training.trace
    for micro_batch, batch in enumerate(islice(batches, plan.num_micro_batches - run.micro_batch), run.micro_batch):
        run.network.train()
        batch = to_device(batch, run.device)
        trace.micro_batch(run.epoch, micro_batch, run.step, ids=batch.index, inputs=batch)

        num_examples = plan.num_counted(micro_batch)
        with gradients_stay_here(run.model, run.distributed, keep=not plan.closes_window(micro_batch)):
            with run.autocast():
                logits = run.model(batch.tokens, batch.lengths)  # (B, T) → (B, C)
                if num_examples == 0:  # this rank has none left and only keeps the others company
                    logits, batch = logits[:0], batch._replace(labels=batch.labels[:0])
                loss = summed_loss(
                    logits,
                    batch.labels,
                    label_smoothing=run.recipe.label_smoothing,
                    class_weights=run.class_weights,
                )
            trace.forward(loss, num_examples)
            run.watch.saw(run.step + 1, loss, batch.index)
            run.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]  # a sum: the window's examples add up
        trace.gradients("backward")

        run.num_window_examples += plan.num_counted_together(micro_batch)
        run.interval.loss += loss.detach()
        run.interval.num_examples += plan.num_counted_together(micro_batch)

        if plan.closes_window(micro_batch):
            skipped = optimizer_step(run)
            if run.lr_scheduler is not None and run.recipe.advances_per_step and not skipped:
                run.lr_scheduler.step()
            if run.lr_scheduler is not None and run.recipe.advances_per_epoch and plan.closes_epoch(micro_batch):
                run.lr_scheduler.step()
            trace.scheduler_stepped()
        run.micro_batch += 1
        yield micro_batch
    run.epoch, run.micro_batch = run.epoch + 1, 0


def optimizer_step(training: Training) -> bool:
    """Unscale → normalise → clip → step → scaler update → zero_grad; returns whether the step was skipped."""
    run, parameters, trace = training, training.parameters, training.trace
    trace.optimizer_step(run.epoch, run.step)

    run.scaler.unscale_(run.optimizer)
    trace.gradients("unscale")

    normalise(parameters, run.num_window_examples / run.world.size)  # backward took the mean over ranks
    left_out = run.watch.leaves_out(parameters)
    trace.gradients("normalise")
    run.num_window_examples = 0
    run.step += 1
    if run.logs(run.step):
        run.interval.grad_norm = nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
        run.interval.lr = run.optimizer.param_groups[0]["lr"]

    if run.gradient_clip_val and run.gradient_clip_algorithm == "norm":
        nn.utils.clip_grad_norm_(parameters, run.gradient_clip_val)
    elif run.gradient_clip_val:
        nn.utils.clip_grad_value_(parameters, run.gradient_clip_val)
    trace.gradients("clip")

    scale = run.scaler.get_scale()
    run.scaler.step(run.optimizer)  # skipped by the scaler where a gradient is not finite
    run.scaler.update()
    skipped = run.scaler.get_scale() < scale
    trace.optimizer_stepped(skipped=skipped, scale=run.scaler.get_scale())

    run.optimizer.zero_grad(set_to_none=True)
    return skipped or left_out


@dataclass
class Counts:
    """What an evaluation counts, each example once, as integers."""

    confusion: Tensor
    """(C, C) int64; rows are true classes, columns predicted ones."""
    losses: Tensor
    """(2,) int64, the sum of `loss_counts`."""


@torch.no_grad()  # not inference_mode: `fully_shard` gathers weights into tensors that training uses again
def evaluate(
    network: nn.Module,
    batches: Iterable[Batch],
    num_classes: int,
    device: torch.device,
    autocast: Callable[[], AbstractContextManager[object]],
    look: Callable[[Batch, Tensor], None] = lambda batch, logits: None,
    world: World = ALONE,
) -> Counts:
    """Count over the batches; `look` is shown each of them with its logits, (B, C)."""
    network.eval()
    confusion = torch.zeros(num_classes, num_classes, dtype=torch.int64, device=device)
    losses = torch.zeros(2, dtype=torch.int64, device=device)
    for batch in batches:
        batch = to_device(batch, device)
        with autocast():
            logits = network(batch.tokens, batch.lengths)
        if world.size > 1:  # leave out a row that only stands in
            counted = batch.index >= 0
            batch, logits = Batch(*(tensor[counted] for tensor in batch)), logits[counted]
        pairs = batch.labels * num_classes + logits.argmax(dim=1)
        confusion += torch.bincount(pairs, minlength=num_classes**2).view(num_classes, num_classes)
        losses += loss_counts(logits, batch.labels)
        look(batch, logits)
    return Counts(world.added_up(confusion).cpu(), world.added_up(losses).cpu())


@torch.inference_mode()
def predict(
    network: nn.Module,
    batches: Iterable[Batch],
    device: torch.device,
    autocast: Callable[[], AbstractContextManager[object]],
    world: World = ALONE,
) -> Tensor:
    """Class probabilities of all examples in their order, (N, C) float32, on the CPU of every process."""
    network.eval()
    probabilities = []
    for batch in batches:
        batch = to_device(batch, device)
        with autocast():
            logits = network(batch.tokens, batch.lengths)
            probabilities.append(logits.float().softmax(dim=1)[batch.index >= 0])
    return interleaved(world.gathered(torch.cat(probabilities).cpu()))


def to_device(batch: Batch, device: torch.device) -> Batch:
    """The batch's tensors on the device."""
    return Batch(*(tensor.to(device, non_blocking=True) for tensor in batch))
