"""What has been written is on the disk, and is still there after a crash of the machine."""

from __future__ import annotations

import os
from pathlib import Path


def sync(path: Path) -> None:
    """Return when the file's content, or the folder's list of names, is on the disk.

    Raises:
        OSError: where it cannot be put there.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
