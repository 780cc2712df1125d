"""docs/parity.md says what the code does."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from distributed.mistakes import MISTAKES as ALL_BETWEEN_RANKS
from parity.mistakes import MISTAKES, Mistake
from project.trace.stages import USUAL_CAUSES

LINES = (Path(__file__).parents[2] / "docs" / "parity.md").read_text(encoding="utf-8").splitlines()
BETWEEN_RANKS = [mistake for mistake in ALL_BETWEEN_RANKS if mistake.stage != "none"]  # none: a control


def room(mistake: Mistake) -> str:
    """Where a mistake is planted."""
    (found,) = {file.split("/")[0] for file in mistake.edits} or {"options"}
    return found


def test_every_mistake_stands_in_the_table_with_its_room_and_stage() -> None:
    end = 0
    for mistakes in (MISTAKES, BETWEEN_RANKS):
        begin = LINES.index("| mistake | room | stage |", end) + 2
        end = begin + len(mistakes)
        assert LINES[begin:end] == [f"| {mistake.name} | {room(mistake)} | {mistake.stage} |" for mistake in mistakes]
        assert LINES[end] == ""


def test_the_page_counts_the_rooms_of_the_mistakes() -> None:
    rooms = Counter(room(mistake) for mistake in (*MISTAKES, *BETWEEN_RANKS))
    num_shared = rooms.total() - rooms["hand"] - rooms["options"]
    assert (
        f"Of the {rooms.total()} mistakes, {rooms['hand']} edit the room `hand`, {num_shared} edit rooms that both "
        f"twins share, and {rooms['options']} change options only."
    ) in " ".join(LINES)


def test_every_stage_stands_in_the_table_with_its_causes() -> None:
    rows = {line.split(" | ")[0].removeprefix("| "): line for line in LINES if line.count(" | ") == 2}
    for stage, causes in USUAL_CAUSES.items():
        assert rows[stage].endswith(f"| {causes} |")
