"""Whose classes a configuration or a checkpoint may name: to name a class is to run its module's code.

By default those of the packages below and of the modules that lie in the working folder; the command line, and nothing
else, adds others with --allow NAME.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

from project.errors import UserError

PACKAGES = ("torch", "lightning", "torchmetrics", "project")
HELP = (
    "A class_path may name classes of torch, lightning, torchmetrics, project and of modules in the working folder; "
    "--allow NAME, as often as needed, adds a package or module that you trust."
)

_given: list[str] = []


def take_allowed(arguments: Sequence[str]) -> list[str]:
    """Take each `--allow NAME` out of a command's arguments, from then on trust these names; returns the others.

    Raises:
        UserError: where a name is missing or is no import path.
    """
    rest, given, words = list[str](), list[str](), iter(arguments)
    for word in words:
        option, equals, name = word.partition("=")
        if option != "--allow":
            rest.append(word)
            continue
        name = name if equals else next(words, "")
        if not all(part.isidentifier() for part in name.split(".")):
            raise UserError(
                f"--allow: expected a module such as timm or timm.models after it, found {name or 'nothing'}"
            )
        given.append(name)
    _given[:] = given
    return rest


def as_options() -> list[str]:
    """The names that were given, as options for a further process."""
    return [f"--allow={name}" for name in _given]


def trusted() -> list[str]:
    """All names that are trusted now; what is below one of them is, too."""
    here = Path.cwd()
    modules = [path.stem for path in here.glob("*.py")] + [path.parent.name for path in here.glob("*/*.py")]
    return [*PACKAGES, *_given, *sorted(name for name in set(modules) if name.isidentifier() and _is_here(name))]


def check_trusted(class_path: str) -> None:
    """Refuse a class by its import path, before anything is imported.

    Raises:
        UserError: where its module is not trusted, or is not there.
    """
    if any(class_path == name or class_path.startswith(f"{name}.") for name in (*PACKAGES, *_given)):
        return
    top = class_path.partition(".")[0]
    if _is_here(top):
        return
    if _spec(top) is None:
        raise UserError(f"{class_path}: there is no module {top}")
    raise UserError(
        f"{class_path}: refused, {top} is none of {', '.join(PACKAGES)} and no module of the working folder; "
        f"add --allow {top} if you trust its code"
    )


def _is_here(module: str) -> bool:
    """Whether a top-level module is imported from the working folder itself, not from an environment below it."""
    spec = _spec(module)
    places = [*(spec.submodule_search_locations or []), spec.origin] if spec else []
    return any(place and Path(place).parent == Path.cwd() for place in places)


def _spec(module: str) -> importlib.machinery.ModuleSpec | None:
    """Where a top-level module would come from; finding it runs nothing."""
    try:
        return importlib.util.find_spec(module)
    except (ImportError, ValueError):  # such as __main__
        return None
