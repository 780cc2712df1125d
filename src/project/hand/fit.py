"""A whole training run by hand: build everything, then train, validate, log and save."""

from __future__ import annotations

import functools
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

from project.between.best_and_last import BestAndLast
from project.between.early_stopping import EarlyStopping
from project.between.steps import Between
from project.checkpoint.classifier import start_from, tokenizer_in
from project.checkpoint.position import NothingLeft, Position
from project.commands.report import Mistake, keep_worst, terminal, worst_of
from project.commands.runs import held, mark_launched, new_run
from project.commands.saved import Saved
from project.data.batch import Batch
from project.data.splits import Data
from project.hand.checkpoint import save_checkpoint
from project.hand.distributed import distributed
from project.hand.log import Log
from project.hand.loop import Training, evaluate, take_interval, train_epoch
from project.hand.precision import forward_context, gradient_scaler, network_dtype, pick_device
from project.hand.resume import restore
from project.hand.settings import Settings
from project.learn.not_finite import LossWatch
from project.learn.objective import Scores, scores
from project.learn.recipe import check_compiler
from project.ranks.signals import Listener
from project.ranks.world import ALONE, World
from project.trace.config import Trace
from project.trace.tracer import OFF, Tracer


@dataclass
class Result:
    """What `fit` returns."""

    training: Training
    data: Data
    scores: Scores | None
    """Of the last validation; None without one."""
    checkpoints: BestAndLast | None
    """None with fast_dev_run."""


def fit(
    settings: Settings, world: World = ALONE, resumed: Saved | None = None, listener: Listener | None = None
) -> Result:
    """Train as the settings say, or continue a saved run. All ranks call this.

    Raises:
        NothingLeft: where the saved run is complete.
        Stopped: after a signal; the run is saved.
        UserError: where the settings, the rows or the checkpoint are faulty, or a loss is not finite.
    """
    training, data, left_fresh = prepare(settings, world, resumed)
    early_stopping = EarlyStopping(settings.early_stopping)
    position = Position(0, 0, 0)
    if resumed is not None:
        position = restore(resumed.path, resumed.content, training, data)
        early_stopping.load_state_dict(resumed.content["early_stopping"], resumed.content["metrics"])
        if early_stopping.should_stop and not position.validation_due:
            raise NothingLeft
    training.watch.begin()
    with ExitStack() as closing:
        folder, checkpoints = None, None
        if not settings.trainer.fast_dev_run:  # which writes no files
            folder = run_folder(settings, world, resumed, closing)
            checkpoints = BestAndLast(folder / "checkpoints", settings.checkpoint, world)
            closing.callback(checkpoints.writer.close)
            training.trace = open_trace(folder, settings.trace, training, goes_on=resumed is not None)
            if resumed is not None:
                checkpoints.load_state_dict(resumed.path, resumed.content)
        log = Log(folder, settings, training, data, None if resumed is None else resumed.path)
        closing.callback(log.close)
        log.start(left_fresh)
        between = Between(
            listener=listener or Listener(),
            world=world,
            device=training.device,
            watch=training.watch,
            early_stopping=early_stopping,
            checkpoints=checkpoints,
            write=functools.partial(save_checkpoint, training, data),
            log_every_n_steps=training.log_every_n_steps,
            position=position,
        )
        found = run_epochs(settings, training, data, log, between)
        between.finish(Position(training.epoch, training.micro_batch, training.step))
        log.finish(checkpoints)
    return Result(training, data, found, checkpoints)


