"""Each rank goes on with what it had; where their number has changed, nothing of what was trained is lost."""

from __future__ import annotations

import pytest
import torch

from project.checkpoint.rank_state import rank_state, restore_rank
from project.learn.interval import Interval
from project.ranks.world import World

CPU = torch.device("cpu")


def saved() -> tuple[list[dict[str, object]], list[list[float]]]:
    """States of three ranks, and the numbers that each of them draws next."""
    states, following = [], []
    for rank in range(3):
        torch.manual_seed(100 + rank)
        states.append(rank_state(CPU, Interval(torch.tensor(2.0**rank), num_examples=21)))
        following.append(torch.rand(3).tolist())
    return states, following


@pytest.mark.parametrize("rank", range(3))
def test_as_many_ranks_go_on_each_where_it_was(rank: int) -> None:
    states, following = saved()
    interval = Interval.begin(CPU)
    restore_rank(states, World(rank, 3), CPU, interval, new_seed=5)
    assert (float(interval.loss), interval.num_examples) == (2.0**rank, 21)
    assert torch.rand(3).tolist() == following[rank]


def test_another_number_of_ranks_keeps_all_losses_and_draws_anew() -> None:
    states, following = saved()
    drawn = []
    losses = []
    for rank in range(2):
        interval = Interval.begin(CPU)
        restore_rank(states, World(rank, 2), CPU, interval, new_seed=5)
        assert interval.num_examples == 21
        losses.append(float(interval.loss))
        drawn.append(torch.rand(3).tolist())
    assert losses == [1.0 + 2.0 + 4.0, 0.0]
    assert drawn == [torch.rand(3, generator=torch.Generator().manual_seed(5 + rank)).tolist() for rank in range(2)]
    assert not any(numbers in following for numbers in drawn)
