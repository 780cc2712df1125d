"""What Lightning's question to all ranks at every micro-batch costs, which `project.lit` leaves out.

    python scripts/sigterm_cost.py

Lightning 2.6 broadcasts whether a rank has heard a SIGTERM, and reads the answer off the device (issues 20806, 21623).
Rows per second of `fit` with two ranks, an epoch of the bundled corpus, with that broadcast and without it: fresh
processes, in turn, one thread each, on an otherwise idle machine with two cores or more.
"""

from __future__ import annotations

import argparse
import functools
import sys
import tempfile
from pathlib import Path
from statistics import median

from lightning.pytorch.loops.training_epoch_loop import _TrainingEpochLoop

from project.lit.cli import main as lightning_twin
from scaling import ROOT, speed_of

OPTIONS = [
    f"--config={ROOT / 'configs' / 'default.yaml'}",
    f"--config={ROOT / 'configs' / 'ddp.yaml'}",
    "--trainer.max_epochs=1",
    "--trainer.limit_val_batches=0",
    "--trainer.accelerator=cpu",
]


def keep_broadcast() -> None:
    """Let the twin's attempt to leave the broadcast out come to nothing."""
    stock = _TrainingEpochLoop._broadcast_sigterm_tensor
    kept = property(lambda loop: functools.partial(stock, loop), lambda loop, value: None)
    _TrainingEpochLoop._broadcast_sigterm_tensor = kept  # type: ignore[assignment]


def rows_per_second(kind: str, folder: Path, more: list[str]) -> float:
    """Train for an epoch in two fresh ranks."""
    launcher = ["torch.distributed.run", "--nproc-per-node", "2", "--rdzv-backend", "c10d"]
    launcher += ["--rdzv-endpoint", "localhost:0", "--local-addr", "localhost"]
    own = ["--rank", kind, f"--trainer.default_root_dir={folder}"]
    return speed_of(["-m", *launcher, __file__, *own, *OPTIONS, *more], folder)


def main() -> int:
    """Print the ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5, help="runs of each kind")
    parser.add_argument("--rank", choices=("with", "without"), help=argparse.SUPPRESS)
    known, more = parser.parse_known_args()
    if known.rank:
        if known.rank == "with":
            keep_broadcast()
        return int(lightning_twin(["fit", *more]))
    speeds: dict[str, list[float]] = {"with": [], "without": []}
    with tempfile.TemporaryDirectory() as name:
        for _ in range(known.repeats):
            for kind, found in speeds.items():
                found.append(rows_per_second(kind, Path(name), more))
    ratios = [without / stock for stock, without in zip(*speeds.values(), strict=True)]
    print(
        f"with the broadcast {median(speeds['with']):.0f} rows/s, without {median(speeds['without']):.0f} rows/s: "
        f"{median(ratios):.3f} times ({min(ratios):.3f} to {max(ratios):.3f})"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
