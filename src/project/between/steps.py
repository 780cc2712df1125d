"""What happens between two optimizer steps, beside the arithmetic; the same for both twins.

After each step:         end the run for a signal, or save where it is time
within a validation:     leave it for a signal; it is run again when the run goes on
after a validation:      early stopping, best.ckpt, last.ckpt
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
from project.ranks.agreement import is_complete, is_time_to_wait
from project.ranks.signals import Listener
from project.ranks.world import World

Item = TypeVar("Item")


class Between:
    """Called by a training loop between its steps. Each rank has one, and all of them call it alike.

    Args:
        listener: hears signals.
        world: this rank among the others.
        device: where the steps are computed.
        watch: sees the losses, and ends the run where one is not finite.
        early_stopping: decides when validation has stopped improving.
        checkpoints: decides when to save; None in a rehearsal, which leaves nothing behind.
        write: gathers what a checkpoint holds, from this object too, and writes it; each twin has its own way.
        log_every_n_steps: optimizer steps between logged ones; 0: none is logged.
        position: where the run stands.
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
        """Show those who watch this rank that it moves."""
        self.listener.beat()

    def step_done(self, position: Position, logged_loss: float | None) -> None:
        """After an optimizer step: end the run for a signal, or save where it is time.

        Args:
            position: where the run stands now.
            logged_loss: the mean training loss since the last logged step; None where this step is not logged.

        Raises:
            Stopped: for a signal; what was trained is saved.
            UserError: where a loss is not finite, or a checkpoint cannot be written.
        """
        self.position = position
        if logged_loss is not None:
            self.watch.logged(logged_loss)
        can_look = self._can_look(is_logged=logged_loss is not None)
        if self.listener.stops_after(position.step, is_complete=can_look):
            self._stop()
        if position.validation_due:
            self.watch.check()
        elif self.checkpoints is not None and self.checkpoints.is_due(position.step, is_complete=can_look):
            self._save(self.checkpoints.last)

    def interruptible(self, batches: Iterable[Item]) -> Iterator[Item]:
        """The batches of a validation, which is left for a signal.

        Raises:
            Stopped: between two batches, on all ranks; what was trained is saved, with the validation still due.
        """
        for number, batch in enumerate(batches):
            self.before_validation_batch(number)
            yield batch
        self.after_validation_batches()

    def before_validation_batch(self, number: int) -> None:
        """Leave the validation if this rank knows of a signal; see `interruptible`.

        Several ranks have the first batch (0) done in any case: networks exchange weights and buffers for that one.
        """
        self.listener.beat()
        if (number > 0 or self.world.size == 1) and self.listener.is_told():
            self._leave_validation(is_told=True)

    def after_validation_batches(self) -> None:
        """Leave the validation if another rank has left it; see `interruptible`."""
        self._leave_validation(is_told=False)

    def validated(self, metrics: Mapping[str, float]) -> None:
        """After a validation with these metrics: early stopping, then save."""
        self.position = replace(self.position, validation_due=False)
        if self.checkpoints is not None:
            self.early_stopping.validated(metrics)
            if self.checkpoints.improved(self.position.epoch, metrics):
                self._save(self.checkpoints.best)
            self._save(self.checkpoints.last)  # after the best one: it says what was best, and must not be ahead of it

    def finish(self, position: Position) -> None:
        """The run has ended by itself: save what is not saved yet."""
        self.position = position
        if self.checkpoints is not None:
            if self.checkpoints.saved_at_step != position.step:
                self._save(self.checkpoints.last)
            self.checkpoints.writer.wait_for()

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint holds of it."""
        assert self.checkpoints is not None
        return {"best": self.checkpoints.state_dict(), "early_stopping": self.early_stopping.state_dict()}

    def _save(self, path: Path) -> None:
        assert self.checkpoints is not None
        self.watch.before_saving(self.position.step)
        self.checkpoints.make_way(path)
        self.write(self, path)
        if path == self.checkpoints.last:
            self.checkpoints.wrote_last(self.position.step)

    def _can_look(self, *, is_logged: bool) -> bool:
        if self.world.size == 1 or is_complete(self.device, is_logged=is_logged):
            return True
        if is_time_to_wait(self.position.step, log_every_n_steps=self.log_every_n_steps):
            torch.cuda.synchronize(self.device)
            return True
        return False

    def _leave_validation(self, *, is_told: bool) -> None:
        """Each rank calls this once in a validation: one collective, at its end."""
        if self.listener.stops_together(self.world.any(is_told)):
            self._stop()

    def _stop(self) -> None:
        if self.checkpoints is not None:
            self._save(self.checkpoints.last)
            self.checkpoints.writer.wait_for()
            self.world.barrier()  # the launcher would end a rank that still writes, once another has left
            self.listener.saved, self.listener.step = self.checkpoints.last, self.position.step
        self.listener.check()
