"""Collating pads at the end, with id 0, and keeps the order."""

import torch

from project.data.batch import Batch, collate
from project.data.dataset import Example


def test_collate_pads_to_the_longest() -> None:
    examples = [
        Example(torch.tensor([5, 6]), label=1, index=7),
        Example(torch.tensor([7]), label=0, index=3),
        Example(torch.tensor([2, 3, 4]), label=2, index=4),
    ]
    batch = collate(examples)
    assert isinstance(batch, Batch)
    assert batch.tokens.tolist() == [[5, 6, 0], [7, 0, 0], [2, 3, 4]]
    assert batch.lengths.tolist() == [2, 1, 3]
    assert batch.labels.tolist() == [1, 0, 2]
    assert batch.index.tolist() == [7, 3, 4]
    assert {tensor.dtype for tensor in batch} == {torch.int64}


def test_collate_of_one_example() -> None:
    batch = collate([Example(torch.tensor([9]), label=-1, index=0)])
    assert batch.tokens.shape == (1, 1)
    assert batch.labels.tolist() == [-1]
