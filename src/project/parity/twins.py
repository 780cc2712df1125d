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

from project.errors import UserError

Twin = Literal["hand", "lit"]

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
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / f"{twin}.log"
    command = [sys.executable, "-m", "project.parity.twins", twin, str(folder), *arguments]
    with log.open("wb") as output:
        code = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, check=False).returncode
    if code:
        last = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        said = next((line for line in last if line.startswith("error: ")), last[-1] if last else "nothing")
        raise UserError(f"the {twin} twin ended with code {code} and said: {said.removeprefix('error: ')}")
    return newest_run(folder, twin)


def run(twin: Twin, folder: Path, arguments: Sequence[str]) -> Path:
    """What the fresh process does, in this one; returns the run's folder.

    Raises:
        UserError: where the configuration is faulty, or a rehearsal that leaves nothing to compare.
    """
    module_name, leading = MAINS[twin]
    module = importlib.import_module(module_name)
    own = [f"--trainer.default_root_dir={folder}", f"--name={twin}", "--trainer.enable_progress_bar=false"]
    module.main(*leading, [*arguments, *own])
    found = newest_run(folder, twin)
    saved = found / "config.yaml"
    test_file = yaml.safe_load(saved.read_text(encoding="utf-8"))["data"]["test_file"]
    if test_file is not None:
        path = found / "checkpoints" / "last.ckpt"
        given = [f"--config={saved}", f"--ckpt_path={path}", f"--data.predict_file={test_file}"]
        probabilities, *_ = module.probabilities(given)
        torch.save(probabilities, found / "probabilities.pt")
    return found


def newest_run(folder: Path, twin: Twin) -> Path:
    """The folder of the twin's last run below `folder`.

    Raises:
        UserError: where a rehearsal left none.
    """
    runs = sorted((folder / twin).glob("version_*"), key=lambda path: int(path.name.removeprefix("version_")))
    if not runs:
        raise UserError("trainer.fast_dev_run: a rehearsal leaves nothing to compare; take --trainer.max_steps instead")
    return runs[-1]


if __name__ == "__main__":
    try:
        run(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])  # type: ignore[arg-type]  # `train` passes a twin's name
    except UserError as error:
        print(f"error: {error}")
        sys.exit(2)
