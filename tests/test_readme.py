"""Every command that the README shows is one that works."""

from __future__ import annotations

import io
import json
import re
import shlex
import shutil
from pathlib import Path

import pytest
import torch
from torch import nn

import draw_house
import to_jsonl
from project.__main__ import COMMANDS, main
from project.parity.twins import train_here
from test_imports import HOUSE
from tiny_corpus import STRANGERS_NETWORK, Corpus, write_corpus

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
FENCES = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
BLOCKS = [block.replace("\\\n", " ") for language, block in FENCES if not language]
LINES = [re.sub(r"\s#.*", "", line).removeprefix("$ ").strip() for block in BLOCKS for line in block.splitlines()]
INLINE = re.findall(r"`(python -m project [^`]+)`", README)
COMMANDS_SHOWN = [line[line.index("python -m project") :] for line in LINES if "python -m project" in line] + INLINE
# The commands about a planted difference, and about one's own loop, belong together: they have tests of their own.
PLANTED = [line for line in COMMANDS_SHOWN if "decay" in line]
OWN_LOOP = [line for line in COMMANDS_SHOWN if ".jsonl theirs.jsonl" in line]
PROJECT = [line for line in COMMANDS_SHOWN if line not in PLANTED + OWN_LOOP]


def test_the_readme_shows_commands() -> None:
    assert {shlex.split(line)[3] for line in COMMANDS_SHOWN} == {*COMMANDS} - {"validate"}
    assert (len(PLANTED), len(OWN_LOOP)) == (3, 1)


def test_a_person_reads_it_in_some_minutes() -> None:
    assert len(README.splitlines()) <= 130


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
    if command == "explain":
        checkpoint = trained.folder / "runs" / "default" / "version_0" / "checkpoints" / "last.ckpt"
        assert main([command, "--ckpt_path", str(checkpoint), *arguments]) == 0
        return
    (tmp_path / "mynet.py").write_text(STRANGERS_NETWORK)
    monkeypatch.syspath_prepend(str(tmp_path))
    options = [*trained.arguments, "--trainer.accelerator=cpu", "--allow=mynet"]
    if command == "fit":
        options += ["--trainer.fast_dev_run=2"]
    if command == "compare":  # tests/parity starts a process for each twin
        monkeypatch.setattr("project.parity.cli.train", train_here)
        options += ["--trainer.max_steps=2"]
    if command == "predict":
        (row,) = re.findall(rf"^echo '(.*?)' \| {re.escape(line)}$", README, re.MULTILINE)
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(row.encode())))
    if "--print_config" in arguments:
        with pytest.raises(SystemExit) as stopped:
            main([command, *options, *arguments])
        assert stopped.value.code == 0
        return
    assert main([command, *arguments, *options]) == 0


def test_the_planted_difference_is_found_where_the_readme_shows_it(
    trained: Corpus, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On the tiny corpus: the place and its usual causes are the same, the numbers are not."""
    monkeypatch.chdir(ROOT)
    *runs, compare = (shlex.split(line)[3:] for line in PLANTED)
    for arguments in runs:
        assert main([*arguments, *trained.arguments, "--trainer.accelerator=cpu", "--trainer.max_steps=2"]) == 0
    monkeypatch.chdir(trained.folder)
    capsys.readouterr()
    assert main(compare) == 1
    lines = capsys.readouterr().out.splitlines()
    (shown,) = (block.splitlines() for block in BLOCKS if "first divergence" in block)
    begin = [line.startswith("first divergence") for line in shown].index(True)
    causes = [line.startswith("  usual causes") for line in shown].index(True)
    assert shown[begin] in lines
    assert lines[-3:] == shown[causes : causes + 3]
    assert shown[begin + 1].split(":")[0] in {line.split(":")[0] for line in lines}


def test_the_loop_of_ones_own_is_traced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (loop,) = (block for language, block in FENCES if language == "python" and "Tracer" in block)
    model = nn.Linear(2, 3)
    batches = [(torch.ones(4, 2), torch.tensor([0, 1, 2, 0]))] * 2
    exec(loop, {"nn": nn, "model": model, "optimizer": torch.optim.SGD(model.parameters(), lr=0.1), "batches": batches})
    shutil.copy("mine.jsonl", "theirs.jsonl")
    assert main(shlex.split(OWN_LOOP[0])[3:]) == 0
    text = Path("mine.jsonl").read_text(encoding="utf-8")
    records = [json.loads(line)["kind"] for line in text.splitlines()]
    assert records == ["trace", "micro_batch", "step", "micro_batch", "step"]
    Path("theirs.jsonl").write_text(text.replace('"source":"my loop"', '"source":"theirs"').replace("0x1.", "0x1.1", 1))
    assert main(shlex.split(OWN_LOOP[0])[3:]) == 1


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


def test_the_step_is_the_code() -> None:
    (step,) = (block for language, block in FENCES if language == "python" and "def optimizer_step" in block)
    source = (ROOT / "src" / "project" / "hand" / "loop.py").read_text(encoding="utf-8")
    assert f"\n\n\n{step}\n\n" in source  # the whole function


def test_the_house_is_drawn_and_described_as_it_is() -> None:
    page = draw_house.PAGE.read_text(encoding="utf-8")
    assert draw_house.drawn(page) == page, "python scripts/draw_house.py draws it anew"
    house = (ROOT / "docs" / "design.md").read_text(encoding="utf-8").split("| room |")[1].split("\n\n")[0]
    assert re.findall(r"^\| `(\w+)` \|", house, re.MULTILINE) == list(HOUSE)


def test_what_follows_from_other_arrows_is_not_drawn() -> None:
    arrows = {room: set[str]() for room in HOUSE} | {"data": {"errors", "config"}, "config": {"errors"}}
    assert draw_house.reduced(arrows) == arrows | {"data": {"config"}}


def test_contributing_says_what_each_long_target_is_for() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (targets,) = re.findall(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    everyday = {"fit", "test", "setup", "lint", "types", "unit", "tensorboard"}
    described = re.findall(r"^\| `make ([\w-]+)` \|", draw_house.PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(described) == set(targets.split()) - everyday


def test_links_lead_to_files() -> None:
    """In all pages, and to headings that are there."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
    num_links = 0
    for page in pages:
        text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        for link in re.findall(r"\]\(([^)\s]+)\)", text):
            path, _, heading = link.partition("#")
            target = page.parent / path if path else page
            assert target.exists(), f"{page.name}: {link}"
            if heading:
                titles = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)
                assert heading in [anchor(title) for title in titles], f"{page.name}: {link}"
            num_links += 1
    assert num_links > 20


def anchor(title: str) -> str:
    """A heading's name in links, as GitHub forms it."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def test_every_page_stands_in_the_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    for page in (ROOT / "docs").glob("*.md"):
        assert page.name == "README.md" or f"]({page.name})" in index
