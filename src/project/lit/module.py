"""The LightningModule: one step of training and one of evaluation, as hooks.

The loss is a sum over the micro-batch. Lightning divides what `training_step` returns by the number of accumulated
batches, so `backward` goes from the undivided sum, and the window's gradients are divided once, by the number of
examples that went in, right before clipping.
"""

from __future__ import annotations

import time
from typing import Any

import torch
from lightning.pytorch.utilities.types import OptimizerLRScheduler
from torch import Tensor, nn
from torch.distributed.distributed_c10d import _get_default_store
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.optim import Optimizer
from torchmetrics import Metric
from torchmetrics.classification import MulticlassConfusionMatrix

from project.checkpoint.classifier import start_from
from project.checkpoint.file import describe
from project.checkpoint.position import Position, settings_of
from project.commands.report import terminal
from project.data.batch import Batch
from project.data.splits import Data
from project.data.vocabulary import Vocabulary
from project.learn.not_finite import LossWatch
from project.learn.objective import Figures, figures, loss_counts, normalise, summed_loss
from project.learn.plan import Plan
from project.learn.recipe import Recipe, check_compiler
from project.lit.checkpoint import BestAndLast
from project.lit.resume import Resumable, restore, saved_run, take_over
from project.ranks.agreement import has_arrived
from project.ranks.config import Distributed
from project.ranks.signals import Listener


