"""Where runs lie, `<root>/<name>/version_N`, and what marks one as finished.

A run folder holds config.yaml, tokenizer.json, checkpoints/best.ckpt, checkpoints/last.ckpt, TensorBoard's event
files, and finished.json once the run has ended by itself.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from project.errors import UserError

ROOT = Path("runs")
FINISHED = "finished.json"


def mark_finished(run: Path, summary: dict[str, Any]) -> None:
    """Write the run's summary as finished.json, whole or not at all."""
    temporary = run / f".{FINISHED}.{os.getpid()}"
    temporary.write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
    temporary.replace(run / FINISHED)


def newest_finished(root: Path = ROOT) -> Path:
    """The run folder under `root` that finished last.

    Raises:
        UserError: where there is none; the message says what to do.
    """
    marks = sorted(root.rglob(f"version_*/{FINISHED}"), key=lambda mark: mark.stat().st_mtime_ns)
    if not marks:
        raise UserError(
            f"{root}: no finished run here; train one with `python -m project fit --config configs/default.yaml`, "
            "or name a checkpoint with --ckpt_path"
        )
    return marks[-1].parent


def best_checkpoint(root: Path = ROOT) -> Path:
    """The best checkpoint of the newest finished run under `root`; its last one where none was validated.

    Raises:
        UserError: where there is no finished run, or its checkpoints are gone.
    """
    folder = newest_finished(root) / "checkpoints"
    for name in ("best.ckpt", "last.ckpt"):
        if (folder / name).is_file():
            return folder / name
    raise UserError(f"{folder}: neither best.ckpt nor last.ckpt is here; name a checkpoint with --ckpt_path")
