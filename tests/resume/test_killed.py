"""kill -9 at random moments, again and again: the last valid checkpoint always loads, and the end is the same.

Each start saves at once or in the background, at random.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from interrupted import CONFIG, TWINS, content, curves, first_difference, train

from project.__main__ import main
from project.checkpoint.file import read_checkpoint
from tiny_corpus import Corpus

NUM_KILLS = int(os.environ.get("TWINLOOP_KILLS", "6"))
"""`make resume` asks for more."""
OFTEN = ["--checkpoint.save_every_n_steps=1", "--trainer.val_check_interval=3", "--trainer.max_epochs=3"]

forks = multiprocessing.get_context("fork")  # a fresh process without the seconds that importing torch takes


def begin(command: list[str]) -> multiprocessing.process.BaseProcess:
    def quiet() -> None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os._exit(main(command))

    process = forks.Process(target=quiet)
    process.start()
    return process


def test_killed_at_random_moments(corpus: Corpus) -> None:
    expected = train("hand", corpus, "whole", *OFTEN)
    options = ["--config", str(CONFIG), *corpus.arguments, "--trainer.accelerator=cpu", "--data.batch_size=7"]
    options += ["--trainer.log_every_n_steps=2", *OFTEN]
    numbers = random.Random(NUM_KILLS)
    num_kills = num_runs = 0
    seconds = 1.0
    while num_kills < NUM_KILLS:
        name = f"killed-{num_runs}"
        folder = corpus.folder / "runs" / name
        num_runs += 1
        while not list(folder.glob("version_*/finished.json")):
            last = max(folder.glob("version_*/checkpoints/last.ckpt"), key=lambda path: path.parent, default=None)
            going_on = [] if last is None else [f"--ckpt_path={last}"]
            twin = numbers.choice(sorted(TWINS))
            start_seconds = time.monotonic()
            in_background = f"--checkpoint.async_save={numbers.choice(['true', 'false'])}"
            process = begin([*TWINS[twin], *options, f"--name={name}", in_background, *going_on])
            process.join(numbers.uniform(0.0, seconds))
            if process.is_alive():
                assert process.pid is not None
                os.kill(process.pid, signal.SIGKILL)
                num_kills += 1
                seconds *= 1.1  # on a busy machine the first step may come later than any kill
            else:
                seconds = time.monotonic() - start_seconds
            process.join()
            assert process.exitcode in (0, -signal.SIGKILL), f"{twin}, {going_on}"
            for path in folder.rglob("last.ckpt"):
                read_checkpoint(path)
        run = next(folder.glob("version_*/finished.json")).parent
        assert first_difference((content(run), curves(run)), (content(expected), curves(expected))) is None


@pytest.mark.long
@pytest.mark.parametrize("twin", TWINS)
def test_killed_and_continued_by_the_real_command(twin: str, corpus: Corpus) -> None:
    """Fresh processes throughout; the unbroken run is of the other twin."""
    other = next(name for name in TWINS if name != twin)
    more = [*OFTEN, "--trainer.max_epochs=8"]
    expected = train(other, corpus, "whole", *more)
    options = ["--config", str(CONFIG), *corpus.arguments, "--trainer.accelerator=cpu", "--data.batch_size=7"]
    command = [sys.executable, "-m", "project", *TWINS[twin], *options, "--trainer.log_every_n_steps=2", *more]
    with subprocess.Popen([*command, "--name=killed"], stdout=subprocess.DEVNULL, start_new_session=True) as process:
        folder = corpus.folder / "runs" / "killed" / "version_0"
        while not (folder / "checkpoints" / "last.ckpt").exists():
            assert process.poll() is None
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGKILL)
    assert not (folder / "finished.json").exists()
    going_on = [f"--trainer.default_root_dir={corpus.folder / 'runs'}", f"--ckpt_path={folder}/checkpoints/last.ckpt"]
    continued = subprocess.run([sys.executable, "-m", "project", *TWINS[twin], *going_on], stdout=subprocess.PIPE)
    assert continued.returncode == 0
    assert b"continues " in continued.stdout
    assert first_difference((content(folder), curves(folder)), (content(expected), curves(expected))) is None


@pytest.mark.skipif(NUM_KILLS < 50, reason="compiles three times; `make resume` runs it")
def test_the_same_compiled(corpus: Corpus, tmp_path: Path) -> None:
    """Each in a process of its own, since torch.compile remembers what it has seen."""
    options = ["--config", str(CONFIG), *corpus.arguments, "--trainer.accelerator=cpu", "--data.batch_size=7"]
    small = ["--trainer.max_epochs=1", "--model.compile=true", "--trainer.accumulate_grad_batches=3"]
    small += ["--trainer.deterministic=true", "--checkpoint.save_every_n_steps=1", "--checkpoint.keep_last=9"]
    small += ["--model.network=Pooling", "--data.max_tokens=4"]

    def call(*arguments: str) -> None:
        subprocess.run([sys.executable, "-m", "project", *arguments], check=True, stdout=subprocess.DEVNULL)

    call("hand", *options, *small, "--name=whole")
    whole = corpus.folder / "runs" / "whole" / "version_0"
    for twin, command in TWINS.items():
        moved = tmp_path / f"{twin}.ckpt"
        moved.write_bytes((whole / "checkpoints" / "step-1.ckpt").read_bytes())
        going_on = ["--config", str(whole / "config.yaml"), f"--ckpt_path={moved}", f"--name={twin}"]
        call(*command, *going_on)
        run = corpus.folder / "runs" / twin / "version_0"
        assert first_difference(content(run), content(whole)) is None
