"""`scripts/to_jsonl.py`: every form of source, the split's promises, and what a person is told about bad rows."""

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from to_jsonl import main


def convert(source: Path, *flags: str) -> list[tuple[str, str | int]]:
    """The rows of a conversion to a single file, which must succeed."""
    output = source.parent / "out.jsonl"
    assert main([str(source), "--output", str(output), *flags]) == 0
    return rows_of(output)


def rows_of(path: Path) -> list[tuple[str, str | int]]:
    """The rows of a JSONL file, which ends in a newline and has no other keys."""
    content = path.read_text(encoding="utf-8")
    assert content.endswith("\n")
    rows: list[dict[str, Any]] = [json.loads(line) for line in content.removesuffix("\n").split("\n")]
    assert all(list(row) == ["text", "label"] for row in rows)
    return [(row["text"], row["label"]) for row in rows]


def source_file(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def failure(capsys: pytest.CaptureFixture[str], *argv: str | Path) -> list[str]:
    """The lines of the error of a conversion that must fail as the product's commands do, and print nothing else."""
    assert main([str(part) for part in argv]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    return err.removeprefix("error: ").splitlines()


def test_csv_with_bom_crlf_quoted_newline_and_quotes(tmp_path: Path) -> None:
    source = source_file(tmp_path, "a.csv", '\ufefflabel,id,text\r\npos,1,"one\r\n""two"", é"\r\n\r\nneg,2, plain\r\n')
    assert convert(source) == [('one\n"two", é', "pos"), (" plain", "neg")]


def test_csv_columns_by_name_and_by_number(tmp_path: Path) -> None:
    source = source_file(tmp_path, "a.csv", "stars,review\n5,good\n1,bad\n")
    assert convert(source, "--text", "review", "--label", "stars") == [("good", 5), ("bad", 1)]
    source = source_file(tmp_path, "b.csv", "x,good\ny,bad\n")
    assert convert(source, "--text", "2", "--label", "1", "--overwrite") == [("good", "x"), ("bad", "y")]


def test_csv_field_of_a_million_characters(tmp_path: Path) -> None:
    source = source_file(tmp_path, "a.csv", f"text,label\n{'x' * 1_000_000},a\n")
    assert convert(source) == [("x" * 1_000_000, "a")]


def test_tsv_quoted_as_in_csv(tmp_path: Path) -> None:
    source = source_file(tmp_path, "a.tsv", 'text\tlabel\n"one\ntwo ""three"""\ta\n"x"\tb\n')
    assert convert(source) == [('one\ntwo "three"', "a"), ("x", "b")]


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        ('text\tlabel\n"good" film\ta\n', [('"good" film', "a")]),  # not closed at the field's end
        ('text\tlabel\n"one\ta\ntwo"\tb\n', [('"one', "a"), ('two"', "b")]),  # would glue two rows
        ('label\ttext\na\t"one\nb\ttwo"\n', [('"one', "a"), ('two"', "b")]),
        ('label\ttext\na\t"one\ntwo" b\tthree\n', [('"one', "a"), ("three", 'two" b')]),
        ('label\ttext\na\t"one\nb"\ttwo\n', [('"one', "a"), ("two", 'b"')]),  # would be a row of three fields
        ('text\tmore\tlabel\nx\t"y\ta\n"\t"z\tb\n', [("x", "a"), ('"', "b")]),
    ],
)
def test_tsv_whose_quotes_are_plain_characters(tmp_path: Path, content: str, rows: list[tuple[str, str | int]]) -> None:
    assert convert(source_file(tmp_path, "a.tsv", content)) == rows


def test_lines_in_latin_1(tmp_path: Path) -> None:
    source = source_file(tmp_path, "a.txt", b"1 cr\xe8me  br\xfbl\xe9e \r\n\r\n0\tbad\x85\n")
    assert convert(source, "--encoding", "latin-1") == [("crème  brûlée ", 1), ("bad\x85", 0)]
    assert "crème" in (tmp_path / "out.jsonl").read_text(encoding="utf-8")  # to be read by people too


