"""Terminal lines, TensorBoard and run folder of a run; the same tags as under `hand`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import lightning as L
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.loggers import TensorBoardLogger

from project.commands.report import (
    Mistake,
    best_line,
    confusion_figure,
    epoch_line,
    fresh_line,
    keep_worst,
    mistakes_table,
    resumed_line,
    terminal,
    training_line,
    worst_of,
)
from project.commands.runs import FINISHED, mark_finished, mark_launched, summary
from project.data.batch import Batch
from project.lit.between import BetweenSteps
from project.lit.module import LitClassifier


class EpochLines(Callback):
    """Prints a line for each validation, and the best one at the end.

    Args:
        root: where runs go.
        between: the callback that saves; it knows the best checkpoint and the continued one.
    """

    def __init__(self, root: Path, between: BetweenSteps) -> None:
        self.root = root
        self.between = between

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Print what will be trained."""
        assert isinstance(pl_module, LitClassifier)
        self.console = terminal()
        self.console.quiet = not trainer.is_global_zero
        self.console.print(training_line(pl_module.network, pl_module.plan))
        if self.between.resumed is not None:
            position, _ = self.between.resumed
            path = str(trainer.ckpt_path)
            self.console.print(resumed_line(path, position.epoch, position.micro_batch, position.step))
        if pl_module.left_fresh:
            self.console.print(fresh_line(pl_module.left_fresh))

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Print a line for this validation."""
        if trainer.state.fn != "fit" or trainer.sanity_checking:
            return
        assert isinstance(pl_module, LitClassifier)
        scores = pl_module.scores
        assert scores is not None
        self.console.print(
            epoch_line(
                trainer.current_epoch,
                trainer.global_step,
                pl_module.metrics.get("train/loss"),
                scores,
                time.perf_counter() - pl_module.start_seconds,
            )
        )

    def on_fit_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Print the best checkpoint, the run's folder and how to open TensorBoard."""
        if (checkpoints := self.between.checkpoints) is not None:
            if checkpoints.best_epoch >= 0:
                best = (checkpoints.best, checkpoints.config.monitor, checkpoints.best_value, checkpoints.best_epoch)
                self.console.print(best_line(*best))
            self.console.print(f"run: {checkpoints.last.parent.parent}")
        self.console.print(f"look at it: make tensorboard, or tensorboard --logdir {self.root} --host localhost")


class TensorBoardPages(Callback):
    """Writes confusion matrix, worst mistakes and hyperparameters to TensorBoard."""

    def __init__(self, hyperparameters: dict[str, Any]) -> None:
        self.hyperparameters = hyperparameters
        self.mistakes: list[Mistake] = []

    def on_validation_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        outputs: Any,
        batch: Batch,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Keep the mistakes with the highest probabilities."""
        if not trainer.sanity_checking:
            self.mistakes = keep_worst(self.mistakes, batch, outputs)

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Write this validation's confusion matrix and worst mistakes."""
        assert isinstance(pl_module, LitClassifier)
        mistakes = pl_module.world.all_gather(self.mistakes)
        self.mistakes = []
        if trainer.sanity_checking or not trainer.is_global_zero:
            return
        if not isinstance(logger := trainer.logger, TensorBoardLogger):
            return
        labels = [str(label) for label in pl_module.vocabulary.labels]
        figure = confusion_figure(pl_module.confusion_counts, labels)
        logger.experiment.add_figure("val/confusion", figure, trainer.global_step)
        page = mistakes_table(worst_of(mistakes), labels, pl_module.data.splits["val"].text)
        logger.experiment.add_text("val/misclassified", page, trainer.global_step)

    def on_train_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Write the hyperparameters with the last validation's metrics."""
        if isinstance(logger := trainer.logger, TensorBoardLogger):
            assert isinstance(pl_module, LitClassifier)
            final = {name: value for name, value in pl_module.metrics.items() if name.startswith("val/")}
            logger.log_hyperparams(self.hyperparameters, {f"final/{name}": value for name, value in final.items()})


class RunFolder(Callback):
    """Saves configuration and tokenizer, and marks the run as finished."""

    def __init__(self, folder: Path, config: str, between: BetweenSteps) -> None:
        self.folder = folder
        self.config = config
        self.between = between

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Save configuration and tokenizer."""
        assert isinstance(pl_module, LitClassifier)
        if trainer.is_global_zero:
            mark_launched(self.folder)
            (self.folder / "config.yaml").write_text(self.config, encoding="utf-8")
            pl_module.vocabulary.tokenizer.save(self.folder / "tokenizer.json")
            (self.folder / FINISHED).unlink(missing_ok=True)

    def on_fit_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Write finished.json; in on_train_end the last checkpoint may not be written yet."""
        assert isinstance(pl_module, LitClassifier)
        checkpoints, position = self.between.checkpoints, self.between.between.position
        if not trainer.is_global_zero or checkpoints is None:
            return
        mark_finished(
            self.folder,
            summary(
                num_rows=pl_module.plan.num_rows(position.epoch, position.micro_batch),
                num_train_rows=pl_module.plan.num_examples,
                step=trainer.global_step,
                seconds=time.perf_counter() - pl_module.start_seconds,
                monitor=checkpoints.config.monitor,
                best_value=checkpoints.best_value,
                best_epoch=checkpoints.best_epoch,
            ),
        )


class EvaluationClock(Callback):
    """Measures the seconds of an evaluation's batches."""

    seconds = 0.0

    def on_validation_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Start the clock."""
        self.start_seconds = time.perf_counter()

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Stop the clock."""
        self.seconds = time.perf_counter() - self.start_seconds

    on_test_start = on_validation_start
    on_test_end = on_validation_end
