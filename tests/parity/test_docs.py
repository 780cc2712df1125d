"""docs/parity.md says what the code does."""

from __future__ import annotations

from pathlib import Path

from distributed.mistakes import MISTAKES as MISTAKES_BETWEEN_RANKS
from parity.mistakes import MISTAKES
from project.trace.stages import USUAL_CAUSES

LINES = (Path(__file__).parents[2] / "docs" / "parity.md").read_text(encoding="utf-8").splitlines()


def test_every_mistake_stands_in_the_table_with_its_stage() -> None:
    end = 0
    for mistakes in (MISTAKES, [mistake for mistake in MISTAKES_BETWEEN_RANKS if mistake.stage != "none"]):
        begin = LINES.index("| mistake | stage |", end) + 2
        end = begin + len(mistakes)
        assert LINES[begin:end] == [f"| {mistake.name} | {mistake.stage} |" for mistake in mistakes]


def test_every_stage_stands_in_the_table_with_its_causes() -> None:
    rows = {line.split(" | ")[0].removeprefix("| "): line for line in LINES if line.count(" | ") == 2}
    for stage, causes in USUAL_CAUSES.items():
        assert rows[stage].endswith(f"| {causes} |")
