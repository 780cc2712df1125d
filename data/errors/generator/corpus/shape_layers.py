"""Layers and losses called with sizes that do not fit them."""
# ruff: noqa: E501  (operations are kept on one line)

from __future__ import annotations

import random

import torch
import torch.nn.functional as F
from torch import nn, zeros

from corpus.wordings import CHANNELS, SIZES, Operation, sizes


def _linear(r: random.Random) -> object:
    batch, given, wanted, out = sizes(r, 4, SIZES[:60])
    return nn.Linear(wanted, out)(zeros(batch, given))


def _sequential(r: random.Random) -> object:
    given, wanted, out = sizes(r, 3, SIZES[:60])
    return nn.Sequential(nn.Flatten(), nn.Linear(wanted, out), nn.ReLU())(
        zeros(r.choice((1, 4, 8, 16, 32, 64)), given, 1)
    )


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


def _lstm_input(r: random.Random) -> object:
    batch, steps, given, wanted, hidden = sizes(r, 5)
    return r.choice((nn.LSTM, nn.GRU, nn.RNN))(wanted, hidden, batch_first=True)(zeros(batch, steps, given))


def _lstm_hidden(r: random.Random) -> object:
    batch, other, features, hidden = sizes(r, 4, SIZES[:30])
    state = zeros(r.choice((1, 2)), other, hidden)
    return nn.LSTM(features, hidden, batch_first=True)(zeros(batch, 5, features), (state, state))


def _gru_hidden(r: random.Random) -> object:
    batch, other, features, hidden = sizes(r, 4, SIZES[:30])
    return nn.GRU(features, hidden, batch_first=True)(zeros(batch, 5, features), zeros(1, other, hidden))


def _rnn_cell(r: random.Random) -> object:
    batch, given, wanted, hidden = sizes(r, 4)
    return r.choice((nn.LSTMCell, nn.GRUCell))(wanted, hidden)(zeros(batch, given))


def _attention(r: random.Random) -> object:
    given, steps = sizes(r, 2)
    return nn.MultiheadAttention(r.choice((64, 128)) * 3, 4)(*[zeros(steps, 2, given)] * 3)


def _attention_mask(r: random.Random) -> object:
    steps, other = sizes(r, 2)
    x = zeros(2, steps, 16)
    return nn.MultiheadAttention(16, 4, batch_first=True)(x, x, x, attn_mask=zeros(other, other))


def _key_padding(r: random.Random) -> object:
    steps, other = sizes(r, 2)
    x = zeros(2, steps, 16)
    return nn.MultiheadAttention(16, 4, batch_first=True)(x, x, x, key_padding_mask=zeros(2, other, dtype=torch.bool))


def _heads(r: random.Random) -> object:
    return nn.MultiheadAttention(r.choice((50, 70, 100, 130)), r.choice((3, 8, 12)))


def _transformer(r: random.Random) -> object:
    given = sizes(r, 1)[0]
    return nn.Transformer(r.choice((256, 512)) + 8, 8, 1, 1)(zeros(5, 2, given), zeros(5, 2, given))


def _sdpa(r: random.Random) -> object:
    a, b, c, d = sizes(r, 4)
    return F.scaled_dot_product_attention(zeros(2, 4, a, b), zeros(2, 4, c, d), zeros(2, 4, c, d))


def _layer_norm(r: random.Random) -> object:
    a, b, c = sizes(r, 3)
    return nn.LayerNorm(a)(zeros(b, c))


def _batch_norm(r: random.Random) -> object:
    given, wanted = sizes(r, 2)
    return nn.BatchNorm2d(wanted)(zeros(2, given, 4, 4))


def _batch_norm_dims(r: random.Random) -> object:
    kind, dims = r.choice(((nn.BatchNorm2d, 3), (nn.BatchNorm1d, 4), (nn.BatchNorm3d, 4), (nn.BatchNorm2d, 2)))
    return kind(8)(zeros(*[8] * dims))


def _group_norm(r: random.Random) -> object:
    return r.choice(
        (
            lambda: nn.GroupNorm(r.choice((5, 7)), r.choice((8, 12, 16))),
            lambda: nn.GroupNorm(4, 16)(zeros(2, r.choice((12, 20)), 4)),
        )
    )()


def _loss_broadcast(r: random.Random) -> object:
    a, b, c = sizes(r, 3, SIZES)
    return r.choice((F.mse_loss, F.l1_loss, F.smooth_l1_loss))(zeros(a, b), zeros(a, c))


def _bce(r: random.Random) -> object:
    a, b = sizes(r, 2, SIZES)
    return F.binary_cross_entropy(zeros(a, 1), zeros(r.choice((a, b))))


