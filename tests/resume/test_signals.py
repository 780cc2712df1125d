"""A signal ends a run at its next optimizer step, saved; the run that goes on equals the one that was not stopped."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from interrupted import CONFIG, TWINS, content, curves, first_difference, go_on, train

from project.__main__ import main
from project.signals import EXIT_CODES, Listener
from project.task.data import Data
from project.task.network import TextCNN
from tiny_corpus import Corpus

OPTIONS = ["--trainer.accumulate_grad_batches=2", "--trainer.val_check_interval=4"]


def send_at_forward(monkeypatch: pytest.MonkeyPatch, number: int, *signals: signal.Signals) -> None:
    """Send the signals to this process in the network's `number`-th forward pass; the first checks its contract."""
    calls = 0
    forward = TextCNN.forward

    def counting(self: TextCNN, tokens: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        nonlocal calls
        calls += 1
        if calls == number:
            for sent in signals:
                os.kill(os.getpid(), sent)
        return forward(self, tokens, lengths)

    monkeypatch.setattr(TextCNN, "forward", counting)


def options(corpus: Corpus, name: str) -> list[str]:
    base = ["--config", str(CONFIG), *corpus.arguments, f"--name={name}", "--trainer.accelerator=cpu"]
    return [*base, "--data.batch_size=7", "--trainer.log_every_n_steps=2", "--trainer.max_epochs=2", *OPTIONS]


@pytest.mark.parametrize("twin", TWINS)
@pytest.mark.parametrize(
    ("forward", "step", "is_due"),
    [(2, 1, False), (3, 1, False), (5, 2, True), (7, 2, True), (14, 4, True)],
    ids=["mid-window", "window's end", "before a validation", "in a validation", "in the epoch's last validation"],
)
def test_stopped_by_a_signal_and_continued(
    twin: str,
    forward: int,
    step: int,
    is_due: bool,
    corpus: Corpus,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    other = next(name for name in TWINS if name != twin)
    whole = train(other, corpus, "whole", *OPTIONS)
    number = [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1][forward % 3]
    with monkeypatch.context() as patch:
        send_at_forward(patch, forward, number, signal.SIGTERM)  # the second one changes nothing
        assert main([*TWINS[twin], *options(corpus, "stopped")]) == EXIT_CODES[number]
    run = corpus.folder / "runs" / "stopped" / "version_0"
    assert f"stopped by {number.name} after {step} optimizer steps" in capsys.readouterr().out
    progress = content(run)["progress"]
    assert (progress["step"], progress["validation_due"]) == (step, is_due)
    assert not (run / "finished.json").exists()
    for second in (twin, other):
        copy = run if second == other else copied(run)
        go_on(second, copy)
        assert first_difference((content(copy), curves(copy)), (content(whole), curves(whole))) is None


@pytest.mark.parametrize("twin", TWINS)
def test_a_job_that_slurm_requeues_goes_on_by_itself(
    twin: str, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = train(twin, corpus, "whole", *OPTIONS)
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    with monkeypatch.context() as patch:
        send_at_forward(patch, 3, signal.SIGTERM)
        assert main([*TWINS[twin], *options(corpus, "requeued")]) == 143
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    assert main([*TWINS[twin], *options(corpus, "requeued")]) == 0
    (run,) = (corpus.folder / "runs" / "requeued").iterdir()
    assert first_difference((content(run), curves(run)), (content(whole), curves(whole))) is None


def copied(run: Path) -> Path:
    return Path(shutil.copytree(run, run.parent / "version_1"))


@pytest.mark.parametrize("twin", TWINS)
def test_before_the_first_step(
    twin: str, corpus: Corpus, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(Data, "fit_vocabulary", interrupted)
    assert main([*TWINS[twin], *options(corpus, "early")]) == 143
    assert "before the first optimizer step: there is nothing to continue" in capsys.readouterr().out
    assert not list(corpus.folder.rglob("*.ckpt"))


def test_the_old_meaning_comes_back() -> None:
    before = {number: signal.getsignal(number) for number in EXIT_CODES}
    with Listener().listening():
        assert signal.getsignal(signal.SIGUSR1) != before[signal.SIGUSR1]
    assert {number: signal.getsignal(number) for number in EXIT_CODES} == before
