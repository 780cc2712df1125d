"""Where two traces part: traces written by hand, differing in one place or in several."""

from __future__ import annotations

import json
import math
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from parity.handmade import HEADER, Json, edited, records, tensor, write_trace
from project.errors import UserError
from project.parity.compare import Difference, Divergence, Tolerance, first_divergence, pin_down
from project.parity.ulp import INCOMPARABLE
from project.trace.reading import Trace, read_trace
from project.trace.stages import STAGES

# For each stage: a record that has it, a quantity there, and another value of it.
OTHER: dict[str, tuple[int, str, str, Any]] = {
    "data": (3, "data", "ids", [4, 0, 8]),
    "rng": (3, "rng", "torch", "r2"),
    "forward": (3, "forward", "loss", (1.5).hex()),
    "backward": (3, "backward", "norm", (2.75).hex()),
    "reduce": (5, "reduce", "norm", (2.75).hex()),
    "unscale": (5, "unscale", "norm", (2.75).hex()),
    "normalise": (5, "normalise", "norm", (2.75).hex()),
    "clip": (5, "clip", "norm", (2.75).hex()),
    "optimizer": (5, "optimizer", "skipped", True),
    "scheduler": (5, "scheduler", "learning_rates", [(0.0625).hex(), (0.5).hex()]),
    "evaluation": (6, "evaluation", "val/loss", (0.71).hex()),
    "checkpoint": (7, "checkpoint", "state_dict", {"calls": tensor("c0", 1.0), "weight": tensor("c2", 4.5)}),
}
POSITIONS = {
    3: {"kind": "micro_batch", "epoch": 0, "micro_batch": 2, "step": 1},
    5: {"kind": "step", "epoch": 0, "micro_batch": 3, "step": 1},
    6: {"kind": "evaluation", "epoch": 0, "micro_batch": 3, "step": 2},
    7: {"kind": "checkpoint", "epoch": 0, "micro_batch": 3, "step": 2},
}
FIRST_STAGES = {"micro_batch": "data", "step": "optimizer", "evaluation": "evaluation", "checkpoint": "checkpoint"}


def trace(lines: list[Json], **header: Any) -> Trace:
    return Trace(Path("made by hand"), HEADER | header, lines)


def part(a: list[Json], b: list[Json], tolerance: Tolerance | None = None, *, alike: bool = False) -> Divergence | None:
    return first_divergence(trace(a), trace(b), tolerance or Tolerance(), alike=alike)


def parted(a: list[Json], b: list[Json], tolerance: Tolerance | None = None, *, alike: bool = False) -> Divergence:
    found = part(a, b, tolerance, alike=alike)
    assert found is not None
    return found


def test_equal_traces_do_not_part() -> None:
    assert part(records(), records()) is None
    assert part(records(), records(), alike=True) is None


def test_every_stage_has_a_case() -> None:
    assert tuple(OTHER) == STAGES


@pytest.mark.parametrize("stage", STAGES)
def test_a_difference_is_found_at_its_place(stage: str) -> None:
    place = OTHER[stage][0]
    for found in (parted(records(), edited(OTHER[stage])), parted(edited(OTHER[stage]), records())):
        assert (found.stage, found.position, found.numbers) == (stage, POSITIONS[place], (place, place))
        assert len(found.differences) == 1


@pytest.mark.parametrize(("earlier", "later"), list(combinations(STAGES, 2)))
def test_of_several_stages_the_earliest_is_named(earlier: str, later: str) -> None:
    assert parted(records(), edited(OTHER[later], OTHER[earlier])).stage == earlier


def test_an_earlier_record_comes_before_an_earlier_stage() -> None:
    found = parted(records(), edited((0, "backward", "norm", (0.0).hex()), (1, "data", "ids", [9, 9, 9])))
    assert (found.stage, found.numbers) == ("backward", (0, 0))


