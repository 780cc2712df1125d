"""The command line: its options, and the files that they name, in the order in which jsonargparse applies them."""

from __future__ import annotations

import functools
import operator
import re
from argparse import ArgumentError
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, get_args

import yaml
from jsonargparse import ArgumentParser, Namespace, get_loader, set_loader, set_parsing_settings

from project.config.keys import ConfigCheck
from project.config.nodes import line_of, read_file, read_text
from project.config.renamed import renamed
from project.config.trust import trusted
from project.config.values import Source, UndescribedError
from project.errors import UserError

HELPS = ("--help", "-h", "--help-all")
SHOWN = (*HELPS, "--print_config", "--print_shtab")
WITHOUT_VALUE = ("print_config", "print_shtab")
PLACE = "command line"
LOAD = get_loader("yaml")
NUMBER = re.compile(r"-\d+|-\d*\.\d+")  # what begins with a dash and is no option, as argparse sees it


class Option(NamedTuple):
    """One option as it was typed; a word that belongs to no option has no key."""

    typed: str
    key: str
    value: str | None


def check_arguments(parser: ArgumentParser, arguments: Sequence[str], described: Source | None = None) -> Namespace:
    """Parse, or report all faults at once.

    Args:
        parser: of the command.
        arguments: its command line.
        described: what the description knows of the parser, where it is current; it is faster to ask.

    Raises:
        UserError: one line per fault, `file:line: key: what is wrong, what would be right`.
    """
    integers_first(parser)
    if not asks_for_help(arguments):
        try:
            refuse_faults(described or Source.of(parser), arguments)
        except UndescribedError:
            refuse_faults(Source.of(parser), arguments)
    set_loader("yaml", lambda text: LOAD(renamed(text)), (yaml.YAMLError,))
    try:
        return parser.parse_args([renamed(word) for word in arguments])
    except (ArgumentError, TypeError, ValueError) as error:  # what is not foreseen here
        raise UserError(" ".join(str(error).split())) from None


def integers_first(parser: ArgumentParser) -> None:
    """Let `int` come before `float` in every type of the parser that names both, so that 2 stays 2.

    `Optional[Union[int, float]]` means whichever order of the two was asked for first in the process: typing keeps its
    results by equality, and unions are equal in any order. Then `limit_val_batches: 1` would mean all of them.
    """
    for action in parser._actions:
        members = get_args(getattr(action, "_typehint", None))
        if int in members and float in members and members.index(float) < members.index(int):
            others = [member for member in members if member is not int]
            others.insert(others.index(float), int)
            action._typehint = functools.reduce(operator.or_, others)  # type: ignore[attr-defined]


def asks_for_help(arguments: Sequence[str]) -> bool:
    """Whether the help of the command, or of a class, is wanted instead of a run."""
    return any(word in HELPS or re.match(r"--[^=]*\.help(=|$)", word) for word in arguments)


def is_shown(arguments: Sequence[str]) -> bool:
    """Whether help or the configuration is to be printed instead of a run."""
    return asks_for_help(arguments) or any(word.partition("=")[0] in SHOWN for word in arguments)


def refuse_faults(source: Source, arguments: Sequence[str], *, is_whole: bool = True) -> None:
    """Hold the options, and the files that they name, against what can be written.

    Args:
        source: what that is.
        arguments: the command line.
        is_whole: whether no saved configuration comes before it.

    Raises:
        UserError: every fault, one a line.
        UndescribedError: where `source` cannot tell.
    """
    # also for what only jsonargparse sees, such as a class or function within the arguments of a class
    set_parsing_settings(import_path_denylist=["*"], import_path_allowlist=trusted())
    check = ConfigCheck(source, is_whole=is_whole)
    all_read = True
    for option in options(arguments):
        place = f"{PLACE}: {option.typed}"
        if not option.key:
            hint = f"; did you mean --config {option.typed}?" if option.typed.endswith((".yaml", ".yml")) else ""
            check.faults.append(f"{place}: belongs to no option{hint}")
        elif option.key in WITHOUT_VALUE:
            continue
        elif not option.typed.startswith(("--", "-c")) or not (option.key == "config" or check.knows(option.key)):
            check.faults.append(f"{place}: {check.unknown(option.key, 'option', '--')}")
        elif not option.value and (option.value is None or option.key == "config" or option.key in check.groups):
            what = "a YAML file" if option.key == "config" else "a value"
            check.faults.append(f"{place}: expected {what} after it, found nothing")
            check.given.add(option.key)
        elif option.key == "config" or option.key in check.groups:
            all_read &= _read(check, option)
        else:
            check.option(place, option.key, renamed(option.value))
    if all_read and is_whole:
        check.completeness()
    if check.faults:
        raise UserError("\n".join(dict.fromkeys(check.faults)))


def options(arguments: Sequence[str]) -> Iterator[Option]:
    """The options from left to right; a value stands after `=` or is the next word. -c has the key config."""
    words = list(arguments)
    while words:
        typed, equals, value = words.pop(0).partition("=")
        if not typed.startswith("-") or NUMBER.fullmatch(typed) or not typed.strip("-"):
            yield Option(typed + equals + value, "", None)
            continue
        key = "config" if typed == "-c" else typed.lstrip("-").removesuffix("+")
        if equals:
            yield Option(typed, key, value)
        elif words and key not in WITHOUT_VALUE and (not words[0].startswith("-") or NUMBER.fullmatch(words[0])):
            yield Option(typed, key, words.pop(0))
        else:
            yield Option(typed, key, None)


def _read(check: ConfigCheck, option: Option) -> bool:
    """Check the YAML that --config, or the option of a group, names or spells out; whether it could be read."""
    prefix = "" if option.key == "config" else f"{option.key}."
    value = option.value or ""
    if prefix and value.lstrip().startswith("{"):
        mapping = read_text(value, f"{PLACE}: {option.typed}", check.faults)
        if mapping is not None:
            check.group(lambda node: PLACE, mapping, prefix)
    else:
        path = Path(value)
        mapping = read_file(path, check.faults)
        if mapping is not None:
            check.group(lambda node: f"{path}:{line_of(node)}", mapping, prefix)
    return mapping is not None
