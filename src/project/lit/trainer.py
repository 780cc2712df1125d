"""What Lightning's Trainer says about a run, in the words that both twins share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lightning as L
import torch

from project.learn.plan import Plan

if TYPE_CHECKING:
    from project.data.splits import Data


def plan_of(trainer: L.Trainer, data: Data) -> Plan:
    """Micro-batches, windows and steps of the run.

    Raises:
        UserError: where no number of steps follows from the settings.
    """
    assert trainer.max_epochs is not None
    return Plan(
        num_examples=len(data.splits["train"]),
        batch_size=data.config.batch_size,
        drop_last=data.config.drop_last,
        world_size=trainer.world_size,
        rank=trainer.global_rank,
        accumulate_grad_batches=trainer.accumulate_grad_batches,
        max_epochs=trainer.max_epochs,
        max_steps=trainer.max_steps,
        limit_train_batches=trainer.limit_train_batches,
        val_check_interval=trainer.val_check_interval if trainer.limit_val_batches else 1.0,
        check_val_every_n_epoch=trainer.check_val_every_n_epoch,
    )


def scaler_of(trainer: L.Trainer) -> torch.amp.GradScaler | None:
    """The gradient scaler of 16-mixed precision; None for other precisions."""
    scaler = getattr(trainer.precision_plugin, "scaler", None)
    return scaler if isinstance(scaler, torch.amp.GradScaler) else None


def scale_of(trainer: L.Trainer) -> float:
    """The factor of the gradient scaler; 1 without one."""
    scaler = scaler_of(trainer)
    return 1.0 if scaler is None else float(scaler.get_scale())
