"""Rows are read as they stand, kept in the cache by content, and refused with every fault named."""

import codecs
import gzip
import json
import os
import pickle
import tracemalloc
from pathlib import Path

import pytest

from project.data import rows as rows_module
from project.data.rows import DataError, Label, Rows, load_rows

GOOD = b'{"text": "a", "label": "x"}\n'


def write(path: Path, rows: list[tuple[str, Label]]) -> Path:
    path.write_text("".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in rows))
    return path


def load_bytes(tmp_path: Path, content: bytes, **settings: object) -> Rows:
    (tmp_path / "rows.jsonl").write_bytes(content)
    return load_rows(tmp_path / "rows.jsonl", tmp_path / "cache", **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "content",
    [
        pytest.param('{"text": "é\u2028b", "label": "x"}\n{"text": " c ", "label": "ü"}\n', id="plain"),
        pytest.param('{"text": "é\u2028b", "label": "x"}\r\n{"text": " c ", "label": "ü"}\r\n', id="CRLF"),
        pytest.param('\ufeff{"text": "é\u2028b", "label": "x"}\n{"text": " c ", "label": "ü"}\n', id="byte order mark"),
        pytest.param('{"text": "é\u2028b", "label": "x"}\n{"text": " c ", "label": "ü"}', id="no last newline"),
        pytest.param('{"text": "\\u00e9\\u2028b","label":"x"}\n{"label": "ü", "text": " c "}\n', id="escapes, order"),
        pytest.param(
            '{"text": "é\u2028b", "label": "x", "n": NaN}\n{"text": " c ", "label": "ü", "z": [{}]}\n', id="other keys"
        ),
    ],
)
def test_harmless_variants_give_the_same_rows(tmp_path: Path, content: str) -> None:
    rows = load_bytes(tmp_path, content.encode())
    assert list(rows.texts()) == ["é\u2028b", " c "]
    assert rows.labels == ["x", "ü"]
    assert rows.lines.tolist() == [1, 2]
    assert len(rows) == 2
    assert rows.text(-1) == " c "
    with pytest.raises(IndexError):
        rows.text(2)


def test_blank_lines_are_skipped_and_still_counted(tmp_path: Path) -> None:
    rows = load_bytes(tmp_path, b"\n  \r\n" + GOOD + b"\t\n" + GOOD + b"\n\n")
    assert rows.lines.tolist() == [3, 5]


