"""What a run of the Lightning twin logs, saves and says, in its details."""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path
from typing import Any

import lightning as L
import pytest
import torch
from lightning.pytorch.loggers import Logger
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData
from torch import nn
from torch.optim.lr_scheduler import ReduceLROnPlateau, StepLR

from project.__main__ import main
from project.checkpoint.file import read_checkpoint
from project.commands.report import confusion_figure
from project.commands.runs import best_checkpoint, new_run
from project.data.batch import collate
from project.data.order import OrderedBatches
from project.errors import UserError
from project.learn.objective import summed_loss
from project.lit.between import BetweenSteps
from project.network import Pooling
from small_runs import data_module, lit_module, trainer
from tiny_corpus import Corpus

CONFIG = """\
seed_everything: 1
trainer: {max_epochs: 2, accelerator: cpu, log_every_n_steps: 1}
model:
  network: {class_path: project.network.Pooling, init_args: {dim: 16}}
  optimizer: {class_path: torch.optim.AdamW, init_args: {lr: 0.05}}
  lr_scheduler: {class_path: torch.optim.lr_scheduler.OneCycleLR, init_args: {max_lr: 0.05}}
data: {batch_size: 8}
"""


def fit(corpus: Corpus, *options: str) -> Path:
    config = corpus.folder / "config.yaml"
    config.write_text(CONFIG, encoding="utf-8")
    assert main(["fit", "--config", str(config), *corpus.arguments, *options]) == 0
    return best_checkpoint(corpus.folder / "runs").parent.parent


def root(corpus: Corpus) -> str:
    return f"--trainer.default_root_dir={corpus.folder / 'runs'}"


class Curves(Logger):
    """Keeps what is logged."""

    name = "curves"
    version = 0

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[tuple[int | None, dict[str, float]]] = []

    def log_hyperparams(self, *args: Any, **kwargs: Any) -> None:
        """Nothing to keep."""

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        """Keep them."""
        self.lines.append((step, metrics))


def test_a_logged_step_tells_of_the_interval_since_the_last_one(corpus: Corpus) -> None:
    """Of 7 steps the third, the sixth and, since it is the last, the seventh; gradients and rate are that step's."""
    curves = Curves()
    module = lit_module(
        network=functools.partial(Pooling, dim=8, dropout=0.0),
        lr_scheduler=functools.partial(StepLR, step_size=1, gamma=0.5),
    )
    data = data_module(corpus)
    settings: dict[str, Any] = {"logger": curves, "log_every_n_steps": 3, "limit_val_batches": 0}
    trainer(corpus.folder, gradient_clip_val=0.01, **settings).fit(module, datamodule=data)

    network = module.recipe.build_network(data.rows.vocabulary.num_tokens, data.rows.vocabulary.num_classes)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    expected: list[Any] = []
    total, num_examples = 0.0, 0
    for step, indices in enumerate(OrderedBatches(50, 8, seed=0), start=1):
        batch = collate([data.rows.splits["train"][index] for index in indices])
        loss = summed_loss(network(batch.tokens, batch.lengths), batch.labels)
        optimizer.zero_grad()
        (loss / len(indices)).backward()  # type: ignore[no-untyped-call]
        total, num_examples = total + float(loss.detach()), num_examples + len(indices)
        norm = float(nn.utils.clip_grad_norm_(network.parameters(), 0.01))
        rate = optimizer.param_groups[0]["lr"]
        if step in (3, 6, 7):
            scalars = {"train/loss": total / num_examples, "train/grad_norm": norm, "train/lr": rate}
            expected.append((step, pytest.approx(scalars, rel=1e-5)))
            total, num_examples = 0.0, 0
        optimizer.step()
        optimizer.param_groups[0]["lr"] = rate * 0.5
    assert curves.lines == expected


def test_no_training_curve_where_it_is_turned_off(corpus: Corpus) -> None:
    curves = Curves()
    trainer(corpus.folder, logger=curves, log_every_n_steps=0).fit(lit_module(), datamodule=data_module(corpus))
    assert [(step, sorted(metrics)) for step, metrics in curves.lines] == [
        (7, ["val/accuracy", "val/loss", "val/macro_f1"])
    ]