def test_folder_per_class(tmp_path: Path) -> None:
    root = tmp_path / "films"
    for name, content in {
        "pos/b.txt": "so\ngood\n",
        "pos/a.txt": "fine",
        "neg/a.txt": "bad",
        "neg/.hidden": "",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    (root / "README").write_text("not a text")
    assert convert(root) == [("bad", "neg"), ("fine", "pos"), ("so\ngood", "pos")]


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ("0 -1 12", [0, -1, 12]),
        ("0 07", ["0", "07"]),
        ("0 1.0", ["0", "1.0"]),
        ("0 \u0661", ["0", "\u0661"]),
        ("0 x", ["0", "x"]),
    ],
)
def test_labels_are_integers_only_when_all_are_plain(tmp_path: Path, labels: str, expected: list[str | int]) -> None:
    source = source_file(tmp_path, "a.txt", "".join(f"{label} text\n" for label in labels.split()))
    assert [label for _, label in convert(source)] == expected


def split(source: Path, output: Path, *flags: str) -> dict[str, list[tuple[str, str | int]]]:
    assert main([str(source), "--output", str(output), *flags]) == 0
    return {path.stem: rows_of(path) for path in sorted(output.iterdir())}


def many_rows(folder: Path) -> Path:
    counts = {"a": 500, "b": 100, "c": 30}
    lines = [f"{label} text {number} of {label}\n" for label, count in counts.items() for number in range(count)]
    return source_file(folder, "many.txt", "".join(lines))


def test_split_is_stratified_and_complete(tmp_path: Path) -> None:
    source = many_rows(tmp_path)
    parts = split(source, tmp_path / "out", "--split", "0.7,0.2,0.1")
    assert {name: Counter(label for _, label in rows) for name, rows in parts.items()} == {
        "train": {"a": 350, "b": 70, "c": 21},
        "val": {"a": 100, "b": 20, "c": 6},
        "test": {"a": 50, "b": 10, "c": 3},
    }
    assert sorted(row for rows in parts.values() for row in rows) == sorted(convert(source))


def test_same_seed_same_files_other_seed_other_files(tmp_path: Path) -> None:
    source = many_rows(tmp_path)
    first, again, other = (split(source, tmp_path / name, "--seed", name[0]) for name in ("1", "1 again", "2"))
    assert first == again
    assert {text for text, _ in first["test"]} != {text for text, _ in other["test"]}


def test_identical_texts_stay_together_and_shares_hold(tmp_path: Path) -> None:
    lines = [f"{number % 2} text {number % 60}{' ' * (number % 7)}\n" for number in range(300)]
    parts = split(source_file(tmp_path, "a.txt", "".join(lines)), tmp_path / "out", "--split", "0.6,0.2,0.2")
    where: defaultdict[str, set[str]] = defaultdict(set)
    for name, rows in parts.items():
        for text, _ in rows:
            where[text.strip()].add(name)
    assert all(len(names) == 1 for names in where.values())
    assert {name: Counter(label for _, label in rows) for name, rows in parts.items()} == {
        "train": {0: 90, 1: 90},
        "val": {0: 30, 1: 30},
        "test": {0: 30, 1: 30},
    }


@pytest.mark.parametrize("seed", range(5))
def test_shares_hold_beside_a_text_that_is_repeated_often(tmp_path: Path, seed: int) -> None:
    lines = ["a often\n"] * 40 + [f"a text {number}\n" for number in range(60)]
    flags = ("--split", "0.5,0.25,0.25", "--seed", str(seed))
    parts = split(source_file(tmp_path, "a.txt", "".join(lines)), tmp_path / "out", *flags)
    assert {name: len(rows) for name, rows in parts.items()} == {"train": 50, "val": 25, "test": 25}


def test_one_text_with_two_labels_is_in_one_split(tmp_path: Path) -> None:
    lines = [f"{label} text {number}\n" for number in range(50) for label in ("a", "b")]
    parts = split(source_file(tmp_path, "a.txt", "".join(lines)), tmp_path / "out")
    assert {name: Counter(label for _, label in rows) for name, rows in parts.items()} == {
        "train": {"a": 40, "b": 40},
        "val": {"a": 5, "b": 5},
        "test": {"a": 5, "b": 5},
    }


