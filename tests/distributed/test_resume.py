"""Runs of several ranks that were interrupted go on, by either twin, and equal the run that was not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from interrupted import first_difference

import processes
from project.commands.runs import held
from tiny_corpus import Corpus, write_corpus

ROOT = Path(__file__).parents[2]

NETWORK = """\
import os, signal, time, torch


class Interrupted(torch.nn.Module):
    def __init__(self, num_tokens, num_classes):
        super().__init__()
        self.bag = torch.nn.EmbeddingBag(num_tokens, 6, padding_idx=0)
        self.dropout = torch.nn.Dropout(0.3)
        self.out = torch.nn.Linear(6, num_classes)
        self.register_buffer("seen", torch.zeros(()))
        self.num_calls = {"": 0, "v": 0}

    def forward(self, tokens, lengths):
        mode = "" if self.training else "v"
        self.num_calls[mode] += 1
        if self.training:
            self.seen += lengths.sum()
        rank, call, how = os.environ.get("INTERRUPT", "- 0 -").split()
        first = os.environ.get("TORCHELASTIC_RESTART_COUNT") == "0"
        if first and rank == os.environ.get("RANK") and f"{mode}{self.num_calls[mode]}" == call:
            if how == "raise":
                raise RuntimeError("interrupted")
            if how == "wait":
                open(os.environ["MARK"], "w").close()
                time.sleep(3)
            else:
                os.kill(os.getpid(), signal.Signals[how])
        return self.out(self.dropout(self.bag(tokens)))
"""

PARTING = """\
import os
import project.commands.saved
from pathlib import Path
from interrupting import Interrupted

if os.environ.get("RANK") == "1":
    project.commands.saved.newest_checkpoint = lambda root, name: Path(os.environ["OLDER"])


class Parting(Interrupted):
    pass
