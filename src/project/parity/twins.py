"""Runs a twin: trains as the configuration says, traced, then labels the test rows with the last weights.

`train` starts a fresh process for it; as a program, `python -m project.parity.twins TWIN FOLDER ARGUMENTS…`, this
module is that process.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import torch
import yaml

from project.commands.saved import ALONE
from project.errors import UserError
from project.parity.quantities import LAST, PREDICTIONS
from project.ranks.environment import is_main, is_rank

Twin = Literal["hand", "lit"]

NAMES: dict[Twin, str] = {"hand": "hand", "lit": "Lightning"}
"""What a report calls them."""

MAINS: dict[Twin, tuple[str, tuple[str, ...]]] = {
    "hand": ("project.hand.cli", ()),
    "lit": ("project.lit.cli", ("fit",)),
}
"""Module of each twin's commands, and what its `main` is given before the arguments."""


def train(twin: Twin, folder: Path, arguments: Sequence[str]) -> Path:
    """Train a twin in a fresh process; its output goes to `<folder>/<twin>.log`. Returns the run's folder.

    Raises:
        UserError: where it could not be trained, with its own last words.
    """
    log = folder / f"{twin}.log"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        output = log.open("wb")
    except OSError as error:
        raise UserError(f"--keep: {folder}: no run can be kept here ({error.strerror})") from None
    command = [sys.executable, "-m", "project.parity.twins", twin, str(folder), *arguments]
    with output:
        code = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, check=False).returncode
    if code:
        said = log.read_text(encoding="utf-8", errors="replace").strip().splitlines() or ["nothing"]
        error_at = max((place for place, line in enumerate(said) if line.startswith("error: ")), default=None)
        if code == 2 and error_at is not None:  # meant for users; one line for each fault
            reason = "; ".join(said[error_at:]).removeprefix("error: ")
        else:
            reason = f"ended with code {code}, its last line: {said[-1]}; --keep FOLDER keeps all it said, {log.name}"
        raise UserError(f"the {NAMES[twin]} twin: {reason}")
    return newest_run(folder, twin)


def train_here(twin: Twin, folder: Path, arguments: Sequence[str]) -> Path:
    """What the fresh process does, in this one; returns the run's folder.

    Raises:
        UserError: where the configuration is faulty, or a rehearsal that leaves nothing to compare.
    """
    module_name, leading = MAINS[twin]
    module = importlib.import_module(module_name)
    own = [f"--trainer.default_root_dir={folder}", f"--name={twin}", "--trainer.enable_progress_bar=false"]
    code = module.main(*leading, [*arguments, *own])
    if code:
        raise UserError(f"training ended with code {code}; its own words stand in its log")
    found = newest_run(folder, twin)
    if is_rank():
        torch.distributed.barrier()  # the first rank may still be writing the last checkpoint
    label_test_rows(twin, found)
    return found


def label_test_rows(twin: Twin, found: Path) -> None:
    """Save the class probabilities of the test rows by the last weights of a run, if it names such rows.

    Where this process is one of several ranks, all of them share the work, and the first saves.
    """
    saved = found / "config.yaml"
    test_file = yaml.safe_load(saved.read_text(encoding="utf-8"))["data"]["test_file"]
    if test_file is not None:
        module = importlib.import_module(MAINS[twin][0])
        processes = () if is_rank() else ALONE
        given = [f"--config={saved}", *processes, f"--ckpt_path={found / LAST}", f"--data.predict_file={test_file}"]
        probabilities = module.probabilities(given)
        if is_main():
            torch.save(probabilities, found / PREDICTIONS)


def newest_run(folder: Path, twin: Twin) -> Path:
    """The folder of the twin's last run below `folder`.

    Raises:
        UserError: where there is none, as after a rehearsal.
    """
    runs = sorted((folder / twin).glob("version_*"), key=lambda path: int(path.name.removeprefix("version_")))
    if not runs:
        raise UserError(
            "there is no run to compare, as with trainer.fast_dev_run or --print_config; try trainer.max_steps"
        )
    return runs[-1]


if __name__ == "__main__":
    twin: Twin = "hand" if sys.argv[1] == "hand" else "lit"
    try:
        train_here(twin, Path(sys.argv[2]), sys.argv[3:])
    except UserError as error:
        print(f"error: {error}")
        sys.exit(2)
