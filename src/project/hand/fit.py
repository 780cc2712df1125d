"""A whole training run by hand: build everything, then epochs, validations, logs and checkpoints."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy
import torch
from torch import Tensor
from torch.optim.lr_scheduler import ReduceLROnPlateau

from project.checkpoint.classifier import start_from, tokenizer_in
from project.checkpoint.position import NothingLeft
from project.commands.report import Mistake, keep_worst, terminal, worst_of
from project.commands.runs import held, mark_launched, new_run
from project.commands.saved import Saved
from project.data.batch import Batch
from project.data.splits import Data
from project.hand.checkpoint import BestAndLast
from project.hand.distributed import ALONE, World, distributed
from project.hand.early_stopping import EarlyStopping
from project.hand.log import Log
from project.hand.loop import Training, evaluate, train_epoch
from project.hand.precision import forward_context, gradient_scaler, network_dtype, pick_device
from project.hand.resume import restore_best, restore_stopping, restore_training
from project.hand.settings import Settings
from project.learn.not_finite import LossWatch
from project.learn.objective import Figures, figures
from project.learn.recipe import check_compiler
from project.ranks.agreement import has_arrived
from project.ranks.signals import Listener, Stopped
from project.trace.config import Trace
from project.trace.tracer import OFF, Tracer


@dataclass
class Result:
    """What a run ends with."""

    training: Training
    data: Data
    figures: Figures | None
    """The last validation's metrics."""
    checkpoints: BestAndLast | None
    """None in a rehearsal."""


def seed_everything(seed: int) -> None:
    """Seed Python, NumPy and torch on every device."""
    random.seed(seed)
    numpy.random.seed(seed)  # what users' own code may draw from
    torch.manual_seed(seed)


def be_deterministic(deterministic: bool | str | None) -> None:
    """Let torch take only algorithms that give the same bits again, or warn where it has none."""
    if deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # without it cuBLAS refuses on CUDA
        torch.use_deterministic_algorithms(True, warn_only=deterministic == "warn")


def fit(
    settings: Settings, world: World = ALONE, resumed: Saved | None = None, listener: Listener | None = None
) -> Result:
    """Train as the settings say, or continue a saved run; where there are several ranks, each of them calls this.

    Raises:
        NothingLeft: where the saved run has trained all that it was asked for.
        Stopped: where `listener` heard a signal; what was trained is saved.
    """
    listener = listener or Listener()
    training, data, left_fresh = prepare(settings, world, resumed)
    early_stopping = EarlyStopping(settings.early_stopping)
    validation_due = False
    if resumed is not None:
        validation_due = restore_training(resumed.path, resumed.content, training, data).validation_due
        restore_stopping(resumed.content, early_stopping)
        if early_stopping.stopped and not validation_due:
            raise NothingLeft
    training.watch.begins()
    folder = checkpoints = None
    with ExitStack() as closing:
        if not settings.trainer.fast_dev_run:  # a rehearsal leaves nothing behind
            folder = run_folder(settings, world, resumed, closing)
            checkpoints = BestAndLast(folder / "checkpoints", settings.checkpoint, training, data, early_stopping)
            closing.callback(checkpoints.writer.close)
            training.trace = open_trace(folder, settings.trace, training, goes_on=resumed is not None)
            if resumed is not None:
                restore_best(resumed, checkpoints)
        log = Log(folder, settings, training, data, None if resumed is None else resumed.path)
        closing.callback(log.close)
        log.start(left_fresh)
        listener.wait_for_step(world.store)
        found = run_epochs(settings, training, data, log, checkpoints, early_stopping, listener, validation_due)
        if checkpoints is not None:
            checkpoints.finished()
        log.finish(checkpoints)
    return Result(training, data, found, checkpoints)


def run_folder(settings: Settings, world: World, resumed: Saved | None, closing: ExitStack) -> Path:
    """The folder of the run that is continued, or a new one, held until `closing`; the same on all ranks."""
    folder = None if resumed is None else resumed.run
    if folder is None:
        folder = Path(world.from_main(str(new_run(settings.root, settings.name)) if world.is_main else ""))
        if world.is_main:
            closing.enter_context(held(folder))
    if world.is_main:
        mark_launched(folder)
    return folder


