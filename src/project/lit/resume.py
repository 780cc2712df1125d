"""Continues a saved run under Lightning: what its own checkpoints do not hold, and the counters of its loops.

Lightning's saved loops are not used: one that was saved at the end of an epoch skips the next epoch, and one saved
before a validation forgets that. They are rebuilt from the position instead. The names below are private to Lightning
2.6.6; tests/resume holds every case against the run that was not interrupted.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import lightning as L
import torch
import torch.distributed as dist
from lightning.pytorch.callbacks import EarlyStopping
from torch import Tensor, nn
from torch.optim.lr_scheduler import ReduceLROnPlateau

from project.checkpoint.config import Checkpoint
from project.checkpoint.position import (
    NothingLeft,
    Position,
    best,
    best_in,
    check_same_run,
    fingerprints,
    position_in,
    progress,
)
from project.checkpoint.random_states import random_states, restore_random_states
from project.data.splits import Data
from project.learn.plan import Plan
from project.learn.recipe import Recipe, describe_network
from project.lit.checkpoint import BestAndLast


class Resumable(L.LightningModule):
    """What is saved of a LightningModule, beside its weights, and put back."""

    recipe: Recipe
    network: nn.Module
    training_plan: Plan
    epoch: int
    micro_batch: int
    """Micro-batches of this epoch that are done."""
    validation_due: bool
    """Whether a validation follows the last optimizer step, and has not been run."""
    start_seconds: float
    interval_loss: Tensor
    num_interval_examples: int
    metrics: dict[str, float]
    optimizer_settings: list[dict[str, Any]]

    @property
    def plan(self) -> Plan:
        """Micro-batches, windows and steps of this run."""
        raise NotImplementedError

    @property
    def data(self) -> Data:
        """This run's rows."""
        raise NotImplementedError


def saved_run(module: Resumable) -> dict[str, Any]:
    """What a checkpoint says of the run, beside weights, optimizer, scheduler and scaler; called on every rank."""
    trainer, plan = module.trainer, module.training_plan
    position = Position(module.epoch, module.micro_batch, trainer.global_step, module.validation_due)
    if trainer.current_epoch > module.epoch:
        position = position.has_closed(plan)
    mine = {
        "random": random_states(module.device),
        "interval": {"loss": module.interval_loss.cpu(), "num_examples": module.num_interval_examples},
    }
    ranks = [mine] * trainer.world_size
    if trainer.world_size > 1:
        dist.all_gather_object(ranks, mine)
    return {
        "progress": progress(position, plan, module.recipe.seed, time.perf_counter() - module.start_seconds),
        "best": _best(trainer),
        "early_stopping": _early_stopping(trainer),
        "metrics": dict(module.metrics),
        "ranks": ranks,
        "fingerprints": fingerprints(module.data),
    }


def _best(trainer: L.Trainer) -> dict[str, Any]:
    for callback in trainer.checkpoint_callbacks:
        if isinstance(callback, BestAndLast):
            return best(callback.best_value, callback.best_epoch, callback.config)
    return best(math.nan, -1, Checkpoint())


def _early_stopping(trainer: L.Trainer) -> dict[str, Any]:
    for callback in trainer.early_stopping_callbacks:
        if isinstance(callback, EarlyStopping):
            best_value, num_without = float(callback.best_score), callback.wait_count
            return {"best_value": best_value, "num_without": num_without, "stopped": trainer.should_stop}
    return {"best_value": -math.inf, "num_without": 0, "stopped": False}


def take_over(checkpoint: dict[str, Any], module: Resumable) -> Position:
    """Check a loaded checkpoint, and complete it with what Lightning restores from it: loops and callbacks.

    Raises:
        UserError: where the checkpoint is of another run, or its position no window's end in this one.
        NothingLeft: where the run has trained all that it was asked for.
    """
    trainer, content = module.trainer, checkpoint["run"]
    check_same_run(checkpoint["path"], content, module.data, describe_network(module.recipe.network, module.network))
    position = position_in(
        checkpoint["path"], content, module.plan, module.recipe, is_grouped=module.data.config.group_by_length
    )
    begin = position if position.validation_due else position.has_closed(module.plan)  # `restore` closes the epoch
    checkpoint["loops"] = {"fit_loop": rebuilt_loops(begin, module.plan)}
    trainer.datamodule.start = (begin.epoch, begin.micro_batch)  # type: ignore[attr-defined]
    checkpoint["callbacks"] = {}
    for callback in trainer.callbacks:  # type: ignore[attr-defined]
        if isinstance(callback, BestAndLast):
            path = Path(checkpoint["path"])
            if path.parent == callback.last.parent:  # elsewhere there is no best.ckpt
                callback.best_value, callback.best_epoch = best_in(content, callback.config)
            if path == callback.last:
                callback.saved_at_step = position.step
        elif isinstance(callback, EarlyStopping):
            stopping = content["early_stopping"]
            callback.best_score = torch.tensor(stopping["best_value"], dtype=torch.float64)
            callback.wait_count = stopping["num_without"]
    if _stays_stopped(content, trainer) and not position.validation_due:
        raise NothingLeft
    return position


