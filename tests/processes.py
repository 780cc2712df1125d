"""Commands of the project in processes of their own, without the seconds that importing torch and Lightning takes.

A server imports them once and forks for each command. What then runs is `python -m project …` as from a shell: with
its own environment, working folder, output, signals and exit code. Ranks that are forked in turn import nothing either.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from quick import do_not_wait, draw_nothing

SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["project.lit.cli", "project.hand.cli", "project.parity.cli", "processes"])


class Process:
    """A function that runs in a process of its own; used like `subprocess.Popen` with text pipes."""

    def __init__(
        self,
        function: Callable[..., None],
        *arguments: object,
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> None:
        self._said = tempfile.TemporaryDirectory()
        own = {**os.environ, **(environment or {})}
        given = (function, arguments, own, str(folder or Path.cwd()), self._said.name)
        self._process = SERVER.Process(target=_run, args=given)
        self._process.start()

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        if self.poll() is None:
            self._process.kill()
        self._process.join()
        self._said.cleanup()

    @property
    def returncode(self) -> int:
        """The exit code, negative for a signal, of a process that has ended."""
        assert self._process.exitcode is not None
        return self._process.exitcode

    def poll(self) -> int | None:
        """The exit code, or None while it runs."""
        return self._process.exitcode

    def send_signal(self, number: signal.Signals) -> None:
        """Send it to this process alone."""
        assert self._process.pid is not None
        os.kill(self._process.pid, number)

    def communicate(self, timeout: float) -> tuple[str, str]:
        """Wait for the end; what it printed, and its errors."""
        self._process.join(timeout)
        out, err = (Path(self._said.name, name).read_text(encoding="utf-8") for name in ("out", "err"))
        assert self.poll() is not None, f"still running after {timeout} s: {err}"
        return out, err

    def ended(self, timeout: float = 180) -> subprocess.CompletedProcess[str]:
        """Wait for the end; how it ended."""
        with self:
            out, err = self.communicate(timeout)
            return subprocess.CompletedProcess([], self.returncode, out, err)


def start(
    arguments: Sequence[str], environment: Mapping[str, str] | None = None, folder: Path | None = None
) -> Process:
    """`python -m project ARGUMENTS`, in `folder`; `environment` is added to this process's."""
    return Process(command, list(arguments), environment=environment, folder=folder)


def start_ranks(number: int, function: Callable[..., None], *arguments: object) -> Process:
    """`function` in this many ranks, which a launcher of torch forks, as for `trainer.strategy=ddp_fork`."""
    return Process(launch, number, function, arguments)


def command(arguments: list[str]) -> None:
    """What a process does that `start` has started."""
    sys.argv = ["project", *arguments]
    sys.path[:0] = [str(Path.cwd()), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    runpy.run_module("project", run_name="__main__", alter_sys=True)


def launch(number: int, function: Callable[..., None], arguments: tuple[object, ...]) -> None:
    """What a process does that `start_ranks` has started."""
    config = LaunchConfig(
        min_nodes=1, max_nodes=1, nproc_per_node=number, run_id="tests", max_restarts=0, start_method="fork",
        rdzv_backend="c10d", rdzv_endpoint="localhost:0", local_addr="localhost", logs_specs=DefaultLogsSpecs(),
    )  # fmt: skip
    elastic_launch(config, function)(*arguments)


def _run(
    function: Callable[..., None], arguments: tuple[object, ...], environment: dict[str, str], folder: str, said: str
) -> None:
    """What each process does first."""
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for stream, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(Path(said) / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND), stream)
    patch = pytest.MonkeyPatch()
    do_not_wait(patch)
    draw_nothing(patch)
    function(*arguments)
