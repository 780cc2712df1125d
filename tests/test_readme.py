"""Every command that the README shows is one that works."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

import to_jsonl
from project.__main__ import COMMANDS, main
from tiny_corpus import STRANGERS_NETWORK, Corpus, write_corpus

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
FENCES = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
BLOCKS = [block.replace("\\\n", " ") for language, block in FENCES if not language]
LINES = [re.sub(r"\s#.*", "", line).removeprefix("$ ").strip() for block in BLOCKS for line in block.splitlines()]
PROJECT = [line for line in LINES if line.startswith("python -m project")]


def test_the_readme_shows_commands() -> None:
    assert len(PROJECT) >= 6
    assert {shlex.split(line)[3] for line in PROJECT} <= set(COMMANDS)


def test_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z.]+):", makefile, re.MULTILINE))
    named = {line.split()[1] for line in LINES if line.startswith("make ")}
    assert {"fit", "test"} <= named <= targets


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    corpus = write_corpus(tmp_path_factory.mktemp("readme"))
    options = [*corpus.arguments, "--trainer.max_steps=2", "--trainer.log_every_n_steps=1"]
    assert main(["fit", "--config", str(ROOT / "configs" / "default.yaml"), *options]) == 0
    return corpus


@pytest.mark.parametrize("line", PROJECT)
def test_project_command(line: str, trained: Corpus, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Run from the repository's root, on the tiny corpus and for two steps."""
    command, *arguments = shlex.split(line)[3:]
    monkeypatch.chdir(ROOT)
    run = trained.folder / "runs" / "default" / "version_0"
    arguments = [re.sub(r"runs/\w+/version_\d", str(run), argument) for argument in arguments]
    if command == "explain":
        assert main([command, "--ckpt_path", str(run / "checkpoints" / "last.ckpt"), *arguments]) == 0
        return
    if command == "compare" and "--config" not in arguments:
        assert main([command, *arguments]) == 0  # a run with itself
        return
    (tmp_path / "mynet.py").write_text(STRANGERS_NETWORK)
    monkeypatch.syspath_prepend(str(tmp_path))
    options = [*trained.arguments, "--trainer.accelerator=cpu", "--allow=mynet"]
    if command == "fit":
        options += ["--trainer.fast_dev_run=2"]
    if "--print_config" in arguments:
        with pytest.raises(SystemExit) as stopped:
            main([command, *options, *arguments])
        assert stopped.value.code == 0
        return
    assert main([command, *arguments, *options]) == 0


def test_the_piped_row_is_valid() -> None:
    rows = [json.loads(found) for found in re.findall(r"^echo '(.*?)' \|", README, re.MULTILINE)]
    assert rows
    assert all(list(row) == ["text"] for row in rows)


def test_to_jsonl_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = next(line for line in LINES if line.startswith("python scripts/to_jsonl.py"))
    rows = "".join(f"text number {number},{number % 2}\n" for number in range(40))
    (tmp_path / "reviews.csv").write_text("body,stars\n" + rows)
    monkeypatch.chdir(tmp_path)
    assert to_jsonl.main(shlex.split(line)[2:]) == 0
    assert sorted(path.name for path in (tmp_path / "data" / "reviews").iterdir()) == [
        "test.jsonl",
        "train.jsonl",
        "val.jsonl",
    ]


def test_the_steps_side_by_side_are_the_code() -> None:
    blocks = [block for language, block in FENCES if language == "python"]
    for block, file in zip(blocks, ("hand/loop.py", "lit/module.py"), strict=True):
        source = (ROOT / "src" / "project" / file).read_text(encoding="utf-8")
        for line in (line.strip() for line in block.splitlines()[1:]):
            assert line.partition("  #")[0] in source, line
