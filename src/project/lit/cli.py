"""The commands fit, validate and test, on LightningCLI; and what Lightning predicts, for `compare`.

The parser is flat: one YAML serves every command here, and the hand-written twin as well. What only Lightning needs
(callbacks, logger, plugins) is added here, so that the YAML says nothing of it.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, get_args

import lightning as L
import torch
from jsonargparse import set_parsing_settings
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.cli import LightningArgumentParser, LightningCLI
from lightning.pytorch.loggers import TensorBoardLogger
from lightning.pytorch.plugins.precision import MixedPrecision
from torch import Tensor

from project.checkpoint.file import read_classifier, write_checkpoint
from project.checkpoint.position import NothingLeft
from project.commands.arguments import add_shared_arguments, hyperparameters
from project.commands.report import finished_line, print_evaluation, terminal
from project.commands.running import explained
from project.commands.runs import ROOT, held, new_run
from project.commands.saved import (
    Saved,
    changed_settings,
    mark_complete,
    newest_best,
    to_continue,
    with_config_to_continue,
    with_saved_config,
)
from project.config.command_line import check_arguments, is_shown
from project.config.description import described
from project.config.trust import take_allowed
from project.data.order import interleaved
from project.errors import UserError
from project.learn.recipe import network_from
from project.lit.between import BetweenSteps
from project.lit.checkpoint import NeutralCheckpointIO
from project.lit.datamodule import JsonlDataModule
from project.lit.distributed import build_strategy
from project.lit.log import EpochLines, EvaluationClock, RunFolder, TensorBoardPages
from project.lit.module import LitClassifier
from project.lit.quiet import quieten
from project.lit.trace import TraceCallback
from project.private import leave_signals_alone
from project.ranks.config import Distributed, Strategy
from project.ranks.environment import is_main, is_rank
from project.ranks.launch import check_launched, launch, num_processes
from project.ranks.signals import Listener, Stopped, say_stopped

TRAINER_DEFAULTS = {
    "num_sanity_val_steps": 0,  # bad rows are found when the data is prepared, not by a rehearsal
    "use_distributed_sampler": False,  # it pads with duplicates (issue 21131); data/order.py shares rows out exactly
    "enable_model_summary": False,  # EpochLines says what is trained
}


class Cli(LightningCLI):
    """Parses one command's arguments and builds module, data module and trainer; runs nothing.

    Args:
        command: fit, validate, test or predict.
        arguments: what follows it.
        closing: ends what lasts as long as the command, such as the hold on a run's folder.
    """

    model: LitClassifier
    datamodule: JsonlDataModule
    trainer: L.Trainer

    def __init__(self, command: str, arguments: Sequence[str], closing: ExitStack | None = None) -> None:
        self.command = command
        self.closing = closing or ExitStack()
        self.listener = Listener.here()
        self.opened: dict[Path, dict[str, Any]] = {}
        """The checkpoint that an evaluation is of, once it was read and checked."""
        self.resumed: Saved | None = None
        """What `fit` continues."""
        self.run: Path | None = None
        """The run's folder, where one is written."""
        self.files_before: set[Path] = set()
        """What lay in the folder of a run that is continued."""
        set_parsing_settings(docstring_parse_attribute_docstrings=is_shown(arguments))
        super().__init__(
            LitClassifier,
            JsonlDataModule,
            args=list(arguments),
            run=False,
            auto_configure_optimizers=False,
            trainer_defaults=TRAINER_DEFAULTS,
            save_config_callback=None,  # RunFolder writes the configuration, into the run's folder whatever the logger
            seed_everything_default=0,  # a number, so that a run's saved configuration repeats it
            parser_kwargs={
                "prog": f"python -m project {command}",
                "exit_on_error": False,
                "allow_abbrev": False,
            },
        )

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """Add the groups and keys that are neither Lightning's nor the two modules'."""
        add_shared_arguments(parser, self.command)

    def parse_arguments(self, parser: LightningArgumentParser, args: Any) -> None:
        """Report every fault of YAML files and flags at once; jsonargparse alone stops at the first."""
        self.config = check_arguments(parser, args, described("lit", self.command))
        self.ckpt_path: str | None = self.config.pop("ckpt_path")  # belongs to this call, not to the run

    @property
    def root(self) -> Path:
        """Where runs go."""
        return Path(self.config.trainer.default_root_dir or ROOT)

    def instantiate_classes(self) -> None:
        """Build the parts, unless all that this process has to do is to start the command's ranks."""
        trainer = self.config.trainer
        if trainer.strategy not in get_args(Strategy):
            known = ", ".join(get_args(Strategy))
            raise UserError(f"trainer.strategy: {trainer.strategy!r} is not one that the twins share; take {known}")
        if self.command == "fit":  # an evaluation has no gradients to share
            Distributed(**vars(self.config.distributed)).check(trainer.strategy, trainer.accumulate_grad_batches)
        self.num_local = num_processes(trainer.devices, trainer.accelerator)
        check_launched(self.num_local, trainer.num_nodes)
        self.only_launches = self.num_local > 1 and not is_rank()
        if self.only_launches:
            return
        if self.command == "fit":
            found = to_continue(self.root, self.ckpt_path, writes=not trainer.fast_dev_run)
            self.resumed = self.closing.enter_context(found)
        super().instantiate_classes()

    def launch(self, arguments: Sequence[str]) -> int:
        """Start the command's ranks; returns the exit code."""
        return launch(self.num_local, [self.command, *arguments], self.config.trainer.strategy)

    def instantiate_trainer(self, **kwargs: Any) -> L.Trainer:
        """Add what the command needs from Lightning."""
        config = self.config_init.trainer
        kwargs["plugins"] = [*(config.plugins or [])]
        if config.precision in ("16-mixed", "16", 16) and _runs_on_cpu(config.accelerator):
            # Lightning would quietly take bf16-mixed on a CPU; given as a plugin, fp16 and its scaler are real.
            scaler = torch.amp.GradScaler("cpu")
            kwargs["plugins"].append(MixedPrecision("16-mixed", device="cpu", scaler=scaler))
            kwargs["precision"] = None
        if self.command == "fit":
            kwargs |= self._logger_and_callbacks()
            opened = {} if self.resumed is None else {self.resumed.path: self.resumed.content}
            kwargs["plugins"].append(NeutralCheckpointIO(self.between.write, opened))
        else:
            kwargs["plugins"].append(NeutralCheckpointIO(write_checkpoint, self.opened))
            self.clock = EvaluationClock()
            kwargs |= {"logger": False, "callbacks": [*(config.callbacks or []), self.clock]}
        kwargs["enable_progress_bar"] = config.enable_progress_bar is not False and sys.stderr.isatty()
        strategy = config.strategy if self.command == "fit" else "ddp"  # an evaluation has no gradients to share
        options = self.config_init.distributed
        kwargs["strategy"] = build_strategy(strategy, options, self.num_local * config.num_nodes)
        try:
            trainer = super().instantiate_trainer(**kwargs)
        except (MisconfigurationException, ModuleNotFoundError, ValueError) as error:
            self.discard_run()
            raise UserError(f"trainer: {' '.join(str(error).split())}") from error
        leave_signals_alone(trainer)
        return trainer

    def discard_run(self) -> None:
        """Where training never began, remove what was made for it: a new folder, or files in a continued run's."""
        if self.run is None or not self.run.exists() or self.between.has_begun or not is_main():
            return
        if not self.files_before:
            shutil.rmtree(self.run)
            return
        for path in set(self.run.glob("*")) - self.files_before:
            path.unlink(missing_ok=True)

    def _logger_and_callbacks(self) -> dict[str, Any]:
        config = self.config_init
        if config.trainer.fast_dev_run:  # a rehearsal leaves nothing behind
            self.between = BetweenSteps(None, config.checkpoint, config.early_stopping, self.listener)
            own = [EpochLines(self.root, self.between), self.between]
            return {"logger": False, "callbacks": [*(config.trainer.callbacks or []), *own]}
        if self.resumed is not None and self.resumed.folder is not None:
            self.run = self.resumed.folder
            self.files_before = set(self.run.iterdir())
        elif is_main():
            self.run = new_run(self.root, config.name)
            self.closing.enter_context(held(self.run))
        else:
            self.run = self.root / config.name / "of_the_main_process"
        logger = config.trainer.logger
        if logger in (None, True):
            folder, name, version = self.run.parent.parent, self.run.parent.name, self.run.name
            # What lies beyond the step from which a run goes on is trained again.
            purge_step = None if self.resumed is None else self.resumed.content["progress"]["step"] + 1
            logger = TensorBoardLogger(folder, name, version, default_hp_metric=False, purge_step=purge_step)
            logger.hparams.update(hyperparameters(self.config))  # for hparams.yaml, which is written once and early
        self.between = BetweenSteps(self.run / "checkpoints", config.checkpoint, config.early_stopping, self.listener)
        run_folder = RunFolder(self.run, self.parser.dump(self.config, skip_none=False), self.between)
        pages = TensorBoardPages(hyperparameters(self.config))
        callbacks: list[Callback] = [EpochLines(self.root, self.between), pages, run_folder, self.between]
        trace = self.config_init.trace
        if trace.level is not None:
            path = self.run / "trace.jsonl"
            tracing = {"level": trace.level, "tensors_at": trace.tensors_at}
            callbacks.append(TraceCallback(path, "network", **tracing, count=self.model.num_counted))
        return {"logger": logger, "callbacks": [*(config.trainer.callbacks or []), *callbacks]}


def main(arguments: Sequence[str]) -> int:
    """Run `fit`, `validate` or `test`; returns the exit code. `predict` is the hand-written twin's."""
    quieten()
    command, *arguments = take_allowed(arguments)
    run = {"fit": _fit, "validate": _validate, "test": _test}[command]
    with explained():
        return run(arguments)


def _fit(arguments: Sequence[str]) -> int:
    arguments = with_config_to_continue(arguments)
    with ExitStack() as closing:
        cli = Cli("fit", arguments, closing)
        if cli.only_launches:
            return cli.launch(arguments)
        with cli.listener.listening():
            return _fit_here(cli, cli.listener)


def _fit_here(cli: Cli, listener: Listener) -> int:
    resumed = cli.resumed
    if resumed is not None and resumed.folder is not None and cli.trainer.is_global_zero:
        for line in changed_settings(resumed, cli.parser.dump(cli.config, skip_none=False)):
            terminal().print(line)
    init_from = cli.model.recipe.init_from
    cli.datamodule.tokenizer_from = str(resumed.path) if resumed is not None and init_from else init_from
    path = None if resumed is None else resumed.path
    try:
        cli.trainer.fit(cli.model, datamodule=cli.datamodule, ckpt_path=path, weights_only=True)
    except NothingLeft:
        cli.discard_run()
        if resumed is not None and cli.trainer.is_global_zero:
            mark_complete(resumed)
            terminal().print(finished_line(resumed.path, resumed.content["progress"]["step"]))
        return 0
    except Stopped as stopped:
        cli.discard_run()
        return say_stopped(stopped.received, listener.saved, listener.step)
    except UserError:
        cli.discard_run()
        raise
    except MisconfigurationException as error:
        cli.discard_run()
        raise UserError(f"trainer: {' '.join(str(error).split())}") from error
    return 0


