"""What the networks share: the residual block, the classifier head, the embedding table and the treatment of padding.

Shape legend: B batch, T tokens, D `dim`, H hidden width, C classes. Padding id 0, unknown id 1.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from project.private import is_recomputing

PADDING_ID = 0
UNKNOWN_ID = 1
TILE = 16  # rows that a matrix product, or lanes that a reduction, takes at once


class Residual(nn.Module):
    """x + scale * gelu(linear(layer_norm(x))), for x of shape (..., dim).

    `scale` is one learned number, starting at 1. It has shape (1,) and not () because `fully_shard` refuses
    parameters without a dimension. The activation is GELU: smooth, so that a block whose inputs are all negative
    still learns. At dim 64 that is 64 * 64 + 64 (linear) + 2 * 64 (norm) + 1 (scale) = 4,289 parameters.

    `calls` (int64 buffer, saved, not trained) counts forwards in training mode. A forward that activation
    checkpointing repeats during backward is not counted: it is the same forward.
    """

    calls: Tensor

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.linear = nn.Linear(dim, dim)
        self.scale = nn.Parameter(torch.ones(1))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        if self.training and not _is_repeated():
            self.calls.add_(1)
        branch: Tensor = self.scale * F.gelu(self.linear(self.norm(x)))
        return x + branch


def _is_repeated() -> bool:
    """Whether this forward runs inside a backward, as activation checkpointing makes it do.

    Autograd numbers each running backward and says -1 outside one; `torch.utils.checkpoint` itself asks this way.
    A compiled graph recomputes below Python and never repeats a buffer's update, so there the answer is no.
    """
    return not torch.compiler.is_compiling() and is_recomputing()


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
    """In training, replace each token by the unknown id with probability `p`; in evaluation, nothing.

    It teaches a network not to lean on one word, and what to make of a word it never saw.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        check_fraction("token_dropout", p)
        self.p = p

    def forward(self, tokens: Tensor) -> Tensor:
        if not self.training or self.p == 0.0:
            return tokens
        dropped = torch.rand(tokens.shape, device=tokens.device) < self.p
        return tokens.masked_fill(dropped & (tokens != PADDING_ID), UNKNOWN_ID)


def blank_padding(tokens: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Tokens (B, T) with the padding id wherever position >= length, and the mask (B, T), true on real tokens.

    T is rounded up to whole tiles (see `whole_tiles`), and to one tile where all texts are empty (T = 0), so that no
    reduction runs over nothing.
    """
    num_columns = max(tokens.shape[1], 1)
    num_columns += -num_columns % TILE
    tokens = F.pad(tokens, (0, num_columns - tokens.shape[1]), value=PADDING_ID)  # (B, T rounded up)
    mask = torch.arange(num_columns, device=tokens.device) < lengths.unsqueeze(1)  # (B, T)
    return tokens.masked_fill(~mask, PADDING_ID), mask


def whole_tiles(rows: Tensor) -> Tensor:
    """Rows (B, D) with zero rows added up to a multiple of `TILE`; the caller drops the answers to those.

    A matrix product takes rows in tiles, and a last tile that is not full goes through other code, which may round
    otherwise. Measured in float32 on x86: a row's product changed in its last bit whenever a thread was left with 1 to
    3 rows, and attention did so where the number of keys was not a multiple of the softmax's 16 lanes. With whole
    tiles a text has the same logits alone, in any batch, and with any padding, to the bit on 1, 2 and 8 threads. One
    exception is left: a Transformer from 128 columns on differs by up to 1e-7 in float32 and 1e-3 in bfloat16.
    """
    return F.pad(rows, (0, 0, 0, -rows.shape[0] % TILE))


def draw_embedding(weight: Tensor, std: float) -> None:
    """Fill an embedding table (V, D) in place with N(0, std²) and its padding row with zero."""
    with torch.no_grad():
        weight.normal_(0.0, std)
        weight[PADDING_ID].zero_()


def check_fraction(name: str, value: float) -> None:
    """Raise ValueError unless 0 <= value < 1."""
    if not 0.0 <= value < 1.0:
        raise ValueError(f"{name}: expected a fraction in [0, 1), got {value}")


def check_positive(name: str, value: int) -> None:
    """Raise ValueError unless value >= 1."""
    if value < 1:
        raise ValueError(f"{name}: expected at least 1, got {value}")
