"""Terminal lines, TensorBoard and run folder of a run; the same tags as under Lightning."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from project.between.best_and_last import BestAndLast
from project.commands.report import (
    Mistake,
    confusion_figure,
    epoch_line,
    fresh_line,
    mistakes_table,
    resumed_line,
    terminal,
    training_line,
)
from project.commands.runs import FINISHED, mark_finished, summary
from project.data.batch import Batch
from project.data.splits import Data
from project.hand.loop import Counts, Training
from project.hand.settings import Settings
from project.learn.objective import Scores

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


class Log:
    """Prints and writes what a run logs, on the main rank.

    Args:
        folder: the run's folder; None with fast_dev_run, which writes no files.
        settings: of the run.
        training: its state.
        data: its rows.
        resumed_from: the checkpoint of a continued run; its curves continue there.
    """

    def __init__(
        self,
        folder: Path | None,
        settings: Settings,
        training: Training,
        data: Data,
        resumed_from: Path | None = None,
    ) -> None:
        self.folder = folder if training.world.is_main else None
        self.settings = settings
        self.training = training
        self.data = data
        self.resumed_from = resumed_from
        self.console = terminal()
        self.console.quiet = not training.world.is_main
        self._open = ExitStack()
        self._writer: SummaryWriter | None = None

    def start(self, left_fresh: list[str]) -> None:
        """Print what will be trained; save configuration and tokenizer."""
        training = self.training
        self.console.print(training_line(training.network, training.plan))
        if self.resumed_from is not None:
            self.console.print(resumed_line(self.resumed_from, training.epoch, training.micro_batch, training.step))
        if left_fresh:
            self.console.print(fresh_line(left_fresh))
        if self.folder is not None:
            (self.folder / "config.yaml").write_text(self.settings.yaml, encoding="utf-8")
            self.data.vocabulary.tokenizer.save(self.folder / "tokenizer.json")
            (self.folder / FINISHED).unlink(missing_ok=True)
            from torch.utils.tensorboard import SummaryWriter  # late: an evaluation needs none of it

            purge_step = None if self.resumed_from is None else training.step + 1  # later points are written again
            self._writer = self._open.enter_context(SummaryWriter(str(self.folder), purge_step=purge_step))

    def progress(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """Yield the epoch's micro-batches; show a progress bar on a terminal."""
        is_off = self.settings.trainer.enable_progress_bar is False or not self.training.world.is_main
        if is_off or not sys.stderr.isatty():
            yield from batches
            return
        from rich.console import Console
        from rich.progress import Progress

        with Progress(console=Console(stderr=True), transient=True) as progress:
            title = f"epoch {self.training.epoch + 1}"
            yield from progress.track(batches, total=self.training.plan.num_micro_batches, description=title)

    def step(self, scalars: dict[str, float]) -> float:
        """Write the scalars of a logged optimizer step; returns its training loss."""
        self._scalars(scalars)
        return scalars["train/loss"]

    def validated(self, scores: Scores, counts: Counts, mistakes: list[Mistake]) -> None:
        """Print a line for this validation; write its metrics, confusion matrix and worst mistakes."""
        training = self.training
        seconds = time.perf_counter() - training.start_seconds
        self.console.print(
            epoch_line(training.epoch, training.step, training.metrics.get("train/loss"), scores, seconds)
        )
        self._scalars(scores.logged("val"))
        if self._writer is not None:
            labels = [str(label) for label in self.data.vocabulary.labels]
            figure = confusion_figure(counts.confusion, labels)
            self._writer.add_figure("val/confusion", figure, training.step)
            page = mistakes_table(mistakes, labels, self.data.splits["val"].text)
            self._writer.add_text("val/misclassified", page, training.step)

    def finish(self, checkpoints: BestAndLast | None) -> None:
        """Write the hyperparameters with the last validation's metrics, and mark the run as finished."""
        training = self.training
        if self._writer is None or self.folder is None or checkpoints is None:
            return
        metrics = {f"final/{name}": value for name, value in training.metrics.items() if name.startswith("val/")}
        self._writer.add_hparams(self.settings.hyperparameters, metrics, run_name=".")
        mark_finished(
            self.folder,
            summary(
                num_rows=training.plan.num_rows(training.epoch, training.micro_batch),
                num_train_rows=training.plan.num_examples,
                step=training.step,
                seconds=time.perf_counter() - training.start_seconds,
                monitor=checkpoints.config.monitor,
                best_value=checkpoints.best_value,
                best_epoch=checkpoints.best_epoch,
            ),
        )

    def close(self) -> None:
        """Flush and close curves and trace."""
        self._open.close()
        self.training.trace.close()

    def _scalars(self, scalars: dict[str, float]) -> None:
        if self._writer is not None:
            for name, value in scalars.items():
                self._writer.add_scalar(name, value, self.training.step)
