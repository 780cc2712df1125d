"""Rows of a JSON-lines file: decoded and checked once, then kept packed and memory-mapped.

A file holds one object a line, `{"text": "…", "label": "…"}`, as `.jsonl` or `.jsonl.gz`. The first load decodes it as
a stream and writes, into the cache: all texts as UTF-8 end to end, their offsets, the line numbers, and the labels as
numbers into a table of distinct labels. Later loads map these files. Everything faulty in a file is reported at once.
"""

import hashlib
import json
from collections.abc import Iterator
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from project.task.cache import digest, open_array, prepared
from project.task.lines import EXAMPLE, DataError, EmptyText, Fault, Faults, Label, LineParser, read_lines, show

__all__ = ["DataError", "EmptyText", "Label", "Rows", "load_rows"]

FORMAT = 1  # of the packed files; a change makes every cache anew


class Rows:
    """Checked rows of one file, read from memory-mapped files.

    Pickles as paths only; each process maps the files at its first access, so that workers share one copy.

    Attributes:
        path: the user's file, for messages.
        fingerprint: hex digest over the content of the file and how it was read; not over its path.
    """

    def __init__(self, path: Path, folder: Path, fingerprint: str) -> None:
        self.path = path
        self.fingerprint = fingerprint
        self._folder = folder

    def __len__(self) -> int:
        return len(self.lines)

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in ("path", "fingerprint", "_folder")}

    def text(self, index: int) -> str:
        """The text of row `index`, as it stood in the file."""
        index = range(len(self))[index]  # IndexError beyond the end, negative from the end
        return str(self._bytes[self._offsets[index] : self._offsets[index + 1]].tobytes(), "utf-8")

    def texts(self) -> Iterator[str]:
        """All texts in order, one at a time."""
        return map(self.text, range(len(self)))

    @cached_property
    def lines(self) -> NDArray[np.int64]:
        """Line number in the file, from 1, of each row: (N,) int64."""
        return open_array(self._folder / "lines", "<i8")

    @property
    def labels(self) -> list[Label] | None:
        """The label of each row, or None where the file was read without labels."""
        if self.label_table is None:
            return None
        return [self.label_table[code] for code in self.label_codes]

    @cached_property
    def label_table(self) -> list[Label] | None:
        """The distinct labels in order of appearance, or None where the file was read without labels."""
        table: list[Label] | None = json.loads((self._folder / "label_table.json").read_bytes())
        return table

    @cached_property
    def label_codes(self) -> NDArray[np.int64]:
        """Position in `label_table` of each row's label: (N,) int64; empty without labels."""
        return open_array(self._folder / "label_codes", "<i8")

    @cached_property
    def _bytes(self) -> NDArray[np.uint8]:
        return open_array(self._folder / "texts", np.uint8)

    @cached_property
    def _offsets(self) -> NDArray[np.int64]:
        return open_array(self._folder / "offsets", "<i8")


def load_rows(
    path: str | Path, cache_dir: str | Path, *, labelled: bool = True, empty_text: EmptyText = "refuse"
) -> Rows:
    """Decode, check and pack a `.jsonl` or `.jsonl.gz` file, or map what an earlier call packed.

    Args:
        path: the file. CRLF, a byte order mark, blank lines and a missing last newline are fine.
        cache_dir: folder of prepared folders (see `project.task.cache`).
        labelled: False needs only `text` in a row and ignores every other key.
        empty_text: "keep" allows texts of nothing but white space.

    Raises:
        DataError: the file cannot be read, or any of its lines is faulty.
    """
    path = Path(path)
    fingerprint = digest("rows", FORMAT, _content_digest(path), labelled, empty_text)
    folder = prepared(cache_dir, f"rows-{fingerprint}", lambda new: _pack(path, new, labelled, empty_text))
    return Rows(path, folder, fingerprint)


def _content_digest(path: Path) -> str:
    if path.is_dir():
        raise DataError(f"{path}: not a file, found a folder, expected a .jsonl or .jsonl.gz file")
    if not path.exists():
        raise DataError(
            f"{path}: no such file, found nothing at {path.absolute()}, expected a .jsonl or .jsonl.gz file"
        )
    if not path.is_file():
        raise DataError(f"{path}: not a file, found a pipe or device, expected a file that can be read twice")
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "blake2b").hexdigest()
    except OSError as error:
        raise DataError(f"{path}: cannot be read, found {error.strerror}, expected a readable file") from error


def _pack(path: Path, folder: Path, labelled: bool, empty_text: EmptyText) -> None:
    """Write the packed form of the file into the folder. Holds one line and the distinct labels in memory."""
    before = path.stat()
    faults = Faults(path)
    codes: dict[Label, int] = {}
    first_label_line = end = 0
    parser = LineParser(labelled, empty_text)
    with ExitStack() as stack:
        names = ("texts", "offsets", "lines", "label_codes")
        texts, offsets, lines, label_codes = (stack.enter_context((folder / name).open("wb")) for name in names)
        offsets.write(_int64(0))
        for number, start, line in read_lines(path):
            try:
                text, label = parser.parse(line, start)
                first = next(iter(codes), label)
                if type(label) is not type(first):
                    right = f"the kind of line {first_label_line}, {show(first)}"
                    raise Fault("labels of two kinds, strings and integers", show(label), right)
            except Fault as fault:
                faults.add(number, str(fault))
                continue
            end += texts.write(text)
            offsets.write(_int64(end))
            lines.write(_int64(number))
            if label is not None:
                first_label_line = first_label_line or number
                label_codes.write(_int64(codes.setdefault(label, len(codes))))
        num_rows = lines.tell() // 8
    faults.stop_if_any()
    if num_rows == 0:
        raise DataError(f"{path}: no rows, found {before.st_size} bytes, expected one {EXAMPLE} a line")
    after = path.stat()
    if (after.st_size, after.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
        raise DataError(f"{path}: changed while it was read, expected a file that nobody is writing to; start again")
    (folder / "label_table.json").write_text(json.dumps(list(codes) if labelled else None))


def _int64(value: int) -> bytes:
    return value.to_bytes(8, "little")
