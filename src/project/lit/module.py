"""hand/loop.py as a LightningModule: core hooks only. lit/log_steps.py logs, lit/between.py saves and stops.

Order of a step: forward, backward, unscale, normalise, clip, optimizer step, scaler update, scheduler. The Trainer
clips right after `on_before_optimizer_step`.
B: micro-batch size, T: tokens, C: classes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, Literal

import lightning as L
import torch
from jsonargparse.typing import ClosedUnitInterval
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.utilities.types import LRSchedulerConfigType, OptimizerLRScheduler
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler
from torchmetrics.classification import MulticlassConfusionMatrix

from project.checkpoint.classifier import start_from
from project.checkpoint.config import Monitor
from project.checkpoint.file import describe
from project.checkpoint.position import check_same_run
from project.commands.report import say
from project.data.batch import Batch
from project.data.splits import Data
from project.data.vocabulary import Vocabulary
from project.learn.interval import Interval
from project.learn.not_finite import LossWatch, Policy
from project.learn.objective import Scores, loss_counts, normalise, only_counted, scores, summed_loss
from project.learn.plan import Plan
from project.learn.recipe import Recipe, check_compiler, describe_network
from project.lit.log_steps import LogSteps
from project.lit.metrics import LossCounts
from project.lit.trainer import plan_of, scale_of, scaler_of
from project.private import is_attached
from project.ranks.world import World


class LitClassifier(L.LightningModule):
    """A text classifier for any Trainer whose data module is `JsonlDataModule`.

    Args:
        network: Class of the network, called with the numbers of tokens and of classes and its init_args; yours works
            too.
        optimizer: Class of the optimizer; biases, norms and other vectors are kept out of its weight decay.
        lr_scheduler: Class of the learning-rate scheduler; an open `total_steps` is filled in from the data. null:
            constant.
        lr_interval: When the scheduler advances: after an optimizer step or at the end of an epoch.
        lr_monitor: The validation metric that ReduceLROnPlateau watches, such as val/loss; it then advances after
            validations.
        label_smoothing: Share of the target spread over all classes, in training only.
        class_weights: Weight of each class in the training loss: balanced (inverse to frequency), or label: weight.
        init_from: A checkpoint whose weights (and tokenizer) a new run starts from.
        compile: Compile the network with torch.compile, in place.
        not_finite: What a training loss of NaN or infinity does: stop the run, skip that optimizer step, or ignore it.
        seed: Seed of the initial weights; `seed_everything` sets it.
    """

    plan: Plan
    network: nn.Module

    def __init__(
        self,
        network: Callable[[int, int], nn.Module],
        optimizer: Callable[[Iterable[Any]], Optimizer],
        lr_scheduler: Callable[[Optimizer], LRScheduler] | None = None,
        lr_interval: Literal["step", "epoch"] = "step",
        lr_monitor: Monitor | None = None,
        label_smoothing: ClosedUnitInterval = 0.0,
        class_weights: Literal["balanced"] | dict[str, float] | None = None,
        init_from: str | None = None,
        compile: bool = False,
        not_finite: Policy = "stop",
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.recipe = Recipe(
            network,
            optimizer,
            lr_scheduler,
            lr_interval,
            lr_monitor,
            label_smoothing,
            class_weights,
            init_from,
            compile,
            not_finite,
            seed,
        )
        self.class_weights: Tensor | None = None  # no buffer: bf16-true would round it
        self.left_fresh: list[str] = []
        """Weights that `init_from` left fresh, because the labels differ."""
        self.scores: Scores | None = None
        """Metrics of the last evaluation."""
        self.metrics: dict[str, float] = {}
        """The last logged training loss and validation metrics, by name."""
        self.logged_loss: float | None = None
        """Training loss of the last optimizer step; None where it was not logged."""

    # Setting up. Lightning calls these hooks in this order.

    def setup(self, stage: str) -> None:
        """Plan a training run; the data module has opened its rows.

        Raises:
            UserError: where no number of steps follows from the settings.
        """
        if stage == "fit":
            self.plan = plan_of(self.trainer, self.data)

    def configure_model(self) -> None:
        """Build the network, unless a checkpoint has built it; `init_from` replaces its fresh weights."""
        if hasattr(self, "network") or not is_attached(self):
            return
        trainer, recipe, vocabulary = self.trainer, self.recipe, self.data.vocabulary
        self._build(vocabulary)
        if trainer.training:
            if recipe.init_from and trainer.ckpt_path is None:
                self.left_fresh = start_from(recipe.init_from, recipe.network, self.network, vocabulary)
            self.class_weights = recipe.build_class_weights(vocabulary.labels, self.data.label_counts)
            self.watch = LossWatch(recipe.not_finite, self.network, self.data.splits["train"], self.world, say)
        if recipe.compile:
            check_compiler()
            self.network.compile()
        if self.device_mesh is not None and trainer.training:  # fsdp2
            from torch.distributed.fsdp import fully_shard

            fully_shard(self.network, mesh=self.device_mesh["data_parallel"])

    def _build(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.network = self.recipe.build_network(vocabulary.num_tokens, vocabulary.num_classes)
        # Integer counts, which add up exactly in any order.
        self.confusion = MulticlassConfusionMatrix(vocabulary.num_classes, validate_args=False)
        self.losses = LossCounts()

    def configure_optimizers(self) -> OptimizerLRScheduler:
        """The recipe's optimizer, and its scheduler over the plan's steps."""
        recipe = self.recipe
        optimizer = recipe.build_optimizer(self.network)
        lr_scheduler = recipe.build_lr_scheduler(optimizer, self.plan)
        if lr_scheduler is None:
            return optimizer
        schedule: LRSchedulerConfigType = {"scheduler": lr_scheduler, "interval": recipe.lr_interval}
        if recipe.lr_monitor is not None:
            every = self.trainer.check_val_every_n_epoch or 1  # only these epochs have a new metric
            schedule |= {"interval": "epoch", "monitor": recipe.lr_monitor, "frequency": every}
        return {"optimizer": optimizer, "lr_scheduler": schedule}

    def configure_callbacks(self) -> list[Callback]:
        """Log at optimizer steps, in any Trainer."""
        return [LogSteps()]

    def on_fit_start(self) -> None:
        """Start counting at zero. lit/resume.py restores a continued run later, when training starts."""
        self.start_seconds = time.perf_counter()
        self.num_window_examples = 0  # on all ranks; known from the plan
        self.interval = Interval.begin(self.device)
        if self.class_weights is not None:
            self.class_weights = self.class_weights.to(self.device)
        if self.world.size > 1:
            torch.manual_seed(self.recipe.seed + self.world.rank)  # each rank drops other units

    def on_train_start(self) -> None:
        """The weights are in place now."""
        self.watch.begin()

    def on_train_epoch_start(self) -> None:
        """Refuse training files that changed since they were read."""
        self.data.check_unchanged()

    # Training

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Forward and summed loss, () float32; autocast covers both."""
        plan = self.plan
        num_examples = plan.num_counted(batch_idx)
        logits = self.network(batch.tokens, batch.lengths)  # (B, T) → (B, C)
        logits, labels = only_counted(logits, batch.labels, num_examples)
        self.loss_sum = summed_loss(
            logits,
            labels,
            label_smoothing=self.recipe.label_smoothing,
            class_weights=self.class_weights,
        )
        self.watch.saw(self.global_step + 1, self.loss_sum, batch.index)
        self.num_window_examples += plan.num_counted_together(batch_idx)
        self.interval.add(self.loss_sum, plan.num_counted_together(batch_idx))
        return self.loss_sum

    def backward(self, loss: Tensor, *args: Any, **kwargs: Any) -> None:
        """Run backward from the undivided sum.

        Lightning divides the loss by accumulate_grad_batches (issue 19987), and (1/N)·N is not 1 for every N. For
        N = 1, `loss` itself is used: DistributedDataParallel with a static graph adds up the first step's gradients in
        the backward pass of that tensor.
        """
        if self.trainer.accumulate_grad_batches == 1:
            undivided = loss
        else:
            scaler = scaler_of(self.trainer)
            undivided = self.loss_sum if scaler is None else scaler.scale(self.loss_sum)
        undivided.backward(*args, **kwargs)  # type: ignore[no-untyped-call]
        self.loss_sum = self.loss_sum.detach()  # a module that holds a graph cannot be copied

    def on_before_optimizer_step(self, optimizer: Optimizer) -> None:
        """Normalise: gradients are complete and unscaled here, and not clipped yet (issue 18669)."""
        # In the optimizer's order, as clipping sums them: another order changes the last bit of the norm.
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        normalise(parameters, self.num_window_examples / self.world.size)  # backward took the mean over ranks
        self.watch.leave_out_if_not_finite(parameters)
        self.num_window_examples, self.logged_loss = 0, None
        if self.is_logged:
            self.interval.grad_norm = nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
            self.interval.lr = optimizer.param_groups[0]["lr"]
        self.scale = scale_of(self.trainer)

    def lr_scheduler_step(self, scheduler: Any, metric: Any) -> None:
        """Advance the scheduler. By step, it waits where the optimizer step was skipped (issues 16228, 18828)."""
        skipped = scale_of(self.trainer) < self.scale
        if not (self.recipe.advances_per_step and (skipped or self.watch.left_out)):
            super().lr_scheduler_step(scheduler, metric)

    @property
    def data(self) -> Data:
        """The rows of the data module."""
        return self.trainer.datamodule.rows  # type: ignore[attr-defined,no-any-return]

    @property
    def world(self) -> World:
        """This process among the ranks of the run."""
        return World(self.trainer.global_rank, self.trainer.world_size, self.trainer.local_rank)

    @property
    def is_logged(self) -> bool:
        """Whether the next optimizer step is logged; the last one always is."""
        every: int = self.trainer.log_every_n_steps  # type: ignore[attr-defined]
        step = self.global_step + 1
        return every > 0 and (step % every == 0 or step == self.plan.total_steps)

    def num_counted(self, batch: Batch, batch_idx: int) -> int:
        """Counted examples in this rank's micro-batch; 0 for a stand-in row."""
        return self.plan.num_counted(batch_idx)

    def take_interval(self) -> dict[str, float]:
        """The scalars since the last logged step; reads the loss off the device, and starts a new interval."""
        interval, self.interval = self.interval, Interval.begin(self.device)
        scalars = interval.scalars(self.world.all_reduce_(interval.loss))
        self.metrics["train/loss"] = self.logged_loss = scalars["train/loss"]
        return scalars

    # Evaluation

    def validation_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Count one micro-batch; returns its logits, (B, C)."""
        logits: Tensor = self.network(batch.tokens, batch.lengths)
        counted, labels = logits, batch.labels
        if self.world.size > 1:  # leave out a stand-in row
            is_counted = batch.index >= 0
            counted, labels = logits[is_counted], labels[is_counted]
        self.confusion.update(counted.argmax(dim=1), labels)
        self.losses.update(loss_counts(counted, labels))
        return logits

    def on_validation_epoch_end(self) -> None:
        """Compute `self.scores` from the counts; show them to callbacks and progress bar, in float64."""
        self.confusion_counts: Tensor = self.confusion.compute().cpu()
        self.scores = scores(self.confusion_counts, self.losses.compute().cpu())
        self.confusion.reset()
        self.losses.reset()
        scalars = self.scores.logged("test" if self.trainer.testing else "val")
        for name, value in scalars.items():
            self.log(name, torch.tensor(value, dtype=torch.float64), prog_bar=True, logger=False, batch_size=1)
        if not self.trainer.sanity_checking:
            self.metrics |= scalars

    test_step = validation_step
    on_test_epoch_end = on_validation_epoch_end

    def predict_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Class probabilities, (B, C) float32, without a stand-in row."""
        logits: Tensor = self.network(batch.tokens, batch.lengths)
        return logits.float().softmax(dim=1)[batch.index >= 0]

    # Checkpoints describe the classifier in plain data, so it loads without the rows it was trained on.

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Add the description."""
        max_tokens = self.data.config.max_tokens
        checkpoint["classifier"] = describe(self.recipe.network, self.network, self.vocabulary, max_tokens)

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Build the network under `load_from_checkpoint`; check that a continued run is the same run.

        Raises:
            UserError: where the checkpoint is of another run; no weights are loaded.
        """
        if not hasattr(self, "network"):
            self._build(Vocabulary.from_state(checkpoint["classifier"]["vocabulary"]))
        elif "run" in checkpoint and self.trainer.training:
            network = describe_network(self.recipe.network, self.network)
            check_same_run(checkpoint["path"], checkpoint["run"], self.data, network)
