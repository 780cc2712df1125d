"""What a continued run does otherwise than the saved one is announced, a line for each key, and nothing else is."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
import yaml
from interrupted import EACH_STEP, TWINS, content, first_difference, go_on, stopped, train

from project.checkpoint.file import read_checkpoint
from project.commands.saved import Saved, changed_settings
from tiny_corpus import write_corpus

EPOCH = 8
"""Optimizer steps of one."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same run of each twin."""
    corpus = write_corpus(tmp_path_factory.mktemp("announced"))
    return {twin: train(twin, corpus, f"whole-{twin}", *EACH_STEP) for twin in TWINS}


def announced(run: Path, after: str) -> list[str]:
    last = run / "checkpoints" / "last.ckpt"
    return changed_settings(Saved(last, read_checkpoint(last)), after)


@pytest.mark.parametrize("twin", TWINS)
def test_another_twin_and_other_places_are_no_change(
    twin: str, whole: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    other = next(name for name in TWINS if name != twin)
    run = stopped(whole[other], EPOCH, f"{twin}-places")
    folder = whole[other].parents[2]
    places = []
    for split in ("train", "val"):
        moved = folder / f"moved-{twin}-{split}.jsonl"
        shutil.copy(folder / f"{split}.jsonl", moved)
        places.append(f"--data.{split}_file={moved}")
    go_on(twin, run, *places, "--distributed.timeout_seconds=60", "--trainer.limit_test_batches=3")
    assert "from here on" not in capsys.readouterr().out
    assert first_difference(content(run), content(whole[twin])) is None


@pytest.mark.parametrize("twin", TWINS)
def test_keys_that_come_and_go_are_announced(twin: str, whole: dict[str, Path]) -> None:
    saved = yaml.safe_load((whole[twin] / "config.yaml").read_text())
    assert announced(whole[twin], yaml.safe_dump(saved)) == []
    del saved["model"]["optimizer"]["init_args"]["weight_decay"]
    saved["model"]["optimizer"]["init_args"]["momentum"] = 0.5
    saved["model"]["class_weights"] = {"tool": 2.0}
    saved["trainer"]["of_the_other_twin"] = 1
    rest = "it is no longer the run that was saved"
    assert announced(whole[twin], yaml.safe_dump(saved)) == [
        f"model.optimizer.init_args.weight_decay: 0.01 in the saved run, not set from here on; {rest}",
        f"model.class_weights.tool: not set in the saved run, 2.0 from here on; {rest}",
        f"model.optimizer.init_args.momentum: not set in the saved run, 0.5 from here on; {rest}",
    ]


def test_another_seed_at_an_epochs_end_is_announced_and_changes_the_order_that_follows(
    whole: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [stopped(whole[twin], EPOCH, f"{twin}-seed") for twin in TWINS]
    for twin, run in zip(TWINS, runs, strict=True):
        go_on(twin, run, "--seed_everything=2")
        assert capsys.readouterr().out.count("seed_everything: 1 in the saved run, 2 from here on") == 1
    assert first_difference(content(runs[0]), content(runs[1])) is None
    different = first_difference(content(runs[0])["state_dict"], content(whole["hand"])["state_dict"])
    assert different is not None


def test_what_was_best_by_another_metric_is_no_longer(
    whole: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """A loss of 1.1 is above every accuracy: it would stay the best for good."""
    runs = [stopped(whole[twin], EPOCH, f"{twin}-best") for twin in TWINS]
    for run in runs:
        last = run / "checkpoints" / "last.ckpt"
        saved = torch.load(last, weights_only=True)
        assert (saved["best"]["monitor"], saved["best"]["mode"], saved["best"]["epoch"]) == ("val/macro_f1", "max", 0)
        saved["best"] |= {"monitor": "val/loss", "mode": "min", "value": 1.1}
        torch.save(saved, last)
    for twin, run in zip(TWINS, runs, strict=True):
        go_on(twin, run)
        line = "checkpoint.monitor: val/loss (min) in the saved run, val/macro_f1 (max) from here on; what is best is"
        assert capsys.readouterr().out.count(line) == 1
        assert content(run)["best"]["epoch"] == 1
        assert torch.load(run / "checkpoints" / "best.ckpt", weights_only=True)["progress"]["step"] == 2 * EPOCH
    assert first_difference(content(runs[0]), content(runs[1])) is None
