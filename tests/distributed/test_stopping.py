"""Signals to a command of several processes: its ranks hear them, save together, and what fails is said."""

from __future__ import annotations

import os
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from interrupted import first_difference

import processes
from tiny_corpus import Corpus, write_corpus

ROOT = Path(__file__).parents[2]
LONG = pytest.mark.long

NETWORK = """\
import os, time, torch


class Waiting(torch.nn.Module):
    def __init__(self, num_tokens, num_classes):
        super().__init__()
        self.bag = torch.nn.EmbeddingBag(num_tokens, 6, padding_idx=0)
        self.out = torch.nn.Linear(6, num_classes)
        self.num_calls = 0

    def forward(self, tokens, lengths):
        self.num_calls += self.training
        call = int(os.environ.get("WAIT_AT", "3"))
        if self.training and self.num_calls == call and os.environ["LOCAL_RANK"] == "1":
            with open("pid", "w") as file:
                file.write(str(os.getpid()))
            os.replace("pid", "mark")
            while not os.path.exists("go"):
                time.sleep(0.02)
        return self.out(self.bag(tokens))
"""


SLOW = """\
import os, time
import project.checkpoint.file
from waiting import Waiting

sync = project.checkpoint.file.sync


def slow(path):
    if path.name.startswith(".last.ckpt") and not os.path.exists("slow"):
        open("slow", "w").close()
        time.sleep(float(os.environ["SLOW_SECONDS"]))
        open("saved", "w").close()
    sync(path)


project.checkpoint.file.sync = slow


class Slow(Waiting):
    pass
"""
"""Lets the disk take its time for the first last.ckpt; the configuration imports it."""


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    (tmp_path / "waiting.py").write_text(NETWORK)
    (tmp_path / "slow.py").write_text(SLOW)
    return write_corpus(tmp_path, num_train=49)


def start(twin: str, corpus: Corpus, *more: str) -> processes.Process:
    """Two ranks of `twin`, in the corpus's folder."""
    configs = [part for config in ("default", "ddp") for part in ("--config", str(ROOT / "configs" / f"{config}.yaml"))]
    sizes = ["--trainer.max_epochs=2", "--trainer.accelerator=cpu", "--data.batch_size=4", "--name=run"]
    return processes.start([twin, *configs, *corpus.arguments, *sizes, *more], folder=corpus.folder)


def wait_for(path: Path, process: processes.Process) -> None:
    while not path.exists():
        assert process.poll() is None, process.communicate(1)
        time.sleep(0.02)


def last(corpus: Corpus) -> dict[str, Any]:
    path = corpus.folder / "runs" / "run" / "version_0" / "checkpoints" / "last.ckpt"
    found: dict[str, Any] = torch.load(path, weights_only=True)
    found["progress"].pop("seconds")
    return found


@pytest.mark.parametrize(
    ("twin", "strategy", "sent"),
    [
        ("fit", "ddp_fork", signal.SIGINT),
        pytest.param("fit", "ddp_spawn", signal.SIGTERM, marks=LONG),
        pytest.param("fit", "ddp_fork", signal.SIGUSR1, marks=LONG),
        pytest.param("fit", "ddp", signal.SIGINT, marks=LONG),
        pytest.param("hand", "ddp_spawn", signal.SIGUSR1, marks=LONG),
        pytest.param("hand", "ddp_fork", signal.SIGTERM, marks=LONG),
    ],
)
def test_the_command_passes_a_signal_on_and_waits(
    twin: str, strategy: str, sent: signal.Signals, corpus: Corpus
) -> None:
    own = ["--model.network=waiting.Waiting", f"--trainer.strategy={strategy}"]
    with start(twin, corpus, *own) as command:
        wait_for(corpus.folder / "mark", command)
        command.send_signal(sent)
        time.sleep(1)
        (corpus.folder / "go").touch()
        out, err = command.communicate(timeout=120)
    assert command.returncode == 128 + sent, err
    assert out.count(f"stopped by {sent.name} after") == 1
    assert err == ""
    assert 2 < last(corpus)["progress"]["step"] < 14


