"""JsonlDataset: the rows of a file as token ids, made once and memory-mapped.

One file holds the token ids of all rows, in uint16 if the vocabulary fits, else int32. A file of offsets says where
each row begins. Worker processes map the same files, so all of them share one copy of the data.

Shapes: N rows in the file, T tokens of one row.
"""

from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset

from project.data.cache import digest, open_array, prepared
from project.data.lines import DataError, EmptyText, Faults, show
from project.data.rows import Rows, load_rows
from project.data.tokenizer import UNKNOWN_ID
from project.data.vocabulary import Vocabulary

FORMAT = 1  # of the prepared files; another number makes all of them anew
UNLABELLED = -1
CHUNK = 256  # rows encoded at a time, which bounds the memory


class Example(NamedTuple):
    """One row as token ids."""

    tokens: Tensor
    """(T,) int64 token ids, T >= 1."""
    label: int
    """Class index; -1 if the rows have no labels."""
    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody needs here
    """Position in the dataset; -1 - i for row i as a stand-in (see data/order.py)."""


class JsonlDataset(Dataset[Example]):
    """Token ids and class indices of a `.jsonl` or `.jsonl.gz` file.

    Args:
        path: the file (see `project.data.rows.load_rows`).
        vocabulary: gives token ids and class indices; used while preparing, not kept.
        max_tokens: longer texts keep this many tokens: the first half and the last half, since a pasted log begins
            with the command and often ends with the error message.
        cache_dir: folder of prepared folders (see `project.data.cache`).
        empty_text: "keep" allows empty and white-space texts.
        labelled: False needs only `text` in a row.

    A text without tokens becomes one unknown token, so every length is at least 1. The dataset is pickled as paths
    only; each process maps the files at its first access.

    Attributes:
        rows: the checked rows of the file.
        fingerprint: hex digest of the token ids' inputs: rows, vocabulary, `max_tokens`.

    Raises:
        DataError: the file is faulty, or a label is not in the vocabulary.
    """

    def __init__(
        self,
        path: str | Path,
        vocabulary: Vocabulary,
        *,
        max_tokens: int,
        cache_dir: str | Path,
        empty_text: EmptyText = "refuse",
        labelled: bool = True,
    ) -> None:
        if max_tokens < 1:
            raise ValueError(f"data.max_tokens: too few, found {max_tokens}, expected at least 1")
        self.rows = load_rows(path, cache_dir, labelled=labelled, empty_text=empty_text)
        self.fingerprint = digest("dataset", FORMAT, self.rows.fingerprint, vocabulary.fingerprint, max_tokens)
        self._dtype = "<u2" if vocabulary.num_tokens <= 2**16 else "<i4"
        key = f"dataset-{self.fingerprint}"
        self._folder = prepared(cache_dir, key, lambda new: self._prepare(new, vocabulary, max_tokens))

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> Example:
        """Row `index`; for -1 - i, row i as a stand-in (see data/order.py)."""
        row = range(len(self))[index if index >= 0 else -1 - index]  # IndexError beyond the end
        tokens = self._tokens[self._offsets[row] : self._offsets[row + 1]]  # (T,)
        return Example(torch.from_numpy(tokens.astype(np.int64)), int(self.labels[row]), index)

    def __getitems__(self, indices: list[int]) -> list[Example]:
        """The rows of a micro-batch.

        Raises:
            DataError: a row cannot be read; the message, which also comes out of a loader process, names it.
        """
        examples = []
        for index in indices:
            try:
                examples.append(self[index])
            except Exception as error:
                row = index if index >= 0 else -1 - index
                reason = f"{type(error).__name__}: {error}"
                raise DataError(f"{self.path}: example {row} cannot be read ({reason}); delete the cache") from error
        return examples

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in ("fingerprint", "rows", "_dtype", "_folder")}

    def text(self, index: int) -> str:
        """The text of row `index`, as it stood in the file."""
        return self.rows.text(index)

    def line(self, index: int) -> int:
        """Line number, from 1, of row `index` in the file."""
        return int(self.rows.lines[index])

    @property
    def path(self) -> Path:
        """The user's file."""
        return self.rows.path

    @cached_property
    def labels(self) -> NDArray[np.int64]:
        """Class index of each row, (N,) int64; all -1 if the rows have no labels."""
        return open_array(self._folder / "labels", "<i8")

    @cached_property
    def num_tokens_of(self) -> NDArray[np.int64]:
        """Number of tokens of each row after cutting, (N,) int64, each at least 1."""
        return np.diff(self._offsets)

    @cached_property
    def _tokens(self) -> NDArray[Any]:
        return open_array(self._folder / "tokens", self._dtype)

    @cached_property
    def _offsets(self) -> NDArray[np.int64]:
        return open_array(self._folder / "offsets", "<i8")

    def _prepare(self, folder: Path, vocabulary: Vocabulary, max_tokens: int) -> None:
        _class_indices(self.rows, vocabulary).astype("<i8").tofile(folder / "labels")
        end = 0
        with (folder / "tokens").open("wb") as tokens, (folder / "offsets").open("wb") as offsets:
            offsets.write(np.array([0], "<i8").tobytes())
            for first in range(0, len(self.rows), CHUNK):
                texts = [self.rows.text(index) for index in range(first, min(first + CHUNK, len(self.rows)))]
                ids = [cut(row, max_tokens) for row in vocabulary.tokenizer.encode_batch(texts)]
                tokens.write(np.concatenate(ids).astype(self._dtype).tobytes())
                ends = end + np.cumsum([len(row) for row in ids])
                offsets.write(ends.astype("<i8").tobytes())
                end = int(ends[-1])


def cut(ids: list[int], max_tokens: int) -> list[int]:
    """The first and the last half of `max_tokens` ids if there are more; one unknown id if there are none."""
    if len(ids) <= max_tokens:
        return ids or [UNKNOWN_ID]
    tail = max_tokens // 2
    return ids[: max_tokens - tail] + ids[len(ids) - tail :]


def _class_indices(rows: Rows, vocabulary: Vocabulary) -> NDArray[np.int64]:
    """Class index of each row, (N,) int64.

    Raises:
        DataError: names the rows whose label is not in the vocabulary.
    """
    if rows.label_table is None:
        return np.full(len(rows), UNLABELLED)
    index_of = {label: index for index, label in enumerate(vocabulary.labels)}
    unseen = {
        code: f"label unseen in training, found {show(label)}, expected one of its {vocabulary.num_classes} labels; "
        f"nearest: {', '.join(map(show, vocabulary.nearest(label)))}"
        for code, label in enumerate(rows.label_table)
        if label not in index_of
    }
    faults = Faults(rows.path)
    for position in np.flatnonzero(np.isin(rows.label_codes, list(unseen))):
        faults.add(int(rows.lines[position]), unseen[int(rows.label_codes[position])])
    faults.stop_if_any()
    index_of_code = np.array([index_of[label] for label in rows.label_table])
    return index_of_code[rows.label_codes]
