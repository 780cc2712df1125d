"""What Lightning's training does with our hooks, against the same arithmetic written out."""

from __future__ import annotations

import functools
from typing import Any

import lightning as L
import pytest
import torch
from lightning.pytorch.plugins.precision import MixedPrecision
from torch import Tensor, nn
from torch.optim.lr_scheduler import OneCycleLR, ReduceLROnPlateau, StepLR

from project.data.batch import collate
from project.data.order import OrderedBatches
from project.learn.objective import summed_loss
from project.network import Pooling
from small_runs import data_module, lit_module, trainer
from tiny_corpus import Corpus


class Recorder(L.Callback):
    """Gradients and learning rate as the optimizer meets them."""

    def __init__(self) -> None:
        self.gradients: list[list[Tensor]] = []
        self.rates: list[float] = []

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        optimizer = trainer.optimizers[0]

        def record(optimizer: torch.optim.Optimizer, arguments: Any, keywords: Any) -> None:
            self.gradients.append([p.grad.clone() for group in optimizer.param_groups for p in group["params"]])
            self.rates.append(optimizer.param_groups[0]["lr"])

        optimizer.register_step_post_hook(record)


@pytest.mark.parametrize("accumulate", [1, 3, 4, 41])
def test_a_window_gradient_is_the_sum_over_its_examples_divided_by_their_number(
    corpus: Corpus, accumulate: int
) -> None:
    """50 rows in micro-batches of 8: the last micro-batch holds 2, and windows of 3, 4 and 41 end short."""
    recorder = Recorder()
    data, module = data_module(corpus), lit_module(network=functools.partial(Pooling, dim=8, dropout=0.0))
    trainer(corpus.folder, accumulate_grad_batches=accumulate, callbacks=[recorder]).fit(module, datamodule=data)

    network = module.recipe.build_network(data.rows.vocabulary.num_tokens, data.rows.vocabulary.num_classes)
    optimizer = module.recipe.build_optimizer(network)
    micro_batches = list(OrderedBatches(50, 8, seed=0))
    windows = [micro_batches[start : start + accumulate] for start in range(0, len(micro_batches), accumulate)]
    assert len(recorder.gradients) == len(windows) == -(-7 // accumulate)
    for window, found in zip(windows, recorder.gradients, strict=True):
        optimizer.zero_grad()
        for indices in window:
            batch = collate([data.rows.splits["train"][index] for index in indices])
            summed_loss(network(batch.tokens, batch.lengths), batch.labels).backward()  # type: ignore[no-untyped-call]
        num_examples = sum(map(len, window))
        expected = [p.grad / num_examples for group in optimizer.param_groups for p in group["params"]]
        assert all(torch.equal(ours, theirs) for ours, theirs in zip(expected, found, strict=True))
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                parameter.grad /= num_examples
        optimizer.step()


def test_each_epoch_has_its_own_order(corpus: Corpus) -> None:
    seen: list[list[int]] = []

    class Watch(L.Callback):
        def on_train_batch_start(
            self, trainer: L.Trainer, pl_module: L.LightningModule, batch: Any, batch_idx: int
        ) -> None:
            seen.append(batch.index.tolist())

    for num_workers in (0, 2):
        seen.clear()
        data = data_module(corpus, num_workers=num_workers)
        trainer(corpus.folder, max_epochs=3, callbacks=[Watch()]).fit(lit_module(), datamodule=data)
        expected = OrderedBatches(50, 8, seed=0)
        for epoch in range(3):
            expected.set_epoch(epoch)
            assert seen[7 * epoch : 7 * epoch + 7] == list(expected), (epoch, num_workers)


def test_clipping_comes_after_normalising(corpus: Corpus) -> None:
    recorder = Recorder()
    trainer(corpus.folder, gradient_clip_val=0.01, callbacks=[recorder]).fit(
        lit_module(), datamodule=data_module(corpus)
    )
    norms = [float(nn.utils.get_total_norm(gradients)) for gradients in recorder.gradients]
    assert norms == pytest.approx([0.01] * len(norms), rel=1e-3)


def test_one_cycle_ends_at_the_real_last_step(corpus: Corpus) -> None:
    recorder = Recorder()
    module = lit_module(
        optimizer=functools.partial(torch.optim.AdamW, lr=0.1),
        lr_scheduler=functools.partial(OneCycleLR, max_lr=0.1, total_steps=None),
    )
    trainer(corpus.folder, max_epochs=2, accumulate_grad_batches=3, callbacks=[recorder]).fit(
        module, datamodule=data_module(corpus)
    )
    assert len(recorder.rates) == 2 * 3
    reference = OneCycleLR(torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=0.1), max_lr=0.1, total_steps=6)
    expected = []
    for _ in range(6):
        expected.append(reference.get_last_lr()[0])
        reference.optimizer.step()
        if len(expected) < 6:
            reference.step()
    assert recorder.rates == expected