def _bce_logits(r: random.Random) -> object:
    a, b = sizes(r, 2, SIZES)
    return F.binary_cross_entropy_with_logits(zeros(a, 1), zeros(r.choice((a, b))))


def _cross_entropy(r: random.Random) -> object:
    a, b, c = sizes(r, 3, SIZES)
    return F.cross_entropy(zeros(a, c), zeros(b, dtype=torch.long))


def _cross_entropy_dims(r: random.Random) -> object:
    a, b = sizes(r, 2)
    return F.cross_entropy(zeros(a, b), zeros(a, 1, dtype=torch.long))


def _cross_entropy_images(r: random.Random) -> object:
    a, b, c = sizes(r, 3)
    return F.cross_entropy(zeros(2, 5, a, b), zeros(2, r.choice((c, a)), c, dtype=torch.long))


def _cross_entropy_4d(r: random.Random) -> object:
    a, b = sizes(r, 2, SIZES[:30])
    return F.cross_entropy(zeros(2, 5, a, b), zeros(2, r.choice((1, 3)), a, b, dtype=torch.long))


def _nll(r: random.Random) -> object:
    a, b = sizes(r, 2)
    return F.nll_loss(zeros(a, 5), zeros(b, dtype=torch.long))


def _cosine(r: random.Random) -> object:
    a, b, c = sizes(r, 3)
    return F.cosine_similarity(zeros(a, b), zeros(a, c))


def _kl(r: random.Random) -> object:
    a, b, c = sizes(r, 3)
    return F.kl_div(zeros(a, b), zeros(a, c), reduction="batchmean")


def _interpolate(r: random.Random) -> object:
    return F.interpolate(zeros(*sizes(r, r.choice((2, 3)))), size=(8, 8), mode=r.choice(("bilinear", "bicubic")))


def _pad(r: random.Random) -> object:
    side = r.choice((2, 3, 4))
    return F.pad(zeros(1, 3, side, side), (r.choice((5, 6, 7)),) * 4, mode="reflect")


def _pool(r: random.Random) -> object:
    return r.choice((F.max_pool2d, F.avg_pool2d))(zeros(1, r.choice((8, 64, 512)), 1, 1), r.choice((2, 3)))


def _triplet(r: random.Random) -> object:
    a, b, c = sizes(r, 3)
    return F.triplet_margin_loss(zeros(a, b), zeros(a, c), zeros(a, b))


def _embedding_bag(r: random.Random) -> object:
    return nn.EmbeddingBag(10, 3)(zeros(*sizes(r, 3), dtype=torch.long))


def _bilinear(r: random.Random) -> object:
    a, b, c, d = sizes(r, 4)
    return nn.Bilinear(a, b, 4)(zeros(2, c), zeros(2, d))


def _pixel_shuffle(r: random.Random) -> object:
    return nn.PixelShuffle(r.choice((2, 4)))(zeros(1, r.choice((3, 6, 9)), 4, 4))


def _unflatten(r: random.Random) -> object:
    a, b = sizes(r, 2)
    return nn.Unflatten(1, (a, b))(zeros(2, a * b + 1))


def _grid_sample(r: random.Random) -> object:
    return F.grid_sample(zeros(r.choice((2, 3)), 3, 8, 8), zeros(r.choice((1, 4)), 8, 8, 2), align_corners=False)


LAYERS: dict[str, Operation] = {
    "linear": _linear, "linear/2": _sequential, "conv2d": _conv2d, "conv1d": _conv1d, "conv3d": _conv3d, "conv_transpose":
    _conv_transpose, "conv_dims": _conv_dims, "kernel_size": _kernel_too_large, "rnn_input": _lstm_input, "rnn_hidden": _lstm_hidden,
    "rnn_hidden/2": _gru_hidden, "rnn_cell": _rnn_cell, "attention": _attention, "attention_mask": _attention_mask,
    "attention_mask/2": _key_padding, "heads": _heads, "transformer": _transformer, "sdpa": _sdpa, "layer_norm": _layer_norm,
    "batch_norm": _batch_norm, "norm_dims": _batch_norm_dims, "group_norm": _group_norm, "loss_broadcast": _loss_broadcast, "bce":
    _bce, "bce_logits": _bce_logits, "cross_entropy": _cross_entropy, "cross_entropy_dims": _cross_entropy_dims,
    "cross_entropy_images": _cross_entropy_images, "cross_entropy_dims/2": _cross_entropy_4d, "nll": _nll, "cosine_similarity":
    _cosine, "kl_div": _kl, "interpolate": _interpolate, "pad": _pad, "pool": _pool, "triplet": _triplet, "embedding_bag":
    _embedding_bag, "bilinear": _bilinear, "pixel_shuffle": _pixel_shuffle, "unflatten": _unflatten, "grid_sample": _grid_sample,
}  # fmt: skip
