"""The commands fit, validate, test and predict, on LightningCLI.

The parser is flat: one YAML serves every command here, and the hand-written twin as well. What only Lightning needs
(callbacks, logger, plugins) is added here, so that the YAML says nothing of it.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lightning as L
import torch
from jsonargparse import set_parsing_settings
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.callbacks import EarlyStopping as EarlyStoppingCallback
from lightning.pytorch.cli import LightningArgumentParser, LightningCLI
from lightning.pytorch.loggers import TensorBoardLogger
from lightning.pytorch.plugins.precision import MixedPrecision
from torch import Tensor

from project.config import STRATEGIES, add_shared_arguments, check_launched, hyperparameters
from project.errors import UserError
from project.faults.command_line import check_arguments
from project.lit.callbacks import EpochLines, EvaluationClock, RunFolder, TensorBoardPages
from project.lit.checkpoint import BestAndLast, NeutralCheckpointIO
from project.lit.datamodule import JsonlDataModule
from project.lit.module import LitClassifier
from project.lit.trace import TraceCallback
from project.predictions import write_predictions
from project.report import best_line, print_evaluation, terminal
from project.runs import ROOT, new_run
from project.saved import newest_best, with_saved_config
from project.task.checkpoint import read_checkpoint
from project.task.recipe import network_from

TRAINER_DEFAULTS = {
    "num_sanity_val_steps": 0,  # bad rows are found when the data is prepared, not by a rehearsal
    "use_distributed_sampler": False,  # it pads with duplicates (issue 21131); task/order.py shares rows out exactly
    "enable_model_summary": False,  # EpochLines says what is trained
}


class Cli(LightningCLI):
    """Parses one command's arguments and builds module, data module and trainer; runs nothing."""

    model: LitClassifier
    datamodule: JsonlDataModule
    trainer: L.Trainer

    def __init__(self, command: str, arguments: Sequence[str]) -> None:
        self.command = command
        self.run: Path | None = None
        """The run's folder, where one is written."""
        set_parsing_settings(docstring_parse_attribute_docstrings=True)
        super().__init__(
            LitClassifier,
            JsonlDataModule,
            args=list(arguments),
            run=False,
            auto_configure_optimizers=False,
            trainer_defaults=TRAINER_DEFAULTS,
            save_config_callback=None,  # RunFolder writes the configuration, into the run's folder whatever the logger
            seed_everything_default=0,  # a number, so that a run's saved configuration repeats it
            parser_kwargs={"prog": f"python -m project {command}", "exit_on_error": False, "allow_abbrev": False},
        )

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """Add the groups and keys that are neither Lightning's nor the two modules'."""
        add_shared_arguments(parser, self.command)

    def parse_arguments(self, parser: LightningArgumentParser, args: Any) -> None:
        """Report every fault of YAML files and flags at once; jsonargparse alone stops at the first."""
        self.config = check_arguments(parser, args)

    @property
    def root(self) -> Path:
        """Where runs go."""
        return Path(self.config.trainer.default_root_dir or ROOT)

    def instantiate_trainer(self, **kwargs: Any) -> L.Trainer:
        """Add what the command needs from Lightning."""
        config = self.config_init.trainer
        kwargs["plugins"] = [*(config.plugins or []), NeutralCheckpointIO()]
        if config.precision in ("16-mixed", "16", 16) and _runs_on_cpu(config.accelerator):
            # Lightning would quietly take bf16-mixed on a CPU; given as a plugin, fp16 and its scaler are real.
            scaler = torch.amp.GradScaler("cpu")
            kwargs["plugins"].append(MixedPrecision("16-mixed", device="cpu", scaler=scaler))
            kwargs["precision"] = None
        if self.command == "fit":
            kwargs |= self._logger_and_callbacks()
        else:
            self.clock = EvaluationClock()
            kwargs |= {"logger": False, "callbacks": [*(config.callbacks or []), self.clock]}
            kwargs |= {"strategy": "auto", "devices": 1, "num_nodes": 1}  # an evaluation reads every row in one process
        kwargs["enable_progress_bar"] = config.enable_progress_bar is not False and sys.stderr.isatty()
        if config.strategy not in STRATEGIES:
            self.discard_run()
            known = ", ".join(STRATEGIES)
            raise UserError(f"trainer.strategy: {config.strategy!r} is not one that the twins share; take {known}")
        try:
            if self.command == "fit":
                check_launched(config.devices, config.num_nodes)
            trainer = super().instantiate_trainer(**kwargs)
        except UserError:
            self.discard_run()
            raise
        except (MisconfigurationException, ModuleNotFoundError, ValueError) as error:
            self.discard_run()
            raise UserError(f"trainer: {' '.join(str(error).split())}") from error
        return trainer

    def discard_run(self) -> None:
        """Remove the run's folder where training never began: RunFolder writes config.yaml when it does."""
        if self.run is not None and self.run.exists() and not (self.run / "config.yaml").exists():
            shutil.rmtree(self.run)

    def _num_counted(self, batch: Any, batch_idx: int) -> int:
        return self.model.training_plan.num_counted(batch_idx)

    def _logger_and_callbacks(self) -> dict[str, Any]:
        config = self.config_init
        if config.trainer.fast_dev_run:  # a rehearsal leaves nothing behind
            return {"logger": False, "callbacks": [*(config.trainer.callbacks or []), EpochLines()]}
        self.run = new_run(self.root, config.name) if _is_main() else self.root / config.name / "of_the_main_process"
        logger = config.trainer.logger
        if logger in (None, True):
            logger = TensorBoardLogger(self.root, name=config.name, version=self.run.name, default_hp_metric=False)
            logger.hparams.update(hyperparameters(self.config))  # for hparams.yaml, which is written once and early
        checkpoints = BestAndLast(self.run / "checkpoints", config.checkpoint)
        folder = RunFolder(self.run, self.parser.dump(self.config, skip_none=False), checkpoints)
        pages = TensorBoardPages(hyperparameters(self.config))
        callbacks: list[Callback] = [EpochLines(), pages, checkpoints, folder]
        trace = self.config_init.trace
        if trace.level is not None:
            path = self.run / "trace.jsonl"
            tracing = {"level": trace.level, "tensors_at": trace.tensors_at}
            callbacks.append(TraceCallback(path, "network", **tracing, count=self._num_counted))
        if config.early_stopping.patience is not None:
            callbacks.append(EarlyStoppingCallback(**vars(config.early_stopping), check_on_train_epoch_end=False))
        return {"logger": logger, "callbacks": [*(config.trainer.callbacks or []), *callbacks]}


