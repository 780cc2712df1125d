"""The command `hand` against its twin's commands: what they print, write and refuse."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from project.__main__ import main
from project.between.early_stopping import EarlyStopping
from project.checkpoint.config import EarlyStopping as EarlyStoppingConfig
from project.hand.trainer import OTHER_KEYS
from tiny_corpus import Corpus, write_corpus

CONFIGS = Path(__file__).parents[2] / "configs"
TWINS = {"hand": ["hand"], "lit": ["fit"]}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """Both twins, trained for three epochs of four steps; every fifth step is logged, and the last."""
    corpus = write_corpus(tmp_path_factory.mktemp("trained"))
    for name, command in TWINS.items():
        assert main([*command, *options(corpus, name), "--trainer.log_every_n_steps=5"]) == 0
    return corpus


def options(corpus: Corpus, name: str, *more: str) -> list[str]:
    base = ["--config", str(CONFIGS / "default.yaml"), *corpus.arguments, f"--name={name}", "--trainer.accelerator=cpu"]
    return [*base, "--trainer.max_epochs=3", "--data.batch_size=13", *more]


def run_of(corpus: Corpus, name: str) -> Path:
    return corpus.folder / "runs" / name / "version_0"


def events(run: Path) -> EventAccumulator:
    found = EventAccumulator(str(run), size_guidance={"scalars": 0, "images": 0, "tensors": 0})
    found.Reload()
    return found


def test_the_run_folders_hold_the_same(trained: Corpus) -> None:
    listed: list[set[str]] = []
    for name in TWINS:
        run = run_of(trained, name)
        files = {str(path.relative_to(run)) for path in run.rglob("*") if path.is_file()}
        listed.append({file for file in files if not file.startswith("events.") and file != "hparams.yaml"})
    assert listed[0] == listed[1]
    assert "checkpoints/best.ckpt" in listed[0]
    marks = [json.loads((run_of(trained, name) / "finished.json").read_text()) for name in TWINS]
    for mark in marks:
        assert mark.pop("seconds") > 0
        assert mark.pop("train_rows_per_second") > 0
    assert marks[0] == marks[1]
    assert marks[0]["epochs"] == 3


def test_both_runs_lie_on_one_chart(trained: Corpus) -> None:
    hand, lit = (events(run_of(trained, name)) for name in TWINS)
    assert hand.Tags()["scalars"]
    for kind in ("scalars", "images", "tensors"):
        assert sorted(hand.Tags()[kind]) == sorted(lit.Tags()[kind])
    for tag in hand.Tags()["scalars"]:
        points = [[(event.step, event.value) for event in side.Scalars(tag)] for side in (hand, lit)]
        assert points[0] == points[1], tag
    assert [event.step for event in hand.Scalars("train/loss")] == [5, 10, 12]


@pytest.mark.parametrize("name", ["last.ckpt", "best.ckpt"])
def test_the_checkpoints_hold_the_same(trained: Corpus, name: str) -> None:
    contents = [torch.load(run_of(trained, twin) / "checkpoints" / name, weights_only=True) for twin in TWINS]
    for content in contents:
        content["lr_scheduler"].pop("_get_lr_called_within_step")
        content["progress"].pop("seconds")
    assert same(*contents)


def same(a: Any, b: Any) -> bool:
    """Whether two nested structures agree in every bit, keys in the same order."""
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and torch.equal(a, b)
    return bool(a == b)


@pytest.mark.parametrize("command", ["validate", "test"])
def test_an_evaluation_prints_what_its_twin_prints(
    trained: Corpus, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = []
    for twin in ([command], ["hand", command]):
        assert main([*twin, f"--ckpt_path={run_of(trained, 'lit') / 'checkpoints' / 'best.ckpt'}"]) == 0
        printed.append(capsys.readouterr().out.rpartition("20 rows in")[0])
    assert printed[0] == printed[1]
    assert "macro-F1" in printed[0]


def test_predictions_are_the_same_bytes(trained: Corpus, tmp_path: Path) -> None:
    for twin in (["predict"], ["hand", "predict"]):
        path = run_of(trained, "hand") / "checkpoints" / "last.ckpt"
        where = [f"--ckpt_path={path}", f"--data.predict_file={trained.test}", f"--output={tmp_path / twin[0]}"]
        assert main([*twin, *where]) == 0
    assert (tmp_path / "predict").read_bytes() == (tmp_path / "hand").read_bytes()
    assert len((tmp_path / "hand").read_text().splitlines()) == 20


def test_the_newest_finished_run_is_taken(trained: Corpus, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["hand", "test", f"--trainer.default_root_dir={trained.folder / 'runs'}"]) == 0
    assert "checkpoint: " in capsys.readouterr().err


@pytest.mark.parametrize("evaluated", ["validate", "test", "predict"])
def test_a_limit_of_nothing_is_refused(trained: Corpus, evaluated: str, capsys: pytest.CaptureFixture[str]) -> None:
    split = {"validate": "val"}.get(evaluated, evaluated)
    path = run_of(trained, "hand") / "checkpoints" / "last.ckpt"
    arguments = [f"--ckpt_path={path}", f"--trainer.limit_{split}_batches=0", f"--data.predict_file={trained.test}"]
    assert main(["hand", evaluated, *arguments]) == 2
    assert f"trainer.limit_{split}_batches: 0 leaves no row" in capsys.readouterr().err


def test_each_twin_reads_the_configuration_that_the_other_saved(trained: Corpus) -> None:
    for name, command in (("lit", ["hand"]), ("hand", ["fit"])):
        saved = run_of(trained, name) / "config.yaml"
        assert main([*command, "--config", str(saved), "--trainer.fast_dev_run=1"]) == 0


def test_a_rehearsal_leaves_nothing(corpus: Corpus) -> None:
    assert main(["hand", *options(corpus, "rehearsed"), "--trainer.fast_dev_run=2"]) == 0
    assert not (corpus.folder / "runs").exists()


@pytest.mark.parametrize("key", OTHER_KEYS)
def test_a_key_that_is_not_implemented_is_refused_by_name(
    key: str, corpus: Corpus, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["hand", *options(corpus, "refused"), f"--trainer.{key}=77"]) == 2
    assert f"trainer.{key}" in capsys.readouterr().err
    assert not (corpus.folder / "runs").exists()


@pytest.mark.parametrize(
    ("more", "steps"),
    [
        (["--early_stopping.patience=1", "--early_stopping.min_delta=1"], 8),
        (["--early_stopping.patience=0", "--early_stopping.min_delta=1"], 8),
        (["--early_stopping.patience=1", "--early_stopping.monitor=val/loss", "--early_stopping.mode=max"], None),
        (["--early_stopping.patience=3", "--early_stopping.min_delta=1", "--trainer.val_check_interval=1"], 4),
    ],
)
def test_early_stopping_ends_both_at_the_same_step(corpus: Corpus, more: list[str], steps: int | None) -> None:
    for name, command in TWINS.items():
        assert main([*command, *options(corpus, name, "--trainer.max_epochs=5", *more)]) == 0
    ended = [json.loads((run_of(corpus, name) / "finished.json").read_text())["optimizer_steps"] for name in TWINS]
    assert ended[0] == ended[1] < 20
    assert steps is None or ended[0] == steps


@pytest.mark.parametrize(
    ("mode", "values", "stops"),
    [
        ("max", [0.5, 0.6, 0.6, 0.7, 0.1, 0.2], [False, False, False, False, False, True]),
        ("min", [0.5, 0.4, 0.45, 0.39, math.nan], [False, False, False, False, True]),
        ("max", [math.inf], [True]),
    ],
)
def test_the_rule_of_early_stopping(mode: Any, values: list[float], stops: list[bool]) -> None:
    rule = EarlyStopping(EarlyStoppingConfig(patience=2, mode=mode))
    found = []
    for value in values:
        rule.validated({"val/macro_f1": value})
        found.append(rule.should_stop)
    assert found == stops


def test_the_saved_configurations_say_the_same(trained: Corpus) -> None:
    """The hand twin's names no key that it does not implement."""
    hand, lit = (yaml.safe_load((run_of(trained, name) / "config.yaml").read_text()) for name in TWINS)
    assert lit["trainer"].keys() - hand["trainer"].keys() == OTHER_KEYS.keys()
    own = hand["trainer"].keys() - {"strategy"}  # each has its default
    assert {key: lit["trainer"][key] for key in own} == {key: hand["trainer"][key] for key in own}
    assert {**hand, "trainer": 0, "name": 0} == {**lit, "trainer": 0, "name": 0}


def test_a_progress_bar_is_shown_on_a_terminal_only(
    corpus: Corpus, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["hand", *options(corpus, "quiet")]) == 0
    assert "epoch 1" not in capsys.readouterr().err
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert main(["hand", *options(corpus, "shown")]) == 0
    assert "epoch 1" in capsys.readouterr().err
    assert main(["hand", *options(corpus, "off"), "--trainer.enable_progress_bar=false"]) == 0
    assert "epoch 1" not in capsys.readouterr().err
