"""Opens files made by `torch.save`, and refuses whatever else may bear such a name; nothing in a file is executed.

A file from a stranger may be a program (a pickle calls any function), a bomb (a few bytes that unpack to all memory),
or something that never ends (a pipe). Only plain data and tensors pass, no larger than the file says it is.
"""

from __future__ import annotations

import os
import re
import stat
import warnings
from pathlib import Path
from typing import IO, Any
from zipfile import BadZipFile, ZipFile

import torch

from project.errors import UserError
from project.private import archive_reader

ZIP = b"PK\x03\x04"  # what torch.save writes; older forms are pickles from the first byte on
NAMED = re.compile(r"(?:GLOBAL|function|but got) (?:<[\w ]+? ')?([\w.]+)")  # in what torch says of a refused pickle


def load_archive(path: str | Path) -> Any:
    """The file's content, tensors on the CPU.

    Raises:
        UserError: where the file is missing, damaged or unsafe: one line that says so.
    """
    path = Path(path)
    with _opened(path) as file:
        _check_archive(path, file)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of torch, on what it refuses in the next moment
                return torch.load(file, map_location="cpu", weights_only=True)
        except Exception as error:  # a hostile file may drive the reader into any
            raise UserError(f"{path}: {_reason(error)}") from None


def _opened(path: Path) -> IO[bytes]:
    """The file, once and for all: what is looked at is what is read, also where somebody puts another in its place."""
    try:
        # NONBLOCK: a pipe that nobody writes to would otherwise be waited for
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise UserError(f"{path}: no such checkpoint") from None
    except OSError as error:
        if path.is_symlink():
            raise UserError(f"{path}: a symbolic link, and what it leads to may change; name the file itself") from None
        raise UserError(f"{path}: cannot be read as a checkpoint ({error.strerror})") from None
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise UserError(f"{path}: a folder, not a checkpoint; name a file such as {path}/best.ckpt")
    raise UserError(f"{path}: a pipe or device, not a checkpoint; name a file")


def _check_archive(path: Path, file: IO[bytes]) -> None:
    size = os.fstat(file.fileno()).st_size
    head = file.read(len(ZIP))
    file.seek(0)
    if head != ZIP:
        found = f"it begins with the bytes {head.hex(' ')}" if head else "it is empty"
        raise UserError(f"{path}: no checkpoint, {found}; such a file begins with {ZIP.hex(' ')}")
    try:
        # the reader that torch.load takes, so that both see the same parts of a file with two tables of contents
        reader = archive_reader(file)
        names = reader.get_all_records()
        claimed = sum(map(reader.get_record_size, names))
    except RuntimeError:
        raise UserError(f"{path}: damaged checkpoint, its table of contents cannot be read; take another") from None
    finally:
        file.seek(0)
    if "constants.pkl" in names:
        raise UserError(f"{path}: a TorchScript program, no checkpoint; take one that this project has written")
    if "data.pkl" not in names:
        raise UserError(f"{path}: no checkpoint, there is no data.pkl in it; take one that this project has written")

    if claimed > size:  # torch.save packs nothing
        raise UserError(
            f"{path}: unsafe, {size} bytes claim to unpack to {claimed}, and a checkpoint never grows; nothing was read"
        )

    try:
        with ZipFile(file) as archive:
            flipped = archive.testzip()  # torch reads a flipped bit as if it were right
    except (BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:
        raise UserError(f"{path}: damaged checkpoint, {error}; take another") from None
    finally:
        file.seek(0)
    if flipped is not None:
        raise UserError(f"{path}: damaged checkpoint, {flipped} in it is not what was written; take another")


def _reason(error: Exception) -> str:
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error).strip())
    named = NAMED.search(text)
    if "Weights only load failed" in text and named:
        return f"unsafe, it names {named[1]}, and a checkpoint is plain data and tensors; nothing of it was executed"
    detail = text.partition("WeightsUnpickler error: ")[2].strip() or text  # torch goes on at length
    detail = re.split(r"[.:;]?\s*(?:\n|\. )", detail)[0][:120] or type(error).__name__
    return f"damaged checkpoint, or no checkpoint at all ({detail}); take another"
