"""Continues a saved run: puts back what hand/checkpoint.py saved."""

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


def restore_training(path: Path, content: Mapping[str, Any], training: Training, data: Data) -> Position:
    """Put back weights, optimizer, scheduler, scaler, position, metrics and random states.

    Raises:
        UserError: where the checkpoint is of another run, or its position is no window's end in this one.
        NothingLeft: where the run has trained all that it was asked for.
    """
    recipe, optimizer, lr_scheduler, scaler = (
        training.recipe,
        training.optimizer,
        training.lr_scheduler,
        training.scaler,
    )
    check_same_run(path, content, data, describe_network(recipe.network, training.network))
    position = position_in(path, content, training.plan, recipe, is_grouped=data.config.group_by_length)
    training.network.load_state_dict(sharded_weights(content["state_dict"], training.network))
    own = settings_of(optimizer, is_scheduled=lr_scheduler is not None)
    optimizer.load_state_dict(sharded_state(content["optimizer"], optimizer))
    for group, settings in zip(optimizer.param_groups, own, strict=True):
        group.update(settings)
    if lr_scheduler is not None and content["lr_scheduler"] is not None:
        lr_scheduler.load_state_dict(content["lr_scheduler"])
    if scaler.is_enabled() and content["scaler"] is not None:
        scaler.load_state_dict(content["scaler"])
    training.epoch, training.micro_batch, training.step = position.epoch, position.micro_batch, position.step
    training.metrics = dict(content["metrics"])
    training.start_seconds -= content["progress"]["seconds"]
    new_seed = recipe.seed + position.step
    restore_rank(content["ranks"], training.world, training.device, training.interval, new_seed)
    return position
