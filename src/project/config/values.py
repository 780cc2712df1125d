"""What a key of the configuration takes: its type in plain words, whether a value fits, and the classes it can name."""

from __future__ import annotations

import functools
import importlib
import sys
import types
from argparse import SUPPRESS, Action, ArgumentError
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

import yaml
from jsonargparse import ArgumentParser
from jsonargparse._link_arguments import ActionLink
from jsonargparse.typing import ClosedUnitInterval, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from project.config.nodes import is_null, pair
from project.config.trust import check_trusted
from project.errors import UserError, nearest

WORDS: dict[Any, str] = {
    str: "text",
    Path: "text",
    int: "a whole number",
    float: "a number",
    PositiveInt: "a whole number of at least 1",
    NonNegativeInt: "a whole number of at least 0",
    PositiveFloat: "a number above 0",
    NonNegativeFloat: "a number of at least 0",
    ClosedUnitInterval: "a number from 0 to 1",
    type(None): "null",
    list: "a list",
    dict: "a group of keys",
}
UNWRITABLE = ("Tensor", "timedelta")  # types in signatures that no YAML value has


class UndescribedError(Exception):
    """Not known yet, or not without importing a class."""


@dataclass(frozen=True)
class Takes:
    """What one key takes."""

    typehint: Any
    required: bool
    default: Any
    help: str = ""

    @staticmethod
    def of(action: Action) -> Takes:
        """What an option of a jsonargparse parser takes."""
        typehint = getattr(action, "_typehint", None) or action.type
        said = "" if action.help in (None, SUPPRESS) else " ".join(str(action.help).split())
        return Takes(typehint, action.required, action.default, said)

    @property
    def words(self) -> str:
        """Such as `a whole number or null`."""
        words = list(dict.fromkeys(_words(self.typehint)))
        if WORDS[float] in words and WORDS[int] in words:
            words.remove(WORDS[int])
        return " or ".join(filter(None, [", ".join(words[:-1]), words[-1] if words else "another value"]))

    @property
    def bases(self) -> tuple[type, ...]:
        """Classes of which a `class_path` may name a subclass; empty where the key takes none."""
        return tuple(dict.fromkeys(base for base, _ in _bases(self.typehint)))

    @property
    def num_positional(self) -> int | None:
        """How many leading arguments the program itself gives to the class; None where the key takes an instance."""
        return next((number for _, number in _bases(self.typehint)), None)

    @property
    def is_text(self) -> bool:
        """Whether any text will do."""
        return str in members(self.typehint) and not self.bases

    def accepts(self, value: yaml.Node | str) -> bool:
        """Whether a YAML value, or the text of a command-line option, fits."""
        if self.typehint is None:
            return True  # untyped, or a group of keys
        parser = _value_parser(self.typehint)
        try:
            if isinstance(value, str):
                parser.parse_args([f"--value={value}"])
            elif is_null(value):  # jsonargparse lets null pass for every type
                return (self.default is None and not self.required) or type(None) in members(self.typehint)
            else:
                parser.parse_string(yaml.serialize(pair("value", value)))
        except (ArgumentError, TypeError, ValueError):
            return False
        return True


@functools.cache
def _value_parser(typehint: Any) -> ArgumentParser:
    parser = ArgumentParser(exit_on_error=False)
    parser.add_argument("--value", type=typehint)
    return parser


@dataclass(frozen=True)
class Source:
    """What can be written, as a parser knows it, or the description that was made of one."""

    keys: dict[str, Takes]
    """Neither groups nor keys that follow another one are among them."""
    groups: set[str]
    """The keys that have keys under them."""
    links: dict[str, str]
    """The keys that follow another one, with that one."""
    arguments: Callable[[str, Takes], dict[str, Takes] | None]
    """What the arguments of a class take, by its import path and by what the key takes that names it."""

    @staticmethod
    def of(parser: ArgumentParser) -> Source:
        """As a parser knows it; its classes are imported."""
        links = {link.target[0]: link.source[0][0] for link in parser._actions if isinstance(link, ActionLink)}
        actions = [action for action in parser._actions if not action.dest.endswith(".help")]
        groups = groups_of(action.dest for action in actions)
        left_out = {"help", "config", "print_config", *links, *groups}
        keys = {action.dest: Takes.of(action) for action in actions if action.dest not in left_out}
        return Source(keys, groups, links, _imported_arguments)


def groups_of(keys: Iterable[str]) -> set[str]:
    """The beginnings, up to a dot, of all keys."""
    return {".".join(parts[:end]) for parts in (key.split(".") for key in keys) for end in range(1, len(parts))}


def _imported_arguments(path: str, takes: Takes) -> dict[str, Takes] | None:
    return class_arguments(find_class(path, takes.bases), takes.num_positional or 0)


