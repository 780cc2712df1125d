"""The bundled corpus as it is shipped: whole, as its card says, and without a text in two splits."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from functools import cache
from pathlib import Path

from project.tools.causes import CAUSES

DATA = Path(__file__).resolve().parents[1] / "data"
SPLITS = ("train", "val", "test")


@cache
def shipped(split: str) -> list[dict[str, str]]:
    """The rows of one split's file."""
    lines = (DATA / "errors" / f"{split}.jsonl").read_text("utf-8").removesuffix("\n").split("\n")
    return [json.loads(line) for line in lines]


def card() -> str:
    return (DATA / "README.md").read_text("utf-8")


def test_the_card_knows_every_file_by_its_checksum() -> None:
    stated = re.findall(r"^\| `(errors/\w+\.jsonl)` \| (\d+) \| `([0-9a-f]{64})` \|$", card(), re.MULTILINE)
    found = []
    for split in SPLITS:
        path = DATA / "errors" / f"{split}.jsonl"
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        found.append((f"errors/{split}.jsonl", str(len(shipped(split))), digest))
    assert stated == found


def test_the_card_counts_the_rows_of_every_cause() -> None:
    counts = {split: Counter(row["label"] for row in shipped(split)) for split in SPLITS}
    table = re.findall(r"^\| (\w+) \|((?: \d+ \|){7})$", card(), re.MULTILINE)
    assert [cause for cause, _ in table] == list(CAUSES)
    for cause, cells in table:
        train, val, test, raised, rendered, *_ = map(int, re.findall(r"\d+", cells))
        assert [train, val, test] == [counts[split][cause] for split in SPLITS], cause
        assert raised + rendered == train + val + test, cause


def test_every_row_is_a_new_text_with_a_known_label() -> None:
    rows = [row for split in SPLITS for row in shipped(split)]
    assert {tuple(row) for row in rows} == {("text", "label")}
    assert {row["label"] for row in rows} == set(CAUSES)
    assert len({row["text"] for row in rows}) == len(rows)
    for row in rows:
        assert 40 <= len(row["text"]) <= 800
        assert row["text"].count("\n") < 15


def test_the_causes_are_balanced() -> None:
    for split in SPLITS:
        counts = Counter(row["label"] for row in shipped(split))
        assert len(counts) == 20
        assert len(set(counts.values())) == 1


def test_every_cause_is_explained() -> None:
    for name, cause in CAUSES.items():
        assert cause.name == name
        assert all((cause.title, cause.meaning))
        assert 2 <= len(re.findall(r"[.!?](?= [A-Z`]|$)", cause.what_to_do)) <= 5, name
