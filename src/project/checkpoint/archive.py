"""Reads files of `torch.save` from anybody, and executes nothing in them.

A file from a stranger may run code (a pickle can call any function), fill the memory (a zip bomb) or never end (a
pipe). Only plain data and tensors are loaded, and only if they unpack to no more bytes than the file has.
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

ZIP = b"PK\x03\x04"  # the start of what torch.save writes; its older formats are bare pickles
NAMED = re.compile(r"(?:GLOBAL|function|but got) (?:<[\w ]+? ')?([\w.]+)")  # in torch's message about a refused pickle


def load_archive(path: str | Path) -> Any:
    """The file's content, with tensors on the CPU.

    Raises:
        UserError: the file is missing, damaged or unsafe; the message has one line.
    """
    path = Path(path)
    with _opened(path) as file:
        _check_archive(path, file)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # torch warns of what it then refuses
                return torch.load(file, map_location="cpu", weights_only=True)
        except Exception as error:  # a hostile file can cause any error in the reader
            raise UserError(f"{path}: {_reason(error)}") from None


def _opened(path: Path) -> IO[bytes]:
    """Open the file once, so that the file that is checked is the file that is read, even if it is replaced."""
    try:
        # O_NONBLOCK: opening a pipe without a writer would block.
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
        raise UserError(f"{path}: not a checkpoint, {found}; a checkpoint begins with {ZIP.hex(' ')}")
    try:
        # The reader that torch.load uses: a file may have two tables of contents, and both must see the same one.
        reader = archive_reader(file)
        names = reader.get_all_records()
        claimed = sum(map(reader.get_record_size, names))
    except RuntimeError:
        raise UserError(f"{path}: damaged checkpoint, its table of contents cannot be read; take another") from None
    finally:
        file.seek(0)
    if "constants.pkl" in names:
        raise UserError(f"{path}: a TorchScript program, not a checkpoint; take a checkpoint of this project")
    if "data.pkl" not in names:
        raise UserError(f"{path}: not a checkpoint, there is no data.pkl in it; take a checkpoint of this project")

    if claimed > size:  # torch.save does not compress
        raise UserError(
            f"{path}: unsafe, {size} bytes claim to unpack to {claimed}, and a checkpoint is not compressed; "
            "nothing was read"
        )

    try:
        with ZipFile(file) as archive:
            flipped = archive.testzip()  # torch does not check the checksums
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
        return f"unsafe, it names {named[1]}, and a checkpoint holds only plain data and tensors; nothing was executed"
    detail = text.partition("WeightsUnpickler error: ")[2].strip() or text  # torch's message is long
    detail = re.split(r"[.:;]?\s*(?:\n|\. )", detail)[0][:120] or type(error).__name__
    return f"damaged checkpoint, or not a checkpoint ({detail}); take another"
