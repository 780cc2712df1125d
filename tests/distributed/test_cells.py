"""The twins are equal in every bit between several processes: a selection of the distributed cells of `make parity`."""

from __future__ import annotations

from pathlib import Path

import pytest

from parity_matrix import Cell
from parity_ranks import (
    COMPILE,
    OTHERS,
    STARTING,
    STRATEGIES,
    allowed,
    corpus_arguments,
    faults_of,
    product,
    run_all,
    work,
)
from processes import start_ranks

AXES = ("strategy", "ranks", "precision", "accumulation", "clipping")
CELLS: list[Cell] = [
    dict(zip(AXES, values, strict=True))
    for values in (
        ("ddp", "2", "16-mixed", "3", "norm"),
        ("ddp, unused parameters", "2", "bf16-mixed", "1", "value"),
        ("ddp, static graph", "2", "32-true", "1", "norm"),
        ("fsdp2", "2", "16-mixed", "3", "norm"),
        ("fsdp2, reduced once", "2", "32-true", "3", "value"),
        ("ddp, bucket views", "3", "bf16-mixed", "3", "none"),
        ("fsdp2", "3", "bf16-mixed", "3", "value"),
        ("ddp_spawn", "2", "32-true", "3", "norm"),
        ("ddp_fork", "2", "bf16-mixed", "1", "none"),
    )
]


EVERYDAY = [cell for cell in CELLS if cell["ranks"] == "2" and cell["strategy"] not in STARTING]
"""Those that share one session of ranks."""


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory) -> list[str | None]:
    folder = tmp_path_factory.mktemp("cells")
    cells, arguments = dict(enumerate(EVERYDAY)), corpus_arguments(folder)
    plan = {"folder": str(folder / "2"), "cells": cells, "arguments": arguments}
    for session in [start_ranks(2, work, twin, plan) for twin in ("hand", "lit")]:
        ended = session.ended()
        assert ended.returncode == 0, ended.stderr
    return faults_of(folder, EVERYDAY)


@pytest.mark.parametrize("number", range(len(EVERYDAY)), ids=[", ".join(cell.values()) for cell in EVERYDAY])
def test_cell_is_equal(number: int, faults: list[str | None]) -> None:
    assert faults[number] is None


@pytest.mark.long
def test_further_cells_are_equal(tmp_path: Path) -> None:
    further = [cell for cell in CELLS if cell not in EVERYDAY]
    assert run_all(tmp_path, further, corpus_arguments(tmp_path)) == [None] * len(further)


def test_the_selection_meets_every_value() -> None:
    met = {(axis, value) for cell in CELLS for axis, value in cell.items()}
    axes = {"strategy": [*STRATEGIES, *STARTING], **OTHERS}
    assert met == {(axis, value) for axis, values in axes.items() for value in values}
    assert set(COMPILE) == {"off", "on"}


def test_the_product_is_full_but_for_what_torch_refuses() -> None:
    cells = product([*STRATEGIES, *STARTING])
    assert len(cells) == len({tuple(cell.values()) for cell in cells}) == 15 * 18
    assert all(allowed(cell) for cell in cells)
