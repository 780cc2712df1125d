"""Calls between/steps.py from Lightning's hooks: signals, saving, early stopping; continues a saved run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import lightning as L
from lightning.pytorch.callbacks import Checkpoint as CheckpointCallback

from project.between.best_and_last import BestAndLast
from project.between.early_stopping import EarlyStopping
from project.between.steps import Between
from project.checkpoint.config import Checkpoint
from project.checkpoint.config import EarlyStopping as EarlyStoppingConfig
from project.checkpoint.position import NothingLeft, Position
from project.lit.checkpoint import run_content
from project.lit.module import LitClassifier
from project.lit.resume import restore, set_loops
from project.ranks.signals import Listener


class BetweenSteps(CheckpointCallback):
    """Calls `Between`. It is a checkpoint callback because Lightning runs those after all other callbacks.

    Args:
        folder: where checkpoints go; None with fast_dev_run, which writes no files.
        checkpoint: when to save.
        early_stopping: when to stop.
        listener: receives signals.
    """

    between: Between

    def __init__(
        self, folder: Path | None, checkpoint: Checkpoint, early_stopping: EarlyStoppingConfig, listener: Listener
    ) -> None:
        self.folder = folder
        self.config = checkpoint
        self.early_stopping = EarlyStopping(early_stopping)
        self.listener = listener
        self.checkpoints: BestAndLast | None = None
        self.has_begun = False
        """Whether training has started."""
        self.resumed: tuple[Position, dict[str, Any]] | None = None
        """Position and content of the checkpoint that this run continues."""

    def on_load_checkpoint(self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]) -> None:
        """Check that the run can continue; set Lightning's loops to the checkpoint's position.

        Raises:
            UserError: where the position is not the end of a window here.
            NothingLeft: where the saved run is complete.
        """
        assert isinstance(pl_module, LitClassifier)
        saved = checkpoint["run"]
        position = set_loops(checkpoint, pl_module)
        self.early_stopping.load_state_dict(saved["early_stopping"], saved["metrics"])
        if self.early_stopping.should_stop and not position.validation_due:
            raise NothingLeft
        self.resumed = position, saved

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Restore a continued run; prepare what happens between its steps."""
        assert isinstance(pl_module, LitClassifier)
        self.has_begun = True
        position = Position(0, 0, 0)
        if self.folder is not None:
            self.checkpoints = BestAndLast(self.folder, self.config, pl_module.world)
        if self.resumed is not None:
            position, saved = self.resumed
            restore(saved, position, pl_module)
            trainer.should_stop = self.early_stopping.should_stop
            if self.checkpoints is not None:
                self.checkpoints.load_state_dict(Path(str(trainer.ckpt_path)), saved)
        self.between = Between(
            listener=self.listener,
            world=pl_module.world,
            device=pl_module.device,
            watch=pl_module.watch,
            early_stopping=self.early_stopping,
            checkpoints=self.checkpoints,
            write=lambda between, path: trainer.save_checkpoint(path, weights_only=False),
            log_every_n_steps=trainer.log_every_n_steps,  # type: ignore[attr-defined]
            position=position,
        )

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """After an optimizer step: stop for a signal, or save."""
        assert isinstance(pl_module, LitClassifier)
        self.between.micro_batch_done()
        plan, epoch = pl_module.plan, trainer.current_epoch
        if plan.closes_window(batch_idx):
            is_validated = trainer.enable_validation and plan.validates_after(epoch, batch_idx)
            position = Position(epoch, batch_idx + 1, trainer.global_step, is_validated)
            self.between.step_done(position, pl_module.logged_loss)

    def on_validation_batch_start(
        self, trainer: L.Trainer, pl_module: L.LightningModule, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        """Stop for a signal."""
        if trainer.state.fn == "fit" and not trainer.sanity_checking:
            self.between.before_validation_batch(batch_idx)

    def on_validation_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Stop where another rank has stopped."""
        if trainer.state.fn == "fit" and not trainer.sanity_checking:
            self.between.after_validation_batches()

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Early stopping, then save."""
        assert isinstance(pl_module, LitClassifier)
        if trainer.state.fn == "fit" and not trainer.sanity_checking:
            self.between.validated(pl_module.metrics)
            trainer.should_stop = trainer.should_stop or self.early_stopping.should_stop

    def on_train_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Save the last steps."""
        assert isinstance(pl_module, LitClassifier)
        position = self.between.position
        is_closed = trainer.current_epoch > position.epoch
        self.between.finish(position.has_closed(pl_module.plan) if is_closed else position)

    def on_save_checkpoint(self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]) -> None:
        """Add the state of the run."""
        assert isinstance(pl_module, LitClassifier)
        checkpoint["run"] = run_content(pl_module, self.between)

    def write(self, path: Path, content: Mapping[str, Any]) -> None:
        """Write a checkpoint, now or in the background."""
        assert self.checkpoints is not None
        self.checkpoints.writer.write(path, content)

    def on_exception(self, trainer: L.Trainer, pl_module: L.LightningModule, exception: BaseException) -> None:
        """Wait for a save in the background; Lightning calls no teardown after an exception."""
        self._close()

    def teardown(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        """Wait for a save in the background."""
        self._close()

    def _close(self) -> None:
        if self.checkpoints is not None:
            self.checkpoints.writer.close()
