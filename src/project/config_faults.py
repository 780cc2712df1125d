"""Finds every fault of YAML files and command-line options before a run starts, each with its place.

jsonargparse stops at the first fault and does not know line numbers. So YAML files are read here as nodes, their keys
are held against the parser's, and only where something is wrong is each value parsed by itself.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import re
from argparse import ArgumentError
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from jsonargparse import ArgumentParser, Namespace

from project.errors import UserError

SHOWN = ("--help", "-h", "--print_config", "--print_shtab")


@dataclass(frozen=True)
class Entry:
    """One key of a YAML file that is an option of the parser, with its value's node."""

    place: str
    key: str
    value: yaml.Node


def check_arguments(parser: ArgumentParser, arguments: Sequence[str]) -> Namespace:
    """Parse, or report all faults at once.

    Raises:
        UserError: one line per fault, `file:line: key: what is wrong, what would be right`.
    """
    if any(argument.partition("=")[0] in SHOWN for argument in arguments):
        return parser.parse_args(list(arguments))
    known = {action.dest for action in parser._actions if action.dest not in ("help", "config")}
    known = {key for key in known if not key.endswith(".help")}
    faults: list[str] = []
    entries: list[Entry] = []
    for path in _config_files(arguments):
        faults += _read_file(path, known, entries)
    faults += _unknown_options(arguments, known)
    try:
        config = parser.parse_args(list(arguments))
    except (ArgumentError, TypeError, ValueError) as error:
        faults += _wrong_values(parser, entries, arguments, known)
        raise UserError("\n".join(faults or [_plain(str(error))])) from None
    if faults:
        raise UserError("\n".join(faults))
    return config


def _config_files(arguments: Sequence[str]) -> Iterator[Path]:
    for argument, following in zip(arguments, [*arguments[1:], ""], strict=True):
        if argument == "--config":
            yield Path(following)
        elif argument.startswith("--config="):
            yield Path(argument.partition("=")[2])


def _read_file(path: Path, known: set[str], entries: list[Entry]) -> Iterator[str]:
    try:
        root = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except (OSError, UnicodeDecodeError) as error:
        reason = "no such file" if isinstance(error, FileNotFoundError) else error
        yield f"{path}: cannot read this configuration: {reason}"
        return
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        yield f"{path}:{line}: not valid YAML: {error.problem}"
        return
    if root is None:  # a file of comments alone changes nothing
        return
    if not isinstance(root, yaml.MappingNode):
        yield f"{path}:1: expected keys and values, such as `trainer:`, found {_shown(root)}"
        return
    yield from _read_mapping(path, root, "", known, entries)


def _read_mapping(
    path: Path, mapping: yaml.MappingNode, prefix: str, known: set[str], entries: list[Entry]
) -> Iterator[str]:
    first_lines: dict[str, int] = {}
    for key_node, value in mapping.value:
        key, line = prefix + str(key_node.value), key_node.start_mark.line + 1
        place = f"{path}:{line}"
        if key in first_lines:
            yield f"{place}: {key}: given twice, first in line {first_lines[key]}; keep one"
        first_lines.setdefault(key, line)
        is_group = any(name.startswith(key + ".") for name in known)
        if is_group and isinstance(value, yaml.MappingNode):
            yield from _read_mapping(path, value, key + ".", known, entries)
        elif is_group:
            yield f"{place}: {key}: expected a group of keys, found {_shown(value)}"
        elif key not in known:
            yield f"{place}: {key}: no such key{_suggestion(key, known)}"
        else:
            entries.append(Entry(place, key, value))
            yield from _unknown_init_args(path, key, value, entries)


def _unknown_init_args(path: Path, key: str, value: yaml.Node, entries: list[Entry]) -> Iterator[str]:
    """Faults among the init_args of a class; the class may stand in an earlier file."""
    if not isinstance(value, yaml.MappingNode):
        return
    init_args = _child(value, "init_args")
    given = [_child(entry.value, "class_path") for entry in entries if entry.key == key]
    class_path = next((node.value for node in reversed(given) if node is not None), None)
    if class_path is None or not isinstance(init_args, yaml.MappingNode):
        return
    accepted = _accepted_arguments(str(class_path))
    for name_node, _ in init_args.value:
        if accepted and name_node.value not in accepted:
            yield (
                f"{path}:{name_node.start_mark.line + 1}: {key}.init_args.{name_node.value}: "
                f"{class_path} has no such argument{_suggestion(name_node.value, accepted)}"
            )


