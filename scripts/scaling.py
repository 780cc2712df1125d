"""Rows per second of two ranks with one thread each against one rank with one thread, both twins.

    python scripts/scaling.py

Fresh processes, in turn, on an otherwise idle machine with two cores or more. An epoch of the bundled corpus with
data.batch_size rows per rank, no validation; the time is that of finished.json: from the first micro-batch to the last
checkpoint.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[1]


def rows_per_second(command: str, num_ranks: int, folder: Path, more: list[str]) -> float:
    """Train for an epoch in fresh processes."""
    options = [
        f"--config={ROOT / 'configs' / 'default.yaml'}",
        f"--trainer.devices={num_ranks}",
        "--trainer.strategy=ddp",
        "--trainer.max_epochs=1",
        "--trainer.limit_val_batches=0",
        "--trainer.accelerator=cpu",
        f"--trainer.default_root_dir={folder}",
        *more,
    ]
    return speed_of(["-m", "project", command, *options], folder)


def speed_of(arguments: Sequence[str], folder: Path) -> float:
    """Rows per second of a training run: of Python with these arguments, which leaves its run below `folder`."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, *arguments], cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, check=True)
    newest = max(folder.rglob("finished.json"), key=lambda path: path.stat().st_mtime_ns)
    return float(json.loads(newest.read_text(encoding="utf-8"))["train_rows_per_second"])


def main() -> int:
    """Print a line for each twin."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5, help="runs of each kind")
    known, more = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as name:
        for command in ("hand", "fit"):
            speeds: dict[int, list[float]] = {1: [], 2: []}
            for _ in range(known.repeats):
                for num_ranks, found in speeds.items():
                    found.append(rows_per_second(command, num_ranks, Path(name), more))
            ratios = [two / one for one, two in zip(speeds[1], speeds[2], strict=True)]
            print(
                f"{command}: 1 rank {median(speeds[1]):.0f} rows/s, 2 ranks {median(speeds[2]):.0f} rows/s, "
                f"ratio {median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f} in {len(ratios)} pairs)"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
