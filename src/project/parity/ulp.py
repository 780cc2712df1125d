"""Distance between floating-point numbers in units in the last place (ULP)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

INCOMPARABLE = 2**63 - 1
"""The distance to a NaN, and any distance that does not fit into int64."""

INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def ulp_distances(a: Tensor, b: Tensor) -> Tensor:
    """Elementwise distance of two tensors of the same shape and dtype, int64; 0 only for equal bits.

    The bits of an IEEE 754 number, read as sign and magnitude, are its place among all numbers; -0 and +0 are 1 apart.
    Two NaNs with different bits are `INCOMPARABLE`. Integers and booleans are subtracted.
    """
    if a.is_complex():
        return ulp_distances(torch.view_as_real(a), torch.view_as_real(b)).amax(dim=-1)
    floating = a.is_floating_point()
    left, right = (_places(a), _places(b)) if floating else (a.to(torch.int64), b.to(torch.int64))
    distance = torch.maximum(left, right) - torch.minimum(left, right)  # negative on overflow
    incomparable = distance < 0
    if floating:
        incomparable |= a.isnan() | b.isnan()
    return torch.where(left == right, 0, torch.where(incomparable, INCOMPARABLE, distance))


def ulp_distance(a: float, b: float) -> int:
    """Distance of two numbers: in float32 if float32 holds both exactly, else in float64."""
    dtype = torch.float32 if _is_float32(a) and _is_float32(b) else torch.float64
    return int(ulp_distances(torch.tensor(a, dtype=dtype), torch.tensor(b, dtype=dtype)))


def _is_float32(value: float) -> bool:
    return not math.isfinite(value) or float(torch.tensor(value, dtype=torch.float64).float()) == value


def _places(tensor: Tensor) -> Tensor:
    """The place of each number among all numbers of its type, int64; negative numbers below zero."""
    integers = INTEGERS[tensor.element_size()]
    bits = tensor.contiguous().view(integers).to(torch.int64)
    return torch.where(bits < 0, torch.iinfo(integers).min - bits - 1, bits)
