"""The position of a saved run, and whether the run can be continued with this configuration.

A position is epoch, micro-batches done in it, and optimizer steps, as the plan counts them. After an epoch's last
micro-batch (`micro_batch == num_micro_batches`) the end of the epoch is still to come, such as the step of a scheduler
that watches a metric.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch.optim import Optimizer

from project.checkpoint.config import Checkpoint
from project.data.splits import Data
from project.data.tokenizer import Tokenizer
from project.errors import UserError
from project.learn.plan import Plan
from project.learn.recipe import Recipe

COUNTED = ("num_micro_batches", "accumulate_grad_batches", "world_size", "batch_size", "num_examples")
"""The plan's numbers that a position refers to."""

MOVED_BY_SCHEDULERS = {"lr", "momentum", "betas", "max_lr", "min_lr", "max_momentum", "base_momentum"}
"""Settings of an optimizer's groups that torch's schedulers change."""


class NothingLeft(Exception):
    """The run to continue has already trained all that its plan asks for."""


@dataclass(frozen=True)
class Position:
    """A run's position, at the end of a window."""

    epoch: int
    """Number of the epoch, from 0."""
    micro_batch: int
    """Micro-batches done in this epoch."""
    step: int
    """Optimizer steps so far, skipped ones included."""
    validation_due: bool = False
    """Whether the validation after this micro-batch is still to be run."""

    def has_closed(self, plan: Plan) -> Position:
        """The beginning of the next epoch if this is the end of an epoch; else this position."""
        if self.micro_batch < plan.num_micro_batches:
            return self
        return replace(self, epoch=self.epoch + 1, micro_batch=0)


def progress(position: Position, plan: Plan, seed: int, seconds: float) -> dict[str, Any]:
    """The `progress` of a checkpoint: the position, and the plan's numbers that it refers to."""
    counted = {name: int(getattr(plan, name)) for name in COUNTED}
    return {**vars(position), **counted, "seed": int(seed), "seconds": seconds}


def rows_trained(progress: Mapping[str, Any]) -> int:
    """Rows that all ranks together have trained on, repeated rows counted each time."""
    counted = {name: progress[name] for name in ("num_examples", "batch_size", "world_size")}
    plan = Plan(**counted, limit_train_batches=progress["num_micro_batches"])
    return plan.num_rows(progress["epoch"], progress["micro_batch"])


def best(value: float, epoch: int, config: Checkpoint) -> dict[str, Any]:
    """The `best` of a checkpoint: best value of the monitored metric, its epoch, monitor and mode."""
    return {"value": value, "epoch": epoch, "monitor": config.monitor, "mode": config.mode}


def best_in(content: Mapping[str, Any], config: Checkpoint) -> tuple[float, int]:
    """Value and epoch of the checkpoint's `best`; NaN and -1 if it was of another monitor or mode."""
    value, epoch = content["best"]["value"], content["best"]["epoch"]
    return (value, epoch) if content["best"] == best(value, epoch, config) else (math.nan, -1)


def fingerprints(data: Data) -> dict[str, str]:
    """Digests of the training and validation rows, by split; independent of their paths."""
    return {split: data.splits[split].rows.fingerprint for split in ("train", "val")}


