"""Writes the trace of any LightningModule; its training keeps the same bits.

Each stage is recorded at a hook. Where Lightning has no hook, a method of the module is wrapped.

    data, rng      on_train_batch_start
    forward        the output of `training_step`, before Lightning divides it by accumulate_grad_batches
    backward       on_after_backward: after DDP's reduction; under 16-mixed still scaled
    unscale        Callback.on_before_optimizer_step, which runs before the module's hook of that name
    normalise      right before `configure_gradient_clipping`, after the module's on_before_optimizer_step
    clip           right after `configure_gradient_clipping`, which Lightning calls without a clip value too
    optimizer, scheduler    on_train_batch_end
    evaluation     on_validation_end
    checkpoint     on_save_checkpoint, which Lightning does not call for checkpoints of weights only

In manual optimization the loss is the argument of `manual_backward`, and there are no stages normalise and clip. A
batch with several optimizer steps (manual optimization, LBFGS) has records for each of them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import lightning as L
from lightning.pytorch.callbacks import Callback
from torch import Tensor
from torch.optim import Optimizer

from project.errors import UserError
from project.lit.trainer import scale_of
from project.trace.tracer import OFF, Level, Tracer


def index_of(batch: Any) -> Any:
    """The `index` of a batch, a tensor; None for a batch without one."""
    found = batch.get("index") if isinstance(batch, Mapping) else getattr(batch, "index", None)
    return found if isinstance(found, Tensor) else None


class TraceCallback(Callback):
    """Writes a trace while the Trainer fits; `project.trace.Tracer` describes its content.

    Args:
        path: the trace to write; rank 1 writes `<name>.rank1.jsonl`, and so on.
        network: the submodule to trace; empty for the whole module. `compare` matches tensors by name, so take the
            part that the other loop traces.
        level: cheap or full.
        tensors_at: number of the record whose tensors are saved in full.
        ids: gives the example ids of a batch; by default its `index`, if it has one.
        count: gives the number of examples in a batch, from the batch and its number; by default the length of its
            first tensor.

    Raises:
        UserError: when training starts, where the module has no such submodule.
    """

    def __init__(
        self,
        path: str | Path,
        network: str = "",
        *,
        level: Level = "full",
        tensors_at: int | None = None,
        ids: Callable[[Any], Any] = index_of,
        count: Callable[[Any, int], int] | None = None,
    ) -> None:
        self.path = path
        self.network = network
        self.level: Level = level
        self.tensors_at = tensors_at
        self.ids = ids
        self.count = count or first_length
        self.trace = OFF
        self._replaced: dict[str, Any] = {}

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Open the trace and wrap the two methods."""
        try:
            network = pl_module.get_submodule(self.network)
        except AttributeError:
            parts = ", ".join(name for name, _ in pl_module.named_children())
            raise UserError(
                f"TraceCallback: {type(pl_module).__name__} has no module {self.network}; there are: {parts}"
            ) from None
        path = Path(trainer.strategy.broadcast(self.path))
        self.trace = Tracer(
            path.with_suffix(f".rank{trainer.global_rank}{path.suffix}") if trainer.global_rank else path,
            network,
            trainer.optimizers,
            level=self.level,
            source=f"{type(pl_module).__name__}, Lightning {L.__version__}",
            tensors_at=self.tensors_at,
            goes_on_at=(trainer.current_epoch, trainer.fit_loop.batch_idx + 1, trainer.global_step)
            if trainer.global_step
            else None,
        )
        self.step = trainer.global_step
        self.in_step = False

        def trace_loss(training_step: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            output = training_step(*args, **kwargs)
            loss = output.get("loss") if isinstance(output, Mapping) else output
            if isinstance(loss, Tensor) and pl_module.automatic_optimization:
                self._forward(trainer, loss)
            return output

        def trace_clipping(configure_gradient_clipping: Callable[..., None], *args: Any, **kwargs: Any) -> None:
            self.trace.gradients("normalise")
            configure_gradient_clipping(*args, **kwargs)
            self.trace.gradients("clip")

        self._replace(pl_module, "training_step", trace_loss)
        self._replace(pl_module, "configure_gradient_clipping", trace_clipping)

    def on_train_batch_start(
        self, trainer: L.Trainer, pl_module: L.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """Record data and random state, before the forward pass."""
        self.batch, self.batch_idx = batch, batch_idx
        self._micro_batch(trainer)

    def on_before_backward(self, trainer: L.Trainer, pl_module: L.LightningModule, loss: Tensor) -> None:
        """Record the loss in manual optimization."""
        if not pl_module.automatic_optimization:
            self._forward(trainer, loss)

    def on_after_backward(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Record the window's gradients so far."""
        self.trace.gradients("backward")

    def on_before_optimizer_step(self, trainer: L.Trainer, pl_module: L.LightningModule, optimizer: Optimizer) -> None:
        """Record the window's unscaled gradients."""
        self._end_step(trainer)
        self.trace.optimizer_step(trainer.current_epoch, self.step)
        self.trace.gradients("unscale")
        self.scale = scale_of(trainer)
        self.in_step = True

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Record the update and the scheduler, if a window ended."""
        self._end_step(trainer)
        self.batch = None

    def on_validation_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Remember the metrics that exist already."""
        self.metrics_before = dict(trainer.callback_metrics)

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Record every metric that this validation logged: its value is a new tensor."""
        if trainer.state.fn == "fit" and not trainer.sanity_checking:
            found = trainer.callback_metrics
            metrics = {name: float(found[name]) for name in found if found[name] is not self.metrics_before.get(name)}
            self.trace.evaluation(trainer.current_epoch, self.step, metrics)

    def on_save_checkpoint(self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]) -> None:
        """Record the saved weights and buffers under the network's own names."""
        prefix = f"{self.network}." if self.network else ""
        saved = {name: tensor for name, tensor in checkpoint["state_dict"].items() if name.startswith(prefix)}
        names = {name.removeprefix(prefix): tensor for name, tensor in saved.items()}
        self.trace.checkpoint(trainer.global_step, names)
        self.trace.flush()  # a killed run continues from here

    def on_exception(self, trainer: L.Trainer, pl_module: L.LightningModule, exception: BaseException) -> None:
        """Write the trace so far; Lightning calls no teardown after an error."""
        self._close(pl_module)

    def teardown(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        """Write the trace and unwrap the methods."""
        self._close(pl_module)

    def _micro_batch(self, trainer: L.Trainer) -> None:
        self.num_examples = self.count(self.batch, self.batch_idx)
        inputs, ids = tensors_of(self.batch), self.ids(self.batch)
        self.trace.micro_batch(trainer.current_epoch, self.batch_idx, self.step, ids=ids, inputs=inputs)

    def _forward(self, trainer: L.Trainer, loss: Tensor) -> None:
        if self.in_step:  # the batch's second optimizer step
            self._end_step(trainer)
            self._micro_batch(trainer)
        self.trace.forward(loss, self.num_examples)

    def _end_step(self, trainer: L.Trainer) -> None:
        if self.in_step:
            scale = scale_of(trainer)
            self.trace.optimizer_stepped(skipped=scale < self.scale, scale=scale)
            self.trace.scheduler_stepped()
            self.step += 1
            self.in_step = False

    def _replace(self, module: L.LightningModule, name: str, around: Callable[..., Any]) -> None:
        """Wrap a method of this module in `around`, until `_close`."""
        method = getattr(module, name)
        wrapped: Any = functools.partial(around, method)
        # Lightning reads the arguments of training_step from here, and follows one wrapper only.
        wrapped.__wrapped__ = getattr(method, "__wrapped__", method)
        self._replaced[name] = vars(module).get(name)
        setattr(module, name, wrapped)

    def _close(self, module: L.LightningModule) -> None:
        for name, before in self._replaced.items():
            if before is None:
                delattr(module, name)
            else:
                setattr(module, name, before)
        self._replaced.clear()
        self.trace.close()


def tensors_of(batch: Any) -> Iterable[Tensor]:
    """The tensors of a nested batch, in order."""
    if isinstance(batch, Tensor):
        yield batch
    elif isinstance(batch, Mapping):
        for key in batch:
            yield from tensors_of(batch[key])
    elif isinstance(batch, list | tuple):
        for item in batch:
            yield from tensors_of(item)
    elif is_dataclass(batch):
        for field in fields(batch):
            yield from tensors_of(getattr(batch, field.name))


def first_length(batch: Any, batch_idx: int) -> int:
    """The length of a batch's first tensor; 0 without one."""
    first = next(iter(tensors_of(batch)), None)
    return len(first) if first is not None and first.ndim else 0
