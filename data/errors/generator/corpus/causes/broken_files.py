"""Files that `torch.load` cannot read: of another kind, cut short, emptied of a record, of another protocol."""

from __future__ import annotations

import io
import pickle
import random
import warnings
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from corpus.message import Message
from corpus.raising import caught

CAUSE = "unsafe_checkpoint"


def load(path: Path, **options: Any) -> object:
    """Read a checkpoint, for `partial`."""
    return torch.load(path, **options)


def save(value: object, path: Path, **options: Any) -> None:
    """Write a checkpoint; that whole modules are saved is meant here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.save(value, path, **options)


def spoken(group: str, run: Callable[[], object], *, core: bool = False) -> Iterator[Message]:
    """The message of `run`'s error, where it fails and says something."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run()
    except Exception as error:
        if str(error):
            yield caught(CAUSE, group, run, core=core)


def not_checkpoints(rng: random.Random, path: Path) -> Iterator[Message]:
    """Pages, pointers, archives and pictures where a checkpoint was expected."""
    contents = {
        "page": b"<!DOCTYPE html><html><head><title>Google Drive - Virus scan warning</title>",
        "pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 102502400\n",
        "json": b'{"epoch": 3}',
        "gzip": b"\x1f\x8b\x08\x00\x00\x00\x00\x00",
        "hdf5": b"\x89HDF\r\n\x1a\n\x00\x00",
        "text": b"Hello, this is a model",
        "onnx": b"\x08\x07\x12\x07pytorch",
        "zeros": bytes(64),
        "caffe": b"\n\x0fVGG_ILSVRC_16",
        "numpy": b"\x93NUMPY\x01\x00v\x00{'descr'",
        "empty": b"",
        "rar": b"Rar!\x1a\x07\x00",
        "error": b"Entry not found",
        "elf": b"\x7fELF\x02\x01\x01",
    }
    for kind, content in contents.items():
        path.write_bytes(content)
        refusal = partial(load, path, weights_only=True)
        yield from spoken(f"no checkpoint but {kind}", refusal, core=kind in ("page", "pointer", "json"))
        yield from spoken("load key", partial(load, path, weights_only=False), core=True)
    for first in (0x00, 0x1A, 0x3C, 0x45, 0x76, 0x8F, 0x9E, 0xA8, 0xB0, 0xC2, 0xD0, 0xE4, 0xEF, 0xFF):
        path.write_bytes(bytes([first, *rng.choices(range(256), k=6)]))
        yield from spoken("load key", partial(load, path, weights_only=False), core=True)
    readers: dict[str, Callable[[io.BytesIO], object]] = {
        "pickle": pickle.load,
        "numpy": np.load,
        "zip": zipfile.ZipFile,
    }
    for name, reader in readers.items():
        for content in contents.values():
            yield from spoken(f"{name} of another kind", partial(_read, reader, content), core=name == "pickle")


def _read(reader: Callable[[io.BytesIO], object], content: bytes) -> object:
    return reader(io.BytesIO(content))


def damaged(rng: random.Random, path: Path) -> Iterator[Message]:
    """Good files cut short, emptied of a record, overwritten, or read by the wrong reader."""
    weights = {"fc.weight": torch.zeros(rng.randint(100, 400), rng.randint(90, 300)), "fc.bias": torch.zeros(20)}
    for zipped in (True, False):
        kept = weights if zipped else {"fc.weight": weights["fc.weight"]}  # a legacy file orders storages by address
        save(kept, path, _use_new_zipfile_serialization=zipped)
        whole = path.read_bytes()
        for _ in range(8):
            path.write_bytes(whole[: -rng.randint(500, 30_000)])  # counted from the end: a legacy file's head varies
            group = "cut archive" if zipped else "cut legacy file"
            yield from spoken(group, partial(load, path, weights_only=False), core=True)
        for _ in range(8):
            path.write_bytes(whole[: rng.randint(2, 150)])
            group = "archive hardly begun" if zipped else "legacy file hardly begun"
            yield from spoken(group, partial(load, path, weights_only=rng.random() < 0.5), core=True)
        yield from spoken("pickle.load of a checkpoint", partial(_unpickled, whole), core=True)
        path.write_bytes(whole)
        jit_load: Callable[[Path], object] = torch.jit.load
        yield from spoken("jit.load of a checkpoint", partial(jit_load, path), core=True)
    save(weights, path)
    for missing in ("data.pkl", "version", "data/0", "byteorder"):
        slim = path.with_suffix(".slim")
        with zipfile.ZipFile(path) as source, zipfile.ZipFile(slim, "w") as target:
            for entry in source.namelist():
                if not entry.endswith(missing):
                    target.writestr(entry, source.read(entry))
        for message in spoken("record missing", partial(load, slim), core=True):
            yield replace(message, text=message.text.replace(".slim", ""))
    plain = pickle.dumps({"weights": [1.0, 2.0]})
    path.write_bytes(plain)
    yield from spoken("plain pickle", partial(load, path, weights_only=False), core=True)
    path.write_bytes(pickle.dumps([1, 2], protocol=0) + b"rest")
    yield from spoken("plain pickle", partial(load, path, weights_only=True), core=True)
    for protocol in (6, 7, 200):
        path.write_bytes(b"\x80" + bytes([protocol]) + plain[2:])
        yield from spoken("pickle protocol", partial(load, path, weights_only=False))
    for encoding in ("ascii", "utf-8"):
        text = b"\x80\x02U\x04" + bytes(rng.sample(range(0xA0, 0xBF), 4)) + b"."
        run = partial(pickle.loads, text, encoding=encoding)
        yield from spoken("encoding", run, core=True)


def _unpickled(content: bytes) -> object:
    """Read a checkpoint with the plain pickle: the archive's one pickle, or the legacy file's fourth."""
    file = io.BytesIO(content)
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as archive:
            return pickle.loads(archive.read("checkpoint/data.pkl"))
    for _ in range(4):
        pickle.load(file)
    return None
