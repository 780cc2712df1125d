"""Products, views, indexing and arrays whose sizes do not go together."""
# ruff: noqa: E501  (operations are kept on one line)

from __future__ import annotations

import random

import numpy as np
import torch
from torch import zeros

from corpus.wordings import SIZES, Operation, drawn, sizes


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


def _assign(r: random.Random) -> object:
    a, b, c = sizes(r, 3)
    x = zeros(a, b)
    x[0] = zeros(c)
    return x


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


def _unpack(r: random.Random) -> object:
    a, b, c = zeros(*sizes(r, 3)).shape[: r.choice((2, 1))]
    return a, b, c


TENSORS: dict[str, Operation] = {
    "mm": drawn(4, lambda _, a, b, c, d: torch.mm(zeros(a, b), zeros(c, d)), SIZES[:60]),
    "matmul": drawn(5, lambda r, a, b, c, d, e: zeros(r.choice((2, 8)), a, b) @ r.choice((zeros(2, c, d), zeros(c), zeros(c, e)))),
    "view": drawn(3, lambda r, a, b, c: zeros(a * b + 1).view(r.choice(((a, b), (-1, a * b + 2), (a, -1, a * b * 2), (a, b, c))))),
    "reshape": drawn(3, lambda r, a, b, c: zeros(1, a, b + 1).reshape(r.choice(((a, b), (1, a, b, c), (a * (b + 1) + 1, -1))))),
    "cat": drawn(4, lambda r, a, b, c, d: torch.cat(r.choice(((zeros(2, a, b), zeros(2, c, d)), (zeros(a, b), zeros(a, c)), (zeros(1, 3, a, a), zeros(1, 3, b, b)))), dim=r.choice((0, 0)))),
    "cat_dims": drawn(2, lambda _, a, b: torch.cat((zeros(a, b), zeros(a, b, 2)))),
    "broadcast": _add,
    "output_shape": _outplace,
    "einsum": drawn(4, lambda r, a, b, c, d: torch.einsum(r.choice(("ij,jk->ik", "bi,bi->b", "ab,cb->ac")), zeros(a, b), zeros(c, d))),
    "assign": _assign,
    "mask": drawn(3, lambda _, a, b, c: zeros(a, c)[zeros(b, c) > 0]),
    "index_shapes": drawn(2, lambda _, a, b: zeros(3, 3)[zeros(a, dtype=torch.long), zeros(b, dtype=torch.long)]),
    "too_many_indices": drawn(2, lambda r, a, b: r.choice((lambda: zeros(a)[:, 0], lambda: zeros(a, b)[:, :, 0]))()),
    "expand": drawn(3, lambda r, a, b, c: zeros(a, b).expand(r.choice(((a, c), (c, a, c))))),
    "copy": drawn(3, lambda _, a, b, c: zeros(a, b).copy_(zeros(c, b))),
    "bmm": drawn(5, lambda r, a, b, c, d, e: torch.bmm(zeros(a, b, c), r.choice((zeros(a, d, e), zeros(d, c, e))))),
    "bmm_dims": drawn(2, lambda _, a, b: torch.bmm(zeros(a, b), zeros(a, b))),
    "dot": drawn(2, lambda r, a, b: torch.dot(zeros(a), r.choice((zeros(b), zeros(a, b))))),
    "permute": lambda r: zeros(*sizes(r, 3)).permute(*r.choice(((0, 3, 1, 2), (0, 2), (1, 0)))),
    "dim": _dim,
    "split": drawn(3, lambda _, a, b, c: torch.split(zeros(a + b), [a, b + c])),
    "unpack": _unpack,
    "gather": drawn(2, lambda r, a, b: zeros(a, b).gather(1, zeros(r.choice((b * a, a)), dtype=torch.long))),
    "scatter": drawn(2, lambda _, a, b: zeros(a, 4).scatter_(1, zeros(a * b + 1, 2, dtype=torch.long), zeros(3, 1))),
    "numpy_matmul": drawn(4, lambda _, a, b, c, d: np.zeros((a, b)) @ np.zeros((c, d))),
    "numpy_dot": drawn(4, lambda _, a, b, c, d: np.dot(np.zeros((a, b)), np.zeros((c, d)))),
    "numpy_broadcast": drawn(3, lambda _, a, b, c: np.zeros((a, b)) + np.zeros((a, c))),
    "numpy_concatenate": drawn(4, lambda r, a, b, c, d: np.concatenate((np.zeros((a, b)), r.choice((np.zeros((c, d)), np.zeros(c)))))),
    "numpy_reshape": drawn(2, lambda r, a, b: np.zeros(a * b + 1).reshape(r.choice(((a, b), (-1, a * b))))),
    "addmm": drawn(4, lambda _, a, b, c, d: torch.addmm(zeros(a), zeros(b, c), zeros(c, d))),
    "cdist": drawn(3, lambda _, a, b, c: torch.cdist(zeros(2, a, b), zeros(2, a, c))),
    "where": drawn(3, lambda _, a, b, c: torch.where(zeros(a, b) > 0, zeros(a, c), zeros(a, b))),
    "mv": drawn(3, lambda _, a, b, c: torch.mv(zeros(a, b), zeros(c))),
    "linalg_square": drawn(2, lambda r, a, b: r.choice((torch.linalg.inv, torch.linalg.det, torch.linalg.cholesky))(zeros(a, b))),
    "tensor_dataset": drawn(2, lambda _, a, b: torch.utils.data.TensorDataset(zeros(a, 3), zeros(b))),
}  # fmt: skip
