"""Reads the YAML that `fit` reads, for the hand-written twin: the same keys, the same objects, no Lightning."""

from __future__ import annotations

from argparse import SUPPRESS
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jsonargparse import ArgumentParser, set_parsing_settings

from project.checkpoint.config import Checkpoint, EarlyStopping
from project.commands.arguments import add_shared_arguments, hyperparameters, seed_of
from project.commands.runs import ROOT
from project.config.command_line import check_arguments, is_shown
from project.config.description import described
from project.data.config import DataConfig
from project.errors import UserError
from project.hand.trainer import (
    EVALUATES_AS,
    OF_TRAINING,
    OTHER_KEYS,
    TrainerConfig,
    in_full,
    refuse_other_keys,
)
from project.learn.recipe import Recipe
from project.ranks.config import Distributed
from project.trace.config import Trace


@dataclass
class Settings:
    """One command's configuration, as objects."""

    seed: int
    trainer: TrainerConfig
    recipe: Recipe
    data: DataConfig
    name: str
    early_stopping: EarlyStopping
    checkpoint: Checkpoint
    trace: Trace
    distributed: Distributed
    hyperparameters: dict[str, int | float | str]
    """What TensorBoard's hparams page shows."""
    ckpt_path: str | None
    output: str | None
    yaml: str
    """The whole configuration as YAML, for the run folder."""

    @property
    def root(self) -> Path:
        """Where runs go."""
        return Path(self.trainer.default_root_dir or ROOT)


def parser_of(command: str, *, explains: bool = True) -> ArgumentParser:
    """The parser of `hand fit`, `hand validate`, `hand test` or `hand predict`.

    Args:
        command: fit, validate, test or predict.
        explains: whether it knows what the keys mean, which takes longer.
    """
    set_parsing_settings(docstring_parse_attribute_docstrings=explains)
    parser = ArgumentParser(
        prog=f"python -m project hand {command}",
        exit_on_error=False,
        allow_abbrev=False,
    )
    parser.add_argument("-c", "--config", action="config", help="A YAML file; later ones win.")
    parser.add_argument("--seed_everything", type=bool | int, default=0, help="Seed of everything random.")
    ignored = {key: accepted[0] for key, accepted in OTHER_KEYS.items()}
    if command == "fit":
        parser.add_class_arguments(TrainerConfig, "trainer")
    else:
        ignored |= dict.fromkeys(OF_TRAINING)
        parser.add_class_arguments(TrainerConfig, "trainer", skip={*OF_TRAINING, *EVALUATES_AS})
        for key, typehint in EVALUATES_AS.items():
            default = getattr(TrainerConfig, key)
            parser.add_argument(f"--trainer.{key}", type=typehint, default=default, help=f"As `fit` takes {key}.")
    for key, default in ignored.items():
        parser.add_argument(f"--trainer.{key}", type=Any, default=default, help=SUPPRESS)
    parser.add_class_arguments(Recipe, "model", fail_untyped=False)  # a network of yours may name no types
    parser.add_class_arguments(DataConfig, "data")
    add_shared_arguments(parser, command)
    return parser


def read_settings(command: str, arguments: Sequence[str]) -> Settings:
    """Parse and build.

    Raises:
        UserError: every fault, one a line, with its place.
    """
    parser = parser_of(command, explains=is_shown(arguments))
    config = check_arguments(parser, arguments, described("hand", command))
    ckpt_path = config.pop("ckpt_path")  # belongs to this call, not to the run
    yaml = parser.dump(config, skip_none=False)
    chosen = hyperparameters(config)
    if command == "fit" and config.seed_everything is False:
        raise UserError("seed_everything: false leaves dropout to chance, and no two runs alike; give a number")
    others = {key: config.trainer.pop(key) for key in OTHER_KEYS}
    if command == "fit":
        refuse_other_keys(others)
    else:
        for key in OF_TRAINING:
            config.trainer.pop(key)
        config.trainer.precision = in_full(config.trainer.precision)
    built = parser.instantiate(config)
    if command == "fit":
        built.distributed.check(built.trainer.strategy, built.trainer.accumulate_grad_batches)
    return Settings(
        seed=seed_of(config.seed_everything),
        trainer=built.trainer,
        recipe=built.model,
        data=built.data,
        name=config.name,
        early_stopping=built.early_stopping,
        checkpoint=built.checkpoint,
        trace=built.trace,
        distributed=built.distributed,
        hyperparameters=chosen,
        ckpt_path=ckpt_path,
        output=config.get("output"),
        yaml=yaml,
    )
