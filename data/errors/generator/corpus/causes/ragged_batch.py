"""Ragged batches: samples that a collate cannot stack, raised by the default collate, padding, torch and NumPy.

What older releases, Hugging Face, MONAI and PyG say to the same is rendered.
"""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence
from torch.utils.data import default_collate

from corpus.causes.ragged_wordings import COLLATE_CALLS, SLOTS, WORDINGS
from corpus.message import Message
from corpus.raising import caught, rendered
from corpus.slots import render
from corpus.worker_traceback import retold

CAUSE = "ragged_batch"
NUM_EACH = 6

Shape = tuple[int, ...]


def messages(rng: random.Random) -> Iterator[Message]:
    """Tensors, lists, foreign types, missing keys, padding, arrays; then the same from a worker, then rendered ones."""
    raised = [
        *_unlike_tensors(rng),
        *_lists(rng),
        *_foreign_types(),
        *_nested_lists(rng),
        *_arrays(rng),
        *_sequences(rng),
    ]
    yield from raised
    yield from _from_worker(rng, raised)
    yield from render(CAUSE, WORDINGS, SLOTS, rng, num_each=NUM_EACH)


def _shapes(rng: random.Random) -> dict[str, Callable[[], Shape]]:
    """How the shape of one sample is drawn, for each kind of sample."""
    side = partial(rng.choice, (28, 32, 64, 96, 128, 224, 225, 256, 299, 300, 333, 375, 384, 416, 480, 500, 512, 640))
    count = partial(rng.randint, 1, 60)
    channels = rng.choice((1, 3, 3, 3, 4, 9))
    return {
        "images": lambda: (channels, side(), side()),
        "boxes": lambda: (count(), rng.choice((4, 4, 5))),
        "tokens": lambda: (rng.randint(3, 512),),
        "waveforms": lambda: (1, rng.randint(8_000, 220_500)),
        "spectrograms": lambda: (1, 80, rng.randint(40, 900)),
        "masks": lambda: (side(), side()),
        "videos": lambda: (rng.randint(8, 64), 3, 112, 112),
        "volumes": lambda: (1, 96, 96, rng.randint(40, 110)),
        "points": lambda: (rng.randint(500, 9000), 3),
        "grey among colour": lambda: (rng.choice((1, 3, 4)), 224, 224),
        "latents": lambda: (4, rng.choice((64, 96, 128)), rng.choice((64, 80, 128, 170))),
        "features": lambda: (rng.randint(1, 300), rng.choice((64, 128, 768, 2048))),
    }


def _unlike(rng: random.Random, draw: Callable[[], Shape]) -> list[Tensor]:
    """Two to six tensors of which some differ in shape; storage is shared by all their elements."""
    shapes = [draw()]
    while len(set(shapes)) < 2 or (len(shapes) < 6 and rng.random() < 0.5):
        shapes.append(draw() if rng.random() < 0.6 else shapes[0])
    return [torch.zeros(1).expand(shape) for shape in shapes]


def _unlike_tensors(rng: random.Random) -> Iterator[Message]:
    for _ in range(6):
        for kind, draw in _shapes(rng).items():
            tensors = _unlike(rng, draw)
            core = kind not in ("videos", "latents")
            yield caught(CAUSE, f"collate {kind}", partial(default_collate, tensors), core=core)
    for _ in range(3):
        tensors = _unlike(rng, _shapes(rng)["images"])
        samples = [{"image": tensor, "label": 1} for tensor in tensors]
        yield caught(CAUSE, "collate dicts of images", partial(default_collate, samples), core=True)
        pairs = [(tensor, 3) for tensor in tensors]
        yield caught(CAUSE, "collate pairs", partial(default_collate, pairs), core=True)
        yield caught(CAUSE, "stack in a collate_fn", partial(torch.stack, tensors), core=True)
    yield caught(CAUSE, "empty batch", partial(torch.stack, []))
    for foreign in (None, [1.0, 2.0], np.zeros(3), 7, "path.jpg", {"pixel_values": 1}):
        position = rng.randint(0, 3)
        batch: list[Any] = [torch.zeros(2)] * position + [foreign]
        yield caught(CAUSE, "stack of what is no tensor", partial(torch.stack, batch), core=True)


