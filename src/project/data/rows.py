"""Rows of a JSON-lines file: decoded and checked once, then packed and memory-mapped.

A file holds one object per line, `{"text": "…", "label": "…"}`, as `.jsonl` or `.jsonl.gz`. The first load reads it as
a stream and packs it into the cache: the texts as UTF-8 end to end, their offsets, the line numbers, a table of the
labels, and each row's position in that table. Later loads map these files. All faults of a file are reported at once.
Remarks, on what may be a mistake, are repeated at every load.
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

from project.data.cache import digest, open_array, prepared
from project.data.lines import (
    EXAMPLE,
    MAX_SHOWN,
    DataError,
    EmptyText,
    Fault,
    Faults,
    Label,
    LineParser,
    read_lines,
    repeats_a_key,
    show,
)

__all__ = ["DataError", "EmptyText", "Label", "Rows", "load_rows"]

FORMAT = 2  # of the packed files; another number makes all of them anew


class Rows:
    """Checked rows of one file, read from memory-mapped files.

    Pickled as paths only; each process maps the files at its first access, so all workers share one copy.

    Attributes:
        path: the user's file, for messages.
        fingerprint: hex digest of the file's content and the options of reading; independent of its path.
    """

    def __init__(self, path: Path, folder: Path, fingerprint: str, content: str) -> None:
        self.path = path
        self.fingerprint = fingerprint
        self._folder = folder
        self._content = content
        self._stamp = _stamp(path)

    def __len__(self) -> int:
        return len(self.lines)

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in ("path", "fingerprint", "_folder", "_content", "_stamp")}

    def text(self, index: int) -> str:
        """The text of row `index`, as it stood in the file."""
        index = range(len(self))[index]  # negative indices count from the end; IndexError beyond it
        return str(self._bytes[self._offsets[index] : self._offsets[index + 1]].tobytes(), "utf-8")

    def texts(self) -> Iterator[str]:
        """Iterate over all texts in order."""
        return map(self.text, range(len(self)))

    @cached_property
    def remarks(self) -> list[str]:
        """One line for each thing in the file that may be a mistake."""
        found: list[str] = json.loads((self._folder / "remarks.json").read_bytes())
        return [f"{self.path}: {remark}" for remark in found]

    def check_unchanged(self) -> None:
        """Check that the file still has the content that was read.

        Raises:
            DataError: the file is gone or has other content.
        """
        if _stamp(self.path) != self._stamp:
            if not self.path.is_file() or _content_digest(self.path) != self._content:
                found = "another content" if self.path.is_file() else "no file"
                raise DataError(
                    f"{self.path}: changed since it was read, found {found}, expected the same rows to the end of the "
                    "run; put the old file back and continue, or start anew"
                )
            self._stamp = _stamp(self.path)

    @cached_property
    def lines(self) -> NDArray[np.int64]:
        """Line number in the file, from 1, of each row, (N,) int64."""
        return open_array(self._folder / "lines", "<i8")

    @property
    def labels(self) -> list[Label] | None:
        """The label of each row, or None if the file was read without labels."""
        return None if self.label_table is None else [self.label_table[code] for code in self.label_codes]

    @cached_property
    def label_table(self) -> list[Label] | None:
        """The distinct labels in order of appearance, or None if the file was read without labels."""
        table: list[Label] | None = json.loads((self._folder / "label_table.json").read_bytes())
        return table

    @cached_property
    def label_codes(self) -> NDArray[np.int64]:
        """Position in `label_table` of each row's label, (N,) int64; empty without labels."""
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
        path: the file. It may have CRLF, a byte order mark, blank lines and no newline at its end.
        cache_dir: folder of prepared folders (see `project.data.cache`).
        labelled: False needs only `text` in a row and ignores other keys.
        empty_text: "keep" allows empty and white-space texts.

    Raises:
        DataError: the file cannot be read, or a line is faulty.
    """
    path = Path(path)
    content = _content_digest(path)
    fingerprint = digest("rows", FORMAT, content, labelled, empty_text)
    folder = prepared(cache_dir, f"rows-{fingerprint}", lambda new: _pack(path, new, labelled, empty_text))
    return Rows(path, folder, fingerprint, content)


def num_shared_texts(rows: Rows, others: Rows, cache_dir: str | Path) -> int:
    """Number of `rows` whose text is also in `others`."""

    def digests(of: Rows) -> NDArray[np.uint64]:
        found = (hashlib.blake2b(text.encode(), digest_size=8).digest() for text in of.texts())
        return np.frombuffer(b"".join(found), "<u8")

    def build(folder: Path) -> None:
        (folder / "count").write_text(str(int(np.isin(digests(rows), digests(others)).sum())))

    folder = prepared(cache_dir, f"shared-{digest('shared', rows.fingerprint, others.fingerprint)}", build)
    return int((folder / "count").read_text())


def _stamp(path: Path) -> tuple[int, ...] | None:
    """Inode, size and times, which change when a file is written to or replaced; None if there is no file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _content_digest(path: Path) -> str:
    try:
        if path.is_dir():
            raise DataError(f"{path}: not a file, found a folder, expected a .jsonl or .jsonl.gz file")
        if not path.exists():
            found = f"a link that leads to no file, {path.readlink()}" if path.is_symlink() else "nothing"
            where = "" if path.is_symlink() else f" at {path.absolute()}"
            raise DataError(f"{path}: no such file, found {found}{where}, expected a .jsonl or .jsonl.gz file")
        if not path.is_file():
            raise DataError(f"{path}: not a file, found a pipe or device, expected a file that can be read twice")
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "blake2b").hexdigest()
    except OSError as error:
        raise DataError(f"{path}: cannot be read, found {error.strerror}, expected a readable file") from error


def _pack(path: Path, folder: Path, labelled: bool, empty_text: EmptyText) -> None:
    """Pack the file into the folder. Holds one line and the distinct labels in memory."""
    before = path.stat()
    faults = Faults(path)
    codes: dict[Label, int] = {}
    repeating: list[int] = []
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
            if repeats_a_key(line):
                repeating.append(number)
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
    (folder / "remarks.json").write_text(json.dumps(_remarks(repeating, list(codes))))


def _remarks(repeating: list[int], labels: list[Label]) -> list[str]:
    remarks = []
    if repeating:
        rows = "row has" if len(repeating) == 1 else "rows have"
        remarks.append(f"{len(repeating)} {rows} a key twice, the first in line {repeating[0]}; the last value counts")
    integers = sorted(label for label in labels if isinstance(label, int))
    gaps = sorted(set(range(min(integers[-1], 2 * len(integers)))) - set(integers)) if integers else []
    if gaps and integers[0] == 0 and integers[-1] < 2 * len(integers):
        shown = ", ".join(map(str, gaps[:MAX_SHOWN])) + (", …" if len(gaps) > MAX_SHOWN else "")
        remarks.append(f"labels from 0 to {integers[-1]}, but no row has {shown}; such a class cannot be learnt")
    return remarks


def _int64(value: int) -> bytes:
    return value.to_bytes(8, "little")
