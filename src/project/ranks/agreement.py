"""How ranks agree on an optimizer step without a collective: through the store of their process group.

A rank writes a word to the store before it exchanges the gradients of the next step. A rank that has received those
gradients finds the word. So the next step is the first one after which all ranks find it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch._C._distributed_c10d import Store

WAIT_EVERY_N_STEPS = 50
"""Optimizer steps between two waits for a CUDA device, in a run that logs no step."""


def agreed(store: Store, key: str, step: int, word: str | None, *, is_complete: bool) -> str | None:
    """The first word that a rank wrote under `key`; None until all ranks can find it. All ranks call this each step.

    Args:
        store: of the process group.
        key: where the word is; it holds one word.
        step: the optimizer step that is done, from 1.
        word: the word that this rank wants to write, if any.
        is_complete: whether this rank has the step's results (`is_complete`); otherwise it does not read the store.
    """
    if word is not None:
        store.compare_set(key, "", f"{step} {word}")
    if not is_complete or not store.check([key]):
        return None
    written_at, found = word_under(store, key)
    return found if written_at < step else None


def word_under(store: Store, key: str) -> tuple[int, str]:
    """The optimizer step at which the word under `key` was written, and the word."""
    written_at, _, word = store.get(key).decode().partition(" ")
    return int(written_at), word


def is_complete(device: torch.device, *, is_logged: bool) -> bool:
    """Whether the device has computed the optimizer step.

    A CUDA device may still be at work, unless the step was logged: that reads the loss off the device.
    """
    return device.type != "cuda" or is_logged


def is_time_to_wait(step: int, *, log_every_n_steps: int) -> bool:
    """Whether to wait for a CUDA device after this step, since no logged step does."""
    return log_every_n_steps == 0 and step % WAIT_EVERY_N_STEPS == 0
