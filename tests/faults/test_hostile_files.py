"""A corpus of hostile files under a checkpoint's name: each is refused with one line, and nothing in it is executed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from faults import hostile
from project.__main__ import main
from project.checkpoint.classifier import Classifier
from project.checkpoint.file import read_checkpoint
from project.errors import UserError
from tiny_corpus import Corpus, write_corpus

CONFIG = Path(__file__).parents[2] / "configs" / "default.yaml"
KINDS = {**hostile.RUNS_CODE, **hostile.OTHERS}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """A corpus beside a run of one step."""
    corpus = write_corpus(tmp_path_factory.mktemp("trained"))
    assert main(["hand", "--config", str(CONFIG), *corpus.arguments, "--trainer.max_steps=1"]) == 0
    return corpus


@pytest.fixture(scope="module")
def good(trained: Corpus) -> dict[str, Any]:
    """What a real checkpoint holds."""
    return read_checkpoint(last(trained))


def last(corpus: Corpus) -> Path:
    return corpus.folder / "runs" / "default" / "version_0" / "checkpoints" / "last.ckpt"


@pytest.fixture
def made(tmp_path: Path, good: dict[str, Any]) -> Iterator[Any]:
    """Makes the file of a kind; afterwards, whether anything ran is held against the canary."""
    canary = tmp_path / "canary"

    def make(kind: str) -> Path:
        path = tmp_path / "stranger.ckpt"
        KINDS[kind](path, dict(good), canary)
        return path

    yield make
    assert not canary.exists()


@pytest.mark.parametrize("kind", hostile.RUNS_CODE)
def test_each_route_really_runs_code_where_nobody_refuses_it(kind: str, tmp_path: Path, good: dict[str, Any]) -> None:
    path, canary = tmp_path / "stranger.ckpt", tmp_path / "canary"
    hostile.RUNS_CODE[kind](path, dict(good), canary)
    with contextlib.suppress(Exception):
        hostile.unsafe_load(path)
    assert canary.exists()


@pytest.mark.parametrize("kind", KINDS)
def test_a_hostile_file_is_refused_with_one_line(kind: str, made: Any) -> None:
    path = made(kind)
    with pytest.raises(UserError) as caught:
        Classifier.load(path)
    line = str(caught.value)
    assert line.startswith(
        f"{path}: " if kind != "network_of_another_library" else "the checkpoint's network: os.system"
    )
    assert "\n" not in line
    assert len(line) < len(str(path)) + 200
    assert "Traceback" not in line


@pytest.mark.parametrize("kind", [kind for kind in hostile.OTHERS if kind.startswith("zip_bomb")])
def test_a_bomb_is_refused_before_anything_is_unpacked(kind: str, made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path = made(kind)
    monkeypatch.setattr(torch, "load", None)
    with pytest.raises(UserError, match=r"unsafe, \d+ bytes claim to unpack to \d+, "):
        read_checkpoint(path)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("os_system", "unsafe, it names posix.system, and a checkpoint holds only plain data and tensors; nothing was"),
        ("builtins_eval", "unsafe, it names eval, "),
        (
            "legacy_torch_format",
            "not a checkpoint, it begins with the bytes 80 02 8a 0a; a checkpoint begins with 50 4b 03",
        ),
        ("empty", "not a checkpoint, it is empty; "),
        ("cut_in_half", "damaged checkpoint, its table of contents cannot be read"),
        ("flipped_bit", "in it is not what was written; take another"),
        ("torchscript_archive", "a TorchScript program, not a checkpoint"),
        ("torch_package", "there is no data.pkl in it"),
        ("instantiator_in_a_real_checkpoint", "unsafe, hyper_parameters may name code to call"),
        ("network_of_another_library", "os.system: refused, "),
        ("pipe", "a pipe or device, not a checkpoint"),
        ("folder", "a folder, not a checkpoint"),
        ("symlink", "a symbolic link, and what it leads to may change; name the file itself"),
        ("missing", "no such checkpoint"),
    ],
)
def test_what_is_said(kind: str, said: str, made: Any) -> None:
    with pytest.raises(UserError) as caught:
        Classifier.load(made(kind))
    assert said in str(caught.value)


@pytest.mark.parametrize("kind", ["os_system", "zip_bomb", "pipe"])
@pytest.mark.parametrize("command", [["validate"], ["hand", "validate"], ["fit"], ["hand"]], ids=" ".join)
def test_every_command_refuses_it(
    kind: str, command: list[str], made: Any, trained: Corpus, capsys: pytest.CaptureFixture[str]
) -> None:
    option = "--ckpt_path" if command[-1] == "validate" else "--model.init_from"
    path = made(kind)
    assert main([*command, "--config", str(CONFIG), *trained.arguments, f"{option}={path}"]) == 2
    errors = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("GPU available")]
    assert len(errors) == 1
    assert errors[0].startswith(f"error: {path}: ")


@pytest.mark.parametrize("command", [["validate"], ["hand", "validate"], ["explain", "some text"]], ids=" ".join)
def test_a_network_outside_of_what_is_trusted_is_not_imported(
    command: list[str], made: Any, trained: Corpus, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a configuration, and where the checkpoint has to say for itself what it is."""
    path = made("network_of_another_library")
    for configured in ([], ["--config", str(CONFIG), *trained.arguments])[: 1 if command[0] == "explain" else 2]:
        assert main([*command, *configured, f"--ckpt_path={path}"]) == 2
        assert "os.system: refused, os is none of torch, " in capsys.readouterr().err


