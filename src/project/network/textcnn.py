"""Convolutions of several widths over token embeddings, each pooled by its maximum over the text.

Kim 2014, "Convolutional Neural Networks for Sentence Classification", with one residual block before the head.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from project.network.blocks import (
    PADDING_ID,
    Head,
    Residual,
    TokenDropout,
    blank_padding,
    check_fraction,
    check_positive,
    draw_embedding,
    whole_tiles,
)


class TextCNN(nn.Module):
    """Embedding → dropout → one convolution per width → masked max → Residual → Head.

    Args:
        num_tokens: size of the vocabulary, padding (0) and unknown (1) included.
        num_classes: number of logits.
        dim: width of an embedding.
        widths: tokens under each kernel.
        num_filters: filters of each width.
        hidden: width of the head.
        dropout: fraction of embeddings, pooled features and hidden units dropped in training.
        token_dropout: fraction of tokens replaced by the unknown id in training.

    Raises:
        ValueError: a size below 1, no width, or a fraction outside [0, 1).
    """

    def __init__(
        self,
        num_tokens: int,
        num_classes: int,
        *,
        dim: int = 128,
        widths: Sequence[int] = (1, 2, 3, 4),
        num_filters: int = 64,
        hidden: int = 128,
        dropout: float = 0.3,
        token_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        check_positive(dim=dim, num_filters=num_filters, hidden=hidden)
        if not widths:
            raise ValueError("widths: expected at least one kernel width, got none")
        for width in widths:
            check_positive(widths=width)
        check_fraction(dropout=dropout)
        self.widths = tuple(widths)
        self.token_dropout = TokenDropout(token_dropout)
        self.embedding = nn.Embedding(num_tokens, dim, padding_idx=PADDING_ID)
        draw_embedding(self.embedding.weight, std=0.1)
        self.dropout = nn.Dropout(dropout)
        self.filters = nn.ModuleList(nn.Linear(width * dim, num_filters) for width in self.widths)
        self.residual = Residual(num_filters * len(self.widths))
        self.head = Head(num_filters * len(self.widths), num_classes, hidden=hidden, dropout=dropout)

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Logits (B, C) of tokens (B, T) int64, of which the first `lengths` (B,) of each row are real."""
        tokens, mask = blank_padding(tokens, lengths)
        embedded = self.dropout(self.embedding(self.token_dropout(tokens)))  # (B, T, D)
        pooled = [
            self.pool(embedded, mask, width, filters) for width, filters in zip(self.widths, self.filters, strict=True)
        ]
        features = self.dropout(torch.cat(pooled, dim=1))  # (B, F * widths)
        logits: Tensor = self.head(self.residual(whole_tiles(features)))[: features.shape[0]]
        return logits

    def pool(self, embedded: Tensor, mask: Tensor, width: int, filters: nn.Module) -> Tensor:
        """Maximum (B, F) of each filter over the windows centred on real tokens; 0 for an empty text.

        Beyond either end of the text a window sees zeros, with or without padding columns. So a text shorter than the
        kernel needs no special case.
        """
        num_tokens = embedded.shape[1]
        padded = F.pad(embedded, (0, 0, (width - 1) // 2, width // 2))  # (B, T + width - 1, D)
        windows = torch.cat([padded[:, k : k + num_tokens] for k in range(width)], dim=2)  # (B, T, width * D)
        # ReLU outputs are at least 0, so zeros at padding do not change a text's maximum.
        answers = F.relu(filters(windows)) * mask.unsqueeze(2)  # (B, T, F)
        return answers.amax(dim=1)
