"""Traces written by hand: a short run with every kind of record, every stage, and every kind of quantity."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

Json = dict[str, Any]

HEADER: Json = {"kind": "trace", "format": 1, "level": "full", "source": "test", "torch": "2.13.0", "device": "cpu"}


def tensor(digest: str, norm: float) -> list[str]:
    """A tensor as a trace holds it."""
    return [digest, norm.hex()]


# The order of the stages in a record says nothing: scheduler is written early.
MICRO_BATCH: Json = {
    "scheduler": {"learning_rates": [(0.125).hex(), (0.25).hex()]},
    "data": {"ids": [4, 0, 7], "inputs": {"0": tensor("d0", 9.5), "1": tensor("d1", 3.0)}},
    "rng": {"python": "r0", "torch": "r1"},
    "forward": {"loss": (1.25).hex(), "num_examples": 3, "buffers": {"calls": tensor("b0", 1.0)}},
    "backward": {"norm": (2.5).hex(), "gradients": {"bias": tensor("g0", 0.5), "weight": tensor("g1", 2.0)}},
}
STEP: Json = {
    "scheduler": {"learning_rates": [(0.0625).hex(), (0.25).hex()]},
    **{
        stage: {
            "norm": (2.5).hex(),
            "gradients": {"bias": tensor(f"{stage}0", 0.5), "weight": tensor(f"{stage}1", 2.0)},
        }
        for stage in ("reduce", "unscale", "normalise", "clip")
    },
    "optimizer": {
        "skipped": False,
        "scale": (1.0).hex(),
        "parameters": {"bias": tensor("p0", 0.75), "weight": tensor("p1", 4.0)},
        "state": {"weight.exp_avg": tensor("s0", 0.0625)},
    },
}
EVALUATION: Json = {"evaluation": {"val/accuracy": (0.75).hex(), "val/loss": (0.7).hex()}}
CHECKPOINT: Json = {"checkpoint": {"state_dict": {"calls": tensor("c0", 1.0), "weight": tensor("c1", 4.0)}}}


def records() -> list[Json]:
    """Two epochs of four micro-batches in windows of two, each with an evaluation and a checkpoint; 16 records."""
    found: list[Json] = []
    for epoch in range(2):
        for micro_batch in range(4):
            step = 2 * epoch + micro_batch // 2
            place = {"epoch": epoch, "micro_batch": micro_batch, "step": step}
            found.append({"kind": "micro_batch", **place, "stages": MICRO_BATCH})
            if micro_batch % 2:
                found.append({"kind": "step", "epoch": epoch, "step": step, "stages": STEP})
        found.append({"kind": "evaluation", "epoch": epoch, "step": 2 * epoch + 2, "stages": EVALUATION})
        found.append({"kind": "checkpoint", "step": 2 * epoch + 2, "stages": CHECKPOINT})
    return [deepcopy(record) for record in found]  # one by one, so that no two share their stages


def edited(*edits: tuple[int, str, str, Any]) -> list[Json]:
    """`records()`, where each edit gives a record's number, a stage, a quantity, and what stands there instead."""
    found = records()
    for number, stage, quantity, value in edits:
        found[number]["stages"][stage][quantity] = value
    return found


def write_trace(path: Path, lines: list[Json], **header: Any) -> Path:
    """Write a trace of these records; `header` replaces entries of its header."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in [HEADER | header, *lines]), encoding="utf-8")
    return path
