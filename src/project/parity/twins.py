"""Trains a twin, then predicts the test rows with its last weights.

`train` does so in a fresh process, which runs `python -m project.parity.twins TWIN FOLDER ARGUMENTS…`.
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
"""Their names in a report."""

COMMANDS: dict[Twin, str] = {"hand": "project.hand.cli", "lit": "project.lit.cli"}
"""Module of each twin's commands."""


def train(twin: Twin, folder: Path, arguments: Sequence[str]) -> Path:
    """Train a twin in a fresh process, with its output in `<folder>/<twin>.log`; returns the run's folder.

    Raises:
        UserError: where training failed, with the twin's error.
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
        if code == 2 and error_at is not None:  # a UserError, one line for each fault
            reason = "; ".join(said[error_at:]).removeprefix("error: ")
        else:
            reason = f"ended with code {code}, its last line: {said[-1]}; --keep FOLDER keeps all it said, {log.name}"
        raise UserError(f"the {NAMES[twin]} twin: {reason}")
    return newest_run(folder, twin)


def train_here(twin: Twin, folder: Path, arguments: Sequence[str]) -> Path:
    """Train a twin in this process; returns the run's folder.

    Raises:
        UserError: where the configuration is faulty, or fast_dev_run leaves no run.
    """
    module = importlib.import_module(COMMANDS[twin])
    own = [f"--trainer.default_root_dir={folder}", f"--name={twin}", "--trainer.enable_progress_bar=false"]
    code = module.main(["fit", *arguments, *own])
    if code:
        raise UserError(f"training ended with code {code}; see its log")
    found = newest_run(folder, twin)
    if is_rank():
        torch.distributed.barrier()  # the main rank may still be writing the last checkpoint
    label_test_rows(twin, found)
    return found


def label_test_rows(twin: Twin, found: Path) -> None:
    """Save the class probabilities of the test rows, if the run has any. Several ranks share the work."""
    saved = found / "config.yaml"
    test_file = yaml.safe_load(saved.read_text(encoding="utf-8"))["data"]["test_file"]
    if test_file is not None:
        module = importlib.import_module(COMMANDS[twin])
        processes = () if is_rank() else ALONE
        given = [f"--config={saved}", *processes, f"--ckpt_path={found / LAST}", f"--data.predict_file={test_file}"]
        probabilities = module.probabilities(given)
        if is_main():
            torch.save(probabilities, found / PREDICTIONS)


def newest_run(folder: Path, twin: Twin) -> Path:
    """The folder of the twin's last run below `folder`.

    Raises:
        UserError: where there is none, as after fast_dev_run.
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