def test_gzip(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl.gz"
    path.write_bytes(gzip.compress(GOOD) + gzip.compress(GOOD))  # two members, as `cat a.gz b.gz` leaves them
    assert list(load_rows(path, tmp_path / "cache").texts()) == ["a", "a"]


def test_integer_labels_stay_integers(tmp_path: Path) -> None:
    rows = load_rows(write(tmp_path / "rows.jsonl", [("a", 10), ("b", -2), ("c", 10)]), tmp_path / "cache")
    assert rows.labels == [10, -2, 10]
    assert rows.label_table == [10, -2]


def test_unlabelled_rows_need_only_text(tmp_path: Path) -> None:
    content = b'{"text": "a"}\n{"text": "b", "label": null}\n{"label": [true], "text": "c", "x": NaN, "y": "\\ud800"}\n'
    rows = load_bytes(tmp_path, content, labelled=False)
    assert list(rows.texts()) == ["a", "b", "c"]
    assert rows.labels is None


def test_empty_texts_can_be_kept(tmp_path: Path) -> None:
    rows = load_bytes(tmp_path, b'{"text": "", "label": 1}\n{"text": "", "label": 2}\n', empty_text="keep")
    assert list(rows.texts()) == ["", ""]
    rows = load_bytes(tmp_path, b'{"text": "", "label": 1}\n{"text": " \\n", "label": 2}\n', empty_text="keep")
    assert list(rows.texts()) == ["", " \n"]


ONE = 'one {"text": "…", "label": "…"}'
KINDS = "labels of two kinds, strings and integers"
NOT_LABEL = "label is not a string or an integer"
WORDS = "a text with words; data.empty_text: keep allows such rows"
PAIR = "text without half a surrogate pair"
TAIL = " (Expecting property name enclosed in double quotes at column 15)"


@pytest.mark.parametrize(
    ("line", "wrong", "found", "right"),
    [
        (b'{"text": "a", ', "malformed JSON", '{"text": "a", ' + TAIL, ONE),
        (GOOD.strip() + b" x", "malformed JSON", GOOD.decode().strip() + " x (Extra data at column 29)", ONE),
        (b'{"text": "a", "y": ' + b"[" * 100_000, "malformed JSON", "brackets nested too deeply", ONE),
        (b'["a", "x"]', "not an object", '["a", "x"]', ONE),
        (b"null", "not an object", "null", ONE),
        (b'{"txt": "a", "label": "x"}', 'missing key "text"', 'the keys "txt", "label"', ONE),
        (b'{"text": "a"}', 'missing key "label"', 'the keys "text"', ONE),
        (b"{}", 'missing key "text"', "no keys", ONE),
        (b'{"text": 3, "label": "x"}', "text is not a string", "3", 'a string such as "…"'),
        (b'{"text": null, "label": "x"}', "text is not a string", "null", 'a string such as "…"'),
        *(
            (b'{"text": "a", "label": %s}' % label, NOT_LABEL, label.decode(), 'one such as "spam" or 3')
            for label in (b"true", b"1.0", b"null", b'["x"]', b"NaN")
        ),
        (b'{"text": "a", "label": 3}', KINDS, "3", 'the kind of line 1, "x"'),
        (b'{"text": "", "label": "x"}', "empty text", '""', WORDS),
        (b'{"text": " \\n\xe3\x80\x80", "label": "x"}', "empty text", '" \\n\u3000"', WORDS),
        (b'{"text": "a\xff", "label": "x"}', "invalid UTF-8", "byte ff at byte 39 of the file", "UTF-8 text"),
        (b'{"text": "a", "y": "\xc3"}', "invalid UTF-8", "byte c3 at byte 48 of the file", "UTF-8 text"),
        (b'{"text": "ab\\ud83d", "label": "x"}', "lone surrogate in text", "\\ud83d at character 2", PAIR),
        (b'{"text": "a", "label": "\\ude00"}', "lone surrogate in label", "\\ude00 at character 0", PAIR),
    ],
)
def test_faulty_line(tmp_path: Path, line: bytes, wrong: str, found: str, right: str) -> None:
    with pytest.raises(DataError) as error:
        load_bytes(tmp_path, GOOD + line + b"\n" + GOOD)
    assert str(error.value) == f"{tmp_path}/rows.jsonl:2: {wrong}, found {found}, expected {right}"


def test_byte_offset_counts_byte_order_mark_and_gzip_content(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl.gz"
    path.write_bytes(gzip.compress(codecs.BOM_UTF8 + b'{"text": "\xff'))
    with pytest.raises(DataError, match="found byte ff at byte 13 of the file"):
        load_rows(path, tmp_path / "cache")


def test_every_faulty_line_is_counted_and_ten_are_shown(tmp_path: Path) -> None:
    with pytest.raises(DataError) as error:
        load_bytes(tmp_path, GOOD + b"[]\n" * 25)
    head, *shown = str(error.value).splitlines()
    assert head == f"{tmp_path}/rows.jsonl: 25 faulty lines, the first 10:"
    assert shown == [f"{tmp_path}/rows.jsonl:{line}: not an object, found [], expected {ONE}" for line in range(2, 12)]
    with pytest.raises(DataError) as error:
        load_bytes(tmp_path, b"[]\n" + GOOD + b"{\n")
    assert str(error.value).startswith(
        f"{tmp_path}/rows.jsonl: 2 faulty lines:\n{tmp_path}/rows.jsonl:1: not an object"
    )
    assert [path.suffix for path in (tmp_path / "cache").iterdir()] == [".lock", ".lock"]


@pytest.mark.parametrize("content", [b"", b"\n \r\n", codecs.BOM_UTF8])
def test_file_without_rows(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(DataError) as error:
        load_bytes(tmp_path, content)
    assert str(error.value) == f"{tmp_path}/rows.jsonl: no rows, found {len(content)} bytes, expected {ONE} a line"


@pytest.mark.parametrize(
    ("encoding", "bom", "named"),
    [
        ("utf-16-le", codecs.BOM_UTF16_LE, "UTF-16"),
        ("utf-16-be", codecs.BOM_UTF16_BE, "UTF-16"),
        ("utf-32-le", codecs.BOM_UTF32_LE, "UTF-32"),
        ("utf-32-be", codecs.BOM_UTF32_BE, "UTF-32"),
        ("utf-16-le", b"", "UTF-16-LE"),
        ("utf-16-be", b"", "UTF-16-BE"),
        ("utf-32-le", b"", "UTF-32-LE"),
        ("utf-32-be", b"", "UTF-32-BE"),
    ],
)
def test_wide_encodings_are_named_with_their_cure(tmp_path: Path, encoding: str, bom: bytes, named: str) -> None:
    content = bom + GOOD.decode().encode(encoding)
    with pytest.raises(DataError) as error:
        load_bytes(tmp_path, content)
    assert str(error.value) == (
        f"{tmp_path}/rows.jsonl:1: text is {named}, found bytes {content[:4].hex(' ')} at byte 0, expected UTF-8; "
        f"convert it: iconv -f {named} -t UTF-8 rows.jsonl > utf8.jsonl"
    )


def test_path_that_is_no_readable_file(tmp_path: Path) -> None:
    with pytest.raises(DataError) as error:
        load_rows(tmp_path / "none.jsonl", tmp_path / "cache")
    expected = "expected a .jsonl or .jsonl.gz file"
    assert (
        str(error.value) == f"{tmp_path}/none.jsonl: no such file, found nothing at {tmp_path}/none.jsonl, {expected}"
    )
    with pytest.raises(DataError) as error:
        load_rows(tmp_path, tmp_path / "cache")
    assert str(error.value) == f"{tmp_path}: not a file, found a folder, {expected}"
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="not a file, found a pipe or device"):
        load_rows(tmp_path / "pipe", tmp_path / "cache")


def test_broken_gzip(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl.gz"
    path.write_bytes(GOOD)
    with pytest.raises(
        DataError, match=r"rows\.jsonl\.gz: not gzip, found Not a gzipped file \(b'\{\"'\), expected gzip"
    ):
        load_rows(path, tmp_path / "cache")
    path.write_bytes(gzip.compress(GOOD * 1000)[:-12])
    with pytest.raises(
        DataError, match=r"rows\.jsonl\.gz: damaged gzip, found Compressed file ended before .* a whole"
    ):
        load_rows(path, tmp_path / "cache")
    damaged = bytearray(gzip.compress(GOOD * 1000))
    damaged[20] ^= 255
    path.write_bytes(damaged)
    with pytest.raises(DataError, match=r"rows\.jsonl\.gz: (damaged|not) gzip"):
        load_rows(path, tmp_path / "cache")
    with pytest.raises(DataError, match=r"rows\.jsonl:1: compressed content, .* name the file rows\.jsonl\.gz"):
        load_bytes(tmp_path, gzip.compress(GOOD))


def test_cache_is_keyed_by_content_and_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[Path] = []
    pack = rows_module._pack

    def counted(path: Path, folder: Path, labelled: bool, empty_text: rows_module.EmptyText) -> None:
        built.append(path)
        pack(path, folder, labelled, empty_text)

    monkeypatch.setattr(rows_module, "_pack", counted)
    path, cache = write(tmp_path / "rows.jsonl", [("a", "x"), ("b", "y")]), tmp_path / "cache"
    stat = path.stat()
    first = load_rows(path, cache)
    assert load_rows(path, cache).fingerprint == first.fingerprint
    copy = load_rows(write(tmp_path / "copy.jsonl", [("a", "x"), ("b", "y")]), cache)
    assert (copy.fingerprint, copy.path) == (first.fingerprint, tmp_path / "copy.jsonl")
    assert len(built) == 1

    write(path, [("a", "x"), ("c", "y")])  # same size, same time
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    changed = load_rows(path, cache)
    assert list(changed.texts()) == ["a", "c"]
    assert list(first.texts()) == ["a", "b"]
    others = [load_rows(path, cache, labelled=False), load_rows(path, cache, empty_text="keep")]
    assert len({rows.fingerprint for rows in (first, changed, *others)}) == 4
    assert len(built) == 4


def test_file_that_changes_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "rows.jsonl", [("a", "x")])
    monkeypatch.setattr(rows_module, "read_lines", lambda _: [(1, 0, path.write_bytes(GOOD * 2) and GOOD)])
    with pytest.raises(DataError, match="changed while it was read"):
        load_rows(path, tmp_path / "cache")


def test_pickle_holds_paths_only(tmp_path: Path) -> None:
    rows = load_rows(write(tmp_path / "rows.jsonl", [("word " * 1000, str(i)) for i in range(100)]), tmp_path / "cache")
    assert len(list(rows.texts())) == len(rows.labels or []) == 100  # everything is mapped now
    assert len(pickle.dumps(rows)) < 1000
    assert list(pickle.loads(pickle.dumps(rows)).texts()) == list(rows.texts())


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    def peak(num_rows: int) -> int:
        path = write(tmp_path / f"{num_rows}.jsonl", [("word " * 200, i % 5) for i in range(num_rows)])
        tracemalloc.start()
        load_rows(path, tmp_path / "cache")
        highest = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return highest

    peak(10)
    assert peak(10_000) < peak(1_000) + 100_000  # the larger file is 9 MB more