def _validate(arguments: Sequence[str]) -> int:
    return _evaluate("validate", arguments)


def _test(arguments: Sequence[str]) -> int:
    return _evaluate("test", arguments)


def _evaluate(command: str, arguments: Sequence[str]) -> int:
    cli, path = _cli_for_checkpoint(command, arguments)
    if cli.only_launches:
        return cli.launch([*arguments, f"--ckpt_path={path}"])
    run = cli.trainer.validate if command == "validate" else cli.trainer.test
    run(cli.model, datamodule=cli.datamodule, ckpt_path=path, verbose=False, weights_only=True)
    scores, seconds = cli.model.scores, cli.clock.seconds
    if scores is None:
        split = "val" if command == "validate" else "test"
        raise UserError(f"trainer.limit_{split}_batches: 0 leaves no row to evaluate")
    if cli.trainer.is_global_zero:
        labels = [str(label) for label in cli.model.vocabulary.labels]
        print_evaluation(f"{command}: {path}", scores, labels, seconds)
    return 0


def probabilities(arguments: Sequence[str]) -> Tensor:
    """What Lightning predicts with the options of `predict`: class probabilities in input order, (N, C) float32."""
    cli, path = _cli_for_checkpoint("predict", arguments)
    batches: Any = cli.trainer.predict(cli.model, datamodule=cli.datamodule, ckpt_path=path, weights_only=True)
    if not batches:
        raise UserError("trainer.limit_predict_batches: 0 leaves no row to label")
    mine = torch.cat(batches).cpu()
    parts: list[Tensor] = [mine] * cli.trainer.world_size
    if cli.trainer.world_size > 1:
        torch.distributed.all_gather_object(parts, mine)
    return interleaved(parts)


def _cli_for_checkpoint(command: str, arguments: Sequence[str]) -> tuple[Cli, Path]:
    """The command's parts, with network and vocabulary as the checkpoint has them."""
    arguments, path = with_saved_config(arguments)
    cli = Cli(command, arguments)
    path = Path(cli.ckpt_path or path or newest_best(cli.root))
    if not cli.only_launches:
        content = cli.opened[path] = read_classifier(path)
        cli.model.recipe.network = network_from(content["classifier"]["network"])
        cli.datamodule.rows.take_vocabulary(content)
    return cli, path


def _runs_on_cpu(accelerator: str) -> bool:
    if accelerator == "auto":
        return not (torch.cuda.is_available() or torch.backends.mps.is_available())
    return accelerator == "cpu"
