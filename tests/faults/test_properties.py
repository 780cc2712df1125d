"""What must hold for any rows, batches, orders and traces; `make fuzz` asks two hundred times as many."""

from __future__ import annotations

import gzip
import itertools
import json
import os
import tempfile
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parity.handmade import records, write_trace
from project.data.batch import collate
from project.data.dataset import Example
from project.data.lines import Fault, LineParser, repeats_a_key
from project.data.order import OrderedBatches
from project.data.rows import DataError, load_rows
from project.parity.compare import EXACT, first_divergence
from project.trace.reading import read_trace

NUM_EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "0"))
quick = settings(max_examples=NUM_EXAMPLES or 100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
slow = settings(quick, max_examples=max(20, NUM_EXAMPLES // 20))

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
LABELS = st.one_of(TEXTS, st.integers(-(2**63), 2**63 - 1))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=10,
)
GOOD = b'{"text": "a dog", "label": "animal"}'


@quick
@given(
    TEXTS,
    LABELS,
    st.dictionaries(st.text(max_size=6).filter(lambda key: key not in ("text", "label")), JSON),
    st.booleans(),
)
def test_a_row_is_read_as_it_was_written(text: str, label: str | int, more: dict[str, Any], is_ascii: bool) -> None:
    row = json.dumps({**more, "text": text, "label": label}, ensure_ascii=is_ascii).encode("utf-8", "surrogatepass")
    try:
        found, found_label = LineParser(labelled=True, empty_text="keep").parse(row, 0)
    except Fault as fault:  # a lone surrogate in a key that nobody reads, written as bytes that are no UTF-8
        said = str(fault)
        assert not is_ascii
        assert "invalid UTF-8" in said
        return
    assert (found.decode(), found_label, type(found_label)) == (text, label, type(label))
    assert not repeats_a_key(row)


@quick
@given(JSON)
def test_whatever_is_json_is_a_row_or_a_fault(value: Any) -> None:
    line = json.dumps(value).encode()
    try:
        text, label = LineParser(labelled=True, empty_text="refuse").parse(line, 0)
    except Fault as fault:
        said = str(fault)
        assert "found" in said
    else:
        assert value["text"].encode() == text
        assert value["label"] == label
        assert not isinstance(value["label"], bool | float)


def damaged(draw: st.DrawFn, content: bytes) -> bytes:
    """Bytes of `content` changed, taken out or put in, at a few places."""
    found = bytearray(content)
    for _ in range(draw(st.integers(0, 4))):
        place = draw(st.integers(0, len(found)))
        found[place : place + draw(st.integers(0, 3))] = draw(st.binary(max_size=3))
    return bytes(found)


@st.composite
def files(draw: st.DrawFn) -> tuple[bytes, bool]:
    """The content of a file, which was JSONL once, and whether it is packed."""
    lines = draw(st.lists(st.sampled_from([GOOD, b'{"text": "\\u00e9", "label": "b"}', b"", b"[]", b"{"]), max_size=5))
    content = damaged(draw, draw(st.sampled_from([b"\n", b"\r\n", b"\r"])).join(lines))
    is_packed = draw(st.booleans())
    return (damaged(draw, gzip.compress(content, mtime=0)) if is_packed else content), is_packed


@slow
@given(files())
def test_whatever_a_file_holds_it_is_read_or_refused_by_its_name(made: tuple[bytes, bool]) -> None:
    content, is_packed = made
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("rows.jsonl.gz" if is_packed else "rows.jsonl")
        path.write_bytes(content)
        try:
            rows = load_rows(path, Path(folder) / "cache")
        except DataError as error:
            lines = str(error).splitlines()
            assert lines
            assert all(line.startswith(str(path)) for line in lines)
            assert all(line.isprintable() for line in lines)
        else:
            assert len(list(rows.texts())) == len(rows.labels or []) == len(rows) > 0
            assert all(text.strip() for text in rows.texts())
            assert rows.lines.tolist() == sorted(set(rows.lines.tolist()))


@quick
@given(st.lists(st.lists(st.integers(1, 999), min_size=1, max_size=9), min_size=1, max_size=6))
def test_a_batch_holds_its_examples_and_padding(rows: list[list[int]]) -> None:
    batch = collate([Example(torch.tensor(row), number % 3, number) for number, row in enumerate(rows)])
    assert batch.tokens.shape == (len(rows), max(map(len, rows)))
    assert batch.lengths.tolist() == [len(row) for row in rows]
    for row, tokens, length in zip(rows, batch.tokens.tolist(), batch.lengths.tolist(), strict=True):
        assert tokens[:length] == row
        assert not any(tokens[length:])
    assert batch.index.tolist() == list(range(len(rows)))
    assert batch.labels.tolist() == [number % 3 for number in range(len(rows))]


@quick
@given(
    st.integers(1, 60), st.integers(1, 7), st.integers(0, 2**63), st.integers(0, 9), st.integers(1, 4), st.booleans()
)
def test_ranks_share_each_epoch_out(
    num_examples: int, batch_size: int, seed: int, epoch: int, world_size: int, drop_last: bool
) -> None:
    def batches(rank: int, world_size: int, batch_size: int) -> list[list[int]]:
        found = OrderedBatches(
            num_examples, batch_size, seed=seed, rank=rank, world_size=world_size, drop_last=drop_last
        )
        found.set_epoch(epoch)
        assert len(list(found)) == len(found)
        return list(found)

    alone = batches(0, 1, batch_size * world_size)
    ranks = [batches(rank, world_size, batch_size) for rank in range(world_size)]
    for whole, *parts in zip(alone, *ranks, strict=True):
        interleaved = itertools.chain.from_iterable(itertools.zip_longest(*parts))
        assert [index for index in interleaved if index is not None and index >= 0] == whole
        assert all(index >= 0 or part == [index] for part in parts for index in part)
    visited = sorted(itertools.chain.from_iterable(alone))
    num_left_out = num_examples % (batch_size * world_size) if drop_last else 0
    assert len(visited) == len(set(visited)) == num_examples - num_left_out
    assert not visited or 0 <= visited[0] <= visited[-1] < num_examples


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("traces")


@quick
@given(data=st.data())
def test_the_first_record_that_differs_is_the_one_that_is_named(folder: Path, data: st.DataObject) -> None:
    """In any trace, whatever else differs later, and wherever one of two traces ends."""
    whole = records()
    other = deepcopy(whole)
    places = [
        (number, stage, name)
        for number, record in enumerate(whole)
        for stage, quantities in record["stages"].items()
        for name, value in quantities.items()
        if isinstance(value, str) and value.startswith("0x")
    ]
    changed = data.draw(st.lists(st.sampled_from(places), max_size=4, unique=True))
    for number, stage, name in changed:
        other[number]["stages"][stage][name] = (12.5).hex()
    end = data.draw(st.integers(1, len(other)))
    a = read_trace(write_trace(folder / "a.jsonl", whole))
    b = read_trace(write_trace(folder / "b.jsonl", other[:end]))
    expected = min([number for number, _, _ in changed if number < end], default=end)
    found = first_divergence(a, b, EXACT, alike=True)
    if expected == len(whole):
        assert found is None
    else:
        assert found is not None
        assert found.numbers[0] == expected
