"""Which rank failed first, and how many ranks there are to be."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure
from torch.distributed.launcher.api import LaunchConfig

from project.data.lines import DataError
from project.errors import UserError
from project.ranks.launch import (
    RUN_ID,
    check_launched,
    found_by_main,
    launch,
    num_processes,
    ranks_store,
    record,
    recorded,
    report_first,
)
from project.ranks.signals import EXIT_CODES, Listener, Stopped, say_stopped, tell_launcher


def failure(folder: Path, rank: int, exitcode: int = 1, message: str = "", at: int = 0) -> ProcessFailure:
    """A rank's end; one with a message has left an error file, at so many nanoseconds."""
    file = folder / f"{rank}.json"
    if message:
        extra = {"py_callstack": f"Traceback of rank {rank}", "timestamp": "7"}
        file.write_text(json.dumps({"message": {"message": message, "extraInfo": extra}}))
        os.utime(file, ns=(at, at))
    return ProcessFailure(local_rank=rank, pid=rank, exitcode=exitcode, error_file=str(file))


def reported(failures: list[ProcessFailure], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    code = report_first(ChildFailedError("project", {found.local_rank: found for found in failures}))
    return code, capsys.readouterr().err


def test_the_earliest_error_is_told_last_and_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All within one second, by which the launcher itself could not tell them apart."""
    failures = [
        failure(tmp_path, 0, message="RuntimeError: Connection closed by peer", at=2_500),
        failure(tmp_path, 1, message="ValueError: wrong", at=2_400),
        failure(tmp_path, 2, exitcode=-signal.SIGTERM),
    ]
    code, said = reported(failures, capsys)
    assert code == 1
    assert said.splitlines() == ["Traceback of rank 1", "error: rank 1 failed first: ValueError: wrong"]


def test_a_rank_that_was_killed_comes_before_those_that_missed_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    failures = [
        failure(tmp_path, 0, message="RuntimeError: Connection closed by peer", at=1),
        failure(tmp_path, 1, exitcode=-signal.SIGKILL),
    ]
    code, said = reported(failures, capsys)
    assert code == 137
    assert said.startswith("error: rank 1 was ended by SIGKILL from outside")


def test_what_the_user_can_mend_is_told_without_its_class(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    failures = [failure(tmp_path, rank, exitcode=2, message="DataError: a.jsonl:2: wrong: 7") for rank in range(2)]
    assert reported(failures, capsys) == (2, "error: a.jsonl:2: wrong: 7\n")


def test_after_a_signal_what_the_ranks_recorded_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As the launcher lays their files out: exit codes are not known any more."""
    assert recorded(tmp_path) == {}
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", RUN_ID)
    for rank, error in ((1, DataError("a.ckpt: full")), (0, RuntimeError("Connection closed by peer"))):
        file = tmp_path / "twinloop-1_abc" / "attempt_0" / str(rank) / "error.json"
        file.parent.mkdir(parents=True)
        monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(file))
        assert record(error)
        os.utime(file, ns=(10 - rank, 10 - rank))
    assert reported(list(recorded(tmp_path).values()), capsys) == (2, "error: a.ckpt: full\n")
    (tmp_path / "twinloop-1_abc" / "attempt_0" / "1" / "error.json").unlink()
    code, said = reported(list(recorded(tmp_path).values()), capsys)
    assert code == 1
    assert said.splitlines()[-1] == "error: rank 0 failed first: RuntimeError: Connection closed by peer"


