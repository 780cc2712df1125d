"""How several processes work together: the `distributed` group, and the strategies that both twins implement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from jsonargparse.typing import PositiveFloat

from project.errors import UserError

Strategy = Literal["auto", "ddp", "ddp_find_unused_parameters_true", "ddp_spawn", "ddp_fork", "fsdp2"]
"""How several processes may share the work: what both twins implement, under Lightning's names.

auto is ddp where there are several processes. `fsdp2` is Lightning's ModelParallelStrategy around `fully_shard`.
"""


@dataclass
class Distributed:
    """How several processes work together; trainer.strategy, devices and num_nodes say in what way and how many."""

    timeout_seconds: PositiveFloat = 1800.0
    """How long a rank waits for the others in a collective before the run ends with an error."""
    static_graph: bool = False
    """Tell DistributedDataParallel that every step uses the same parameters; not with accumulated micro-batches."""
    gradient_as_bucket_view: bool = False
    """Let gradients live in DistributedDataParallel's buckets, which saves a copy of them."""
    reduce_once_per_window: bool = False
    """fsdp2: add gradients up on a window's last micro-batch alone, as ddp does; faster, and takes more memory."""

    def check(self, strategy: str, accumulate_grad_batches: int) -> None:
        """Hold the options against the strategy.

        Raises:
            UserError: one line for each option that the strategy does not know.
        """
        faults = []
        is_sharded = strategy == "fsdp2"
        if self.static_graph and accumulate_grad_batches > 1:
            faults.append(
                "distributed.static_graph: true, but torch's static graph takes no accumulated micro-batches "
                f"(trainer.accumulate_grad_batches: {accumulate_grad_batches}); turn one of them off"
            )
        for key in ("static_graph", "gradient_as_bucket_view"):
            if is_sharded and getattr(self, key):
                faults.append(f"distributed.{key}: true is an option of the ddp strategies, not of fsdp2; turn it off")
        if self.reduce_once_per_window and not is_sharded:
            faults.append(
                f"distributed.reduce_once_per_window: true is an option of fsdp2, not of {strategy}, which does so in "
                "any case; turn it off"
            )
        if faults:
            raise UserError("\n".join(faults))
