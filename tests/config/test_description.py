"""schema.json, by which faults are found and help is printed without importing torch or Lightning."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable
from typing import Any, Literal

import pytest
import torch
import yaml
from jsonargparse.typing import PositiveInt

import make_schema
from project.config import description
from project.config.description import as_described, decoded, encoded, is_current
from project.config.values import Takes, UndescribedError, class_arguments


def test_the_file_is_up_to_date() -> None:
    """`python scripts/make_schema.py` writes it anew."""
    assert description.FILE.read_text(encoding="utf-8") == make_schema.text(make_schema.content())
    assert is_current()


@pytest.mark.parametrize("name", ["torch", "lightning", "sources"])
def test_it_is_not_used_with_anything_else_than_it_was_made_from(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = description.made_from() | {name: "another"}
    monkeypatch.setattr(description, "made_from", lambda: changed)
    assert not is_current()


@pytest.mark.parametrize(
    ("typehint", "words", "num_positional"),
    [
        (int | float | None, "a number or null", None),
        (Literal["a", 1] | bool, "a, 1, true or false", None),
        (PositiveInt | None, "a whole number of at least 1 or null", None),
        (dict[str, float], "a group of keys", None),
        (tuple[float, torch.Tensor], "a list", None),
        (Callable[[int, int], torch.nn.Module], "the class_path of a subclass of torch's Module", 2),
        (Callable[[Iterable[Any]], torch.optim.Optimizer], "the class_path of a subclass of torch's Optimizer", 1),
        (list[torch.nn.Module], "a list", None),
    ],
)
def test_a_type_keeps_its_words_and_what_it_accepts(typehint: Any, words: str, num_positional: int | None) -> None:
    before, after = (Takes(found, False, 0) for found in (typehint, decoded(encoded(typehint))))
    assert before.words == after.words == words
    assert before.num_positional == after.num_positional == num_positional
    for value in ("1", "0.5", "a", "true", "null", "[1.0, 2]", "{a: 1}", "torch.nope"):
        assert before.accepts(value) == after.accepts(value), value


@pytest.mark.parametrize("path", ["torch.optim.SGD", "torch.optim.lr_scheduler.OneCycleLR", "project.network.TextCNN"])
def test_a_class_is_described_under_the_keys_that_take_it(path: str) -> None:
    source = as_described("lit", "fit")
    base = {"project": "network", "torch": "lr_scheduler" if "lr_" in path else "optimizer"}[path.partition(".")[0]]
    found = source.arguments(path, source.keys[f"model.{base}"])
    assert found is not None
    module, _, name = path.rpartition(".")
    real = class_arguments(getattr(__import__(module, fromlist=[name]), name), 2 if base == "network" else 1)
    assert real is not None
    assert list(found) == list(real)
    other = "network" if base != "network" else "optimizer"
    with pytest.raises(UndescribedError):
        source.arguments(path, source.keys[f"model.{other}"])
    with pytest.raises(UndescribedError):
        source.arguments("mine.Net", source.keys["model.network"])


def test_output_is_a_key_of_predict_alone() -> None:
    assert "output" in as_described("hand", "predict").keys
    assert "output" not in as_described("hand", "test").keys
    assert "output" not in as_described("lit", "fit").keys


@pytest.mark.parametrize(
    ("key", "value", "fits"),
    [
        ("trainer.callbacks", "lightning.pytorch.callbacks.LearningRateMonitor", None),
        ("trainer.callbacks", "[lightning.pytorch.callbacks.LearningRateMonitor]", None),
        ("trainer.callbacks", "null", True),
        ("trainer.callbacks", "3", False),
        ("trainer.accelerator", "cpu", True),
        ("trainer.strategy", "{class_path: DDPStrategy}", None),
        ("trainer.logger", "false", True),
        ("model.lr_scheduler", "null", True),
        ("model.network", "3", False),
    ],
)
def test_of_what_may_name_a_class_the_signatures_have_to_tell(key: str, value: str, fits: bool | None) -> None:
    """`fits` is None where the description cannot tell, be it asked about an option or about the YAML of a file."""
    takes = as_described("lit", "fit").keys[key]
    node = yaml.compose(value)
    assert node is not None
    for given in (value, node):
        if fits is None:
            with pytest.raises(UndescribedError):
                takes.accepts(given)
        else:
            assert takes.accepts(given) == fits


def test_no_class_is_imported_for_what_takes_one_or_something_else() -> None:
    """In a process of its own, since this one has both packages."""
    program = (
        "import sys; from project.__main__ import main; code = main(sys.argv[1:]); "
        "print(code, {'torch', 'lightning'} & set(sys.modules))"
    )
    options = ["--trainer.accelerator=cpu", "--trainer.strategy=ddp", "--trainer.logger=false", "--trainer.callbacks=3"]
    command = [sys.executable, "-c", program, "fit", "--model.lr_scheduler=null", *options]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "2 set()\n"
