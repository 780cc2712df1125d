"""docs/faults.md says what the code says, and names tests that exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from faults import hostile

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "faults.md").read_text(encoding="utf-8")


class Row(NamedTuple):
    fault: str
    seen: str
    test: str


ROWS = [
    Row(*(cell.strip() for cell in line.strip("|").split(" | ")))
    for line in PAGE.splitlines()
    if line.startswith("| ") and not line.startswith("| fault ")
]


@cache
def functions(file: str) -> set[str]:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@cache
def messages() -> str:
    """The program's sources, with string literals that are continued on the next line put together."""
    files = [*(ROOT / "src").rglob("*.py"), *(ROOT / "scripts").glob("*.py")]
    return "".join(re.sub(r'"\n\s*f?"', "", file.read_text(encoding="utf-8")) for file in files)


def test_there_are_many_and_each_is_another() -> None:
    assert len(ROWS) >= 45
    assert len({row.fault for row in ROWS}) == len(ROWS) - 1  # a missing file may be data or a checkpoint


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.fault)
def test_the_test_of_a_row_exists(row: Row) -> None:
    file, name = row.test.strip("`").split("::")
    assert name in functions(file)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.fault)
def test_what_the_user_sees_is_what_the_program_says(row: Row) -> None:
    quoted = re.findall(r"`(.+?)`", row.seen)
    assert quoted or row.seen.startswith(("nothing: ", "the same", "one line", "that rank's error"))
    for words in quoted:
        assert words == "file:line" or words in messages(), words


def test_the_number_of_routes_is_the_corpus_own() -> None:
    assert f"by {len(hostile.RUNS_CODE)} routes" in PAGE
