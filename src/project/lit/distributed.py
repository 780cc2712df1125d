"""Lightning's strategies by the names that the twins share, with the options of the `distributed` group."""

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


def build_strategy(name: str, options: Distributed, num_ranks: int) -> Strategy | str:
    """The strategy for so many processes, on all machines together."""
    if num_ranks == 1:
        return "auto"
    timeout = timedelta(seconds=options.timeout_seconds)
    if name == "fsdp2":
        return Fsdp2(num_ranks, timeout, reduces_once=options.reduce_once_per_window)
    return Ddp(
        timeout,
        find_unused_parameters=name == "ddp_find_unused_parameters_true",
        static_graph=options.static_graph,
        gradient_as_bucket_view=options.gradient_as_bucket_view,
    )


def join(device: torch.device, timeout: timedelta) -> None:
    """Connect the ranks that a launcher has started; Lightning then does not do so itself."""
    if is_rank() and not torch.distributed.is_initialized():
        join_ranks("nccl" if device.type == "cuda" else "gloo", timeout)
        atexit.register(_leave)


def _leave() -> None:
    """Part at the process's end, but not after an exception: its traceback holds the model."""
    if not hasattr(sys, "last_value"):
        leave_ranks()


class Ddp(DDPStrategy):
    """DDP between ranks that are started already."""

    def __init__(self, timeout: timedelta, **options: Any) -> None:
        super().__init__(timeout=timeout, **options)
        self.timeout = timeout

    def setup_environment(self) -> None:
        """Join the other ranks."""
        join(self.root_device, self.timeout)
        super().setup_environment()


class Fsdp2(ModelParallelStrategy):
    """FSDP2 over all ranks, whose checkpoints hold whole tensors under torch's usual keys.

    `LitClassifier.configure_model` calls `fully_shard`. Lightning's own way of saving numbers the optimizer's
    parameters by their order in the module, not by that in the optimizer, as every other optimizer state dict does.
    """

    def __init__(self, num_ranks: int, timeout: timedelta, *, reduces_once: bool) -> None:
        super().__init__(num_ranks, 1, save_distributed_checkpoint=False, timeout=timeout)
        self.timeout = timeout
        self.reduces_once = reduces_once
        """Whether gradients are summed at a window's last micro-batch alone."""

    def setup_environment(self) -> None:
        """Join the other ranks."""
        join(self.root_device, self.timeout)
        super().setup_environment()

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        """Forward; the gradients of all ranks are summed in its backward pass, or wait for the window's last one."""
        module: Any = self.lightning_module
        if self.reduces_once:
            module.network.set_requires_gradient_sync(module.training_plan.closes_window(batch_idx))
        return super().training_step(batch, batch_idx)

    def on_validation_start(self) -> None:
        """Give every rank the main rank's buffers: DistributedDataParallel does so, `fully_shard` does not."""
        module: Any = self.lightning_module
        module.world.broadcast_buffers(module.network)

    def lightning_module_state_dict(self) -> dict[str, Any]:
        """Whole weights and buffers, on every rank."""
        assert self.lightning_module is not None
        state: dict[str, Any] = full_tensors(self.lightning_module.state_dict())
        return state

    def optimizer_state(self, optimizer: Optimizer) -> dict[str, Any]:
        """The optimizer's state dict with whole tensors, on every rank."""
        state: dict[str, Any] = full_tensors(optimizer.state_dict())
        return state

    @property
    def lightning_restore_optimizer(self) -> bool:
        """Whether Lightning asks for the optimizers' state to be loaded."""
        return True

    def load_checkpoint(self, checkpoint_path: Any, weights_only: bool | None = None) -> dict[str, Any]:
        """The whole checkpoint, on every rank."""
        content: dict[str, Any] = self.checkpoint_io.load_checkpoint(checkpoint_path, weights_only=weights_only)
        return content

    def load_model_state_dict(self, checkpoint: Mapping[str, Any], strict: bool = True) -> None:
        """Each rank's part of the weights."""
        module = self.lightning_module
        assert module is not None
        module.load_state_dict(sharded_weights(checkpoint["state_dict"], module), strict=strict)

    def load_optimizer_state_dict(self, checkpoint: Mapping[str, Any]) -> None:
        """Each rank's part of the optimizer's state."""
        for optimizer, state in zip(self.optimizers, checkpoint["optimizer_states"], strict=True):
            optimizer.load_state_dict(sharded_state(state, optimizer))
