"""The order is a pure function, and ranks share it out without loss."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from project.data.order import OrderedBatches, epoch_order, interleaved


def test_the_same_arguments_give_the_same_order_and_others_another() -> None:
    order = epoch_order(100, seed=3, epoch=2)
    assert torch.equal(order, epoch_order(100, seed=3, epoch=2))
    assert torch.equal(order.sort().values, torch.arange(100))
    for seed, epoch in ((3, 3), (2, 3), (4, 2), (2, 2)):
        assert not torch.equal(order, epoch_order(100, seed=seed, epoch=epoch))


def test_neighbouring_seeds_do_not_repeat_each_others_epochs() -> None:
    orders = {tuple(epoch_order(20, seed, epoch).tolist()) for seed in range(20) for epoch in range(20)}
    assert len(orders) == 400


def test_the_global_random_stream_is_left_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    list(OrderedBatches(50, 8, seed=1))
    assert torch.equal(torch.rand(3), expected)


def lengths_of(num_examples: int) -> Tensor:
    return torch.randint(1, 40, (num_examples,), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("is_grouped", [False, True])
@pytest.mark.parametrize("seed", [None, 4])
@pytest.mark.parametrize("num_examples", [1, 24, 50])
def test_ranks_interleaved_are_the_one_process_order(num_examples: int, seed: int | None, is_grouped: bool) -> None:
    lengths = lengths_of(num_examples) if is_grouped else None
    alone = OrderedBatches(num_examples, 6, seed=seed, lengths=lengths)
    alone.set_epoch(2)
    ranks = [OrderedBatches(num_examples, 2, seed=seed, rank=rank, world_size=3, lengths=lengths) for rank in range(3)]
    for batches in ranks:
        batches.set_epoch(2)
        assert len(batches) == len(list(batches)) == len(alone)
    for together, *shares in zip(alone, *ranks, strict=True):
        interleaved = [shares[position % 3][position // 3] for position in range(len(together))]
        assert interleaved == together


def test_without_a_seed_the_order_is_the_files() -> None:
    assert list(OrderedBatches(5, 2, seed=None)) == [[0, 1], [2, 3], [4]]


@pytest.mark.parametrize("num_examples", [11, 12, 13, 17])
@pytest.mark.parametrize("seed", [None, 4])
def test_drop_last_keeps_the_micro_batches_that_are_full_on_every_rank(num_examples: int, seed: int | None) -> None:
    for rank in range(3):
        every = list(OrderedBatches(num_examples, 2, seed=seed, rank=rank, world_size=3))
        batches = OrderedBatches(num_examples, 2, seed=seed, rank=rank, world_size=3, drop_last=True)
        assert list(batches) == every[: num_examples // 6]
        assert len(batches) == num_examples // 6
        assert all(len(indices) == 2 for indices in batches)


def test_rows_of_like_length_come_together_and_batches_stay_shuffled() -> None:
    lengths = lengths_of(1003)
    spreads = []
    for chosen in (None, lengths):
        batches = list(OrderedBatches(1003, 8, seed=0, lengths=chosen))
        assert sorted(index for batch in batches for index in batch) == list(range(1003))
        assert len(batches[-1]) == 3
        spreads.append(sum(int(lengths[batch].max() - lengths[batch].min()) for batch in batches))
    assert spreads[1] < spreads[0] / 10
    firsts = [int(lengths[batch[0]]) for batch in batches[:50]]
    assert firsts != sorted(firsts)


def test_drop_last_leaves_the_same_rows_out_when_rows_are_grouped() -> None:
    plain, grouped = (
        {index for batch in OrderedBatches(29, 8, seed=0, drop_last=True, lengths=chosen) for index in batch}
        for chosen in (None, lengths_of(29))
    )
    assert plain == grouped


def test_drop_last_leaves_out_other_examples_each_epoch() -> None:
    batches = OrderedBatches(30, 8, seed=0, drop_last=True)
    left_out = []
    for epoch in range(2):
        batches.set_epoch(epoch)
        left_out.append(set(range(30)) - {index for indices in batches for index in indices})
    assert [len(indices) for indices in left_out] == [6, 6]
    assert left_out[0] != left_out[1]


def test_the_epoch_changes_the_order() -> None:
    batches = OrderedBatches(40, 8, seed=0)
    first = list(batches)
    batches.set_epoch(1)
    assert list(batches) != first


@pytest.mark.parametrize(("num_rows", "num_ranks"), [(10, 3), (1, 2), (6, 2), (7, 1)])
def test_the_ranks_shares_become_the_files_order_again(num_rows: int, num_ranks: int) -> None:
    rows = torch.arange(num_rows * 2).view(num_rows, 2)
    shares = []
    for rank in range(num_ranks):
        batches = OrderedBatches(num_rows, 2, seed=None, rank=rank, world_size=num_ranks)
        shares.append(rows[[index for batch in batches for index in batch if index >= 0]])
    assert torch.equal(interleaved(shares), rows)