def test_a_scheduler_per_epoch_advances_between_epochs(corpus: Corpus) -> None:
    recorder = Recorder()
    module = lit_module(lr_scheduler=functools.partial(StepLR, step_size=1, gamma=0.5), lr_interval="epoch")
    trainer(corpus.folder, max_epochs=3, callbacks=[recorder]).fit(module, datamodule=data_module(corpus))
    assert recorder.rates == [0.1] * 7 + [0.05] * 7 + [0.025] * 7


def test_plateau_watches_the_validation_metric(corpus: Corpus) -> None:
    factory = functools.partial(ReduceLROnPlateau, factor=0.5, patience=0, threshold=1e9, threshold_mode="abs")
    recorder = Recorder()
    module = lit_module(lr_scheduler=factory, lr_monitor="val/loss")
    trainer(corpus.folder, max_epochs=3, callbacks=[recorder]).fit(module, datamodule=data_module(corpus))
    assert recorder.rates == [0.1] * 7 + [0.1] * 7 + [0.05] * 7


def test_a_skipped_step_holds_the_scheduler_back(corpus: Corpus) -> None:
    """A first scale that overflows float16 makes the scaler skip; the schedule must wait for the first real step."""
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**60, backoff_factor=2.0**-22)
    plugin = MixedPrecision("16-mixed", device="cpu", scaler=scaler)
    schedule: list[float] = []

    class Watched(StepLR):
        def step(self, epoch: int | None = None) -> None:
            schedule.append(scaler.get_scale())
            super().step(epoch)

    recorder = Recorder()
    factory: Any = functools.partial(Watched, step_size=1, gamma=0.5)
    trainer(corpus.folder, plugins=[plugin], callbacks=[recorder]).fit(
        lit_module(lr_scheduler=factory), datamodule=data_module(corpus)
    )
    num_skipped = 7 - len(recorder.rates)
    assert num_skipped > 0
    assert recorder.rates == [0.1 * 0.5**step for step in range(7 - num_skipped)]
    assert len(schedule) == 1 + len(recorder.rates)  # one by the scheduler's own constructor


def test_label_smoothing_and_class_weights_change_training_but_not_the_validation_loss(corpus: Corpus) -> None:
    def run(**recipe: Any) -> tuple[list[list[Tensor]], float]:
        recorder = Recorder()
        module = lit_module(network=functools.partial(Pooling, dim=8, dropout=0.0), **recipe)
        trainer(corpus.folder, limit_train_batches=1, callbacks=[recorder]).fit(module, datamodule=data_module(corpus))
        assert module.scores is not None
        return recorder.gradients, module.scores.loss

    plain, _ = run()
    for changed, _ in (run(label_smoothing=0.2), run(class_weights="balanced"), run(class_weights={"tool": 5.0})):
        assert not all(torch.equal(a, b) for a, b in zip(plain[0], changed[0], strict=True))
    still = functools.partial(torch.optim.SGD, lr=0.0)
    assert run(optimizer=still)[1] == run(optimizer=still, label_smoothing=0.2, class_weights="balanced")[1]


def test_validation_does_not_move_the_training_stream(corpus: Corpus) -> None:
    def weights(**settings: Any) -> dict[str, Tensor]:
        L.seed_everything(1)
        module = lit_module()
        trainer(corpus.folder, max_epochs=2, **settings).fit(module, datamodule=data_module(corpus))
        return module.network.state_dict()

    with_validation, without = weights(), weights(limit_val_batches=0)
    assert all(torch.equal(with_validation[name], without[name]) for name in without)


def test_workers_change_nothing(corpus: Corpus) -> None:
    def weights(num_workers: int) -> dict[str, Tensor]:
        L.seed_everything(1)
        module = lit_module()
        data = data_module(corpus, num_workers=num_workers)
        trainer(corpus.folder, max_epochs=2).fit(module, datamodule=data)
        return module.network.state_dict()

    alone, with_workers = weights(0), weights(2)
    assert all(torch.equal(alone[name], with_workers[name]) for name in alone)


def test_metrics_count_every_example_once(corpus: Corpus) -> None:
    module, data = lit_module(), data_module(corpus, batch_size=8)
    runner = trainer(corpus.folder)
    runner.fit(module, datamodule=data)
    confusion = torch.zeros(3, 3, dtype=torch.int64)
    module.network.eval()
    with torch.inference_mode():
        for index in range(20):
            example = data.rows.splits["val"][index]
            logits = module.network(example.tokens[None], torch.tensor([len(example.tokens)]))
            confusion[example.label, logits.argmax()] += 1
    assert torch.equal(module.confusion_counts, confusion)
    assert module.scores is not None
    assert sum(module.scores.support) == 20
    assert float(runner.callback_metrics["val/accuracy"]) == module.scores.accuracy
