"""Layers and losses called with sizes that do not fit them."""
# ruff: noqa: E501  (operations are kept on one line)

from __future__ import annotations

import random

import torch
import torch.nn.functional as F
from torch import nn, zeros

from corpus.wordings import CHANNELS, SIZES, Operation, drawn, sizes


def _conv2d(r: random.Random) -> object:
    given, wanted, out = r.sample(CHANNELS[:18], 3)
    kernel, side = r.choice((1, 3, 5, 7)), r.choice((28, 32, 64))
    return nn.Conv2d(wanted, out, kernel)(zeros(r.choice((1, 2, 8, 16)), given, side, side))


def _conv1d(r: random.Random) -> object:
    given, wanted, out = r.sample(CHANNELS[:18], 3)
    return nn.Conv1d(wanted, out, 3)(zeros(r.choice((1, 4, 16)), given, r.choice((50, 100, 128))))


def _conv3d(r: random.Random) -> object:
    given, wanted, out = r.sample(CHANNELS[:12], 3)
    return nn.Conv3d(wanted, out, 3)(zeros(1, given, 8, 16, 16))


def _conv_transpose(r: random.Random) -> object:
    given, wanted, out = r.sample(CHANNELS[:16], 3)
    return nn.ConvTranspose2d(wanted, out, 4)(zeros(2, given, 8, 8))


def _conv_dims(r: random.Random) -> object:
    layer = r.choice((nn.Conv1d, nn.Conv2d, nn.Conv3d))
    return layer(3, 8, 3)(zeros(*sizes(r, r.choice((5, 6)) if layer is not nn.Conv3d else 3)))


def _kernel_too_large(r: random.Random) -> object:
    kernel = r.choice((5, 7, 11))
    channels = r.choice((1, 3, 16, 64))
    return nn.Conv2d(channels, 4, kernel)(zeros(2, channels, r.randint(1, kernel - 1), r.randint(1, kernel - 1)))


def _lstm_hidden(r: random.Random) -> object:
    batch, other, features, hidden = sizes(r, 4, SIZES[:30])
    state = zeros(r.choice((1, 2)), other, hidden)
    return nn.LSTM(features, hidden, batch_first=True)(zeros(batch, 5, features), (state, state))


def _attention_mask(r: random.Random) -> object:
    steps, other = sizes(r, 2)
    x = zeros(2, steps, 16)
    return nn.MultiheadAttention(16, 4, batch_first=True)(x, x, x, attn_mask=zeros(other, other))


def _key_padding(r: random.Random) -> object:
    steps, other = sizes(r, 2)
    x = zeros(2, steps, 16)
    return nn.MultiheadAttention(16, 4, batch_first=True)(x, x, x, key_padding_mask=zeros(2, other, dtype=torch.bool))


def _transformer(r: random.Random) -> object:
    given = sizes(r, 1)[0]
    return nn.Transformer(r.choice((256, 512)) + 8, 8, 1, 1)(zeros(5, 2, given), zeros(5, 2, given))


def _batch_norm_dims(r: random.Random) -> object:
    kind, dims = r.choice(((nn.BatchNorm2d, 3), (nn.BatchNorm1d, 4), (nn.BatchNorm3d, 4), (nn.BatchNorm2d, 2)))
    return kind(8)(zeros(*[8] * dims))


def _pad(r: random.Random) -> object:
    side = r.choice((2, 3, 4))
    return F.pad(zeros(1, 3, side, side), (r.choice((5, 6, 7)),) * 4, mode="reflect")


LAYERS: dict[str, Operation] = {
    "linear": drawn(4, lambda _, batch, given, wanted, out: nn.Linear(wanted, out)(zeros(batch, given)), SIZES[:60]),
    "linear/2": drawn(3, lambda r, given, wanted, out: nn.Sequential(nn.Flatten(), nn.Linear(wanted, out), nn.ReLU())(zeros(r.choice((1, 4, 8, 16, 32, 64)), given, 1)), SIZES[:60]),
    "conv2d": _conv2d,
    "conv1d": _conv1d,
    "conv3d": _conv3d,
    "conv_transpose": _conv_transpose,
    "conv_dims": _conv_dims,
    "kernel_size": _kernel_too_large,
    "rnn_input": drawn(5, lambda r, batch, steps, given, wanted, hidden: r.choice((nn.LSTM, nn.GRU, nn.RNN))(wanted, hidden, batch_first=True)(zeros(batch, steps, given))),
    "rnn_hidden": _lstm_hidden,
    "rnn_hidden/2": drawn(4, lambda _, batch, other, features, hidden: nn.GRU(features, hidden, batch_first=True)(zeros(batch, 5, features), zeros(1, other, hidden)), SIZES[:30]),
    "rnn_cell": drawn(4, lambda r, batch, given, wanted, hidden: r.choice((nn.LSTMCell, nn.GRUCell))(wanted, hidden)(zeros(batch, given))),
    "attention": drawn(2, lambda r, given, steps: nn.MultiheadAttention(r.choice((64, 128)) * 3, 4)(*[zeros(steps, 2, given)] * 3)),
    "attention_mask": _attention_mask,
    "attention_mask/2": _key_padding,
    "heads": lambda r: nn.MultiheadAttention(r.choice((50, 70, 100, 130)), r.choice((3, 8, 12))),
    "transformer": _transformer,
    "sdpa": drawn(4, lambda _, a, b, c, d: F.scaled_dot_product_attention(zeros(2, 4, a, b), zeros(2, 4, c, d), zeros(2, 4, c, d))),
    "layer_norm": drawn(3, lambda _, a, b, c: nn.LayerNorm(a)(zeros(b, c))),
    "batch_norm": drawn(2, lambda _, given, wanted: nn.BatchNorm2d(wanted)(zeros(2, given, 4, 4))),
    "norm_dims": _batch_norm_dims,
    "group_norm": lambda r: r.choice((lambda: nn.GroupNorm(r.choice((5, 7)), r.choice((8, 12, 16))), lambda: nn.GroupNorm(4, 16)(zeros(2, r.choice((12, 20)), 4))))(),
    "loss_broadcast": drawn(3, lambda r, a, b, c: r.choice((F.mse_loss, F.l1_loss, F.smooth_l1_loss))(zeros(a, b), zeros(a, c)), SIZES),
    "bce": drawn(2, lambda r, a, b: F.binary_cross_entropy(zeros(a, 1), zeros(r.choice((a, b)))), SIZES),
    "bce_logits": drawn(2, lambda r, a, b: F.binary_cross_entropy_with_logits(zeros(a, 1), zeros(r.choice((a, b)))), SIZES),
    "cross_entropy": drawn(3, lambda _, a, b, c: F.cross_entropy(zeros(a, c), zeros(b, dtype=torch.long)), SIZES),
    "cross_entropy_dims": drawn(2, lambda _, a, b: F.cross_entropy(zeros(a, b), zeros(a, 1, dtype=torch.long))),
    "cross_entropy_images": drawn(3, lambda r, a, b, c: F.cross_entropy(zeros(2, 5, a, b), zeros(2, r.choice((c, a)), c, dtype=torch.long))),
    "cross_entropy_dims/2": drawn(2, lambda r, a, b: F.cross_entropy(zeros(2, 5, a, b), zeros(2, r.choice((1, 3)), a, b, dtype=torch.long)), SIZES[:30]),
    "nll": drawn(2, lambda _, a, b: F.nll_loss(zeros(a, 5), zeros(b, dtype=torch.long))),
    "cosine_similarity": drawn(3, lambda _, a, b, c: F.cosine_similarity(zeros(a, b), zeros(a, c))),
    "kl_div": drawn(3, lambda _, a, b, c: F.kl_div(zeros(a, b), zeros(a, c), reduction="batchmean")),
    "interpolate": lambda r: F.interpolate(zeros(*sizes(r, r.choice((2, 3)))), size=(8, 8), mode=r.choice(("bilinear", "bicubic"))),
    "pad": _pad,
    "pool": lambda r: r.choice((F.max_pool2d, F.avg_pool2d))(zeros(1, r.choice((8, 64, 512)), 1, 1), r.choice((2, 3))),
    "triplet": drawn(3, lambda _, a, b, c: F.triplet_margin_loss(zeros(a, b), zeros(a, c), zeros(a, b))),
    "embedding_bag": lambda r: nn.EmbeddingBag(10, 3)(zeros(*sizes(r, 3), dtype=torch.long)),
    "bilinear": drawn(4, lambda _, a, b, c, d: nn.Bilinear(a, b, 4)(zeros(2, c), zeros(2, d))),
    "pixel_shuffle": lambda r: nn.PixelShuffle(r.choice((2, 4)))(zeros(1, r.choice((3, 6, 9)), 4, 4)),
    "unflatten": drawn(2, lambda _, a, b: nn.Unflatten(1, (a, b))(zeros(2, a * b + 1))),
    "grid_sample": lambda r: F.grid_sample(zeros(r.choice((2, 3)), 3, 8, 8), zeros(r.choice((1, 4)), 8, 8, 2), align_corners=False),
}  # fmt: skip
