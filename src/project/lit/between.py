"""What happens between two steps under Lightning: signals, saving, early stopping, and going on from a checkpoint.

The decisions are between/steps.py's, which both twins share; this callback calls it where Lightning's hooks are.
"""

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
from project.lit.resume import restore, take_over
from project.ranks.signals import Listener


class BetweenSteps(CheckpointCallback):
    """Calls `Between`. Lightning runs checkpoint callbacks last, so every other callback has seen the step by then.

    Args:
        folder: where checkpoints go; None in a rehearsal, which leaves nothing behind.
        checkpoint: when to save.
        early_stopping: when to end.
        listener: hears signals.
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
        """Whether training began."""
        self.resumed: tuple[Position, dict[str, Any]] | None = None
        """Of a run that goes on: where it stood, and the checkpoint's content."""

    def on_load_checkpoint(self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]) -> None:
        """Check that the run can go on from here, and complete what Lightning restores from the checkpoint.

        Raises:
            UserError: where the checkpoint is of another run, or its position is no window's end in this one.
            NothingLeft: where the run has trained all that it was asked for.
        """
        assert isinstance(pl_module, LitClassifier)
        saved = checkpoint["run"]
        position = take_over(checkpoint, pl_module)
        self.early_stopping.load_state_dict(saved["early_stopping"], saved["metrics"])
        if self.early_stopping.should_stop and not position.validation_due:
            raise NothingLeft
        self.resumed = position, saved

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Training begins, or goes on."""
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
        """After an optimizer step."""
        assert isinstance(pl_module, LitClassifier)
        self.between.micro_batch_done()
        plan, epoch = pl_module.training_plan, trainer.current_epoch
        if plan.closes_window(batch_idx):
            is_validated = trainer.enable_validation and plan.validates_after(epoch, batch_idx)
            position = Position(epoch, batch_idx + 1, trainer.global_step, is_validated)
            self.between.step_done(position, pl_module.logged_loss)

    def on_validation_batch_start(
        self, trainer: L.Trainer, pl_module: L.LightningModule, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        """Leave the validation for a signal."""
        if trainer.state.fn == "fit" and not trainer.sanity_checking:
            self.between.before_validation_batch(batch_idx)

    def on_validation_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Leave the validation where another rank has left it."""
        if trainer.state.fn == "fit" and not trainer.sanity_checking:
            self.between.after_validation_batches()

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Early stopping, then save."""
        assert isinstance(pl_module, LitClassifier)
        if trainer.state.fn == "fit" and not trainer.sanity_checking:
            self.between.validated(pl_module.metrics)
            trainer.should_stop = trainer.should_stop or self.early_stopping.should_stop

    def on_train_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Save what is not saved yet."""
        assert isinstance(pl_module, LitClassifier)
        position = self.between.position
        is_closed = trainer.current_epoch > position.epoch
        self.between.finish(position.has_closed(pl_module.training_plan) if is_closed else position)

    def on_save_checkpoint(self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]) -> None:
        """Add what the project's file holds beside weights, optimizer, scheduler and scaler."""
        assert isinstance(pl_module, LitClassifier)
        checkpoint["run"] = run_content(pl_module, self.between)

    def write(self, path: Path, content: Mapping[str, Any]) -> None:
        """Write the project's file, at once or in the background."""
        assert self.checkpoints is not None
        self.checkpoints.writer.write(path, content)

    def teardown(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        """Let a save in the background come to its end, however the run ended."""
        if self.checkpoints is not None:
            self.checkpoints.writer.close()
