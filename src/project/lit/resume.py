"""Continues a saved run under Lightning: what its own checkpoints do not hold, and the counters of its loops.

Lightning's saved loops are not used: one that was saved at the end of an epoch skips the next epoch, and one saved
before a validation forgets that. They are rebuilt from the position instead; tests/resume holds every case against the
run that was not interrupted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.optim.lr_scheduler import ReduceLROnPlateau

from project.checkpoint.position import Position, position_in, settings_of
from project.checkpoint.rank_state import restore_rank
from project.lit.module import LitClassifier
from project.private import loops_at, take_metrics_for_granted


def take_over(checkpoint: dict[str, Any], module: LitClassifier) -> Position:
    """Complete a loaded checkpoint with the state of Lightning's loops.

    Raises:
        UserError: where its position is no window's end in this run.
        NothingLeft: where the run has trained all that it was asked for.
    """
    plan, data, recipe = module.plan, module.data, module.recipe
    saved, path = checkpoint["run"], checkpoint["path"]
    position = position_in(path, saved, plan, recipe, is_grouped=data.config.group_by_length)
    begin = position if position.validation_due else position.has_closed(plan)  # `restore` closes the epoch
    checkpoint["loops"] = {
        "fit_loop": loops_at(**vars(begin), num_micro_batches=plan.num_micro_batches),
    }
    module.trainer.datamodule.start = (begin.epoch, begin.micro_batch)  # type: ignore[attr-defined]
    return position


def restore(saved: Mapping[str, Any], position: Position, module: LitClassifier) -> None:
    """When training is about to start: put back what is not Lightning's."""
    trainer, recipe = module.trainer, module.recipe
    module.start_seconds -= saved["progress"]["seconds"]
    module.metrics = dict(saved["metrics"])
    for name, value in module.metrics.items():
        trainer.callback_metrics[name] = torch.tensor(value, dtype=torch.float64)
    optimizer = trainer.optimizers[0]
    own = settings_of(recipe.build_optimizer(module.network), is_scheduled=recipe.lr_scheduler is not None)
    for group, settings in zip(optimizer.param_groups, own, strict=True):
        group.update(settings)
    take_metrics_for_granted(trainer)
    for config in trainer.lr_scheduler_configs:
        is_watched = recipe.lr_monitor in module.metrics and (position.epoch + 1) % config.frequency == 0
        is_closing = position.micro_batch == module.training_plan.num_micro_batches and not position.validation_due
        if isinstance(config.scheduler, ReduceLROnPlateau) and is_watched and is_closing:
            config.scheduler.step(module.metrics[str(recipe.lr_monitor)])
    restore_rank(saved["ranks"], module.world, module.device, module.interval, recipe.seed + position.step)
