"""Checkpoints written in the background are those written at once, and none is lost."""

from __future__ import annotations

import os
import signal
import threading
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from interrupted import CONFIG, EACH_STEP, TWINS, checkpoint, curves, first_difference, steps_of, train

from project.__main__ import main
from project.checkpoint import writer as checkpoint_writer
from project.checkpoint.file import read_checkpoint, write_checkpoint
from project.checkpoint.writer import CheckpointWriter
from project.errors import UserError
from project.network import TextCNN
from tiny_corpus import Corpus

ASYNC = "--checkpoint.async_save=true"


def tricky() -> dict[str, Any]:
    """Tensors that share memory, parts of larger ones, empty ones; objects that occur twice; metadata."""
    network = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3))
    network[1].weight = network[0].weight
    betas, large = (0.9, 0.99), torch.arange(24.0).view(4, 6)
    state = network.state_dict()
    assert isinstance(state, OrderedDict)
    return {
        "state_dict": state,
        "classifier": {"format": 1},
        "parts": [large, large[1:3, ::2], large.t(), torch.empty(0), torch.empty(0), torch.tensor(True)],
        "types": (torch.ones(3, dtype=torch.bfloat16), torch.zeros((), dtype=torch.int64)),
        "groups": [{"betas": betas, "name": "one"}, {"betas": betas, "name": "one"}],
        "nothing": None,
    }


def test_the_file_is_the_same_to_the_byte(tmp_path: Path) -> None:
    content = tricky()
    for name, in_background in (("now", False), ("later", True)):
        writer = CheckpointWriter(in_background)
        writer.write(tmp_path / name / "last.ckpt", content)
        writer.wait_for()
        writer.close()
    assert (tmp_path / "now" / "last.ckpt").read_bytes() == (tmp_path / "later" / "last.ckpt").read_bytes()


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """No file is written before this is set."""
    event = threading.Event()

    def waiting(path: Path, content: Mapping[str, Any]) -> None:
        assert event.wait(60)
        write_checkpoint(path, content)

    monkeypatch.setattr(checkpoint_writer, "write_checkpoint", waiting)
    return event


def test_what_changes_later_is_not_in_the_file(held: threading.Event, tmp_path: Path) -> None:
    writer, content = CheckpointWriter(in_background=True), tricky()
    writer.write(tmp_path / "last.ckpt", content)
    content["state_dict"]["0.weight"].fill_(7)
    content["groups"].clear()
    assert not (tmp_path / "last.ckpt").exists()
    held.set()
    writer.close()
    saved = torch.load(tmp_path / "last.ckpt", weights_only=True)
    assert not (saved["state_dict"]["0.weight"] == 7).any()
    assert len(saved["groups"]) == 2


def test_a_file_waits_for_the_one_before_it_of_its_name_alone(
    held: threading.Event, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = CheckpointWriter(in_background=True)
    for name in ("best.ckpt", "last.ckpt"):
        writer.write(tmp_path / name, {"number": 1})
    assert not list(tmp_path.iterdir())
    found: list[list[str]] = []

    def looking(content: Mapping[str, Any]) -> dict[str, Any]:
        found.append(sorted(path.name for path in tmp_path.iterdir()))
        return dict(content)

    monkeypatch.setattr(checkpoint_writer, "copied", looking)
    threading.Timer(0.1, held.set).start()
    writer.write(tmp_path / "last.ckpt", {"number": 2})
    assert found == [["best.ckpt", "last.ckpt"]]
    writer.close()
    assert torch.load(tmp_path / "last.ckpt", weights_only=True)["number"] == 2


def test_after_an_error_nothing_more_is_written_and_it_is_raised(held: threading.Event, tmp_path: Path) -> None:
    """last.ckpt says which was best, so it must not be ahead of a best.ckpt that could not be written."""
    (tmp_path / "best.ckpt").mkdir()
    writer = CheckpointWriter(in_background=True)
    for name in ("best.ckpt", "last.ckpt"):
        writer.write(tmp_path / name, {})
    held.set()
    with pytest.raises(UserError, match=r"best\.ckpt: the checkpoint cannot be written \(Is a directory"):
        writer.wait_for(tmp_path / "last.ckpt")
    with pytest.raises(UserError, match=r"best\.ckpt: the checkpoint cannot be written"):
        writer.write(tmp_path / "last.ckpt", {})
    writer.close()
    assert [path.name for path in tmp_path.iterdir()] == ["best.ckpt"]


@pytest.mark.parametrize("twin", TWINS)
def test_a_run_leaves_the_same_files(twin: str, corpus: Corpus) -> None:
    options = [*EACH_STEP, "--trainer.val_check_interval=3"]
    now, later = train(twin, corpus, "now", *options), train(twin, corpus, "later", *options, ASYNC)
    steps = steps_of(now)
    assert len(steps) > 10
    for step in (*steps, steps[-1] + 1):
        one, other = (read_checkpoint(checkpoint(run, step)) for run in (now, later))
        assert one["progress"].pop("seconds") != other["progress"].pop("seconds")
        assert first_difference(one, other) is None
    assert first_difference(curves(now), curves(later)) is None
    assert {path.name for path in now.rglob("*.ckpt")} == {path.name for path in later.rglob("*.ckpt")}


@pytest.mark.parametrize("twin", TWINS)
@pytest.mark.parametrize("is_signalled", [False, True], ids=["at the end", "on a signal"])
def test_the_last_file_that_cannot_be_written_is_an_error(
    twin: str, is_signalled: bool, corpus: Corpus, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is written in the background when nothing is left to be trained."""
    forward, main_thread = TextCNN.forward, threading.current_thread()

    def full(path: Path, content: Mapping[str, Any]) -> None:
        assert threading.current_thread() is not main_thread
        raise UserError(f"{path}: the checkpoint cannot be written (no space left)")

    def signalled(self: TextCNN, *arguments: torch.Tensor) -> torch.Tensor:
        os.kill(os.getpid(), signal.SIGTERM)
        return forward(self, *arguments)

    monkeypatch.setattr(checkpoint_writer, "write_checkpoint", full)
    if is_signalled:
        monkeypatch.setattr("project.learn.recipe.check_contract", lambda *_: None)
        monkeypatch.setattr(TextCNN, "forward", signalled)
    base = ["--config", str(CONFIG), *corpus.arguments, "--trainer.accelerator=cpu", "--trainer.limit_val_batches=0"]
    assert main([*TWINS[twin], *base, "--trainer.max_epochs=1", ASYNC]) == 2
    error = capsys.readouterr().err.strip().splitlines()
    assert len(error) == 1
    assert error[0].endswith("last.ckpt: the checkpoint cannot be written (no space left)")
    assert not list(corpus.folder.rglob("finished.json"))
    assert not any("checkpoints" in thread.name for thread in threading.enumerate())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_from_a_gpu_tensors_are_copied_to_pinned_memory() -> None:
    content = {"weights": torch.arange(1000.0, device="cuda")}
    copied = checkpoint_writer.copied(content)["weights"]
    assert copied.is_pinned()
    assert torch.equal(copied, content["weights"].cpu())
