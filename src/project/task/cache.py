"""Prepared folders: built once, whole or not at all, and shared by every process that asks.

A prepared folder holds what is slow to make and quick to read (decoded rows, token ids). Its name is a key over all
that went into it, so a changed input is a new folder and a cached one is never stale. A folder appears by one rename
of a finished, synced temporary folder: whoever sees it sees all of it. Its `meta.json` keeps the size of every file,
so that a folder damaged later (a full disk, a half-copied cache) is noticed and built again.
"""

import fcntl
import hashlib
import json
import logging
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

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
    """
    cache_dir = Path(cache_dir)
    folder = cache_dir / key
    if _problem(folder) is None:
        return folder
    cache_dir.mkdir(parents=True, exist_ok=True)
    with _locked(cache_dir / f"{key}.lock"):
        problem = _problem(folder)
        if problem is None:
            return folder
        temporary = cache_dir / f"{key}.tmp"
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
            _sync(cache_dir)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    return folder


def open_array(path: Path, dtype: DTypeLike) -> NDArray[Any]:
    """Memory-map a raw file as a read-only array, shape (size of the file / size of dtype,)."""
    if path.stat().st_size == 0:
        return np.empty(0, dtype)  # an empty file cannot be mapped
    # a plain view: slicing np.memmap itself builds a subclass object on every access, which is several times slower
    return np.memmap(path, dtype, mode="r").view(np.ndarray)


def _problem(folder: Path) -> str | None:
    """What keeps the folder from being used, or None."""
    try:
        sizes: dict[str, int] = json.loads((folder / META).read_bytes())["files"]
        found = {name: (folder / name).stat().st_size for name in sizes}
    except (OSError, ValueError, KeyError, TypeError) as error:
        return str(error)
    wrong = [name for name in sizes if found[name] != sizes[name]]
    return f"{wrong[0]}: {found[wrong[0]]} bytes where {sizes[wrong[0]]} were written" if wrong else None


def _seal(folder: Path) -> None:
    """Write the sizes of all files to `meta.json` and sync everything to the disk."""
    names = sorted(file.name for file in folder.iterdir())
    meta = {"files": {name: (folder / name).stat().st_size for name in names}}
    (folder / META).write_text(json.dumps(meta))
    for name in [*names, META]:
        _sync(folder / name)
    _sync(folder)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on the file; the system lets go of it even when the process is killed."""
    with path.open("ab") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield
