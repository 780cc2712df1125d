"""Watches a run for losses that are NaN or infinite, without reading anything off the device at each step.

Losses and example ids wait on the device, and are looked at where something is read off it anyway: at logged steps,
before a validation, and before a checkpoint is written, so that none holds what such a loss has done. Only to leave a
step out (`skip`) must the host know at that very step, and reads one number there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from project.data.dataset import JsonlDataset
from project.errors import UserError
from project.private import copy_
from project.ranks.sharding import is_sharded
from project.ranks.world import World

Policy = Literal["stop", "skip", "ignore"]

LOOK_AFTER = 256
"""Micro-batches that wait at most; they are looked at together."""

NUM_NAMED = 5
"""Examples that a message names."""


class LossWatch:
    """Sees every micro-batch's loss, and ends the run, or leaves the step out, where one is not finite.

    Args:
        policy: what to do then.
        network: the run's; its buffers are put back where a step is left out, its weights looked at before saving.
        rows: the training rows, to name them.
        world: this rank among the others; all of them call this alike, and decide alike.
        say: prints a line, on the main process.
    """

    def __init__(
        self, policy: Policy, network: nn.Module, rows: JsonlDataset, world: World, say: Callable[[str], None]
    ) -> None:
        self.policy = policy
        self.network = network
        self.rows = rows
        self.world = world
        self.say = say
        self.left_out = False
        """Whether the last optimizer step was left out."""
        self._waiting: list[tuple[int, Tensor, Tensor]] = []
        self._buffers: list[Tensor] = []

    def begin(self) -> None:
        """Training begins, or goes on, with the network as it is now."""
        if self.policy == "skip":
            self._buffers = [buffer.clone() for buffer in self.network.buffers()]

    def saw(self, step: int, loss: Tensor, ids: Tensor) -> None:
        """A micro-batch's loss, () float32, and its examples, (B,) int64; `step`, from 1, is what its window ends with.

        Raises:
            UserError: where an earlier one was not finite and many wait.
        """
        if self.policy == "ignore":
            return
        if self.policy == "stop" and len(self._waiting) >= LOOK_AFTER:
            self.check()
        self._waiting.append((step, loss.detach(), ids))

    def leave_out_if_not_finite(self, parameters: Iterable[nn.Parameter]) -> bool:
        """At a window's end, gradients unscaled: whether this optimizer step is left out, which `skip` alone does.

        Its gradients are taken away then, since an optimizer leaves a parameter without one as it is, and buffers are
        put back. Takes one number off the device.
        """
        if self.policy != "skip":
            return False
        num_faults = sum(~loss.isfinite() for _, loss, _ in self._waiting)
        assert isinstance(num_faults, Tensor)
        self.left_out = bool(self.world.all_reduce_(num_faults))
        buffers = list(self.network.buffers())
        if self.left_out:
            step, value, ids = self._first_fault(self._all_waiting())
            self.say(f"optimizer step {step} is left out: {self._what(value, ids)}")
            for parameter in parameters:
                parameter.grad = None
            if buffers:
                copy_(buffers, self._buffers)
        elif buffers:
            copy_(self._buffers, buffers)
        self._waiting.clear()
        return self.left_out

    def logged(self, loss: float) -> None:
        """A step is logged, with this mean over all ranks and all losses since the last one: if finite, so were those.

        Raises:
            UserError: where one was not.
        """
        if math.isfinite(loss):
            self._waiting.clear()
        else:
            self.check()

    def check(self) -> None:
        """Look at the losses that wait; a collective.

        Raises:
            UserError: where one is not finite.
        """
        if self.policy == "stop" and (faults := self._all_waiting()):
            step, value, ids = self._first_fault(faults)
            raise UserError(
                f"optimizer step {step}: {self._what(value, ids)}; the checkpoints are from before it. Look at these "
                "rows, lower the learning rate or trainer.gradient_clip_val, and go on with --ckpt_path last; or let "
                "such steps be left out, with --model.not_finite skip"
            )

    def before_saving(self, step: int) -> None:
        """Look at the losses that wait, and at the weights, before a checkpoint of `step` steps is written.

        Raises:
            UserError: where one is not finite: gradients may be NaN where the loss is a number.
        """
        self.check()
        if self.policy == "ignore":
            return
        names = [name for rank in self.world.all_gather(self._poisoned()) for name in rank]
        if names:
            raise UserError(
                f"optimizer step {step}: weights of {names[0]} are not finite, though the losses that led there are; "
                "the checkpoints are from before it. Lower the learning rate or trainer.gradient_clip_val, and go on "
                "with --ckpt_path last"
            )

    def _poisoned(self) -> list[str]:
        """Names of the trained parameters that are not finite, in their part on this rank."""
        here = {
            name: parameter.to_local() if is_sharded(parameter) else parameter  # type: ignore[attr-defined]
            for name, parameter in self.network.named_parameters()
            if parameter.requires_grad
        }
        with torch.no_grad():  # a sum is cheap, and finite wherever every element is and nothing overflows
            suspect = ~torch.stack([tensor.sum(dtype=torch.float32) for tensor in here.values()]).isfinite()
            found = zip(here.items(), suspect.tolist(), strict=True)
            return [name for (name, tensor), is_suspect in found if is_suspect and not bool(tensor.isfinite().all())]

    def _all_waiting(self) -> list[tuple[int, float, list[int]]]:
        """Step, loss and examples of what waits and is not finite, of all ranks; nothing waits afterwards."""
        waiting, self._waiting = self._waiting, []
        values = torch.stack([loss for _, loss, _ in waiting]).tolist() if waiting else []
        mine = [
            (step, value, ids.tolist())
            for (step, _, ids), value in zip(waiting, values, strict=True)
            if not math.isfinite(value)
        ]
        return [fault for rank in self.world.all_gather(mine) for fault in rank]

    def _first_fault(self, faults: Sequence[tuple[int, float, list[int]]]) -> tuple[int, float, list[int]]:
        first = min(step for step, _, _ in faults)
        of_it = [fault for fault in faults if fault[0] == first]
        return first, of_it[0][1], [index for _, _, ids in of_it for index in ids]

    def _what(self, value: float, ids: Sequence[int]) -> str:
        named = ids[:NUM_NAMED]
        more = f" and {len(ids) - len(named)} more" if len(ids) > len(named) else ""
        lines = ", ".join(str(self.rows.line(index)) for index in named)
        return (
            f"the loss is {value} with training examples {', '.join(map(str, named))}{more} among them "
            f"({self.rows.path}, lines {lines}{more})"
        )