def test_a_rank_that_torch_aborts_after_its_error_is_not_taken_for_killed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rank 1 is killed; rank 0 misses it, says so, and is aborted at its end."""

    def failing(config: LaunchConfig, entrypoint: str) -> Callable[..., None]:
        def ranks(*command: str) -> None:
            assert config.logs_specs is not None
            folder = Path(config.logs_specs.root_log_dir) / "attempt_0"
            files = [folder / rank / "error.json" for rank in "01"]
            files[0].parent.mkdir(parents=True)
            with monkeypatch.context() as patch:
                patch.setenv("TORCHELASTIC_RUN_ID", RUN_ID)
                patch.setenv("TORCHELASTIC_ERROR_FILE", str(files[0]))
                assert record(RuntimeError("Connection closed by peer"))
            codes = (-signal.SIGABRT, -signal.SIGKILL)
            failures = [ProcessFailure(rank, rank, codes[rank], str(files[rank])) for rank in (0, 1)]
            raise ChildFailedError("project", dict(enumerate(failures)))

        return ranks

    monkeypatch.setattr("torch.distributed.launcher.api.elastic_launch", failing)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert launch(2, ["fit"], "ddp") == 137
    assert capsys.readouterr().err.startswith("error: rank 1 was ended by SIGKILL from outside")


@pytest.mark.parametrize(("rank", "stopped"), [(None, True), (0, True), (1, True), (0, False)])
def test_a_main_rank_that_a_signal_ended_without_a_word_is_spoken_for(
    rank: int | None, stopped: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Killed, for instance, since it did not end in time. Rank 1 never speaks; a run may finish before it hears."""

    def interrupted(config: LaunchConfig, entrypoint: str) -> Callable[..., None]:
        def ranks(*command: str) -> None:
            assert config.logs_specs is not None
            file = Path(config.logs_specs.root_log_dir) / "attempt_0" / str(rank) / "error.json"
            file.parent.mkdir(parents=True)
            with monkeypatch.context() as patch:
                patch.setenv("TORCHELASTIC_RUN_ID", RUN_ID)
                patch.setenv("RANK", str(rank))
                patch.setenv("TORCHELASTIC_ERROR_FILE", str(file))
                if rank is not None:
                    tell_launcher(say_stopped(signal.SIGTERM) if stopped else 0)
            raise SignalException("", sigval=signal.SIGTERM)

        return ranks

    monkeypatch.setattr("torch.distributed.launcher.api.elastic_launch", interrupted)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert launch(2, ["fit"], "ddp") == (143 if stopped else 0)
    out, err = capsys.readouterr()
    assert (out == "") == (rank != 0 or not stopped)
    assert err == ("" if rank == 0 else "stopped by SIGTERM: the main rank ended without saving for it\n")


def test_an_end_without_an_error_keeps_its_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert reported([failure(tmp_path, 1, exitcode=7)], capsys) == (7, "")


@pytest.mark.parametrize(("devices", "number"), [(3, 3), ("2", 2), ([0, 2], 2), ("auto", 1)])
def test_devices_are_counted(devices: object, number: int) -> None:
    assert num_processes(devices, "cpu") == number


@pytest.mark.parametrize("devices", [0, -1, "0,1", [], "two"])
def test_other_devices_are_refused(devices: object) -> None:
    with pytest.raises(UserError, match=r"^trainer\.devices: "):
        num_processes(devices, "cpu")


def test_what_torchrun_started_must_be_what_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    check_launched(2, 1)
    with pytest.raises(UserError, match="2 machines need a launcher on each"):
        check_launched(2, 2)
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "7")
    monkeypatch.setenv("WORLD_SIZE", "4")
    check_launched(2, 2)
    with pytest.raises(UserError, match="makes 6 processes, but torchrun started 4"):
        check_launched(3, 2)


def place() -> dict[str, str]:
    """Environment of two ranks whose store is on a free port."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    return {"MASTER_ADDR": "localhost", "MASTER_PORT": str(port), "TORCHELASTIC_RUN_ID": "7", "WORLD_SIZE": "2"}


def test_a_rank_that_waits_for_the_main_one_hears_signals(tmp_path: Path) -> None:
    ours = place()
    forks = multiprocessing.get_context("fork")
    waits, ended = forks.Event(), forks.Event()

    def main_rank() -> None:
        os.environ.update(ours, RANK="0")
        found_by_main(lambda: str(ended.wait(60)))

    def other() -> None:
        os.environ.update(ours, RANK="1")
        with Listener().listening():
            ranks_store()
            try:
                waits.set()
                found_by_main(str)
            except Stopped as stopped:
                os._exit(EXIT_CODES[stopped.received])

    processes = [forks.Process(target=target) for target in (main_rank, other)]
    for process in processes:
        process.start()
    assert waits.wait(60)
    assert processes[1].pid is not None
    os.kill(processes[1].pid, signal.SIGTERM)
    processes[1].join(30)
    ended.set()
    processes[0].join()
    assert [process.exitcode for process in processes] == [0, 143]


def test_every_rank_has_what_the_main_one_finds(tmp_path: Path) -> None:
    """Its error too; before the ranks are connected, and as often as asked."""
    ours = place()
    forks = multiprocessing.get_context("fork")
    ended = forks.Barrier(2)

    def ask(rank: int) -> None:
        os.environ.update(ours, RANK=str(rank))

        def refuse() -> str:
            raise UserError(f"refused by {rank}")

        told = [found_by_main(partial(str, f"{what} by {rank}")) for what in ("one", "another")]
        try:
            found_by_main(refuse)
        except UserError as error:
            told.append(str(error))
        (tmp_path / str(rank)).write_text(json.dumps(told))
        ended.wait()  # the main rank keeps the store

    processes = [forks.Process(target=ask, args=(rank,)) for rank in (1, 0)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    for rank in (0, 1):
        assert json.loads((tmp_path / str(rank)).read_text()) == ["one by 0", "another by 0", "refused by 0"]