@functools.cache
def class_arguments(found: type, num_given: int) -> dict[str, Takes] | None:
    """What the arguments of a class take, without the first `num_given`; None where its signature says nothing."""
    parser = ArgumentParser(exit_on_error=False)
    try:
        parser.add_class_arguments(found, skip={num_given} if num_given else set(), fail_untyped=False)
    except (ValueError, TypeError):
        return None
    return Source.of(parser).keys


def find_class(name: str, bases: tuple[type, ...]) -> type:
    """The class of this import path; a name without a dot is looked up among the known subclasses of `bases`.

    Raises:
        UserError: where there is none; the message lacks the key, which the caller knows.
    """
    module_name, _, class_name = name.rpartition(".")
    wanted = " or ".join(f"{base.__module__.partition('.')[0]}'s {base.__name__}" for base in bases)
    if not module_name:
        return _known_class(name, bases, wanted)
    check_trusted(name)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and (module_name == error.name or module_name.startswith(f"{error.name}.")):
            raise UserError(f"{name}: there is no module {error.name}") from None
        raise UserError(f"{name}: its import failed: {error}") from None
    except Exception as error:  # whatever a person's own module raises
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise UserError(f"{name}: its import failed: {reason}") from None
    found = getattr(module, class_name, None)
    if found is None:
        fitting = [key for key, value in vars(module).items() if isinstance(value, type) and issubclass(value, bases)]
        meant = nearest(class_name, sorted(fitting))
        hint = f"; did you mean {module_name}.{meant}?" if meant else ""
        raise UserError(f"{module_name} has no class {class_name}{hint}")
    if not isinstance(found, type):
        raise UserError(f"{name} is no class; expected a subclass of {wanted}")
    if not issubclass(found, bases):
        raise UserError(f"{name} is no subclass of {wanted}")
    check_trusted(f"{found.__module__}.{found.__qualname__}")  # a module may hand on what is another's
    return found


def _known_class(name: str, bases: tuple[type, ...], wanted: str) -> type:
    known = {found for base in bases for found in _subclasses(base)}
    fitting = sorted((found for found in known if found.__name__ == name), key=_path)
    if len(fitting) == 1:
        check_trusted(f"{fitting[0].__module__}.{name}")
        return fitting[0]
    if fitting:
        raise UserError(f"{name} may be {' or '.join(map(_path, fitting))}; write one of them")
    names = {found.__name__: found for found in sorted(known, key=_path)}
    meant = nearest(name, names)
    hint = f"; did you mean {_path(names[meant])}?" if meant else ""
    raise UserError(f"no class {name}; expected the import path of a subclass of {wanted}{hint}")


def _path(found: type) -> str:
    """The shortest import path, torch.optim.AdamW rather than torch.optim.adamw.AdamW."""
    parts = found.__module__.split(".")
    for end in range(1, len(parts)):
        module = ".".join(parts[:end])
        if getattr(sys.modules[module], found.__name__, None) is found:
            return f"{module}.{found.__name__}"
    return f"{found.__module__}.{found.__qualname__}"


def _subclasses(base: type) -> Iterator[type]:
    yield base
    derived: type
    for derived in type.__subclasses__(base):
        yield from _subclasses(derived)


def is_union(typehint: Any) -> bool:
    """Whether the type is one of several."""
    return get_origin(typehint) in (Union, types.UnionType)


def members(typehint: Any) -> Iterator[Any]:
    """The alternatives of a union, or the type itself."""
    if is_union(typehint):
        for member in get_args(typehint):
            yield from members(member)
    else:
        yield typehint


def _bases(typehint: Any) -> Iterator[tuple[type, int | None]]:
    for member in members(typehint):
        origin, inner = get_origin(member), get_args(member)
        if origin is Callable and isinstance(inner[1], type):  # a class that the program calls
            yield inner[1], len(inner[0])
        elif origin in (list, Iterable):
            yield from _bases(inner[0])
        elif (
            isinstance(member, type)
            and not origin
            and member not in (Any, bool, *WORDS)
            and member.__name__ not in UNWRITABLE
        ):
            yield member, None


def _words(typehint: Any) -> Iterator[str]:
    for member in members(typehint):
        origin = get_origin(member)
        if member in WORDS:
            yield WORDS[member]
        elif member is bool:
            yield from ("true", "false")
        elif origin is Literal:
            yield from map(str, get_args(member))
        elif origin is Callable or (not origin and next(_bases(member), None)):
            base = next(_bases(member))[0]
            yield f"the class_path of a subclass of {base.__module__.partition('.')[0]}'s {base.__name__}"
        elif isinstance(origin, type) and issubclass(origin, Mapping):
            yield WORDS[dict]
        elif isinstance(origin, type) and issubclass(origin, Iterable):
            yield WORDS[list]
