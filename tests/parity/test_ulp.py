"""Distances in ULP, against steps of NumPy's nextafter and against Python's integers."""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from project.parity.ulp import INCOMPARABLE, ulp_distance, ulp_distances

WIDTHS = {torch.bfloat16: 16, torch.float16: 16, torch.float32: 32, torch.float64: 64}
INTEGERS = {16: torch.int16, 32: torch.int32, 64: torch.int64}
INFINITIES = {torch.bfloat16: 0x7F80, torch.float16: 0x7C00, torch.float32: 0x7F800000, torch.float64: 0x7FF << 52}
"""Bits of +infinity; whatever has larger ones below the sign is no number."""

DTYPES = pytest.mark.parametrize("dtype", WIDTHS, ids=str)


def from_bits(bits: int, dtype: torch.dtype) -> Tensor:
    """() of the dtype."""
    width = WIDTHS[dtype]
    return torch.tensor(bits - (bits >> (width - 1) << width), dtype=INTEGERS[width]).view(dtype)


def oracle(a: int, b: int, dtype: torch.dtype) -> int:
    """The distance of two numbers by their bits, in integers without bounds."""
    places = []
    for bits in (a, b):
        sign, magnitude = divmod(bits, 1 << (WIDTHS[dtype] - 1))
        if magnitude > INFINITIES[dtype] and a != b:
            return INCOMPARABLE
        places.append(-1 - magnitude if sign else magnitude)
    return min(abs(places[0] - places[1]), INCOMPARABLE)


def bits_of(dtype: torch.dtype) -> st.SearchStrategy[int]:
    """Any bits of the dtype, and often those near zero, near infinity and at the ends, of either sign."""
    sign = 1 << (WIDTHS[dtype] - 1)
    edges = [0, 1, 2, INFINITIES[dtype] - 1, INFINITIES[dtype], INFINITIES[dtype] + 1, sign - 1]
    return st.integers(0, 2 * sign - 1) | st.sampled_from([edge + part for edge in edges for part in (0, sign)])


@DTYPES
@given(data=st.data())
def test_distances_are_those_of_the_bits_in_either_direction(dtype: torch.dtype, data: st.DataObject) -> None:
    a, b = data.draw(bits_of(dtype)), data.draw(bits_of(dtype))
    left, right = from_bits(a, dtype), from_bits(b, dtype)
    expected = oracle(a, b, dtype)
    assert int(ulp_distances(left, right)) == int(ulp_distances(right, left)) == expected
    assert (expected == 0) == (a == b)


@pytest.mark.parametrize("dtype", [numpy.float16, numpy.float32, numpy.float64])
@given(data=st.data())
def test_steps_of_nextafter_are_counted(dtype: Any, data: st.DataObject) -> None:
    """A walk across zero is one longer here: nextafter goes from -0 past +0."""
    width = 8 * numpy.dtype(dtype).itemsize
    start = dtype(data.draw(st.floats(width=width, allow_nan=False, allow_infinity=False)))
    num_steps = data.draw(st.integers(0, 40))
    with numpy.errstate(over="ignore", under="ignore"):
        end, taken = start, 0
        while taken < num_steps and end != numpy.inf:
            end, taken = numpy.nextafter(end, dtype(numpy.inf)), taken + 1
    crossed = bool(numpy.signbit(start)) and not bool(numpy.signbit(end))
    assert int(ulp_distances(torch.tensor(start), torch.tensor(end))) == taken + crossed


@DTYPES
def test_neighbours_are_one_apart(dtype: torch.dtype) -> None:
    smallest = from_bits(1, dtype)
    largest = torch.tensor(torch.finfo(dtype).max, dtype=dtype)
    zero, infinity = torch.zeros((), dtype=dtype), torch.tensor(math.inf, dtype=dtype)
    assert int(ulp_distances(-zero, zero)) == 1
    assert int(ulp_distances(zero, smallest)) == 1
    assert int(ulp_distances(-smallest, smallest)) == 3  # -smallest, -0, +0, smallest
    assert int(ulp_distances(largest, infinity)) == 1
    one = torch.ones((), dtype=dtype)
    assert int(ulp_distances(one, one + torch.finfo(dtype).eps)) == 1


