"""Which configuration and which checkpoint an evaluation takes when the command line does not say."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from project.faults.command_line import SHOWN, options
from project.runs import ROOT, best_checkpoint
from project.task.checkpoint import read_checkpoint

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
    network = json.dumps(read_checkpoint(path)["classifier"]["network"])
    return [f"--model.network={network}", "--model.optimizer=torch.optim.AdamW", *arguments], path


def newest_best(root: Path) -> Path:
    """The best checkpoint of the newest finished run under `root`; says which on standard error.

    Raises:
        UserError: where there is none.
    """
    path = best_checkpoint(root)
    print(f"checkpoint: {path}", file=sys.stderr)
    return path
