"""Several ranks under Lightning: the process group, DistributedDataParallel, FSDP2.

torchrun or ranks/launch.py has started the ranks; environment variables tell each its number.
"""

from __future__ import annotations

import atexit
import sys
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import torch
from lightning.pytorch.strategies import DDPStrategy, ModelParallelStrategy, Strategy
from torch.optim import Optimizer

from project.ranks.config import Distributed
from project.ranks.environment import is_rank
from project.ranks.launch import join_ranks, leave_ranks
from project.ranks.sharding import full_tensors, sharded_state, sharded_weights


class ProcessGroup(Strategy):
    """Creates the process group itself, and destroys it at the end of the process."""

    timeout: timedelta

    def setup_environment(self) -> None:
        """Create the process group; Lightning then finds one and creates none."""
        if is_rank() and not torch.distributed.is_initialized():
            join_ranks("nccl" if self.root_device.type == "cuda" else "gloo", self.timeout)
            atexit.register(_leave)
        super().setup_environment()


def _leave() -> None:
    if not hasattr(sys, "last_value"):  # not after an exception: its traceback holds the model
        leave_ranks()


def build_strategy(name: str, options: Distributed, num_ranks: int) -> Strategy | str:
    """The strategy `name` for so many ranks, on all machines together."""
    if num_ranks == 1:
        return "auto"
    timeout = timedelta(seconds=options.timeout_seconds)
    if name == "fsdp2":
        return Fsdp2(num_ranks, timeout, reduce_once_per_window=options.reduce_once_per_window)
    return Ddp(
        timeout,
        find_unused_parameters=name == "ddp_find_unused_parameters_true",
        static_graph=options.static_graph,
        gradient_as_bucket_view=options.gradient_as_bucket_view,
    )


class Ddp(ProcessGroup, DDPStrategy):
    """DistributedDataParallel over all ranks."""

    def __init__(self, timeout: timedelta, **options: Any) -> None:
        super().__init__(timeout=timeout, **options)
        self.timeout = timeout


class Fsdp2(ProcessGroup, ModelParallelStrategy):
    """FSDP2 over all ranks; `LitClassifier.configure_model` calls `fully_shard`.

    Checkpoints hold full tensors under torch's usual keys. Lightning's own would number the optimizer's parameters by
    their order in the module; every other optimizer state dict numbers them by their order in the optimizer.
    """

    def __init__(self, num_ranks: int, timeout: timedelta, *, reduce_once_per_window: bool) -> None:
        super().__init__(num_ranks, 1, save_distributed_checkpoint=False, timeout=timeout)
        self.timeout = timeout
        self.reduce_once_per_window = reduce_once_per_window

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        """Forward. With `reduce_once_per_window`, only a window's last backward exchanges gradients between ranks."""
        module: Any = self.lightning_module
        if self.reduce_once_per_window:
            module.network.set_requires_gradient_sync(module.plan.closes_window(batch_idx))
        return super().training_step(batch, batch_idx)

    def on_validation_start(self) -> None:
        """Broadcast the main rank's buffers: DistributedDataParallel does so, `fully_shard` does not."""
        module: Any = self.lightning_module
        module.world.broadcast_buffers(module.network)

    def lightning_module_state_dict(self) -> dict[str, Any]:
        """Full weights and buffers, on every rank."""
        assert self.lightning_module is not None
        state: dict[str, Any] = full_tensors(self.lightning_module.state_dict())
        return state

    def optimizer_state(self, optimizer: Optimizer) -> dict[str, Any]:
        """The optimizer's state dict with full tensors, on every rank."""
        state: dict[str, Any] = full_tensors(optimizer.state_dict())
        return state

    @property
    def lightning_restore_optimizer(self) -> bool:
        """Let Lightning load the optimizer state, through `load_optimizer_state_dict`."""
        return True

    def load_checkpoint(self, checkpoint_path: Any, weights_only: bool | None = None) -> dict[str, Any]:
        """The checkpoint with full tensors, on every rank."""
        content: dict[str, Any] = self.checkpoint_io.load_checkpoint(checkpoint_path, weights_only=weights_only)
        return content

    def load_model_state_dict(self, checkpoint: Mapping[str, Any], strict: bool = True) -> None:
        """Load this rank's shards of the weights."""
        module = self.lightning_module
        assert module is not None
        module.load_state_dict(sharded_weights(checkpoint["state_dict"], module), strict=strict)

    def load_optimizer_state_dict(self, checkpoint: Mapping[str, Any]) -> None:
        """Load this rank's shards of the optimizer state."""
        for optimizer, state in zip(self.optimizers, checkpoint["optimizer_states"], strict=True):
            optimizer.load_state_dict(sharded_state(state, optimizer))
