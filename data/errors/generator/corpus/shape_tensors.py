"""Products, views, indexing and arrays whose sizes do not go together."""
# ruff: noqa: E501  (operations are kept on one line)

from __future__ import annotations

import random

import numpy as np
import torch
from torch import zeros

from corpus.wordings import SIZES, Operation, sizes


def _mm(r: random.Random) -> object:
    a, b, c, d = sizes(r, 4, SIZES[:60])
    return torch.mm(zeros(a, b), zeros(c, d))


def _matmul(r: random.Random) -> object:
    a, b, c, d, e = sizes(r, 5)
    return zeros(r.choice((2, 8)), a, b) @ r.choice((zeros(2, c, d), zeros(c), zeros(c, e)))


def _view(r: random.Random) -> object:
    a, b, c = sizes(r, 3)
    return zeros(a * b + 1).view(r.choice(((a, b), (-1, a * b + 2), (a, -1, a * b * 2), (a, b, c))))


def _reshape(r: random.Random) -> object:
    a, b, c = sizes(r, 3)
    return zeros(1, a, b + 1).reshape(r.choice(((a, b), (1, a, b, c), (a * (b + 1) + 1, -1))))


def _cat(r: random.Random) -> object:
    a, b, c, d = sizes(r, 4)
    return torch.cat(
        r.choice(
            ((zeros(2, a, b), zeros(2, c, d)), (zeros(a, b), zeros(a, c)), (zeros(1, 3, a, a), zeros(1, 3, b, b)))
        ),
        dim=r.choice((0, 0)),
    )


def _cat_dims(r: random.Random) -> object:
    a, b = sizes(r, 2)
    return torch.cat((zeros(a, b), zeros(a, b, 2)))


def _add(r: random.Random) -> object:
    a, b, c = sizes(r, 3, SIZES[:60])
    x, y = r.choice(
        (
            (zeros(a, b), zeros(a, c)),
            (zeros(2, a, b), zeros(2, c, b)),
            (zeros(a), zeros(b)),
            (zeros(1, 3, a, a), zeros(1, 3, b, b)),
        )
    )
    return r.choice((torch.add, torch.mul, torch.sub, torch.div, torch.maximum, torch.eq))(x, y)


def _outplace(r: random.Random) -> object:
    a, b = sizes(r, 2)
    x = zeros(a)
    x += zeros(b, a)
    return x


def _einsum(r: random.Random) -> object:
    a, b, c, d = sizes(r, 4)
    return torch.einsum(r.choice(("ij,jk->ik", "bi,bi->b", "ab,cb->ac")), zeros(a, b), zeros(c, d))


def _assign(r: random.Random) -> object:
    a, b, c = sizes(r, 3)
    x = zeros(a, b)
    x[0] = zeros(c)
    return x


def _mask(r: random.Random) -> object:
    a, b, c = sizes(r, 3)
    return zeros(a, c)[zeros(b, c) > 0]


def _index_shapes(r: random.Random) -> object:
    a, b = sizes(r, 2)
    return zeros(3, 3)[zeros(a, dtype=torch.long), zeros(b, dtype=torch.long)]


def _too_many_indices(r: random.Random) -> object:
    a, b = sizes(r, 2)
    return r.choice((lambda: zeros(a)[:, 0], lambda: zeros(a, b)[:, :, 0]))()


def _expand(r: random.Random) -> object:
    a, b, c = sizes(r, 3)
    return zeros(a, b).expand(r.choice(((a, c), (c, a, c))))


def _copy(r: random.Random) -> object:
    a, b, c = sizes(r, 3)
    return zeros(a, b).copy_(zeros(c, b))


def _bmm(r: random.Random) -> object:
    a, b, c, d, e = sizes(r, 5)
    return torch.bmm(zeros(a, b, c), r.choice((zeros(a, d, e), zeros(d, c, e))))


def _bmm_dims(r: random.Random) -> object:
    a, b = sizes(r, 2)
    return torch.bmm(zeros(a, b), zeros(a, b))


def _dot(r: random.Random) -> object:
    a, b = sizes(r, 2)
    return torch.dot(zeros(a), r.choice((zeros(b), zeros(a, b))))