def position_in(
    path: str | Path, content: Mapping[str, Any], plan: Plan, recipe: Recipe, *, is_grouped: bool
) -> Position:
    """The checkpoint's position in this run's plan, which may have another world size, batch size or accumulation.

    Raises:
        UserError: no window ends there in this plan, the epoch's order is another, or the saved schedule is too short.
        NothingLeft: the plan asks for nothing after it.
    """
    saved = content["progress"]
    found = Position(*(saved[name] for name in ("epoch", "micro_batch", "step", "validation_due")))
    if found.micro_batch == saved["num_micro_batches"]:
        found = replace(found, micro_batch=plan.num_micro_batches)
    else:
        num_rows = found.micro_batch * saved["batch_size"] * saved["world_size"]
        global_batch_size = plan.batch_size * plan.world_size
        if is_grouped and global_batch_size != saved["batch_size"] * saved["world_size"]:
            raise UserError(
                f"{path}: saved after {num_rows} rows of an epoch, and data.group_by_length orders them by "
                f"data.batch_size {saved['batch_size']} and world size {saved['world_size']}; found {plan.batch_size} "
                f"and {plan.world_size}: take the former, or a checkpoint from an epoch's end"
            )
        if num_rows and recipe.seed != saved["seed"]:
            raise UserError(
                f"{path}: saved after {num_rows} rows of an epoch in the order of seed_everything {saved['seed']}; "
                f"found {recipe.seed}: take {saved['seed']}, or a checkpoint from an epoch's end"
            )
        micro_batch, num_over = divmod(num_rows, global_batch_size)
        if num_over or micro_batch % plan.accumulate_grad_batches or micro_batch > plan.num_micro_batches:
            raise UserError(
                f"{path}: saved after {num_rows} rows of epoch {found.epoch + 1}, where no window ends with a world "
                f"size of {plan.world_size}, data.batch_size {plan.batch_size} and trainer.accumulate_grad_batches "
                f"{plan.accumulate_grad_batches}; it was saved with {saved['world_size']}, {saved['batch_size']} and "
                f"{saved['accumulate_grad_batches']}: take those, or a checkpoint from an epoch's end"
            )
        found = replace(found, micro_batch=micro_batch)
    is_over = 0 <= plan.max_steps <= found.step or 0 <= plan.max_epochs <= found.has_closed(plan).epoch
    if is_over and not found.validation_due:
        raise NothingLeft
    schedule = (content["lr_scheduler"] or {}).get("total_steps")
    planned = plan.total_steps if recipe.advances_per_step else plan.num_epochs
    if schedule is not None and planned > schedule:
        raise UserError(
            f"{path}: the learning-rate schedule saved here ends after {schedule} advances, but {planned} are planned "
            "now (trainer.max_epochs, trainer.max_steps); to train on, start a new run with model.init_from"
        )
    return found


def settings_of(optimizer: Optimizer, *, is_scheduled: bool) -> list[dict[str, Any]]:
    """The settings of each parameter group, without learning rates and momenta if a scheduler changes them.

    `Optimizer.load_state_dict` also loads the saved settings; a continued run restores its own with these.
    """
    moved = {"params", "initial_lr"} | (MOVED_BY_SCHEDULERS if is_scheduled else set())
    return [{key: value for key, value in group.items() if key not in moved} for group in optimizer.param_groups]


def check_can_go_on(path: str | Path, content: Mapping[str, Any]) -> None:
    """Check that the checkpoint holds what a run needs to continue.

    Raises:
        UserError: it holds weights alone.
    """
    if not {"progress", "best", "ranks", "fingerprints"} <= content.keys():
        raise UserError(
            f"{path}: holds weights but not what continuing a run needs; start from it with model.init_from"
        )


def check_same_run(path: str | Path, content: Mapping[str, Any], data: Data, network: Mapping[str, Any]) -> None:
    """Compare the checkpoint with what must not change within a run.

    Args:
        path: the checkpoint, for the message.
        content: its content.
        data: this run's rows and vocabulary.
        network: this run's network, as `describe_network` gives it.

    Raises:
        UserError: something differs; one line names every difference.
    """
    theirs, mine = content["classifier"], data.vocabulary
    differing = []
    for split, key in (("train", "data.train_file"), ("val", "data.val_file")):
        if content["fingerprints"][split] != fingerprints(data)[split]:
            differing.append(f"{key} holds other rows")
    if Tokenizer.from_json(theirs["vocabulary"]["tokenizer"]).fingerprint != mine.tokenizer.fingerprint:
        differing.append("the vocabulary (data.tokenizer) is another")
    if tuple(theirs["vocabulary"]["labels"]) != mine.labels:
        differing.append(f"the labels were {theirs['vocabulary']['labels']} and are {list(mine.labels)}")
    if theirs["max_tokens"] != data.config.max_tokens:
        differing.append(f"data.max_tokens was {theirs['max_tokens']} and is {data.config.max_tokens}")
    differing += _network_differences(theirs["network"], network)
    if differing:
        raise UserError(
            f"{path}: of another run, which cannot be continued with this configuration: {'; '.join(differing)}"
        )


def _network_differences(theirs: Mapping[str, Any], mine: Mapping[str, Any]) -> list[str]:
    if theirs["class_path"] != mine["class_path"]:
        return [f"model.network was {theirs['class_path']} and is {mine['class_path']}"]
    before, now = theirs["init_args"], mine["init_args"]
    return [
        f"model.network.init_args.{name} was {before.get(name)!r} and is {now.get(name)!r}"
        for name in sorted(before.keys() | now.keys())
        if before.get(name) != now.get(name)
    ]