def main(command: str, arguments: Sequence[str]) -> int:
    """Run one of the four commands; returns the exit code."""
    _quieten()
    return {"fit": _fit, "validate": _validate, "test": _test, "predict": _predict}[command](arguments)


def _fit(arguments: Sequence[str]) -> int:
    cli = Cli("fit", arguments)
    cli.datamodule.tokenizer_from = cli.model.recipe.init_from
    try:
        cli.trainer.fit(cli.model, datamodule=cli.datamodule)
    except SystemExit:  # Lightning's answer to Ctrl-C
        return 130
    except UserError:
        cli.discard_run()
        raise
    except MisconfigurationException as error:
        cli.discard_run()
        raise UserError(f"trainer: {' '.join(str(error).split())}") from error
    if not cli.trainer.is_global_zero:
        return 0
    console = terminal()
    for callback in cli.trainer.callbacks:  # type: ignore[attr-defined]
        if isinstance(callback, BestAndLast) and callback.best_epoch >= 0:
            best = (callback.best, callback.config.monitor, callback.best_value, callback.best_epoch)
            console.print(best_line(*best))
    if cli.run is not None:
        console.print(f"run: {cli.run}")
    console.print(f"look at it: make tensorboard, or tensorboard --logdir {cli.root}")
    return 0


def _validate(arguments: Sequence[str]) -> int:
    return _evaluate("validate", arguments)


def _test(arguments: Sequence[str]) -> int:
    return _evaluate("test", arguments)


def _evaluate(command: str, arguments: Sequence[str]) -> int:
    cli, path = _cli_for_checkpoint(command, arguments)
    run = cli.trainer.validate if command == "validate" else cli.trainer.test
    run(cli.model, datamodule=cli.datamodule, ckpt_path=path, verbose=False, weights_only=True)
    figures, seconds = cli.model.figures, cli.clock.seconds
    if figures is None:
        split = "val" if command == "validate" else "test"
        raise UserError(f"trainer.limit_{split}_batches: 0 leaves no row to evaluate")
    labels = [str(label) for label in cli.model.vocabulary.labels]
    print_evaluation(f"{command}: {path}", figures, labels, seconds)
    return 0


def _predict(arguments: Sequence[str]) -> int:
    found, cli = probabilities(arguments)
    write_predictions(found, cli.model.vocabulary.labels, cli.config.output)
    return 0


def probabilities(arguments: Sequence[str]) -> tuple[Tensor, Cli]:
    """What `predict` computes: class probabilities in input order, (N, C) float32."""
    cli, path = _cli_for_checkpoint("predict", arguments)
    batches: Any = cli.trainer.predict(cli.model, datamodule=cli.datamodule, ckpt_path=path, weights_only=True)
    if not batches:
        raise UserError("trainer.limit_predict_batches: 0 leaves no row to label")
    return torch.cat(batches).cpu(), cli


def _cli_for_checkpoint(command: str, arguments: Sequence[str]) -> tuple[Cli, Path]:
    """The command's parts, with network and vocabulary as the checkpoint has them."""
    arguments, path = with_saved_config(arguments)
    cli = Cli(command, arguments)
    path = cli.config.ckpt_path or path or newest_best(cli.root)
    content = read_checkpoint(path)
    cli.model.recipe.network = network_from(content["classifier"]["network"])
    cli.datamodule.rows.take_vocabulary(content)
    return cli, Path(path)


def _runs_on_cpu(accelerator: str) -> bool:
    if accelerator == "auto":
        return not (torch.cuda.is_available() or torch.backends.mps.is_available())
    return accelerator == "cpu"


def _is_main() -> bool:
    """Whether this process was started by a person and not, as another rank, by a launcher."""
    return all(os.environ.get(name, "0") == "0" for name in ("RANK", "LOCAL_RANK", "SLURM_PROCID"))


def _quieten() -> None:
    """Leave out what Lightning says of its own products and of things that are meant here."""
    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.WARNING)
    for message in (
        ".*does not have many workers",  # rows are memory-mapped: a batch costs less than handing it over
        ".*recommended to use `self.log.*sync_dist=True",  # the counts behind the metrics are added up already
        ".*callbacks used to create the checkpoint need to be provided",  # an evaluation needs no BestAndLast
        ".*using a custom batch sampler `OrderedBatches` for prediction",  # it returns every row once
        ".*is smaller than the logging interval",  # the last step is logged in any case
        ".*LeafSpec.* is deprecated",  # Lightning 2.6.6 on torch 2.13
    ):
        warnings.filterwarnings("ignore", message=message)