@pytest.mark.parametrize(
    ("twin", "strategy"),
    [
        ("fit", "ddp_fork"),
        pytest.param("hand", "ddp_fork", marks=LONG),
        pytest.param("fit", "fsdp2", marks=LONG),
        pytest.param("hand", "ddp", marks=LONG),
    ],
)
def test_a_save_on_a_signal_that_fails_is_said_last_and_is_no_success(twin: str, strategy: str, corpus: Corpus) -> None:
    own = ["--model.network=waiting.Waiting", f"--trainer.strategy={strategy}"]
    folder = corpus.folder / "runs" / "run" / "version_0" / "checkpoints"
    with start(twin, corpus, *own) as command:
        wait_for(corpus.folder / "mark", command)
        shutil.rmtree(folder)
        folder.write_text("no folder any more")
        command.send_signal(signal.SIGTERM)
        time.sleep(1)
        (corpus.folder / "go").touch()
        out, err = command.communicate(timeout=120)
    assert command.returncode == 2, err
    assert err.startswith(f"error: {folder / 'last.ckpt'}: the checkpoint cannot be written (")
    assert len(err.splitlines()) == 1
    assert "stopped by" not in out


@LONG
@pytest.mark.parametrize(
    ("twin", "in_background", "call"),
    [("hand", "false", "3"), ("hand", "true", "5"), ("fit", "false", "0"), ("fit", "true", "0")],
)
def test_ranks_wait_for_a_save_that_takes_long(
    twin: str, in_background: str, call: str, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Longer than a rank waits while nothing moves.

    Rank 1 hears the signal in the forward pass after which it waits for rank 0, which saves. Under Lightning it waits
    in a barrier, and rank 0 alone hears it.
    """
    monkeypatch.setenv("SLOW_SECONDS", "16")
    monkeypatch.setenv("WAIT_AT", call)
    own = ["--model.network=slow.Slow", "--checkpoint.save_every_n_steps=2", "--trainer.strategy=ddp_fork"]
    with start(twin, corpus, *own, f"--checkpoint.async_save={in_background}") as command:
        for mark in ("slow", *(["mark"] if call != "0" else [])):
            wait_for(corpus.folder / mark, command)
        command.send_signal(signal.SIGTERM)
        time.sleep(1)
        (corpus.folder / "go").touch()
        out, err = command.communicate(timeout=120)
    assert command.returncode == 143, err
    assert (corpus.folder / "saved").exists()
    assert out.count("stopped by SIGTERM after") == 1
    assert err == ""
    assert 1 < last(corpus)["progress"]["step"] < 14


@LONG
@pytest.mark.parametrize(("twin", "in_background"), [("hand", "false"), ("fit", "true")])
def test_no_rank_leaves_before_the_main_one_has_saved(
    twin: str, in_background: str, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One rank alone is told: if it left, the launcher would take it for a failure, and kill the others 30 s later."""
    monkeypatch.setenv("SLOW_SECONDS", "33")
    own = ["--model.network=slow.Slow", "--trainer.strategy=ddp", f"--checkpoint.async_save={in_background}"]
    with start(twin, corpus, *own) as command:
        wait_for(corpus.folder / "mark", command)
        os.kill(int((corpus.folder / "mark").read_text()), signal.SIGTERM)
        (corpus.folder / "go").touch()
        out, err = command.communicate(timeout=120)
    assert command.returncode == 143, err
    assert out.count("stopped by SIGTERM after") == 1
    assert err == ""
    assert (corpus.folder / "saved").exists()
    assert 2 < last(corpus)["progress"]["step"] < 14


@LONG
@pytest.mark.parametrize("twin", ["hand", "fit"])
def test_all_ranks_save_after_the_same_step_when_the_clock_says_so(twin: str, corpus: Corpus) -> None:
    """It always does here: word is left after each first step since a save, and the next one is saved."""
    saved = []
    for own in ([], ["--checkpoint.save_every_minutes=1e-9", "--checkpoint.keep_last=100"]):
        with start(twin, corpus, "--trainer.strategy=ddp_fork", *own) as command:
            _, err = command.communicate(timeout=120)
        assert (command.returncode, err) == (0, "")
        saved.append(last(corpus))
        folder = corpus.folder / "runs" / "run" / "version_0"
        steps = {int(path.stem[5:]) for path in folder.glob("checkpoints/step-*.ckpt")}
        folder.rename(corpus.folder / f"run_{len(saved)}")
    assert steps == {2, 4, 6, 7, 9, 11, 13}
    assert first_difference(saved[0], saved[1]) is None
