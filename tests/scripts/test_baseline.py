"""`scripts/baseline.py`: figures against a count by hand, and both forms of output."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

import baseline
import tables


def jsonl(path: Path, rows: Sequence[tuple[str, str | int]]) -> Path:
    path.write_text("".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in rows))
    return path


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """A training file that is easy to learn, and four test rows of which two come out right."""
    train = jsonl(tmp_path / "train.jsonl", [(word, label) for word, label in zip("abc", "xyz", strict=True)] * 20)
    test = jsonl(tmp_path / "test.jsonl", [("a", "x"), ("b", "x"), ("b", "y"), ("a", "new")])
    return [str(train), str(test)]


def test_figures_against_a_count_by_hand(files: list[str]) -> None:
    result = baseline.measure(Path(files[0]), Path(files[1]))
    assert (result.num_train, result.num_test, result.num_classes) == (60, 4, 3)
    assert result.accuracy == 2 / 4
    # predicted x y y x for x x y new: F1 is 1/2 for x, 2/3 for y, 0 for new; z occurs nowhere and does not count
    assert result.macro_f1 == pytest.approx((1 / 2 + 2 / 3 + 0) / 3)
    assert result.seconds > 0


def test_word_pairs_count(tmp_path: Path) -> None:
    """The labels hang on the order of words alone, and on a word of one sign."""
    rows = [("not good", 0), ("good not", 1), ("? fine", 2), ("! fine", 3)]
    train, test = (
        jsonl(tmp_path / "train.jsonl", rows * 20),
        jsonl(tmp_path / "test.jsonl", [*rows, ("?", 2), ("!", 3)]),
    )
    assert baseline.measure(train, test).accuracy == 1


def test_table(files: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setenv("COLUMNS", "100")
    assert baseline.main(files) == 0
    heading, figures = tables.rows(capsys.readouterr().out)
    shown = dict(zip(heading, figures, strict=True))
    assert (shown["accuracy"], shown["macro-F1"]) == ("50.0%", "38.9%")
    assert "seconds" in shown


def test_json(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert baseline.main([*files, "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert list(figures) == ["num_train", "num_test", "num_classes", "accuracy", "macro_f1", "seconds"]
    assert figures["accuracy"] == 0.5


def test_faulty_row_is_refused_by_the_projects_rules(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"text": "a", "label": "x"}\n{"text": "a", "label": true}\n')
    assert baseline.main([files[0], str(bad)]) == 1
    assert f"{bad}:2:" in capsys.readouterr().err


def test_one_class_cannot_be_learned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    only = str(jsonl(tmp_path / "only.jsonl", [("a", "x"), ("b", "x")]))
    assert baseline.main([only, only]) == 1
    assert capsys.readouterr().err == f"{only}: every row has the label 'x'; a classifier needs two classes\n"


def test_what_a_word_is_can_be_said(tmp_path: Path) -> None:
    """Between brackets the words of both files are alike; between white space none is."""
    rows = [("(cat)", "animal"), ("[cat]", "animal"), ("(saw)", "tool"), ("[saw]", "tool")]
    train, test = tmp_path / "train.jsonl", tmp_path / "test.jsonl"
    train.write_text("".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in rows))
    test.write_text('{"text": "<cat>", "label": "animal"}\n{"text": "<saw>", "label": "tool"}\n')
    assert baseline.measure(train, test, r"\w+").accuracy == 1.0
    assert baseline.measure(train, test).accuracy == 0.5
