"""What it costs to write a checkpoint: `write_checkpoint` against a bare torch.save and fsync of the same content.

    python scripts/checkpoint_cost.py [--megabytes 100] [--repeats 15]

They take turns, on the same disk. Medians are printed, and their ratio; and how long a step waits where a thread writes
in the background (`checkpoint.async_save`), which is waited for before the next turn.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from project.checkpoint.file import write_checkpoint
from project.checkpoint.writer import CheckpointWriter


def bare(path: Path, content: Mapping[str, Any]) -> None:
    """torch.save over the old file, and fsync."""
    torch.save(content, path)
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, default=100)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--folder", default=".", help="Where the files are written.")
    arguments = parser.parse_args()
    tensors = {f"layer.{layer}": torch.randn(int(arguments.megabytes * 1e6 / 4 / 20)) for layer in range(20)}
    content = {"state_dict": tensors}
    seconds: dict[str, list[float]] = {"bare": [], "write_checkpoint": [], "async_save": []}
    writer = CheckpointWriter(in_background=True)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        for repeat in range(arguments.repeats + 1):
            writers: list[tuple[str, Callable[[Path, Mapping[str, Any]], None]]] = [
                ("bare", bare),
                ("write_checkpoint", write_checkpoint),
                ("async_save", writer.write),
            ]
            for name, write in writers if repeat % 2 else reversed(writers):
                start_seconds = time.perf_counter()
                write(Path(folder) / f"{name}.ckpt", content)
                if repeat:  # the first of each warms up
                    seconds[name].append(time.perf_counter() - start_seconds)
                writer.wait_for()
        writer.close()
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    for name, median in medians.items():
        print(f"{name}: median {1000 * median:.1f} ms of {arguments.repeats} writes of {arguments.megabytes:g} MB")
    print(f"ratio of write_checkpoint to bare: {medians['write_checkpoint'] / medians['bare']:.2f}")
    print(f"a step waits {medians['write_checkpoint'] / medians['async_save']:.1f} times as long without async_save")


if __name__ == "__main__":
    main()
