"""A run that Lightning trained with keys of its own is evaluated by hand: what does not matter there is ignored."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import yaml

import project.hand.cli
import project.lit.cli
from project.__main__ import main
from tiny_corpus import Corpus

CONFIG = """\
seed_everything: 1
trainer:
  max_epochs: 1
  accelerator: cpu
  log_every_n_steps: 1
  callbacks: [{class_path: lightning.pytorch.callbacks.LambdaCallback}]
  max_time: "00:01:00:00"
  devices: [0]
  detect_anomaly: true
  profiler: simple
model:
  network: {class_path: project.network.Pooling, init_args: {dim: 16}}
  optimizer: {class_path: torch.optim.AdamW, init_args: {lr: 0.05}}
data: {batch_size: 8}
"""


@pytest.mark.parametrize("precision", ["32", "64-true", "bf16-true", "16-mixed"])
@pytest.mark.filterwarnings("ignore:.*using a custom batch sampler `OrderedBatches` for prediction")
def test_predictions_are_those_of_lightning_bit_for_bit(precision: str, corpus: Corpus, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG.replace("devices: [0]", "devices: 1"))
    root = f"--trainer.default_root_dir={corpus.folder / 'runs'}"
    assert main(["fit", f"--config={config}", *corpus.arguments, f"--trainer.precision={precision}"]) == 0
    given = [root, f"--data.predict_file={corpus.test}"]
    by_hand, by_lightning = (twin.probabilities(given) for twin in (project.hand.cli, project.lit.cli))
    assert by_hand.dtype == torch.float32
    assert torch.equal(by_hand, by_lightning)
    assert main(["predict", *given, f"--output={tmp_path / 'found.jsonl'}"]) == 0
    found = [json.loads(line)["probabilities"] for line in (tmp_path / "found.jsonl").read_text().splitlines()]
    assert [list(row.values()) for row in found] == [[round(value, 6) for value in row] for row in by_hand.tolist()]
    assert main(["hand", "test", root, "--trainer.max_epochs=7"]) == 0


def test_what_a_saved_configuration_says_of_training_does_not_matter(corpus: Corpus, tmp_path: Path) -> None:
    """Values that Lightning takes and the hand-written loop does not."""
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG.replace("devices: [0]", "devices: 1"))
    assert main(["fit", f"--config={config}", *corpus.arguments]) == 0
    saved = corpus.folder / "runs" / "default" / "version_0" / "config.yaml"
    values = yaml.safe_load(saved.read_text())
    values["trainer"] |= {"val_check_interval": "00:00:10:00", "devices": [0, 1], "log_every_n_steps": 0}
    values["distributed"]["reduce_once_per_window"] = True
    values["seed_everything"] = False
    saved.write_text(yaml.safe_dump(values))
    root = f"--trainer.default_root_dir={corpus.folder / 'runs'}"
    for command in (["predict"], ["hand", "validate"], ["validate"]):
        more = [f"--data.predict_file={corpus.test}", f"--output={tmp_path / 'out'}"] if command == ["predict"] else []
        assert main([*command, root, *more]) == 0
