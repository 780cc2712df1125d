"""What people hand over as data: refused with file and line, or remarked upon where it may be meant."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from project.__main__ import main
from project.data import rows as rows_module
from project.data.config import DataConfig
from project.data.rows import DataError, Label, load_rows
from project.data.splits import Data
from project.data.tokenizer import TokenizerConfig
from project.data.vocabulary import Vocabulary
from tiny_corpus import Corpus

CONFIG = Path(__file__).parents[2] / "configs" / "default.yaml"
TWINS = {"hand": ["hand"], "lit": ["fit"]}
ALL_WORDS = TokenizerConfig(min_count=1)
GOOD = b'{"text": "a", "label": "x"}\n'


def refused(path: Path) -> str:
    """The message; no cache is left."""
    with pytest.raises(DataError) as caught:
        load_rows(path, path.parent / "cache")
    assert not list((path.parent / "cache").glob("rows-*/label_codes"))
    return str(caught.value).removeprefix(f"{path}")


def write(path: Path, rows: list[tuple[str, Label]]) -> Path:
    path.write_text("".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in rows))
    return path


def remarks(path: Path) -> list[str]:
    """The same at the first load and from the cache."""
    first, again = (load_rows(path, path.parent / "cache").remarks for _ in range(2))
    assert first == again
    return [remark.removeprefix(f"{path}: ") for remark in first]


@pytest.mark.parametrize("packed", [False, True])
def test_one_line_of_200_megabytes(packed: bool, tmp_path: Path) -> None:
    path = tmp_path / ("rows.jsonl.gz" if packed else "rows.jsonl")
    with gzip.open(path, "wb", compresslevel=1) if packed else path.open("wb") as stream:
        stream.write(GOOD + b'{"text": "')
        for _ in range(200):
            stream.write(b"word" * 250_000)
    expected = ':2: line too long, found 16 MiB without its end, expected one {"text": "…", "label": "…"} a line'
    assert refused(path) == expected


def test_a_line_of_just_the_longest_length_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("project.data.lines.MAX_LINE_BYTES", len(GOOD))
    (tmp_path / "rows.jsonl").write_bytes(GOOD * 3)
    assert len(load_rows(tmp_path / "rows.jsonl", tmp_path / "other")) == 3
    monkeypatch.setattr("project.data.lines.MAX_LINE_BYTES", len(GOOD) - 1)
    (tmp_path / "rows.jsonl").write_bytes(GOOD * 4)
    assert refused(tmp_path / "rows.jsonl").startswith(":1: line too long")


@pytest.mark.parametrize("depth", [500, 100_000])
def test_deep_nesting(depth: int, tmp_path: Path) -> None:
    """In a key that nobody reads; whether it is taken or refused, it is one line."""
    path = tmp_path / "rows.jsonl"
    path.write_bytes(GOOD + b'{"text": "a", "label": "x", "y": ' + b"[" * depth + b"]" * depth + b"}\n")
    if depth == 500:
        assert len(load_rows(path, tmp_path / "cache")) == 2
    else:
        assert refused(path).startswith(":2: malformed JSON, found brackets nested too deeply, expected one")


@pytest.mark.parametrize("label", [10**29, -(10**29), 2**63])
def test_a_label_of_30_digits(label: int, tmp_path: Path) -> None:
    path = write(tmp_path / "rows.jsonl", [("a", 1), ("b", label)])
    expected = f":2: label beyond 64 bits, found {label}, expected a smaller integer, or a string in quotes"
    assert refused(path) == expected
    path.write_bytes(b'{"text": "a", "label": "x", "id": %d}\n' % label)  # elsewhere it is nobody's business
    assert load_rows(path, tmp_path / "cache").labels == ["x"]


def test_the_largest_integers_are_labels(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.jsonl", [("a", 2**63 - 1), ("b", -(2**63))])
    assert load_rows(path, tmp_path / "cache").labels == [2**63 - 1, -(2**63)]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (bytes(4096), ":1: NUL bytes, found 00 00 00 00 at byte 0, expected text; the file was not written to its end"),
        (GOOD + bytes(100), ":2: malformed JSON, found \\x00\\x00"),
        (GOOD + b'{"text": "a\x00b", "label": "x"}\n', ':2: malformed JSON, found {"text": "a\\x00b"'),
        (GOOD + b'{"text": "\x1b[2J\n', ':2: malformed JSON, found {"text": "\\x1b[2J'),  # would clear a terminal
    ],
)
def test_nul_bytes_and_control_characters(content: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_bytes(content)
    message = refused(tmp_path / "rows.jsonl")
    assert message.startswith(said)
    assert message.isprintable()


def test_an_escaped_nul_is_a_character_like_others(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_bytes(b'{"text": "a\\u0000b", "label": "x"}\n')
    assert list(load_rows(tmp_path / "rows.jsonl", tmp_path / "cache").texts()) == ["a\0b"]


@pytest.mark.parametrize("kind", ["loop", "dangling"])
def test_links_that_lead_nowhere(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.symlink_to(path if kind == "loop" else tmp_path / "gone")
    found = (
        f": no such file, found a link that leads to no file, {path if kind == 'loop' else tmp_path / 'gone'}, expected"
    )
    assert refused(path).startswith(found)


def test_a_link_to_a_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "real.jsonl").write_bytes(GOOD)
    (tmp_path / "rows.jsonl").symlink_to("real.jsonl")
    assert len(load_rows(tmp_path / "rows.jsonl", tmp_path / "cache")) == 1


def test_a_file_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "no such file" in refused(tmp_path / "file" / "rows.jsonl")


def test_a_name_that_is_too_long(tmp_path: Path) -> None:
    assert ": cannot be read, found File name too long, expected a readable file" in refused(tmp_path / ("a" * 300))


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (
            [b'{"text": "a", "text": "b", "label": "x"}'],
            ["1 row has a key twice, the first in line 2; the last value counts"],
        ),
        (
            [b'{"text": "a", "label": "y", "label": "x"}', b'{"label": "x", "text": "a", "text": "b"}'],
            ["2 rows have a key twice, the first in line 2; the last value counts"],
        ),
        ([b'{"text": "the \\"text\\" and \\"text\\"", "label": "x"}'], []),
        ([b'{"text": "a", "label": "x", "more": {"text": 1, "label": 2}}'], []),
        ([b'{"text": "\\"label\\"", "label": "label"}'], []),
        ([b'{"text": "a", "label": "x", "id": 1, "id": 2}'], []),
    ],
)
def test_a_key_given_twice_is_remarked_upon(lines: list[bytes], said: list[str], tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(GOOD + b"".join(line + b"\n" for line in lines))
    assert remarks(path) == said


def test_the_last_of_two_values_counts(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_bytes(b'{"text": "a", "text": "b", "label": "x"}\n')
    assert list(load_rows(tmp_path / "rows.jsonl", tmp_path / "cache").texts()) == ["b"]


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ([0, 1, 3], ["labels from 0 to 3, but no row has 2; such a class cannot be learnt"]),
        ([0, 2, 3, 5, 6, 7], ["labels from 0 to 7, but no row has 1, 4; such a class cannot be learnt"]),
        (
            [0, *range(12, 31)],
            ["labels from 0 to 30, but no row has 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, …; such a class cannot be learnt"],
        ),
        ([0, 1, 2], []),
        ([2, 1, 0], []),
        ([1, 2, 4], []),  # counted from 1, stars, years: what is missing cannot be known
        ([0, 404, 500], []),
        ([-1, 1], []),
        (["0", "1", "3"], []),
    ],
)
def test_a_gap_in_integer_labels_is_remarked_upon(labels: list[Label], said: list[str], tmp_path: Path) -> None:
    assert remarks(write(tmp_path / "rows.jsonl", [(f"t{label}", label) for label in labels])) == said


def test_texts_in_both_splits_are_counted_at_every_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    train = write(tmp_path / "train.jsonl", [("same", "x"), ("b", "y"), ("c", "x")])
    val = write(tmp_path / "val.jsonl", [("same", "x"), ("new", "y"), ("same", "y"), ("c", "x")])
    for _ in range(2):
        caplog.clear()
        data = Data(
            DataConfig(train_file=str(train), val_file=str(val), cache_dir=str(tmp_path / "cache"), tokenizer=ALL_WORDS)
        )
        data.fit_vocabulary()
        data.open_split("train")
        data.open_split("val")
        expected = f"warning: {val}: 3 of 4 texts are also in {train}; metrics on training texts are too good"
        assert [record.message for record in caplog.records] == [expected]


def test_only_one_of_several_ranks_remarks(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    train = write(tmp_path / "train.jsonl", [("a", 0), ("b", 1), ("c", 3)])
    config = DataConfig(
        train_file=str(train), val_file=str(train), cache_dir=str(tmp_path / "cache"), tokenizer=ALL_WORDS
    )
    for rank, num_remarks in (("0", 2), ("1", 0)):
        caplog.clear()
        monkeypatch.setenv("LOCAL_RANK", rank)
        data = Data(config)
        data.fit_vocabulary()
        data.open_split("train")
        data.open_split("val")
        assert len(caplog.records) == num_remarks + (rank == "0")  # the gap in either file, and the shared texts


@pytest.mark.parametrize("twin", TWINS)
def test_the_faults_of_several_files_are_reported_together(
    twin: str, corpus: Corpus, capsys: pytest.CaptureFixture[str]
) -> None:
    with corpus.train.open("ab") as stream:
        stream.write(b"{\n[]\n")
    corpus.val.unlink()
    assert main([*TWINS[twin], "--config", str(CONFIG), *corpus.arguments]) == 2
    lines = capsys.readouterr().err.splitlines()[-4:]
    assert lines[0] == f"error: {corpus.train}: 2 faulty lines:"
    assert lines[1].startswith(f"{corpus.train}:51: malformed JSON")
    assert lines[2].startswith(f"{corpus.train}:52: not an object")
    assert lines[3].startswith(f"{corpus.val}: no such file")


def test_a_cache_of_another_version_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, cache = write(tmp_path / "rows.jsonl", [("a", "x"), ("b", "y")]), tmp_path / "cache"
    new = load_rows(path, cache)
    monkeypatch.setattr(rows_module, "FORMAT", rows_module.FORMAT - 1)
    old = load_rows(path, cache)
    assert old.fingerprint != new.fingerprint
    assert len(list(cache.glob("rows-*/"))) == 2
    monkeypatch.setattr("project.data.vocabulary.tokenizers.__version__", "0.0.1")
    folders = set(cache.iterdir())
    Vocabulary.fit(old, ALL_WORDS, cache)
    monkeypatch.undo()
    Vocabulary.fit(old, ALL_WORDS, cache)
    assert len([path for path in set(cache.iterdir()) - folders if path.is_dir()]) == 2


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(GOOD)

    def denied(*args: object, **kwargs: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", denied)
    with pytest.raises(
        DataError, match=r"rows\.jsonl: cannot be read, found Permission denied, expected a readable file"
    ):
        load_rows(path, tmp_path / "cache")
