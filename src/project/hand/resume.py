"""Continues a saved run: restores what hand/checkpoint.py saved."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from project.checkpoint.position import Position, check_same_run, position_in, settings_of
from project.checkpoint.rank_state import restore_rank
from project.data.splits import Data
from project.hand.loop import Training
from project.learn.recipe import describe_network
from project.ranks.sharding import sharded_state, sharded_weights


def restore(path: Path, saved: Mapping[str, Any], training: Training, data: Data) -> Position:
    """Restore weights, optimizer, scheduler, scaler, position, metrics and random states.

    Raises:
        UserError: where the checkpoint is of another run, or its position is not the end of a window here.
        NothingLeft: where the plan asks for no further step.
    """
    plan, recipe, optimizer = training.plan, training.recipe, training.optimizer
    lr_scheduler, scaler = training.lr_scheduler, training.scaler
    check_same_run(path, saved, data, describe_network(recipe.network, training.network))
    position = position_in(path, saved, plan, recipe, is_grouped=data.config.group_by_length)

    training.network.load_state_dict(sharded_weights(saved["state_dict"], training.network))
    own = settings_of(optimizer, is_scheduled=lr_scheduler is not None)
    optimizer.load_state_dict(sharded_state(saved["optimizer"], optimizer))
    for group, settings in zip(optimizer.param_groups, own, strict=True):
        group.update(settings)  # this run's settings, not the saved ones
    if lr_scheduler is not None and saved["lr_scheduler"] is not None:
        lr_scheduler.load_state_dict(saved["lr_scheduler"])
    if scaler.is_enabled() and saved["scaler"] is not None:
        scaler.load_state_dict(saved["scaler"])

    training.epoch, training.micro_batch, training.step = position.epoch, position.micro_batch, position.step
    training.metrics = dict(saved["metrics"])
    training.start_seconds -= saved["progress"]["seconds"]
    restore_rank(saved["ranks"], training.world, training.device, training.interval, recipe.seed + position.step)
    return position
