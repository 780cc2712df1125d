"""The `ranks` of a checkpoint: each rank's random states, and its loss and examples since the last logged step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from project.checkpoint.random_states import random_states, restore_random_states
from project.learn.interval import Interval
from project.ranks.world import World


def rank_state(device: torch.device, interval: Interval) -> dict[str, Any]:
    """This rank's state, as tensors and plain numbers."""
    return {
        "random": random_states(device),
        "interval": {"loss": interval.loss.cpu(), "num_examples": interval.num_examples},
    }


def restore_rank(
    ranks: Sequence[Mapping[str, Any]], world: World, device: torch.device, interval: Interval, new_seed: int
) -> None:
    """Restore this rank's state.

    If the number of ranks has changed, each rank seeds torch with `new_seed` plus its rank, and the main rank takes the
    losses of all.
    """
    if len(ranks) == world.size:
        restore_random_states(ranks[world.rank]["random"], device)
        taken = ranks[world.rank : world.rank + 1]
    else:
        torch.manual_seed(new_seed + world.rank)
        taken = ranks if world.is_main else []
    for saved in taken:
        interval.loss += saved["interval"]["loss"].to(device)
    interval.num_examples = ranks[0]["interval"]["num_examples"]  # of all ranks