DAMAGED = {
    "another tokenizer": (
        "vocabulary",
        {"tokenizer": "{}", "labels": ["a", "b"]},
        "tokenizer and labels cannot be read",
    ),
    "no labels": ("vocabulary", {"tokenizer": "{}"}, "tokenizer and labels cannot be read"),
    "no vocabulary": ("vocabulary", None, "damaged checkpoint, classifier.vocabulary is missing or of another type"),
    "length of words": (
        "max_tokens",
        "many",
        "damaged checkpoint, classifier.max_tokens is missing or of another type",
    ),
    "an argument too many": (
        "network",
        {"class_path": "project.network.TextCNN", "init_args": {"command": "ls"}},
        "unexpected keyword argument 'command'",
    ),
    "arguments as a list": ("network", {"class_path": "project.network.TextCNN", "init_args": [1]}, "init_args"),
    "another size": (
        "network",
        {"class_path": "project.network.TextCNN", "init_args": {"dim": 3}},
        "weights do not fit",
    ),
}


@pytest.mark.parametrize("what", DAMAGED)
@pytest.mark.parametrize("command", [["validate"], ["hand", "validate"], ["explain", "some text"]], ids=" ".join)
def test_plain_data_that_does_not_fit_together(
    command: list[str], what: str, trained: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key, value, said = DAMAGED[what]
    content = read_checkpoint(last(trained))
    path = tmp_path / "damaged.ckpt"
    torch.save({**content, "classifier": {**content["classifier"], key: value}}, path)
    more = [] if command[0] == "explain" else ["--config", str(CONFIG), *trained.arguments]
    assert main([*command, *more, f"--ckpt_path={path}"]) == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith("error: ")
    assert said in line


def test_a_real_checkpoint_in_a_linked_folder_is_read(trained: Corpus, tmp_path: Path) -> None:
    (tmp_path / "linked").symlink_to(last(trained).parent)
    assert "state_dict" in read_checkpoint(tmp_path / "linked" / "last.ckpt")


def test_a_file_that_is_swapped_while_it_is_looked_at_changes_nothing(
    trained: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was checked is what is loaded: the file is opened once."""
    path, canary = tmp_path / "swapped.ckpt", tmp_path / "canary"
    path.write_bytes(last(trained).read_bytes())
    load = torch.load

    def swapped(*args: Any, **kwargs: Any) -> Any:
        path.unlink()
        hostile.OTHERS["empty"](path, {}, canary)
        return load(*args, **kwargs)

    monkeypatch.setattr(torch, "load", swapped)
    assert "state_dict" in read_checkpoint(path)
