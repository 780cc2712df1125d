"""SIGTERM, SIGINT and SIGUSR1 end a training run at its next optimizer step, saved, with an exit code of their own."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TypeVar

Item = TypeVar("Item")

EXIT_CODES = {signal.SIGTERM: 143, signal.SIGINT: 130, signal.SIGUSR1: 138}
"""128 and the signal's number, as shells report it."""


class Stopped(BaseException):
    """The run ends here for a signal; no `except Exception` on the way takes it for a fault."""

    def __init__(self, received: signal.Signals) -> None:
        super().__init__(received.name)
        self.received = received


class Listener:
    """Hears the signals: raises `Stopped` at once until `wait_for_step` is called, and from then on only remembers.

    So a run that has not begun ends right away, and one that trains chooses its moment; further signals change nothing.
    """

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self.saved: Path | None = None
        """The checkpoint that was written for it."""
        self.step = 0
        """Optimizer steps that it holds."""
        self._listens = self._waits = False
        self._process = os.getpid()

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Hear the signals within; afterwards they have their old meaning again."""
        before = {number: signal.signal(number, self._hear) for number in EXIT_CODES}
        self._listens = True
        try:
            yield
        finally:
            self._listens = False
            for number, handler in before.items():
                signal.signal(number, handler)

    def wait_for_step(self) -> None:
        """Training begins: remember a signal until the next optimizer step.

        Lightning has put a handler of its own before this one by now, which would end the run within a window.
        """
        self._waits = True
        for number in EXIT_CODES if self._listens else ():
            signal.signal(number, self._hear)

    def check(self) -> None:
        """Raise `Stopped` if a signal has come."""
        if self.received is not None:
            raise Stopped(self.received)

    def checking(self, items: Iterable[Item]) -> Iterator[Item]:
        """The items; raises `Stopped` between two of them if a signal has come."""
        for item in items:
            self.check()
            yield item

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._process:  # a loader's worker, which inherited this: its parent decides
            if number == signal.SIGTERM:
                os._exit(EXIT_CODES[signal.SIGTERM])
            return
        if self.received is None:
            self.received = signal.Signals(number)
            if not self._waits:
                self.check()
