"""What both twins refuse alike, in one line, before anything is trained."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from project.__main__ import main
from tiny_corpus import Corpus

CONFIG = Path(__file__).parents[1] / "configs" / "default.yaml"
TWINS = {"hand": ["hand"], "lit": ["fit"]}

NETWORKS = """\
import torch


class Fine(torch.nn.Module):
    '''No init args at all.'''

    def __init__(self, num_tokens, num_classes):
        super().__init__()
        self.bag = torch.nn.EmbeddingBag(num_tokens, num_classes, padding_idx=0)

    def forward(self, tokens, lengths):
        return self.bag(tokens)


class OtherNames(torch.nn.Module):
    def __init__(self, vocabulary, classes, depth):
        super().__init__()


class OneArgument(Fine):
    def forward(self, tokens):
        return self.bag(tokens)


class PerToken(Fine):
    def forward(self, tokens, lengths):
        return self.bag(tokens).unsqueeze(1).expand(-1, tokens.shape[1], -1)
"""


def call(twin: str, corpus: Corpus, *more: str) -> int:
    base = ["--config", str(CONFIG), *corpus.arguments, "--trainer.accelerator=cpu", "--data.batch_size=4"]
    return main([*TWINS[twin], *base, "--trainer.max_epochs=1", *more])


@pytest.mark.parametrize("twin", TWINS)
@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--trainer.max_epochs=0"], "trainer.max_epochs: 0 leaves nothing to train"),
        (["--trainer.max_steps=0"], "trainer.max_steps: 0 leaves nothing to train"),
        (["--trainer.limit_train_batches=1.5"], "limit_train_batches"),
        (["--trainer.val_check_interval=20"], "val_check_interval"),
        (["--trainer.val_check_interval=1.5"], "val_check_interval"),
        (["--trainer.limit_val_batches=0.01"], "limit_val_batches"),
        (["--trainer.devices=0"], "devices"),
        (["--trainer.strategy=fsdp"], "trainer.strategy"),
        (["--model.network=networks.OtherNames"], "model.network: "),
        (["--model.network=networks.OneArgument"], "expected forward(tokens (B, T), lengths (B,)) → logits (B, C)"),
        (
            ["--model.network=networks.PerToken"],
            "model.network: PerToken gave shape (2, 2, 3) for two rows and 3 classes",
        ),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_refused_in_one_line(
    twin: str,
    more: list[str],
    said: str,
    corpus: Corpus,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "networks.py").write_text(NETWORKS)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)  # modules of the working folder are trusted
    monkeypatch.delitem(sys.modules, "networks", raising=False)  # of another test's folder
    assert call(twin, corpus, *more) == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith("error: ")
    assert said in error
    assert not list(corpus.folder.rglob("version_*"))


@pytest.mark.parametrize("twin", TWINS)
def test_a_network_needs_no_init_args(
    twin: str, corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "networks.py").write_text(NETWORKS)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)  # modules of the working folder are trusted
    monkeypatch.delitem(sys.modules, "networks", raising=False)  # of another test's folder
    assert call(twin, corpus, "--model.network=networks.Fine") == 0


@pytest.mark.parametrize("twin", TWINS)
def test_torchrun_must_start_as_many_as_the_configuration_says(
    twin: str, corpus: Corpus, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "1")
    monkeypatch.setenv("WORLD_SIZE", "3")
    assert call(twin, corpus) == 2
    assert "makes 1 processes, but torchrun started 3" in capsys.readouterr().err


def test_validation_that_never_happens_cuts_no_window(corpus: Corpus) -> None:
    for twin in TWINS:
        more = ["--trainer.val_check_interval=3", "--trainer.accumulate_grad_batches=2"]
        assert call(twin, corpus, "--trainer.limit_val_batches=0", *more) == 0


def test_the_hand_twin_needs_a_seed(corpus: Corpus, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("hand", corpus, "--seed_everything=false") == 2
    assert "seed_everything: false" in capsys.readouterr().err


def test_a_mistyped_command_of_hand_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["hand", "tests"]) == 2
    assert "hand: tests: no such command; did you mean test?" in capsys.readouterr().err
