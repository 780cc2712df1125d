"""Write constraints.txt anew: the newest version of every package that pyproject.toml allows, and of what those need.

    python scripts/renew_constraints.py [--torch 2.13.0]

pip resolves for the running Python and installs nothing. torch stays at the version that is pinned, unless another is
named: a new one changes bits. The CPU build is resolved; what the CUDA builds add, torch pins by itself. Afterwards:
`make test`, which also holds what is installed against the file.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
CONSTRAINTS = ROOT / "constraints.txt"
HEADER = "# Every package of the environment, by version; `python scripts/renew_constraints.py` writes this file.\n"


def pins(report: dict[str, Any]) -> dict[str, str]:
    """Version by name of what a report of `pip install` would install, but for this project itself."""
    found = (item["metadata"] for item in report["install"] if "dir_info" not in item["download_info"])
    versions = {package["name"]: package["version"].partition("+")[0] for package in found}
    return dict(sorted(versions.items(), key=lambda pin: pin[0].casefold()))


def read_pins(path: Path) -> dict[str, str]:
    """Version by name in a constraints file."""
    lines = (line.partition("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines())
    return dict(line.split("==") for line in lines if line)


def resolve(torch: str) -> dict[str, str]:
    """What pip would install for the project with its development tools, in an empty environment."""
    wanted = [f"{ROOT}[dev]", "setuptools", f"torch=={torch}+cpu"]
    options = ["--dry-run", "--ignore-installed", "--quiet", "--disable-pip-version-check", "--report", "-"]
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", *options, *wanted], stdout=subprocess.PIPE, check=True
    )
    return pins(json.loads(done.stdout))


def main(argv: Sequence[str]) -> int:
    """Resolve, write, and say what changed; returns the exit code."""
    before = read_pins(CONSTRAINTS)
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0], allow_abbrev=False)
    parser.add_argument("--torch", default=before["torch"], metavar="VERSION", help=f"default: {before['torch']}")
    options = parser.parse_args(argv)
    try:
        after = resolve(options.torch)
    except subprocess.CalledProcessError as error:
        print(
            f"error: pip ended with code {error.returncode}, see above; {CONSTRAINTS.name} is as it was",
            file=sys.stderr,
        )
        return 2
    text = HEADER + "".join(f"{name}=={version}\n" for name, version in after.items())
    CONSTRAINTS.write_text(text, encoding="utf-8")
    for name in sorted(before.keys() | after.keys(), key=str.casefold):
        if before.get(name) != after.get(name):
            print(f"{name}: {before.get(name, 'absent')} → {after.get(name, 'absent')}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
