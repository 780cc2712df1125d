"""The import contract: arrows between the rooms of the house run one way.

Imports are read from the syntax tree, also those inside functions, so nothing is imported and no branch escapes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"

HOUSE = (
    "errors",
    "private",
    "config",
    "data",
    "network",
    "ranks",
    "learn",
    "trace",
    "checkpoint",
    "between",
    "commands",
    "hand",
    "lit",
    "parity",
    "tools",
    "__main__",
)
"""The rooms. A room is a folder, or a file right under project/; it may import those that stand before it."""
MAY_IMPORT = {room: set(HOUSE[:place]) - ({"hand"} if room == "lit" else set()) for place, room in enumerate(HOUSE)}
LIGHTNING = {"lightning", "lightning_fabric", "pytorch_lightning", "torchmetrics"}
FORBIDDEN_EVERYWHERE = {"sklearn"}  # a development dependency
MAY_NOT_IMPORT = {room: LIGHTNING for room in MAY_IMPORT if room not in ("lit", "parity", "tools")}


def imported(path: Path, source: Path) -> Iterator[tuple[int, str]]:
    """Line and dotted name of everything that a file imports, relative imports and import_module("…") resolved."""
    package = list(path.relative_to(source).parent.parts)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                yield node.lineno, f"{module}.{alias.name}"
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            function = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if function in ("import_module", "__import__"):
                yield node.lineno, str(node.args[0].value)


def room_of(parts: tuple[str, ...]) -> str:
    """The room of a module, from the parts of its name below `project`."""
    return parts[0].removesuffix(".py") if parts else ""


def violations(source: Path) -> list[str]:
    """Each import under `source`/project that the contract forbids, as `file:line: what`."""
    found = []
    for path in sorted((source / "project").rglob("*.py")):
        below = path.relative_to(source / "project").parts
        if below == ("__init__.py",):
            room, allowed = "project itself", set[str]()
        else:
            room = room_of(below)
            if room not in MAY_IMPORT:
                found.append(f"{path.relative_to(source)}:1: the room {room} is not in the contract")
                continue
            allowed = MAY_IMPORT[room] | {room}
        for line, name in imported(path, source):
            top, *rest = name.split(".")
            place = f"{path.relative_to(source)}:{line}"
            if top in FORBIDDEN_EVERYWHERE | MAY_NOT_IMPORT.get(room, set()):
                found.append(f"{place}: {room} imports {top}")
            elif top == "project" and rest and rest[0] not in allowed:
                found.append(f"{place}: {room} imports {rest[0]}")
    return found


def cycle(source: Path) -> set[str]:
    """The modules that lie on, or between, cycles of imports; empty where every import leads to an end."""
    modules = {}
    for path in (source / "project").rglob("*.py"):
        parts = path.relative_to(source).with_suffix("").parts
        modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    arrows: dict[str, set[str]] = {}
    for name, path in modules.items():
        prefixes = (target.split(".") for _, target in imported(path, source))
        found = ([".".join(parts[:end]) for end in range(len(parts), 0, -1)] for parts in prefixes)
        targets = (next((prefix for prefix in candidates if prefix in modules), None) for candidates in found)
        arrows[name] = {target for target in targets if target is not None}
    while leaves := {name for name, targets in arrows.items() if not targets & arrows.keys()}:
        arrows = {name: targets for name, targets in arrows.items() if name not in leaves}
    while arrows:  # what only leads into a cycle is not on it
        reached = set[str]().union(*arrows.values())
        if arrows.keys() <= reached:
            break
        arrows = {name: targets for name, targets in arrows.items() if name in reached}
    return set(arrows)


def write_tree(source: Path, files: dict[str, str]) -> None:
    """Write files of a made-up project, by their path below `source`/project."""
    for name, code in files.items():
        path = source / "project" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code)


def test_the_project_keeps_the_contract() -> None:
    assert violations(SOURCE) == []


def test_every_room_that_exists_is_seen() -> None:
    """An empty walk would also find no violation."""
    rooms = {room_of(path.relative_to(SOURCE / "project").parts) for path in (SOURCE / "project").rglob("*.py")}
    assert rooms == {*HOUSE, "__init__"}
    names = {name for path in (SOURCE / "project").rglob("*.py") for _, name in imported(path, SOURCE)}
    assert {"torch", "lightning", "project.data.rows.load_rows"} <= names


def test_no_module_imports_itself_by_a_detour() -> None:
    assert cycle(SOURCE) == set()


def test_the_checker_finds_a_cycle(tmp_path: Path) -> None:
    files = {
        "config/__init__.py": "from project.data.rows import load_rows",
        "data/__init__.py": "",
        "data/rows.py": "from . import batch, order",
        "data/batch.py": "def f():\n    import project.config",
        "data/order.py": "from project.errors import UserError",
        "errors.py": "",
    }
    write_tree(tmp_path, files)
    assert cycle(tmp_path) == {"project.config", "project.data.rows", "project.data.batch"}
    (tmp_path / "project" / "data" / "batch.py").write_text("")
    assert cycle(tmp_path) == set()


@pytest.mark.parametrize(
    ("file", "code", "violation"),
    [
        ("data/rows.py", "import lightning as L", "data imports lightning"),
        ("data/rows.py", "from lightning.pytorch import Trainer", "data imports lightning"),
        ("learn/plan.py", "import pytorch_lightning", "learn imports pytorch_lightning"),
        ("learn/plan.py", "from torchmetrics.classification import Accuracy", "learn imports torchmetrics"),
        ("checkpoint/file.py", "def f():\n    import project.lit.cli", "checkpoint imports lit"),
        ("checkpoint/file.py", "from project.tools import explain", "checkpoint imports tools"),
        ("network/textcnn.py", "from ..hand import loop", "network imports hand"),
        ("network/blocks.py", "from ..lit.module import LitClassifier", "network imports lit"),
        ("data/rows.py", "from project import commands", "data imports commands"),
        ("data/rows.py", "from project.learn.plan import Plan", "data imports learn"),
        ("config/keys.py", "from project.data.config import DataConfig", "config imports data"),
        ("data/rows.py", "try:\n    import sklearn.svm\nexcept ImportError:\n    pass", "data imports sklearn"),
        ("tools/check.py", "from sklearn.svm import SVC", "tools imports sklearn"),
        ("lit/cli.py", "import project.hand.loop", "lit imports hand"),
        ("lit/cli.py", "from project import hand", "lit imports hand"),
        ("lit/cli.py", "from project.parity.compare import align", "lit imports parity"),
        ("lit/cli.py", "import importlib\nimportlib.import_module('project.hand.loop')", "lit imports hand"),
        ("hand/loop.py", "from project.lit.module import LitClassifier", "hand imports lit"),
        ("hand/loop.py", "import lightning.fabric", "hand imports lightning"),
        ("hand/loop.py", "from project.__main__ import main", "hand imports __main__"),
        ("errors.py", "import project.data.rows", "errors imports data"),
        ("trace/tracer.py", "import lightning", "trace imports lightning"),
        ("commands/runs.py", "from .. import lit", "commands imports lit"),
        ("commands/report.py", "from project.lit.module import LitClassifier", "commands imports lit"),
        ("__main__.py", "import lightning", "__main__ imports lightning"),
        ("__init__.py", "from project.data.rows import load_rows", "project itself imports data"),
        ("shed/spade.py", "import torch", "the room shed is not in the contract"),
    ],
)
def test_the_checker_finds_a_violation(tmp_path: Path, file: str, code: str, violation: str) -> None:
    write_tree(tmp_path, {file: code})
    assert [found.split(": ", 1)[1] for found in violations(tmp_path)] == [violation]
    assert violations(tmp_path)[0].startswith(f"project/{file}:")


def test_the_checker_lets_the_arrows_of_the_house_pass(tmp_path: Path) -> None:
    files = {
        "data/rows.py": "import torch\nfrom project.errors import UserError\nfrom . import batch\nfrom .batch import x",
        "hand/loop.py": "from project.data.rows import load_rows\nfrom project.trace import write\nimport torch",
        "lit/cli.py": "import lightning\nimport torchmetrics\nfrom project.data.config import DataConfig",
        "parity/compare.py": "from project.lit import cli\nfrom project.hand import loop",
        "tools/explain.py": "from project.checkpoint.classifier import Classifier\nfrom project.lit.cli import Cli",
        "__main__.py": "import project\nimport project.tools.explain",
    }
    write_tree(tmp_path, files)
    assert violations(tmp_path) == []