"""
"""Lets one rank find another checkpoint than the others; the configuration imports it."""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    folder = tmp_path_factory.mktemp("resume")
    (folder / "interrupting.py").write_text(NETWORK)
    (folder / "parting.py").write_text(PARTING)
    return write_corpus(folder, num_train=49)


def command(twin: str, corpus: Corpus, name: str, *more: str) -> list[str]:
    configs = [part for config in ("default", "ddp") for part in ("--config", str(ROOT / "configs" / f"{config}.yaml"))]
    sizes = ["--trainer.max_epochs=2", "--trainer.accelerator=cpu", "--data.batch_size=4", f"--name={name}"]
    own = ["--model.network=interrupting.Interrupted", "--trainer.accumulate_grad_batches=2"]
    own += ["--trainer.val_check_interval=4", "--checkpoint.save_every_n_steps=1", "--trainer.log_every_n_steps=3"]
    return [twin, *configs, *corpus.arguments, *sizes, *own, *more]


def run(given: list[str], corpus: Corpus, interrupt: str = "") -> subprocess.CompletedProcess[str]:
    return start(given, corpus, {"INTERRUPT": interrupt} if interrupt else {}).ended()


def start(given: list[str], corpus: Corpus, environment: dict[str, str]) -> processes.Process:
    return processes.start(given, environment, corpus.folder)


def under_torchrun(given: list[str], corpus: Corpus, interrupt: str = "") -> subprocess.CompletedProcess[str]:
    """Ranks that are started once more when they fail, if they are to be interrupted."""
    restarts = ["--max-restarts", "1"] if interrupt else []
    environment = {**os.environ, **({"INTERRUPT": interrupt} if interrupt else {})}
    return subprocess.run(
        [*TORCHRUN, *restarts, "-m", "project", *given], env=environment, cwd=corpus.folder,
        capture_output=True, text=True, check=False, timeout=180,
    )  # fmt: skip


def last(corpus: Corpus, name: str) -> dict[str, Any]:
    path = corpus.folder / "runs" / name / "version_0" / "checkpoints" / "last.ckpt"
    found: dict[str, Any] = torch.load(path, weights_only=True)
    found["progress"].pop("seconds")
    found["lr_scheduler"].pop("_get_lr_called_within_step", None)
    return found


TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]

Whole = Callable[[str], dict[str, Any]]


@pytest.fixture(scope="module")
def whole(corpus: Corpus) -> Whole:
    """The run that was not interrupted, of a strategy."""

    @cache
    def trained(strategy: str) -> dict[str, Any]:
        ended = run(command("hand", corpus, f"whole_{strategy}", f"--trainer.strategy={strategy}"), corpus)
        assert ended.returncode == 0, ended.stderr
        return last(corpus, f"whole_{strategy}")

    return trained


@pytest.mark.parametrize(
    ("strategy", "first", "second", "interrupt", "code"),
    [
        ("ddp_fork", "fit", "hand", "1 v2 SIGTERM", 143),
        pytest.param("ddp_fork", "hand", "fit", "1 3 SIGTERM", 143, marks=pytest.mark.long),
        pytest.param("ddp", "hand", "fit", "1 3 SIGTERM", 143, marks=pytest.mark.long),
        pytest.param("ddp", "fit", "hand", "0 6 SIGUSR1", 138, marks=pytest.mark.long),
        pytest.param("fsdp2", "hand", "fit", "0 4 SIGINT", 130, marks=pytest.mark.long),
        pytest.param("fsdp2", "fit", "hand", "1 9 SIGTERM", 143, marks=pytest.mark.long),
        pytest.param("ddp", "hand", "fit", "0 v2 SIGTERM", 143, marks=pytest.mark.long),
        pytest.param("fsdp2", "hand", "fit", "1 v2 SIGINT", 130, marks=pytest.mark.long),
        pytest.param("fsdp2", "fit", "hand", "0 v5 SIGTERM", 143, marks=pytest.mark.long),
    ],
)
def test_one_rank_is_told_to_stop_and_the_other_twin_goes_on(
    strategy: str,
    first: str,
    second: str,
    interrupt: str,
    code: int,
    corpus: Corpus,
    whole: Whole,
) -> None:
    name = f"stopped_{strategy}_{first}_{interrupt.split()[1]}"
    option = f"--trainer.strategy={strategy}"
    ended = run(command(first, corpus, name, option), corpus, interrupt)
    assert ended.returncode == code, ended.stderr
    assert ended.stdout.count(f"stopped by {interrupt.split()[2]} after") == 1
    assert ended.stderr == ""
    stopped = last(corpus, name)
    assert 0 < stopped["progress"]["step"] < whole(strategy)["progress"]["step"]
    assert len(stopped["ranks"]) == 2
    assert stopped["progress"]["validation_due"] or "v" not in interrupt, "the validation was waited for"
    path = corpus.folder / "runs" / name / "version_0" / "checkpoints" / "last.ckpt"
    goes_on = run(command(second, corpus, name, option, f"--ckpt_path={path}"), corpus)
    assert goes_on.returncode == 0, goes_on.stderr
    assert first_difference(last(corpus, name), whole(strategy)) is None


@pytest.mark.long
def test_the_launcher_passes_a_signal_on_and_waits(corpus: Corpus, whole: Whole) -> None:
    mark = corpus.folder / "mark"
    environment = {"INTERRUPT": "1 3 wait", "MARK": str(mark)}
    with start(command("hand", corpus, "passed_on"), corpus, environment) as launcher:
        while not mark.exists() and launcher.poll() is None:
            time.sleep(0.05)
        launcher.send_signal(signal.SIGTERM)
        out, err = launcher.communicate(timeout=60)
    assert launcher.returncode == 143, err
    assert "stopped by SIGTERM after" in out
    assert 0 < last(corpus, "passed_on")["progress"]["step"] < whole("ddp")["progress"]["step"]


@pytest.mark.long
@pytest.mark.parametrize("twin", ["hand", "fit"])
def test_torchrun_starts_failed_ranks_anew_and_they_go_on(twin: str, corpus: Corpus, whole: Whole) -> None:
    ended = under_torchrun(command(twin, corpus, f"restarted_{twin}"), corpus, "1 6 raise")
    assert ended.returncode == 0, ended.stderr
    assert "interrupted" in ended.stderr
    assert [path.name for path in (corpus.folder / "runs" / f"restarted_{twin}").iterdir()] == ["version_0"]
    assert first_difference(last(corpus, f"restarted_{twin}"), whole("ddp")) is None


@pytest.mark.long
@pytest.mark.parametrize("strategy", ["ddp", "fsdp2"])
def test_compiled_networks_go_on_between_ranks(strategy: str, corpus: Corpus) -> None:
    own = ["--model.network=Pooling", "--data.max_tokens=4", "--model.compile=true", "--trainer.deterministic=true"]
    own += [f"--trainer.strategy={strategy}", "--checkpoint.keep_last=9"]
    ended = run(command("hand", corpus, f"compiled_{strategy}", *own), corpus)
    assert ended.returncode == 0, ended.stderr
    kept = corpus.folder / "runs" / f"compiled_{strategy}" / "version_0" / "checkpoints" / "step-3.ckpt"
    for twin in ("hand", "fit"):
        name = f"compiled_{strategy}_{twin}"
        moved = corpus.folder / f"{name}.ckpt"  # elsewhere than in its run, so that a new one goes on
        moved.write_bytes(kept.read_bytes())
        ended = run(command(twin, corpus, name, *own, f"--ckpt_path={moved}"), corpus)
        assert ended.returncode == 0, ended.stderr
        found, expected = last(corpus, name), last(corpus, f"compiled_{strategy}")
        assert found["progress"]["step"] > 3
        assert first_difference(found, expected) is None


@pytest.mark.long
@pytest.mark.parametrize("launch", [run, under_torchrun], ids=["own launcher", "torchrun"])
@pytest.mark.parametrize("twin", ["hand", "fit"])
def test_ranks_are_refused_as_one_where_another_process_trains(
    twin: str, launch: Callable[[list[str], Corpus], subprocess.CompletedProcess[str]], corpus: Corpus, whole: Whole
) -> None:
    whole("ddp")
    folder = corpus.folder / "runs" / "whole_ddp" / "version_0"
    going_on = f"--ckpt_path={folder / 'checkpoints' / 'last.ckpt'}"
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    with held(folder):
        ended = launch(command(twin, corpus, "refused", going_on), corpus)
    assert ended.returncode == (2 if launch == run else 1)
    errors = [line for line in ended.stderr.splitlines() if line.startswith("error: ")]
    assert set(errors) == {errors[0]}
    assert f"{folder}: process {os.getpid()} on " in errors[0]
    assert len(errors) <= 2  # under torchrun each rank speaks for itself
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


@pytest.mark.long
@pytest.mark.parametrize("twin", ["hand", "fit"])
def test_ranks_go_on_from_what_the_main_one_finds(
    twin: str, corpus: Corpus, whole: Whole, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = corpus.folder / "runs" / f"older_{twin}" / "version_0"
    ended = run(command("hand", corpus, f"older_{twin}", "--trainer.max_steps=2"), corpus)
    assert ended.returncode == 0, ended.stderr
    stopped = run(command(twin, corpus, f"newer_{twin}"), corpus, "1 9 SIGTERM")
    assert stopped.returncode == 143, stopped.stderr
    monkeypatch.setenv("OLDER", str(older / "checkpoints" / "last.ckpt"))
    network = "--model.network=parting.Parting"
    newer = corpus.folder / "runs" / f"newer_{twin}" / "version_0"
    config = newer / "config.yaml"
    checkpoint = torch.load(newer / "checkpoints" / "last.ckpt", weights_only=True)
    checkpoint["classifier"]["network"]["class_path"] = "parting.Parting"
    torch.save(checkpoint, newer / "checkpoints" / "last.ckpt")
    goes_on = [twin, f"--config={config}", network, "--ckpt_path=last", "--trainer.devices=2"]
    ended = under_torchrun(goes_on, corpus)
    assert ended.returncode == 0, ended.stderr
    found = last(corpus, f"newer_{twin}")
    found["classifier"]["network"]["class_path"] = "interrupting.Interrupted"
    assert first_difference(found, whole("ddp")) is None
