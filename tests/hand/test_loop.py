"""The hand-written loop against Lightning's, bit for bit: limits and options that are no axis of the parity matrix.

Precisions, accumulation, clipping, networks and optimizers are such axes; `tests/parity/test_matrix.py` has them.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from project.hand.fit import fit
from project.hand.settings import read_settings
from project.lit.cli import Cli
from tiny_corpus import Corpus

CONFIGS = Path(__file__).parents[2] / "configs"

CASES = {
    "balanced classes, smoothed labels": [
        f"--config={CONFIGS / 'balanced.yaml'}",
        "--trainer.accumulate_grad_batches=3",
    ],
    "steps": ["--trainer.max_steps=11"],
    "parts of the rows": ["--trainer.limit_train_batches=0.5", "--trainer.limit_val_batches=2"],
    "overfitting": ["--trainer.overfit_batches=2"],
    "validation every few batches": ["--trainer.val_check_interval=4", "--trainer.accumulate_grad_batches=2"],
    "validation twice an epoch": ["--trainer.val_check_interval=0.5"],
    "validation every second epoch": ["--trainer.check_val_every_n_epoch=2"],
    "rehearsal": ["--trainer.fast_dev_run=2"],
}


def options(corpus: Corpus, *more: str) -> list[str]:
    settings = ["--trainer.max_epochs=2", "--trainer.accelerator=cpu", "--data.batch_size=7"]
    quiet = ["--trainer.log_every_n_steps=1"]
    return ["--config", str(CONFIGS / "default.yaml"), *corpus.arguments, *settings, *quiet, *more]


@pytest.mark.parametrize("more", CASES.values(), ids=CASES)
def test_equals_lightning(corpus: Corpus, more: list[str]) -> None:
    """Weights, buffers, optimizer and scheduler state and metrics must agree in every bit."""
    cli = Cli("fit", options(corpus, *more))
    cli.trainer.fit(cli.model, datamodule=cli.datamodule)
    by_hand = fit(read_settings("fit", options(corpus, *more)))
    lightning, hand = cli.model.network.state_dict(), by_hand.training.network.state_dict()
    assert lightning.keys() == hand.keys()
    fresh = cli.model.recipe.build_network(cli.model.vocabulary.num_tokens, cli.model.vocabulary.num_classes)
    assert not all(torch.equal(value, fresh.state_dict()[name].to(value.dtype)) for name, value in hand.items())
    for name, tensor in lightning.items():
        assert tensor.dtype == hand[name].dtype, name
        assert torch.equal(tensor, hand[name]), name
    ours, theirs = by_hand.training.optimizer.state_dict(), cli.trainer.optimizers[0].state_dict()
    assert ours["param_groups"] == theirs["param_groups"]
    for index, state in theirs["state"].items():
        for name, value in state.items():
            assert value is ours["state"][index][name] is None or torch.equal(value, ours["state"][index][name])
    scheduler = by_hand.training.lr_scheduler
    assert scheduler is not None
    expected = cli.trainer.lr_scheduler_configs[0].scheduler.state_dict()
    assert {key: value for key, value in scheduler.state_dict().items() if key != "_get_lr_called_within_step"} == {
        key: value for key, value in expected.items() if key != "_get_lr_called_within_step"
    }
    assert by_hand.scores == cli.model.scores


def test_the_loop_imports_neither_lightning_nor_torchmetrics() -> None:
    blocked = "import sys\nfor name in ('lightning', 'pytorch_lightning', 'torchmetrics'): sys.modules[name] = None\n"
    code = blocked + "import project.hand.cli"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
