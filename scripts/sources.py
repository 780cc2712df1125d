"""Read labelled texts from the forms that `to_jsonl.py` takes: tables, `label text` lines, a folder for each class.

Every reader yields rows with the place that they came from. Bad rows are collected, so that one run names them all.
"""

import codecs
import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

Label = str | int

SUFFIXES = {".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".txt": "lines"}
PLAIN_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")
LABEL_THEN_TEXT = re.compile(r"[ \t]*([^ \t]+)[ \t]+(.*)", re.DOTALL)
NUM_FAULTS_SHOWN = 10


class SourceError(Exception):
    """The source or the request cannot be used. Each argument is one line for the user."""


class Row(NamedTuple):
    text: str
    label: str
    place: str
    """`file:line` where the row starts, for messages."""


class Record(NamedTuple):
    """The fields of one row of a table, and the line that it starts on."""

    fields: list[str]
    line: int


def read_text(path: Path, encoding: str) -> str:
    """The whole file as text, without a byte order mark. Raises SourceError that names the first undecodable byte."""
    data = path.read_bytes()
    try:
        codec = codecs.lookup(encoding).name
        return data.decode("utf-8-sig" if codec == "utf-8" else codec)
    except LookupError:
        raise SourceError(f"--encoding: unknown encoding {encoding!r}; utf-8, latin-1 and utf-16 are common") from None
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        right = "utf-16" if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "latin-1"
        raise SourceError(
            f"{path}:{line}: not valid {encoding}, found byte 0x{data[error.start]:02x} at offset {error.start}; "
            f"give the file's --encoding, perhaps {right}"
        ) from None


def table_records(text: str, path: Path, delimiter: str, quoting: int = csv.QUOTE_MINIMAL) -> Iterator[Record]:
    """The rows of a table that are not blank. Raises SourceError where quotes are out of place."""
    csv.field_size_limit(2**31 - 1)
    # strict: an unclosed quote would otherwise swallow the rest of the file without a word
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, quoting=quoting, strict=True)  # type: ignore[arg-type]
    line = 1
    try:
        for fields in reader:
            if fields:
                yield Record(fields, line)
            line = reader.line_num + 1
    except csv.Error as error:
        raise SourceError(
            f"{path}:{line}: the row that starts here is not valid CSV ({error}); "
            'put a text that holds quotes in quotes and double those inside: "say ""hi"""'
        ) from None


def csv_records(text: str, path: Path) -> list[Record]:
    return list(table_records(text, path, ","))


def tsv_records(text: str, path: Path) -> list[Record]:
    r"""The rows of a TSV file, whose quotes mean what they mean in CSV, or nothing: both kinds of file are common.

    The CSV meaning is taken only where it makes sense of the whole file: quotes close, every row has as many fields,
    and no field holds both a tab and a line break. Two rows glued into one by a stray quote always break one of these.
    """
    try:
        records = list(table_records(text, path, "\t"))
    except SourceError:
        records = []
    glued = any("\t" in field and "\n" in field for record in records for field in record.fields)
    if records and not glued and len({len(record.fields) for record in records}) == 1:
        return records
    return list(table_records(text, path, "\t", csv.QUOTE_NONE))


def column_numbers(header: list[str], path: Path, text: str, label: str) -> tuple[int, int]:
    """Where the two columns are, from 0. Raises SourceError when the header lacks one or has it twice."""
    for flag, name in (("--text", text), ("--label", label)):
        if header.count(name) != 1:
            found = ", ".join(map(repr, header))
            problem = "no column" if name not in header else "more than one column"
            raise SourceError(
                f"{path}:1: {problem} {name!r}, found {found}; choose with {flag}, "
                "or give both columns as numbers from 1 if there is no header"
            )
    return header.index(text), header.index(label)


