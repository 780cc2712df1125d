"""The plan of a run: its numbers of micro-batches, windows and optimizer steps.

A window is the micro-batches between two optimizer steps. Both twins compute these numbers here, from the data and the
settings; Lightning's `estimated_stepping_batches` would set the data up too early.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from project.errors import UserError


@dataclass(frozen=True)
class Plan:
    """Settings of a run, and the counts that follow from them. Micro-batches and epochs are numbered from 0.

    Raises:
        UserError: the settings leave nothing to train, set no end, or cut a window by a validation.
    """

    num_examples: int
    batch_size: int
    """Examples per micro-batch and rank."""
    drop_last: bool = False
    """Leave out an epoch's last micro-batch if it is not full on every rank."""
    world_size: int = 1
    rank: int = 0
    accumulate_grad_batches: int = 1
    """Micro-batches per window; an epoch's last window may hold fewer."""
    max_epochs: int = 1
    """Epochs; -1: without limit."""
    max_steps: int = -1
    """Optimizer steps; -1: without limit."""
    limit_train_batches: int | float = 1.0
    """Micro-batches per epoch as an int, or as a fraction of an epoch."""
    val_check_interval: int | float = 1.0
    """Micro-batches between validations, as an int, or as a fraction of an epoch."""
    check_val_every_n_epoch: int | None = 1
    """Epochs between validations; None: `val_check_interval` counts across epochs."""

    def __post_init__(self) -> None:
        if self.drop_last and not self._num_available:
            raise UserError(
                f"data.drop_last: {self.num_examples} training rows do not fill one micro-batch of {self.batch_size} "
                f"on each rank (world size {self.world_size}), which leaves nothing to train on; lower "
                "data.batch_size or turn data.drop_last off"
            )
        if self.num_micro_batches < 1:
            raise UserError(
                f"trainer.limit_train_batches: {self.limit_train_batches} of {self._num_available} micro-batches "
                "leaves nothing to train on; raise it"
            )
        if self.max_epochs < 0 and self.max_steps < 0:
            raise UserError("trainer.max_epochs and trainer.max_steps are both without limit; set one of them")
        for key in ("limit_train_batches", "val_check_interval"):
            value = getattr(self, key)
            if isinstance(value, float) and not 0 < value <= 1:
                raise UserError(f"trainer.{key}: {value}; a fraction must be above 0 and at most 1")
        if self.check_val_every_n_epoch is not None and self.num_validation_batches > self.num_micro_batches:
            raise UserError(
                f"trainer.val_check_interval: {self.val_check_interval} micro-batches, but an epoch has "
                f"{self.num_micro_batches}; lower it, or set trainer.check_val_every_n_epoch to null"
            )
        if self.total_steps < 1:
            key = "max_steps" if self.max_steps == 0 else "max_epochs"
            raise UserError(f"trainer.{key}: 0 leaves nothing to train; raise it, or evaluate with validate or test")
        if self._validation_cuts_a_window():
            raise UserError(
                f"trainer.val_check_interval: {self.num_validation_batches} micro-batches between validations would "
                f"cut a window of {self.accumulate_grad_batches} (trainer.accumulate_grad_batches); take a multiple"
            )

    @property
    def _num_available(self) -> int:
        num_full, num_left = divmod(self.num_examples, self.batch_size * self.world_size)
        return num_full if self.drop_last or not num_left else num_full + 1

    @property
    def num_micro_batches(self) -> int:
        """Micro-batches per epoch."""
        if isinstance(self.limit_train_batches, float):
            return int(self._num_available * self.limit_train_batches)
        return min(self._num_available, self.limit_train_batches)

    def closes_window(self, micro_batch: int) -> bool:
        """Whether an optimizer step follows this micro-batch of an epoch."""
        return (micro_batch + 1) % self.accumulate_grad_batches == 0 or self.closes_epoch(micro_batch)

    def num_counted(self, micro_batch: int) -> int:
        """Examples in this rank's part of the micro-batch; 0 if the rank has a stand-in row only."""
        return len(range(self.rank, self.num_counted_together(micro_batch), self.world_size))

    def num_counted_together(self, micro_batch: int) -> int:
        """Examples of the micro-batch on all ranks together."""
        global_batch_size = self.batch_size * self.world_size
        return min(global_batch_size, self.num_examples - micro_batch * global_batch_size)

    def num_rows(self, epoch: int, micro_batch: int) -> int:
        """Rows that all ranks together train on before this micro-batch of this epoch."""
        per_epoch, in_epoch = (
            min(num_micro_batches * self.batch_size * self.world_size, self.num_examples)
            for num_micro_batches in (self.num_micro_batches, micro_batch)
        )
        return epoch * per_epoch + in_epoch

    def closes_epoch(self, micro_batch: int) -> bool:
        """Whether this micro-batch is an epoch's last one."""
        return micro_batch + 1 == self.num_micro_batches

    @property
    def num_validation_batches(self) -> int:
        """Micro-batches between two validations."""
        if isinstance(self.val_check_interval, float):
            return max(1, int(self.num_micro_batches * self.val_check_interval))
        return self.val_check_interval

    def validates_after(self, epoch: int, micro_batch: int) -> bool:
        """Whether a validation follows this micro-batch of this epoch."""
        if self.check_val_every_n_epoch is None:
            return (epoch * self.num_micro_batches + micro_batch + 1) % self.num_validation_batches == 0
        due = (epoch + 1) % self.check_val_every_n_epoch == 0
        return due and (micro_batch + 1) % self.num_validation_batches == 0

    @property
    def num_windows(self) -> int:
        """Optimizer steps per epoch; the last window may be short."""
        return -(-self.num_micro_batches // self.accumulate_grad_batches)

    def _validation_cuts_a_window(self) -> bool:
        every, per_epoch = self.num_validation_batches, self.num_micro_batches
        if self.check_val_every_n_epoch is None:  # counted across epochs: the places repeat after some epochs
            places = [every * count % per_epoch for count in range(1, per_epoch // gcd(every, per_epoch) + 1)]
        else:
            places = [place % per_epoch for place in range(every, per_epoch + 1, every)]
        return any(place % self.accumulate_grad_batches for place in places)

    @property
    def num_epochs(self) -> int:
        """Epochs of the whole run; `max_steps` may end the last one early."""
        return -(-self.total_steps // self.num_windows)

    @property
    def total_steps(self) -> int:
        """Optimizer steps of the whole run; a scheduler such as OneCycleLR needs it."""
        if self.max_epochs < 0:
            return self.max_steps
        by_epochs = self.num_windows * self.max_epochs
        return by_epochs if self.max_steps < 0 else min(by_epochs, self.max_steps)
