"""A small Transformer encoder with a padding mask, pooled by the mean over a text's tokens.

Vaswani et al. 2017, "Attention Is All You Need", with the norm before each branch. `blocks.Residual` takes the place
of the feed-forward part of a layer.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

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


class Transformer(nn.Module):
    """Embedding + sinusoidal positions → encoder layers → LayerNorm → masked mean → Head.

    Args:
        num_tokens: size of the vocabulary, padding (0) and unknown (1) included.
        num_classes: number of logits.
        dim: width of a token's vector; even, and a multiple of `num_heads`.
        num_layers: encoder layers.
        num_heads: attention heads of a layer.
        hidden: width of the head.
        dropout: fraction of embeddings, branch outputs, pooled vector and hidden units dropped in training.
        token_dropout: fraction of tokens replaced by the unknown id in training.
        checkpoint_activations: keep only each layer's input, and recompute the layer in backward. Takes less memory and
            about a third more time. Gradients are the same: dropout repeats, since the random state is restored.

    Raises:
        ValueError: a size below 1, a `dim` that does not divide, or a fraction outside [0, 1).
    """

    def __init__(
        self,
        num_tokens: int,
        num_classes: int,
        *,
        dim: int = 64,
        num_layers: int = 2,
        num_heads: int = 4,
        hidden: int = 64,
        dropout: float = 0.2,
        token_dropout: float = 0.0,
        checkpoint_activations: bool = False,
    ) -> None:
        super().__init__()
        check_positive(dim=dim, num_layers=num_layers, num_heads=num_heads, hidden=hidden)
        if dim % 2 or dim % num_heads:
            raise ValueError(f"dim: expected an even multiple of num_heads {num_heads}, got {dim}")
        check_fraction(dropout=dropout)
        self.checkpoint_activations = checkpoint_activations
        self.token_dropout = TokenDropout(token_dropout)
        self.embedding = nn.Embedding(num_tokens, dim, padding_idx=PADDING_ID)
        draw_embedding(self.embedding.weight, std=0.5)
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.ModuleList(EncoderLayer(dim, num_heads=num_heads, dropout=dropout) for _ in range(num_layers))
        self.norm = nn.LayerNorm(dim)
        self.head = Head(dim, num_classes, hidden=hidden, dropout=dropout)

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Logits (B, C) of tokens (B, T) int64, of which the first `lengths` (B,) of each row are real."""
        tokens, mask = blank_padding(tokens, lengths)
        embedded = self.embedding(self.token_dropout(tokens))  # (B, T, D)
        x = self.dropout(embedded + sinusoids(embedded.shape[1], embedded.shape[2], like=embedded))
        # Column 0 is always attended to, since the softmax of an empty text would have no keys otherwise.
        attend = mask | (torch.arange(mask.shape[1], device=mask.device) == 0)
        attend = attend[:, None, None, :]  # (B, 1, 1, T)
        for layer in self.layers:
            if self.checkpoint_activations and self.training:
                x = checkpoint(layer, x, attend, use_reentrant=False, preserve_rng_state=True)
            else:
                x = layer(x, attend)
        x = self.norm(x).masked_fill(~mask.unsqueeze(2), 0.0)
        mean = x.sum(1) / mask.sum(1).clamp(min=1).unsqueeze(1)  # (B, D)
        logits: Tensor = self.head(whole_tiles(self.dropout(mean.to(x.dtype))))[: mean.shape[0]]
        return logits


class EncoderLayer(nn.Module):
    """Self-attention, then `Residual` as the feed-forward part; x (B, T, D) → (B, T, D)."""

    def __init__(self, dim: int, *, num_heads: int, dropout: float) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.norm = nn.LayerNorm(dim)
        self.query_key_value = nn.Linear(dim, 3 * dim)
        self.project = nn.Linear(dim, dim)
        self.dropout = nn.Dropout(dropout)
        self.residual = Residual(dim)

    def forward(self, x: Tensor, attend: Tensor) -> Tensor:
        """`attend` (B, 1, 1, T) bool is true on the keys to attend to; the others get a weight of exactly 0."""
        batch_size, num_tokens, dim = x.shape
        heads = self.query_key_value(self.norm(x)).view(batch_size, num_tokens, 3, self.num_heads, -1)
        query, key, value = heads.permute(2, 0, 3, 1, 4).unbind(0)  # each (B, heads, T, D / heads)
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=attend)
        mixed = mixed.transpose(1, 2).reshape(batch_size, num_tokens, dim)
        x = x + self.dropout(self.project(mixed))
        out: Tensor = self.residual(x)
        return out


def sinusoids(num_positions: int, dim: int, *, like: Tensor) -> Tensor:
    """Position vectors (T, D): sines, then cosines, of wavelengths from 2π to 10,000 · 2π (Vaswani et al. 2017, 3.5).

    Computed in float32 and cast to the dtype of `like`, since bfloat16 cannot tell position 256 from 257.
    """
    positions = torch.arange(num_positions, device=like.device, dtype=torch.float32).unsqueeze(1)  # (T, 1)
    exponents = torch.arange(dim // 2, device=like.device, dtype=torch.float32) * (-math.log(10_000.0) / (dim // 2))
    angles = positions * exponents.exp()  # (T, D / 2)
    return torch.cat([angles.sin(), angles.cos()], dim=1).to(like.dtype)  # (T, D)