def run_epochs(
    settings: Settings,
    training: Training,
    data: Data,
    log: Log,
    checkpoints: BestAndLast | None,
    early_stopping: EarlyStopping,
    listener: Listener,
    validation_due: bool = False,
) -> Figures | None:
    """Epochs, with their validations, until the plan or early stopping ends them; returns the last metrics.

    With `validation_due` the run was saved between an optimizer step and the validation that follows it.
    """
    run, plan, recipe = training, training.plan, training.recipe
    loader, val_loader = (
        data.loader(split, rank=run.world.rank, world_size=run.world.size) for split in ("train", "val")
    )
    num_val_batches = settings.trainer.num_evaluation_batches("val", len(val_loader))
    found: Figures | None = None

    def stop(*, validation_due: bool) -> None:
        if checkpoints is not None:
            checkpoints.stopped(validation_due=validation_due)
            listener.saved, listener.step = checkpoints.last, run.step
        listener.check()

    def validated() -> Figures:
        run.watch.check()
        try:
            batches = listener.checking(islice(val_loader, num_val_batches), run.world.any_of)
            found = validate(run, batches, data.vocabulary.num_classes, log)
        except Stopped:
            stop(validation_due=True)
            raise
        if checkpoints is not None:
            early_stopping.validated(found.metric(settings.early_stopping.monitor))
            checkpoints.validated()
        return found

    if validation_due and num_val_batches:
        found = validated()
    loader.batch_sampler.seek(run.epoch, run.micro_batch)  # type: ignore[union-attr]
    while not early_stopping.stopped and not finished(run):
        epoch = run.epoch
        data.check_unchanged()
        loader.batch_sampler.set_epoch(epoch)  # type: ignore[union-attr]
        for micro_batch in train_epoch(run, log.shown(loader)):
            if plan.closes_window(micro_batch) and run.logs(run.step):
                log.trained()
            is_validated = bool(num_val_batches) and plan.validates_after(epoch, micro_batch)
            listener.beat()
            if plan.closes_window(micro_batch):
                arrived = has_arrived(
                    run.step,
                    run.device,
                    is_alone=listener.is_alone,
                    is_logged=run.logs(run.step),
                    log_every_n_steps=run.log_every_n_steps,
                )
                if listener.stops_after(run.step, arrived=arrived):
                    stop(validation_due=is_validated)
            if is_validated:
                found = validated()
            elif checkpoints is not None and plan.closes_window(micro_batch):
                checkpoints.trained(arrived=arrived)
            if (early_stopping.stopped or finished(run)) and not plan.closes_epoch(micro_batch):
                return found
        is_watched = (epoch + 1) % (plan.check_val_every_n_epoch or 1) == 0 and recipe.lr_monitor in run.metrics
        if isinstance(run.lr_scheduler, ReduceLROnPlateau) and is_watched:
            run.lr_scheduler.step(run.metrics[str(recipe.lr_monitor)])
    return found


def finished(training: Training) -> bool:
    """Whether the planned epochs or steps are done."""
    plan = training.plan
    return 0 <= plan.max_steps <= training.step or 0 <= plan.max_epochs <= training.epoch


def validate(training: Training, batches: Iterable[Any], num_classes: int, log: Log) -> Figures:
    """Metrics over the validation rows; the network goes back to training mode at the next micro-batch."""
    mistakes: list[Mistake] = []

    def look(batch: Batch, logits: Tensor) -> None:
        mistakes[:] = keep_worst(mistakes, batch, logits)

    run = training
    run.world.share_buffers(run.network)
    counts = evaluate(run.network, batches, num_classes, run.device, run.autocast, look, run.world)
    found = figures(counts.confusion, counts.losses)
    run.metrics |= found.logged("val")
    log.validated(found, counts, worst_of(run.world.gathered(mistakes)))
    run.trace.evaluation(run.epoch, run.step, found.logged("val"))
    return found


def prepare(settings: Settings, world: World = ALONE, resumed: Saved | None = None) -> tuple[Training, Data, list[str]]:
    """Rows, network, optimizer and scheduler of a run, none of them moved yet; names of weights without a start."""
    seed_everything(settings.seed)
    trainer, recipe = settings.trainer, settings.recipe
    precision = trainer.precision or "32-true"
    device = pick_device(trainer.accelerator, world.local_rank)
    be_deterministic(trainer.deterministic)

    data = Data(settings.data)
    init_from = recipe.init_from if resumed is None else None
    tokenizer_from = resumed.path if resumed is not None and recipe.init_from else init_from
    data.fit_vocabulary(tokenizer_in(tokenizer_from) if tokenizer_from else None)
    train = data.open_split("train")
    data.open_split("val")
    plan = trainer.plan(len(train), settings.data.batch_size, settings.data.drop_last, world)

    trainer.num_evaluation_batches("val", len(data.loader("val", world.rank, world.size)))  # refuses in time

    network = recipe.build_network(data.vocabulary.num_tokens, data.vocabulary.num_classes)
    left_fresh: list[str] = []
    if init_from:
        left_fresh = start_from(init_from, recipe.network, network, data.vocabulary)
    class_weights = recipe.build_class_weights(data.vocabulary.labels, data.label_counts)
    if recipe.compile:
        check_compiler()
        network.compile()
    network.to(device, network_dtype(precision))
    model = distributed(network, trainer.strategy, settings.distributed, world, device)
    optimizer = recipe.build_optimizer(network)
    console = terminal()
    console.quiet = not world.is_main
    training = Training(
        recipe=recipe,
        plan=plan,
        device=device,
        network=network,
        model=model,
        world=world,
        distributed=settings.distributed,
        optimizer=optimizer,
        lr_scheduler=recipe.build_lr_scheduler(optimizer, plan),
        scaler=gradient_scaler(precision, device),
        autocast=forward_context(precision, device),
        class_weights=None if class_weights is None else class_weights.to(device),
        watch=LossWatch(recipe.not_finite, network, train, world.size, console.print),
        gradient_clip_val=trainer.gradient_clip_val,
        gradient_clip_algorithm=trainer.gradient_clip_algorithm or "norm",
        log_every_n_steps=50 if trainer.log_every_n_steps is None else trainer.log_every_n_steps,
    )
    if world.size > 1:
        torch.manual_seed(settings.seed + world.rank)  # dropout of its own in each rank
    return training, data, left_fresh


def open_trace(folder: Path, config: Trace, training: Training, *, goes_on: bool = False) -> Tracer:
    """The trace that the settings ask for, that of a continued run going on; none writes nothing."""
    if config.level is None:
        return OFF
    rank = training.world.rank
    return Tracer(
        folder / (f"trace.rank{rank}.jsonl" if rank else "trace.jsonl"),
        training.network,
        training.optimizer,
        level=config.level,
        source="hand-written loop",
        tensors_at=config.tensors_at,
        goes_on_at=(training.epoch, training.micro_batch, training.step) if goes_on else None,
    )
