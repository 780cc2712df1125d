"""What a person may write, as schema.json describes it: known without torch and Lightning, whose import takes seconds.

scripts/make_schema.py writes that file from the parsers of both twins.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import json
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

import yaml

from project.config.values import Source, Takes, UndescribedError, groups_of, is_union, members

FILE = Path(__file__).with_name("schema.json")
DESCRIBED = (
    *("*/config.py", "network/*.py", "commands/arguments.py", "data/tokenizer.py", "learn/recipe.py"),
    *("hand/settings.py", "hand/trainer.py", "lit/cli.py", "lit/datamodule.py", "lit/module.py"),
)
"""Files of the project that the description is made from."""
LIGHT = ("builtins", "collections", "datetime", "jsonargparse", "pathlib", "typing")
"""Packages whose types are taken as they are; those of others are stood for by an empty class of the same name."""


@functools.cache
def made_from() -> dict[str, str]:
    """What the description depends on, as it is installed now."""
    folder = FILE.parents[1]
    digest = hashlib.sha256()
    for path in sorted(path for pattern in DESCRIBED for path in folder.glob(pattern)):
        digest.update(path.read_bytes())
    versions = {name: version(name).partition("+")[0] for name in ("torch", "lightning")}
    return versions | {"sources": digest.hexdigest()}


@functools.cache
def content() -> dict[str, Any]:
    """What the file says."""
    return dict(json.loads(FILE.read_text(encoding="utf-8")))


def is_current() -> bool:
    """Whether the description was made from what is installed now."""
    return bool(content()["made_from"] == made_from())


def described(twin: str, command: str) -> Source | None:
    """The keys of a twin's command, `lit` or `hand`; None where the description is not current.

    Asking it for the arguments of a class that is not described raises UndescribedError.
    """
    return as_described(twin, command) if is_current() else None


def as_described(twin: str, command: str) -> Source:
    """The keys of a twin's command, as they were when the description was made."""
    section = content()["evaluation" if twin == "hand" and command != "fit" else twin]
    keys = {key: _takes(entry) for key, entry in section["keys"].items() if key != "output" or command == "predict"}
    links = dict(section["links"])

    def arguments(path: str, takes: Takes) -> dict[str, Takes]:
        found = content()["classes"].get(path)
        if found is None or found["is"] not in map(name_of, takes.bases):
            raise UndescribedError(path)
        return {name: _takes(entry) for name, entry in found["arguments"].items()}

    return Source(keys, groups_of([*keys, *links]), links, arguments)


def entry_of(takes: Takes) -> dict[str, Any]:
    """What the description says of a key or argument; `_takes` reads it."""
    is_plain = isinstance(takes.default, bool | int | float | str | list | tuple | dict | None)
    default = takes.default if is_plain else str(takes.default)
    said = {"help": takes.help} if takes.help else {}
    return {"type": encoded(takes.typehint), **({"required": True} if takes.required else {"default": default}), **said}


class Described(Takes):
    """What one key takes by the description."""

    def accepts(self, value: yaml.Node | str) -> bool:
        """Whether the value fits.

        Raises:
            UndescribedError: where it may name a class, of which the description has only the name.
        """
        if not self.bases:
            return super().accepts(value)
        try:
            node = yaml.compose(value) if isinstance(value, str) else value
        except yaml.YAMLError:
            raise UndescribedError(value) from None
        others = [member for member in members(self.typehint) if not Takes(member, False, None).bases]
        is_text = isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:str"
        if not isinstance(node, yaml.ScalarNode) or (is_text and str not in others):
            raise UndescribedError(str(self.bases[0]))
        # Without the classes: jsonargparse would import their modules.
        return bool(others) and Takes(Union[tuple(others)], self.required, self.default).accepts(node)  # noqa: UP007


def _takes(entry: dict[str, Any]) -> Takes:
    return Described(decoded(entry["type"]), "required" in entry, entry.get("default"), entry.get("help", ""))


def encoded(typehint: Any) -> Any:
    """A type as JSON: a name, or a list of a name and what stands in its brackets; `decoded` reads it."""
    origin, inner = get_origin(typehint), get_args(typehint)
    if typehint is type(None):
        return None
    if origin is Literal:
        return ["Literal", *inner]
    if is_union(typehint):
        return ["Union", *map(encoded, inner)]
    if origin is Callable and isinstance(inner[0], list):
        return ["Callable", len(inner[0]), encoded(inner[1])]  # whatever it is called with
    if isinstance(origin, type) and Ellipsis not in inner:
        return [name_of(origin), *map(encoded, inner)]
    return name_of(typehint) if isinstance(typehint, type) else "typing.Any"


def decoded(entry: Any) -> Any:
    """The type that `encoded` wrote."""
    if entry is None:
        return type(None)
    if isinstance(entry, str):
        return _type(entry)
    name, *inner = entry
    if name == "Literal":
        return Literal[tuple(inner)]
    if name == "Callable":
        return Callable[[Any] * inner[0], decoded(inner[1])]
    parts = tuple(map(decoded, inner))
    return Union[parts] if name == "Union" else _type(name)[parts]  # noqa: UP007


def name_of(found: type) -> str:
    """A class's module and name."""
    return f"{found.__module__}.{found.__qualname__}"


@functools.cache
def _type(name: str) -> Any:
    module, _, own = name.rpartition(".")
    if module.partition(".")[0] in LIGHT:
        return getattr(importlib.import_module(module), own)
    return type(own, (), {"__module__": module})
