"""The corpus: the same seed gives the same bytes, splits do not touch, and nothing of the machine is in it."""

from __future__ import annotations

import hashlib
import itertools
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


def test_the_card_gives_each_file_with_its_rows_and_checksum(tmp_path: Path, small: dict[Split, list[Row]]) -> None:
    make.write(small, tmp_path, 7)
    card = (tmp_path / "README.md").read_text("utf-8")
    for split, num_rows in zip(SPLITS, (120, 12, 12), strict=True):
        digest = hashlib.sha256((tmp_path / "errors" / f"{split}.jsonl").read_bytes()).hexdigest()
        assert f"| `errors/{split}.jsonl` | {num_rows} | `{digest}` |\n" in card


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


def test_every_cause_has_messages() -> None:
    assert make.cause_names() == list(CAUSES)


def test_nothing_of_the_machine_is_in_the_shipped_files() -> None:
    everything = "\n".join(
        path.read_text("utf-8") for path in (DATA / "README.md", *sorted((DATA / "errors").glob("*.jsonl")))
    )
    host = re.escape(socket.gethostname())
    assert not re.search(rf"[@\[(]{host}\b|(?<![-\w]){host}:\d", everything)
    assert str(DATA.parent) not in everything
    assert str(Path.home()) == "/root" or f"{Path.home()}/" not in everything
