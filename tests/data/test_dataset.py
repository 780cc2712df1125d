"""The dataset gives each row's ids from shared memory-mapped files, in any process."""

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from project.data import dataset as dataset_module
from project.data.batch import collate
from project.data.dataset import JsonlDataset
from project.data.rows import DataError, Label, load_rows
from project.data.tokenizer import UNKNOWN_ID, TokenizerConfig
from project.data.vocabulary import Vocabulary

LETTERS = str.maketrans("0123456789ABCDEFGHIJKLMNOP", "abcdefghijklmnopqrstuvwxyz")  # of the digits in base 26
ROWS: list[tuple[str, Label]] = [("a b c d e f g", "y"), ("b", "x"), ("a c", "y")]


def write(path: Path, rows: list[tuple[str, Label]] = ROWS) -> Path:
    path.write_text("".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in rows))
    return path


@pytest.fixture
def vocabulary(tmp_path: Path) -> Vocabulary:
    rows = load_rows(write(tmp_path / "train.jsonl"), tmp_path / "cache")
    return Vocabulary.fit(rows, TokenizerConfig(min_count=1), tmp_path / "cache")


def make(path: Path, vocabulary: Vocabulary, **settings: Any) -> JsonlDataset:
    return JsonlDataset(path, vocabulary, **{"max_tokens": 100, "cache_dir": path.parent / "cache", **settings})


def test_examples(tmp_path: Path, vocabulary: Vocabulary) -> None:
    dataset = make(tmp_path / "train.jsonl", vocabulary)
    assert len(dataset) == 3
    for index, (text, label) in enumerate(ROWS):
        example = dataset[index]
        assert example.tokens.dtype == torch.int64
        assert vocabulary.tokenizer.decode(example.tokens.tolist()) == text == dataset.text(index)
        assert vocabulary.labels[example.label] == label
        assert example.index == index
        assert dataset.line(index) == index + 1
    assert dataset.labels.tolist() == [1, 0, 1]
    assert dataset.num_tokens_of.tolist() == [7, 1, 2]
    stand_in = dataset[-2]  # of row 1
    assert stand_in.index == -2
    assert torch.equal(stand_in.tokens, dataset[1].tokens)
    assert dataset.path == tmp_path / "train.jsonl"
    for beyond in (3, -4):
        with pytest.raises(IndexError):
            dataset[beyond]


def test_an_example_may_be_written_to(tmp_path: Path, vocabulary: Vocabulary) -> None:
    dataset = make(tmp_path / "train.jsonl", vocabulary)
    dataset[0].tokens.zero_()
    assert dataset[0].tokens.min() > 0


@pytest.mark.parametrize(("max_tokens", "kept"), [(7, "a b c d e f g"), (6, "a b c e f g"), (3, "a b g"), (1, "a")])
def test_long_texts_keep_their_head_and_tail(
    tmp_path: Path, vocabulary: Vocabulary, max_tokens: int, kept: str
) -> None:
    dataset = make(tmp_path / "train.jsonl", vocabulary, max_tokens=max_tokens)
    assert vocabulary.tokenizer.decode(dataset[0].tokens.tolist()) == kept


def test_max_tokens_below_one_is_refused(tmp_path: Path, vocabulary: Vocabulary) -> None:
    with pytest.raises(ValueError, match=r"data\.max_tokens: too few, found 0, expected at least 1"):
        make(tmp_path / "train.jsonl", vocabulary, max_tokens=0)


def test_text_without_tokens_is_one_unknown_token(tmp_path: Path, vocabulary: Vocabulary) -> None:
    path = write(tmp_path / "val.jsonl", [("", "x"), (" \n", "y"), ("\x1b[0m", "x"), ("a", "x")])
    dataset = make(path, vocabulary, empty_text="keep")
    assert [dataset[index].tokens.tolist() for index in range(3)] == [[UNKNOWN_ID]] * 3
    assert dataset.num_tokens_of.tolist() == [1, 1, 1, 1]
    with pytest.raises(DataError, match=r"val\.jsonl: 2 faulty lines"):
        make(path, vocabulary)


def test_unlabelled_rows(tmp_path: Path, vocabulary: Vocabulary) -> None:
    (tmp_path / "predict.jsonl").write_text('{"text": "a"}\n{"text": "b", "label": "no such"}\n')
    dataset = make(tmp_path / "predict.jsonl", vocabulary, labelled=False)
    assert dataset.labels.tolist() == [-1, -1]
    assert dataset[1].label == -1


def test_labels_unseen_in_training(tmp_path: Path, vocabulary: Vocabulary) -> None:
    path = write(tmp_path / "val.jsonl", [("a", "x"), ("b", "yy"), ("c", "y"), ("d", "yy")])
    with pytest.raises(DataError) as error:
        make(path, vocabulary)
    fault = 'label unseen in training, found "yy", expected one of its 2 labels; nearest: "y", "x"'
    assert str(error.value).splitlines() == [f"{path}: 2 faulty lines:", f"{path}:2: {fault}", f"{path}:4: {fault}"]
    path = write(tmp_path / "val.jsonl", [("a", 1)])
    with pytest.raises(DataError, match=r"val\.jsonl:1: label unseen in training, found 1, expected one of its 2"):
        make(path, vocabulary)