@pytest.mark.parametrize("side", ["A", "B"])
@pytest.mark.parametrize("number", range(len(records())))
def test_a_missing_record_is_named(number: int, side: str) -> None:
    whole, short = records(), records()
    gone = short.pop(number)
    found = parted(short, whole) if side == "A" else parted(whole, short)
    assert found.stage == FIRST_STAGES[gone["kind"]]
    after = next(record for record in reversed(whole[: number + 1]) if record["kind"] == "micro_batch")
    place = {"epoch": after["epoch"], "micro_batch": after["micro_batch"]} | gone
    assert found.position == {key: value for key, value in place.items() if key != "stages"}
    assert found.numbers == ((-1, number) if side == "A" else (number, -1))
    (difference,) = found.differences
    assert (difference.a, difference.b) == (("missing", "there") if side == "A" else ("there", "missing"))
    assert difference.ulp is None
    is_end = number == len(whole) - 1
    assert difference.quantity.endswith(" and all that follow") == is_end


@pytest.mark.parametrize("length", [1, 2, 6, 12])
def test_a_run_that_ended_early_parts_where_it_ended(length: int) -> None:
    found = parted(records(), records()[:length], alike=True)
    assert found.numbers == (length, -1)
    assert found.differences[0].quantity.endswith(" and all that follow")


def test_a_difference_before_the_missing_record_is_named() -> None:
    assert parted(records(), edited(OTHER["data"])[:8]).stage == "data"


def test_a_window_that_is_closed_early_parts_at_its_step() -> None:
    """As of two runs with another number of micro-batches per step: the other one goes on with a micro-batch."""
    a, b = records(), records()
    b[1], b[2] = b[2], b[1]
    found = parted(a, b)
    assert (found.stage, found.numbers) == ("optimizer", (-1, 1))
    assert parted(b, a).numbers == (1, -1)


def test_a_validation_at_another_step_parts_there() -> None:
    a, b = records(), records()
    b.insert(3, {**b.pop(6), "step": 1})
    found = parted(a, b)
    assert (found.stage, found.position["step"], found.numbers) == ("evaluation", 1, (-1, 3))


def test_the_same_micro_batch_in_another_step_parts_there() -> None:
    """Traces without records of steps, whose windows differ."""
    a, b = ([record for record in records() if record["kind"] == "micro_batch"] for _ in range(2))
    b[1]["step"] = 1
    found = parted(a, b)
    assert (found.stage, found.numbers) == ("data", (1, 1))
    assert found.differences == [Difference("optimizer step that it goes into", 0, 1)]


# What only one of them has


@pytest.mark.parametrize("kind", FIRST_STAGES)
def test_a_kind_that_one_has_nowhere_is_left_out_unless_they_are_alike(kind: str) -> None:
    without = [record for record in records() if record["kind"] != kind]
    assert part(records(), without) is None
    assert part(without, records()) is None
    assert parted(records(), without, alike=True).stage == FIRST_STAGES[kind]


def test_numbers_are_those_of_the_files_where_a_kind_is_left_out() -> None:
    without = [record for record in edited(OTHER["checkpoint"]) if record["kind"] != "micro_batch"]
    assert parted(records(), without).numbers == (7, 3)


def test_a_stage_that_one_has_nowhere_is_left_out_unless_they_are_alike() -> None:
    without = records()
    for record in without:
        record["stages"].pop("clip", None)
    assert part(records(), without) is None
    found = parted(without, records(), alike=True)
    assert (found.stage, found.position["kind"]) == ("clip", "step")
    assert found.differences == [Difference("stage clip", "missing", "there")]


def test_a_stage_that_is_missing_once_is_a_difference() -> None:
    without = records()
    del without[5]["stages"]["clip"]
    found = parted(records(), without)
    assert (found.stage, found.numbers) == ("clip", (5, 5))
    assert found.differences == [Difference("stage clip", "there", "missing")]


def test_a_quantity_that_one_has_nowhere_is_left_out() -> None:
    without = records()
    for record in without:
        record["stages"].get("forward", {}).pop("num_examples", None)
    assert part(records(), without) is None
    assert part(records(), without, alike=True) is None


def test_a_quantity_that_is_missing_once_is_a_difference() -> None:
    without = records()
    del without[4]["stages"]["forward"]["num_examples"]
    found = parted(records(), without)
    assert (found.stage, found.numbers) == ("forward", (4, 4))
    assert found.differences == [Difference("num_examples", 3, "missing")]


def test_a_missing_tensor_is_a_difference() -> None:
    found = parted(records(), edited((0, "forward", "buffers", {})))
    assert found.differences == [Difference("buffers calls", "there", "missing")]
    found = parted(edited((0, "backward", "gradients", {"weight": tensor("g1", 2.0)})), records())
    assert found.differences == [Difference("gradients bias", "missing", "there")]


def test_a_longer_list_is_a_difference_where_the_other_ends() -> None:
    found = parted(records(), edited((0, "data", "ids", [4, 0, 7, 5])))
    assert found.differences == [Difference("ids[3]", "missing", 5)]
    found = parted(records(), edited((0, "scheduler", "learning_rates", [])))
    assert found.stage == "scheduler"
    assert [difference.b for difference in found.differences] == ["missing", "missing"]


def test_ids_may_be_words_or_lists() -> None:
    a, b = edited((0, "data", "ids", ["cat", "dog"])), edited((0, "data", "ids", ["cat", "cow"]))
    assert part(a, a) is None
    assert parted(a, b).differences == [Difference("ids[1]", "dog", "cow")]
    a, b = edited((0, "data", "ids", [[1, 2], [3, 4]])), edited((0, "data", "ids", [[1, 2], [3, 5]]))
    assert part(a, a) is None
    assert parted(a, b).differences == [Difference("ids[1]", [3, 4], [3, 5])]


def test_ids_differ_in_their_order() -> None:
    found = parted(edited((0, "data", "ids", [4, 0, 700])), edited((0, "data", "ids", [0, 4, 7])))
    assert [difference.quantity for difference in found.differences] == ["ids[0]", "ids[1]", "ids[2]"]


# Numbers


def test_the_largest_difference_comes_first() -> None:
    gradients = {"bias": tensor("x", 0.625), "weight": tensor("y", 1.0)}
    found = parted(records(), edited((0, "backward", "gradients", gradients), (0, "backward", "norm", (2.0).hex())))
    labels = [(difference.quantity, difference.value) for difference in found.differences]
    assert labels == [("norm of gradients weight", 1.0), ("norm of gradients bias", 0.125), ("norm", 0.5)]
    assert found.differences[0].tensor == "gradients weight"
    assert (found.differences[0].a, found.differences[0].b, found.differences[0].ulp) == (2.0, 1.0, 2**23)


def test_tensors_of_one_norm_differ_in_their_bits() -> None:
    other = edited((0, "backward", "gradients", {"bias": tensor("g0", 0.5), "weight": tensor("x", 2.0)}))
    (difference,) = parted(records(), other).differences
    assert difference == Difference("bits of gradients weight", "g1", "x", tensor="gradients weight")
    assert part(records(), other, Tolerance(ulp=1)) is None
    both = edited((0, "backward", "gradients", {"bias": tensor("y", 0.75), "weight": tensor("x", 2.0)}))
    assert [each.tensor for each in parted(records(), both).differences] == ["gradients bias", "gradients weight"]


@pytest.mark.parametrize("tolerance", [Tolerance(), Tolerance(ulp=1)])
def test_tensors_of_the_same_bits_are_equal_whatever_norm_another_device_made_of_them(tolerance: Tolerance) -> None:
    gradients = {"bias": tensor("g0", 0.5), "weight": tensor("g1", 2.0000002)}
    assert part(records(), edited((0, "backward", "gradients", gradients)), tolerance) is None


def loss(value: float | str) -> list[Json]:
    return edited((0, "forward", "loss", value.hex() if isinstance(value, float) else value))


def next_float32(value: float, num_steps: int = 1) -> float:
    number = torch.tensor(value)
    for _ in range(num_steps):
        number = torch.nextafter(number, torch.tensor(math.inf))
    return float(number)


def test_a_number_is_equal_within_so_many_ulp() -> None:
    for num_steps in (1, 4):
        other = loss(next_float32(1.25, num_steps))
        assert part(loss(1.25), other, Tolerance(ulp=num_steps)) is None
        difference = parted(loss(1.25), other, Tolerance(ulp=num_steps - 1)).differences[0]
        assert difference.ulp == num_steps
        assert difference.value == num_steps * 2**-23


def test_a_number_is_equal_within_a_relative_difference() -> None:
    assert part(loss(1.25), loss(1.26), Tolerance(rtol=0.01)) is None
    assert part(loss(-1.25), loss(-1.26), Tolerance(rtol=0.01)) is None
    assert parted(loss(1.25), loss(1.26), Tolerance(rtol=0.007)).stage == "forward"
    assert parted(loss(1.25), loss(-1.25), Tolerance(rtol=0.5)).stage == "forward"


