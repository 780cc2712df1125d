"""Which configuration and which checkpoint a command takes when the command line does not say all of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from project.errors import UserError
from project.faults.command_line import SHOWN, options
from project.runs import FINISHED, ROOT, best_checkpoint, newest_checkpoint
from project.task.checkpoint import kept_before, read_checkpoint, read_classifier

ALONE = ("--trainer.strategy=auto", "--trainer.devices=1", "--trainer.num_nodes=1")
"""Options that make a command one process, whatever the configuration before them says."""


def with_saved_config(arguments: Sequence[str]) -> tuple[Sequence[str], Path | None]:
    """Without --config, the configuration is the one saved with the checkpoint's run, or what the file itself says.

    How many processes trained it is not taken over: an evaluation takes one unless it is told otherwise.

    Returns the completed arguments, and the checkpoint where it was looked up here.
    """
    values = {option.key: option.value for option in options(arguments)}
    if "config" in values or any(argument.partition("=")[0] in SHOWN for argument in arguments):
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
    "data.test_file",
    "data.predict_file",
    "trainer.default_root_dir",
    "trainer.enable_progress_bar",
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
    def run(self) -> Path | None:
        """The folder of its run, which goes on there; None for a checkpoint that was moved elsewhere."""
        folder = self.path.parent.parent
        return folder if self.path.parent.name == "checkpoints" and (folder / "config.yaml").is_file() else None

    @property
    def is_marked(self) -> bool:
        """Whether its run is marked as finished."""
        return self.run is not None and (self.run / FINISHED).exists()


def to_continue(root: Path, wanted: str | None) -> Saved | None:
    """What `fit --ckpt_path` names: last or best of the newest run under `root`, or a file; None for none.

    Where last.ckpt is damaged, the newest one beside it that is whole is taken, and standard error says so.

    Raises:
        UserError: where there is no such checkpoint, or none that is whole.
    """
    if wanted is None:
        return None
    named = newest_checkpoint(root, f"{wanted}.ckpt") if wanted in ("last", "best") else Path(wanted)
    if named.name != "last.ckpt" or not named.exists():
        return Saved(named, read_checkpoint(named))
    candidates = (named, *kept_before(named), named.with_name("best.ckpt"))
    for path in (path for path in candidates if path.exists()):
        try:
            return Saved(path, read_checkpoint(path))
        except UserError as error:
            print(f"warning: {error}; an older one is tried", file=sys.stderr)
    raise UserError(f"{named.parent}: no checkpoint here is whole; name another with --ckpt_path, or start anew")


def changed_settings(run: Path, now: str) -> list[str]:
    """What a run that is continued does otherwise than it did: a line for each key that has another value now.

    Args:
        run: its folder, whose config.yaml says what it did.
        now: the configuration of this call, as YAML. Keys that only one of the two twins has are left out.
    """
    before, after = (dict(_flat(yaml.safe_load(text))) for text in ((run / "config.yaml").read_text(), now))
    return [
        f"{key}: {before[key]} in the saved run, {after[key]} from here on; it is no longer the run that was saved"
        for key in before
        if key in after and before[key] != after[key] and not key.startswith(HARMLESS)
    ]


def _flat(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _flat(item, f"{key}.{name}" if key else str(name))
    else:
        yield key, value


def with_config_to_continue(arguments: Sequence[str]) -> Sequence[str]:
    """For a run that is continued without --config: the configuration saved with it, and then the command line's."""
    values = {option.key: option.value for option in options(arguments)}
    wanted = values.get("ckpt_path")
    if not wanted or "config" in values or any(argument.partition("=")[0] in SHOWN for argument in arguments):
        return arguments
    root = Path(values.get("trainer.default_root_dir") or ROOT)
    path = newest_checkpoint(root, f"{wanted}.ckpt") if wanted in ("last", "best") else Path(wanted)
    config = path.parent.parent / "config.yaml"
    return ["--config", str(config), *arguments] if config.is_file() else arguments


def newest_best(root: Path) -> Path:
    """The best checkpoint of the newest finished run under `root`; says which on standard error.

    Raises:
        UserError: where there is none.
    """
    path = best_checkpoint(root)
    print(f"checkpoint: {path}", file=sys.stderr)
    return path
