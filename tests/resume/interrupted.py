"""Runs that are stopped and continued: how they are made, and what of them must be equal."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path
from typing import Any

import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch import Tensor

from project.__main__ import main
from project.parity.ulp import ulp_distances
from tiny_corpus import Corpus

TWINS = {"lit": ["fit"], "hand": ["hand"]}
CONFIG = Path(__file__).parents[2] / "configs" / "default.yaml"

EACH_STEP = ("--checkpoint.save_every_n_steps=1", "--checkpoint.keep_last=1000")
"""Leaves a checkpoint of every optimizer step behind: step-1.ckpt, step-2.ckpt, …, last.ckpt."""


def train(twin: str, corpus: Corpus, name: str, *more: str) -> Path:
    """Train on the tiny corpus, dropout on, a line logged every second step; returns the run's folder."""
    options = ["--config", str(CONFIG), *corpus.arguments, f"--name={name}", "--trainer.accelerator=cpu"]
    small = ["--data.batch_size=7", "--trainer.log_every_n_steps=2", "--trainer.max_epochs=2"]
    assert main([*TWINS[twin], *options, *small, *more]) == 0
    return max((corpus.folder / "runs" / name).glob("version_*"), key=lambda path: path.stat().st_mtime_ns)


def stopped(run: Path, step: int, name: str) -> Path:
    """A copy of the run as if it had been killed after saving optimizer step `step`; returns its folder."""
    copy = run.parent.parent / name / "version_0"
    shutil.copytree(run, copy, ignore=shutil.ignore_patterns("finished.json", "*.ckpt"))
    shutil.copy(checkpoint(run, step), copy / "checkpoints" / "last.ckpt")
    if (best := run / "checkpoints" / "best.ckpt").exists():
        shutil.copy(best, copy / "checkpoints" / "best.ckpt")
    return copy


def checkpoint(run: Path, step: int) -> Path:
    """The checkpoint of an optimizer step of a run that kept them all; of the last one, last.ckpt."""
    kept = run / "checkpoints" / f"step-{step}.ckpt"
    return kept if kept.exists() else run / "checkpoints" / "last.ckpt"


def steps_of(run: Path) -> list[int]:
    """The optimizer steps of which the run has kept a checkpoint, but for the last."""
    return sorted(int(path.stem[5:]) for path in (run / "checkpoints").glob("step-*.ckpt"))


def go_on(twin: str, run: Path, *more: str) -> Path:
    """Continue the run in its folder, with the configuration that was saved in it."""
    assert main([*TWINS[twin], f"--ckpt_path={run / 'checkpoints' / 'last.ckpt'}", *more]) == 0
    return run


def content(run: Path) -> dict[str, Any]:
    """What must be equal of the run's last checkpoint."""
    found: dict[str, Any] = torch.load(run / "checkpoints" / "last.ckpt", weights_only=True)
    found["progress"].pop("seconds")
    if found["lr_scheduler"] is not None:
        found["lr_scheduler"].pop("_get_lr_called_within_step", None)
    return found


def curves(run: Path) -> dict[str, list[tuple[int, float]]]:
    """Step and value of every point that TensorBoard shows of a run, by tag; the hparams page's left out."""
    events = EventAccumulator(str(run), size_guidance={"scalars": 0}).Reload()
    tags = [tag for tag in events.Tags()["scalars"] if not tag.startswith("final/")]
    return {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in tags}


def listed(run: Path) -> dict[str, int]:
    """The run's files, and when each was written."""
    return {str(path.relative_to(run)): path.stat().st_mtime_ns for path in run.rglob("*")}


def first_difference(one: Any, other: Any, place: str = "") -> str | None:
    """The first place where two nested structures are not equal bit for bit, or None."""
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        is_alike = one.dtype == other.dtype and one.shape == other.shape
        return None if is_alike and not bool(ulp_distances(one, other).any()) else place
    if isinstance(one, dict) and isinstance(other, dict):
        if one.keys() != other.keys():
            return f"{place}: {sorted(map(str, one.keys() ^ other.keys()))}"
        return next(filter(None, (first_difference(one[key], other[key], f"{place}.{key}") for key in one)), None)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        if len(one) != len(other):
            return f"{place}: {len(one)} and {len(other)}"
        pairs = enumerate(zip(one, other, strict=True))
        return next(filter(None, (first_difference(*pair, f"{place}.{number}") for number, pair in pairs)), None)
    if isinstance(one, float) and isinstance(other, float):
        return None if struct.pack("d", one) == struct.pack("d", other) else f"{place}: {one} and {other}"
    return None if one == other else f"{place}: {one} and {other}"
