"""The training loop in plain PyTorch, from top to bottom: an epoch, an optimizer step, an evaluation.

Read scripts/textbook.py first: the same loop on one page. This one adds several ranks, losses that are not finite,
logging and evaluation. Lines that call `trace` only look: without them the run has the same bits.
B: micro-batch size, T: tokens, C: classes. A window is the micro-batches between two optimizer steps.
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
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from project.data.batch import Batch
from project.data.order import interleaved
from project.hand.distributed import no_sync
from project.learn.interval import Interval
from project.learn.not_finite import LossWatch
from project.learn.objective import loss_counts, normalise, only_counted, summed_loss
from project.learn.plan import Plan
from project.learn.recipe import Recipe
from project.ranks.config import Distributed
from project.ranks.world import ALONE, World
from project.trace.tracer import OFF, Tracer


@dataclass
class Training:
    """The state of a training run."""

    recipe: Recipe
    plan: Plan
    device: torch.device
    network: nn.Module
    model: nn.Module
    """What the loop calls: the network, or with several ranks the network in DistributedDataParallel or FSDP2."""
    world: World
    distributed: Distributed
    optimizer: Optimizer
    lr_scheduler: LRScheduler | None
    scaler: torch.amp.GradScaler
    """Scales the loss in 16-mixed, so that small gradients do not vanish in float16; disabled otherwise."""
    autocast: Callable[[], AbstractContextManager[object]]
    class_weights: Tensor | None
    watch: LossWatch
    gradient_clip_val: float | None = None
    gradient_clip_algorithm: str = "norm"
    log_every_n_steps: int = 50
    """Optimizer steps from one logged step to the next; 0: none is logged."""
    trace: Tracer = OFF
    epoch: int = 0
    micro_batch: int = 0
    """Micro-batches done in this epoch."""
    step: int = 0
    """Optimizer steps done, skipped ones included."""
    should_stop: bool = False
    """End the run after this micro-batch."""
    start_seconds: float = field(default_factory=time.perf_counter)
    """When training began; a continued run counts the seconds before the interruption too."""
    metrics: dict[str, float] = field(default_factory=dict)
    """The last logged training loss and validation metrics, by name."""
    num_window_examples: int = 0
    """Examples in this window so far, on all ranks; the plan knows them, so this takes no all_reduce."""
    interval: Interval = field(init=False)

    def __post_init__(self) -> None:
        self.interval = Interval.begin(self.device)

    @property
    def parameters(self) -> list[nn.Parameter]:
        """The parameters in the optimizer's order: clipping sums their norms in this order."""
        return [parameter for group in self.optimizer.param_groups for parameter in group["params"]]

    @property
    def is_logged(self) -> bool:
        """Whether this optimizer step is logged; the last one always is."""
        every = self.log_every_n_steps
        return every > 0 and (self.step % every == 0 or self.step == self.plan.total_steps)

    @property
    def is_over(self) -> bool:
        """Whether the planned epochs or steps are done, or early stopping ended the run."""
        plan = self.plan
        return self.should_stop or 0 <= plan.max_steps <= self.step or 0 <= plan.max_epochs <= self.epoch


def train_epoch(training: Training, batches: Iterable[Batch]) -> Iterator[int]:
    """Train the rest of an epoch; yields the number of each micro-batch, so that the caller can log, validate, save."""
    plan, trace = training.plan, training.trace
    num_left = plan.num_micro_batches - training.micro_batch
    for micro_batch, batch in enumerate(islice(batches, num_left), start=training.micro_batch):
        training.network.train()
        batch = to_device(batch, training.device)
        trace.micro_batch(training.epoch, micro_batch, training.step, ids=batch.index, inputs=batch)

        num_examples = plan.num_counted(micro_batch)  # 0 where this rank only has a stand-in row
        # Gradients add up over the window; ranks exchange them at its last micro-batch.
        with no_sync(training.model, training.distributed, enabled=not plan.closes_window(micro_batch)):
            with training.autocast():
                logits = training.model(batch.tokens, batch.lengths)  # (B, T) → (B, C)
                logits, labels = only_counted(logits, batch.labels, num_examples)
                loss = summed_loss(
                    logits,
                    labels,
                    label_smoothing=training.recipe.label_smoothing,
                    class_weights=training.class_weights,
                )
            trace.forward(loss, num_examples)
            training.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        trace.gradients("backward")

        training.watch.saw(training.step + 1, loss, batch.index)
        training.num_window_examples += plan.num_counted_together(micro_batch)
        training.interval.add(loss, plan.num_counted_together(micro_batch))

        if plan.closes_window(micro_batch):
            skipped = optimizer_step(training)
            step_lr_scheduler(training, skipped=skipped, closes_epoch=plan.closes_epoch(micro_batch))
            trace.scheduler_stepped()
        training.micro_batch += 1
        yield micro_batch
        if training.is_over:
            break
    if training.micro_batch == plan.num_micro_batches:
        training.epoch, training.micro_batch = training.epoch + 1, 0
        step_plateau_scheduler(training)


