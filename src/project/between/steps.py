"""What both twins do between two optimizer steps.

After each step:         stop for a signal, or save if due
In a validation:         stop for a signal; the continued run repeats the validation
After a validation:      early stopping, best.ckpt, last.ckpt
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import torch

from project.between.best_and_last import BestAndLast
from project.between.early_stopping import EarlyStopping
from project.checkpoint.position import Position
from project.learn.not_finite import LossWatch
from project.ranks import agreement
from project.ranks.signals import Listener
from project.ranks.world import World

Item = TypeVar("Item")


class Between:
    """A training loop calls this between its steps. All ranks call the methods in the same order.

    Args:
        listener: receives signals.
        world: this rank among the others.
        device: where the steps are computed.
        watch: ends the run for a loss that is not finite.
        early_stopping: decides when to stop.
        checkpoints: decides when to save; None with fast_dev_run, which writes no files.
        write: gathers the content of a checkpoint from all ranks, with this object's state, and writes it.
        log_every_n_steps: optimizer steps from one logged step to the next; 0: none is logged.
        position: where the run starts.
    """

    def __init__(
        self,
        listener: Listener,
        world: World,
        device: torch.device,
        watch: LossWatch,
        early_stopping: EarlyStopping,
        checkpoints: BestAndLast | None,
        write: Callable[[Between, Path], None],
        log_every_n_steps: int,
        position: Position,
    ) -> None:
        self.listener = listener
        self.world = world
        self.device = device
        self.watch = watch
        self.early_stopping = early_stopping
        self.checkpoints = checkpoints
        self.write = write
        self.log_every_n_steps = log_every_n_steps
        self.position = position
        listener.wait_for_step(world.store)

    def micro_batch_done(self) -> None:
        """Note progress, for `Listener`'s watch over ranks that hang."""
        self.listener.beat()

    def step_done(self, position: Position, logged_loss: float | None) -> None:
        """After an optimizer step: stop for a signal, or save if due.

        Args:
            position: where the run is now.
            logged_loss: the mean training loss since the last logged step; None where this step is not logged.

        Raises:
            Stopped: for a signal; the run is saved.
            UserError: where a loss is not finite, or a checkpoint cannot be written.
        """
        self.position = position
        if logged_loss is not None:
            self.watch.logged(logged_loss)
        is_complete = self._wait_if_due(is_logged=logged_loss is not None)
        if self.listener.agree_to_stop(position.step, is_complete=is_complete):
            self._stop()
        if position.validation_due:
            self.watch.check()
        elif self.checkpoints is not None and self.checkpoints.agree_to_save(position.step, is_complete=is_complete):
            self._save(self.checkpoints.last)

    def interruptible(self, batches: Iterable[Item]) -> Iterator[Item]:
        """Yield the batches of a validation; stop for a signal.

        Raises:
            Stopped: on all ranks; the run is saved, with the validation still due.
        """
        for number, batch in enumerate(batches):
            self.before_validation_batch(number)
            yield batch
        self.after_validation_batches()

    def before_validation_batch(self, number: int) -> None:
        """Stop if any rank has received a signal; see `interruptible`.

        Several ranks always run the first batch (0): its forward pass may exchange weights and buffers.
        """
        self.listener.beat()
        if (number > 0 or self.world.size == 1) and self.listener.share_signal():
            self._leave_validation(stops=True)

    def after_validation_batches(self) -> None:
        """Stop if another rank has left the validation; see `interruptible`."""
        self._leave_validation(stops=False)

    def validated(self, metrics: Mapping[str, float]) -> None:
        """After a validation: early stopping, then save."""
        self.position = replace(self.position, validation_due=False)
        if self.checkpoints is not None:
            self.early_stopping.validated(metrics)
            if self.checkpoints.keep_if_best(self.position.epoch, metrics):
                self._save(self.checkpoints.best)
            self._save(self.checkpoints.last)  # after best.ckpt, whose value and epoch it names

    def finish(self, position: Position) -> None:
        """Save the last steps of a run that has finished."""
        self.position = position
        if self.checkpoints is not None:
            if self.checkpoints.saved_at_step != position.step:
                self._save(self.checkpoints.last)
            self.checkpoints.writer.wait_for()

    def state_dict(self) -> dict[str, Any]:
        """The state for a checkpoint."""
        assert self.checkpoints is not None
        return {"best": self.checkpoints.state_dict(), "early_stopping": self.early_stopping.state_dict()}

    def _save(self, path: Path) -> None:
        assert self.checkpoints is not None
        self.watch.before_saving(self.position.step)
        self.checkpoints.make_way(path)
        self.write(self, path)
        if path == self.checkpoints.last:
            self.checkpoints.wrote_last(self.position.step)

    def _wait_if_due(self, *, is_logged: bool) -> bool:
        """Wait for the device now and then; returns whether it has computed the step."""
        if self.world.size == 1 or agreement.is_complete(self.device, is_logged=is_logged):
            return True
        if agreement.is_time_to_wait(self.position.step, log_every_n_steps=self.log_every_n_steps):
            torch.cuda.synchronize(self.device)
            return True
        return False

    def _leave_validation(self, *, stops: bool) -> None:
        """Each rank calls this once in a validation, at its end: a collective."""
        if self.world.any(stops):
            self.listener.take_shared()
            self._stop()

    def _stop(self) -> None:
        if self.checkpoints is not None:
            self._save(self.checkpoints.last)
            self.checkpoints.writer.wait_for()
            self.world.barrier()  # when one rank exits, the launcher kills those that still write
            self.listener.saved, self.listener.step = self.checkpoints.last, self.position.step
        self.listener.check()
