"""Commands of the project in processes of their own, without the seconds that importing torch and Lightning takes.

A server imports them once and forks for each command. What then runs is `python -m project …` as from a shell: with
its own environment, working folder, output, signals and exit code.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["project.lit.cli", "project.hand.cli", "project.parity.cli"])


class Command:
    """One running command; used like `subprocess.Popen` with text pipes."""

    def __init__(
        self, arguments: Sequence[str], environment: Mapping[str, str] | None = None, folder: Path | None = None
    ) -> None:
        self.arguments = list(arguments)
        self._said = tempfile.TemporaryDirectory()
        own = {**os.environ, **(environment or {})}
        given = (self.arguments, own, str(folder or Path.cwd()), self._said.name)
        self._process = SERVER.Process(target=_command, args=given)
        self._process.start()

    def __enter__(self) -> Command:
        return self

    def __exit__(self, *_: object) -> None:
        if self.poll() is None:
            self._process.kill()
        self._process.join()
        self._said.cleanup()

    @property
    def returncode(self) -> int:
        """The exit code, negative for a signal, of a command that has ended."""
        assert self._process.exitcode is not None
        return self._process.exitcode

    def poll(self) -> int | None:
        """The exit code, or None while it runs."""
        return self._process.exitcode

    def send_signal(self, number: signal.Signals) -> None:
        """Send it to the command alone."""
        assert self._process.pid is not None
        os.kill(self._process.pid, number)

    def communicate(self, timeout: float) -> tuple[str, str]:
        """Wait for the end; what it printed, and its errors."""
        self._process.join(timeout)
        assert self.poll() is not None, f"still running after {timeout} s: {self.arguments}"
        out, err = (Path(self._said.name, name).read_text(encoding="utf-8") for name in ("out", "err"))
        return out, err


def run(
    arguments: Sequence[str],
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    timeout: float = 180,
) -> subprocess.CompletedProcess[str]:
    """Run `python -m project ARGUMENTS` to its end, in `folder`; `environment` is added to this process's."""
    with Command(arguments, environment, folder) as command:
        out, err = command.communicate(timeout)
        return subprocess.CompletedProcess(command.arguments, command.returncode, out, err)


def _command(arguments: list[str], environment: dict[str, str], folder: str, said: str) -> None:
    """What the forked process does."""
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for stream, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(Path(said) / name, os.O_WRONLY | os.O_CREAT), stream)
    sys.argv = ["project", *arguments]
    sys.path[:0] = [folder, *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]
    runpy.run_module("project", run_name="__main__", alter_sys=True)