def restore(content: Mapping[str, Any], position: Position, module: Resumable) -> None:
    """When training is about to start: put back what is not Lightning's."""
    trainer = module.trainer
    module.epoch, module.micro_batch = position.epoch, position.micro_batch
    module.validation_due = position.validation_due
    module.start_seconds -= content["progress"]["seconds"]
    module.metrics = dict(content["metrics"])
    for name, value in module.metrics.items():
        trainer.callback_metrics[name] = torch.tensor(value, dtype=torch.float64)
    for group, settings in zip(trainer.optimizers[0].param_groups, module.optimizer_settings, strict=True):
        group.update(settings)
    trainer.should_stop = _stays_stopped(content, trainer)
    # Lightning takes no metric for granted in an epoch that it resumes, and leaves ReduceLROnPlateau alone at its end;
    # the metrics are here, though.
    trainer.fit_loop._restarting = False
    for config in trainer.lr_scheduler_configs:
        is_watched = module.recipe.lr_monitor in module.metrics and (position.epoch + 1) % config.frequency == 0
        is_closing = position.micro_batch == module.training_plan.num_micro_batches and not position.validation_due
        if isinstance(config.scheduler, ReduceLROnPlateau) and is_watched and is_closing:
            config.scheduler.step(module.metrics[str(module.recipe.lr_monitor)])
    _restore_rank(content["ranks"], position, module)


def _stays_stopped(content: Mapping[str, Any], trainer: L.Trainer) -> bool:
    for callback in trainer.early_stopping_callbacks:
        if isinstance(callback, EarlyStopping):
            is_too_long = callback.wait_count >= callback.patience
            is_finite = math.isfinite(content["metrics"].get(callback.monitor, 0.0))
            return bool(content["early_stopping"]["stopped"] and (is_too_long or not is_finite))
    return False


def _restore_rank(ranks: Any, position: Position, module: Resumable) -> None:
    rank = module.global_rank
    if len(ranks) == module.trainer.world_size:
        restore_random_states(ranks[rank]["random"], module.device)
        module.interval_loss += ranks[rank]["interval"]["loss"].to(module.device)
    else:  # other ranks: dropout goes on with numbers of its own, and the main process logs what all had added up
        torch.manual_seed(module.recipe.seed + rank + position.step)
        for saved in ranks if module.trainer.is_global_zero else []:
            module.interval_loss += saved["interval"]["loss"].to(module.device)
    module.num_interval_examples = ranks[0]["interval"]["num_examples"]  # of all ranks


def rebuilt_loops(position: Position, plan: Plan) -> dict[str, Any]:
    """The state of Lightning's fit loop at a position."""
    epoch, micro_batch, step = position.epoch, position.micro_batch, position.step
    begun = epoch + 1 if micro_batch else epoch
    all_batches = epoch * plan.num_micro_batches + micro_batch
    num_begun_validations = int(position.validation_due)
    return {
        "epoch_progress": _both(ready=begun, started=begun, processed=epoch, completed=epoch),
        "epoch_loop.state_dict": {"_batches_that_stepped": step},
        "epoch_loop.batch_progress": {
            "total": _done(all_batches),
            "current": _done(micro_batch),
            "is_last_batch": micro_batch == plan.num_micro_batches,
        },
        "epoch_loop.scheduler_progress": _both(ready=step, completed=step),
        "epoch_loop.automatic_optimization.optim_progress": {
            "optimizer": {
                "step": _both(ready=step, completed=step),
                "zero_grad": _both(ready=step, started=step, completed=step),
            }
        },
        "epoch_loop.val_loop.batch_progress": {
            **_both(ready=num_begun_validations, started=num_begun_validations, processed=0, completed=0),
            "is_last_batch": False,
        },
    }


def _done(count: int) -> dict[str, int]:
    return {"ready": count, "started": count, "processed": count, "completed": count}


def _both(**counts: int) -> dict[str, dict[str, int]]:
    return {"total": dict(counts), "current": dict(counts)}