def test_rare_classes_fill_every_split(tmp_path: Path) -> None:
    lines = [f"class{label} text {label} {number}\n" for label in range(20) for number in range(5)]
    parts = split(source_file(tmp_path, "a.txt", "".join(lines)), tmp_path / "out")
    assert {name: len(rows) for name, rows in parts.items()} == {"train": 80, "val": 10, "test": 10}


def test_share_of_zero_leaves_that_file_alone(tmp_path: Path) -> None:
    source = many_rows(tmp_path)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "test.jsonl").write_text('{"text": "mine", "label": "a"}\n')
    parts = split(source, tmp_path / "out", "--split", "0.9,0.1,0")
    assert {name: len(rows) for name, rows in parts.items()} == {"test": 1, "train": 567, "val": 63}


def test_prints_counts_by_class_and_split(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    split(many_rows(tmp_path), tmp_path / "out")
    table = capsys.readouterr().out.splitlines()
    assert [line.split() for line in table[:5]] == [
        ["label", "train.jsonl", "val.jsonl", "test.jsonl"],
        ["a", "400", "50", "50"],
        ["b", "80", "10", "10"],
        ["c", "24", "3", "3"],
        ["all", "504", "63", "63"],
    ]


def test_warns_of_a_class_that_is_never_trained_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = source_file(tmp_path, "a.txt", "rare only\n" + "".join(f"a text {number}\n" for number in range(20)))
    split(source, tmp_path / "out", "--split", "0.2,0.4,0.4")
    assert capsys.readouterr().err == f"warning: not in {tmp_path / 'out' / 'train.jsonl'}: rare\n"


def test_bad_rows_are_all_named_by_their_first_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = source_file(tmp_path, "a.csv", 'text,label\n"two\nlines",a\n  ,b\nx,\n"a\nb",c,d\nfine,e\n')
    lines = failure(capsys, source, "--output", tmp_path / "out")
    assert [line.split(";")[0] for line in lines] == [
        f"{source}:4: found an empty text",
        f"{source}:5: found an empty label",
        f"{source}:6: found 3 fields, line 1 has 2",
    ]
    assert not (tmp_path / "out").exists()


def test_ten_bad_rows_are_shown_and_the_rest_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = failure(capsys, source_file(tmp_path, "a.txt", "alone\n" * 14), "--output", tmp_path / "out.jsonl")
    assert len(lines) == 11
    assert lines[0].endswith("a.txt:1: found only 'alone'; a line needs a label, a space and a text")
    assert lines[-1].endswith("and 4 more bad rows")


@pytest.mark.parametrize(
    ("name", "content", "flags", "message"),
    [
        ("a.csv", 'text,label\na,b\n"open,c\nd,e\n', [], "{source}:3: the row that starts here is not valid CSV"),
        ("a.csv", "one,two\na,b\n", [], "{source}:1: no column 'text', found 'one', 'two'; choose with --text"),
        ("a.csv", "text,label,label\na,b,c\n", [], "{source}:1: more than one column 'label'"),
        ("a.csv", "a,b\n", ["--text", "1", "--label", "3"], "{source}:1: found 2 columns; --text 1 --label 3 must be"),
        ("a.csv", "a,b\n", ["--text", "1"], "--text 1 --label label: give two names of the header, or two numbers"),
        ("a.csv", "t,l\nx,1\ny,2\n", ["--text", "1", "--label", "2"], "{source}:1: found label 'l' above integers"),
        ("a.csv", "text,label\n", [], "{source}: found no rows; is --format csv right?"),
        ("a.txt", "", [], "{source}: found no rows; is --format lines right?"),
        ("a.dat", "a b\n", [], "{source}: cannot tell the format from the name"),
        ("a.txt", b"a b\nc d\xe9\n", [], "{source}:2: not valid utf-8, found byte 0xe9 at offset 7; give the file's"),
        ("a.txt", "a b\n".encode("utf-16"), [], "perhaps utf-16"),
        ("a.txt", "a b\n", ["--encoding", "latin-99"], "--encoding: unknown encoding 'latin-99'"),
    ],
)
def test_unusable_source_is_one_clear_line(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    content: str | bytes,
    flags: list[str],
    message: str,
) -> None:
    source = source_file(tmp_path, name, content)
    (line,) = failure(capsys, source, "--output", tmp_path / "out.jsonl", *flags)
    assert message.format(source=source) in line
    assert sorted(tmp_path.iterdir()) == [source]


def test_missing_source(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = failure(capsys, tmp_path / "none.csv", "--output", tmp_path / "out")
    assert lines == [f"{tmp_path / 'none.csv'}: No such file or directory"]


def test_bad_files_of_a_folder_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "films" / "pos"
    (folder / "nested").mkdir(parents=True)
    bad, empty = source_file(folder, "bad.txt", b"good\n\xff"), source_file(folder, "empty.txt", "\n")
    lines = failure(capsys, tmp_path / "films", "--output", tmp_path / "out")
    assert [line.split(",")[0].split(";")[0] for line in lines] == [
        f"{bad}:2: not valid utf-8",
        f"{empty}:1: found an empty text",
        f"{folder / 'nested'}:1: found a folder inside a class",
    ]


def test_too_few_rows_for_a_split(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = source_file(tmp_path, "a.txt", "a one\na two\n")
    (line,) = failure(capsys, source, "--output", tmp_path / "out")
    assert line == f"{source}: 2 rows are too few, none falls to val.jsonl; change --split"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("shares", ["0.8,0.2", "0.8,0.1,0.2", "1,-0.5,0.5", "0,0.5,0.5", "a,b,c", "1/0,0,1"])
def test_split_must_be_three_shares_of_one(tmp_path: Path, capsys: pytest.CaptureFixture[str], shares: str) -> None:
    with pytest.raises(SystemExit, match="2"):
        main([str(many_rows(tmp_path)), "--output", str(tmp_path / "out"), f"--split={shares}"])
    assert f"found '{shares}'; give shares of train,val,test that sum to 1" in capsys.readouterr().err


def test_split_of_a_single_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main([str(many_rows(tmp_path)), "--output", str(tmp_path / "out.jsonl"), "--split", "0.8,0.1,0.1"])
    assert "--split needs a folder as --output" in capsys.readouterr().err


def test_a_program_that_reads_the_old_file_is_not_disturbed(tmp_path: Path) -> None:
    source, output = source_file(tmp_path, "a.txt", "a old\n"), tmp_path / "out.jsonl"
    convert(source)
    with output.open() as reader:
        source.write_text("a new\n")
        assert convert(source, "--overwrite") == [("new", "a")]
        assert reader.read() == '{"text": "old", "label": "a"}\n'


@pytest.mark.parametrize("output", ["out.jsonl", "out"])
def test_files_that_are_there_are_not_replaced_unasked(
    output: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, path = many_rows(tmp_path), tmp_path / output
    assert main([str(source), "--output", str(path)]) == 0
    files = sorted(tmp_path.rglob("*.jsonl"))
    before = {file: file.read_bytes() for file in files}
    capsys.readouterr()
    source.write_text("".join(f"a new {number}\n" for number in range(40)))
    (line,) = failure(capsys, source, "--output", path)
    assert all(str(file) in line for file in files)
    assert line.endswith(": there already; add --overwrite to replace, or name another --output")
    assert {file: file.read_bytes() for file in files} == before


def test_failure_while_writing_leaves_the_old_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, output = many_rows(tmp_path), tmp_path / "out"
    before = split(source, output)
    capsys.readouterr()

    calls = iter(range(600))

    def disk_full_in_the_second_file(*args: Any, **kwargs: Any) -> str:
        if next(calls) == 550:
            raise OSError(28, "No space left on device", "val.jsonl")
        return "{}"

    monkeypatch.setattr("json.dumps", disk_full_in_the_second_file)
    assert failure(capsys, source, "--output", output, "--seed", "1", "--overwrite") == [
        "val.jsonl: No space left on device"
    ]
    monkeypatch.undo()
    assert {path.stem: rows_of(path) for path in output.iterdir()} == before
