"""The table of quantities: of traces, of last checkpoints, of predictions."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from parity.handmade import HEADER, Json, edited, records
from project.checkpoint.file import FORMAT, write_checkpoint
from project.parity.compare import EXACT, Tolerance
from project.parity.quantities import LAST, PREDICTIONS, Row, rows_of_runs, rows_of_traces
from project.parity.ulp import INCOMPARABLE
from project.trace.reading import Trace

NUM_VALUES = {"training losses": 8, "gradient norms": 4, "learning rates": 24, "validation metrics": 4}
"""Of the traces written by hand."""


def of_traces(a: list[Json], b: list[Json], tolerance: Tolerance = EXACT) -> dict[str, Row]:
    left, right = (Trace(Path("made by hand"), HEADER, lines) for lines in (a, b))
    return {row.quantity: row for row in rows_of_traces(left, right, tolerance)}


def of_runs(tmp_path: Path, a: dict[str, Any], b: dict[str, Any], tolerance: Tolerance = EXACT) -> dict[str, Row]:
    for name, content in (("a", a), ("b", b)):
        write_checkpoint(tmp_path / name / LAST, {"classifier": {"format": FORMAT}, **content})
    return {row.quantity: row for row in rows_of_runs(tmp_path / "a", tmp_path / "b", tolerance)}


def of_tensors(tmp_path: Path, a: Tensor, b: Tensor, tolerance: Tolerance = EXACT) -> Row:
    return of_runs(tmp_path, {"state_dict": {"weight": a}}, {"state_dict": {"weight": b}}, tolerance)["state dict"]


def test_equal_traces_have_equal_quantities() -> None:
    rows = of_traces(records(), records())
    assert rows == {quantity: Row(quantity, num_values) for quantity, num_values in NUM_VALUES.items()}
    assert all(row.is_equal for row in rows.values())


@pytest.mark.parametrize(
    ("edit", "quantity"),
    [
        ((3, "forward", "loss", (1.5).hex()), "training losses"),
        ((5, "normalise", "norm", (2.75).hex()), "gradient norms"),
        ((3, "scheduler", "learning_rates", [(0.125).hex(), (0.5).hex()]), "learning rates"),
        ((6, "evaluation", "val/loss", (0.95).hex()), "validation metrics"),
    ],
)
def test_a_difference_counts_in_its_row_alone(edit: tuple[int, str, str, Any], quantity: str) -> None:
    rows = of_traces(records(), edited(edit))
    assert [row.quantity for row in rows.values() if not row.is_equal] == [quantity]
    row = rows[quantity]
    assert (row.num_values, row.num_different, row.num_missing) == (NUM_VALUES[quantity], 1, 0)
    assert row.max_difference == pytest.approx(0.25)


def test_the_largest_difference_of_a_row_is_shown() -> None:
    row = of_traces(records(), edited((0, "forward", "loss", (1.5).hex()), (1, "forward", "loss", (3.25).hex())))[
        "training losses"
    ]
    assert (row.num_different, row.max_difference, row.max_ulp) == (2, 2.0, 11 * 2**20)


def test_a_record_that_one_lacks_shifts_no_other() -> None:
    short = records()
    del short[1]
    row = of_traces(records(), short)["training losses"]
    assert row == Row("training losses", num_values=8, num_missing=1)
    assert not row.is_equal


def test_what_one_has_nowhere_is_no_row_and_counts_as_nothing_missing() -> None:
    without = [record for record in records() if record["kind"] not in ("step", "evaluation")]
    rows = of_traces(records(), without)
    assert {quantity: row.num_values for quantity, row in rows.items()} == {"training losses": 8, "learning rates": 16}
    assert all(row.is_equal for row in rows.values())


def test_the_same_validation_twice_is_counted_twice() -> None:
    twice = records()
    twice.insert(7, twice[6])
    assert of_traces(twice, twice)["validation metrics"].num_values == 6
    assert of_traces(records(), twice)["validation metrics"].num_missing == 2


def test_traces_are_compared_within_a_tolerance() -> None:
    other = edited((3, "forward", "loss", (1.26).hex()))
    assert of_traces(records(), other, Tolerance(rtol=0.01))["training losses"].is_equal
    row = of_traces(records(), other, Tolerance(rtol=0.001))["training losses"]
    assert row.num_different == 1
    assert row.max_difference == pytest.approx(0.01)


def test_numbers_in_decimal_and_values_that_are_none_are_compared() -> None:
    rows = of_traces(
        edited((3, "forward", "loss", 1.25), (4, "forward", "loss", "?")), edited((4, "forward", "loss", 3))
    )
    row = rows["training losses"]
    assert (row.num_different, row.max_ulp, row.max_difference) == (1, INCOMPARABLE, math.inf)


# Checkpoints

OPTIMIZER = {
    "state": {0: {"step": torch.tensor(4.0), "exp_avg": torch.ones(3)}},
    "param_groups": [{"lr": 0.125, "betas": (0.9, 0.999), "params": [0], "fused": None}],
}


def test_equal_checkpoints_have_equal_quantities(tmp_path: Path) -> None:
    content = {
        "state_dict": {"weight": torch.ones(2, 3), "calls": torch.tensor(4)},
        "optimizer": OPTIMIZER,
        "lr_scheduler": {"last_epoch": 4, "_last_lr": [0.125]},
        "scaler": {"scale": 65536.0},
    }
    rows = of_runs(tmp_path, content, content)
    num_values = {"state dict": 7, "optimizer state": 9, "scheduler state": 2, "scaler state": 1}
    assert rows == {quantity: Row(quantity, number) for quantity, number in num_values.items()}


def test_what_neither_has_is_no_row(tmp_path: Path) -> None:
    content = {"state_dict": {"weight": torch.ones(1)}, "lr_scheduler": None}
    assert list(of_runs(tmp_path, content, content)) == ["state dict"]


def test_each_leaf_of_the_optimizers_state_counts(tmp_path: Path) -> None:
    groups = [{"lr": 0.25, "betas": (0.9, 0.998), "params": [0], "fused": False}]
    rows = of_runs(tmp_path, {"optimizer": OPTIMIZER}, {"optimizer": OPTIMIZER | {"param_groups": groups}})
    assert rows["optimizer state"].num_different == 3
    assert rows["optimizer state"].max_ulp == INCOMPARABLE  # None against False


def test_what_only_one_has_is_missing(tmp_path: Path) -> None:
    scaled, unscaled = {"scaler": {"scale": 2.0}}, {"scaler": None}
    for row in (of_runs(tmp_path, *both)["scaler state"] for both in ((scaled, unscaled), (unscaled, scaled))):
        assert (row.num_values, row.num_missing, row.num_different, row.is_equal) == (1, 1, 0, False)
    a, b = ({"state_dict": {"weight": torch.ones(5), name: torch.ones(5)}} for name in ("bias", "scale"))
    row = of_runs(tmp_path, a, b)["state dict"]
    assert (row.num_values, row.num_missing, row.max_ulp) == (15, 10, 0)


def test_whether_a_scheduler_is_just_advancing_is_of_no_consequence(tmp_path: Path) -> None:
    a, b = ({"lr_scheduler": {"last_epoch": 1, "_get_lr_called_within_step": value}} for value in (True, False))
    assert of_runs(tmp_path, a, b)["scheduler state"] == Row("scheduler state", 1)


@pytest.mark.parametrize(("one", "other"), [(4, 5), (4, 4.0), (True, 1), ("a", "b"), (None, 0)])
def test_values_that_are_not_floats_are_equal_or_not_comparable(tmp_path: Path, one: Any, other: Any) -> None:
    row = of_runs(tmp_path, {"scaler": {"x": one}}, {"scaler": {"x": other}}, Tolerance(rtol=0.5))["scaler state"]
    assert (row.num_different, row.max_ulp, row.max_difference) == (1, INCOMPARABLE, math.inf)


def test_elements_are_counted_and_the_largest_difference_shown(tmp_path: Path) -> None:
    a = torch.tensor([1.0, 2.0, 3.0, 0.0])
    row = of_tensors(tmp_path, a, torch.tensor([1.0, 2.5, 3.0, -0.0]))
    assert (row.num_values, row.num_different, row.max_ulp, row.max_difference) == (4, 2, 2**21, 0.5)


def test_a_tolerance_holds_for_each_element(tmp_path: Path) -> None:
    a = torch.ones(3)
    b = torch.tensor([1.0, 1.0 + 2**-23, 1.0 + 2**-20])
    assert of_tensors(tmp_path, a, b, Tolerance(ulp=8)).is_equal
    assert of_tensors(tmp_path, a, b, Tolerance(ulp=7)).num_different == 1
    assert of_tensors(tmp_path, a, b, Tolerance(rtol=1e-6)).is_equal
    assert of_tensors(tmp_path, a, b, Tolerance(rtol=5e-7)).num_different == 1
    assert of_tensors(tmp_path, a, b, Tolerance(ulp=1, rtol=1e-6)).is_equal
    assert of_tensors(tmp_path, a, b).num_different == 2


@pytest.mark.parametrize("tolerance", [EXACT, Tolerance(ulp=4), Tolerance(rtol=0.1)])
def test_nan_and_infinity_equal_only_themselves(tmp_path: Path, tolerance: Tolerance) -> None:
    a = torch.tensor([math.nan, math.inf, 1.0, math.inf])
    assert of_tensors(tmp_path, a, a.clone(), tolerance).is_equal
    row = of_tensors(tmp_path, a, torch.tensor([1.0, 1.0, math.nan, -math.inf]), tolerance)
    assert (row.num_different, row.max_ulp, row.max_difference) == (4, INCOMPARABLE, math.inf)


def test_an_infinite_difference_is_the_largest(tmp_path: Path) -> None:
    row = of_tensors(tmp_path, torch.tensor([math.inf, 1.0]), torch.tensor([1.0, 3.0]))
    assert (row.num_different, row.max_difference) == (2, math.inf)


def test_whole_numbers_must_agree_whatever_the_tolerance(tmp_path: Path) -> None:
    row = of_tensors(tmp_path, torch.tensor([100, 7]), torch.tensor([101, 7]), Tolerance(ulp=5, rtol=0.5))
    assert (row.num_values, row.num_different, row.max_ulp, row.max_difference) == (2, 1, 1, 1.0)


@pytest.mark.parametrize("other", [torch.ones(3, 2), torch.ones(2, 3, dtype=torch.float64)], ids=["shape", "dtype"])
def test_another_shape_or_dtype_is_not_comparable(tmp_path: Path, other: Tensor) -> None:
    row = of_tensors(tmp_path, torch.ones(2, 3), other)
    assert (row.num_values, row.num_different, row.max_ulp) == (6, 1, INCOMPARABLE)


def test_predictions_are_compared(tmp_path: Path) -> None:
    for name, value in (("a", 0.5), ("b", 0.75)):
        (tmp_path / name).mkdir()
        torch.save(torch.tensor([[0.5, value], [0.25, 0.75]]), tmp_path / name / PREDICTIONS)
    (row,) = rows_of_runs(tmp_path / "a", tmp_path / "b")
    assert row == Row("test predictions", 4, num_different=1, max_ulp=2**22, max_difference=0.25)


def test_folders_with_nothing_in_common_have_no_rows(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "a" / LAST, {"classifier": {"format": FORMAT}, "state_dict": {}})
    torch.save(torch.ones(1), tmp_path / "b.pt")
    assert list(rows_of_runs(tmp_path / "a", tmp_path / "b")) == []
