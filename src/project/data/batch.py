"""Batches: examples of different lengths in one padded tensor.

Shapes: B examples in the batch, T tokens of its longest one.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from project.data.dataset import Example
from project.data.tokenizer import PAD_ID


class Batch(NamedTuple):
    """What a network is fed, and what its answers are held against."""

    tokens: Tensor
    """(B, T) int64 token ids, padded with 0 at the end."""
    lengths: Tensor
    """(B,) int64 number of tokens of each example, without padding; at least 1."""
    labels: Tensor
    """(B,) int64 class indices; -1 where the rows have no labels."""
    index: Tensor  # type: ignore[assignment]  # hides tuple.index, which nobody needs here
    """(B,) int64 position of each example in its dataset."""


def collate(examples: Sequence[Example]) -> Batch:
    """Pad the examples to the longest of them, in the order given."""
    tokens, labels, index = zip(*examples, strict=True)
    return Batch(
        tokens=pad_sequence(list(tokens), batch_first=True, padding_value=PAD_ID),  # B x (t,) -> (B, T)
        lengths=torch.tensor([len(sequence) for sequence in tokens]),
        labels=torch.tensor(labels),
        index=torch.tensor(index),
    )
