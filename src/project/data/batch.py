"""Batches: examples of different lengths in one padded tensor.

Shapes: B examples in the batch, T tokens of the longest one.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from project.data.dataset import Example
from project.data.tokenizer import PAD_ID


class Batch(NamedTuple):
    """A micro-batch: the network's inputs and the labels."""

    tokens: Tensor
    """(B, T) int64 token ids, padded with 0 at the end."""
    lengths: Tensor
    """(B,) int64 tokens of each example without padding, at least 1."""
    labels: Tensor
    """(B,) int64 class indices; -1 if the rows have no labels."""
    index: Tensor  # type: ignore[assignment]  # hides tuple.index, which nobody needs here
    """(B,) int64 positions in the dataset; -1 - i for row i as a stand-in (see data/order.py)."""


def collate(examples: Sequence[Example]) -> Batch:
    """Pad the examples to the length of the longest one; their order is kept."""
    tokens, labels, index = zip(*examples, strict=True)
    return Batch(
        tokens=pad_sequence(list(tokens), batch_first=True, padding_value=PAD_ID),  # B x (t,) -> (B, T)
        lengths=torch.tensor([len(sequence) for sequence in tokens]),
        labels=torch.tensor(labels),
        index=torch.tensor(index),
    )
