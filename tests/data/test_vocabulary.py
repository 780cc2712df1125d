"""A vocabulary comes from the training rows alone, once, and travels as plain values."""

import io
import json
import re
from pathlib import Path

import pytest
import torch

from project.data import vocabulary as vocabulary_module
from project.data.rows import DataError, Label, Rows, load_rows
from project.data.tokenizer import UNKNOWN_ID, Tokenizer, TokenizerConfig
from project.data.vocabulary import Vocabulary

CONFIG = TokenizerConfig(min_count=1)


def rows_of(tmp_path: Path, labels: list[Label]) -> Rows:
    path = tmp_path / "train.jsonl"
    path.write_text("".join(json.dumps({"text": f"word{label}", "label": label}) + "\n" for label in labels))
    return load_rows(path, tmp_path / "cache")


def test_labels_are_sorted_by_their_kind(tmp_path: Path) -> None:
    assert Vocabulary.fit(rows_of(tmp_path, ["b", "10", "9", "b"]), CONFIG, tmp_path).labels == ("10", "9", "b")
    vocabulary = Vocabulary.fit(rows_of(tmp_path, [10, 9, -1, 9]), CONFIG, tmp_path)
    assert vocabulary.labels == (-1, 9, 10)
    assert vocabulary.num_classes == 3


def test_state_is_plain_and_restores(tmp_path: Path) -> None:
    vocabulary = Vocabulary.fit(rows_of(tmp_path, ["é", "x"]), CONFIG, tmp_path)
    buffer = io.BytesIO()
    torch.save(vocabulary.to_state(), buffer)
    buffer.seek(0)
    for state in (torch.load(buffer, weights_only=True), json.loads(json.dumps(vocabulary.to_state()))):
        restored = Vocabulary.from_state(state)
        assert restored.labels == ("x", "é")
        assert restored.fingerprint == vocabulary.fingerprint
        assert restored.num_tokens == vocabulary.num_tokens


def test_fingerprint_covers_tokenizer_and_labels() -> None:
    one, other = (Tokenizer.train([text], CONFIG) for text in ("a", "b"))
    fingerprints = {
        Vocabulary(tokenizer, labels).fingerprint
        for tokenizer in (one, other)
        for labels in ((1, 2), ("1", "2"), (1, 3))
    }
    assert len(fingerprints) == 6


def test_fitted_once_for_the_same_rows_and_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained: list[TokenizerConfig] = []

    class Counted(Tokenizer):
        @classmethod
        def train(cls, texts: object, config: TokenizerConfig) -> Tokenizer:
            trained.append(config)
            return Tokenizer.train(texts, config)  # type: ignore[arg-type]

    monkeypatch.setattr(vocabulary_module, "Tokenizer", Counted)
    rows = rows_of(tmp_path, ["a", "b"])
    first = Vocabulary.fit(rows, CONFIG, tmp_path / "cache")
    assert Vocabulary.fit(rows, CONFIG, tmp_path / "cache").fingerprint == first.fingerprint
    assert trained == [CONFIG]
    other = TokenizerConfig(kind="bpe", min_count=1)
    Vocabulary.fit(rows, other, tmp_path / "cache")
    Vocabulary.fit(rows_of(tmp_path, ["a", "c"]), CONFIG, tmp_path / "cache")
    assert trained == [CONFIG, other, CONFIG]


def test_words_come_from_the_training_rows(tmp_path: Path) -> None:
    vocabulary = Vocabulary.fit(rows_of(tmp_path, ["known", "seen"]), CONFIG, tmp_path)
    assert UNKNOWN_ID not in vocabulary.tokenizer.encode("wordknown wordseen")
    assert vocabulary.tokenizer.encode("wordother") == [UNKNOWN_ID]


def test_too_few_classes(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, ["x", "x"])
    message = f'{rows.path}: too few classes, found only "x" on all 2 rows, expected two different labels or more'
    with pytest.raises(DataError, match=re.escape(message)):
        Vocabulary.fit(rows, CONFIG, tmp_path)
    unlabelled = load_rows(rows.path, tmp_path / "cache", labelled=False)
    with pytest.raises(DataError, match="found no labels"):
        Vocabulary.fit(unlabelled, CONFIG, tmp_path)


def test_nearest_labels() -> None:
    tokenizer = Tokenizer.train(["a"], CONFIG)
    names = Vocabulary(tokenizer, ("dtype_mismatch", "graph_freed", "no_grad", "shape_mismatch"))
    assert names.nearest("shpe_mismatch")[0] == "shape_mismatch"
    assert len(names.nearest("zzz")) == 3
    assert Vocabulary(tokenizer, (1, 5, 30, 100)).nearest(28) == [30, 5, 1]
    assert Vocabulary(tokenizer, ("1", "2")).nearest(2)[0] == "2"
