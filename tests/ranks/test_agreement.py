"""Ranks agree on a step through their store: a word, and the first step at which all are sure to find it."""

from __future__ import annotations

import pytest
import torch
from torch._C._distributed_c10d import HashStore

from project.ranks.agreement import agreed, has_arrived


def test_all_act_after_the_first_step_that_began_when_the_word_was_left() -> None:
    store = HashStore()
    first = [agreed(store, "stop", step, None, arrived=True) for step in (1, 2, 3)]
    other = [agreed(store, "stop", step, "now" if step == 3 else None, arrived=True) for step in (1, 2, 3)]
    assert [*first, *other] == [None] * 6, "the first rank looked after step 3, too early"
    assert [agreed(store, "stop", 4, word, arrived=True) for word in (None, "later")] == ["now", "now"]
    assert agreed(store, "save", 5, None, arrived=True) is None


def test_nobody_looks_at_a_step_that_has_not_arrived() -> None:
    store = HashStore()
    found = [agreed(store, "stop", step, "now", arrived=step % 5 == 0) for step in range(3, 11)]
    assert found == [None, None, "now", None, None, None, None, "now"]


def test_on_cuda_a_step_has_arrived_where_it_is_logged_or_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[torch.device] = []
    monkeypatch.setattr(torch.cuda, "synchronize", waited.append)
    cpu, cuda = torch.device("cpu"), torch.device("cuda", 1)

    def arrived(device: torch.device, every: int, is_alone: bool = False) -> list[int]:
        return [
            step
            for step in range(1, 121)
            if has_arrived(
                step,
                device,
                is_alone=is_alone,
                is_logged=every > 0 and step % every == 0,
                log_every_n_steps=every,
            )
        ]

    every_step = list(range(1, 121))
    assert arrived(cpu, 0) == arrived(cpu, 60) == arrived(cuda, 0, is_alone=True) == every_step
    assert arrived(cuda, 60) == [60, 120]
    assert waited == []
    assert arrived(cuda, 0) == [50, 100]
    assert waited == [cuda, cuda]
