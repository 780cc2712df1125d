"""Building blocks of the networks: residual block, classifier head, embedding table, padding.

Shapes: B batch, T tokens, D `dim`, C classes. Padding has id 0, an unknown token id 1.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from project.private import is_recomputing

PADDING_ID = 0
UNKNOWN_ID = 1
TILE = 16  # a multiple of the rows or lanes that a matrix product or reduction takes at once


class Residual(nn.Module):
    """x + scale * gelu(linear(layer_norm(x))), for x of shape (..., dim).

    `scale` is one learned number that starts at 1. Its shape is (1,), since `fully_shard` refuses parameters without a
    dimension. GELU has a gradient for negative inputs too. A block of dim 64 has 64 * 64 + 64 (linear) + 2 * 64 (norm)
    + 1 (scale) = 4,289 parameters.

    The buffer `calls` (() int64, saved) counts forward passes in training mode. A pass that activation checkpointing
    repeats in backward counts once.
    """

    calls: Tensor

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.linear = nn.Linear(dim, dim)
        self.scale = nn.Parameter(torch.ones(1))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        # A compiled graph recomputes below Python, where the buffer's update is not repeated.
        if self.training and (torch.compiler.is_compiling() or not is_recomputing()):
            self.calls.add_(1)
        branch: Tensor = self.scale * F.gelu(self.linear(self.norm(x)))
        return x + branch


class Head(nn.Module):
    """The classifier: Linear → ReLU → Dropout → Linear, from (B, dim) to logits (B, num_classes)."""

    def __init__(self, dim: int, num_classes: int, *, hidden: int, dropout: float) -> None:
        super().__init__()
        self.hidden = nn.Linear(dim, hidden)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(hidden, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.output(self.dropout(F.relu(self.hidden(x))))
        return logits


class TokenDropout(nn.Module):
    """In training, replace each token by the unknown id with probability `p`; in evaluation, pass tokens through.

    The network learns to do without any single word, and learns an embedding for unknown words.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        check_fraction(token_dropout=p)
        self.p = p

    def forward(self, tokens: Tensor) -> Tensor:
        if not self.training or self.p == 0.0:
            return tokens
        dropped = torch.rand(tokens.shape, device=tokens.device) < self.p
        return tokens.masked_fill(dropped & (tokens != PADDING_ID), UNKNOWN_ID)


def blank_padding(tokens: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Tokens (B, T) with the padding id wherever position >= length, and the mask (B, T) bool, true on real tokens.

    T is rounded up to whole tiles (see `whole_tiles`), and is at least one tile, so that no reduction is empty.
    """
    num_columns = max(tokens.shape[1], 1)
    num_columns += -num_columns % TILE
    tokens = F.pad(tokens, (0, num_columns - tokens.shape[1]), value=PADDING_ID)  # (B, T rounded up)
    mask = torch.arange(num_columns, device=tokens.device) < lengths.unsqueeze(1)  # (B, T)
    return tokens.masked_fill(~mask, PADDING_ID), mask


def whole_tiles(rows: Tensor) -> Tensor:
    """Rows (B, D) padded with zero rows to a multiple of `TILE`; the caller drops the outputs of those rows.

    A matrix product takes rows in tiles. Other code handles an incomplete last tile, and may round differently.
    Measured in float32 on x86: the last bit of a row's product changed when a thread was left with 1 to 3 rows, and
    that of attention when the number of keys was not a multiple of the softmax's 16 lanes. With whole tiles a text has
    the same logits alone, in any batch, and with any padding, to the bit on 1, 2 and 8 threads. One exception: a
    Transformer from 128 columns on differs by up to 1e-7 in float32 and 1e-3 in bfloat16.
    """
    return F.pad(rows, (0, 0, 0, -rows.shape[0] % TILE))


def draw_embedding(weight: Tensor, std: float) -> None:
    """Fill an embedding table (V, D) in place with samples of N(0, std²), and its padding row with zeros."""
    with torch.no_grad():
        weight.normal_(0.0, std)
        weight[PADDING_ID].zero_()


def check_fraction(**arguments: float) -> None:
    """Raise ValueError unless each argument is in [0, 1)."""
    for name, value in arguments.items():
        if not 0.0 <= value < 1.0:
            raise ValueError(f"{name}: expected a fraction in [0, 1), got {value}")


def check_positive(**arguments: int) -> None:
    """Raise ValueError unless each argument is at least 1."""
    for name, value in arguments.items():
        if value < 1:
            raise ValueError(f"{name}: expected at least 1, got {value}")