def run_epochs(settings: Settings, training: Training, data: Data, log: Log, between: Between) -> Scores | None:
    """Train and validate until the plan or early stopping ends the run; returns the last validation's scores."""
    plan, world = training.plan, training.world
    loader, val_loader = (data.loader(split, world.rank, world.size) for split in ("train", "val"))
    num_val_batches = settings.trainer.num_evaluation_batches("val", len(val_loader))
    found = None
    if between.position.validation_due and num_val_batches:  # a signal interrupted it, and this run continues there
        found = validate(training, islice(val_loader, num_val_batches), data, log, between)
    loader.batch_sampler.seek(training.epoch, training.micro_batch)  # type: ignore[union-attr]
    while not training.is_over:
        data.check_unchanged()
        loader.batch_sampler.set_epoch(training.epoch)  # type: ignore[union-attr]
        for micro_batch in train_epoch(training, log.progress(loader)):
            between.micro_batch_done()
            if not plan.closes_window(micro_batch):
                continue
            is_validated = num_val_batches > 0 and plan.validates_after(training.epoch, micro_batch)
            logged_loss = log.step(take_interval(training)) if training.is_logged else None
            position = Position(training.epoch, training.micro_batch, training.step, is_validated)
            between.step_done(position, logged_loss)
            if is_validated:
                found = validate(training, islice(val_loader, num_val_batches), data, log, between)
    return found


def validate(training: Training, batches: Iterable[Any], data: Data, log: Log, between: Between) -> Scores:
    """Evaluate the validation rows, log, save; `train_epoch` puts the network back into training mode."""
    mistakes: list[Mistake] = []

    def look(batch: Batch, logits: Tensor) -> None:
        mistakes[:] = keep_worst(mistakes, batch, logits)

    world, num_classes = training.world, data.vocabulary.num_classes
    world.broadcast_buffers(training.network)
    batches = between.interruptible(batches)
    counts = evaluate(training.network, batches, num_classes, training.device, training.autocast, look, world)
    found = scores(counts.confusion, counts.losses)
    training.metrics |= found.logged("val")
    log.validated(found, counts, worst_of(world.all_gather(mistakes)))
    training.trace.evaluation(training.epoch, training.step, found.logged("val"))
    between.validated(training.metrics)
    training.should_stop = between.early_stopping.should_stop
    return found


def prepare(settings: Settings, world: World = ALONE, resumed: Saved | None = None) -> tuple[Training, Data, list[str]]:
    """Build a run: rows, network, optimizer, scheduler; also returns which weights `init_from` left fresh."""
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
    trainer.num_evaluation_batches("val", len(data.loader("val", world.rank, world.size)))  # refuses a bad limit

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
        watch=LossWatch(recipe.not_finite, network, train, world, console.print),
        gradient_clip_val=trainer.gradient_clip_val,
        gradient_clip_algorithm=trainer.gradient_clip_algorithm or "norm",
        log_every_n_steps=50 if trainer.log_every_n_steps is None else trainer.log_every_n_steps,
    )
    if world.size > 1:
        torch.manual_seed(settings.seed + world.rank)  # each rank drops other units
    return training, data, left_fresh


def seed_everything(seed: int) -> None:
    """Seed Python, NumPy and torch on every device."""
    random.seed(seed)
    numpy.random.seed(seed)  # for users' own code
    torch.manual_seed(seed)


def be_deterministic(deterministic: bool | str | None) -> None:
    """Let torch use deterministic algorithms only; it raises, or warns, where it has none."""
    if deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS needs it
        torch.use_deterministic_algorithms(True, warn_only=deterministic == "warn")


def run_folder(settings: Settings, world: World, resumed: Saved | None, closing: ExitStack) -> Path:
    """The folder of the continued run, or a new one, locked until `closing`; the same on all ranks."""
    folder = None if resumed is None else resumed.folder
    if folder is None:
        folder = world.all_gather(new_run(settings.root, settings.name) if world.is_main else Path())[0]
        if world.is_main:
            closing.enter_context(held(folder))
    if world.is_main:
        mark_launched(folder)
    return folder


def open_trace(folder: Path, config: Trace, training: Training, *, goes_on: bool = False) -> Tracer:
    """Open this rank's trace, or append to that of a continued run; OFF where the settings ask for none."""
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
