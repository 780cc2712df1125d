"""Every generator goes on where its state was taken, by way of a file of tensors and plain numbers."""

from __future__ import annotations

import random
from pathlib import Path

import numpy
import torch

from project.checkpoint.random_states import random_states, restore_random_states

CPU = torch.device("cpu")


def draws() -> list[float]:
    """The next numbers of each generator. Python and NumPy draw gaussians in pairs and keep the second one."""
    by_python = [random.random(), random.gauss()]
    by_numpy = [numpy.random.random(), numpy.random.normal()]
    return [*by_python, *map(float, by_numpy), *torch.rand(3).tolist(), float(torch.randn(()))]


def test_the_generators_go_on_where_they_were(tmp_path: Path) -> None:
    random.seed(1)
    numpy.random.seed(2)
    torch.manual_seed(3)
    draws()  # now both gaussians have a second one waiting, and no stream is at its beginning
    torch.save(random_states(CPU), tmp_path / "states")
    expected = draws()
    restore_random_states(torch.load(tmp_path / "states", weights_only=True), CPU)
    assert draws() == expected
    assert draws() != expected
