"""Every file in configs/ parses and trains: two optimizer steps on a tiny corpus.

compile.yaml takes a minute to build its kernels; the parity matrix trains with it.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from processes import start
from project.__main__ import main
from tiny_corpus import Corpus

CONFIGS = sorted((Path(__file__).parents[1] / "configs").glob("*.yaml"))
DEFAULT = next(path for path in CONFIGS if path.name == "default.yaml")


@pytest.mark.parametrize("config", [path for path in CONFIGS if path.stem != "compile"], ids=lambda path: path.stem)
def test_trains_two_steps(config: Path, corpus: Corpus) -> None:
    overlay = [] if config == DEFAULT else ["--config", str(config)]
    options = [
        *corpus.arguments,
        "--trainer.max_steps=2",
        "--trainer.log_every_n_steps=1",
        "--trainer.accelerator=cpu",
        "--data.batch_size=8",
    ]
    arguments = ["fit", "--config", str(DEFAULT), *overlay, *options]
    # a rank of ddp.yaml is this very command once more, so it cannot be a test
    assert (start(arguments).ended().returncode if config.stem == "ddp" else main(arguments)) == 0
    summary = json.loads((corpus.folder / "runs" / "default" / "version_0" / "finished.json").read_text())
    assert summary["optimizer_steps"] == 2


@pytest.mark.parametrize("config", CONFIGS, ids=lambda path: path.stem)
def test_opens_with_a_comment_that_says_what_it_does(config: Path) -> None:
    assert config.read_text(encoding="utf-8").startswith("# ")
