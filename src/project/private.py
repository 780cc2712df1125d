"""Every private name of torch and Lightning that the project uses.

Both versions are pinned. tests/test_private.py tests each name and says what breaks without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import IO, TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store

MIXED_PRECISION_STATE = "MixedPrecision"
"""Lightning's checkpoint key for the state of the gradient scaler."""


def divide_(tensors: Sequence[Tensor], divisor: float) -> None:
    """Divide all tensors in place, by one kernel if the device has it."""
    torch._foreach_div_(list(tensors), divisor)


def copy_(to: Sequence[Tensor], from_: Sequence[Tensor]) -> None:
    """Copy each tensor of `from_` into its counterpart, by one kernel if the device has it."""
    torch._foreach_copy_(list(to), list(from_))


def is_recomputing() -> bool:
    """Whether this forward pass runs within backward, as activation checkpointing repeats it."""
    return torch._C._current_graph_task_id() != -1


def archive_reader(file: IO[bytes]) -> Any:
    """The reader behind `torch.load`: it sees in a file what will be loaded."""
    return torch._C.PyTorchFileReader(file)


def storage_key(tensor: Tensor) -> int:
    """One number for all tensors that share memory, as in `torch.save`."""
    return int(tensor.untyped_storage()._cdata)


def default_store() -> Store:
    """The key-value store of the default process group."""
    from torch.distributed.distributed_c10d import _get_default_store

    return _get_default_store()


def leave_signals_alone(trainer: Any) -> None:
    """Turn off Lightning's broadcast and device read for SIGTERM in each micro-batch (issues 20806, 21623).

    ranks/signals.py handles signals.
    """
    trainer.fit_loop.epoch_loop._broadcast_sigterm_tensor = lambda: None


def take_metrics_for_granted(trainer: Any) -> None:
    """Let ReduceLROnPlateau read its metric in a resumed epoch; the checkpoint holds the metrics."""
    trainer.fit_loop._restarting = False


def loops_at(
    *, epoch: int, micro_batch: int, step: int, num_micro_batches: int, validation_due: bool
) -> dict[str, Any]:
    """The state of Lightning's fit loop after `micro_batch` micro-batches of `epoch`, in its checkpoint format."""
    begun = epoch + 1 if micro_batch else epoch
    validations = int(validation_due)
    return {
        "epoch_progress": _both(ready=begun, started=begun, processed=epoch, completed=epoch),
        "epoch_loop.state_dict": {"_batches_that_stepped": step},
        "epoch_loop.batch_progress": {
            "total": _done(epoch * num_micro_batches + micro_batch),
            "current": _done(micro_batch),
            "is_last_batch": micro_batch == num_micro_batches,
        },
        "epoch_loop.scheduler_progress": _both(ready=step, completed=step),
        "epoch_loop.automatic_optimization.optim_progress": {
            "optimizer": {
                "step": _both(ready=step, completed=step),
                "zero_grad": _both(ready=step, started=step, completed=step),
            }
        },
        "epoch_loop.val_loop.batch_progress": {
            **_both(ready=validations, started=validations, processed=0, completed=0),
            "is_last_batch": False,
        },
    }


def _done(count: int) -> dict[str, int]:
    return {"ready": count, "started": count, "processed": count, "completed": count}


def _both(**counts: int) -> dict[str, dict[str, int]]:
    return {"total": dict(counts), "current": dict(counts)}


def is_attached(module: Any) -> bool:
    """Whether a LightningModule has a Trainer; the property `trainer` would raise without one."""
    return module._trainer is not None