@pytest.mark.parametrize("monitor", ["val/loss", "val/accuracy", "val/macro_f1"])
def test_plateau_is_handed_the_metric_it_watches(corpus: Corpus, monitor: str) -> None:
    handed: list[float] = []
    validated: list[float] = []

    class Watched(ReduceLROnPlateau):
        def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
            handed.append(float(metrics))
            super().step(metrics)

    class Validated(L.Callback):
        def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
            validated.append(float(trainer.callback_metrics[monitor]))

    module = lit_module(lr_scheduler=Watched, lr_monitor=monitor)
    trainer(corpus.folder, max_epochs=3, callbacks=[Validated()]).fit(module, datamodule=data_module(corpus))
    assert handed == validated
    assert len(handed) == 3


def test_metrics_count_every_example_once(corpus: Corpus) -> None:
    """Also after an earlier epoch was counted."""
    module, data = lit_module(), data_module(corpus, batch_size=8)
    runner = trainer(corpus.folder, max_epochs=2)
    runner.fit(module, datamodule=data)
    confusion = torch.zeros(3, 3, dtype=torch.int64)
    total = 0.0
    module.network.eval()
    with torch.inference_mode():
        for index in range(20):
            example = data.rows.splits["val"][index]
            logits = module.network(example.tokens[None], torch.tensor([len(example.tokens)]))
            confusion[example.label, logits.argmax()] += 1
            total += float(nn.functional.cross_entropy(logits, torch.tensor([example.label])))
    assert torch.equal(module.confusion_counts, confusion)
    assert module.scores is not None
    assert sum(module.scores.support) == 20
    assert module.scores.loss == pytest.approx(total / 20, rel=1e-5)
    assert float(runner.callback_metrics["val/accuracy"]) == module.scores.accuracy
    assert float(runner.callback_metrics["val/loss"]) == module.scores.loss


def test_a_trained_module_keeps_its_weights_when_it_is_evaluated(corpus: Corpus) -> None:
    module, data = lit_module(), data_module(corpus)
    runner = trainer(corpus.folder)
    runner.fit(module, datamodule=data)
    weights = {name: tensor.clone() for name, tensor in module.network.state_dict().items()}
    runner.test(module, datamodule=data, verbose=False)
    assert sorted(runner.callback_metrics) == ["test/accuracy", "test/loss", "test/macro_f1"]
    assert all(torch.equal(weights[name], tensor) for name, tensor in module.network.state_dict().items())


def test_the_network_is_compiled_in_place_where_it_can_be(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[nn.Module] = []
    monkeypatch.setattr(nn.Module, "compile", lambda network: compiled.append(network))
    monkeypatch.setattr("project.lit.module.check_compiler", lambda: None)
    module = lit_module(compile=True)
    trainer(corpus.folder).fit(module, datamodule=data_module(corpus))
    assert compiled == [module.network]

    def refuse() -> None:
        raise UserError("model.compile: no compiler")

    monkeypatch.setattr("project.lit.module.check_compiler", refuse)
    with pytest.raises(UserError, match=r"model.compile: no compiler"):
        trainer(corpus.folder).fit(lit_module(compile=True), datamodule=data_module(corpus))


def test_a_schedule_by_epochs_advances_even_where_the_epochs_last_step_was_skipped(corpus: Corpus) -> None:
    """Only a schedule by steps waits for the scaler."""
    from lightning.pytorch.plugins.precision import MixedPrecision

    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**100, backoff_factor=0.5)  # overflows at every step
    plugin = MixedPrecision("16-mixed", device="cpu", scaler=scaler)
    module = lit_module(lr_scheduler=functools.partial(StepLR, step_size=1, gamma=0.5), lr_interval="epoch")
    runner = trainer(corpus.folder, max_epochs=2, plugins=[plugin])
    with pytest.warns(UserWarning, match=r"lr_scheduler.step\(\)"):  # torch: no optimizer step before it
        runner.fit(module, datamodule=data_module(corpus))
    assert runner.optimizers[0].param_groups[0]["lr"] == 0.1 * 0.5**2


