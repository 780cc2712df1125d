"""What is answered before torch and Lightning are imported: help, and whatever is wrong with a command line."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from project.config.command_line import HELPS, asks_for_help, options, refuse_faults
from project.config.description import as_described, described
from project.config.help import long_help, short_help
from project.config.trust import take_allowed
from project.config.values import UndescribedError
from project.errors import UserError, nearest

COMMANDS = ("fit", "validate", "test", "predict")


def command_of(words: Sequence[str]) -> tuple[str, list[str]]:
    """The command of a twin, and what follows; without a word it is fit.

    Raises:
        UserError: where there is no such command.
    """
    if not words or words[0].startswith("-"):
        return "fit", list(words)
    if words[0] not in COMMANDS:
        meant = nearest(words[0], COMMANDS)
        hint = f"did you mean {meant}?" if meant else f"there are {', '.join(COMMANDS)}"
        raise UserError(f"hand: {words[0]}: no such command; {hint}")
    return words[0], list(words[1:])


def look(called: str, twin: str, words: Sequence[str]) -> str | None:
    """The help that is asked for, if it is; otherwise report every fault that is seen without importing a class.

    Args:
        called: the command as it was typed, such as hand.
        twin: `hand` or `lit`, which runs it.
        words: the command's own name and what follows.

    Raises:
        UserError: every fault, one a line.
    """
    command, arguments = command_of(take_allowed(words))
    name = command if called == command else f"{called} {command}"
    if asked := [word for word in arguments if word in HELPS]:
        whole = "--help-all" in asked
        return long_help(name, as_described(twin, command)) if whole else short_help(name, command)
    source = described(twin, command)
    if asks_for_help(arguments) or source is None:
        return None
    keys = {option.key for option in options(arguments)}
    is_whole = "config" in keys or (command == "fit" and "ckpt_path" not in keys)
    with suppress(UndescribedError):  # then the parser will tell
        refuse_faults(source, arguments, is_whole=is_whole)
    return None
