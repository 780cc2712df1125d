"""Prepared folders: built once, whole or not at all, and shared by every process that asks.

A prepared folder holds what is slow to make and quick to read (decoded rows, token ids). Its name is a key over all
that went into it, so a changed input is a new folder and a cached one is never stale. A folder appears by one rename
of a finished, synced temporary folder: whoever sees it sees all of it. Its `meta.json` keeps size and CRC-32 of every
file, so that a folder damaged later (a full disk, a half-copied cache, a flipped bit) is noticed and built again.
"""

import fcntl
import hashlib
import json
import logging
import shutil
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from project.data.durable import sync
from project.errors import UserError

logger = logging.getLogger(__name__)

META = "meta.json"


def digest(*parts: object) -> str:
    """Blake2b hex digest (32 characters) of plain values: strings, numbers, booleans, None, lists of these."""
    return hashlib.blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()


def prepared(cache_dir: str | Path, key: str, build: Callable[[Path], None]) -> Path:
    """Return the folder `cache_dir/key`, building it first if it is absent or damaged.

    Args:
        cache_dir: folder of all prepared folders; made if absent.
        key: name that stands for all inputs and settings of `build`, and for its format version.
        build: writes its files straight into the empty folder it is given.

    Processes and threads that ask for the same key at the same time wait for the one that builds. Whatever `build`
    raises is raised here and leaves nothing behind; those that waited then try for themselves.

    Raises:
        UserError: where the folder cannot be written.
    """
    cache_dir = Path(cache_dir)
    folder = cache_dir / key
    if _problem(folder) is None:
        return folder
    try:
        _build(folder, build)
    except OSError as error:
        reason = f"cannot be made ({error.strerror or error}{f': {error.filename}' if error.filename else ''})"
        raise UserError(f"{folder}: {reason}; name another place with --data.cache_dir, or make room") from error
    return folder


def _build(folder: Path, build: Callable[[Path], None]) -> None:
    """Build the folder, unless another process does so in the meantime."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _locked(folder.with_name(f"{folder.name}.lock")):
        problem = _problem(folder)
        if problem is None:
            return
        temporary = folder.with_name(f"{folder.name}.tmp")
        shutil.rmtree(temporary, ignore_errors=True)  # of a process that was killed: the lock is ours, so it is dead
        if folder.exists():
            logger.warning("%s: damaged cache (%s); building it again", folder, problem)
            folder.rename(temporary)
            shutil.rmtree(temporary)
        temporary.mkdir()
        try:
            build(temporary)
            _seal(temporary)
            temporary.rename(folder)
            sync(folder.parent)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def open_array(path: Path, dtype: DTypeLike) -> NDArray[Any]:
    """Memory-map a raw file as a read-only array, shape (size of the file / size of dtype,)."""
    if path.stat().st_size == 0:
        return np.empty(0, dtype)  # an empty file cannot be mapped
    # a plain view: slicing np.memmap itself builds a subclass object on every access, which is several times slower
    return np.memmap(path, dtype, mode="r").view(np.ndarray)


def _problem(folder: Path) -> str | None:
    """What keeps the folder from being used, or None."""
    try:
        written: dict[str, list[int]] = json.loads((folder / META).read_bytes())["files"]
        for name, (size, checksum) in written.items():
            found = (folder / name).stat().st_size
            if found != size:
                return f"{name}: {found} bytes where {size} were written"
            if _checksum(folder / name) != checksum:
                return f"{name}: not what was written"
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return str(error)
    return None


def _seal(folder: Path) -> None:
    """Write size and checksum of all files to `meta.json` and sync everything to the disk."""
    names = sorted(file.name for file in folder.iterdir())
    meta = {"files": {name: [(folder / name).stat().st_size, _checksum(folder / name)] for name in names}}
    (folder / META).write_text(json.dumps(meta))
    for name in [*names, META]:
        sync(folder / name)
    sync(folder)


def _checksum(path: Path) -> int:
    """CRC-32 of a file; reads it once."""
    checksum = 0
    with path.open("rb") as stream:
        while block := stream.read(2**20):
            checksum = zlib.crc32(block, checksum)
    return checksum


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on the file; the system lets go of it even when the process is killed."""
    with path.open("ab") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield
