"""How ranks agree on an optimizer step without a collective: through the store that they share.

A rank leaves its word there before it hands its gradients to the next step. Every rank that has received those
gradients finds the word. So after the step at which it was left, the next step is the first at which all find it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch._C._distributed_c10d import Store

WAIT_EVERY_N_STEPS = 50
"""Optimizer steps between two waits for a CUDA device, where no step is logged."""


def agreed(store: Store, key: str, step: int, word: str | None, *, is_complete: bool) -> str | None:
    """The first word left under `key`, once all ranks can find it; None before. All ranks call this after each step.

    Args:
        store: of the process group.
        key: the word's own; one word can be left there.
        step: the optimizer step that is done, from 1.
        word: what this rank has to say, if anything.
        is_complete: whether this rank holds the step's results, see `is_complete`. Without them it does not look.
    """
    if word is not None:
        store.compare_set(key, "", f"{step} {word}")
    if not is_complete or not store.check([key]):
        return None
    left_at, said = word_under(store, key)
    return said if left_at < step else None


def word_under(store: Store, key: str) -> tuple[int, str]:
    """The word left under `key`, after the step at which it was left."""
    left_at, _, said = store.get(key).decode().partition(" ")
    return int(left_at), said


def is_complete(device: torch.device, *, is_logged: bool) -> bool:
    """Whether an optimizer step's results are there when Python goes on.

    A CUDA device may still be computing them, unless the step was logged: then its loss was read off the device.
    """
    return device.type != "cuda" or is_logged


def is_time_to_wait(step: int, *, log_every_n_steps: int) -> bool:
    """Whether to wait for a CUDA device after this step. Without logged steps no rank would ever look for a word."""
    return log_every_n_steps == 0 and step % WAIT_EVERY_N_STEPS == 0
