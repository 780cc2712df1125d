"""Holds keys, classes and values of a configuration, in the order in which they are given, against a parser's."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

import yaml

from project.config.nodes import child, is_null, read_text, shown, text_node
from project.config.values import Source, Takes, UndescribedError
from project.errors import UserError, nearest

At = Callable[[yaml.Node], str]
"""Where a node stands, such as `configs/default.yaml:7`."""


@dataclass
class Chosen:
    """The class that a key names so far, and the arguments that it was given."""

    place: str
    path: str
    arguments: dict[str, Takes]
    given: set[str] = field(default_factory=set)


class ConfigCheck:
    """Collects `faults`, one line each; `given` holds the keys that have occurred.

    Args:
        source: what can be written.
        is_whole: whether all keys are seen here; a saved configuration may come before them otherwise.
    """

    def __init__(self, source: Source, *, is_whole: bool = True) -> None:
        self.faults: list[str] = []
        self.given: set[str] = set()
        self.source, self.is_whole = source, is_whole
        self.keys, self.groups, self.links = source.keys, source.groups, source.links
        self.chosen: dict[str, Chosen | None] = {}
        """By key; None where a class was named that cannot be had, so that nothing is known of its arguments."""

    def knows(self, key: str) -> bool:
        """Whether there is such a key, or it is an argument of a class."""
        return key in self.keys or key in self.groups or self._owner(key) is not None

    def unknown(self, key: str, what: str, dashes: str = "") -> str:
        """Why there is no such key or option, with the nearest that there is."""
        if key in self.links:
            return f"follows {dashes}{self.links[key]}; set that"
        meant = self._nearest_key(key)
        return f"no such {what}" + (f"; did you mean {dashes}{meant}?" if meant else "")

    def option(self, place: str, key: str, value: str) -> None:
        """Check a key's value from the command line."""
        owner = self._owner(key)
        if key in self.keys:
            self._value(lambda node: place, place, key, value)
        elif owner is not None and self.keys[owner].num_positional is not None:
            name = key.removeprefix(f"{owner}.").removeprefix("init_args.")
            if name == "class_path":
                self._choose(place, owner, value, self.keys[owner])
            elif not name.startswith("dict_kwargs"):
                self._argument(place, owner, name, value)

    def group(self, at: At, mapping: yaml.MappingNode, prefix: str) -> None:
        """Check the keys of a group; its own key, with a dot, is `prefix`."""
        for key_node, value in mapping.value:
            key = f"{prefix}{key_node.value}"
            place = f"{at(key_node)}: {key}"
            if key in self.groups and isinstance(value, yaml.MappingNode):
                self.group(at, value, f"{key}.")
            elif key in self.groups:
                self._no_group(place, value)
                self.given |= {name for name in self.keys if name.startswith(f"{key}.")}
            elif key in self.keys:
                self._value(at, place, key, value)
            elif owner := self._owner(key):  # model.network.init_args.dim: 64, in one line
                name = key.removeprefix(f"{owner}.").removeprefix("init_args.")
                self._argument(place, owner, name, value)
            else:
                self.faults.append(f"{place}: {self.unknown(key, 'key')}")

    def completeness(self) -> None:
        """Report what is required and was not given."""
        for key, takes in self.keys.items():
            if takes.required and key not in self.given:
                group, _, name = key.rpartition(".")
                where = f"under `{group}:` " if group else ""
                self.faults.append(
                    f"{key}: required, and not given; write `{name}:` {where}in a file that --config names, "
                    "as in configs/default.yaml"
                )
        for key, chosen in self.chosen.items():
            for name, takes in chosen.arguments.items() if chosen else ():
                if chosen and takes.required and name not in chosen.given:
                    self.faults.append(f"{chosen.place}: {chosen.path} needs {key}.init_args.{name}, {takes.words}")

    def _value(self, at: At, place: str, key: str, value: yaml.Node | str) -> None:
        self.given.add(key)
        takes = self.keys[key]
        if takes.num_positional is not None and isinstance(value, str) and value.lstrip().startswith("{"):
            mapping = read_text(value, place, self.faults)
            if mapping is None:
                return
            value = mapping
        is_component = takes.num_positional is not None or (takes.bases and child(value, "class_path"))
        if is_component and isinstance(value, yaml.MappingNode):
            self._component(at, key, value, takes)
        elif takes.num_positional is not None and _is_name(value):
            self._choose(place, key, value if isinstance(value, str) else str(value.value), takes)
        elif takes.bases and isinstance(value, yaml.SequenceNode) and all(child(i, "class_path") for i in value.value):
            for number, item in enumerate(value.value):  # callbacks, plugins
                self._component(at, f"{key}[{number}]", item, takes)
        else:
            self.chosen.pop(key, None)
            self._accept(place, takes, value)

    def _component(self, at: At, key: str, value: yaml.MappingNode, takes: Takes) -> None:
        """Check `{class_path: …, init_args: {…}}`; the class may stand in an earlier file."""
        class_path = child(value, "class_path")
        if class_path is not None:
            self._choose(f"{at(class_path)}: {key}", key, shown(class_path), takes)
        for name_node, inner in value.value:
            name, place = str(name_node.value), f"{at(name_node)}: {key}.{name_node.value}"
            if name == "init_args" and isinstance(inner, yaml.MappingNode):
                for argument_node, argument in inner.value:
                    argument_place = f"{at(argument_node)}: {key}.init_args.{argument_node.value}"
                    self._argument(argument_place, key, str(argument_node.value), argument)
            elif name == "init_args":
                self._no_group(place, inner)
            elif name not in ("class_path", "dict_kwargs"):
                chosen = self.chosen.get(key)
                meant = nearest(name, ["class_path", "init_args", *(chosen.arguments if chosen else ())])
                meant = f"init_args.{meant}" if chosen and meant in chosen.arguments else meant
                hint = f"did you mean {key}.{meant}?" if meant else "expected class_path or init_args"
                self.faults.append(f"{place}: no such key; {hint}")

    def _choose(self, place: str, key: str, path: str, takes: Takes) -> None:
        before = self.chosen.get(key)
        self.given.add(key)
        self.chosen[key] = None
        try:
            arguments = self.source.arguments(path, takes)
        except UserError as error:
            self.faults.append(f"{place}: {error}")
            return
        if arguments is not None:
            kept = before.given & arguments.keys() if before else set()  # as jsonargparse keeps them
            self.chosen[key] = Chosen(place, path, arguments, kept)

    def _argument(self, place: str, key: str, name: str, value: yaml.Node | str) -> None:
        """Check one init_arg of the class that `key` names."""
        name, _, inner = name.partition(".")
        chosen = self.chosen.get(key)
        if key not in self.chosen and not self.is_whole:
            raise UndescribedError(key)
        if key not in self.chosen:
            self.faults.append(f"{place}: no class is chosen yet; give {key}.class_path before it")
            self.given.add(key)
            self.chosen[key] = None
        elif chosen and name not in chosen.arguments:
            meant = nearest(name, chosen.arguments)
            hint = f"; did you mean {meant}?" if meant else ""
            self.faults.append(f"{place}: {chosen.path} has no such argument{hint}")
        elif chosen:
            chosen.given.add(name)
            if not inner:
                self._accept(place, chosen.arguments[name], value)

    def _accept(self, place: str, takes: Takes, value: yaml.Node | str) -> None:
        if takes.accepts(value):
            return
        hint = ""
        if isinstance(value, yaml.ScalarNode) and takes.is_text and not is_null(value):
            hint = "; put it in quotes"
        node = text_node(value) if isinstance(value, str) else value
        self.faults.append(f"{place}: expected {takes.words}, found {shown(node)}{hint}")

    def _no_group(self, place: str, value: yaml.Node) -> None:
        glued = re.fullmatch(r"(\w+):(\S.*)", str(value.value))
        if is_null(value):
            self.faults.append(f"{place}: no keys under it; add some, or take the line out")
        else:
            hint = f"; did you mean `{glued[1]}: {glued[2]}`, with a space?" if glued else ""
            self.faults.append(f"{place}: expected a group of keys, found {shown(value)}{hint}")

    def _owner(self, key: str) -> str | None:
        """The key of a class of which `key` is an argument."""
        return next((name for name, takes in self.keys.items() if takes.bases and key.startswith(f"{name}.")), None)

    def _nearest_key(self, key: str) -> str | None:
        """The same last part elsewhere, else the nearest spelling of the whole, else of the last part."""
        arguments = [
            f"{name}.init_args.{argument}"
            for name, chosen in self.chosen.items()
            for argument in (chosen.arguments if chosen else ())
        ]
        names = [*self.keys, *sorted(self.groups), *arguments, "config", "print_config", "help"]
        last = key.rpartition(".")[2]
        elsewhere = [name for name in names if name.rpartition(".")[2] == last]
        if elsewhere:
            return elsewhere[0]
        lasts = {name.rpartition(".")[2]: name for name in reversed(names)}
        return nearest(key, names) or lasts.get(nearest(last, lasts) or "")


def _is_name(value: yaml.Node | str) -> bool:
    return value != "null" if isinstance(value, str) else bool(value.tag == "tag:yaml.org,2002:str")
