"""Logs training and evaluation scalars at optimizer steps."""

from __future__ import annotations

from typing import Any

import lightning as L
from lightning.pytorch.callbacks import Callback


class LogSteps(Callback):
    """Sends scalars to the Trainer's loggers. `self.log` would count batches, and costs more than a small step."""

    def on_train_batch_end(self, trainer: L.Trainer, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Log the interval, if this optimizer step is a logged one."""
        if pl_module.interval.grad_norm is not None:
            scalars = pl_module.take_interval()
            pl_module.log("train/loss", scalars["train/loss"], prog_bar=True, logger=False, batch_size=1)
            self._log(trainer, scalars)

    def on_validation_end(self, trainer: L.Trainer, pl_module: Any) -> None:
        """Log the validation's metrics."""
        if not trainer.sanity_checking:
            self._log(trainer, pl_module.scores.logged("val"))

    def on_test_end(self, trainer: L.Trainer, pl_module: Any) -> None:
        """Log the test's metrics."""
        self._log(trainer, pl_module.scores.logged("test"))

    def _log(self, trainer: L.Trainer, scalars: dict[str, float]) -> None:
        for logger in trainer.loggers:
            logger.log_metrics(scalars, step=trainer.global_step)
