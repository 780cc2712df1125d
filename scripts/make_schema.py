"""Writes src/project/config/schema.json: what a person may write, from the parsers of both twins.

Run it after a change to a key, its type or its docstring, or to the arguments of a network; a test holds the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import torch
from jsonargparse import ArgumentParser

import project.network
from project.config.command_line import integers_first
from project.config.description import FILE, entry_of, made_from, name_of
from project.config.values import Source, class_arguments
from project.hand.settings import parser_of
from project.lit.cli import Cli

BASES = {
    torch.nn.Module: (project.network, 2),
    torch.optim.Optimizer: (torch.optim, 1),
    torch.optim.lr_scheduler.LRScheduler: (torch.optim.lr_scheduler, 1),
}
"""Where the described classes of each base are listed, and how many arguments the program itself gives them."""


class Parsed(BaseException):
    """Carries the parser out of LightningCLI before it parses."""

    def __init__(self, parser: ArgumentParser) -> None:
        super().__init__()
        self.parser = parser


class ParserOnly(Cli):
    """Stops where the command line would be parsed."""

    def parse_arguments(self, parser: ArgumentParser, args: Any) -> None:
        """Hand the parser over."""
        raise Parsed(parser)


def parser_of_lit() -> ArgumentParser:
    """The parser of `fit`, with the keys of all commands."""
    try:
        ParserOnly("predict", ["--help"])
    except Parsed as parsed:
        return parsed.parser
    raise AssertionError("LightningCLI no longer parses")


def described(parser: ArgumentParser) -> dict[str, Any]:
    """Keys and links of a twin."""
    integers_first(parser)
    source = Source.of(parser)
    return {"keys": {key: entry_of(takes) for key, takes in source.keys.items()}, "links": source.links}


def classes() -> Iterator[tuple[str, dict[str, Any]]]:
    """The classes that people name most, by the path that they write, with their arguments."""
    for base, (module, num_given) in BASES.items():
        for name, found in vars(module).items():
            is_described = isinstance(found, type) and issubclass(found, base) and found is not base
            arguments = class_arguments(found, num_given) if is_described and not name.startswith("_") else None
            if arguments is not None:
                entries = {key: entry_of(takes) for key, takes in arguments.items()}
                yield f"{module.__name__}.{name}", {"is": name_of(base), "arguments": entries}


def content() -> dict[str, Any]:
    """What the file has to say."""
    hand = {"hand": described(parser_of("fit")), "evaluation": described(parser_of("predict"))}
    return {"made_from": made_from(), **hand, "lit": described(parser_of_lit()), "classes": dict(sorted(classes()))}


def text(value: dict[str, Any]) -> str:
    """The file's text: a line for each key or argument, so that a change is seen as one."""

    def lines(value: Any, indent: str) -> str:
        if not isinstance(value, dict) or "type" in value or not value:
            return json.dumps(value, ensure_ascii=False)
        inner = ",\n".join(f"{indent} {json.dumps(key)}: {lines(item, indent + ' ')}" for key, item in value.items())
        return f"{{\n{inner}\n{indent}}}"

    return lines(value, "") + "\n"


if __name__ == "__main__":
    FILE.write_text(text(content()), encoding="utf-8")
