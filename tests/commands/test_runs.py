"""Which run is the newest finished one, and which of its checkpoints counts."""

from __future__ import annotations

import errno
import fcntl
import json
import multiprocessing
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from project.commands.runs import (
    FINISHED,
    LOCK,
    best_checkpoint,
    held,
    interrupted_run,
    launch_name,
    mark_finished,
    mark_launched,
    new_run,
    newest_finished,
)
from project.errors import UserError
from project.ranks.environment import COMMAND

forks = multiprocessing.get_context("fork")


def make_run(root: Path, name: str, finished_at: int | None, checkpoints: tuple[str, ...] = ("best", "last")) -> Path:
    """A run folder whose finish mark has this time, or that has none."""
    run = root / name
    (run / "checkpoints").mkdir(parents=True)
    for checkpoint in checkpoints:
        (run / "checkpoints" / f"{checkpoint}.ckpt").touch()
    if finished_at is not None:
        mark_finished(run, {"epochs": 1})
        os.utime(run / FINISHED, ns=(finished_at, finished_at))
    return run


def test_the_mark_holds_the_summary_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    mark_finished(tmp_path, {"epochs": 3, "val/macro_f1": 0.5})
    mark_finished(tmp_path, {"epochs": 4})
    assert [path.name for path in tmp_path.iterdir()] == [FINISHED]
    assert json.loads((tmp_path / FINISHED).read_text()) == {"epochs": 4}


def test_the_newest_is_the_one_that_finished_last_whatever_its_name_or_number(tmp_path: Path) -> None:
    make_run(tmp_path, "b/version_10", 2_000)
    newest = make_run(tmp_path, "a/version_2", 3_000)
    make_run(tmp_path, "a/version_3", 1_000)
    assert newest_finished(tmp_path) == newest


def test_unfinished_runs_are_ignored(tmp_path: Path) -> None:
    finished = make_run(tmp_path, "a/version_0", 1_000)
    make_run(tmp_path, "a/version_1", None)
    assert newest_finished(tmp_path) == finished
    assert best_checkpoint(tmp_path) == finished / "checkpoints" / "best.ckpt"


@pytest.mark.parametrize("name", ["version_0", "a/version_0", "a/b/version_0"])
def test_a_name_may_be_empty_or_hold_folders(tmp_path: Path, name: str) -> None:
    make_run(tmp_path, name, 1_000)
    assert newest_finished(tmp_path) == tmp_path / name


def test_without_a_best_checkpoint_the_last_one_counts(tmp_path: Path) -> None:
    run = make_run(tmp_path, "a/version_0", 1_000, checkpoints=("last",))
    assert best_checkpoint(tmp_path) == run / "checkpoints" / "last.ckpt"


def test_messages_say_where_and_what_to_do(tmp_path: Path) -> None:
    make_run(tmp_path, "a/version_0", None)
    train = (
        "train one with `python -m project fit --config configs/default.yaml`, or name a checkpoint with --ckpt_path"
    )
    for root in (tmp_path, tmp_path / "missing"):
        with pytest.raises(UserError) as caught:
            best_checkpoint(root)
        assert str(caught.value) == f"{root}: no finished run here; {train}"
    run = make_run(tmp_path, "a/version_1", 1_000, checkpoints=())
    with pytest.raises(UserError) as caught:
        best_checkpoint(tmp_path)
    gone = "neither best.ckpt nor last.ckpt is here; name a checkpoint with --ckpt_path"
    assert str(caught.value) == f"{run / 'checkpoints'}: {gone}"


def test_a_launch_without_a_name_is_told_apart_by_its_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = new_run(tmp_path, "a")
    (run / "checkpoints").mkdir()
    (run / "checkpoints" / "last.ckpt").touch()
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    for name, world_size, is_found in (("none", "2", True), ("none", "4", False), ("run7", "4", True)):
        monkeypatch.setenv("TORCHELASTIC_RUN_ID", name)
        monkeypatch.setenv("WORLD_SIZE", world_size)
        monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
        mark_launched(run)
        (run / "checkpoints" / "last.ckpt").touch()
        assert interrupted_run(tmp_path) == (run / "checkpoints" / "last.ckpt" if is_found else None)
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "another")
    assert interrupted_run(tmp_path) is None
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "0")
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "run7")
    assert interrupted_run(tmp_path) is None


def test_a_job_that_slurm_starts_anew_finds_its_own_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    monkeypatch.delenv(COMMAND, raising=False)
    last: dict[str, Path] = {}
    for options in ("--data.batch_size=8", "--data.batch_size=16"):
        monkeypatch.setattr("sys.argv", ["project", "fit", options])
        assert interrupted_run(tmp_path) is None
        run = new_run(tmp_path, "a")
        mark_launched(run)
        (run / "checkpoints").mkdir()
        last[options] = run / "checkpoints" / "last.ckpt"
        last[options].touch()
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    for options, path in last.items():
        monkeypatch.setattr("sys.argv", ["project", "fit", options])
        assert interrupted_run(tmp_path) == path
        monkeypatch.setenv("TORCHELASTIC_RUN_ID", "17")  # scripts/slurm.sh gives torchrun the job's number
        monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "0")
        assert interrupted_run(tmp_path) == path
    assert interrupted_run(tmp_path / "elsewhere") is None
    monkeypatch.setenv("SLURM_JOB_ID", "18")
    assert interrupted_run(tmp_path) is None


def test_what_an_earlier_launch_has_saved_is_not_this_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A launch that goes on from best.ckpt, say, and is started anew before it has saved anything."""
    run = make_run(tmp_path, "a/version_0", 1_000)
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "run7")
    mark_launched(run)
    marked = (run / ".launched").stat().st_mtime_ns
    last = run / "checkpoints" / "last.ckpt"
    last.touch()
    os.utime(last, ns=(marked - 1, marked - 1))
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    assert interrupted_run(tmp_path) is None
    mark_launched(run)  # again: the first start's time is what counts
    os.utime(last, ns=(marked, marked))
    assert interrupted_run(tmp_path) == last


def test_a_jobs_ranks_have_the_name_of_the_command_that_started_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    monkeypatch.delenv(COMMAND, raising=False)
    monkeypatch.setattr("sys.argv", ["project", "fit", "--ckpt_path=last"])
    name = launch_name()
    monkeypatch.setenv(COMMAND, "fit --ckpt_path=last")
    monkeypatch.setattr("sys.argv", ["project", "fit", "--ckpt_path=last", "--ckpt_path=runs/a/version_0/last.ckpt"])
    assert launch_name() == name


def test_a_held_run_is_refused_to_others_and_nothing_stays_behind(tmp_path: Path) -> None:
    with held(tmp_path):
        before = (tmp_path / LOCK).read_bytes()
        with (
            pytest.raises(UserError, match=rf"^{tmp_path}: process {os.getpid()} on .* trains in this run; wait"),
            held(tmp_path),
        ):
            pass
        assert (tmp_path / LOCK).read_bytes() == before
    assert not list(tmp_path.iterdir())
    with held(tmp_path):
        pass


def test_a_killed_holder_lets_go_even_where_a_child_of_its_lives_on(tmp_path: Path) -> None:
    def hold() -> None:
        with held(tmp_path):
            if os.fork() == 0:
                (tmp_path / "child").write_text(str(os.getpid()))
                (tmp_path / "child").rename(tmp_path / "ready")
            time.sleep(60)

    process = forks.Process(target=hold)
    process.start()
    try:
        while not (tmp_path / "ready").exists():
            time.sleep(0.01)
        with pytest.raises(UserError, match=f"process {process.pid} on"), held(tmp_path):
            pass
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        with held(tmp_path):
            assert f"process {os.getpid()} on" in (tmp_path / LOCK).read_text()
    finally:
        process.kill()
        os.kill(int((tmp_path / "ready").read_text()), signal.SIGKILL)


def test_a_lock_on_a_file_that_is_gone_by_then_holds_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flock = fcntl.flock

    def late(*arguments: Any) -> None:
        monkeypatch.undo()
        (tmp_path / LOCK).unlink()  # its holder ends between this one's opening the file and locking it
        flock(*arguments)

    monkeypatch.setattr(fcntl, "flock", late)
    with held(tmp_path), pytest.raises(UserError, match="trains in this run"), held(tmp_path):
        pass


def test_a_file_system_without_locks_is_trained_on_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def lacking(*_: Any) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(fcntl, "flock", lacking)
    with held(tmp_path):
        assert "do not train twice in one run folder" in caplog.text
