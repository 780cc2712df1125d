"""One command at a time trains in a run's folder; the second is refused before it writes anything."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.process import BaseProcess

import pytest
import torch
from interrupted import CONFIG, EACH_STEP, TWINS, content, first_difference, go_on, listed, train

from project.__main__ import main
from project.commands.runs import LOCK
from project.network import TextCNN
from tiny_corpus import Corpus

forks = multiprocessing.get_context("fork")  # a fresh process without the seconds that importing torch takes


@contextmanager
def training(twin: str, corpus: Corpus, *more: str) -> Iterator[BaseProcess]:
    """A process of its own that trains in runs/paused/version_0, and waits in its first step for the file `go`."""
    options = ["--config", str(CONFIG), *corpus.arguments, "--name=paused", "--trainer.accelerator=cpu", *more]
    forward = TextCNN.forward

    def paused(self: TextCNN, tokens: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        if self.training and (corpus.folder / "runs" / "paused" / "version_0" / "config.yaml").exists():
            (corpus.folder / "trains").touch()
            while not (corpus.folder / "go").exists():
                time.sleep(0.01)
        return forward(self, tokens, lengths)

    def fit() -> None:
        os.setpgid(0, 0)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        setattr(TextCNN, "forward", paused)  # noqa: B010
        os._exit(main([*TWINS[twin], *options]))

    process = forks.Process(target=fit)
    process.start()
    assert process.pid is not None
    try:
        while not (corpus.folder / "trains").exists():
            assert process.is_alive()
            time.sleep(0.01)
        yield process
    finally:
        with suppress(ProcessLookupError):  # its loader processes as well, if any is left
            os.killpg(process.pid, signal.SIGKILL)
        process.join()


@pytest.mark.parametrize("twin", TWINS)
def test_a_second_command_is_refused_and_the_first_goes_on(
    twin: str, corpus: Corpus, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = train(twin, corpus, "whole", "--trainer.max_epochs=1")
    other = next(name for name in TWINS if name != twin)
    with training(other, corpus) as process:
        run = corpus.folder / "runs" / "paused" / "version_0"
        (run / "checkpoints" / ".last.ckpt.1").write_text("half, of the process that trains")
        shutil.copy(whole / "checkpoints" / "last.ckpt", run / "checkpoints" / "last.ckpt")
        before = listed(run)
        assert main([*TWINS[twin], f"--trainer.default_root_dir={corpus.folder / 'runs'}", "--ckpt_path=last"]) == 2
        found = capsys.readouterr().err.strip().splitlines()
        assert listed(run) == before
        assert len(found) == 1
        assert found[0].startswith(f"error: {run}: process {process.pid} on ")
        assert "trains in this run; wait for it to end" in found[0]
        (corpus.folder / "go").touch()
        process.join()
        assert process.exitcode == 0
    assert (run / "finished.json").exists()
    assert not (run / LOCK).exists()


@pytest.mark.parametrize("twin", TWINS)
def test_a_killed_command_blocks_nobody(twin: str, corpus: Corpus) -> None:
    whole = train(twin, corpus, "whole", "--trainer.max_epochs=1", *EACH_STEP)
    with training(twin, corpus, "--data.num_workers=1") as process:
        run = corpus.folder / "runs" / "paused" / "version_0"
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)  # and not its loader process
        process.join()
        assert (run / LOCK).read_text().startswith(f"process {process.pid} on ")
        shutil.copy(whole / "checkpoints" / "step-3.ckpt", run / "checkpoints" / "last.ckpt")
        shutil.copy(whole / "config.yaml", run / "config.yaml")
        go_on(twin, run)
    assert first_difference(content(run), content(whole)) is None
    assert not (run / LOCK).exists()
