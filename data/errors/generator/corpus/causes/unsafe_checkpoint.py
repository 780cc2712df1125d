"""Checkpoint files that are broken or refused, written into a temporary folder and really read.

Classes that a reader has never heard of live in modules made for the moment of saving. What other releases, safetensors
and Hugging Face say is rendered.
"""

from __future__ import annotations

import argparse
import collections
import datetime
import decimal
import fractions
import functools
import itertools
import pathlib
import random
import re
import sys
import tempfile
import types
import uuid
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from torch import nn

from corpus.causes.broken_files import CAUSE, damaged, load, not_checkpoints, save, spoken
from corpus.causes.checkpoint_wordings import BROKEN, REFUSED, SLOTS
from corpus.message import Message
from corpus.raising import caught
from corpus.slots import render

NUM_EACH = 4
FILES = ("model.pth", "checkpoints/last.ckpt", "best.pt", "weights/epoch_12.pth", "pytorch_model.bin", "net_G.pth.tar")


def messages(rng: random.Random) -> Iterator[Message]:
    """Refused objects, classes that are gone, files of another kind, damaged files; then rendered wordings."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "checkpoint"
        for message in chain(_refused(path), _gone(path), not_checkpoints(rng, path), damaged(rng, path)):
            yield replace(message, text=_without_folder(message.text, path, rng))
    yield from render(CAUSE, chain(REFUSED, BROKEN), SLOTS, rng, num_each=NUM_EACH)


def _without_folder(text: str, path: Path, rng: random.Random) -> str:
    """The text with a user's file for the temporary one, and a user's script for this process's own."""
    text = text.replace(str(path), rng.choice(FILES)).replace("/tmp/run/checkpoint", rng.choice(FILES))
    script = rng.choice(("predict.py", "app.py", "test.py", "inference.py", "/content/demo.py"))
    return re.sub(r"<module '__main__'[^>]*>", f"<module '__main__' from '{script}'>", text)


def _saved_from_elsewhere(module: str, name: str, path: Path, *, base: type = object) -> None:
    """Save an instance of a class whose module exists only while it is being saved."""
    parts = module.split(".")
    names = [".".join(parts[: end + 1]) for end in range(len(parts))]
    before = {each: sys.modules.get(each) for each in names}
    made = type(name, (base,), {"__module__": module})
    try:
        for each in names:
            sys.modules[each] = types.ModuleType(each)
        setattr(sys.modules[module], name, made)
        save({"model": made(), "epoch": 3}, path)
    finally:
        for each, old in before.items():
            if old is None:
                del sys.modules[each]
            else:
                sys.modules[each] = old


def _refused(path: Path) -> Iterator[Message]:
    """What `weights_only=True` will not load."""
    values: list[object] = [
        *(np.zeros(2), np.float64(0.5), np.int64(3), np.random.RandomState(0), np.random.default_rng(0)),
        *(nn.Linear(2, 2), nn.Sequential(nn.ReLU()), nn.Conv2d(1, 1, 1), nn.CrossEntropyLoss(), nn.LSTM(1, 1)),
        torch.optim.SGD([torch.zeros(1)], lr=0.1),
        argparse.Namespace(lr=0.1),
        pathlib.PurePosixPath("a"),
        collections.deque([1]),
        collections.defaultdict(list),
        functools.partial(max),
        datetime.datetime(2024, 1, 2),
        datetime.timedelta(3),
        decimal.Decimal("0.1"),
        fractions.Fraction(1, 3),
        uuid.UUID(int=7),
        types.SimpleNamespace(lr=1),
        itertools.count(3),
        slice(1, 2),
        range(3),
        frozenset([1]),
        ValueError("x"),
    ]
    for value in values:
        save({"state": value}, path)
        family = type(value).__module__.split(".")[0]
        core = family in ("numpy", "torch", "argparse", "pathlib")
        yield from spoken(f"weights_only refuses {family}", partial(load, path, weights_only=True), core=core)
    foreign = {
        "ultralytics.nn.tasks": ("DetectionModel", "SegmentationModel"),
        "models.yolo": ("Model", "DetectionModel"),
        "omegaconf.dictconfig": ("DictConfig",),
        "fairseq.data.dictionary": ("Dictionary",),
        "easydict": ("EasyDict",),
        "pyannote.audio.core.task": ("Specifications", "Problem"),
        "transformers.training_args": ("TrainingArguments",),
        "TTS.tts.configs.xtts_config": ("XttsConfig",),
        "__main__": ("Net", "Config", "MyModel"),
        "utils.config": ("Config",),
        "sklearn.preprocessing._data": ("StandardScaler",),
        "pandas.core.frame": ("DataFrame",),
        "src.model": ("Transformer",),
    }
    for module, names in foreign.items():
        for name in names:
            _saved_from_elsewhere(module, name, path)
            core = module in ("__main__", "models.yolo")
            yield caught(CAUSE, f"weights_only refuses {module}", partial(load, path, weights_only=True), core=core)


def _gone(path: Path) -> Iterator[Message]:
    """Whole pickled models whose class or module this process has not."""
    for module in (
        "models",
        "network",
        "models.yolo",
        "utils.torch_utils",
        "src.unet",
        "nets.ssd",
        "dnnlib.tflib",
        "lib.pose",
    ):
        for name in ("Net", "Model"):
            _saved_from_elsewhere(module, name, path, base=nn.Module)
            yield caught(CAUSE, "module gone", partial(load, path, weights_only=False), core=True)
    for name in ("Net", "CNN", "UNet", "LSTMModel", "Config", "Classifier", "Vocab", "Block"):
        _saved_from_elsewhere("__main__", name, path, base=nn.Module)
        yield caught(CAUSE, "class gone", partial(load, path, weights_only=False), core=True)
    for module in ("torch.nn.modules.activation", "torch._utils", "collections", "pathlib"):
        _saved_from_elsewhere(module, "Moved", path)
        yield caught(CAUSE, "class moved", partial(load, path, weights_only=False))
