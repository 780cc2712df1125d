"""The twins are equal in every bit between GPUs, through nccl."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from project.parity.cli import compare_paths
from project.parity.compare import EXACT
from tiny_corpus import write_corpus

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="no two GPUs here")
@pytest.mark.parametrize("strategy", ["ddp", "fsdp2"])
@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed", "16-mixed"])
def test_two_gpus_are_equal(strategy: str, precision: str, tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path, num_train=49)
    options = [
        f"--config={ROOT / 'configs' / 'default.yaml'}",
        "--trainer.accelerator=cuda",
        "--trainer.devices=2",
        f"--trainer.strategy={strategy}",
        f"--trainer.precision={precision}",
        "--trainer.accumulate_grad_batches=3",
        "--trainer.deterministic=true",
        "--trainer.max_epochs=2",
        "--data.batch_size=4",
        "--trace.level=full",
        *corpus.arguments,
    ]
    for command in ("hand", "fit"):
        subprocess.run([sys.executable, "-m", "project", command, *options, f"--name={command}"], check=True)
    hand, lit = (corpus.folder / "runs" / command / "version_0" for command in ("hand", "fit"))
    assert compare_paths(hand, lit, EXACT, alike=True).is_equal
