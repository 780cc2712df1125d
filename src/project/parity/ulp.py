"""Distance between floating numbers, counted in units in the last place: how many numbers of the type lie between."""

from __future__ import annotations

import math
import struct

import torch
from torch import Tensor

INCOMPARABLE = 2**63 - 1
"""The distance where exactly one of two numbers is not a number, or where it would not fit."""

INTEGERS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


def ulp_distances(a: Tensor, b: Tensor) -> Tensor:
    """Elementwise distance of two tensors of one shape and dtype, int64; 0 only where all bits agree.

    The bits of IEEE 754 numbers, read as sign and magnitude, count the numbers in order; -0 and +0 are 1 apart here.
    """
    if not a.is_floating_point():
        return (a.to(torch.int64) - b.to(torch.int64)).abs()
    left, right = _places(a), _places(b)
    distance = (left - right).abs()
    too_far = (left < 0) != (right < 0) if a.element_size() == 8 else torch.zeros_like(left, dtype=torch.bool)
    same = _bits(a) == _bits(b)
    incomparable = (a.isnan() | b.isnan() | (too_far & (distance < 0))) & ~same
    return torch.where(same, 0, torch.where(incomparable, INCOMPARABLE, distance))


def ulp_distance(a: float, b: float) -> int:
    """Distance of two numbers, in float32 where both are float32 numbers, else in float64."""
    dtype = torch.float32 if _is_float32(a) and _is_float32(b) else torch.float64
    return int(ulp_distances(torch.tensor(a, dtype=dtype), torch.tensor(b, dtype=dtype)))


def _is_float32(value: float) -> bool:
    if not math.isfinite(value):
        return True
    try:
        return bool(struct.unpack("f", struct.pack("f", value))[0] == value)
    except OverflowError:
        return False


def _bits(tensor: Tensor) -> Tensor:
    return tensor.contiguous().view(INTEGERS[tensor.element_size()]).to(torch.int64)


def _places(tensor: Tensor) -> Tensor:
    """Position of each number on the line of all numbers of its type; negative ones below zero."""
    bits = _bits(tensor)
    lowest = torch.iinfo(INTEGERS[tensor.element_size()]).min
    return torch.where(bits < 0, lowest - bits - 1, bits)
