"""Distance between floating numbers, counted in units in the last place: how many numbers of the type lie between."""

from __future__ import annotations

import math

import torch
from torch import Tensor

INCOMPARABLE = 2**63 - 1
"""The distance to a NaN, or between two numbers so far apart that it would not fit."""

INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def ulp_distances(a: Tensor, b: Tensor) -> Tensor:
    """Elementwise distance of two tensors of one shape and dtype, int64; 0 only where all bits agree.

    The bits of IEEE 754 numbers, read as sign and magnitude, count the numbers in order; -0 and +0 are 1 apart here.
    Two NaNs are 0 apart where their bits agree, else incomparable. Integers and booleans are subtracted.
    """
    if a.is_complex():
        return ulp_distances(torch.view_as_real(a), torch.view_as_real(b)).amax(dim=-1)
    floating = a.is_floating_point()
    left, right = (_places(a), _places(b)) if floating else (a.to(torch.int64), b.to(torch.int64))
    distance = torch.maximum(left, right) - torch.minimum(left, right)  # below zero where 64 bits do not hold it
    incomparable = distance < 0
    if floating:
        incomparable |= a.isnan() | b.isnan()
    return torch.where(left == right, 0, torch.where(incomparable, INCOMPARABLE, distance))


def ulp_distance(a: float, b: float) -> int:
    """Distance of two numbers, in float32 where both are float32 numbers, else in float64."""
    dtype = torch.float32 if _is_float32(a) and _is_float32(b) else torch.float64
    return int(ulp_distances(torch.tensor(a, dtype=dtype), torch.tensor(b, dtype=dtype)))


def _is_float32(value: float) -> bool:
    return not math.isfinite(value) or float(torch.tensor(value, dtype=torch.float64).float()) == value


def _places(tensor: Tensor) -> Tensor:
    """Position of each number on the line of all numbers of its type, int64; negative ones below zero."""
    integers = INTEGERS[tensor.element_size()]
    bits = tensor.contiguous().view(integers).to(torch.int64)
    return torch.where(bits < 0, torch.iinfo(integers).min - bits - 1, bits)
