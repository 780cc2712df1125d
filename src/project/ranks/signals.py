"""SIGTERM, SIGINT and SIGUSR1 stop a training run after its current optimizer step; it saves before it exits."""

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
"""128 + the signal's number, as in shells."""

GRACE_SECONDS = 10.0
"""After a signal, a rank exits after this long without progress: it waits for a rank that hangs."""

STOP, MOVES = "stop", "moves"
"""Keys of the ranks' store: the word to stop, and a counter that grows while a rank saves."""

ENDED = "ended"
"""Name of the file in which the main rank leaves its exit code, beside the launcher's error file."""


class Stopped(BaseException):
    """A signal ends the run. A BaseException, so that no `except Exception` catches it."""

    def __init__(self, received: signal.Signals) -> None:
        super().__init__(received.name)
        self.received = received


def say_stopped(received: signal.Signals, last: Path | None = None, step: int = 0) -> int:
    """Print on the main rank where a signal ended the run; returns the exit code.

    Args:
        received: the signal.
        last: the checkpoint to continue from, if there is one.
        step: optimizer steps in it.
    """
    if "TORCHELASTIC_RUN_ID" not in os.environ or os.environ["RANK"] == "0":
        where = "before the first optimizer step: it leaves nothing to continue"
        if last is not None:
            where = f"after {step} optimizer steps; go on with --ckpt_path {last}"
        print(f"stopped by {received.name} {where}")
    return EXIT_CODES[received]


def tell_launcher(code: int) -> None:
    """On the main rank, leave the exit code for the launcher: training has finished, or stopped for a signal."""
    file = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if file and os.environ["RANK"] == "0":
        Path(file).with_name(ENDED).write_text(str(code), encoding="utf-8")


class Listener:
    """Receives signals. Before `wait_for_step` the first one raises `Stopped` at once; afterwards it is remembered.

    So a run that does not train yet ends at once, and one that trains can save first. Further signals change nothing.
    """

    has_heard: ClassVar[bool] = False
    """Whether a listener of this process has received a signal."""

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self.saved: Path | None = None
        """The checkpoint that was written for the signal."""
        self.step = 0
        """Optimizer steps in that checkpoint."""
        self._listens = self._waits = False
        self._store: Store | None = None
        self._watches = threading.Event()
        """Set when `_watch` shall end."""
        self._num_beats = 0
        self._process = os.getpid()

    @classmethod
    def here(cls) -> Listener:
        """The listener that receives this process's signals; a new one if there is none."""
        found = getattr(signal.getsignal(signal.SIGTERM), "__self__", None)
        return found if isinstance(found, Listener) else cls()

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Receive signals within; then restore the handlers from before."""
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
        """Training begins: from now on remember a signal until an optimizer step is done.

        This replaces Lightning's handler for SIGTERM, which would end the run within a window.

        Args:
            store: of the process group; through it, several ranks agree on the step to stop at.

        Raises:
            Stopped: for an earlier signal whose exception was swallowed, as some imports do.
        """
        self.check()
        self._waits, self._store, self._process = True, store, os.getpid()
        for number in EXIT_CODES if self._listens else ():
            signal.signal(number, self._hear)

    def beat(self) -> None:
        """Note progress: a micro-batch is done."""
        self._num_beats += 1

    def agree_to_stop(self, step: int, *, is_complete: bool) -> bool:
        """Whether all ranks stop after optimizer step `step`; `is_complete` as for `agreed`."""
        if self._store is None:
            return self.received is not None
        word = None if self.received is None else self.received.name
        name = agreed(self._store, STOP, step, word, is_complete=is_complete)
        if name is not None:
            self._take(name)
        return name is not None

    def share_signal(self) -> bool:
        """Write a received signal to the store; returns whether any rank has received one."""
        if self.received is None:  # a signal that arrives during this look at the store is shared at the next batch
            return self._store is not None and self._store.check([STOP])
        if self._store is not None:
            self._store.compare_set(STOP, "", f"0 {self.received.name}")
        return True

    def take_shared(self) -> None:
        """Take over the signal that a rank has shared."""
        if self._store is not None:
            self._take(word_under(self._store, STOP)[1])

    def _take(self, name: str) -> None:
        self.received = signal.Signals[name]
        self._watches.set()

    def check(self) -> None:
        """Raise `Stopped` if a signal was received."""
        if self.received is not None:
            raise Stopped(self.received)

    @contextmanager
    def saving(self) -> Iterator[None]:
        """Within, this rank writes a file; ranks that wait for it see progress."""
        if self._store is None:
            yield
            return
        store, is_saved = self._store, threading.Event()

        def count_up() -> None:
            with suppress(RuntimeError):  # the launcher is gone, and its store with it
                store.add(MOVES, 1)
                while not is_saved.wait(GRACE_SECONDS / 4):
                    store.add(MOVES, 1)

        counting = threading.Thread(target=count_up, daemon=True)
        counting.start()
        try:
            yield
        finally:
            is_saved.set()
            counting.join()

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._process:  # a DataLoader worker inherited this handler; its parent decides
            if number == signal.SIGTERM:
                os._exit(EXIT_CODES[signal.SIGTERM])
            return
        Listener.has_heard = True
        if self.received is None:
            self.received = signal.Signals(number)
            if not self._waits:
                self.check()
            if self._store is not None:
                self._watch()

    def _watch(self) -> None:
        """Exit if there is no progress: after a rank's failure, too, the launcher sends a signal to the others."""
        received, store = self.received, self._store
        assert received is not None
        assert store is not None

        def progress() -> tuple[int, int]:
            try:
                return self._num_beats, store.add(MOVES, 0)
            except RuntimeError:  # the launcher is gone, and its store with it
                return self._num_beats, 0

        def watch() -> None:
            before = progress()
            while not self._watches.wait(GRACE_SECONDS):
                now = progress()
                if now == before:
                    os._exit(EXIT_CODES[received])
                before = now

        threading.Thread(target=watch, daemon=True).start()
