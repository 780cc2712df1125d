"""Draws the house: which room imports which, as a Mermaid diagram in CONTRIBUTING.md.

    python scripts/draw_house.py

The imports are those that tests/test_imports.py reads. An arrow that follows from others is left out.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from project.__main__ import COMMANDS  # noqa: E402
from test_imports import HOUSE, SOURCE, imported, room_of  # noqa: E402

PAGE = ROOT / "CONTRIBUTING.md"
BEGIN, END = "<!-- the house -->", "<!-- end of the house -->"


def arrows() -> dict[str, set[str]]:
    """For each room, the rooms that its files import."""
    found: dict[str, set[str]] = {room: set() for room in HOUSE}
    for path in (SOURCE / "project").rglob("*.py"):
        room = room_of(path.relative_to(SOURCE / "project").parts)
        for _, name in imported(path, SOURCE):
            top, *rest = name.split(".")
            if top == "project" and rest and rest[0] in HOUSE and rest[0] != room and room in found:
                found[room].add(rest[0])
    return found


def reduced(arrows: dict[str, set[str]]) -> dict[str, set[str]]:
    """The arrows that do not follow from others. There is no circle, so the rest says the same."""
    reach: dict[str, set[str]] = {}
    for room in HOUSE:  # a room imports only those before it, whose reach is known
        reach[room] = set().union(*({target} | reach[target] for target in arrows[room]))
    return {
        room: {target for target in targets if not any(target in reach[other] for other in targets)}
        for room, targets in arrows.items()
    }


def diagram() -> str:
    """The house as Mermaid: a solid arrow imports; a dotted one starts a command."""
    lines = ["```mermaid", "graph BT"]
    for room, targets in reduced(arrows()).items():
        lines += [f"    {node(room)} --> {node(target)}" for target in sorted(targets, key=HOUSE.index)]
    started = {module.split(".")[1] for module, *_ in COMMANDS.values()}
    lines += [f"    {node('__main__')} -.-> {node(room)}" for room in sorted(started, key=HOUSE.index)]
    return "\n".join([*lines, "```"])


def node(room: str) -> str:
    """A room in the diagram. Mermaid would read the underscores of __main__ as bold."""
    return 'main["#95;#95;main#95;#95;"]' if room == "__main__" else room


def drawn(page: str) -> str:
    """The page with the diagram as the code has it."""
    before, rest = page.split(f"{BEGIN}\n")
    return f"{before}{BEGIN}\n{diagram()}\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    PAGE.write_text(drawn(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
