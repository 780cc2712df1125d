"""Which configuration and which checkpoint a command takes when the command line does not say all of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from project.checkpoint.file import kept_before, read_checkpoint, read_classifier
from project.checkpoint.position import check_can_go_on, rows_trained
from project.commands.runs import (
    FINISHED,
    ROOT,
    best_checkpoint,
    held,
    interrupted_run,
    mark_finished,
    newest_checkpoint,
    summary,
)
from project.config.command_line import is_shown, options
from project.config.renamed import renamed
from project.errors import UserError
from project.ranks.launch import found_by_main

ALONE = ("--trainer.strategy=auto", "--trainer.devices=1", "--trainer.num_nodes=1")
"""Options that make a command one process, whatever the configuration before them says."""


def with_saved_config(arguments: Sequence[str]) -> tuple[Sequence[str], Path | None]:
    """Without --config, the configuration is the one saved with the checkpoint's run, or what the file itself says.

    How many processes trained it is not taken over: an evaluation takes one unless it is told otherwise.

    Returns the completed arguments, and the checkpoint where it was looked up here.
    """
    values = {option.key: option.value for option in options(arguments)}
    if "config" in values or is_shown(arguments):
        return arguments, None
    given = values.get("ckpt_path")
    path = Path(given) if given else newest_best(Path(values.get("trainer.default_root_dir") or ROOT))
    saved = path.parent.parent / "config.yaml"
    if saved.is_file():
        return ["--config", str(saved), *ALONE, *arguments], path
    network = json.dumps(read_classifier(path)["classifier"]["network"])
    return [f"--model.network={network}", "--model.optimizer=torch.optim.AdamW", *arguments], path


HARMLESS = (
    "name",
    "config",
    "checkpoint.",
    "trace.",
    "data.cache_dir",
    "data.num_workers",
    "data.predict_file",
    "data.test_file",
    "data.train_file",  # other rows are refused, wherever they lie
    "data.val_file",
    "distributed.timeout_seconds",
    "model.init_from",  # the saved weights go on
    "trainer.default_root_dir",
    "trainer.enable_progress_bar",
    "trainer.limit_predict_batches",
    "trainer.limit_test_batches",
    "trainer.log_every_n_steps",
    "trainer.max_epochs",
    "trainer.max_steps",
)
"""Beginnings of keys whose change leaves the training that the saved run would have gone on with as it is."""


@dataclass(frozen=True)
class Saved:
    """A checkpoint that a run is continued from."""

    path: Path
    content: dict[str, Any]

    @property
    def folder(self) -> Path | None:
        """The folder of its run, which goes on there; None for a checkpoint that was moved elsewhere."""
        return _run_of(self.path)

    @property
    def is_marked(self) -> bool:
        """Whether its run is marked as finished."""
        return self.folder is not None and (self.folder / FINISHED).exists()


def mark_complete(saved: Saved) -> None:
    """Mark a run that has nothing left to train as finished, where a kill came before that."""
    progress, best = saved.content["progress"], saved.content["best"]
    if saved.folder is not None and saved.path.name == "last.ckpt" and not saved.is_marked:
        found = summary(
            num_rows=rows_trained(progress),
            num_train_rows=progress["num_examples"],
            step=progress["step"],
            seconds=progress["seconds"],
            monitor=best["monitor"],
            best_value=best["value"],
            best_epoch=best["epoch"],
        )
        mark_finished(saved.folder, found)


@contextmanager
def to_continue(root: Path, wanted: str | None, *, writes: bool = True) -> Iterator[Saved | None]:
    """The checkpoint that `fit` goes on from, the same in every rank; within, no other process trains in its run.

    Args:
        root: where runs go.
        wanted: by --ckpt_path: last or best of the newest run under `root`, or a file; None for a new run.
        writes: whether the run's folder will be written to.

    Raises:
        UserError: where there is no such checkpoint, or none that is whole, or another process trains in its run.
    """
    saved: Saved | None = None
    with ExitStack() as stack:

        def find() -> str:
            nonlocal saved
            path = _path_of(root, wanted)
            if path is None:
                return ""
            if writes and (run := _run_of(path)) is not None:
                stack.enter_context(held(run))  # before reading, so that nobody writes another in the meantime
            saved = _whole(path)
            check_can_go_on(saved.path, saved.content)
            return str(saved.path)

        path = found_by_main(find)
        yield saved or (Saved(Path(path), read_checkpoint(path)) if path else None)


def _path_of(root: Path, wanted: str | None) -> Path | None:
    """What --ckpt_path means; for a job or launch that was started anew, what it has saved itself."""
    if interrupted := interrupted_run(root):
        return interrupted
    if wanted in ("last", "best"):
        return newest_checkpoint(root, f"{wanted}.ckpt")
    return Path(wanted) if wanted else None


def _run_of(checkpoint: Path) -> Path | None:
    """The folder of the checkpoint's run; None for a checkpoint that was moved elsewhere."""
    folder = checkpoint.parent.parent
    return folder if checkpoint.parent.name == "checkpoints" and (folder / "config.yaml").is_file() else None