def test_the_ends_of_float64_are_too_far_apart_to_be_counted() -> None:
    largest = torch.tensor([1.7e308, -1.7e308, math.inf, 0.0], dtype=torch.float64)
    assert ulp_distances(largest, -largest).tolist() == [INCOMPARABLE, INCOMPARABLE, INCOMPARABLE, 1]
    one = torch.ones((), dtype=torch.float64)
    assert int(ulp_distances(one, -one)) == 2 * 0x3FF0000000000000 + 1  # fits


@DTYPES
def test_nan_is_far_from_all_but_its_own_bits(dtype: torch.dtype) -> None:
    nan = torch.tensor(math.nan, dtype=dtype)
    for other in (0.0, 1.0, math.inf, -math.inf):
        assert int(ulp_distances(nan, torch.tensor(other, dtype=dtype))) == INCOMPARABLE
    assert int(ulp_distances(nan, nan.clone())) == 0
    assert int(ulp_distances(nan, from_bits(INFINITIES[dtype] + 1, dtype))) == INCOMPARABLE


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int8, torch.int32, torch.int64], ids=str)
def test_whole_numbers_are_subtracted(dtype: torch.dtype) -> None:
    a, b = torch.tensor([0, 1, 1]).to(dtype), torch.tensor([1, 1, 0]).to(dtype)
    assert ulp_distances(a, b).tolist() == [1, 0, 1]


def test_whole_numbers_too_far_apart_do_not_wrap() -> None:
    ends = torch.iinfo(torch.int64)
    assert ulp_distances(torch.tensor([ends.max]), torch.tensor([ends.min])).tolist() == [INCOMPARABLE]
    assert ulp_distances(torch.tensor([255]).to(torch.uint8), torch.tensor([0]).to(torch.uint8)).tolist() == [255]


@pytest.mark.parametrize("dtype", [*WIDTHS, torch.int64, torch.float8_e4m3fn], ids=str)
@pytest.mark.parametrize("shape", [(0,), (0, 3), (), (2, 3)], ids=str)
def test_the_shape_is_kept(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    tensor = torch.ones(shape).to(dtype)
    assert ulp_distances(tensor, tensor).shape == shape
    assert ulp_distances(tensor, tensor).dtype == torch.int64


def test_tensors_need_not_be_contiguous() -> None:
    a = torch.arange(6.0).reshape(2, 3)
    assert int(ulp_distances(a.T, a.reshape(2, 3).T.contiguous()).sum()) == 0


def is_float32(value: float) -> bool:
    return not math.isfinite(value) or float(numpy.float32(value)) == value


NUMBERS = st.floats(allow_nan=False) | st.floats(width=32, allow_nan=False)


@given(NUMBERS, NUMBERS)
def test_python_numbers_are_counted_in_float32_where_both_are_such(a: float, b: float) -> None:
    with numpy.errstate(over="ignore"):
        dtype, code = (torch.float32, "f") if is_float32(a) and is_float32(b) else (torch.float64, "d")
    bits = [struct.unpack({"f": "I", "d": "Q"}[code], struct.pack(code, value))[0] for value in (a, b)]
    assert ulp_distance(a, b) == ulp_distance(b, a) == oracle(bits[0], bits[1], dtype)


def test_a_number_that_float32_cannot_hold_is_counted_in_float64() -> None:
    assert ulp_distance(1.0, 1.0 + 2**-23) == 1
    assert ulp_distance(1.0, 1.0 + 2**-52) == 1
    assert ulp_distance(0.5, 0.1) == oracle(0x3FE0000000000000, 0x3FB999999999999A, torch.float64)
    assert ulp_distance(1e300, 1e300 * (1 + 2**-52)) == 1
    assert ulp_distance(-0.0, 0.0) == 1
    assert ulp_distance(math.nan, math.nan) == 0
    assert ulp_distance(math.nan, 1.0) == INCOMPARABLE
