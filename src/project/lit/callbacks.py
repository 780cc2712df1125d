"""What a run shows: a line per epoch in the terminal, pictures and text in TensorBoard, a mark when it has finished."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import lightning as L
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.loggers import TensorBoardLogger
from rich.console import Console
from torch import Tensor

from project.lit.checkpoint import BestAndLast
from project.lit.module import LitClassifier
from project.report import Mistake, confusion_figure, mistakes_table
from project.runs import mark_finished
from project.task.batch import Batch


class EpochLines(Callback):
    """Prints one line per validation: where the run is, and its metrics."""

    def __init__(self) -> None:
        self.console = Console(highlight=False, soft_wrap=True)

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Say how much there is to do, and start the clock."""
        assert isinstance(pl_module, LitClassifier)
        plan = pl_module.plan
        num_parameters = sum(parameter.numel() for parameter in pl_module.network.parameters())
        self.console.print(
            f"training {type(pl_module.network).__name__} with {num_parameters:,} parameters on {plan.num_examples:,} "
            f"rows: {plan.total_steps:,} optimizer steps, {plan.num_windows:,} per epoch"
        )
        if pl_module.left_fresh:
            names = ", ".join(pl_module.left_fresh)
            self.console.print(f"model.init_from: its labels are others, so these weights start fresh: {names}")
        self.start_seconds = time.perf_counter()

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Print the line."""
        if trainer.state.fn != "fit" or trainer.sanity_checking:
            return
        assert isinstance(pl_module, LitClassifier)
        figures = pl_module.figures
        assert figures is not None
        train_loss = trainer.callback_metrics.get("train/loss")
        self.console.print(
            f"epoch {trainer.current_epoch + 1:>2}  step {trainer.global_step:>6}"
            + (f"  train/loss {float(train_loss):.4f}" if train_loss is not None else "")
            + f"  val/loss {figures.loss:.4f}  val/accuracy {figures.accuracy:.4f}"
            f"  val/macro_f1 {figures.macro_f1:.4f}  {time.perf_counter() - self.start_seconds:6.1f} s"
        )


class TensorBoardPages(Callback):
    """Adds the confusion matrix, the worst mistakes and the hyperparameters with final metrics to TensorBoard."""

    num_mistakes = 20

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
        """Keep the mistakes that the network was surest of."""
        if trainer.sanity_checking:
            return
        logits: Tensor = outputs
        probability, predicted = logits.float().softmax(dim=1).max(dim=1)
        for row in (predicted != batch.labels).nonzero().flatten().tolist():
            self.mistakes.append(
                Mistake(float(probability[row]), int(batch.index[row]), int(batch.labels[row]), int(predicted[row]))
            )
        self.mistakes = sorted(self.mistakes, reverse=True)[: self.num_mistakes]

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Write picture and page of this validation."""
        assert isinstance(pl_module, LitClassifier)
        mistakes, self.mistakes = self.mistakes, []
        if trainer.sanity_checking or not isinstance(logger := trainer.logger, TensorBoardLogger):
            return
        labels = [str(label) for label in pl_module.vocabulary.labels]
        figure = confusion_figure(pl_module.confusion_counts, labels)
        logger.experiment.add_figure("val/confusion", figure, trainer.global_step)
        page = mistakes_table(mistakes, labels, pl_module.data.splits["val"].text)
        logger.experiment.add_text("val/misclassified", page, trainer.global_step)

    def on_train_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Write the hyperparameters beside the last validation's metrics."""
        if isinstance(logger := trainer.logger, TensorBoardLogger):
            final = {name: float(value) for name, value in trainer.callback_metrics.items() if name.startswith("val/")}
            logger.log_hyperparams(self.hyperparameters, {f"final/{name}": value for name, value in final.items()})


class RunFolder(Callback):
    """Saves configuration and tokenizer with the run, and marks the run as finished when it ends by itself."""

    def __init__(self, run: Path, config: str, checkpoints: BestAndLast) -> None:
        self.run = run
        self.config = config
        self.checkpoints = checkpoints
        self.num_rows = 0

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Save what describes the run, and start the clock."""
        assert isinstance(pl_module, LitClassifier)
        (self.run / "config.yaml").write_text(self.config, encoding="utf-8")
        pl_module.vocabulary.tokenizer.save(self.run / "tokenizer.json")
        self.start_seconds = time.perf_counter()

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: Any, batch: Batch, batch_idx: int
    ) -> None:
        """Count the rows that were trained on."""
        self.num_rows += len(batch.labels)

    def on_train_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Write finished.json."""
        assert isinstance(pl_module, LitClassifier)
        seconds = time.perf_counter() - self.start_seconds
        validated = self.checkpoints.best_epoch >= 0
        mark_finished(
            self.run,
            {
                "epochs": round(self.num_rows / pl_module.plan.num_examples, 3),
                "optimizer_steps": trainer.global_step,
                "seconds": round(seconds, 3),
                "train_rows_per_second": round(self.num_rows / seconds, 1),
                "monitor": self.checkpoints.config.monitor,
                "best_value": self.checkpoints.best_value if validated else None,
                "best_epoch": self.checkpoints.best_epoch + 1 if validated else None,
            },
        )


class EvaluationClock(Callback):
    """Measures an evaluation's batches, without the set-up before them."""

    seconds = 0.0

    def on_validation_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Start."""
        self.start_seconds = time.perf_counter()

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Stop."""
        self.seconds = time.perf_counter() - self.start_seconds

    def on_test_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Start."""
        self.on_validation_start(trainer, pl_module)

    def on_test_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Stop."""
        self.on_validation_end(trainer, pl_module)
