"""Writes the trace of any LightningModule, without touching a bit of its training.

What is seen, and where: Lightning has no hook for some stages, so those are looked at around a method of the module.

    data, rng      on_train_batch_start
    forward        what `training_step` returns, before Lightning divides it by accumulate_grad_batches
    backward       on_after_backward; under DDP the reduction has happened by then; under 16-mixed still scaled
    unscale        Callback.on_before_optimizer_step, which runs before the module's own hook of that name
    normalise      right before `configure_gradient_clipping`: what the module's on_before_optimizer_step did
    clip           right after `configure_gradient_clipping`, which Lightning calls without a clip value too
    optimizer, scheduler    on_train_batch_end, when both are done
    evaluation     on_validation_end
    checkpoint     on_save_checkpoint, which Lightning leaves out for checkpoints that hold weights only

By manual optimization the loss is what `manual_backward` gets; normalise and clip are not seen. Where a batch has
several optimizer steps (manual optimization, LBFGS), each has records of its own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback
from torch import Tensor
from torch.optim import Optimizer

from project.errors import UserError
from project.trace.tracer import OFF, Level, Tracer


def index_of(batch: Any) -> Any:
    """The `index` of a batch that has one, or None."""
    found = batch.get("index") if isinstance(batch, Mapping) else getattr(batch, "index", None)
    return found if isinstance(found, Tensor) else None


class TraceCallback(Callback):
    """Writes `path` while the Trainer fits; see `project.trace.Tracer` for what is in it.

    Args:
        path: the trace to write; rank 1 of several processes writes `<name>.rank1.jsonl`, and so on.
        network: attribute of the LightningModule that is looked at; empty for the whole module. Two traces are
            comparable where their tensors have the same names, so name the part that the other loop calls network.
        level: cheap or full.
        tensors_at: number of the record whose tensors are saved whole.
        ids: which examples a batch holds; by default its `index`, if it has one.
        count: how many examples a batch holds, by the batch and its number; by default the length of its first tensor.
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
        """Open the trace, and look around the two methods."""
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

        def look_at_loss(training_step: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            output = training_step(*args, **kwargs)
            loss = output.get("loss") if isinstance(output, Mapping) else output
            if isinstance(loss, Tensor) and pl_module.automatic_optimization:
                self._forward(trainer, loss)
            return output

        def look_at_clipping(configure_gradient_clipping: Callable[..., None], *args: Any, **kwargs: Any) -> None:
            self.trace.gradients("normalise")
            configure_gradient_clipping(*args, **kwargs)
            self.trace.gradients("clip")

        self._replace(pl_module, "training_step", look_at_loss)
        self._replace(pl_module, "configure_gradient_clipping", look_at_clipping)

    def on_train_batch_start(
        self, trainer: L.Trainer, pl_module: L.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """Data and random state, before the forward pass."""
        self.batch, self.batch_idx = batch, batch_idx
        self._micro_batch(trainer)

    def on_before_backward(self, trainer: L.Trainer, pl_module: L.LightningModule, loss: Tensor) -> None:
        """By manual optimization this is where the loss is seen."""
        if not pl_module.automatic_optimization:
            self._forward(trainer, loss)

    def on_after_backward(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """The gradients that the window has gathered so far."""
        self.trace.gradients("backward")

    def on_before_optimizer_step(self, trainer: L.Trainer, pl_module: L.LightningModule, optimizer: Optimizer) -> None:
        """A window is complete; its gradients are unscaled."""
        self._end_step(trainer)
        self.trace.optimizer_step(trainer.current_epoch, self.step)
        self.trace.gradients("unscale")
        self.scale = scale_of(trainer)
        self.in_step = True

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """If a window ended: the update is done, and the scheduler has advanced."""
        self._end_step(trainer)
        self.batch = None

    def on_validation_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Remember which metrics there are already."""
        self.metrics_before = dict(trainer.callback_metrics)

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Every metric that this validation logged, whatever its name: its value is a new tensor."""
        if trainer.state.fn == "fit" and not trainer.sanity_checking:
            found = trainer.callback_metrics
            metrics = {name: float(found[name]) for name in found if found[name] is not self.metrics_before.get(name)}
            self.trace.evaluation(trainer.current_epoch, self.step, metrics)

    def on_save_checkpoint(self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]) -> None:
        """The weights and buffers that are saved, under the network's own names."""
        prefix = f"{self.network}." if self.network else ""
        saved = {name: tensor for name, tensor in checkpoint["state_dict"].items() if name.startswith(prefix)}
        names = {name.removeprefix(prefix): tensor for name, tensor in saved.items()}
        self.trace.checkpoint(trainer.global_step, names)
        self.trace.flush()  # a run that is killed goes on from here

    def on_exception(self, trainer: L.Trainer, pl_module: L.LightningModule, exception: BaseException) -> None:
        """What was traced so far is worth most now; Lightning calls no teardown."""
        self._close(pl_module)

    def teardown(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        """Write what waits, and leave the module as it was."""
        self._close(pl_module)

    def _micro_batch(self, trainer: L.Trainer) -> None:
        self.num_examples = self.count(self.batch, self.batch_idx)
        inputs, ids = tensors_of(self.batch), self.ids(self.batch)
        self.trace.micro_batch(trainer.current_epoch, self.batch_idx, self.step, ids=ids, inputs=inputs)

    def _forward(self, trainer: L.Trainer, loss: Tensor) -> None:
        if self.in_step:  # this batch has had an update already, and goes on
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

    def _replace(self, module: L.LightningModule, name: str, looking: Callable[..., Any]) -> None:
        """Put `looking` around a method of this one module, until `_close`."""
        method = getattr(module, name)
        around: Any = functools.partial(looking, method)
        # Lightning reads there which arguments training_step takes, and looks no further than one wrapper.
        around.__wrapped__ = getattr(method, "__wrapped__", method)
        self._replaced[name] = vars(module).get(name)
        setattr(module, name, around)

    def _close(self, module: L.LightningModule) -> None:
        for name, before in self._replaced.items():
            if before is None:
                delattr(module, name)
            else:
                setattr(module, name, before)
        self._replaced.clear()
        self.trace.close()


def tensors_of(batch: Any) -> Iterable[Tensor]:
    """The tensors of a batch of any nesting, in order."""
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
    """Length of a batch's first tensor."""
    first = next(iter(tensors_of(batch)), None)
    return len(first) if first is not None and first.ndim else 0


def scale_of(trainer: L.Trainer) -> float:
    """The gradient scaler's factor, 1 where there is none."""
    scaler = getattr(trainer.precision_plugin, "scaler", None)
    return float(scaler.get_scale()) if isinstance(scaler, torch.amp.GradScaler) else 1.0
