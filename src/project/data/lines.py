"""Reads, decodes and checks the lines of a JSON-lines file.

Only a newline byte ends a line; U+2028 in a text is an ordinary character.
"""

import codecs
import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from project.errors import UserError

MAX_SHOWN = 10
MAX_LINE_BYTES = 16 * 2**20
EXAMPLE = '{"text": "…", "label": "…"}'

Label: TypeAlias = str | int
EmptyText: TypeAlias = Literal["refuse", "keep"]


class DataError(UserError):
    """The user's data is faulty; the message says where, what was found, and what was expected."""


class Faults:
    """Counts the faulty lines of one file and keeps the first ten for the message."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count = 0
        self._shown: list[str] = []

    def add(self, line: int, fault: str) -> None:
        """Record a fault (`what is wrong, found …, expected …`) of a line, counted from 1."""
        self.count += 1
        if len(self._shown) < MAX_SHOWN:
            self._shown.append(f"{self.path}:{line}: {fault}")

    def stop_if_any(self) -> None:
        """Raise one DataError for all recorded faults, if there are any."""
        if self.count == 1:
            raise DataError(self._shown[0])
        if self.count:
            extent = f", the first {MAX_SHOWN}" if self.count > MAX_SHOWN else ""
            raise DataError("\n".join([f"{self.path}: {self.count} faulty lines{extent}:", *self._shown]))


def show(value: object) -> str:
    """A value as JSON, cut to 60 characters; can always be encoded as UTF-8."""
    text = json.dumps(value, ensure_ascii=False).encode(errors="backslashreplace").decode()
    return text if len(text) <= 60 else text[:59] + "…"


def read_lines(path: Path) -> Iterator[tuple[int, int, bytes]]:
    """Yield (number from 1, byte offset when decompressed, content without the line end) of each non-blank line."""
    is_gzip = path.suffix == ".gz"
    offset = 0
    try:
        # Binary, since text mode would also end a line at a lone \r.
        with gzip.open(path) if is_gzip else path.open("rb") as stream:
            for number, raw in enumerate(iter(lambda: stream.readline(MAX_LINE_BYTES + 1), b""), 1):
                line, start = raw.rstrip(b"\r\n"), offset
                offset += len(raw)
                if len(raw) > MAX_LINE_BYTES:
                    raise DataError(
                        f"{path}:{number}: line too long, found {MAX_LINE_BYTES >> 20} MiB without its end, "
                        f"expected one {EXAMPLE} a line"
                    )
                if number == 1:
                    _check_encoding(path, line)
                    if line.startswith(codecs.BOM_UTF8):
                        line, start = line.removeprefix(codecs.BOM_UTF8), start + len(codecs.BOM_UTF8)
                if line.strip():
                    yield number, start, line
    except gzip.BadGzipFile as error:
        raise DataError(f"{path}: not gzip, found {error}, expected gzip content or a name without .gz") from error
    except (EOFError, zlib.error) as error:
        raise DataError(f"{path}: damaged gzip, found {error} after {offset} bytes, expected a whole file") from error


def _check_encoding(path: Path, first_line: bytes) -> None:
    head = first_line[:4]
    if not path.name.endswith(".gz") and head.startswith(b"\x1f\x8b"):
        raise DataError(
            f"{path}:1: compressed content, found gzip bytes 1f 8b, expected text; name the file {path.name}.gz"
        )
    if head and not head.strip(b"\0"):
        raise DataError(
            f"{path}:1: NUL bytes, found {head.hex(' ')} at byte 0, expected text; the file was not written to "
            "its end, take another copy"
        )
    encoding = json.detect_encoding(head).upper()
    if not encoding.startswith("UTF-8"):
        raise DataError(
            f"{path}:1: text is {encoding}, found bytes {head.hex(' ')} at byte 0, expected UTF-8; "
            f"convert it: iconv -f {encoding} -t UTF-8 {path.name} > utf8.jsonl"
        )


class Fault(Exception):
    """What is wrong with one line; `rows.py` collects these in a DataError."""

    def __init__(self, wrong: str, found: str, right: str) -> None:
        super().__init__(f"{wrong}, found {found}, expected {right}")


class _Row(msgspec.Struct):
    text: str


class _LabelledRow(_Row):
    label: Label


class LineParser:
    """Parses and checks one line at a time."""

    def __init__(self, labelled: bool, empty_text: EmptyText) -> None:
        self._labelled = labelled
        self._empty_text = empty_text
        self._decoder = msgspec.json.Decoder[_Row](_LabelledRow if labelled else _Row)

    def parse(self, line: bytes, start: int) -> tuple[bytes, Label | None]:
        """Text as UTF-8 and label (None without labels) of the line at byte `start` of the file.

        Raises:
            Fault: the line is faulty.
        """
        try:
            decoded = line.decode()
        except UnicodeDecodeError as error:
            found = f"byte {line[error.start]:02x} at byte {start + error.start} of the file"
            raise Fault("invalid UTF-8", found, "UTF-8 text") from error
        try:
            row = self._decoder.decode(line)
        except (msgspec.DecodeError, RecursionError):
            row = self._inspect(decoded)
        text = _utf8("text", row.text)
        if self._empty_text == "refuse" and not row.text.strip():
            raise Fault("empty text", show(row.text), "a text with words; data.empty_text: keep allows such rows")
        if not isinstance(row, _LabelledRow):
            return text, None
        if isinstance(row.label, str):
            _utf8("label", row.label)
        elif not -(2**63) <= row.label < 2**63:
            raise Fault("label beyond 64 bits", show(row.label), "a smaller integer, or a string in quotes")
        return text, row.label

    def _inspect(self, line: str) -> _Row:
        """Raise what is wrong with a line that the typed decoder refused.

        Accepts what Python writes beyond the JSON standard, such as NaN in another key.
        """
        try:
            row = json.loads(line)
        except RecursionError as error:
            raise Fault("malformed JSON", "brackets nested too deeply", f"one {EXAMPLE}") from error
        except json.JSONDecodeError as error:
            found = f"{_excerpt(line)} ({error.msg} at column {error.colno})"
            raise Fault("malformed JSON", found, f"one {EXAMPLE}") from error
        except ValueError as error:  # an integer of thousands of digits
            raise Fault("malformed JSON", str(error), f"one {EXAMPLE}") from error
        if not isinstance(row, dict):
            raise Fault("not an object", show(row), f"one {EXAMPLE}")
        for key in ("text", "label") if self._labelled else ("text",):
            if key not in row:
                found = f"the keys {', '.join(map(show, row))}" if row else "no keys"
                raise Fault(f'missing key "{key}"', found, f"one {EXAMPLE}")
        text, label = row["text"], row.get("label")
        if not isinstance(text, str):
            raise Fault("text is not a string", show(text), 'a string such as "…"')
        if not self._labelled:
            return _Row(text)
        if isinstance(label, bool) or not isinstance(label, str | int):
            raise Fault("label is not a string or an integer", show(label), 'one such as "spam" or 3')
        return _LabelledRow(text, label)


def repeats_a_key(line: bytes) -> bool:
    """Whether a parsed row has the key "text" or "label" twice."""
    if line.count(b'"text"') < 2 and line.count(b'"label"') < 2:  # quick, and nearly always true
        return False
    objects: list[list[tuple[str, object]]] = []
    json.loads(line, object_pairs_hook=objects.append)
    keys = [key for key, _ in objects[-1]]  # the outermost object comes last
    return keys.count("text") > 1 or keys.count("label") > 1


def _utf8(key: str, value: str) -> bytes:
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        found = f"\\u{ord(value[error.start]):04x} at character {error.start}"
        raise Fault(f"lone surrogate in {key}", found, "text without half a surrogate pair") from error


def _excerpt(line: str) -> str:
    shown = line if len(line) <= 60 else line[:59] + "…"
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in shown)  # control characters would act on a terminal
