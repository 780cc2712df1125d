"""Ranks agree on a step through their store: a word, and the first step at which all are sure to find it."""

from __future__ import annotations

import torch
from torch._C._distributed_c10d import HashStore

from project.ranks.agreement import agreed, is_complete, is_time_to_wait


def test_all_act_after_the_first_step_that_began_when_the_word_was_left() -> None:
    store = HashStore()
    first = [agreed(store, "stop", step, None, is_complete=True) for step in (1, 2, 3)]
    other = [agreed(store, "stop", step, "now" if step == 3 else None, is_complete=True) for step in (1, 2, 3)]
    assert [*first, *other] == [None] * 6, "the first rank looked after step 3, too early"
    assert [agreed(store, "stop", 4, word, is_complete=True) for word in (None, "later")] == ["now", "now"]
    assert agreed(store, "save", 5, None, is_complete=True) is None


def test_nobody_looks_before_a_step_is_complete() -> None:
    store = HashStore()
    found = [agreed(store, "stop", step, "now", is_complete=step % 5 == 0) for step in range(3, 11)]
    assert found == [None, None, "now", None, None, None, None, "now"]


def test_on_cuda_a_step_is_complete_where_it_is_logged() -> None:
    cpu, cuda = torch.device("cpu"), torch.device("cuda", 1)
    assert is_complete(cpu, is_logged=False)
    assert is_complete(cuda, is_logged=True)
    assert not is_complete(cuda, is_logged=False)


def test_where_no_step_is_logged_the_device_is_waited_for_now_and_then() -> None:
    assert [step for step in range(1, 121) if is_time_to_wait(step, log_every_n_steps=0)] == [50, 100]
    assert not any(is_time_to_wait(step, log_every_n_steps=60) for step in range(1, 121))
