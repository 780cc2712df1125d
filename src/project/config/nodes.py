"""Reads YAML as nodes, which know their lines, and says in plain words what keeps a text from being a configuration.

Nothing is constructed here: a tag that would make a Python object is refused by its name alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import yaml

from project.config.renamed import renamed
from project.errors import nearest

CORE_TAGS = tuple(
    f"tag:yaml.org,2002:{name}"
    for name in ("null", "bool", "int", "float", "str", "timestamp", "seq", "map", "merge", "value")
)
PLAINER = {
    "found character '\\t' that cannot start any token": "indented with a tab; use spaces",
    "mapping values are not allowed here": "a key where none can stand; check the indentation of this line and the "
    "one before, and quote a value that holds `: `",
    "but found another document": "a second document begins here; keep one",
}


def read_file(path: Path, faults: list[str]) -> yaml.MappingNode | None:
    """The file's keys and values, or None; what is wrong is added to `faults`, one line each."""
    try:
        content = path.read_bytes()
    except OSError as error:
        if path.is_dir():
            reason = "a folder; name a YAML file in it"
        elif not path.exists():
            names = sorted(file.name for file in path.parent.glob("*.y*ml"))
            meant = nearest(path.name, names)
            reason = "no such file" + (f"; did you mean {path.with_name(meant)}?" if meant else "")
        else:
            reason = f"cannot be read: {error.strerror}"
        faults.append(f"{path}: {reason}")
        return None
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        byte = content[error.start]
        faults.append(f"{path}:{line}: byte 0x{byte:02x} is not UTF-8; save the file as UTF-8")
        return None
    return read_text(text, str(path), faults)


def read_text(text: str, source: str, faults: list[str]) -> yaml.MappingNode | None:
    """The keys and values of `text`; `source` is what a fault's line is counted in."""
    try:
        loader = yaml.SafeLoader(renamed(text))
        root = loader.get_single_node()
        if root is None:
            faults.append(f"{source}: no keys in it; fill it or leave it out")
            return None
        if not isinstance(root, yaml.MappingNode):
            faults.append(f"{source}:1: expected keys and values, such as `trainer:`, found {shown(root)}")
            return None
        refused = list(_tidied(loader, root, source, "", (), set()))
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        faults.append(f"{source}:{line}: character U+{error.character:04X} may not stand in YAML; remove it")
        return None
    except yaml.MarkedYAMLError as error:
        faults.append(_syntax_fault(error, source))
        return None
    faults += refused
    return root if all("given twice" in fault for fault in refused) else None


def _syntax_fault(error: yaml.MarkedYAMLError, source: str) -> str:
    mark = error.problem_mark or error.context_mark
    line = mark.line + 1 if mark else 1
    problem = PLAINER.get(error.problem or "", f"not valid YAML: {error.problem}")
    begun = error.context_mark.line + 1 if error.context_mark else line
    since = f" (in what begins in line {begun})" if begun != line and problem.startswith("not valid") else ""
    return f"{source}:{line}: {problem}{since}"


def _tidied(
    loader: yaml.SafeLoader, node: yaml.Node, source: str, key: str, above: tuple[int, ...], seen: set[int]
) -> Iterator[str]:
    """Faults below `node`; merge keys (`<<`) are resolved in place, and each mapping is left with distinct keys."""
    place = f"{source}:{line_of(node)}"
    if id(node) in above:
        yield f"{place}: this anchor contains itself; write the values out"
    if id(node) in seen:  # an alias: its anchor was looked at
        return
    seen.add(id(node))
    if node.tag not in CORE_TAGS:
        tag = node.tag.replace("tag:yaml.org,2002:", "!!")
        yield f"{place}: the tag {tag} is refused; write a plain value"
    above = (*above, id(node))
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _tidied(loader, item, source, f"{key}[]", above, seen)
    elif isinstance(node, yaml.MappingNode):
        yield from _twice(node, source, key)
        for name, value in node.value:
            if not isinstance(name, yaml.ScalarNode):
                yield f"{source}:{line_of(name)}: expected a key, found {shown(name)}"
            yield from _tidied(loader, value, source, f"{key}{name.value}.", above, seen)
        loader.flatten_mapping(node)
        node.value = list({str(name.value): (name, value) for name, value in node.value}.values())


def _twice(mapping: yaml.MappingNode, source: str, prefix: str) -> Iterator[str]:
    first_lines: dict[str, int] = {}
    for key, _ in mapping.value:
        name = f"{prefix}{key.value}"
        if name in first_lines:
            yield f"{source}:{line_of(key)}: {name}: given twice, first in line {first_lines[name]}; keep one"
        first_lines.setdefault(name, line_of(key))


def line_of(node: yaml.Node) -> int:
    """The 1-based line where `node` begins."""
    return int(node.start_mark.line) + 1


def child(node: yaml.Node | str, name: str) -> yaml.Node | None:
    """The value of the key `name`, where `node` is a mapping that has it."""
    pairs = node.value if isinstance(node, yaml.MappingNode) else []
    return next((value for key, value in pairs if key.value == name), None)


def is_null(node: yaml.Node) -> bool:
    """Whether `node` is null or nothing at all."""
    return bool(node.tag == "tag:yaml.org,2002:null")


def shown(node: yaml.Node) -> str:
    """`node` in a few words, for the end of `found …`."""
    if isinstance(node, yaml.ScalarNode):
        value = " ".join(node.value.split()) or ("nothing" if node.style is None else "''")
        return value if len(value) <= 60 else f"{value[:60]}…"
    return "a list" if isinstance(node, yaml.SequenceNode) else "a group of keys"


def pair(name: str, value: yaml.Node) -> yaml.MappingNode:
    """The mapping `name: value`."""
    return yaml.MappingNode("tag:yaml.org,2002:map", [(yaml.ScalarNode("tag:yaml.org,2002:str", name), value)])


def text_node(text: str) -> yaml.ScalarNode:
    """A string as it stands."""
    return yaml.ScalarNode("tag:yaml.org,2002:str", text)
