"""An ensemble of several TextCNNs and a bag of n-grams, whose mistakes differ."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from project.network.blocks import PADDING_ID, blank_padding, check_fraction, check_positive, whole_tiles
from project.network.textcnn import TextCNN

_HASH_MULTIPLIER = 2_654_435_761


class Committee(nn.Module):
    """The weighted mean of its members' log-probabilities; the members are TextCNNs and a `Bag` of tokens and pairs.

    In training each row of a micro-batch goes to one member, drawn at random, in equal shares. So a member learns to
    answer alone, and a run needs as many times the epochs of one network as there are members. In evaluation every
    member reads every text.

    Args:
        num_tokens: size of the vocabulary, padding (0) and unknown (1) included.
        num_classes: number of logits.
        num_textcnns: number of `TextCNN`s beside the bag.
        bag_weight: weight of the bag in the mean; the TextCNNs share the rest equally.
        bag_dim: width of the bag's embeddings.
        bag_buckets: rows of the bag's table of pairs.
        bag_scale: factor on the bag's mean embedding; under Adam it acts as a higher learning rate.
        textcnn: arguments of every `TextCNN`.

    Raises:
        ValueError: a size below 1, or a fraction outside [0, 1).
    """

    weights: Tensor

    def __init__(
        self,
        num_tokens: int,
        num_classes: int,
        *,
        num_textcnns: int = 3,
        bag_weight: float = 0.6,
        bag_dim: int = 32,
        bag_buckets: int = 100_000,
        bag_scale: float = 4.0,
        **textcnn: Any,
    ) -> None:
        super().__init__()
        check_positive(num_textcnns=num_textcnns, bag_dim=bag_dim, bag_buckets=bag_buckets)
        check_fraction(bag_weight=bag_weight)
        bag = Bag(num_tokens, num_classes, dim=bag_dim, buckets=bag_buckets, scale=bag_scale)
        self.members = nn.ModuleList([bag, *(TextCNN(num_tokens, num_classes, **textcnn) for _ in range(num_textcnns))])
        weights = [bag_weight] + num_textcnns * [(1 - bag_weight) / num_textcnns]
        self.register_buffer("weights", torch.tensor(weights), persistent=False)

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Logits (B, C) of tokens (B, T) int64, of which the first `lengths` (B,) of each row are real."""
        if not self.training:
            answers = torch.stack([member(tokens, lengths).log_softmax(dim=1) for member in self.members])  # (M, B, C)
            return torch.einsum("m,mbc->bc", self.weights.to(answers.dtype), answers)
        order = torch.randperm(len(tokens), device=tokens.device)
        shares = [order[first :: len(self.members)] for first in range(len(self.members))]
        dealt = [member(tokens[rows], lengths[rows]) for member, rows in zip(self.members, shares, strict=True)]
        return torch.cat(dealt)[torch.cat(shares).argsort()]


class Bag(nn.Module):
    """A linear classifier of the mean embedding of tokens and pairs, like fastText (Joulin et al. 2016).

    Its tables start at zero, so tokens and pairs that training never saw add nothing.
    """

    def __init__(self, num_tokens: int, num_classes: int, *, dim: int, buckets: int, scale: float) -> None:
        super().__init__()
        self.buckets = buckets
        self.scale = scale
        self.tokens = nn.EmbeddingBag(num_tokens, dim, mode="sum", padding_idx=PADDING_ID)
        self.pairs = nn.EmbeddingBag(1 + buckets, dim, mode="sum", padding_idx=PADDING_ID)
        nn.init.zeros_(self.tokens.weight)
        nn.init.zeros_(self.pairs.weight)
        self.output = nn.Linear(dim, num_classes)

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Logits (B, C) of tokens (B, T) int64, of which the first `lengths` (B,) of each row are real."""
        tokens, mask = blank_padding(tokens, lengths)
        following = F.pad(tokens[:, 1:], (0, 1), value=PADDING_ID)  # (B, T)
        hashed = 1 + (tokens * _HASH_MULTIPLIER + following) % self.buckets
        pairs = hashed.masked_fill(following == PADDING_ID, PADDING_ID)  # (B, T)
        count = (mask.sum(1) + (pairs != PADDING_ID).sum(1)).clamp(min=1).unsqueeze(1)  # (B, 1)
        mean = self.scale * (self.tokens(tokens) + self.pairs(pairs)) / count  # (B, D)
        logits: Tensor = self.output(whole_tiles(mean))[: mean.shape[0]]
        return logits
