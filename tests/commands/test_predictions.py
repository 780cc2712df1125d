"""The JSON lines that predict writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from project.commands.predictions import prediction_lines, write_predictions
from project.data.rows import DataError, load_rows
from project.errors import UserError

PROBABILITIES = torch.tensor([[0.25, 0.75], [0.9, 0.1], [0.5, 0.5]])


def test_lines_are_in_input_order_with_all_probabilities() -> None:
    lines = [json.loads(line) for line in prediction_lines(PROBABILITIES, ["no", "yes"])]
    assert lines == [
        {"index": 0, "label": "yes", "probability": 0.75, "probabilities": {"no": 0.25, "yes": 0.75}},
        {"index": 1, "label": "no", "probability": 0.9, "probabilities": {"no": 0.9, "yes": 0.1}},
        {"index": 2, "label": "no", "probability": 0.5, "probabilities": {"no": 0.5, "yes": 0.5}},
    ]


def test_each_line_is_one_object_and_text_stays_utf8() -> None:
    content = b"".join(prediction_lines(PROBABILITIES, ["né\n", '"b"']))
    assert content.count(b"\n") == 3
    assert content.endswith(b"\n")
    assert "né".encode() in content
    assert [json.loads(line)["label"] for line in content.splitlines()] == ['"b"', "né\n", "né\n"]


def test_integer_labels_stay_integers() -> None:
    lines = [json.loads(line) for line in prediction_lines(PROBABILITIES, [3, -1])]
    assert [line["label"] for line in lines] == [-1, 3, 3]
    assert all(type(line["label"]) is int for line in lines)
    assert list(lines[0]["probabilities"]) == ["3", "-1"]  # keys of JSON are strings


def test_labels_that_print_alike_cannot_occur(tmp_path: Path) -> None:
    """1 and "1" would be one key of `probabilities`; rows refuse labels of two kinds."""
    path = tmp_path / "rows.jsonl"
    path.write_text('{"text": "a", "label": 1}\n{"text": "b", "label": "1"}\n')
    with pytest.raises(DataError, match="labels of two kinds"):
        load_rows(path, tmp_path / "cache")


def test_a_file_replaces_an_older_one_whole(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    path.write_text("older\n")
    write_predictions(PROBABILITIES, ["no", "yes"], str(path))
    assert path.read_bytes() == b"".join(prediction_lines(PROBABILITIES, ["no", "yes"]))
    assert list(tmp_path.iterdir()) == [path]


def test_a_failure_leaves_the_older_file_and_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    path.write_text("older\n")
    with pytest.raises(ValueError, match="zip"):  # more probabilities than labels, found while writing
        write_predictions(PROBABILITIES, ["no"], str(path))
    assert path.read_text() == "older\n"
    assert list(tmp_path.iterdir()) == [path]


def test_what_cannot_be_written_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "missing" / "out.jsonl"
    with pytest.raises(UserError) as caught:
        write_predictions(PROBABILITIES, ["no", "yes"], str(missing))
    assert str(caught.value) == f"--output: {missing} cannot be written: no such folder; make it first"
    with pytest.raises(UserError, match="cannot be written: Is a directory"):
        write_predictions(PROBABILITIES, ["no", "yes"], str(tmp_path))


def test_without_a_file_lines_go_to_standard_output(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    write_predictions(PROBABILITIES, ["no", "yes"], None)
    assert capsysbinary.readouterr().out == b"".join(prediction_lines(PROBABILITIES, ["no", "yes"]))
