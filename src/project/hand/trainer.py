"""The `trainer` group for the hand-written twin: Lightning's names and meanings, and a refusal of everything else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from jsonargparse.typing import NonNegativeFloat, PositiveInt

from project.errors import UserError
from project.learn.plan import Plan
from project.ranks.config import Strategy
from project.ranks.world import World

Precision = Literal["32-true", "bf16-mixed", "bf16-true", "16-mixed"]


@dataclass
class TrainerConfig:
    """The `trainer` group: the keys that the hand-written loop implements, as Lightning's Trainer names them."""

    accelerator: Literal["auto", "cpu", "cuda", "gpu", "mps"] = "auto"
    """Where to train; auto takes a GPU when there is one."""
    precision: Precision | None = None
    """Arithmetic of the forward and backward pass; null means 32-true."""
    max_epochs: int | None = None
    """Epochs to train; null means 1000, or no limit where max_steps is set; -1: no limit."""
    max_steps: int = -1
    """Optimizer steps to train; -1: no limit."""
    limit_train_batches: int | float | None = None
    """Micro-batches per training epoch, or a fraction of them."""
    limit_val_batches: int | float | None = None
    """Micro-batches per validation, or a fraction of them; 0 switches validation off."""
    limit_test_batches: int | float | None = None
    """Micro-batches of the test, or a fraction of them."""
    limit_predict_batches: int | float | None = None
    """Micro-batches of a prediction, or a fraction of them."""
    overfit_batches: int | float = 0.0
    """Train and validate on this many micro-batches, or this fraction of them; 0: off."""
    fast_dev_run: int | bool = False
    """Rehearse with this many micro-batches of each kind and write nothing."""
    val_check_interval: int | float | None = None
    """Micro-batches between validations, or a fraction of an epoch."""
    check_val_every_n_epoch: PositiveInt | None = 1
    """Epochs between validations; null: val_check_interval counts through epochs."""
    log_every_n_steps: PositiveInt | None = None
    """Optimizer steps between logged lines; null means 50."""
    accumulate_grad_batches: PositiveInt = 1
    """Micro-batches per optimizer step."""
    gradient_clip_val: NonNegativeFloat | None = None
    """Bound of the gradients' norm, or of each of their elements."""
    gradient_clip_algorithm: Literal["norm", "value"] | None = None
    """What gradient_clip_val bounds; null means norm."""
    deterministic: bool | Literal["warn"] | None = None
    """Use only algorithms that give the same bits again."""
    enable_progress_bar: bool | None = None
    """Show a progress bar where standard error is a terminal."""
    default_root_dir: str | None = None
    """Where runs go; null means runs/."""
    strategy: Strategy = "auto"
    """How several processes share the work; auto means ddp."""
    devices: PositiveInt | Literal["auto"] = "auto"
    """Processes on each machine, one a device; auto: one for each GPU, or one."""
    num_nodes: PositiveInt = 1
    """Machines; start the command on each with torchrun."""

    def plan(self, num_examples: int, batch_size: int, drop_last: bool, world: World) -> Plan:
        """The run's counts, with fast_dev_run and overfit_batches resolved as Lightning does."""
        limit: int | float = 1.0 if self.limit_train_batches is None else self.limit_train_batches
        max_epochs, max_steps = self.max_epochs, self.max_steps
        if max_epochs is None:
            max_epochs = 1000 if max_steps == -1 else -1
        interval: int | float = 1.0 if self.val_check_interval is None else self.val_check_interval
        every_n_epoch = self.check_val_every_n_epoch
        if self.fast_dev_run:
            limit, max_epochs, max_steps = int(self.fast_dev_run), 1, int(self.fast_dev_run)
            interval, every_n_epoch = 1.0, 1
        if self.overfit_batches:
            limit = self.overfit_batches
        return Plan(
            num_examples=num_examples,
            batch_size=batch_size,
            drop_last=drop_last,
            world_size=world.size,
            rank=world.rank,
            accumulate_grad_batches=self.accumulate_grad_batches,
            max_epochs=max_epochs,
            max_steps=max_steps,
            limit_train_batches=limit,
            val_check_interval=1.0
            if self.limit_val_batches == 0
            else interval,  # nothing to check, as Lightning has it
            check_val_every_n_epoch=every_n_epoch,
        )

    def num_evaluation_batches(self, split: str, num_available: int) -> int:
        """How many of the available micro-batches an evaluation of `split` reads."""
        if self.overfit_batches and split == "val":
            limit: int | float | None = self.overfit_batches
        elif self.fast_dev_run:
            limit = int(self.fast_dev_run)
        else:
            limit = getattr(self, f"limit_{split}_batches")
        if limit is None:
            return num_available
        if not isinstance(limit, float):
            return min(num_available, limit)
        if not 0 <= limit <= 1 or (limit > 0 and int(num_available * limit) == 0):
            raise UserError(
                f"trainer.limit_{split}_batches: {limit} of {num_available} micro-batches; take a number of them, or a "
                "fraction from 0 to 1 that leaves at least one"
            )
        return int(num_available * limit)


# Trainer keys that this loop does not implement, each with the values under which it does what Lightning would do:
# Lightning's own default first, then what the Lightning twin's commands set and a saved config.yaml therefore holds.
OTHER_KEYS: dict[str, tuple[Any, ...]] = {
    "logger": (None,),
    "callbacks": (None,),
    "min_epochs": (None,),
    "min_steps": (None,),
    "max_time": (None,),
    "num_sanity_val_steps": (None, 0),
    "enable_checkpointing": (None,),
    "enable_model_summary": (None, False),
    "benchmark": (None,),
    "inference_mode": (True,),
    "use_distributed_sampler": (True, False),
    "profiler": (None,),
    "detect_anomaly": (False,),
    "barebones": (False,),
    "plugins": (None,),
    "sync_batchnorm": (False,),
    "reload_dataloaders_every_n_epochs": (0,),
    "enable_autolog_hparams": (True,),
    "model_registry": (None,),
}


OF_TRAINING = (
    *("max_epochs", "max_steps", "limit_train_batches", "val_check_interval", "check_val_every_n_epoch"),
    *("log_every_n_steps", "accumulate_grad_batches", "gradient_clip_val", "gradient_clip_algorithm"),
)
"""Keys that an evaluation ignores: the configuration saved with a run of `fit` may give them any value of Lightning."""
EVALUATES_AS: dict[str, Any] = {
    "devices": list[int] | int | str,
    "precision": Precision | Literal["16-true", "64-true", "16", "32", "64", "bf16", 16, 32, 64] | None,
}
"""Keys for which an evaluation takes what `fit` takes."""


def in_full(precision: str | int | None) -> str | None:
    """Lightning's name of a precision, for which it takes shorter ones too."""
    short = {"16": "16-mixed", "bf16": "bf16-mixed", "32": "32-true", "64": "64-true"}
    return None if precision is None else short.get(str(precision), str(precision))


def refuse_other_keys(values: dict[str, Any]) -> None:
    """Refuse, by name, each key of `OTHER_KEYS` whose value asks for something that this loop does not do.

    Raises:
        UserError: one line per key.
    """
    faults = [
        f"trainer.{key}: {values[key]!r} is not implemented by the hand-written loop; "
        f"leave it at {accepted[0]!r}, or train with `fit`"
        for key, accepted in OTHER_KEYS.items()
        if values[key] not in accepted
    ]
    if faults:
        raise UserError("\n".join(faults))