def test_an_evaluation_needs_nothing_of_training_but_the_checkpoint(corpus: Corpus) -> None:
    """Neither the training rows that balanced weights come from, nor the checkpoint that the run started from."""
    start = fit(corpus, "--trainer.max_epochs=1") / "checkpoints" / "last.ckpt"
    moved = corpus.folder / "start.ckpt"
    start.rename(moved)
    fit(corpus, f"--model.init_from={moved}", "--model.class_weights=balanced", "--trainer.max_epochs=1")
    moved.unlink()
    corpus.train.unlink()
    assert main(["test", root(corpus)]) == 0


@pytest.mark.pictures
def test_a_sanity_check_is_no_validation(corpus: Corpus, capsys: pytest.CaptureFixture[str]) -> None:
    """Its metrics are neither best nor shown, though no later ones are better here."""
    still = ["--model.optimizer.lr=0", "--model.lr_scheduler=null", "--trainer.max_epochs=1"]
    run = fit(corpus, "--trainer.num_sanity_val_steps=-1", *still)
    assert capsys.readouterr().out.count("val/macro_f1") == 2  # the epoch's line, and which is best
    events = EventAccumulator(str(run))
    events.Reload()
    assert [event.step for event in events.Images("val/confusion")] == [7]
    assert torch.load(run / "checkpoints" / "best.ckpt", weights_only=True)["progress"]["step"] == 7


def test_an_equal_value_is_no_improvement(corpus: Corpus) -> None:
    run = fit(corpus, "--model.optimizer.lr=0", "--model.lr_scheduler=null")
    assert torch.load(run / "checkpoints" / "best.ckpt", weights_only=True)["progress"]["epoch"] == 0


@pytest.mark.parametrize(("mode", "choose"), [("min", min), ("max", max)])
def test_best_is_the_best_of_the_watched_metric(corpus: Corpus, mode: str, choose: Any) -> None:
    run = fit(corpus, "--trainer.max_epochs=6", "--checkpoint.monitor=val/loss", f"--checkpoint.mode={mode}")
    events = EventAccumulator(str(run))
    events.Reload()
    losses = [event.value for event in events.Scalars("val/loss")]
    epoch = losses.index(choose(losses))
    summary = json.loads((run / "finished.json").read_text())
    assert summary["monitor"] == "val/loss"
    assert summary["best_epoch"] == epoch + 1
    assert summary["best_value"] == pytest.approx(losses[epoch], rel=1e-6)
    contents = {name: torch.load(run / "checkpoints" / f"{name}.ckpt", weights_only=True) for name in ("best", "last")}
    for content, at in ((contents["best"], epoch), (contents["last"], 5)):
        progress = content["progress"]
        assert (progress["epoch"], progress["step"]) == (at, 7 * (at + 1))
        watched = {"monitor": "val/loss", "mode": mode}
        assert content["best"] == {"value": summary["best_value"], "epoch": epoch, **watched}


def test_a_checkpoint_holds_optimizer_scheduler_and_scaler(corpus: Corpus) -> None:
    run = fit(corpus, "--trainer.precision=16-mixed", "--trainer.max_epochs=1")
    content = torch.load(run / "checkpoints" / "last.ckpt", weights_only=True)
    num_steps = int(content["optimizer"]["state"][0]["step"])
    assert 0 < num_steps < 7  # the first ones overflow and are skipped
    assert content["lr_scheduler"]["last_epoch"] == num_steps
    assert content["scaler"]["scale"] == 2.0 ** (16 - (7 - num_steps))
    assert main(["test", root(corpus)]) == 0


def test_a_run_says_what_it_does(corpus: Corpus, capsys: pytest.CaptureFixture[str]) -> None:
    run = fit(corpus)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("training Pooling with ")
    assert lines[0].endswith(" on 50 rows: 14 optimizer steps, 7 per epoch")
    assert [line.split()[:4] for line in lines[1:3]] == [["epoch", "1", "step", "7"], ["epoch", "2", "step", "14"]]
    assert all("train/loss" in line for line in lines[1:3])
    assert lines[3].startswith(f"best: {run / 'checkpoints' / 'best.ckpt'} (val/macro_f1 ")