def table_rows(path: Path, records: list[Record], text: str, label: str, faults: list[str]) -> Iterator[Row]:
    """Rows of a table; a row that has not as many fields as the first is added to `faults`."""
    if not records:
        return
    numbered = text.isdecimal(), label.isdecimal()
    width = len(records[0].fields)
    if all(numbered):
        text_at, label_at = int(text) - 1, int(label) - 1
        if not (0 <= text_at < width and 0 <= label_at < width):
            raise SourceError(
                f"{path}:1: found {width} columns; --text {text} --label {label} must be from 1 to {width}"
            )
    elif any(numbered):
        raise SourceError(f"--text {text} --label {label}: give two names of the header, or two numbers for no header")
    else:
        text_at, label_at = column_numbers(records.pop(0).fields, path, text, label)
    for fields, line in records:
        if len(fields) == width:
            yield Row(fields[text_at], fields[label_at], f"{path}:{line}")
        else:
            faults.append(
                f"{path}:{line}: found {len(fields)} fields, line 1 has {width}; quote a text that holds the separator"
            )


def line_rows(path: Path, text: str, faults: list[str]) -> Iterator[Row]:
    for number, line in enumerate(io.StringIO(text, newline=""), start=1):
        content = line.rstrip("\r\n")
        if match := LABEL_THEN_TEXT.fullmatch(content):
            yield Row(match[2], match[1], f"{path}:{number}")
        elif content.strip():
            faults.append(f"{path}:{number}: found only {content[:40]!r}; a line needs a label, a space and a text")


def folder_rows(path: Path, encoding: str, faults: list[str]) -> Iterator[Row]:
    """One row a file, in the order of the names; hidden files and folders are not read."""
    for folder in sorted(entry for entry in path.iterdir() if entry.is_dir() and not entry.name.startswith(".")):
        for file in sorted(entry for entry in folder.iterdir() if not entry.name.startswith(".")):
            if file.is_dir():
                faults.append(f"{file}:1: found a folder inside a class; put the texts straight into {folder}")
                continue
            try:
                yield Row(read_text(file, encoding).rstrip("\r\n"), folder.name, f"{file}:1")
            except SourceError as error:
                faults.extend(map(str, error.args))


def guess_format(path: Path) -> str:
    if path.is_dir():
        return "folder"
    if (kind := SUFFIXES.get(path.suffix.lower())) is None:
        raise SourceError(f"{path}: cannot tell the format from the name; add --format csv, tsv or lines")
    return kind


def check(rows: Iterable[Row], faults: list[str]) -> Iterator[Row]:
    """Tidy rows. Those without a text or a label, or with characters that UTF-8 cannot hold, are added to `faults`."""
    for row in rows:
        text, label = row.text.replace("\r\n", "\n"), row.label.strip()
        if not text.strip():
            faults.append(f"{row.place}: found an empty text; write one, or delete the row")
        elif not label:
            faults.append(f"{row.place}: found an empty label; write one, or delete the row")
        elif re.search("[\ud800-\udfff]", label + text):
            faults.append(
                f"{row.place}: found characters that are not valid Unicode in {label!r}; rename or retype them"
            )
        else:
            yield Row(text, label, row.place)


def read(path: Path, kind: str, encoding: str, text: str, label: str) -> list[tuple[str, Label]]:
    """All examples of the source, in its order. Raises SourceError with a line for each of the first ten bad rows."""
    faults: list[str] = []
    tables: dict[str, Callable[[str, Path], list[Record]]] = {"csv": csv_records, "tsv": tsv_records}
    if kind == "folder":
        source = folder_rows(path, encoding, faults)
    elif kind in tables:
        source = table_rows(path, tables[kind](read_text(path, encoding), path), text, label, faults)
    else:
        source = line_rows(path, read_text(path, encoding), faults)
    rows = list(check(source, faults))
    if faults:
        rest = len(faults) - NUM_FAULTS_SHOWN
        raise SourceError(*faults[:NUM_FAULTS_SHOWN], *([f"{path}: and {rest} more bad rows"] if rest > 0 else []))
    if not rows:
        raise SourceError(f"{path}: found no rows; is --format {kind} right?")
    integers = [bool(PLAIN_INTEGER.fullmatch(row.label)) for row in rows]
    if kind in tables and text.isdecimal() and not integers[0] and len(rows) > 1 and all(integers[1:]):
        raise SourceError(
            f"{path}:1: found label {rows[0].label!r} above integers, so a header; give --text and --label by name"
        )
    return [(row.text, int(row.label) if all(integers) else row.label) for row in rows]