def test_prepared_once_for_the_same_content_vocabulary_and_length(
    tmp_path: Path, vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "train.jsonl"
    first = make(path, vocabulary)
    prepare = JsonlDataset._prepare
    prepared: list[str] = []

    def counted(self: JsonlDataset, *arguments: Any) -> None:
        prepared.append(self.fingerprint)
        prepare(self, *arguments)

    monkeypatch.setattr(dataset_module.JsonlDataset, "_prepare", counted)
    assert make(path, vocabulary).fingerprint == first.fingerprint
    assert prepared == []
    shorter = make(path, vocabulary, max_tokens=2)
    other_words = make(path, Vocabulary(vocabulary.tokenizer, ("x", "y", "z")))
    write(path, [*ROWS, ("g", "x")])
    changed = make(path, vocabulary)
    assert (len(first), len(changed)) == (3, 4)
    assert len({first.fingerprint, *prepared}) == 4
    assert prepared == [shorter.fingerprint, other_words.fingerprint, changed.fingerprint]


@pytest.mark.parametrize(("num_words", "itemsize"), [(2**16 - 2, 2), (2**16 - 1, 4)])
def test_ids_take_the_smallest_type(tmp_path: Path, num_words: int, itemsize: int) -> None:
    words = [np.base_repr(index, 26).translate(LETTERS) for index in range(num_words)]
    path = write(tmp_path / "train.jsonl", [(" ".join(words), "x"), ("a", "y")])
    config = TokenizerConfig(num_tokens=100_000, min_count=1)
    vocabulary = Vocabulary.fit(load_rows(path, tmp_path / "cache"), config, tmp_path / "cache")
    assert vocabulary.num_tokens == num_words + 2
    dataset = make(path, vocabulary, max_tokens=100_000)
    assert dataset._tokens.itemsize == itemsize
    assert sorted(dataset[0].tokens.tolist()) == list(range(2, num_words + 2))


def test_pickle_is_small_and_drops_open_maps(tmp_path: Path, vocabulary: Vocabulary) -> None:
    dataset = make(write(tmp_path / "val.jsonl", ROWS * 1000), vocabulary)
    tokens = [example.tokens.tolist() for example in (dataset[index] for index in range(len(dataset)))]
    assert (dataset.num_tokens_of.sum(), dataset.text(0)) == (10_000, ROWS[0][0])  # everything is mapped now
    content = pickle.dumps(dataset)
    assert len(content) < 2000
    restored: JsonlDataset = pickle.loads(content)
    assert [restored[index].tokens.tolist() for index in range(len(restored))] == tokens
    assert restored.fingerprint == dataset.fingerprint


@pytest.mark.parametrize("start_method", ["fork", "spawn"])
def test_workers_give_the_same_batches(tmp_path: Path, vocabulary: Vocabulary, start_method: str) -> None:
    dataset = make(write(tmp_path / "val.jsonl", ROWS * 7), vocabulary)
    dataset[0]  # the parent's maps are open when the workers start

    def batches(**settings: Any) -> list[list[Any]]:
        loader: DataLoader[Any] = DataLoader(dataset, batch_size=4, collate_fn=collate, **settings)
        return [[tensor.tolist() for tensor in batch] for batch in loader]

    expected = batches()
    assert len(expected) == 6
    assert batches(num_workers=2, multiprocessing_context=start_method) == expected


MEASURE = """
import json, os, pickle, sys

def private_dirty():  # kB that this process holds for itself alone
    with open("/proc/self/smaps_rollup") as stream:
        return next(int(line.split()[1]) for line in stream if line.startswith("Private_Dirty"))

def touch(dataset):
    return sum(int(dataset[index].tokens.sum()) + len(dataset.text(index)) for index in range(len(dataset)))

def grown(work):
    before = private_dirty()
    kept = work()
    return private_dirty() - before

def grown_in_fork(work):
    read, write = os.pipe()
    if os.fork() == 0:
        touch(small)  # a fork's own fixed cost: pages of the interpreter that are written to at once
        os.write(write, str(grown(work)).encode())
        os._exit(0)
    os.wait()
    return int(os.read(read, 100))

small, large = pickle.load(open(sys.argv[1], "rb"))
touch(small)  # whatever torch and numpy set up at their first use
print(json.dumps({
    "fork before the maps are open": grown_in_fork(lambda: touch(large)),
    "spawn": grown(lambda: touch(large)),
    "fork of open maps": grown_in_fork(lambda: touch(large)),
    "copy": grown(lambda: [large._tokens.copy(), large.rows._bytes.copy()]),
}))
"""


def test_a_worker_costs_no_copy_of_the_data(tmp_path: Path, vocabulary: Vocabulary) -> None:
    small = make(tmp_path / "train.jsonl", vocabulary, max_tokens=1000)
    large = make(write(tmp_path / "large.jsonl", [("a b c d " * 200, "x")] * 2_000), vocabulary, max_tokens=1000)
    (tmp_path / "datasets.pickle").write_bytes(pickle.dumps([small, large]))
    os.sync()  # pages that wait for the disk would count as the worker's own
    command = [sys.executable, "-W", "ignore", "-c", MEASURE, str(tmp_path / "datasets.pickle")]
    result = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    kilobytes = json.loads(result.stdout)
    data = 2_000 * 800 * (2 + 2) // 1024  # two bytes of text and two of token id for each token
    assert kilobytes.pop("copy") > 0.9 * data  # the measure does see a copy
    assert max(kilobytes.values()) < 0.4 * data, kilobytes  # either of the two would be half