def _permute(r: random.Random) -> object:
    return zeros(*sizes(r, 3)).permute(*r.choice(((0, 3, 1, 2), (0, 2), (1, 0))))


def _dim(r: random.Random) -> object:
    x = zeros(*sizes(r, r.choice((1, 2))))
    return r.choice(
        (
            lambda: x.sum(3),
            lambda: torch.softmax(x, 2),
            lambda: x.unsqueeze(5),
            lambda: x.transpose(1, 3),
            lambda: x.size(4),
            lambda: x.flatten(2),
        )
    )()


def _split(r: random.Random) -> object:
    a, b, c = sizes(r, 3)
    return torch.split(zeros(a + b), [a, b + c])


def _unpack(r: random.Random) -> object:
    a, b, c = zeros(*sizes(r, 3)).shape[: r.choice((2, 1))]
    return a, b, c


def _gather(r: random.Random) -> object:
    a, b = sizes(r, 2)
    return zeros(a, b).gather(1, zeros(r.choice((b * a, a)), dtype=torch.long))


def _scatter(r: random.Random) -> object:
    a, b = sizes(r, 2)
    return zeros(a, 4).scatter_(1, zeros(a * b + 1, 2, dtype=torch.long), zeros(3, 1))


def _numpy_matmul(r: random.Random) -> object:
    a, b, c, d = sizes(r, 4)
    return np.zeros((a, b)) @ np.zeros((c, d))


def _numpy_dot(r: random.Random) -> object:
    a, b, c, d = sizes(r, 4)
    return np.dot(np.zeros((a, b)), np.zeros((c, d)))


def _numpy_broadcast(r: random.Random) -> object:
    a, b, c = sizes(r, 3)
    return np.zeros((a, b)) + np.zeros((a, c))


def _numpy_concatenate(r: random.Random) -> object:
    a, b, c, d = sizes(r, 4)
    return np.concatenate((np.zeros((a, b)), r.choice((np.zeros((c, d)), np.zeros(c)))))


def _numpy_reshape(r: random.Random) -> object:
    a, b = sizes(r, 2)
    return np.zeros(a * b + 1).reshape(r.choice(((a, b), (-1, a * b))))


def _addmm(r: random.Random) -> object:
    a, b, c, d = sizes(r, 4)
    return torch.addmm(zeros(a), zeros(b, c), zeros(c, d))


def _cdist(r: random.Random) -> object:
    a, b, c = sizes(r, 3)
    return torch.cdist(zeros(2, a, b), zeros(2, a, c))


def _where(r: random.Random) -> object:
    a, b, c = sizes(r, 3)
    return torch.where(zeros(a, b) > 0, zeros(a, c), zeros(a, b))


def _mv(r: random.Random) -> object:
    a, b, c = sizes(r, 3)
    return torch.mv(zeros(a, b), zeros(c))


def _solve(r: random.Random) -> object:
    a, b = sizes(r, 2)
    return r.choice((torch.linalg.inv, torch.linalg.det, torch.linalg.cholesky))(zeros(a, b))


def _tensor_dataset(r: random.Random) -> object:
    a, b = sizes(r, 2)
    return torch.utils.data.TensorDataset(zeros(a, 3), zeros(b))


TENSORS: dict[str, Operation] = {
    "mm": _mm, "matmul": _matmul, "view": _view, "reshape": _reshape, "cat": _cat, "cat_dims": _cat_dims, "broadcast": _add,
    "output_shape": _outplace, "einsum": _einsum, "assign": _assign, "mask": _mask, "index_shapes": _index_shapes, "too_many_indices":
    _too_many_indices, "expand": _expand, "copy": _copy, "bmm": _bmm, "bmm_dims": _bmm_dims, "dot": _dot, "permute": _permute, "dim":
    _dim, "split": _split, "unpack": _unpack, "gather": _gather, "scatter": _scatter, "numpy_matmul": _numpy_matmul, "numpy_dot":
    _numpy_dot, "numpy_broadcast": _numpy_broadcast, "numpy_concatenate": _numpy_concatenate, "numpy_reshape": _numpy_reshape,
    "addmm": _addmm, "cdist": _cdist, "where": _where, "mv": _mv, "linalg_square": _solve, "tensor_dataset": _tensor_dataset,
}  # fmt: skip
