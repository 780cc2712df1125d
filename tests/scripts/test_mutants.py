"""The mutants fit the source as it is; `make mutants` tries them."""

from __future__ import annotations

import ast
from pathlib import Path

from mutants import EVERY, MUTANTS, PARTS

ROOT = Path(__file__).parents[2]


def test_each_mutant_is_one_line_of_valid_python_that_says_something_else() -> None:
    for mutant in MUTANTS:
        before, after = (ROOT / "src" / "project" / mutant.file).read_text(encoding="utf-8"), mutant.source()
        lines = zip(before.splitlines(), after.splitlines(), strict=True)
        assert sum(old != new for old, new in lines) == 1, mutant
        assert ast.dump(ast.parse(before)) != ast.dump(ast.parse(after)), mutant


def test_there_are_enough_of_them_and_their_tests_are_there() -> None:
    assert len({mutant.source() for mutant in MUTANTS}) == len(MUTANTS) >= 24
    assert all((ROOT / test).is_file() for part in PARTS for test in [*part.tests, *EVERY])
