"""The corpus: the same seed gives the same bytes, splits do not touch, and nothing of the machine is in it."""

from __future__ import annotations

import itertools
import json
import os
import random
import re
import socket
from collections import Counter
from pathlib import Path

import pytest

import make
from corpus.message import Frame, Message
from corpus.raising import caught, scrubbed
from corpus.splits import SPLITS, Row, Split, assign_groups, draw_rows
from corpus.surroundings import MAX_CHARACTERS, MAX_LINES, MIN_CHARACTERS, surround
from project.tools.causes import CAUSES

DATA = Path(__file__).resolve().parents[3]
SMALL = ("out_of_memory", "non_contiguous_view", "device_mismatch")


def committed() -> dict[Split, list[dict[str, str]]]:
    return {
        split: [
            json.loads(line) for line in (DATA / "errors" / f"{split}.jsonl").read_text("utf-8").split("\n") if line
        ]
        for split in SPLITS
    }


@pytest.fixture(scope="module")
def small() -> dict[Split, list[Row]]:
    return make.build(7, 40, SMALL)


def test_same_seed_gives_the_same_bytes(tmp_path: Path, small: dict[Split, list[Row]]) -> None:
    make.write(small, tmp_path / "a", 7)
    make.write(make.build(7, 40, SMALL), tmp_path / "b", 7)
    make.write(make.build(8, 40, SMALL), tmp_path / "c", 8)
    for name in ("errors/train.jsonl", "errors/val.jsonl", "errors/test.jsonl", "README.md"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
        assert (tmp_path / "a" / name).read_bytes() != (tmp_path / "c" / name).read_bytes()
    assert sorted(path.name for path in (tmp_path / "a").rglob("*") if path.is_file()) == [
        "README.md",
        "test.jsonl",
        "train.jsonl",
        "val.jsonl",
    ]


def test_no_group_and_no_message_is_in_two_splits(small: dict[Split, list[Row]]) -> None:
    groups = {split: {(row.message.cause, row.message.group) for row in small[split]} for split in SPLITS}
    texts = {split: {(row.message.cause, row.message.text) for row in small[split]} for split in SPLITS}
    for one, other in itertools.combinations(SPLITS, 2):
        assert not groups[one] & groups[other]
        assert not texts[one] & texts[other]


def test_core_groups_are_only_trained_on(small: dict[Split, list[Row]]) -> None:
    assert any(row.message.core for row in small["train"])
    assert not any(row.message.core for split in ("val", "test") for row in small[split])


def test_rows_per_cause(small: dict[Split, list[Row]]) -> None:
    for split, wanted in zip(SPLITS, (40, 4, 4), strict=True):
        assert Counter(row.message.cause for row in small[split]) == dict.fromkeys(SMALL, wanted)


def test_one_message_never_gives_the_same_text_twice() -> None:
    message = Message(
        "graph_freed", "Trying to backward through the graph a second time", "RuntimeError", "g", "raised"
    )
    taken = {"Trying to backward through the graph a second time"}
    rows = draw_rows([message], 200, random.Random(0), train=True, taken=taken)
    assert len({row.text for row in rows} | {message.text}) == 201
    assert len(taken) == 201


def test_too_few_groups_are_refused() -> None:
    messages = [Message("c", f"text {n}", "", f"group {n}", "rendered") for n in range(3)]
    with pytest.raises(ValueError, match="3 groups outside the core, at least 4 needed"):
        assign_groups(messages, random.Random(0))


def test_a_message_survives_its_surroundings() -> None:
    text = "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"
    frames = (Frame("torch/nn/functional.py", 2048, "linear", "return torch.addmm(bias, input, weight.t())"),)
    message = Message("device_mismatch", text, "RuntimeError", "g", "rendered", frames=frames)
    rng = random.Random(0)
    for train in (True, False) * 200:
        pasted = surround(message, rng, train=train)
        assert MIN_CHARACTERS <= len(pasted) <= MAX_CHARACTERS
        assert pasted.count("\n") < MAX_LINES
        plain = re.sub(r"[^a-z]", "", pasted.replace("\\n", "").replace("<br", "").lower())
        assert "expectedalltensors" in plain


def test_caught_scrubs_and_keeps_library_frames() -> None:
    def fail() -> None:
        raise RuntimeError(f"bad file {Path.home()}/secret.pt at 0x7ffd0badcafe on [{socket.gethostname()}]")

    message = caught("c", "g", fail)
    assert str(Path.home()) + "/" not in message.text
    assert "0badcafe" not in message.text
    assert message.text == caught("c", "g", fail).text
    assert message.frames == ()
    assert message.origin == "raised"
    with pytest.raises(AssertionError, match="nothing was raised"):
        caught("c", "g", lambda: None)


def test_the_process_id_goes_and_equal_sizes_stay() -> None:
    assert (
        scrubbed(f"worker (pid {os.getpid()}) died; size {os.getpid()}")
        == f"worker (pid 24117) died; size {os.getpid()}"
    )


def test_scrubbed_addresses_depend_on_the_text_alone() -> None:
    assert scrubbed("<object at 0x7f0000000001>") == scrubbed("<object at 0x7fffffffffff>")


def test_every_cause_is_defined_and_has_messages() -> None:
    assert len(CAUSES) == 20
    assert make.cause_names() == list(CAUSES)
    for name, cause in CAUSES.items():
        assert cause.name == name
        assert all((cause.title, cause.meaning))
        assert 2 <= len(re.findall(r"[.!?](?= [A-Z`]|$)", cause.what_to_do)) <= 5, name


def test_committed_files_keep_the_promises() -> None:
    rows = committed()
    assert len(rows["train"]) >= 6000
    assert all(800 <= len(rows[split]) <= 1000 for split in ("val", "test"))
    assert sum((DATA / "errors" / f"{split}.jsonl").stat().st_size for split in SPLITS) <= 8_000_000
    every = [row["text"] for split in SPLITS for row in rows[split]]
    assert len(set(every)) == len(every)
    for split in SPLITS:
        counts = Counter(row["label"] for row in rows[split])
        assert set(counts) == set(CAUSES)
        assert max(counts.values()) <= 1.3 * min(counts.values())
    for text in every:
        assert MIN_CHARACTERS <= len(text) <= MAX_CHARACTERS
        assert text.count("\n") < MAX_LINES


def test_the_card_counts_what_is_committed() -> None:
    card = (DATA / "README.md").read_text("utf-8")
    rows = committed()
    counts = {split: Counter(row["label"] for row in rows[split]) for split in SPLITS}
    for cause in CAUSES:
        line = re.search(rf"^\| {cause} \|(.*)\|$", card, re.MULTILINE)
        assert line is not None, cause
        train, val, test, raised, rendered, *_ = (int(figure) for figure in line[1].split("|"))
        assert [train, val, test] == [counts[split][cause] for split in SPLITS]
        assert raised + rendered == train + val + test


def test_nothing_of_the_machine_is_committed() -> None:
    everything = "\n".join(
        path.read_text("utf-8") for path in (DATA / "README.md", *sorted((DATA / "errors").glob("*.jsonl")))
    )
    host = re.escape(socket.gethostname())
    assert not re.search(rf"[@\[(]{host}\b|(?<![-\w]){host}:\d", everything)
    assert str(DATA.parent) not in everything
    assert str(Path.home()) == "/root" or f"{Path.home()}/" not in everything
    assert "bash_jobs" not in everything
