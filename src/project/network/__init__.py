"""The networks that `model.network.class_path` can name, and their building blocks.

Every network is built as `Network(num_tokens, num_classes, **init_args)` and called as
`network(tokens (B, T) int64, lengths (B,) int64) -> logits (B, C)`. A row's logits do not depend on its padding
(`blocks.whole_tiles` says how exactly).
"""

from project.network.blocks import Head, Residual
from project.network.committee import Committee
from project.network.pooling import Pooling
from project.network.textcnn import TextCNN
from project.network.transformer import Transformer

__all__ = ["Committee", "Head", "Pooling", "Residual", "TextCNN", "Transformer"]
