"""Raise an error for real and keep what it said, with nothing of this machine in it.

`caught` runs a callable that must fail and turns its exception into a `Message`; `rendered` writes a message from its
known form where this machine cannot raise it. Frame files are relative: `torch/nn/functional.py` stands under some
site-packages folder, `{lib}/pickle.py` under some standard library; `corpus.surroundings` chooses which.
"""

from __future__ import annotations

import os
import random
import re
import socket
import sysconfig
import tempfile
import traceback
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path

from corpus.message import Frame, Message

MAX_FRAMES = 6
_SITE = tuple(sorted({sysconfig.get_paths()["purelib"], sysconfig.get_paths()["platlib"]}))
_LIB = sysconfig.get_paths()["stdlib"]
_HERE = Path(__file__).resolve().parents[4]


def caught(cause: str, group: str, run: Callable[[], object], *, core: bool = False) -> Message:
    """Run `run`, which must raise, and return its error as a `Message` of origin "raised".

    The text is scrubbed of paths, addresses, process ids and host names; warnings are silenced. Frames are those of
    libraries only, the innermost last.

    Raises:
        AssertionError: nothing was raised, or the error had no words.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            run()
        except Exception as error:
            text = scrubbed(str(error))
            if not text.strip():
                raise AssertionError(f"{cause}/{group}: {type(error).__name__} without words") from error
            return Message(cause, text, _class_name(error), group, "raised", core, _library_frames(error))
    raise AssertionError(f"{cause}/{group}: nothing was raised")


def rendered(
    cause: str,
    group: str,
    template_text: str,
    exception: str,
    *,
    core: bool = False,
    frames: tuple[Frame, ...] = (),
) -> Message:
    """Return a message written from its known form; `template_text` has its numbers filled in already."""
    return Message(cause, template_text, exception, group, "rendered", core, frames)


def scrubbed(text: str) -> str:
    """Return `text` with paths, addresses, pids and the host name replaced by values that depend on the rest alone."""
    text = text.split("\nException raised from ")[0]
    for folder in _SITE:
        text = text.replace(folder, "/usr/local/lib/python3.11/site-packages")
    text = text.replace(_LIB, "/usr/lib/python3.11")
    text = re.sub(re.escape(tempfile.gettempdir()) + r"/[\w.-]+", "/tmp/run", text)
    text = text.replace(str(_HERE), "/home/user/project").replace(str(Path.home()) + "/", "/home/user/")
    text = re.sub(
        rf"(?<=[@\[(]){re.escape(socket.gethostname())}\b|(?<![-\w]){re.escape(socket.gethostname())}(?=:\d)",
        "node01",
        text,
    )
    text = re.sub(rf"((?:pid|process|torch_)\W{{0,4}}){os.getpid()}(?!\d)", r"\g<1>24117", text, flags=re.IGNORECASE)
    masked = re.sub(r"0x[0-9a-fA-F]{6,}", "0x", text)
    draw = random.Random(zlib.crc32(masked.encode()))
    return re.sub(r"0x[0-9a-fA-F]{6,}", lambda _: f"0x7f{draw.getrandbits(40):010x}", text)


def _class_name(error: BaseException) -> str:
    """Return the class as a traceback prints it."""
    kind = type(error)
    return (
        kind.__qualname__ if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}.{kind.__qualname__}"
    )


def _library_frames(error: BaseException) -> tuple[Frame, ...]:
    frames = []
    for entry in traceback.extract_tb(error.__traceback__):
        file = _relative(entry.filename)
        if file is not None and entry.line:
            frames.append(Frame(file, entry.lineno or 1, entry.name, scrubbed(entry.line)))
    return tuple(frames[-MAX_FRAMES:])


def _relative(file: str) -> str | None:
    """Return a library's file without its installation prefix; None for other files."""
    for folder in _SITE:
        if file.startswith(folder + os.sep):
            return file[len(folder) + 1 :]
    return "{lib}" + file[len(_LIB) :] if file.startswith(_LIB + os.sep) else None
