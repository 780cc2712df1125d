"""The cache: prepared folders, built once and shared by all processes.

A prepared folder holds what is slow to make and quick to read, such as decoded rows and token ids. Its name has a
digest of everything that went into it, so another input gets another folder. It is built as a temporary folder, synced
and renamed, so it is never seen half-built. Its `meta.json` holds size and CRC-32 of every file. A folder that was
damaged later is found by them and built again.
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
    """BLAKE2b hex digest (32 characters) of strings, numbers, booleans, None and lists of these."""
    return hashlib.blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()


def prepared(cache_dir: str | Path, key: str, build: Callable[[Path], None]) -> Path:
    """Return the folder `cache_dir/key`. Build it first if it is absent or damaged.

    Args:
        cache_dir: folder of all prepared folders; made if absent.
        key: name that stands for all inputs and settings of `build`, and for its format version.
        build: writes its files into the empty folder that it is given.

    While one process or thread builds, others that ask for the same key wait. An error of `build` is raised here and
    leaves nothing behind; those that waited then build themselves.

    Raises:
        UserError: the folder cannot be written.
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
    """Build the folder, unless another process has built it in the meantime."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _locked(folder.with_name(f"{folder.name}.lock")):
        problem = _problem(folder)
        if problem is None:
            return
        temporary = folder.with_name(f"{folder.name}.tmp")
        shutil.rmtree(temporary, ignore_errors=True)  # left by a killed process; a live one would hold the lock
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
    """Memory-map a raw file as a read-only array of shape (size of the file / size of dtype,)."""
    if path.stat().st_size == 0:
        return np.empty(0, dtype)  # an empty file cannot be mapped
    # A plain view, since slicing np.memmap itself is several times slower.
    return np.memmap(path, dtype, mode="r").view(np.ndarray)


def _problem(folder: Path) -> str | None:
    """Why the folder cannot be used, or None."""
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
    """Write size and checksum of all files to `meta.json`, and sync all files and the folder."""
    names = sorted(file.name for file in folder.iterdir())
    meta = {"files": {name: [(folder / name).stat().st_size, _checksum(folder / name)] for name in names}}
    (folder / META).write_text(json.dumps(meta))
    for name in [*names, META]:
        sync(folder / name)
    sync(folder)


def _checksum(path: Path) -> int:
    checksum = 0
    with path.open("rb") as stream:
        while block := stream.read(2**20):
            checksum = zlib.crc32(block, checksum)
    return checksum


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on the file; the system releases it when the process ends."""
    with path.open("ab") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield
