"""The command `hand`: fit, validate, test and predict by hand, with the inputs and outputs of their twins."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from project.between.best_and_last import BestAndLast
from project.checkpoint.file import read_classifier
from project.checkpoint.position import NothingLeft
from project.commands.predictions import refuse_standard_input, write_predictions
from project.commands.report import best_line, finished_line, print_evaluation, terminal
from project.commands.running import explained
from project.commands.saved import (
    changed_settings,
    mark_complete,
    newest_best,
    to_continue,
    with_config_to_continue,
    with_saved_config,
)
from project.config.first_look import command_of
from project.config.trust import take_allowed
from project.data.splits import Data
from project.errors import UserError
from project.hand.distributed import process_group
from project.hand.fit import be_deterministic, fit, seed_everything
from project.hand.loop import evaluate, predict
from project.hand.precision import forward_context, network_dtype, pick_device
from project.hand.settings import Settings, read_settings
from project.learn.objective import scores
from project.learn.recipe import check_compiler, network_from
from project.ranks.environment import is_rank
from project.ranks.launch import check_launched, launch, num_processes
from project.ranks.signals import Listener, Stopped, say_stopped
from project.ranks.world import World


def main(arguments: Sequence[str]) -> int:
    """Run `hand [fit|validate|test|predict] …`; without a word it fits. Returns the exit code."""
    command, arguments = command_of(take_allowed(arguments))
    run = {"fit": _fit, "validate": _evaluate, "test": _evaluate, "predict": _predict}[command]
    with explained():
        return run(command, arguments)


def _fit(command: str, arguments: Sequence[str]) -> int:
    arguments = with_config_to_continue(arguments)
    settings = read_settings(command, arguments)
    if (code := started_elsewhere(settings, ["hand", command, *arguments])) is not None:
        return code
    console, listener = terminal(), Listener.here()
    wanted, writes = settings.ckpt_path, not settings.trainer.fast_dev_run
    with (
        ranks(settings) as world,
        listener.listening(),
        to_continue(settings.root, wanted, writes=writes) as resumed,
    ):
        if resumed is not None and resumed.folder is not None and world.is_main:
            for line in changed_settings(resumed, settings.yaml):
                console.print(line)
        try:
            last_lines = _last_lines(fit(settings, world, resumed, listener).checkpoints)
        except NothingLeft:
            if resumed is not None and world.is_main:
                mark_complete(resumed)
                console.print(finished_line(resumed.path, resumed.content["progress"]["step"]))
            return 0
        except Stopped as stopped:  # here: on its way out it would hold the model, while the ranks part
            return say_stopped(stopped.received, listener.saved, listener.step)
    if world.is_main:
        for line in last_lines:
            console.print(line)
        console.print(f"look at it: make tensorboard, or tensorboard --logdir {settings.root} --host localhost")
    return 0


def _last_lines(checkpoints: BestAndLast | None) -> list[str]:
    """The best checkpoint and the run's folder, for who reads; none after a rehearsal."""
    if checkpoints is None:
        return []
    lines = [f"run: {checkpoints.last.parent.parent}"]
    if checkpoints.best_epoch >= 0:
        best = (checkpoints.best, checkpoints.config.monitor, checkpoints.best_value, checkpoints.best_epoch)
        lines.insert(0, best_line(*best))
    return lines


def _evaluate(command: str, arguments: Sequence[str]) -> int:
    split = "val" if command == "validate" else "test"
    settings, path = _settings_for_checkpoint(command, arguments)
    if (code := started_elsewhere(settings, ["hand", command, *arguments, f"--ckpt_path={path}"])) is not None:
        return code
    with ranks(settings) as world:
        data, network = _restored(settings, path, world)
        batches, device, autocast = _batches(settings, data, split, world)
        start_seconds = time.perf_counter()
        counts = evaluate(network, batches, data.vocabulary.num_classes, device, autocast, world=world)
        seconds = time.perf_counter() - start_seconds
    if world.is_main:
        labels = [str(label) for label in data.vocabulary.labels]
        print_evaluation(f"{command}: {path}", scores(counts.confusion, counts.losses), labels, seconds)
    return 0


def _predict(command: str, arguments: Sequence[str]) -> int:
    settings, path = _settings_for_checkpoint(command, arguments)
    refuse_standard_input(
        settings.data.predict_file, num_processes(settings.trainer.devices, settings.trainer.accelerator)
    )
    if (code := started_elsewhere(settings, ["hand", command, *arguments, f"--ckpt_path={path}"])) is not None:
        return code
    found, data, world = _label(settings, path)
    if world.is_main:
        write_predictions(found, data.vocabulary.labels, settings.output)
    return 0


def probabilities(arguments: Sequence[str]) -> Tensor:
    """What `hand predict` computes: class probabilities in input order, (N, C) float32."""
    return _label(*_settings_for_checkpoint("predict", arguments))[0]


def _label(settings: Settings, path: Path) -> tuple[Tensor, Data, World]:
    with ranks(settings) as world:
        data, network = _restored(settings, path, world)
        batches, device, autocast = _batches(settings, data, "predict", world)
        return predict(network, batches, device, autocast, world), data, world


def started_elsewhere(settings: Settings, command: Sequence[str]) -> int | None:
    """Start the command's ranks where it takes several and this is none of them yet; returns their exit code."""
    trainer = settings.trainer
    num_local = num_processes(trainer.devices, trainer.accelerator)
    check_launched(num_local, trainer.num_nodes)
    if num_local == 1 or is_rank():
        return None
    return launch(num_local, command, trainer.strategy)


@contextmanager
def ranks(settings: Settings) -> Iterator[World]:
    """This process among the command's ranks, connected with them."""
    world = World.here()
    device = pick_device(settings.trainer.accelerator, world.local_rank)
    with process_group(world, device, settings.distributed.timeout_seconds):
        yield world


def _settings_for_checkpoint(command: str, arguments: Sequence[str]) -> tuple[Settings, Path]:
    """Settings of an evaluation, and the checkpoint that it is of."""
    arguments, path = with_saved_config(arguments)
    settings = read_settings(command, arguments)
    return settings, Path(settings.ckpt_path or path or newest_best(settings.root))


def _restored(settings: Settings, path: Path, world: World) -> tuple[Data, nn.Module]:
    """Rows, and the network with the checkpoint's weights, whole on every rank: there are no gradients to share."""
    content = read_classifier(path)
    seed_everything(settings.seed)
    be_deterministic(settings.trainer.deterministic)
    data = Data(settings.data)
    data.take_vocabulary(content)
    settings.recipe.network = network_from(content["classifier"]["network"])
    network = settings.recipe.build_network(data.vocabulary.num_tokens, data.vocabulary.num_classes)
    network.load_state_dict(content["state_dict"])
    if settings.recipe.compile:
        check_compiler()
        network.compile()
    device = pick_device(settings.trainer.accelerator, world.local_rank)
    return data, network.to(device, network_dtype(settings.trainer.precision or "32-true"))


def _batches(settings: Settings, data: Data, split: str, world: World) -> tuple[Any, Any, Any]:
    """The split's micro-batches within the trainer's limit, the device, and the context of a forward pass."""
    data.open_split(split)
    loader = data.loader(split, world.rank, world.size)
    num_batches = settings.trainer.num_evaluation_batches(split, len(loader))
    if num_batches == 0:
        work = "label" if split == "predict" else "evaluate"
        raise UserError(f"trainer.limit_{split}_batches: 0 leaves no row to {work}")
    device = pick_device(settings.trainer.accelerator, world.local_rank)
    return islice(loader, num_batches), device, forward_context(settings.trainer.precision or "32-true", device)
