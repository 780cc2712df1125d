"""The vocabulary of a run: tokenizer and labels, both from the training rows alone.

It is fitted once, cached, and saved in every checkpoint as plain strings, numbers and lists.
"""

import difflib
import json
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import tokenizers

from project.data.cache import digest, prepared
from project.data.lines import show
from project.data.rows import DataError, Label, Rows
from project.data.tokenizer import Tokenizer, TokenizerConfig
from project.errors import UserError

FORMAT = 1  # of the cached file; another number makes all of them anew


@dataclass(frozen=True)
class Vocabulary:
    """What a network's token ids and class indices stand for."""

    tokenizer: Tokenizer
    labels: tuple[Label, ...]
    """The label of each class, by index: strings in code-point order, or integers in numeric order."""

    @classmethod
    def fit(cls, rows: Rows, config: TokenizerConfig, cache_dir: str | Path) -> "Vocabulary":
        """Train the tokenizer on the rows and collect their labels, or read the result from the cache.

        Raises:
            DataError: the rows have fewer than two different labels, or were read without labels.
            UserError: no word occurs often enough (see `Tokenizer.train`).
        """
        labels = rows.label_table or []
        if len(labels) < 2:
            found = f"only {show(labels[0])} on all {len(rows)} rows" if labels else "no labels"
            raise DataError(f"{rows.path}: too few classes, found {found}, expected two different labels or more")

        def build(folder: Path) -> None:
            # The labels of a file are all strings or all integers, so they can be sorted.
            fitted = cls(Tokenizer.train(rows.texts(), config), tuple(sorted(labels)))
            (folder / "state.json").write_text(json.dumps(fitted.to_state()), encoding="utf-8")

        key = digest("vocabulary", FORMAT, tokenizers.__version__, rows.fingerprint, asdict(config))
        folder = prepared(cache_dir, f"vocabulary-{key}", build)
        return cls.from_state(json.loads((folder / "state.json").read_text(encoding="utf-8")))

    def to_state(self) -> dict[str, Any]:
        """The vocabulary as plain strings, integers and lists, for JSON and `torch.load(weights_only=True)`."""
        return {"tokenizer": self.tokenizer.to_json(), "labels": list(self.labels)}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "Vocabulary":
        """Restore a vocabulary from `to_state`.

        Raises:
            UserError: the state is not that of a vocabulary.
        """
        try:
            return cls(Tokenizer.from_json(state["tokenizer"]), tuple(state["labels"]))
        except Exception as error:  # tokenizers raises nothing more specific
            reason = f"{type(error).__name__}: {error}".partition("\n")[0][:120]
            raise UserError(f"the checkpoint's tokenizer and labels cannot be read ({reason}); take another") from None

    @property
    def num_tokens(self) -> int:
        """Number of token ids, padding and unknown included."""
        return self.tokenizer.num_tokens

    @property
    def num_classes(self) -> int:
        """Number of different labels."""
        return len(self.labels)

    @cached_property
    def fingerprint(self) -> str:
        """Hex digest over tokenizer and labels."""
        return digest("vocabulary", self.tokenizer.fingerprint, self.labels)

    def nearest(self, label: Label) -> list[Label]:
        """Up to three known labels that are most similar to the given one, the best first."""
        if isinstance(label, int) and all(isinstance(known, int) for known in self.labels):
            return sorted(self.labels, key=lambda known: abs(int(known) - label))[:3]
        by_name = {str(known): known for known in self.labels}
        close = difflib.get_close_matches(str(label), list(by_name), cutoff=0.0)
        return [by_name[name] for name in close]
