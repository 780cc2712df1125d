"""A whole training run by hand: build everything, then epochs, validations, logs and checkpoints."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy
import torch
from torch.optim.lr_scheduler import ReduceLROnPlateau
from torch.utils.data import DataLoader

from project.hand.loop import Training, evaluate, train_epoch
from project.hand.precision import forward_context, gradient_scaler, network_dtype, pick_device
from project.hand.settings import Settings
from project.task.classifier import start_from
from project.task.data import Data
from project.task.dataset import Example
from project.task.objective import Figures
from project.task.recipe import check_compiler


@dataclass
class Result:
    """What a run ends with."""

    training: Training
    data: Data
    figures: Figures | None
    """The last validation's metrics."""


def seed_everything(seed: int) -> None:
    """Seed Python, NumPy and torch on every device."""
    random.seed(seed)
    numpy.random.seed(seed)  # what users' own code may draw from
    torch.manual_seed(seed)


def prepare(settings: Settings) -> tuple[Training, Data]:
    """Rows, network, optimizer and scheduler of a run, none of them moved yet."""
    seed_everything(settings.seed)
    trainer, recipe = settings.trainer, settings.recipe
    precision = trainer.precision or "32-true"
    device = pick_device(trainer.accelerator)
    if trainer.deterministic:
        torch.use_deterministic_algorithms(True, warn_only=trainer.deterministic == "warn")

    data = Data(settings.data)
    data.fit_vocabulary(recipe.init_from)
    train = data.open_split("train")
    data.open_split("val")
    plan = trainer.plan(len(train), settings.data.batch_size)

    network = recipe.build_network(data.vocabulary.num_tokens, data.vocabulary.num_classes)
    if recipe.init_from:
        start_from(recipe.init_from, recipe.network, network, data.vocabulary)
    class_weights = recipe.build_class_weights(data.vocabulary.labels, data.label_counts)
    if recipe.compile:
        check_compiler()
        network.compile()
    network.to(device, network_dtype(precision))
    optimizer = recipe.build_optimizer(network)
    training = Training(
        recipe=recipe,
        plan=plan,
        device=device,
        network=network,
        optimizer=optimizer,
        lr_scheduler=recipe.build_lr_scheduler(optimizer, plan),
        scaler=gradient_scaler(precision, device),
        autocast=forward_context(precision, device),
        class_weights=None if class_weights is None else class_weights.to(device),
        gradient_clip_val=trainer.gradient_clip_val,
        gradient_clip_algorithm=trainer.gradient_clip_algorithm or "norm",
    )
    return training, data


def fit(settings: Settings) -> Result:
    """Train as the settings say."""
    training, data = prepare(settings)
    loader, val_loader = data.loader("train"), data.loader("val")
    num_val_batches = settings.trainer.num_evaluation_batches("val", len(val_loader))
    figures: Figures | None = None
    while not finished(training):
        epoch = training.epoch
        loader.batch_sampler.set_epoch(epoch)  # type: ignore[union-attr]
        for micro_batch in train_epoch(training, iter(loader)):
            if num_val_batches and training.plan.validates_after(epoch, micro_batch):
                figures = validate(training, val_loader, num_val_batches, data.vocabulary.num_classes)
            if finished(training):
                break
        validated = figures is not None and (epoch + 1) % (training.plan.check_val_every_n_epoch or 1) == 0
        if isinstance(training.lr_scheduler, ReduceLROnPlateau) and validated:
            training.lr_scheduler.step(getattr(figures, str(settings.recipe.lr_monitor).removeprefix("val/")))
    return Result(training, data, figures)


def finished(training: Training) -> bool:
    """Whether the planned epochs or steps are done."""
    plan = training.plan
    return training.step == plan.max_steps or training.epoch == plan.max_epochs


def validate(training: Training, loader: DataLoader[Example], num_batches: int, num_classes: int) -> Figures:
    """Metrics over the validation rows; the network goes back to training mode at the next micro-batch."""
    batches: Iterator[Any] = islice(iter(loader), num_batches)
    return evaluate(training.network, batches, num_classes, training.device, training.autocast)
