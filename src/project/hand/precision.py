"""The precisions: dtype of the network, context of a forward pass, gradient scaler; and the device.

Training takes four of them (trainer.py); an evaluation also takes the others in which Lightning trains.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch

from project.errors import UserError

TRUE = {"bf16-true": torch.bfloat16, "16-true": torch.float16, "64-true": torch.float64}


def pick_device(accelerator: str, local_rank: int = 0) -> torch.device:
    """The device that `trainer.accelerator` names.

    Raises:
        UserError: where torch finds no such device.
    """
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if accelerator == "auto":
        return torch.device(next(name for name, is_here in available.items() if is_here))
    name = "cuda" if accelerator == "gpu" and available["cuda"] else accelerator.replace("gpu", "mps")
    if not available[name]:
        raise UserError(f"trainer.accelerator: {accelerator} asked for, but torch finds none here; take cpu or auto")
    return torch.device(name, local_rank) if name == "cuda" else torch.device(name)


def network_dtype(precision: str) -> torch.dtype:
    """The dtype of weights and buffers."""
    return TRUE.get(precision, torch.float32)


def forward_context(precision: str, device: torch.device) -> Callable[[], AbstractContextManager[object]]:
    """A factory for the context of each forward pass, which includes the loss."""
    if precision == "32-true":
        return nullcontext
    if precision in TRUE:
        return lambda: _default_dtype(TRUE[precision])
    dtype = torch.bfloat16 if precision == "bf16-mixed" else torch.float16
    # Without autocast's cache, a weight that is used twice is cast twice, and its two gradients add up in float32.
    return lambda: torch.autocast(device.type, dtype=dtype, cache_enabled=False)


def gradient_scaler(precision: str, device: torch.device) -> torch.amp.GradScaler:
    """The scaler of 16-mixed; for other precisions a disabled one, which changes nothing."""
    return torch.amp.GradScaler(device.type, enabled=precision == "16-mixed")


@contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """Within, new tensors have this dtype, such as a mask that a network makes in its forward pass."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
