"""Runs every test that docs/faults.md names, refuses every hostile checkpoint, kills runs, counts what was survived.

    python scripts/survived.py            # what `make faults` runs

Each row of the page names a test; the row counts where all cases of that test passed.
"""

from __future__ import annotations

import os
import re
import sys
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "faults.md"
HOSTILE = "tests/faults/test_hostile_files.py::test_a_hostile_file_is_refused_with_one_line"
KILLED = "tests/resume/test_killed.py::test_killed_at_random_moments"
NUM_KILLS = 50
WHOLE = ("tests/faults/", "tests/config/test_trust.py")
"""Tests that are run whether the page names them or not."""


class Outcomes:
    """A plugin of pytest: how each case of each test ended, by the test's name."""

    def __init__(self) -> None:
        self.of: dict[str, list[str]] = defaultdict(list)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Called by pytest for set-up, call and teardown of each case."""
        if report.when == "call" or report.outcome != "passed":
            self.of[report.nodeid.partition("[")[0]].append(report.outcome)

    def passed(self, test: str) -> bool:
        """Whether all cases of a test passed, and there were any."""
        return set(self.of[test]) == {"passed"}


def main() -> int:
    """Print three counts; returns 1 where something was not survived."""
    faults = re.findall(r"^\| (.+?) \| .* \| `(tests/.+?)` \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    os.environ["TWINLOOP_KILLS"] = str(NUM_KILLS)
    outcomes = Outcomes()
    others = [test for _, test in faults if not test.startswith(WHOLE)]
    os.chdir(ROOT)
    pytest.main(["-q", "-m", "long or not long", *WHOLE, *dict.fromkeys([*others, KILLED])], plugins=[outcomes])
    survived = [fault for fault, test in faults if outcomes.passed(test)]
    for fault, test in faults:
        if not outcomes.passed(test):
            print(f"not survived: {fault}: {test} {' '.join(sorted(set(outcomes.of[test]))) or 'was not run'}")
    refused = outcomes.of[HOSTILE].count("passed")
    killed = NUM_KILLS if outcomes.passed(KILLED) else 0
    print(
        f"survived: {len(survived)} of {len(faults)} faults, {refused} of {len(outcomes.of[HOSTILE])} hostile "
        f"checkpoints, {killed} of {NUM_KILLS} kills at random moments"
    )
    is_whole = len(survived) == len(faults) and killed and outcomes.passed(HOSTILE)
    return 0 if is_whole else 1


if __name__ == "__main__":
    sys.exit(main())