def _lists(rng: random.Random) -> Iterator[Message]:
    for kind in ("list of numbers", "list of words", "pair and triple", "list in a dict"):
        length = rng.randint(2, 9)
        batch: list[Any] = [[1] * length, [1] * (length + 1)]
        if kind == "list in a dict":
            batch = [{"boxes": boxes} for boxes in batch]
        yield caught(CAUSE, f"collate {kind}", partial(default_collate, batch), core=True)
    for missing in ("boxes", "attention_mask", "label", "segmentation", "caption"):
        batch = [{"image": 0, missing: 1}, {"image": 1}]
        message = caught(CAUSE, "collate missing key", partial(default_collate, batch))
        calls = (
            (
                "@/collate.py",
                160,
                "collate",
                "return elem_type({key: collate([d[key] for d in batch]) for key in elem})",
            ),
        )
        yield rendered(CAUSE, message.group, retold(rng, "KeyError", message.text, calls), "KeyError")  # fmt: skip


def _foreign_types() -> Iterator[Message]:
    moment = datetime.datetime(2021, 5, 6)
    values: dict[str, Any] = {
        "None": None,
        "set": {1, 2},
        "own object": type("BoundingBox", (), {"__module__": "utils.boxes"})(),
        "own sample": type("Sample", (), {"__module__": "dataset"})(),
        "own polygon": type("Polygon", (), {"__module__": "__main__"})(),
        "datetime": moment,
        "date": moment.date(),
        "slice": slice(0, 3),
        "dtype": np.dtype("float32"),
        "torch dtype": torch.float32,
        "device": torch.device("cpu"),
        "generator": torch.Generator(),
        "range iterator": iter([1]),
        "object array": np.array([[1], [1, 2]], dtype=object),
        "array of text": np.array(["cat", "dog"]),
        "function": len,
    }
    for kind, value in values.items():
        core = kind == "None"
        yield caught(CAUSE, f"collate {kind}", partial(default_collate, [value, value]), core=core)
        yield caught(CAUSE, f"collate {kind}", partial(default_collate, [(0, value), (1, value)]), core=core)


def _nested_lists(rng: random.Random) -> Iterator[Message]:
    for _ in range(NUM_EACH):
        short, long = sorted(rng.sample(range(1, 200), 2))
        flat = [[1] * long, [1] * short]
        yield caught(CAUSE, "tensor of ragged lists", partial(torch.tensor, flat), core=True)
        deep = [flat, [[1] * long] * 2]
        yield caught(CAUSE, "tensor of lists of ragged lists", partial(torch.tensor, deep), core=True)
        yield caught(CAUSE, "tensor of a list and a number", partial(torch.tensor, [[1] * short, 3]))
    for word in ("positive", "1", "cat.jpg"):
        yield caught(CAUSE, "tensor of text", partial(torch.tensor, [word, word]))


def _arrays(rng: random.Random) -> Iterator[Message]:
    """NumPy's words for rows of unlike lengths, as a collate of arrays meets them."""
    for _ in range(NUM_EACH):
        short, long = sorted(rng.sample(range(2, 600), 2))
        rows = [[0.0] * long] * rng.randint(1, 7) + [[0.0] * short]
        yield caught(CAUSE, "array of ragged lists", partial(np.array, rows, dtype=np.float32), core=True)
        arrays = [np.zeros((1, 2, long)), np.zeros((1, 2, short))]
        yield caught(CAUSE, "stack of arrays", partial(np.stack, arrays), core=True)
        yield caught(CAUSE, "array of arrays", partial(np.array, [np.zeros((3, long, 4)), np.zeros((3, short, 4))]))


def _sequences(rng: random.Random) -> Iterator[Message]:
    pad: Callable[[Any], Tensor] = pad_sequence
    for _ in range(3):
        num, steps = rng.randint(3, 9), rng.randint(9, 80)
        padded = torch.zeros(num, steps, 4)
        falling = torch.arange(num, 0, -1)

        def pack(lengths: Tensor, padded: Tensor = padded) -> object:
            return pack_padded_sequence(padded, lengths, batch_first=True)

        yield caught(CAUSE, "pack unsorted lengths", partial(pack, falling.flip(0)))
        yield caught(CAUSE, "pack an empty sequence", partial(pack, falling - 1))
        yield caught(CAUSE, "pack too few lengths", partial(pack, falling[:-1]))
        yield caught(CAUSE, "pad lists", partial(pad, [[1] * num, [2] * steps]), core=True)
    for value in (0, None, 1.5):
        yield caught(CAUSE, "pad what is no sequence", partial(pad, value))
    yield caught(CAUSE, "pad nothing", partial(pad, []))


def _from_worker(rng: random.Random, raised: list[Message]) -> Iterator[Message]:
    """Some of the raised ones as the main process retells them."""
    for message in rng.sample(raised, 40):
        text = retold(rng, message.exception, message.text, rng.choice(COLLATE_CALLS))
        yield rendered(CAUSE, message.group, text, message.exception, core=message.core)
