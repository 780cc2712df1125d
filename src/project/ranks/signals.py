"""SIGTERM, SIGINT and SIGUSR1 end a training run at its next optimizer step, saved, with an exit code of their own."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, ClassVar

from project.ranks.agreement import agreed, word_under

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store

EXIT_CODES = {signal.SIGTERM: 143, signal.SIGINT: 130, signal.SIGUSR1: 138}
"""128 and the signal's number, as shells report it."""

GRACE_SECONDS = 10.0
"""How long a rank that was told to stop may go on while nothing moves: it waits for one that hangs."""

STOP, MOVES = "stop", "moves"
"""Keys of the ranks' store: the word to stop, and a count that grows while a rank saves, for which others wait."""

ENDED = "ended"
"""Name of a file beside the main rank's error file, if a launcher has named one, that holds the code it ended with."""


class Stopped(BaseException):
    """The run ends here for a signal; no `except Exception` on the way takes it for a fault."""

    def __init__(self, received: signal.Signals) -> None:
        super().__init__(received.name)
        self.received = received


def say_stopped(received: signal.Signals, last: Path | None = None, step: int = 0) -> int:
    """Print, on the main rank, where a signal ended the run; returns the exit code.

    Args:
        last: the checkpoint to go on from, if there is one.
        step: optimizer steps that it holds.
    """
    if "TORCHELASTIC_RUN_ID" not in os.environ or os.environ["RANK"] == "0":
        where = "before the first optimizer step: it leaves nothing to continue"
        if last is not None:
            where = f"after {step} optimizer steps; go on with --ckpt_path {last}"
        print(f"stopped by {received.name} {where}")
    return EXIT_CODES[received]


def tell_launcher(code: int) -> None:
    """Leave word, as a launcher's main rank, that training has come to its own end, finished or stopped."""
    file = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if file and os.environ["RANK"] == "0":
        Path(file).with_name(ENDED).write_text(str(code), encoding="utf-8")


class Listener:
    """Hears the signals: raises `Stopped` at once until `wait_for_step` is called, and from then on only remembers.

    So a run that has not begun ends right away, and one that trains chooses its moment; further signals change nothing.
    """

    has_heard: ClassVar[bool] = False
    """Whether one of this process has heard a signal."""

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self.saved: Path | None = None
        """The checkpoint that was written for it."""
        self.step = 0
        """Optimizer steps that it holds."""
        self._listens = self._waits = False
        self._store: Store | None = None
        self._watches = threading.Event()
        """Set when the watch is over."""
        self._num_beats = 0
        self._process = os.getpid()

    @classmethod
    def here(cls) -> Listener:
        """The one that hears this process's signals already, else a new one."""
        found = getattr(signal.getsignal(signal.SIGTERM), "__self__", None)
        return found if isinstance(found, Listener) else cls()

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Hear the signals within; afterwards they have their old meaning again."""
        if self._listens:
            yield
            return
        before = {number: signal.signal(number, self._hear) for number in EXIT_CODES}
        self._listens = True
        try:
            yield
        finally:
            self._listens = False
            self._watches.set()
            for number, handler in before.items():
                signal.signal(number, handler)

    def wait_for_step(self, store: Store | None = None) -> None:
        """Training begins: remember a signal until the next optimizer step.

        Lightning has put a handler of its own before this one by now, which would end the run within a window.

        Args:
            store: of the process group, where there are several ranks; they agree through it on where to stop.

        Raises:
            Stopped: for a signal that came before, in code that goes on whatever is raised, such as a module's import.
        """
        self.check()
        self._waits, self._store, self._process = True, store, os.getpid()
        for number in EXIT_CODES if self._listens else ():
            signal.signal(number, self._hear)

    @property
    def is_alone(self) -> bool:
        """Whether this process need not agree with others."""
        return self._store is None

    def beat(self) -> None:
        """A micro-batch is done."""
        self._num_beats += 1

    def stops_after(self, step: int, *, is_complete: bool = True) -> bool:
        """Whether the run ends after optimizer step `step`; `is_complete` as for `agreed`."""
        if self._store is None:
            return self.received is not None
        word = None if self.received is None else self.received.name
        return self._stops(agreed(self._store, STOP, step, word, is_complete=is_complete))

    def is_told(self) -> bool:
        """Whether this process or another rank has heard a signal; the others are told."""
        if self.received is None:  # one that comes while the store answers is acted on at the next batch
            return self._store is not None and self._store.check([STOP])
        if self._store is not None:
            self._store.compare_set(STOP, "", f"0 {self.received.name}")
        return True

    def stops_together(self, is_told: bool) -> bool:
        """Whether a validation is left: one rank at least `is_told`, and now all of them know."""
        if is_told and self._store is not None:
            return self._stops(word_under(self._store, STOP)[1])
        return is_told

    def _stops(self, name: str | None) -> bool:
        if name is None:
            return False
        self.received = signal.Signals[name]
        self._watches.set()
        return True

    def check(self) -> None:
        """Raise `Stopped` if a signal has come."""
        if self.received is not None:
            raise Stopped(self.received)

    @contextmanager
    def saving(self) -> Iterator[None]:
        """Within, this rank writes a file: others, told to stop, may wait for it as long as it takes."""
        if self._store is None:
            yield
            return
        store, is_saved = self._store, threading.Event()

        def move() -> None:
            with suppress(RuntimeError):  # the launcher, which keeps the store, is gone
                store.add(MOVES, 1)
                while not is_saved.wait(GRACE_SECONDS / 4):
                    store.add(MOVES, 1)

        moving = threading.Thread(target=move, daemon=True)
        moving.start()
        try:
            yield
        finally:
            is_saved.set()
            moving.join()

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._process:  # a loader's worker, which inherited this: its parent decides
            if number == signal.SIGTERM:
                os._exit(EXIT_CODES[signal.SIGTERM])
            return
        Listener.has_heard = True
        if self.received is None:
            self.received = signal.Signals(number)
            if not self._waits:
                self.check()
            if not self.is_alone:
                self._watch()

    def _watch(self) -> None:
        """Leave, if nothing moves any more: the launcher stops the ranks in this way, too, when one of them failed."""
        received, store = self.received, self._store
        assert received is not None
        assert store is not None

        def moved() -> tuple[int, int]:
            try:
                return self._num_beats, store.add(MOVES, 0)
            except RuntimeError:  # the launcher, which keeps the store, is gone
                return self._num_beats, 0

        def watch() -> None:
            before = moved()
            while not self._watches.wait(GRACE_SECONDS):
                now = moved()
                if now == before:
                    os._exit(EXIT_CODES[received])
                before = now

        threading.Thread(target=watch, daemon=True).start()
