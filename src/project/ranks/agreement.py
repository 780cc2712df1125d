"""How ranks agree on an optimizer step without a collective: one leaves word in their store, and all look there.

A rank leaves word before it gives its gradients to the next step, and the others look when they have got them. So after
any later step all find it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch._C._distributed_c10d import Store

LOOK_EVERY_N_STEPS = 50
"""Optimizer steps between two looks, on CUDA, where no step is logged."""


def agreed(store: Store, key: str, step: int, word: str | None, *, arrived: bool) -> str | None:
    """The first word left under `key`, if it is time to act on it: at the first step at which all ranks find it.

    Several ranks all ask, after each optimizer step.

    Args:
        store: of the process group.
        key: the word's own; it can be left once.
        step: that is done, counted from 1.
        word: what this rank has to say, if anything.
        arrived: what `has_arrived` says of this step.
    """
    if word is not None:
        store.compare_set(key, "", f"{step} {word}")
    if not arrived or not store.check([key]):
        return None
    left_after, said = word_under(store, key)
    return said if left_after < step else None


def word_under(store: Store, key: str) -> tuple[int, str]:
    """The word that was left under `key`, behind the step after which it was."""
    left_after, _, said = store.get(key).decode().partition(" ")
    return int(left_after), said


def has_arrived(step: int, device: torch.device, *, is_alone: bool, is_logged: bool, log_every_n_steps: int) -> bool:
    """Whether this process holds what optimizer step `step` has computed, to which all ranks have given.

    On CUDA it runs ahead, but for logged steps, whose loss is read off the device. Where none is logged, it waits for
    the device every so many steps: else no rank would ever look.
    """
    if is_alone or device.type != "cuda" or is_logged:
        return True
    if log_every_n_steps or step % LOOK_EVERY_N_STEPS:
        return False
    from torch import cuda  # here, since signals are heard before torch is imported

    cuda.synchronize(device)
    return True
