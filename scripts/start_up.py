"""How long commands take to start, in fresh processes, as multiples of what the imports alone take.

Each round runs every case once, so that a busy machine slows all of them alike; medians of the rounds are printed.
`hand` and `fit` end at their first optimizer step. The corpus has to be prepared already (`make fit` does so).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

CONFIG = ["--config", "configs/default.yaml"]
FIRST_STEP = """\
import os, runpy, sys
from torch.optim.optimizer import register_optimizer_step_post_hook
register_optimizer_step_post_hook(lambda *_: os._exit(0))
runpy.run_module("project", run_name="__main__", alter_sys=True)"""
IMPORTS = {"import torch": "import torch", "import torch, lightning": "import torch, lightning"}
TYPO = [*CONFIG, "--trainer.max_epoch=1"]

# case: (code of the process or None for `python -m project`, its arguments, what it is a multiple of, at most)
CASES: dict[str, tuple[str | None, list[str], str | None, float | None]] = {
    **{name: (code, [], None, None) for name, code in IMPORTS.items()},
    # what torch's own optimizers import when one is made: no loop can step sooner
    "import torch, torch._dynamo": ("import torch, torch._dynamo", [], "import torch", None),
    "hand, to its first step": (FIRST_STEP, ["hand", *CONFIG], "import torch", 1.5),
    "fit, to its first step": (FIRST_STEP, ["fit", *CONFIG], "import torch, lightning", 1.3),
    "predict, one row": (None, ["predict"], "import torch", 1.5),
    "fit --help": (None, ["fit", "--help"], "import torch", None),
    "hand --help": (None, ["hand", "--help"], "import torch", None),
    "compare --help": (None, ["compare", "--help"], "import torch", None),
    "explain --help": (None, ["explain", "--help"], "import torch", None),
    "fit, a mistyped key": (None, ["fit", *TYPO], "import torch", None),
    "hand, a mistyped key": (None, ["hand", *TYPO], "import torch", None),
}


def seconds_of(case: str, runs: Path, checkpoint: Path) -> tuple[float, float]:
    """What one process takes from its start to its end: on the clock, and of a processor."""
    code, arguments, _, _ = CASES[case]
    arguments = [*arguments, f"--trainer.default_root_dir={runs}"] if code == FIRST_STEP else arguments
    arguments = [*arguments, f"--ckpt_path={checkpoint}"] if arguments == ["predict"] else arguments
    start, before = time.perf_counter(), os.times()
    command = [sys.executable, "-c", code] if code else [sys.executable, "-m", "project"]
    row = b'{"text": "CUDA out of memory"}\n'
    ended = subprocess.run([*command, *arguments], input=row, capture_output=True, check=False)
    assert ended.returncode == (2 if "mistyped" in case else 0), ended.stderr.decode()
    after = os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return time.perf_counter() - start, used


def main() -> None:
    """Measure, and print one line a case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="write all figures here, too")
    given = parser.parse_args()
    found: dict[str, list[tuple[float, float]]] = {case: [] for case in CASES}
    with tempfile.TemporaryDirectory() as folder:
        runs = Path(folder)
        trains = [sys.executable, "-m", "project", "hand", *CONFIG, "--trainer.max_steps=1"]
        more = ["--trainer.limit_val_batches=0", f"--trainer.default_root_dir={runs}", "--name=trained"]
        subprocess.run([*trains, *more], check=True, capture_output=True)
        checkpoint = runs / "trained" / "version_0" / "checkpoints" / "last.ckpt"
        for _ in range(given.rounds):
            for case in CASES:
                found[case].append(seconds_of(case, runs, checkpoint))
    print(f"{'':<28}{'seconds':>9}{'CPU s':>8}  ratios: by the clock, by the CPU")
    for case, (_, _, base, at_most) in CASES.items():
        clock, used = (median(column) for column in zip(*found[case], strict=True))
        line = f"{case:<28}{clock:>9.2f}{used:>8.2f}"
        if base is not None:
            pairs = zip(found[case], found[base], strict=True)
            ratios = [median(column) for column in zip(*((a / c, b / d) for (a, b), (c, d) in pairs), strict=True)]
            line += f"  {ratios[0]:.2f} {ratios[1]:.2f} times {base}" + (f", wanted ≤ {at_most}" if at_most else "")
        print(line)
    if given.json is not None:
        given.json.write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()