def test_either_bound_is_enough() -> None:
    assert part(loss(1.25), loss(1.26), Tolerance(ulp=1, rtol=0.01)) is None
    assert part(loss(0.0), loss(-0.0), Tolerance(ulp=1, rtol=0.01)) is None


def test_norms_are_equal_within_a_tolerance() -> None:
    gradients = {"bias": tensor("x", 0.5), "weight": tensor("y", next_float32(2.0))}
    other = edited((0, "backward", "gradients", gradients))
    assert part(records(), other, Tolerance(ulp=1)) is None
    assert part(records(), other, Tolerance(rtol=1e-6)) is None
    assert parted(records(), other, Tolerance(rtol=1e-8)).differences[0].tensor == "gradients weight"


def test_zeros_of_two_signs_are_one_apart() -> None:
    assert parted(loss(0.0), loss(-0.0)).differences[0].ulp == 1


@pytest.mark.parametrize("tolerance", [Tolerance(), Tolerance(ulp=4), Tolerance(rtol=0.1)])
def test_nan_equals_only_nan(tolerance: Tolerance) -> None:
    assert part(loss(math.nan), loss(math.nan), tolerance) is None
    for a, b in ((math.nan, 1.0), (1.0, math.nan), (math.nan, math.inf)):
        (difference,) = parted(loss(a), loss(b), tolerance).differences
        assert (difference.ulp, difference.value) == (INCOMPARABLE, math.inf)


@pytest.mark.parametrize("tolerance", [Tolerance(), Tolerance(ulp=4), Tolerance(rtol=0.1)])
def test_infinities_equal_their_own_sign(tolerance: Tolerance) -> None:
    assert part(loss(math.inf), loss(math.inf), tolerance) is None
    for other in (-math.inf, 1.0):
        assert parted(loss(math.inf), loss(other), tolerance).differences[0].value == math.inf


def test_numbers_may_be_written_in_decimal() -> None:
    """As somebody's own writer of traces may do."""
    a, b = edited((0, "forward", "loss", 1.25)), edited((0, "forward", "loss", 1.26))
    assert part(a, records()) is None
    assert part(a, b, Tolerance(rtol=0.01)) is None
    assert parted(a, b).differences[0].ulp is not None


@pytest.mark.parametrize("value", ["0x", "0xzz", "0x1p99999", "-", ""])
def test_what_only_looks_like_a_number_is_compared_as_it_stands(value: str) -> None:
    assert part(loss(value), loss(value)) is None
    assert parted(loss(value), loss(1.25), Tolerance(rtol=0.5)).differences == [Difference("loss", value, 1.25)]


@pytest.mark.parametrize("tolerance", [Tolerance(ulp=1000), Tolerance(rtol=0.5)])
def test_with_a_tolerance_random_states_are_not_compared_but_whole_numbers_are(tolerance: Tolerance) -> None:
    assert part(records(), edited(OTHER["rng"]), tolerance) is None
    assert parted(records(), edited(OTHER["data"]), tolerance).stage == "data"
    assert parted(records(), edited((0, "forward", "num_examples", 4)), tolerance).stage == "forward"
    assert parted(records(), edited(OTHER["optimizer"]), tolerance).stage == "optimizer"


# Elements


def pinned(tmp_path: Path, stage: str, differences: list[Difference], *tensors: dict[str, Tensor]) -> list[Difference]:
    paths = [tmp_path / "a.pt", tmp_path / "b.pt"]
    for path, saved in zip(paths, tensors, strict=True):
        torch.save({stage: saved, "another": {"weight": torch.zeros(1)}}, path)
    divergence = Divergence(stage, {"kind": "step"}, differences)
    pin_down(divergence, *paths)
    return divergence.differences


def norm_differs(tensor: str) -> Difference:
    return Difference(f"norm of {tensor}", 1.0, 2.0, 2**23, tensor=tensor)


def pin_one(tmp_path: Path, a: Tensor, b: Tensor) -> Difference:
    (found,) = pinned(tmp_path, "clip", [norm_differs("gradients weight")], {"weight": a}, {"weight": b})
    return found


def test_the_element_with_the_largest_difference_is_named(tmp_path: Path) -> None:
    a = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 1e-30]])
    b = torch.tensor([[1.0, 2.5, 3.0], [4.0, 5.25, -1e-30]])  # most ULP in the last one
    assert pin_one(tmp_path, a, b) == Difference("gradients weight[0, 1]", 2.0, 2.5, 2**21)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64], ids=str)
def test_elements_are_counted_in_ulp_of_their_own_dtype(tmp_path: Path, dtype: torch.dtype) -> None:
    a = torch.ones(3, dtype=dtype)
    b = a.clone()
    b[1] += torch.finfo(dtype).eps
    found = pin_one(tmp_path, a, b)
    assert (found.quantity, found.ulp, found.value) == ("gradients weight[1]", 1, torch.finfo(dtype).eps)


def test_an_element_that_became_nan_is_the_largest_difference(tmp_path: Path) -> None:
    found = pin_one(tmp_path, torch.tensor([1.0, 1.0, math.nan]), torch.tensor([9.0, math.nan, math.nan]))
    assert found.quantity == "gradients weight[1]"  # the last one is NaN in both
    assert found.a == 1.0
    assert math.isnan(found.b)
    assert (found.ulp, found.value) == (INCOMPARABLE, math.inf)


def test_an_element_that_became_infinite_is_the_largest_difference(tmp_path: Path) -> None:
    found = pin_one(tmp_path, torch.tensor([math.inf, 3e38, 1.0]), torch.tensor([math.inf, -3e38, math.inf]))
    assert (found.quantity, found.a, found.b) == ("gradients weight[2]", 1.0, math.inf)


def test_the_sign_of_a_zero_is_an_element(tmp_path: Path) -> None:
    found = pin_one(tmp_path, torch.tensor([1.0, 0.0]), torch.tensor([1.0, -0.0]))
    assert (found.quantity, found.ulp, found.value) == ("gradients weight[1]", 1, 0.0)


def test_a_scalar_has_no_index(tmp_path: Path) -> None:
    assert pin_one(tmp_path, torch.tensor(1.0), torch.tensor(1.5)).quantity == "gradients weight"


@pytest.mark.parametrize(
    ("a", "b", "distance"),
    [(torch.tensor([3, 9]), torch.tensor([3, 7]), 2), (torch.tensor([True, False]), torch.tensor([True, True]), 1)],
)
def test_whole_numbers_stay_whole(tmp_path: Path, a: Tensor, b: Tensor, distance: int) -> None:
    found = pin_one(tmp_path, a, b)
    assert (found.quantity, found.a, found.b, found.ulp) == ("gradients weight[1]", a[1].item(), b[1].item(), distance)
    assert type(found.a) is type(a[1].item())
    assert found.value == distance


def test_other_shapes_and_dtypes_are_named(tmp_path: Path) -> None:
    found = pin_one(tmp_path, torch.zeros(2, 3), torch.zeros(3, 2))
    name = "dtype or shape of gradients weight"
    assert found == Difference(name, "torch.float32 (2, 3)", "torch.float32 (3, 2)")
    found = pin_one(tmp_path, torch.zeros(2), torch.zeros(2, dtype=torch.float16))
    assert found == Difference(name, "torch.float32 (2,)", "torch.float16 (2,)")


def test_what_the_tensors_do_not_explain_stays(tmp_path: Path) -> None:
    """Scalars, a tensor that was not saved, and one whose second run was equal; what is missing stays first."""
    scalar = Difference("loss", 1.0, 1.25, 2**21)
    missing = Difference("gradients gone", "there", "missing")
    unsaved, equal = norm_differs("gradients unsaved"), norm_differs("gradients equal")
    saved = {"equal": torch.ones(2), "weight": torch.ones(2)}
    differences = [scalar, norm_differs("gradients weight"), unsaved, equal, missing]
    found = pinned(tmp_path, "clip", differences, saved, saved | {"weight": torch.tensor([1.0, 4.0])})
    element = Difference("gradients weight[1]", 1.0, 4.0, 2**24)
    assert found == [missing, element, unsaved, equal, scalar]


def test_names_with_blanks_and_dots_are_found(tmp_path: Path) -> None:
    (found,) = pinned(
        tmp_path,
        "optimizer",
        [norm_differs("state head.weight.exp_avg")],
        {"head.weight.exp_avg": torch.ones(1)},
        {"head.weight.exp_avg": torch.zeros(1)},
    )
    assert found.quantity == "state head.weight.exp_avg[0]"


# Reading


def refusal(path: Path) -> str:
    with pytest.raises(UserError) as caught:
        read_trace(path)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_a_trace_is_read_from_its_file_and_from_its_run_folder(tmp_path: Path) -> None:
    path = write_trace(tmp_path / "run" / "trace.jsonl", records())
    for place in (path, str(path), path.parent):
        assert read_trace(place) == Trace(path, HEADER, records())


def test_blank_lines_and_ends_of_lines_do_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    lines = [json.dumps(line) for line in [HEADER, *records()]]
    path.write_bytes("\r\n".join([*lines[:4], "", *lines[4:]]).encode())  # no end of line at the end
    found = read_trace(path)
    assert found.records == records()
    assert not found.is_cut_off


@pytest.mark.parametrize("num_bytes", [1, 30, 100])
def test_half_a_last_line_is_left_out(tmp_path: Path, num_bytes: int) -> None:
    path = write_trace(tmp_path / "trace.jsonl", records())
    *whole, last = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(whole) + last[:num_bytes])
    found = read_trace(path)
    assert found.records == records()[:-1]
    assert found.is_cut_off


def test_a_whole_last_line_that_is_no_record_is_a_fault(tmp_path: Path) -> None:
    path = write_trace(tmp_path / "trace.jsonl", records())
    path.write_bytes(path.read_bytes() + b'{"kind": "stop", "stages": {}}')
    assert refusal(path).startswith(f"{path}:18: not a record of a trace (")


def test_half_a_line_in_the_middle_is_a_fault(tmp_path: Path) -> None:
    path = write_trace(tmp_path / "trace.jsonl", records())
    lines = path.read_bytes().splitlines(keepends=True)
    lines[5] = lines[5][:30] + b"\n"
    path.write_bytes(b"".join(lines))
    assert refusal(path) == f"{path}:6: not a record of a trace (Input data was truncated)"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"not JSON\n",
        b"[1]\n",
        b'{"kind": "step"}\n',
        b"\x80\x02}q\x00",
        b"PK\x03\x04\n\xff\xfe\n",
        b"{\xff}\n",
        b'{"kind": "tra',
    ],
    ids=["empty", "blank line", "words", "a list", "another kind", "pickle", "zip", "no UTF-8", "half a header"],
)
def test_what_is_no_trace_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    expected = "not a trace, which begins with a line of kind trace; name a trace or a run folder"
    assert refusal(path) == f"{path}:1: {expected}"


def test_another_version_of_the_format_is_refused(tmp_path: Path) -> None:
    path = write_trace(tmp_path / "trace.jsonl", records(), format=2)
    assert refusal(path) == f"{path}:1: format 2, but this version reads format 1"


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ({"stages": {}}, "Object missing required field `kind`"),
        ({"kind": "step"}, "Object missing required field `stages`"),
        ({"kind": "stop", "stages": {}}, "Invalid enum value 'stop' - at `$.kind`"),
        ({"kind": "step", "stages": {"clipping": {}}}, "Invalid enum value 'clipping'"),
        ({"kind": "step", "stages": {"clip": 3}}, "Expected `object`, got `int`"),
        ({"kind": "step", "step": "1", "stages": {}}, "Expected `int`, got `str` - at `$.step`"),
        ({"kind": "step", "stages": {"clip": {"gradients": {"a": ["digest"]}}}}, "Expected `array` of length 2, got 1"),
    ],
)
def test_a_record_that_cannot_be_understood_is_refused(tmp_path: Path, record: Json, reason: str) -> None:
    path = write_trace(tmp_path / "trace.jsonl", [*records(), record])
    message = refusal(path)
    assert message.startswith(f"{path}:{len(records()) + 2}: not a record of a trace (")
    assert reason in message


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    assert refusal(tmp_path / "gone.jsonl").endswith(
        "gone.jsonl: cannot be read (No such file or directory); name a trace or a run folder"
    )
    assert refusal(tmp_path) == f"{tmp_path}: no trace.jsonl in this folder; train with --trace.level full"