def _whole(named: Path) -> Saved:
    """The checkpoint; where last.ckpt is damaged, the newest one beside it that is whole, and standard error says so.

    Raises:
        UserError: where there is no such checkpoint, or none that is whole.
    """
    if named.name != "last.ckpt" or not named.exists():
        return Saved(named, read_checkpoint(named))
    candidates = (named, *kept_before(named), named.with_name("best.ckpt"))
    for path in (path for path in candidates if path.exists()):
        try:
            return Saved(path, read_checkpoint(path))
        except UserError as error:
            print(f"warning: {error}; an older one is tried", file=sys.stderr)
    raise UserError(f"{named.parent}: no checkpoint here is whole; name another with --ckpt_path, or start anew")


def changed_settings(saved: Saved, now: str) -> list[str]:
    """What a run that goes on in its folder does otherwise than it did: a line for each key that has another value now.

    Args:
        saved: where it stands. What it did is said by its config.yaml, and what is best by the checkpoint.
        now: the configuration of this call, as YAML. The Lightning twin's has more keys of the trainer.
    """
    assert saved.folder is not None
    texts = renamed((saved.folder / "config.yaml").read_text(encoding="utf-8")), now
    before, after = (dict(_flat(yaml.safe_load(text))) for text in texts)
    lines = [
        f"{key}: {_said(before.get(key))} in the saved run, {_said(after.get(key))} from here on; "
        "it is no longer the run that was saved"
        for key in before | after
        if before.get(key) != after.get(key)
        and not key.startswith(HARMLESS)
        and (key in before.keys() & after.keys() or not key.startswith("trainer."))
    ]
    best, watched = saved.content["best"], (after["checkpoint.monitor"], after["checkpoint.mode"])
    if (best["monitor"], best["mode"]) != watched:
        lines.append(
            f"checkpoint.monitor: {best['monitor']} ({best['mode']}) in the saved run, "
            f"{watched[0]} ({watched[1]}) from here on; what is best is found anew"
        )
    return lines


def _said(value: Any) -> str:
    return "not set" if value is None else str(value)


def _flat(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _flat(item, f"{key}.{name}" if key else str(name))
    else:
        yield key, value


def with_config_to_continue(arguments: Sequence[str]) -> Sequence[str]:
    """For a run that is continued without --config: the configuration saved with it, and then the command line's.

    last and best are replaced by what they mean, the same in every rank.
    """
    values = {option.key: option.value for option in options(arguments)}
    wanted = values.get("ckpt_path")
    if not wanted or "config" in values or is_shown(arguments):
        return arguments
    root = Path(values.get("trainer.default_root_dir") or ROOT)
    path = Path(found_by_main(lambda: str(_path_of(root, wanted))))
    config = path.parent.parent / "config.yaml"
    return ["--config", str(config), *arguments, f"--ckpt_path={path}"] if config.is_file() else arguments


def newest_best(root: Path) -> Path:
    """The best checkpoint of the newest finished run under `root`, the same in every rank; standard error says which.

    Raises:
        UserError: where there is none.
    """

    def find() -> str:
        path = str(best_checkpoint(root))
        print(f"checkpoint: {path}", file=sys.stderr)
        return path

    return Path(found_by_main(find))
