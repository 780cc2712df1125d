"""Writes the trace of any LightningModule, without touching a bit of its training.

What is seen, and where: Lightning has no hook for some stages, so those are looked at around a method of the module.

    data, rng      on_train_batch_start
    forward        what `training_step` returns, before Lightning divides it by accumulate_grad_batches
    backward       on_after_backward; under DDP the reduction has happened by then; under 16-mixed still scaled
    unscale        Callback.on_before_optimizer_step, which runs before the module's own hook of that name
    normalise      right before `configure_gradient_clipping`: what the module's on_before_optimizer_step did
    clip           right after `configure_gradient_clipping`, which Lightning calls without a clip value too
    optimizer, scheduler    on_train_batch_end, when both are done
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback
from torch import Tensor, nn
from torch.optim import Optimizer

from project.trace import OFF, Level, Tracer


def index_of(batch: Any) -> Any:
    """The `index` of a batch that has one, or None."""
    found = batch.get("index") if isinstance(batch, Mapping) else getattr(batch, "index", None)
    return found if isinstance(found, Tensor) else None


class TraceCallback(Callback):
    """Writes `path` while the Trainer fits; see `project.trace.Tracer` for what is in it.

    Args:
        path: the trace to write.
        network: attribute of the LightningModule that is looked at; empty for the whole module. Two traces are
            comparable where their tensors have the same names, so name the part that the other loop calls network.
        level: cheap or full.
        tensors_at: number of the record whose tensors are saved whole.
        ids: which examples a batch holds; by default its `index`, if it has one.
    """

    def __init__(
        self,
        path: str | Path,
        network: str = "",
        *,
        level: Level = "full",
        tensors_at: int | None = None,
        ids: Callable[[Any], Any] = index_of,
    ) -> None:
        self.path = path
        self.network = network
        self.level: Level = level
        self.tensors_at = tensors_at
        self.ids = ids
        self.trace = OFF

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Open the trace, and look around the two methods."""
        network: nn.Module = pl_module.get_submodule(self.network)
        self.trace = Tracer(
            self.path,
            network,
            trainer.optimizers[0],
            level=self.level,
            source=f"{type(pl_module).__name__}, Lightning {L.__version__}",
            tensors_at=self.tensors_at,
        )
        self.step = trainer.global_step
        self.in_step = False
        self._look_around_training_step(pl_module)
        self._look_around_clipping(pl_module)

    def on_train_batch_start(
        self, trainer: L.Trainer, pl_module: L.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """Data and random state, before the forward pass."""
        self.batch = batch
        inputs = tensors_of(batch)
        self.trace.micro_batch(trainer.current_epoch, batch_idx, self.step, ids=self.ids(batch), inputs=inputs)

    def on_after_backward(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """The gradients that the window has gathered so far."""
        self.trace.gradients("backward")

    def on_before_optimizer_step(self, trainer: L.Trainer, pl_module: L.LightningModule, optimizer: Optimizer) -> None:
        """A window is complete; its gradients are unscaled."""
        self.trace.optimizer_step(trainer.current_epoch, self.step)
        self.trace.gradients("unscale")
        self.scale = scale_of(trainer)
        self.in_step = True

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """If a window ended: the update is done, and the scheduler has advanced."""
        if self.in_step:
            scale = scale_of(trainer)
            self.trace.optimizer_stepped(skipped=scale < self.scale, scale=scale)
            self.trace.scheduler_stepped()
            self.step += 1
            self.in_step = False

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Every metric that validation logged."""
        if trainer.state.fn == "fit" and not trainer.sanity_checking:
            metrics = {name: float(value) for name, value in trainer.callback_metrics.items() if "val" in name}
            self.trace.evaluation(trainer.current_epoch, self.step, metrics)

    def on_save_checkpoint(self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]) -> None:
        """The weights and buffers that are saved, under the network's own names."""
        prefix = f"{self.network}." if self.network else ""
        saved = {name: tensor for name, tensor in checkpoint["state_dict"].items() if name.startswith(prefix)}
        names = {name.removeprefix(prefix): tensor for name, tensor in saved.items()}
        self.trace.checkpoint(trainer.global_step, names)

    def on_exception(self, trainer: L.Trainer, pl_module: L.LightningModule, exception: BaseException) -> None:
        """What was traced so far is worth most now."""
        self.trace.close()

    def teardown(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        """Write what waits."""
        self.trace.close()

    def _look_around_training_step(self, module: L.LightningModule) -> None:
        training_step = module.training_step

        def looking(*args: Any, **kwargs: Any) -> Any:
            output = training_step(*args, **kwargs)
            loss = output["loss"] if isinstance(output, Mapping) else output
            if isinstance(loss, Tensor):
                tensors = list(tensors_of(self.batch))
                self.trace.forward(loss, len(tensors[0]) if tensors and tensors[0].ndim else 0)
            return output

        module.training_step = looking  # type: ignore[method-assign]

    def _look_around_clipping(self, module: L.LightningModule) -> None:
        configure_gradient_clipping = module.configure_gradient_clipping

        def looking(*args: Any, **kwargs: Any) -> None:
            self.trace.gradients("normalise")
            configure_gradient_clipping(*args, **kwargs)
            self.trace.gradients("clip")

        module.configure_gradient_clipping = looking  # type: ignore[method-assign]


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


def scale_of(trainer: L.Trainer) -> float:
    """The gradient scaler's factor, 1 where there is none."""
    scaler = getattr(trainer.precision_plugin, "scaler", None)
    return float(scaler.get_scale()) if isinstance(scaler, torch.amp.GradScaler) else 1.0
