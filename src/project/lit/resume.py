"""Continues a saved run: restores what lit/checkpoint.py saved and Lightning does not restore itself.

The saved state of Lightning's loops is not used: after an epoch's end it skips the next epoch, and it forgets a
validation that is due. The loops are set to the position instead. tests/resume compares every case with an
uninterrupted run.
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


def set_loops(checkpoint: dict[str, Any], module: LitClassifier) -> Position:
    """Add the state of Lightning's loops to a checkpoint that Lightning is loading; returns the position.

    Raises:
        UserError: where the position is not the end of a window here.
        NothingLeft: where the plan asks for no further step.
    """
    plan, recipe, data = module.plan, module.recipe, module.data
    position = position_in(checkpoint["path"], checkpoint["run"], plan, recipe, is_grouped=data.config.group_by_length)
    begin = position if position.validation_due else position.has_closed(plan)  # `restore` ends the epoch
    checkpoint["loops"] = {"fit_loop": loops_at(**vars(begin), num_micro_batches=plan.num_micro_batches)}
    module.trainer.datamodule.start = (begin.epoch, begin.micro_batch)  # type: ignore[attr-defined]
    return position


def restore(saved: Mapping[str, Any], position: Position, module: LitClassifier) -> None:
    """Restore optimizer settings, metrics and random states, when training is about to start.

    Lightning has restored weights, optimizer, scheduler and scaler.
    """
    trainer, recipe, plan = module.trainer, module.recipe, module.plan
    optimizer = trainer.optimizers[0]
    own = settings_of(recipe.build_optimizer(module.network), is_scheduled=recipe.lr_scheduler is not None)
    for group, settings in zip(optimizer.param_groups, own, strict=True):
        group.update(settings)  # this run's settings, not the saved ones

    module.metrics = dict(saved["metrics"])
    module.start_seconds -= saved["progress"]["seconds"]
    for name, value in module.metrics.items():
        trainer.callback_metrics[name] = torch.tensor(value, dtype=torch.float64)
    take_metrics_for_granted(trainer)
    for config in trainer.lr_scheduler_configs:
        is_watched = recipe.lr_monitor in module.metrics and (position.epoch + 1) % config.frequency == 0
        ends_epoch = position.micro_batch == plan.num_micro_batches and not position.validation_due
        if isinstance(config.scheduler, ReduceLROnPlateau) and is_watched and ends_epoch:
            config.scheduler.step(module.metrics[str(recipe.lr_monitor)])
    restore_rank(saved["ranks"], module.world, module.device, module.interval, recipe.seed + position.step)