def optimizer_step(training: Training) -> bool:
    """Unscale → normalise → clip → step → scaler update → zero_grad; returns whether the step was skipped."""
    parameters, trace = training.parameters, training.trace
    trace.optimizer_step(training.epoch, training.step)

    training.scaler.unscale_(training.optimizer)
    trace.gradients("unscale")

    normalise(parameters, training.num_window_examples / training.world.size)  # backward took the mean over ranks
    left_out = training.watch.leave_out_if_not_finite(parameters)
    trace.gradients("normalise")
    training.num_window_examples = 0
    training.step += 1
    if training.is_logged:
        training.interval.grad_norm = nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
        training.interval.lr = training.optimizer.param_groups[0]["lr"]

    if training.gradient_clip_val and training.gradient_clip_algorithm == "norm":
        nn.utils.clip_grad_norm_(parameters, training.gradient_clip_val)
    elif training.gradient_clip_val:
        nn.utils.clip_grad_value_(parameters, training.gradient_clip_val)
    trace.gradients("clip")

    scale = training.scaler.get_scale()
    training.scaler.step(training.optimizer)  # the scaler skips it where a gradient is not finite
    training.scaler.update()
    skipped = training.scaler.get_scale() < scale
    trace.optimizer_stepped(skipped=skipped, scale=training.scaler.get_scale())

    training.optimizer.zero_grad(set_to_none=True)
    return skipped or left_out


def step_lr_scheduler(training: Training, *, skipped: bool, closes_epoch: bool) -> None:
    """Advance the scheduler, by step or by epoch. By step, it waits where the optimizer step was skipped."""
    recipe, lr_scheduler = training.recipe, training.lr_scheduler
    if lr_scheduler is None:
        return
    if (recipe.advances_per_step and not skipped) or (recipe.advances_per_epoch and closes_epoch):
        lr_scheduler.step()


def step_plateau_scheduler(training: Training) -> None:
    """At the end of a validated epoch, give ReduceLROnPlateau the metric that it watches."""
    monitor, lr_scheduler = training.recipe.lr_monitor, training.lr_scheduler
    is_validated = training.epoch % (training.plan.check_val_every_n_epoch or 1) == 0
    if isinstance(lr_scheduler, ReduceLROnPlateau) and is_validated and monitor in training.metrics:
        lr_scheduler.step(training.metrics[str(monitor)])


def take_interval(training: Training) -> dict[str, float]:
    """The scalars since the last logged step; reads the loss off the device, and starts a new interval."""
    interval, training.interval = training.interval, Interval.begin(training.device)
    scalars = interval.scalars(training.world.all_reduce_(interval.loss))
    training.metrics["train/loss"] = scalars["train/loss"]
    return scalars


@dataclass
class Counts:
    """Counts of an evaluation: integers, which add up exactly in any order."""

    confusion: Tensor
    """(C, C) int64; rows are true classes, columns predicted ones."""
    losses: Tensor
    """(2,) int64, the sum of `loss_counts`."""


@torch.no_grad()  # FSDP2 gathers weights into tensors that training uses again, so inference_mode would fail
def evaluate(
    network: nn.Module,
    batches: Iterable[Batch],
    num_classes: int,
    device: torch.device,
    autocast: Callable[[], AbstractContextManager[object]],
    look: Callable[[Batch, Tensor], None] = lambda batch, logits: None,
    world: World = ALONE,
) -> Counts:
    """Count over the batches and all ranks; calls `look` with each batch and its logits, (B, C)."""
    network.eval()
    confusion = torch.zeros(num_classes, num_classes, dtype=torch.int64, device=device)
    losses = torch.zeros(2, dtype=torch.int64, device=device)
    for batch in batches:
        batch = to_device(batch, device)
        with autocast():
            logits = network(batch.tokens, batch.lengths)
        if world.size > 1:  # leave out a stand-in row
            is_counted = batch.index >= 0
            batch, logits = Batch(*(tensor[is_counted] for tensor in batch)), logits[is_counted]
        pairs = batch.labels * num_classes + logits.argmax(dim=1)
        confusion += torch.bincount(pairs, minlength=num_classes**2).view(num_classes, num_classes)
        losses += loss_counts(logits, batch.labels)
        look(batch, logits)
    return Counts(world.all_reduce_(confusion).cpu(), world.all_reduce_(losses).cpu())


@torch.inference_mode()
def predict(
    network: nn.Module,
    batches: Iterable[Batch],
    device: torch.device,
    autocast: Callable[[], AbstractContextManager[object]],
    world: World = ALONE,
) -> Tensor:
    """Class probabilities of all examples in input order, (N, C) float32, on the CPU of every rank."""
    network.eval()
    probabilities = []
    for batch in batches:
        batch = to_device(batch, device)
        with autocast():
            logits = network(batch.tokens, batch.lengths)
            probabilities.append(logits.float().softmax(dim=1)[batch.index >= 0])  # without a stand-in row
    return interleaved(world.all_gather(torch.cat(probabilities).cpu()))


def to_device(batch: Batch, device: torch.device) -> Batch:
    """The batch's tensors on the device."""
    return Batch(*(tensor.to(device, non_blocking=True) for tensor in batch))