def test_init_from_says_what_starts_fresh(corpus: Corpus, capsys: pytest.CaptureFixture[str]) -> None:
    start = fit(corpus, "--trainer.max_epochs=1") / "checkpoints" / "last.ckpt"
    rows = [json.loads(line) for path in (corpus.train, corpus.val) for line in path.read_text().splitlines()]
    renamed = "".join(json.dumps(row | {"label": "not " + row["label"]}) + "\n" for row in rows)
    for path in (corpus.train, corpus.val):
        path.write_text(renamed)
    capsys.readouterr()
    fit(corpus, f"--model.init_from={start}", "--trainer.max_epochs=1")
    assert "model.init_from: its labels are others, so these weights start fresh: " in capsys.readouterr().out


def test_runs_that_start_together_get_a_folder_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if each had looked before any of them made its folder."""
    monkeypatch.setattr(Path, "glob", lambda folder, pattern: iter(()))
    assert [new_run(tmp_path, "same").name for _ in range(3)] == ["version_0", "version_1", "version_2"]


def test_a_run_that_fails_later_keeps_its_folder(
    corpus: Corpus, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, content: object) -> None:
        raise UserError(f"{path}: the checkpoint cannot be written (no space left)")

    monkeypatch.setattr("project.checkpoint.writer.write_checkpoint", full)
    config = corpus.folder / "config.yaml"
    config.write_text(CONFIG, encoding="utf-8")
    assert main(["fit", "--config", str(config), *corpus.arguments]) == 2
    assert "no space left" in capsys.readouterr().err
    assert (corpus.folder / "runs" / "default" / "version_0" / "config.yaml").is_file()


def test_an_unsafe_checkpoint_is_refused_in_one_short_line(tmp_path: Path) -> None:
    """torch.load says why in a paragraph, and how to load it all the same."""
    path = tmp_path / "some.ckpt"
    torch.save({"classifier": Path("anything")}, path)
    with pytest.raises(UserError) as caught:
        read_checkpoint(path)
    assert "unsafe, it names pathlib.PosixPath, and a checkpoint holds only plain data" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < len(str(path)) + 200
    assert "weights_only=False" not in str(caught.value)


def test_early_stopping_counts_validations_where_they_are_rarer_than_epochs(corpus: Corpus) -> None:
    rarer = ["--trainer.max_epochs=9", "--trainer.check_val_every_n_epoch=2"]
    run = fit(corpus, *rarer, "--early_stopping.patience=1", "--early_stopping.min_delta=2")
    assert json.loads((run / "finished.json").read_text())["epochs"] == 4


def test_an_evaluation_is_timed(corpus: Corpus, capsys: pytest.CaptureFixture[str]) -> None:
    fit(corpus, "--trainer.max_epochs=1")
    for command in ("validate", "test"):
        capsys.readouterr()
        assert main([command, root(corpus)]) == 0
        found = re.search(r"20 rows in (\d+\.\d\d) s", capsys.readouterr().out)
        assert found is not None
        assert float(found[1]) < 60


def test_the_network_of_an_evaluation_is_the_checkpoints(corpus: Corpus) -> None:
    """Whatever the configuration on the command line says of another one."""
    path = fit(corpus, "--trainer.max_epochs=1") / "checkpoints" / "best.ckpt"
    config = corpus.folder / "config.yaml"
    config.write_text(CONFIG.replace("dim: 16", "dim: 24"), encoding="utf-8")
    assert main(["test", "--config", str(config), *corpus.arguments, f"--ckpt_path={path}"]) == 0


@pytest.mark.parametrize(
    ("settings", "drop_last", "num_steps"),
    [
        ({"max_steps": 5}, False, 5),
        ({"max_epochs": 3, "limit_train_batches": 2}, False, 6),
        ({"max_epochs": 2, "accumulate_grad_batches": 3}, False, 6),
        ({"max_epochs": 2}, True, 12),
    ],
)
def test_one_cycle_ends_at_the_real_last_step_under_limits(
    corpus: Corpus, settings: dict[str, Any], drop_last: bool, num_steps: int
) -> None:
    module = lit_module(
        optimizer=functools.partial(torch.optim.AdamW, lr=0.1),
        lr_scheduler=functools.partial(torch.optim.lr_scheduler.OneCycleLR, max_lr=0.1, total_steps=None),
    )
    runner = trainer(corpus.folder, **settings)
    runner.fit(module, datamodule=data_module(corpus, drop_last=drop_last))
    scheduler = runner.lr_scheduler_configs[0].scheduler
    assert scheduler.state_dict()["total_steps"] == runner.global_step == module.plan.total_steps == num_steps


def test_without_validation_no_interval_cuts_a_window(corpus: Corpus) -> None:
    settings: dict[str, Any] = {"accumulate_grad_batches": 2, "val_check_interval": 3, "limit_val_batches": 0}
    runner = trainer(corpus.folder, **settings)
    runner.fit(lit_module(), datamodule=data_module(corpus))
    assert runner.global_step == 4


def test_an_interval_that_counts_through_epochs_is_held_to_the_windows_too(corpus: Corpus) -> None:
    """Every 4 of 7 micro-batches: whole windows in the first epoch, cut ones in the second."""
    settings: dict[str, Any] = {"accumulate_grad_batches": 2, "val_check_interval": 4, "check_val_every_n_epoch": None}
    with pytest.raises(UserError, match=r"4 micro-batches between validations would cut a window of 2"):
        trainer(corpus.folder, max_epochs=2, **settings).fit(lit_module(), datamodule=data_module(corpus))


@pytest.mark.filterwarnings("ignore:.*using a custom batch sampler `OrderedBatches` for prediction")
def test_probabilities_are_float32_under_any_precision(corpus: Corpus) -> None:
    module, data = lit_module(), data_module(corpus, predict_file=str(corpus.test))
    runner = trainer(corpus.folder, precision="bf16-true")
    runner.fit(module, datamodule=data)
    batches: Any = runner.predict(module, datamodule=data)
    found = torch.cat(batches)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.sum(dim=1), torch.ones(20))


def test_tensorboard_pages_tell_of_their_own_validation(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    """With weights that never change, two validations have the same pages."""
    pictured: list[torch.Tensor] = []

    def picture(confusion: torch.Tensor, labels: list[str]) -> Any:
        pictured.append(confusion)
        return confusion_figure(confusion, labels)

    monkeypatch.setattr("project.lit.log.confusion_figure", picture)
    run = fit(corpus, "--model.optimizer.lr=0", "--model.lr_scheduler=null")
    rows = [json.loads(line) for line in corpus.val.read_text().splitlines()]
    labels = [row["label"] for row in rows]
    for confusion in pictured:
        assert confusion.sum(dim=1).tolist() == [labels.count(label) for label in ("animal", "colour", "tool")]

    events = EventAccumulator(str(run))
    events.Reload()
    summaries = events.Tensors("val/misclassified/text_summary")
    first, second = (summary.tensor_proto.string_val[0].decode() for summary in summaries)
    assert first == second
    shown = [line.strip("| ").split(" | ") for line in first.splitlines()[2:]]
    assert len(shown) == round(20 * (1 - events.Scalars("val/accuracy")[0].value)) > 0
    label_of = {row["text"]: row["label"] for row in rows}
    for true, predicted, _, text in shown:
        assert label_of[text] == true != predicted

    content = events.PluginTagToContent("hparams")["_hparams_/session_start_info"]
    hyperparameters = HParamsPluginData.FromString(content).session_start_info.hparams
    assert hyperparameters["seed"].number_value == 1
    assert hyperparameters["optimizer"].string_value == "AdamW"


def test_a_run_is_finished_only_when_its_last_checkpoint_is_there(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two steps beyond the last validation, so that there is something left to save."""

    def full(*arguments: Any) -> None:
        raise UserError("the disk is full")

    monkeypatch.setattr(BetweenSteps, "on_train_end", full)
    config = corpus.folder / "config.yaml"
    config.write_text(CONFIG, encoding="utf-8")
    assert main(["fit", "--config", str(config), *corpus.arguments, "--trainer.max_steps=9"]) == 2
    assert not list((corpus.folder / "runs").rglob("finished.json"))