class LitClassifier(Resumable):
    """A text classifier for Lightning's Trainer; its arguments are the fields of `Recipe`."""

    network: nn.Module

    def __init__(self, **recipe: Any) -> None:
        super().__init__()
        self.recipe = Recipe(**recipe)
        self.class_weights: Tensor | None = None  # no buffer: bf16-true would round it
        self.distributed = Distributed()
        self.left_fresh: list[str] = []
        """Names of the weights that `init_from` could not give, since the labels differ."""
        self.figures: Figures | None = None
        """Metrics of the last evaluation."""
        self.metrics: dict[str, float] = {}
        """The last logged training loss and validation metrics, by name."""
        self.listener = Listener()
        self.has_begun = False
        """Whether training began."""
        self.is_resumed = False
        """Whether a saved run goes on, whose weights then take the place of `init_from`'s."""
        self.resumed: tuple[Position, dict[str, Any]] | None = None
        """Of a run that is continued: where it stood, and the checkpoint's content."""

    # Construction: the vocabulary is known once the data module is set up.

    def configure_model(self) -> None:
        """Build the network, once; weights of `init_from` replace the fresh ones."""
        if hasattr(self, "network"):  # fit calls this, and so does each later validate, test or predict
            return
        self.network = self.recipe.build_network(self.vocabulary.num_tokens, self.vocabulary.num_classes)
        # Counts, not ratios: integers add up exactly in any order. Ratios are derived in float64 when read.
        self.confusion = MulticlassConfusionMatrix(self.vocabulary.num_classes, validate_args=False)
        self.losses = LossCounts()
        if self.trainer.training:
            if self.recipe.init_from and not self.is_resumed:
                self.left_fresh = start_from(self.recipe.init_from, self.recipe.network, self.network, self.vocabulary)
            self.class_weights = self.recipe.build_class_weights(self.vocabulary.labels, self.data.label_counts)
        if self.recipe.compile:
            check_compiler()
            self.network.compile()
        if self.device_mesh is not None and self.trainer.training:  # under fsdp2
            fully_shard(self.network, mesh=self.device_mesh["data_parallel"])

    def configure_optimizers(self) -> OptimizerLRScheduler:
        """The recipe's optimizer and scheduler; the number of steps is the plan's."""
        optimizer = self.recipe.build_optimizer(self.network)
        self.optimizer_settings = settings_of(optimizer, is_scheduled=self.recipe.lr_scheduler is not None)
        lr_scheduler = self.recipe.build_lr_scheduler(optimizer, self.plan)
        if lr_scheduler is None:
            return optimizer
        if self.recipe.lr_monitor is not None:
            return {
                "optimizer": optimizer,
                "lr_scheduler": {
                    "scheduler": lr_scheduler,
                    "interval": "epoch",
                    "monitor": self.recipe.lr_monitor,
                    "frequency": self.trainer.check_val_every_n_epoch or 1,  # where there is something new to watch
                },
            }
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": lr_scheduler, "interval": self.recipe.lr_interval},
        }

    @property
    def data(self) -> Data:
        """The rows behind the data module that the Trainer was given."""
        return self.trainer.datamodule.rows  # type: ignore[attr-defined,no-any-return]

    @property
    def vocabulary(self) -> Vocabulary:
        """Tokenizer and labels of this run."""
        return self.data.vocabulary

    @property
    def plan(self) -> Plan:
        """Micro-batches, windows and steps of this run."""
        trainer = self.trainer
        assert trainer.max_epochs is not None
        return Plan(
            num_examples=len(self.data.splits["train"]),
            batch_size=self.data.config.batch_size,
            drop_last=self.data.config.drop_last,
            world_size=trainer.world_size,
            rank=trainer.global_rank,
            accumulate_grad_batches=trainer.accumulate_grad_batches,
            max_epochs=trainer.max_epochs,
            max_steps=trainer.max_steps,
            limit_train_batches=trainer.limit_train_batches,
            val_check_interval=trainer.val_check_interval if trainer.limit_val_batches else 1.0,
            check_val_every_n_epoch=trainer.check_val_every_n_epoch,
        )

    # Training. Order: forward, backward, (unscale), normalise, clip, step, (scaler update), scheduler.

    def on_train_start(self) -> None:
        """Nothing is counted yet, unless a saved run goes on."""
        self.training_plan = self.plan
        self.start_seconds = time.perf_counter()
        self.has_begun = True
        self.epoch = self.micro_batch = 0
        self.validation_due = False
        self.listener.wait_for_step(_get_default_store() if self.trainer.world_size > 1 else None)
        self.total_steps = self.training_plan.total_steps
        if self.class_weights is not None:
            self.class_weights = self.class_weights.to(self.device)
        self.num_window_examples = 0  # of all ranks, which the plan knows
        self.num_interval_examples = 0
        self.interval_loss = torch.zeros((), device=self.device)
        self.step_scalars: dict[str, float] = {}
        if self.trainer.world_size > 1:
            torch.manual_seed(self.recipe.seed + self.trainer.global_rank)  # dropout of its own in each rank
        if self.resumed is not None:
            position, content = self.resumed
            restore(content, position, self)
        console = terminal()
        console.quiet = not self.trainer.is_global_zero
        rows, num_ranks = self.data.splits["train"], self.trainer.world_size
        self.watch = LossWatch(self.recipe.not_finite, self.network, rows, num_ranks, console.print)
        self.watch.begins()

    def on_train_epoch_start(self) -> None:
        """What is trained on is still what was read."""
        self.data.check_unchanged()

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Forward and summed loss, () float32; autocast, where set, covers both."""
        if self.distributed.reduce_once_per_window:
            assert isinstance(self.network, FSDPModule)
            self.network.set_requires_gradient_sync(self.training_plan.closes_window(batch_idx))
        logits, labels = self.network(batch.tokens, batch.lengths), batch.labels
        if self.num_counted(batch, batch_idx) == 0:  # this rank has none left and only keeps the others company
            logits, labels = logits[:0], labels[:0]
        self.loss_sum = summed_loss(
            logits, labels, label_smoothing=self.recipe.label_smoothing, class_weights=self.class_weights
        )
        self.watch.saw(self.global_step + 1, self.loss_sum, batch.index)
        num_together = self.training_plan.num_counted_together(batch_idx)
        self.num_window_examples += num_together
        self.num_interval_examples += num_together
        self.interval_loss += self.loss_sum.detach()
        return self.loss_sum

    def num_counted(self, batch: Batch, batch_idx: int) -> int:
        """Examples of this rank's micro-batch that count; 0 where a row only stands in."""
        return self.training_plan.num_counted(batch_idx)

    def backward(self, loss: Tensor, *args: Any, **kwargs: Any) -> None:
        """Backward from the undivided sum: `loss` was divided by N, and (1/N)·N is not 1 for every N (issue 19987).

        Where N is 1, from `loss` itself: it went through DistributedDataParallel, whose static graph adds the first
        step's gradients up in that tensor's backward pass.
        """
        if self.trainer.accumulate_grad_batches == 1:
            undivided = loss
        else:
            undivided = self.loss_sum if self.scaler is None else self.scaler.scale(self.loss_sum)
        undivided.backward(*args, **kwargs)  # type: ignore[no-untyped-call]

    def on_before_optimizer_step(self, optimizer: Optimizer) -> None:
        """Gradients are complete and unscaled here, and not clipped yet (issue 18669): normalise them."""
        # Examples of all ranks, and backward took the mean over ranks.
        normalise(self.network.parameters(), self.num_window_examples / self.trainer.world_size)
        self.num_window_examples = 0
        self.watch.leaves_out(self.network.parameters())
        self.scale = self.scaler.get_scale() if self.scaler is not None else 1.0
        log_every_n_steps: int = self.trainer.log_every_n_steps  # type: ignore[attr-defined]
        step = self.global_step + 1
        if log_every_n_steps and (step % log_every_n_steps == 0 or step == self.total_steps):
            # In the optimizer's order, as clipping sums them: another order changes the norm's last bit.
            gradients = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
            self.step_scalars = {
                "train/grad_norm": float(nn.utils.get_total_norm(gradients)),
                "train/lr": optimizer.param_groups[0]["lr"],
            }

    def lr_scheduler_step(self, scheduler: Any, metric: Any) -> None:
        """Advance the scheduler; a per-step one stays where the step was skipped (issues 16228, 18828)."""
        skipped = self.scaler is not None and self.scaler.get_scale() < self.scale
        skipped = skipped or self.watch.left_out
        if not (skipped and self.recipe.advances_per_step):
            super().lr_scheduler_step(scheduler, metric)

    def on_train_batch_end(self, outputs: Any, batch: Batch, batch_idx: int) -> None:
        """Log the step, if it is one of those; then the checkpoints' turn, unless a validation follows."""
        self.epoch, self.micro_batch = self.current_epoch, batch_idx + 1
        self.listener.beat()
        is_logged = bool(self.step_scalars)
        if is_logged:
            self.log_interval()
        plan = self.training_plan
        if not plan.closes_window(batch_idx):
            return
        self.validation_due = self.trainer.enable_validation and plan.validates_after(self.epoch, batch_idx)
        arrived = has_arrived(
            self.global_step,
            self.device,
            is_alone=self.listener.is_alone,
            is_logged=is_logged,
            log_every_n_steps=self.trainer.log_every_n_steps,  # type: ignore[attr-defined]
        )
        if self.listener.stops_after(self.global_step, arrived=arrived):
            self.stop()
        if self.validation_due:
            self.watch.check()
        else:
            for callback in self.checkpoints:
                callback.on_window_end(self.trainer, arrived=arrived)

    @property
    def checkpoints(self) -> list[BestAndLast]:
        """The callback that saves; none in a rehearsal."""
        return [callback for callback in self.trainer.checkpoint_callbacks if isinstance(callback, BestAndLast)]

    def stop(self) -> None:
        """End the run for a signal: save, and raise `Stopped`."""
        for callback in self.checkpoints:
            callback.stopped(self.trainer)
            self.listener.saved, self.listener.step = callback.last, self.global_step
        self.listener.check()

    def on_validation_batch_start(self, batch: Batch, batch_idx: int, dataloader_idx: int = 0) -> None:
        """Do not let a validation keep a signal waiting: it is run when the run goes on.

        Several ranks have the first batch done in any case: they exchange weights and buffers for that one.
        """
        self.listener.beat()
        if self.trainer.state.fn == "fit" and (batch_idx > 0 or self.listener.is_alone) and self.listener.is_told():
            self.leave_validation(is_told=True)

    def leave_validation(self, *, is_told: bool) -> None:
        """End the run where one rank at least `is_told` to; each of them calls this once in a validation."""
        if self.listener.stops_together(self.trainer.strategy.reduce_boolean_decision(is_told, all=False)):
            self.stop()

    def log_interval(self) -> None:
        """At a logged optimizer step, report the interval since the last one; the loss is read off the device here."""
        loss = float(self.trainer.strategy.reduce(self.interval_loss, reduce_op="sum"))
        loss /= self.num_interval_examples
        self.metrics["train/loss"] = loss
        self.log("train/loss", loss, prog_bar=True, logger=False, batch_size=1)
        self.log_at_step({"train/loss": loss, **self.step_scalars})
        self.interval_loss.zero_()
        self.num_interval_examples = 0
        self.step_scalars = {}
        self.watch.logged(loss)

    def log_at_step(self, scalars: dict[str, float]) -> None:
        """Send scalars to the loggers. Not through `self.log`: its x-axis counts batches, not optimizer steps."""
        for logger in self.loggers:
            logger.log_metrics(scalars, step=self.global_step)

    @property
    def scaler(self) -> torch.amp.GradScaler | None:
        """The gradient scaler of 16-mixed precision."""
        return getattr(self.trainer.precision_plugin, "scaler", None)

    # Evaluation: every example counted once, as integers.

    def evaluation_step(self, batch: Batch) -> Tensor:
        """Count one micro-batch; returns its logits, (B, C)."""
        logits: Tensor = self.network(batch.tokens, batch.lengths)
        counted, labels = logits, batch.labels
        if self.trainer.world_size > 1:  # leave out a row that only stands in
            is_counted = batch.index >= 0
            counted, labels = logits[is_counted], labels[is_counted]
        self.confusion.update(counted.argmax(dim=1), labels)
        self.losses.update(loss_counts(counted, labels))
        return logits

    def evaluation_epoch_end(self, split: str) -> None:
        """Turn the counts into `self.figures` and log them as `<split>/loss`, `/accuracy` and `/macro_f1`."""
        self.confusion_counts: Tensor = self.confusion.compute().cpu()
        self.figures = figures(self.confusion_counts, self.losses.compute().cpu())
        scalars = self.figures.logged(split)
        for name, value in scalars.items():  # for callbacks and the progress bar, in float64
            self.log(name, torch.tensor(value, dtype=torch.float64), prog_bar=True, logger=False, batch_size=1)
        if not self.trainer.sanity_checking:
            self.metrics |= scalars
            self.log_at_step(scalars)
        self.validation_due = False
        self.confusion.reset()
        self.losses.reset()

    def on_validation_start(self) -> None:
        """Give every rank the main process's buffers, which DistributedDataParallel does and `fully_shard` does not."""
        if isinstance(self.network, FSDPModule):
            for buffer in self.network.buffers():
                torch.distributed.broadcast(buffer, src=0)

    def validation_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Count; see `evaluation_step`."""
        return self.evaluation_step(batch)

    def on_validation_epoch_end(self) -> None:
        """See `evaluation_epoch_end`; other ranks may have left this validation for a signal."""
        if self.trainer.state.fn == "fit":
            self.leave_validation(is_told=False)
        self.evaluation_epoch_end("val")

    def test_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Count; see `evaluation_step`."""
        return self.evaluation_step(batch)

    def on_test_epoch_end(self) -> None:
        """See `evaluation_epoch_end`."""
        self.evaluation_epoch_end("test")

    def predict_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Class probabilities, (B, C) float32."""
        logits: Tensor = self.network(batch.tokens, batch.lengths)
        return logits.float().softmax(dim=1)[batch.index >= 0]

    # Checkpoints hold what both twins write: the network's own keys, and plain data that describe the classifier.

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Strip Lightning's attribute name from the weights' keys; add the classifier's description."""
        prefix = "network."
        checkpoint["state_dict"] = {key.removeprefix(prefix): value for key, value in checkpoint["state_dict"].items()}
        checkpoint["classifier"] = describe(
            self.recipe.network, self.network, self.vocabulary, self.data.config.max_tokens
        )
        checkpoint["run"] = saved_run(self)

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Undo what `on_save_checkpoint` did to the keys; where training goes on, complete what Lightning restores."""
        if self.trainer.training:
            position = take_over(checkpoint, self)
            self.resumed = position, checkpoint["run"]
        checkpoint["state_dict"] = {f"network.{key}": value for key, value in checkpoint["state_dict"].items()}


class LossCounts(Metric):
    """Sum of `loss_counts` over micro-batches and ranks, (2,) int64."""

    full_state_update = False
    total: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.add_state("total", torch.zeros(2, dtype=torch.int64), dist_reduce_fx="sum")

    def update(self, counts: Tensor) -> None:
        """Add one micro-batch's counts, (2,) int64."""
        self.total += counts

    def compute(self) -> Tensor:
        """The sum so far, (2,) int64."""
        return self.total
