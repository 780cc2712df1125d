"""Saves and restores the states of all random generators that a training run may use."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy
import torch


def random_states(device: torch.device) -> dict[str, Any]:
    """States of Python's, NumPy's and torch's generators, and of a CUDA `device`, as tensors and plain numbers."""
    version, words, next_gaussian = random.getstate()
    kind, keys, position, has_gaussian, gaussian = numpy.random.get_state(legacy=True)
    return {
        "python": {"version": version, "words": torch.tensor(words), "next_gaussian": next_gaussian},
        "numpy": {
            "kind": str(kind),
            "keys": torch.from_numpy(numpy.asarray(keys).astype(numpy.int64)),
            "position": int(position),
            "has_gaussian": int(has_gaussian),
            "gaussian": float(gaussian),
        },
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state(device) if device.type == "cuda" else None,
    }


def restore_random_states(states: Mapping[str, Any], device: torch.device) -> None:
    """Restore what `random_states` returned; a CUDA state is ignored on another kind of device."""
    python, by_numpy = states["python"], states["numpy"]
    random.setstate((python["version"], tuple(python["words"].tolist()), python["next_gaussian"]))
    keys = by_numpy["keys"].numpy().astype(numpy.uint32)
    numpy.random.set_state(
        (by_numpy["kind"], keys, by_numpy["position"], by_numpy["has_gaussian"], by_numpy["gaussian"])
    )
    torch.set_rng_state(states["torch"])
    if device.type == "cuda" and states["cuda"] is not None:
        torch.cuda.set_rng_state(states["cuda"], device)
