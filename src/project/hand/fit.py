"""A whole training run by hand: build everything, then epochs, validations, logs and checkpoints."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy
import torch
from torch import Tensor
from torch.optim.lr_scheduler import ReduceLROnPlateau
from torch.utils.data import DataLoader

from project.config import Trace
from project.hand.checkpoint import BestAndLast
from project.hand.distributed import ALONE, World, distributed
from project.hand.early_stopping import EarlyStopping
from project.hand.log import Log
from project.hand.loop import Training, evaluate, train_epoch
from project.hand.precision import forward_context, gradient_scaler, network_dtype, pick_device
from project.hand.settings import Settings
from project.report import Mistake, keep_worst, worst_of
from project.runs import new_run
from project.task.batch import Batch
from project.task.classifier import start_from
from project.task.data import Data
from project.task.dataset import Example
from project.task.objective import Figures, figures
from project.task.recipe import check_compiler
from project.trace import OFF, Tracer


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


def fit(settings: Settings, world: World = ALONE) -> Result:
    """Train as the settings say; where there are several ranks, each of them calls this."""
    training, data, left_fresh = prepare(settings, world)
    folder = checkpoints = None
    if not settings.trainer.fast_dev_run:  # a rehearsal leaves nothing behind
        folder = Path(world.from_main(str(new_run(settings.root, settings.name)) if world.is_main else ""))
        checkpoints = BestAndLast(folder / "checkpoints", settings.checkpoint, training, data)
        training.trace = open_trace(folder, settings.trace, training)
    log = Log(folder, settings, training, data)
    try:
        log.start(left_fresh)
        found = run_epochs(settings, training, data, log, checkpoints)
        if checkpoints is not None:
            checkpoints.finished()
        log.finish(found, checkpoints)
    finally:
        log.close()
    return Result(training, data, found, checkpoints)


def run_epochs(
    settings: Settings, training: Training, data: Data, log: Log, checkpoints: BestAndLast | None
) -> Figures | None:
    """Epochs, with their validations, until the plan or early stopping ends them; returns the last metrics."""
    run, plan = training, training.plan
    loader, val_loader = (
        data.loader(split, rank=run.world.rank, world_size=run.world.size) for split in ("train", "val")
    )
    num_val_batches = settings.trainer.num_evaluation_batches("val", len(val_loader))
    early_stopping = EarlyStopping(settings.early_stopping)
    found: Figures | None = None
    should_stop = False
    while not should_stop and not finished(run):
        epoch = run.epoch
        loader.batch_sampler.set_epoch(epoch)  # type: ignore[union-attr]
        for micro_batch in train_epoch(run, log.shown(loader)):
            if plan.closes_window(micro_batch) and run.logs(run.step):
                log.trained()
            if num_val_batches and plan.validates_after(epoch, micro_batch):
                found = validate(run, val_loader, num_val_batches, data.vocabulary.num_classes, log)
                if checkpoints is not None:
                    checkpoints.validated(found)
                    should_stop = early_stopping.should_stop(found.metric(settings.early_stopping.monitor))
            if should_stop or finished(run):
                break
        validated = found is not None and (epoch + 1) % (plan.check_val_every_n_epoch or 1) == 0
        if isinstance(run.lr_scheduler, ReduceLROnPlateau) and found is not None and validated:
            run.lr_scheduler.step(found.metric(str(settings.recipe.lr_monitor)))
    return found


def finished(training: Training) -> bool:
    """Whether the planned epochs or steps are done."""
    plan = training.plan
    return training.step == plan.max_steps or training.epoch == plan.max_epochs


def validate(training: Training, loader: DataLoader[Example], num_batches: int, num_classes: int, log: Log) -> Figures:
    """Metrics over the validation rows; the network goes back to training mode at the next micro-batch."""
    mistakes: list[Mistake] = []

    def look(batch: Batch, logits: Tensor) -> None:
        mistakes[:] = keep_worst(mistakes, batch, logits)

    run = training
    batches: Iterator[Any] = islice(loader, num_batches)
    run.world.share_buffers(run.network)
    counts = evaluate(run.network, batches, num_classes, run.device, run.autocast, look, run.world)
    found = figures(counts.confusion, counts.losses)
    log.validated(found, counts, worst_of(run.world.gathered(mistakes)))
    run.trace.evaluation(run.epoch, run.step, found.logged("val"))
    return found


def prepare(settings: Settings, world: World = ALONE) -> tuple[Training, Data, list[str]]:
    """Rows, network, optimizer and scheduler of a run, none of them moved yet; names of weights without a start."""
    seed_everything(settings.seed)
    trainer, recipe = settings.trainer, settings.recipe
    precision = trainer.precision or "32-true"
    device = pick_device(trainer.accelerator, world.local_rank)
    be_deterministic(trainer.deterministic)

    data = Data(settings.data)
    data.fit_vocabulary(recipe.init_from)
    train = data.open_split("train")
    data.open_split("val")
    plan = trainer.plan(len(train), settings.data.batch_size, settings.data.drop_last, world)

    trainer.num_evaluation_batches("val", len(data.loader("val", world.rank, world.size)))  # refuses in time

    network = recipe.build_network(data.vocabulary.num_tokens, data.vocabulary.num_classes)
    left_fresh: list[str] = []
    if recipe.init_from:
        left_fresh = start_from(recipe.init_from, recipe.network, network, data.vocabulary)
    class_weights = recipe.build_class_weights(data.vocabulary.labels, data.label_counts)
    if recipe.compile:
        check_compiler()
        network.compile()
    network.to(device, network_dtype(precision))
    model = distributed(network, trainer.strategy, settings.distributed, world, device)
    optimizer = recipe.build_optimizer(network)
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
        gradient_clip_val=trainer.gradient_clip_val,
        gradient_clip_algorithm=trainer.gradient_clip_algorithm or "norm",
        log_every_n_steps=50 if trainer.log_every_n_steps is None else trainer.log_every_n_steps,
    )
    if world.size > 1:
        torch.manual_seed(settings.seed + world.rank)  # dropout of its own in each rank
    return training, data, left_fresh


def open_trace(folder: Path, config: Trace, training: Training) -> Tracer:
    """The trace that the settings ask for; none writes nothing."""
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
    )
