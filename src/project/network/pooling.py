"""A bag of embeddings: the mean over a text's tokens and n-grams, then a residual block and the head.

After fastText (Joulin et al. 2016, "Bag of Tricks for Efficient Text Classification"): hashed n-grams carry the word
order, and a text costs little more than its table look-ups.
"""

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

# Odd and far larger than any vocabulary, so that neighbouring ids land far apart. buckets * multiplier stays below
# 2**63, so int64 never overflows.
_HASH_MULTIPLIER = 2_654_435_761


class Pooling(nn.Module):
    """Mean of token and n-gram embeddings → dropout → Residual → Head.

    Args:
        num_tokens: size of the vocabulary, padding (0) and unknown (1) included.
        num_classes: number of logits.
        dim: width of an embedding.
        num_ngrams: longest n-gram: 1 takes single tokens only, 2 adds pairs of neighbours, 3 also triples.
        ngram_buckets: rows of the n-gram table; n-grams that hash alike share a row.
        hidden: width of the head.
        dropout: fraction of the pooled vector, and of the head's hidden layer, dropped in training.
        token_dropout: fraction of tokens replaced by the unknown id in training.

    Raises:
        ValueError: a size below 1, or a fraction outside [0, 1).
    """

    def __init__(
        self,
        num_tokens: int,
        num_classes: int,
        *,
        dim: int = 64,
        num_ngrams: int = 2,
        ngram_buckets: int = 20_000,
        hidden: int = 64,
        dropout: float = 0.3,
        token_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        check_positive(dim=dim, num_ngrams=num_ngrams, ngram_buckets=ngram_buckets)
        check_fraction(dropout=dropout)
        self.num_ngrams = num_ngrams
        self.ngram_buckets = ngram_buckets
        self.token_dropout = TokenDropout(token_dropout)
        self.token_embedding = nn.EmbeddingBag(num_tokens, dim, mode="sum", padding_idx=PADDING_ID)
        draw_embedding(self.token_embedding.weight, std=0.1)
        self.ngram_embedding: nn.EmbeddingBag | None = None
        if num_ngrams > 1:
            self.ngram_embedding = nn.EmbeddingBag(1 + ngram_buckets, dim, mode="sum", padding_idx=PADDING_ID)
            draw_embedding(self.ngram_embedding.weight, std=0.1)
        self.dropout = nn.Dropout(dropout)
        self.residual = Residual(dim)
        self.head = Head(dim, num_classes, hidden=hidden, dropout=dropout)

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Logits (B, C) of tokens (B, T) int64, of which the first `lengths` (B,) of each row are real."""
        tokens, mask = blank_padding(tokens, lengths)
        tokens = self.token_dropout(tokens)
        # EmbeddingBag adds a row's embeddings in order and skips padding, so more padding does not change the sum.
        total = self.token_embedding(tokens)  # (B, D)
        count = mask.sum(1)  # (B,)
        if self.ngram_embedding is not None:
            hashed = [self.hash_ngrams(tokens, n) for n in range(2, self.num_ngrams + 1)]
            ngrams = torch.cat(hashed, dim=1)  # (B, (num_ngrams - 1) * T)
            total = total + self.ngram_embedding(ngrams)
            count = count + (ngrams != PADDING_ID).sum(1)
        mean = total / count.clamp(min=1).unsqueeze(1).to(total.dtype)  # an empty text is all zeros
        logits: Tensor = self.head(self.residual(whole_tiles(self.dropout(mean))))[: mean.shape[0]]
        return logits

    def hash_ngrams(self, tokens: Tensor, n: int) -> Tensor:
        """Row in the n-gram table of the n tokens that start at each position, (B, T) int64; 0 if one is padding."""
        num_positions = tokens.shape[1]
        tokens = F.pad(tokens, (0, n - 1), value=PADDING_ID)  # (B, T + n - 1)
        hashed = torch.full_like(tokens[:, :num_positions], n)
        for offset in range(n):
            token = tokens[:, offset : offset + num_positions]
            hashed = (hashed * _HASH_MULTIPLIER + token) % self.ngram_buckets
        # Padding is at the end of a row only, so an n-gram has padding if its last token is padding.
        return (1 + hashed).masked_fill(tokens[:, n - 1 :] == PADDING_ID, PADDING_ID)
