"""Continues a saved run: puts back what `hand/checkpoint.py` saved."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from project.checkpoint.position import Position, best_in, check_same_run, position_in, settings_of
from project.checkpoint.random_states import restore_random_states
from project.commands.saved import Saved
from project.data.splits import Data
from project.hand.checkpoint import BestAndLast
from project.hand.early_stopping import EarlyStopping
from project.hand.loop import Training
from project.learn.recipe import describe_network
from project.ranks.sharding import shared_out_state, shared_out_weights


def restore_training(path: Path, content: Mapping[str, Any], training: Training, data: Data) -> Position:
    """Put weights, optimizer, scheduler, scaler, position, metrics and random states where they were.

    Raises:
        UserError: where the checkpoint is of another run, or its position no window's end in this one.
        NothingLeft: where the run has trained all that it was asked for.
    """
    run = training
    check_same_run(path, content, data, describe_network(run.recipe.network, run.network))
    position = position_in(path, content, run.plan, run.recipe, is_grouped=data.config.group_by_length)
    run.network.load_state_dict(shared_out_weights(content["state_dict"], run.network))
    own = settings_of(run.optimizer, is_scheduled=run.lr_scheduler is not None)
    run.optimizer.load_state_dict(shared_out_state(content["optimizer"], run.optimizer))
    for group, settings in zip(run.optimizer.param_groups, own, strict=True):
        group.update(settings)
    if run.lr_scheduler is not None and content["lr_scheduler"] is not None:
        run.lr_scheduler.load_state_dict(content["lr_scheduler"])
    if run.scaler.is_enabled() and content["scaler"] is not None:
        run.scaler.load_state_dict(content["scaler"])
    run.epoch, run.micro_batch, run.step = position.epoch, position.micro_batch, position.step
    run.metrics = dict(content["metrics"])
    run.start_seconds -= content["progress"]["seconds"]
    restore_rank(content["ranks"], training)
    return position


def restore_rank(ranks: Sequence[Mapping[str, Any]], training: Training) -> None:
    """Put back what is this rank's own: its random states, and the interval since the last logged step."""
    run, rank = training, training.world.rank
    if len(ranks) == run.world.size:
        restore_random_states(ranks[rank]["random"], run.device)
        run.interval.loss += ranks[rank]["interval"]["loss"].to(run.device)
    else:  # other ranks: dropout goes on with numbers of its own, and the main process logs what all had added up
        torch.manual_seed(run.recipe.seed + rank + run.step)
        for saved in ranks if run.world.is_main else []:
            run.interval.loss += saved["interval"]["loss"].to(run.device)
    run.interval.num_examples = ranks[0]["interval"]["num_examples"]  # of all ranks


def restore_stopping(content: Mapping[str, Any], early_stopping: EarlyStopping) -> None:
    """Put back how long ago a validation was the best."""
    stopping = content["early_stopping"]
    early_stopping.best_value, early_stopping.num_without = stopping["best_value"], stopping["num_without"]
    value = content["metrics"].get(early_stopping.config.monitor, 0.0)
    early_stopping.stopped = stopping["stopped"] and (early_stopping.is_too_long() or not math.isfinite(value))


def restore_best(resumed: Saved, checkpoints: BestAndLast) -> None:
    """Put back which validation was best, and of which step last.ckpt is."""
    content = resumed.content
    if resumed.run is not None:  # elsewhere there is no best.ckpt
        checkpoints.best_value, checkpoints.best_epoch = best_in(content, checkpoints.config)
    if resumed.path == checkpoints.last:
        checkpoints.saved_at_step = content["progress"]["step"]
