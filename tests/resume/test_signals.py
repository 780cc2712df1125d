"""A signal ends a run at its next optimizer step, saved; the run that goes on equals the one that was not stopped."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch
from interrupted import CONFIG, TWINS, content, curves, first_difference, go_on, train
from torch._C._distributed_c10d import HashStore

from project.__main__ import main
from project.between.early_stopping import EarlyStopping
from project.between.steps import Between
from project.checkpoint.config import EarlyStopping as EarlyStoppingConfig
from project.checkpoint.position import Position
from project.data.splits import Data
from project.learn.not_finite import LossWatch
from project.network import TextCNN
from project.ranks.signals import EXIT_CODES, MOVES, STOP, Listener, Stopped
from project.ranks.world import ALONE, World
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
    [pytest.param(2, 1, False, marks=pytest.mark.long), (3, 1, False), (5, 2, True), (7, 2, True), (14, 4, True)],
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


def interrupted(*_: Any, **__: Any) -> None:
    os.kill(os.getpid(), signal.SIGTERM)


EARLY = "stopped by {} before the first optimizer step: it leaves nothing to continue\n"


@pytest.mark.parametrize("twin", TWINS)
def test_before_the_first_step(
    twin: str, corpus: Corpus, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Data, "fit_vocabulary", interrupted)
    assert main([*TWINS[twin], *options(corpus, "early")]) == 143
    assert capsys.readouterr().out == EARLY.format("SIGTERM")
    assert not list((corpus.folder / "runs").rglob("version_*"))


@pytest.mark.parametrize("twin", TWINS)
def test_while_options_are_parsed(
    twin: str, corpus: Corpus, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(f"project.{twin}.cli.with_config_to_continue", interrupted)
    assert main([*TWINS[twin], *options(corpus, "early")]) == 143
    assert capsys.readouterr().out == EARLY.format("SIGTERM")


@pytest.mark.parametrize("number", EXIT_CODES)
@pytest.mark.parametrize(
    ("command", "rank", "is_main"),
    [
        (["fit", f"--config={CONFIG}"], None, True),
        (["hand", f"--config={CONFIG}"], None, True),
        (["hand", "fit"], "0", True),
        (["hand", "--seed=1"], "1", False),
    ],
)
def test_while_modules_are_imported(
    command: list[str], rank: str | None, is_main: bool, number: signal.Signals, tmp_path: Path
) -> None:
    for name in ("torch", "lightning"):
        code = f"import os, time\nos.kill(os.getpid(), {int(number)})\ntime.sleep(60)\n"
        (tmp_path / f"{name}.py").write_text(code)
    rank_of = {} if rank is None else {"TORCHELASTIC_RUN_ID": "twinloop-1", "RANK": rank}
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    ended = subprocess.run(
        [sys.executable, "-m", "project", *command],
        env={**os.environ, "PYTHONPATH": path, **rank_of}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert ended.returncode == 128 + number
    assert (ended.stdout, ended.stderr) == (EARLY.format(number.name) if is_main else "", "")


def test_after_the_last_step_it_changes_nothing(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def lines(*_: Any) -> Iterator[str]:  # which are printed when nothing else is left to be done
        interrupted()
        yield "the last line"

    monkeypatch.setattr("project.hand.cli._last_lines", lines)
    assert main([*TWINS["hand"], *options(corpus, "done")]) == 0
    said = capsys.readouterr().out
    assert "the last line" in said
    assert "stopped" not in said


def test_a_signal_whose_exception_was_swallowed_ends_the_run_when_training_begins() -> None:
    listener = Listener()
    with listener.listening():
        with contextlib.suppress(Stopped):
            interrupted()
        with pytest.raises(Stopped):
            listener.wait_for_step()


def test_the_old_meaning_comes_back() -> None:
    before = {number: signal.getsignal(number) for number in EXIT_CODES}
    with Listener().listening():
        assert signal.getsignal(signal.SIGUSR1) != before[signal.SIGUSR1]
    assert {number: signal.getsignal(number) for number in EXIT_CODES} == before


class Threads(World):
    """A rank that is a thread of this process; all of them share what is asked of `any`."""

    def __init__(self, rank: int, size: int, store: Any, votes: list[bool], all_here: threading.Barrier) -> None:
        super().__init__(rank, size)
        for name, value in {"_store": store, "votes": votes, "all_here": all_here}.items():
            object.__setattr__(self, name, value)

    @property
    def store(self) -> Any:
        return vars(self)["_store"]

    def any(self, flag: bool) -> bool:
        votes = vars(self)["votes"]
        votes[self.rank] = flag
        vars(self)["all_here"].wait()
        return any(votes)


def ranks(number: int) -> list[Between]:
    """What ranks that train in this process's threads have between their steps; they save nothing."""
    store, votes, all_here = HashStore(), [False] * number, threading.Barrier(number, timeout=20)
    return [
        Between(
            listener=Listener(),
            world=Threads(rank, number, store, votes, all_here),
            device=torch.device("cpu"),
            watch=LossWatch("ignore", torch.nn.Linear(1, 1), None, ALONE, print),  # type: ignore[arg-type]
            early_stopping=EarlyStopping(EarlyStoppingConfig()),
            checkpoints=None,
            write=lambda between, path: None,
            log_every_n_steps=1,
            position=Position(0, 0, 0),
        )
        for rank in range(number)
    ]


@pytest.mark.parametrize(("heard_at", "num_batches"), [(None, [3, 2]), (0, [1, 2]), (2, [2, 2])])
def test_all_ranks_leave_a_validation_in_which_one_hears_a_signal(heard_at: int | None, num_batches: list[int]) -> None:
    """Rank 0 hears it; rank 1, which has two batches, may be done with them, and has its first in any case."""
    both = ranks(2)
    listeners = [between.listener for between in both]
    done, stopped = [0, 0], [False, False]

    def validate(rank: int) -> None:
        def batches() -> Iterator[int]:
            for number in range(num_batches_of[rank]):
                if rank == 0 and number == heard_at:
                    listeners[0].received = signal.SIGUSR1
                yield number

        try:
            for _ in both[rank].interruptible(batches()):
                done[rank] += 1
        except Stopped:
            stopped[rank] = True

    num_batches_of = [3, 2]
    threads = [threading.Thread(target=validate, args=(rank,)) for rank in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert stopped == [heard_at is not None] * 2
    assert done[0] == num_batches[0]
    assert done[1] <= num_batches[1]
    assert heard_at is None or [listener.received for listener in listeners] == [signal.SIGUSR1] * 2


def test_who_leaves_a_validation_has_left_word_though_the_signal_came_while_the_store_answered() -> None:
    """Otherwise the ranks would wait in the store for a word that nobody leaves."""

    class Store(HashStore):
        def check(self, keys: list[str]) -> bool:
            os.kill(os.getpid(), signal.SIGUSR1)
            return super().check(keys)

    listener, store = Listener(), Store()
    with listener.listening():
        listener.wait_for_step(store)
        assert not listener.share_signal()
        assert listener.received == signal.SIGUSR1
        assert listener.share_signal()
        assert store.get(STOP) == b"0 SIGUSR1"


@pytest.mark.parametrize("twin", TWINS)
def test_the_validation_that_was_left_need_not_be_run(
    twin: str, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        send_at_forward(patch, 7, signal.SIGTERM)
        assert main([*TWINS[twin], *options(corpus, "stopped")]) == 143
    run = corpus.folder / "runs" / "stopped" / "version_0"
    assert content(run)["progress"]["validation_due"]
    go_on(twin, run, "--trainer.limit_val_batches=0")
    assert set(curves(run)) == {"train/loss", "train/grad_norm", "train/lr"}


def test_while_a_rank_saves_the_others_see_it_move(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("project.ranks.signals.GRACE_SECONDS", 0.04)
    moved = threading.Event()

    class Store(HashStore):
        def add(self, key: str, amount: int) -> int:
            moved.set()
            return super().add(key, amount)

    listener, store = Listener(), Store()
    listener.wait_for_step(store)
    with listener.saving():
        for _ in range(3):
            assert moved.wait(20)
            moved.clear()
    num_moves = store.add(MOVES, 0)
    moved.clear()
    assert num_moves > 0
    assert not moved.wait(0.1)
    with Listener().saving():  # alone, nobody waits for it
        pass


@pytest.mark.parametrize("moves", ["nothing", "this rank", "a rank that saves", "nothing, and the store is gone"])
def test_a_rank_that_is_told_to_stop_leaves_when_nothing_moves(moves: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("project.ranks.signals.GRACE_SECONDS", 0.02)
    left, looked = threading.Event(), threading.Event()
    codes, looks = [], count()

    def leave(code: int) -> None:
        codes.append(code)
        left.set()
        listener._watches.set()  # where the process would end

    monkeypatch.setattr(os, "_exit", leave)

    class Store(HashStore):
        def add(self, key: str, amount: int) -> int:
            look = next(looks)
            if look == 5:
                looked.set()
            if moves == "this rank":
                listener.beat()
            if moves.endswith("gone"):
                raise RuntimeError
            return look if moves == "a rank that saves" else 0

    listener = Listener()
    with listener.listening():
        listener.wait_for_step(Store())
        os.kill(os.getpid(), signal.SIGTERM)
        if moves.startswith("nothing"):
            assert left.wait(20)
            assert codes == [143]
        else:
            assert looked.wait(20)
            assert codes == []
