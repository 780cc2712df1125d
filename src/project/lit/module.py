"""The LightningModule: hand/loop.py as Lightning's hooks, and nothing else. lit/log.py logs, lit/between.py saves.

The loss is a sum over the micro-batch. Lightning divides what `training_step` returns by the number of accumulated
batches, so `backward` goes from the undivided sum, and the window's gradients are divided once, by the number of
examples that went in, right before clipping.
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
        """Names of the weights that `init_from` could not give, since the labels differ."""
        self.scores: Scores | None = None
        """Metrics of the last evaluation."""
        self.metrics: dict[str, float] = {}
        """The last logged training loss and validation metrics, by name."""
        self.logged_loss: float | None = None
        """The training loss that the last optimizer step logged; None where it was not logged."""

    # Construction: the vocabulary is known once the data module is set up, or a checkpoint is loaded.

    def configure_model(self) -> None:
        """Build the network, once; weights of `init_from` replace the fresh ones."""
        if hasattr(self, "network") or not is_attached(self):
            return
        trainer, recipe, vocabulary = self.trainer, self.recipe, self.data.vocabulary
        self._build(vocabulary)
        if trainer.training:
            if recipe.init_from and trainer.ckpt_path is None:  # the weights of a run that goes on take their place
                self.left_fresh = start_from(recipe.init_from, recipe.network, self.network, vocabulary)
            self.class_weights = recipe.build_class_weights(vocabulary.labels, self.data.label_counts)
            rows, world = self.data.splits["train"], self.world
            self.watch = LossWatch(recipe.not_finite, self.network, rows, world, say)
        if recipe.compile:
            check_compiler()
            self.network.compile()
        if self.device_mesh is not None and trainer.training:  # under fsdp2
            from torch.distributed.fsdp import fully_shard

            fully_shard(self.network, mesh=self.device_mesh["data_parallel"])

    def _build(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.network = self.recipe.build_network(vocabulary.num_tokens, vocabulary.num_classes)
        # Counts, not ratios: integers add up exactly in any order. Ratios are derived in float64 when read.
        self.confusion = MulticlassConfusionMatrix(vocabulary.num_classes, validate_args=False)
        self.losses = LossCounts()

    def configure_optimizers(self) -> OptimizerLRScheduler:
        """The recipe's optimizer and scheduler; the number of steps is the plan's."""
        recipe = self.recipe
        optimizer = recipe.build_optimizer(self.network)
        lr_scheduler = recipe.build_lr_scheduler(optimizer, self.plan)
        if lr_scheduler is None:
            return optimizer
        schedule: LRSchedulerConfigType = {"scheduler": lr_scheduler, "interval": recipe.lr_interval}
        if recipe.lr_monitor is not None:
            every = self.trainer.check_val_every_n_epoch or 1  # where there is something new to watch
            schedule |= {"interval": "epoch", "monitor": recipe.lr_monitor, "frequency": every}
        return {"optimizer": optimizer, "lr_scheduler": schedule}

    def configure_callbacks(self) -> list[Callback]:
        """Any Trainer logs at optimizer steps."""
        return [LogSteps()]

    @property
    def data(self) -> Data:
        """The rows behind the data module that the Trainer was given."""
        return self.trainer.datamodule.rows  # type: ignore[attr-defined,no-any-return]

    @property
    def world(self) -> World:
        """This process among those of the run."""
        return World(self.trainer.global_rank, self.trainer.world_size, self.trainer.local_rank)

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

    def on_fit_start(self) -> None:
        """Nothing is counted yet. A run that goes on puts back what was saved later, in on_train_start."""
        self.training_plan = self.plan
        self.start_seconds = time.perf_counter()
        self.num_window_examples = 0  # of all ranks, which the plan knows
        self.interval = Interval.begin(self.device)
        if self.class_weights is not None:
            self.class_weights = self.class_weights.to(self.device)
        if self.trainer.world_size > 1:
            torch.manual_seed(self.recipe.seed + self.trainer.global_rank)  # dropout of its own in each rank

    def on_train_start(self) -> None:
        """The weights are as training begins with them."""
        self.watch.begin()

    def on_train_epoch_start(self) -> None:
        """What is trained on is still what was read."""
        self.data.check_unchanged()

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Forward and summed loss, () float32; autocast, where set, covers both."""
        plan, recipe = self.training_plan, self.recipe
        logits = self.network(batch.tokens, batch.lengths)  # (B, T) → (B, C)
        logits, labels = only_counted(logits, batch.labels, plan.num_counted(batch_idx))
        self.loss_sum = summed_loss(
            logits, labels, label_smoothing=recipe.label_smoothing, class_weights=self.class_weights
        )
        self.watch.saw(self.global_step + 1, self.loss_sum, batch.index)
        self.num_window_examples += plan.num_counted_together(batch_idx)
        self.interval.add(self.loss_sum, plan.num_counted_together(batch_idx))
        return self.loss_sum

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
        self.loss_sum = self.loss_sum.detach()  # lets go of the graph: a module that holds one cannot be copied

    def on_before_optimizer_step(self, optimizer: Optimizer) -> None:
        """Gradients are complete and unscaled here, and not clipped yet (issue 18669): normalise them."""
        # In the optimizer's order, as clipping sums them: another order changes the norm's last bit.
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        normalise(parameters, self.num_window_examples / self.trainer.world_size)  # backward took the mean over ranks
        self.watch.leave_out_if_not_finite(parameters)
        self.num_window_examples, self.logged_loss = 0, None
        self.scale = 1.0 if self.scaler is None else self.scaler.get_scale()
        if self.is_logged:
            self.interval.grad_norm = nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
            self.interval.lr = optimizer.param_groups[0]["lr"]

    def lr_scheduler_step(self, scheduler: Any, metric: Any) -> None:
        """Advance the scheduler; a per-step one waits where the step was skipped (issues 16228, 18828)."""
        skipped = self.scaler is not None and self.scaler.get_scale() < self.scale
        if not (self.recipe.advances_per_step and (skipped or self.watch.left_out)):
            super().lr_scheduler_step(scheduler, metric)

    @property
    def scaler(self) -> torch.amp.GradScaler | None:
        """The gradient scaler of 16-mixed precision."""
        return getattr(self.trainer.precision_plugin, "scaler", None)

    @property
    def is_logged(self) -> bool:
        """Whether the optimizer step that comes next is logged; the last one always is."""
        every: int = self.trainer.log_every_n_steps  # type: ignore[attr-defined]
        step = self.global_step + 1
        return every > 0 and (step % every == 0 or step == self.training_plan.total_steps)

    def num_counted(self, batch: Batch, batch_idx: int) -> int:
        """Examples of this rank's micro-batch that count; 0 where a row only stands in."""
        return self.training_plan.num_counted(batch_idx)

    def take_interval(self) -> dict[str, float]:
        """What is logged of the steps since the last logged one; the loss is read off the device here."""
        interval, self.interval = self.interval, Interval.begin(self.device)
        scalars = interval.scalars(self.world.all_reduce_(interval.loss))
        self.metrics["train/loss"] = self.logged_loss = scalars["train/loss"]
        return scalars

    # Evaluation: every example counted once, as integers.

    def validation_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Count one micro-batch; returns its logits, (B, C)."""
        logits: Tensor = self.network(batch.tokens, batch.lengths)
        counted, labels = logits, batch.labels
        if self.trainer.world_size > 1:  # leave out a row that only stands in
            is_counted = batch.index >= 0
            counted, labels = logits[is_counted], labels[is_counted]
        self.confusion.update(counted.argmax(dim=1), labels)
        self.losses.update(loss_counts(counted, labels))
        return logits

    def on_validation_epoch_end(self) -> None:
        """Turn the counts into `self.scores`, and show them to callbacks and progress bar, in float64."""
        self.confusion_counts: Tensor = self.confusion.compute().cpu()
        self.scores = scores(self.confusion_counts, self.losses.compute().cpu())
        self.confusion.reset()
        self.losses.reset()
        scalars = self.scores.logged("test" if self.trainer.testing else "val")
        for name, value in scalars.items():
            self.log(name, torch.tensor(value, dtype=torch.float64), prog_bar=True, logger=False, batch_size=1)
        if not self.trainer.sanity_checking:
            self.metrics |= scalars

    def test_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Count; see `validation_step`."""
        return self.validation_step(batch, batch_idx)

    def on_test_epoch_end(self) -> None:
        """See `on_validation_epoch_end`."""
        self.on_validation_epoch_end()

    def predict_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Class probabilities, (B, C) float32."""
        logits: Tensor = self.network(batch.tokens, batch.lengths)
        return logits.float().softmax(dim=1)[batch.index >= 0]

    # Checkpoints describe the classifier in plain data, so that one can be loaded without the rows it was trained on.

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Add the description."""
        max_tokens = self.data.config.max_tokens
        checkpoint["classifier"] = describe(self.recipe.network, self.network, self.vocabulary, max_tokens)

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Build the network that the weights are for, where `load_from_checkpoint` has none yet.

        Raises:
            UserError: before weights are loaded, where a run is to go on from a checkpoint of another run.
        """
        if not hasattr(self, "network"):
            self._build(Vocabulary.from_state(checkpoint["classifier"]["vocabulary"]))
        elif "run" in checkpoint and self.trainer.training:
            network = describe_network(self.recipe.network, self.network)
            check_same_run(checkpoint["path"], checkpoint["run"], self.data, network)
