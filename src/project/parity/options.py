"""The command line of `compare`, read before torch is imported."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from project.config.trust import HELP
from project.errors import UserError

USAGE = """\
python -m project compare [options] --config FILE [--config FILE …] [--any.key VALUE …]
       python -m project compare [options] A B"""

DESCRIPTION = """\
Train both twins on one configuration, each in a fresh process, and compare every bit of their traces and checkpoints;
or compare two traces or run folders. Prints the first difference: epoch, micro-batch, optimizer step, stage.
With --ulp or --rtol, integers must still agree, and random states are not compared.
Exit codes: 0 equal, 1 different, 2 could not run."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UserError(f"compare: {message}; see python -m project compare --help")


def main(arguments: Sequence[str]) -> int:
    """Run `compare`; returns the exit code."""
    parser = _Parser(
        prog="python -m project compare",
        usage=USAGE,
        description=DESCRIPTION,
        epilog=textwrap.fill(HELP, 100),
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report as JSON, too")
    parser.add_argument("--ulp", type=int, default=0, metavar="N", help="floats up to N ULP apart are equal")
    parser.add_argument(
        "--rtol", type=float, default=0.0, metavar="R", help="floats this relative difference apart are equal"
    )
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep both runs and their traces here")
    known, rest = parser.parse_known_args(list(arguments))
    from project.parity.cli import run

    return run(known, rest)
