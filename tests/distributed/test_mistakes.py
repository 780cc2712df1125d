"""The check can fail between ranks, too: each planted mistake is caught, at the stage where it was made."""

from __future__ import annotations

from pathlib import Path

import pytest

from distributed.mistakes import MISTAKES, train_all
from parity.mistakes import Mistake
from processes import start_ranks
from project.parity.cli import compare_paths
from project.parity.compare import EXACT
from tiny_corpus import write_corpus

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of the session: 49 rows, 4 per rank and micro-batch, windows of 3; one rank's last window holds no row."""
    folder = tmp_path_factory.mktemp("mistakes")
    arguments = ["--config", str(ROOT / "configs" / "default.yaml"), "--config", str(ROOT / "configs" / "ddp.yaml")]
    arguments += [*write_corpus(folder, num_train=49).arguments, "--trainer.max_epochs=1", "--trainer.accelerator=cpu"]
    arguments += ["--data.batch_size=4", "--trainer.accumulate_grad_batches=3", "--trace.level=full"]
    ended = start_ranks(2, train_all, folder, arguments).ended(timeout=300)
    assert ended.returncode == 0, ended.stderr
    return folder


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_a_mistake_between_ranks_is_caught_at_its_stage(mistake: Mistake, folder: Path) -> None:
    hand = folder / f"hand_{MISTAKES.index(mistake)}" / "version_0"
    report = compare_paths(hand, folder / "lit" / "version_0", EXACT, alike=True)
    assert report.is_equal == (mistake.stage == "none")
    assert (report.divergence.stage if report.divergence else "none") == mistake.stage, report.divergence
