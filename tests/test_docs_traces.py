"""docs/traces.md: its loops train, and `compare` says of their traces what the page says."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from project.__main__ import main
from project.trace.stages import STAGES
from project.trace.tracer import FORMAT

PAGE = (Path(__file__).parents[1] / "docs" / "traces.md").read_text(encoding="utf-8")
BLOCKS: list[tuple[str, str]] = re.findall(r"^```(\w+)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
VERDICT = ("first divergence: ", "equal, ")


def commands(console: str) -> list[tuple[str, list[str]]]:
    """Each command of a block, with the lines that it prints."""
    found: list[tuple[str, list[str]]] = []
    for line in console.splitlines():
        if line.startswith("$ "):
            found.append((line.removeprefix("$ "), []))
        else:
            found[-1][1].append(line)
    return found


def told(lines: list[str]) -> list[str]:
    """What is the same on every machine: which traces, and the verdict; not how many ULP.

    The step at which a fused kernel first rounds otherwise depends on the CPU.
    """
    assert lines
    verdict = [line for line in lines if line.startswith(VERDICT)]
    if "B: fused.jsonl" in lines:
        verdict = [re.sub(r"epoch \d+, micro-batch \d+, optimizer step \d+", "some step", line) for line in verdict]
    return [lines[0], *verdict]


def test_the_page_from_top_to_bottom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    namespace: dict[str, Any] = {"__name__": "page"}
    verdicts = []
    for language, text in BLOCKS:
        if language == "python":
            exec(compile(text, "docs/traces.md", "exec"), namespace)
        if language != "console":
            continue
        status = None
        for command, expected in commands(text):
            if command == "echo $?":
                assert expected == [str(status)]
                continue
            python, _, project, *arguments = shlex.split(command)
            assert (python, project) == ("python", "project")
            capsys.readouterr()
            status = main(arguments)
            found = told(capsys.readouterr().out.splitlines())
            assert found == told(expected), command
            verdicts += found[1:]
    assert [verdict.split()[0] for verdict in verdicts] == [
        "equal,",
        "first",
        "equal,",
        "first",
        "first",
        "equal,",
        "equal,",
    ]
    header = json.loads((tmp_path / "hand.jsonl").read_text(encoding="utf-8").splitlines()[0])
    (shown,) = (json.loads(text) for language, text in BLOCKS if language == "json")
    assert shown == header | {"torch": shown["torch"]}


def test_the_page_describes_every_stage_of_this_format() -> None:
    visible, format_ = PAGE.split("## Which stages are visible")[1].split("## The format")
    assert re.findall(r"^\| `(\w+)`", visible, re.MULTILINE) == list(STAGES)
    assert all(f"`{stage}`" in format_ for stage in STAGES)
    assert f'"format":{FORMAT}' in format_
