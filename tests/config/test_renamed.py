"""Runs and configurations that name a class by the path that it had before: every command still takes them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import yaml

from project.__main__ import main
from project.config.renamed import RENAMED, renamed
from tiny_corpus import Corpus

OLD, NEW = "project.task.network", "project.network"
TWINS = {"hand": ["hand"], "lit": ["fit"]}
CONFIG = f"""\
seed_everything: 1
trainer: {{max_epochs: 2, accelerator: cpu, log_every_n_steps: 1}}
model:
  network: {{class_path: {OLD}.TextCNN, init_args: {{dim: 8, num_filters: 4, hidden: 8}}}}
  optimizer: {{class_path: torch.optim.AdamW, init_args: {{lr: 0.05}}}}
data: {{batch_size: 8}}
"""


def make_old(run: Path) -> Path:
    """Give a run the paths that its files held before; returns its last checkpoint."""
    config = run / "config.yaml"
    config.write_text(config.read_text().replace(f"{NEW}.", f"{OLD}."))
    last = run / "checkpoints" / "last.ckpt"
    content = torch.load(last, weights_only=True)
    assert content["classifier"]["network"]["class_path"] == f"{NEW}.textcnn.TextCNN"
    content["classifier"]["network"]["class_path"] = f"{OLD}.textcnn.TextCNN"
    torch.save(content, last)
    (run / "checkpoints" / "best.ckpt").unlink()
    return last


@pytest.mark.parametrize("twin", TWINS)
def test_an_old_run_is_evaluated_and_continued_and_written_anew(
    twin: str, corpus: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "old.yaml"
    config.write_text(CONFIG)
    assert main([*TWINS[twin], f"--config={config}", *corpus.arguments, "--trainer.max_epochs=1"]) == 0
    run = corpus.folder / "runs" / "default" / "version_0"
    assert f"class_path: {NEW}.TextCNN" in (run / "config.yaml").read_text()
    last = make_old(run)
    root = f"--trainer.default_root_dir={corpus.folder / 'runs'}"
    evaluate = ["hand", "validate"] if twin == "hand" else ["validate"]
    predict = ["hand", "predict"] if twin == "hand" else ["predict"]
    assert main([*evaluate, root]) == 0
    assert main([*predict, root, f"--data.predict_file={corpus.test}", f"--output={tmp_path / 'found.jsonl'}"]) == 0
    assert len((tmp_path / "found.jsonl").read_text().splitlines()) == 20
    assert main(["explain", "red saw", f"--ckpt_path={last}", "--json"]) == 0
    moved = tmp_path / "moved.ckpt"  # without a configuration beside it
    moved.write_bytes(last.read_bytes())
    assert main([*evaluate, f"--ckpt_path={moved}", *corpus.arguments]) == 0
    capsys.readouterr()
    assert main([*TWINS[twin], root, "--ckpt_path=last", "--trainer.max_epochs=2"]) == 0
    assert "model.network" not in capsys.readouterr().out  # nothing has changed
    assert yaml.safe_load((run / "config.yaml").read_text())["model"]["network"]["class_path"] == f"{NEW}.TextCNN"
    written = torch.load(last, weights_only=True)["classifier"]["network"]["class_path"]
    assert written == f"{NEW}.textcnn.TextCNN"
    assert json.loads((run / "finished.json").read_text())["epochs"] == 2


@pytest.mark.parametrize("twin", TWINS)
@pytest.mark.parametrize("inline", [False, True])
def test_the_command_line_may_name_an_old_path(
    twin: str, inline: bool, corpus: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "old.yaml"
    config.write_text(CONFIG)
    named = f"{{class_path: {OLD}.Pooling, init_args: {{dim: 8}}}}" if inline else f"{OLD}.Pooling"
    with pytest.raises(SystemExit, match="0"):
        main([*TWINS[twin], f"--config={config}", f"--model.network={named}", "--print_config"])
    shown = yaml.safe_load(capsys.readouterr().out)
    assert shown["model"]["network"]["class_path"] in (f"{NEW}.Pooling", f"{NEW}.pooling.Pooling")


def test_only_what_stands_in_the_table_is_renamed() -> None:
    assert renamed(f"a: {OLD}.TextCNN") == f"a: {NEW}.TextCNN"
    for text in ("project.task.networks.TextCNN", "my.project.taskk.network.Net", "project.task", "project.network.X"):
        assert renamed(text) == text
    assert all(renamed(new) == new for new in RENAMED.values())
