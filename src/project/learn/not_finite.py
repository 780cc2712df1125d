"""Checks a run's losses for NaN and infinity without a read off the device at each step.

Losses and example ids stay on the device until something is read off it anyway: at logged steps, before a validation
and before a checkpoint. So no checkpoint is saved after such a loss. The policy `skip` has to know at once, and reads
one number per step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from project.data.dataset import JsonlDataset
from project.errors import UserError
from project.private import copy_
from project.ranks.sharding import is_sharded
from project.ranks.world import World

Policy = Literal["stop", "skip", "ignore"]

LOOK_AFTER = 256
"""Micro-batches after which the waiting losses are checked, all together."""

NUM_NAMED = 5
"""Examples that a message names."""


class _Loss(NamedTuple):
    """A micro-batch's loss that is not finite."""

    step: int
    value: float
    ids: list[int]


class LossWatch:
    """Takes every micro-batch's loss. When one is not finite, it ends the run or leaves the optimizer step out.

    Args:
        policy: what to do when a loss is not finite.
        network: the trained network. Its buffers are restored when a step is left out; its weights are checked before
            a checkpoint is saved.
        rows: the training rows, for messages.
        world: this rank among the others. All ranks make the same calls and decide the same.
        say: prints a line on the main process.
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
        """Begin or continue training with the network as it is now."""
        if self.policy == "skip":
            self._buffers = [buffer.clone() for buffer in self.network.buffers()]

    def saw(self, step: int, loss: Tensor, ids: Tensor) -> None:
        """Take a micro-batch's loss, () float32, and example ids, (B,) int64; `step` is its optimizer step, from 1.

        Raises:
            UserError: an earlier loss was not finite; checked after every `LOOK_AFTER` micro-batches.
        """
        if self.policy == "ignore":
            return
        if self.policy == "stop" and len(self._waiting) >= LOOK_AFTER:
            self.check()
        self._waiting.append((step, loss.detach(), ids))

    def leave_out_if_not_finite(self, parameters: Iterable[nn.Parameter]) -> bool:
        """At a window's end, under `skip`: leave this optimizer step out if a loss is not finite; say whether it is.

        To leave a step out is to set its gradients to None, so that the optimizer changes no parameter, and to restore
        the buffers. Call it after unscaling. It reads one number off the device.
        """
        if self.policy != "skip":
            return False
        num_faults = sum(~loss.isfinite() for _, loss, _ in self._waiting)
        assert isinstance(num_faults, Tensor)
        self.left_out = bool(self.world.all_reduce_(num_faults))
        buffers = list(self.network.buffers())
        if self.left_out:
            step, what = self._describe(self._all_faults())
            self.say(f"optimizer step {step} is left out: {what}")
            for parameter in parameters:
                parameter.grad = None
            if buffers:
                copy_(buffers, self._buffers)
        elif buffers:
            copy_(self._buffers, buffers)
        self._waiting.clear()
        return self.left_out

    def logged(self, loss: float) -> None:
        """Check the waiting losses by `loss`, their mean over all ranks: if it is finite, all of them are.

        Raises:
            UserError: a loss is not finite.
        """
        if math.isfinite(loss):
            self._waiting.clear()
        else:
            self.check()

    def check(self) -> None:
        """Check the waiting losses; a collective.

        Raises:
            UserError: a loss is not finite.
        """
        if self.policy == "stop" and (faults := self._all_faults()):
            step, what = self._describe(faults)
            raise UserError(
                f"optimizer step {step}: {what}; the checkpoints are from before it. Look at these "
                "rows, lower the learning rate or trainer.gradient_clip_val, and go on with --ckpt_path last; or let "
                "such steps be left out, with --model.not_finite skip"
            )

    def before_saving(self, step: int) -> None:
        """Check the waiting losses and the weights before the checkpoint of optimizer step `step` is written.

        Gradients can be NaN although the loss is finite, and then the weights are NaN too.

        Raises:
            UserError: a loss or a weight is not finite.
        """
        self.check()
        if self.policy == "ignore":
            return
        names = [name for rank in self.world.all_gather(self._not_finite_here()) for name in rank]
        if names:
            raise UserError(
                f"optimizer step {step}: weights of {names[0]} are not finite, though the losses that led there are; "
                "the checkpoints are from before it. Lower the learning rate or trainer.gradient_clip_val, and go on "
                "with --ckpt_path last"
            )

    def _not_finite_here(self) -> list[str]:
        """Names of the trained parameters that are not finite in this rank's part."""
        here = {
            name: parameter.to_local() if is_sharded(parameter) else parameter  # type: ignore[attr-defined]
            for name, parameter in self.network.named_parameters()
            if parameter.requires_grad
        }
        with torch.no_grad():  # a finite sum has finite terms, and is cheap; elements are checked only when it is not
            suspect = ~torch.stack([tensor.sum(dtype=torch.float32) for tensor in here.values()]).isfinite()
            found = zip(here.items(), suspect.tolist(), strict=True)
            return [name for (name, tensor), is_suspect in found if is_suspect and not bool(tensor.isfinite().all())]

    def _all_faults(self) -> list[_Loss]:
        """The waiting losses of all ranks that are not finite; empties the list of waiting losses."""
        waiting, self._waiting = self._waiting, []
        values = torch.stack([loss for _, loss, _ in waiting]).tolist() if waiting else []
        found = zip(waiting, values, strict=True)
        mine = [_Loss(step, value, ids.tolist()) for (step, _, ids), value in found if not math.isfinite(value)]
        return [fault for rank in self.world.all_gather(mine) for fault in rank]

    def _describe(self, faults: list[_Loss]) -> tuple[int, str]:
        """The first optimizer step among the faults, and its loss and examples in words."""
        step = min(fault.step for fault in faults)
        faults = [fault for fault in faults if fault.step == step]
        ids = [index for fault in faults for index in fault.ids]
        named = ids[:NUM_NAMED]
        more = f" and {len(ids) - len(named)} more" if len(ids) > len(named) else ""
        lines = ", ".join(str(self.rows.line(index)) for index in named)
        return step, (
            f"the loss is {faults[0].value} with training examples {', '.join(map(str, named))}{more} among them "
            f"({self.rows.path}, lines {lines}{more})"
        )