def _accepted_arguments(class_path: str) -> set[str]:
    """Names of the class's arguments; empty where the class is unknown or takes any."""
    module_name, _, class_name = class_path.rpartition(".")
    try:
        signature = inspect.signature(getattr(importlib.import_module(module_name), class_name))
    except (ImportError, AttributeError, ValueError, TypeError):
        return set()  # jsonargparse says what is wrong with the class itself
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in signature.parameters.values()):
        return set()
    return set(signature.parameters)


def _unknown_options(arguments: Sequence[str], known: set[str]) -> Iterator[str]:
    classes = tuple(f"{key}." for key in known)  # --model.network.init_args.dim is a part of model.network
    for argument in arguments:
        if not argument.startswith("--"):
            continue
        key = argument[2:].partition("=")[0].removesuffix("+")
        if key not in known and key != "config" and not key.startswith(classes):
            yield f"command line: --{key}: no such option{_suggestion(key, known, '--')}"


def _wrong_values(
    parser: ArgumentParser, entries: Sequence[Entry], arguments: Sequence[str], known: set[str]
) -> Iterator[str]:
    """Parse each value by itself and report those that are refused."""
    classes: dict[str, yaml.Node] = {}
    for entry in entries:
        value = entry.value
        if isinstance(value, yaml.MappingNode) and isinstance(earlier := classes.get(entry.key), yaml.MappingNode):
            value = yaml.MappingNode(value.tag, [*earlier.value, *value.value])
        classes[entry.key] = value
        nested = value
        for name in reversed(entry.key.split(".")):
            nested = yaml.MappingNode(
                "tag:yaml.org,2002:map", [(yaml.ScalarNode("tag:yaml.org,2002:str", name), nested)]
            )
        if fault := _refusal(parser.parse_string, yaml.serialize(nested)):
            yield f"{entry.place}: {entry.key}: {fault}"
    for argument, following in zip(arguments, [*arguments[1:], ""], strict=True):
        key, equals, _ = argument.removeprefix("--").partition("=")
        if argument.startswith("--") and key in known:
            option = [argument] if equals else [argument, following]
            if fault := _refusal(parser.parse_args, option):
                yield f"command line: --{key}: {fault}"


def _refusal(parse: Callable[[Any], Namespace], value: Any) -> str | None:
    try:
        parse(value)
    except (ArgumentError, TypeError, ValueError) as error:
        message = str(error)
        return None if "are required" in message or "is required" in message else _plain(message)
    return None


def _plain(message: str) -> str:
    """jsonargparse's message as one line, without Python's names of types where YAML has its own."""
    given = re.search(r"(?:Got value|Given value): (.*)\Z", message, re.DOTALL)
    expected = re.findall(r"Expected an? (<class '[\w.]+'>|typing\.Literal\[[^\]]*\]|[\w ]*path[\w ]*)", message)
    accepted = re.findall(r"Option '(\w+)' is not accepted", message)
    if expected and given and not accepted:
        names = [re.sub(r"<class '(?:[\w.]+\.)?(\w+)'>", r"\1", name) for name in dict.fromkeys(expected)]
        names = ["null" if name == "NoneType" else name.removeprefix("typing.Literal") for name in names]
        return f"expected {' or '.join(names)}, found {' '.join(given[1].split())}"
    if accepted:
        return f"no such key: {accepted[0]}"
    message = re.sub(r"Parser key \"([\w.]+)\":", r"\1:", message)
    return " ".join(message.split())


def _child(node: yaml.Node, name: str) -> yaml.Node | None:
    pairs = node.value if isinstance(node, yaml.MappingNode) else []
    return next((value for key, value in pairs if key.value == name), None)


def _shown(node: yaml.Node) -> str:
    if isinstance(node, yaml.ScalarNode):
        return repr(node.value)
    return "a list" if isinstance(node, yaml.SequenceNode) else "a group of keys"


def _suggestion(key: str, known: set[str], dashes: str = "") -> str:
    """`; did you mean …?` with the nearest known key: the same last part elsewhere, else the nearest spelling."""
    last = key.rpartition(".")[2]
    elsewhere = sorted(name for name in known if name.rpartition(".")[2] == last)
    nearest = elsewhere or difflib.get_close_matches(key, sorted(known), n=1, cutoff=0.7)
    if not nearest:
        lasts = {name.rpartition(".")[2]: name for name in sorted(known)}
        nearest = [lasts[name] for name in difflib.get_close_matches(last, lasts, n=1, cutoff=0.7)]
    return f"; did you mean {dashes}{nearest[0]}?" if nearest else ""
