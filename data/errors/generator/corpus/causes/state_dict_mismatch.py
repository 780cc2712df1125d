"""Weights that do not fit their model: `load_state_dict` of many architectures, really refused.

Models are trees of empty parameters on the meta device, named as the real ones are. Optimizers and objects that are no
state dict are raised too; torch 0.x, Hugging Face, accelerate, diffusers, detectron2 and fairseq are rendered.
"""

from __future__ import annotations

import os
import random
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any
from unittest.mock import patch

import torch
from torch import nn

from corpus.causes.parameter_layers import Layout
from corpus.causes.parameter_names import ARCHITECTURES, BUFFERS
from corpus.causes.state_dict_wordings import SLOTS, WORDINGS
from corpus.message import Message
from corpus.raising import caught
from corpus.slots import render

CAUSE = "state_dict_mismatch"
NUM_EACH = 4
MAX_CHARS = 1200  # a longer list of keys says nothing new


def messages(rng: random.Random) -> Iterator[Message]:
    """Keys and sizes of many architectures, optimizers, what is no state dict, then rendered wordings."""
    yield from _modules(rng)
    with patch.dict(os.environ):  # the first optimizer imports a compiler, which sets a variable
        yield from _optimizers(rng)
    yield from _confusions()
    yield from render(CAUSE, WORDINGS, SLOTS, rng, num_each=NUM_EACH)


def _built(class_name: str, layout: Layout) -> nn.Module:
    """A module of that class name whose parameters and buffers have these names and shapes."""
    root: nn.Module = type(class_name, (nn.Module,), {"__module__": "model"})()
    for name, shape in layout.items():
        *path, leaf = name.split(".")
        module = root
        for part in path:
            if part not in module._modules:
                module.add_module(part, nn.Module())
            module = module.get_submodule(part)
        values = torch.empty(shape, device="meta")
        if leaf in BUFFERS:
            module.register_buffer(leaf, values)
        else:
            module.register_parameter(leaf, nn.Parameter(values))
    return root


def _some(rng: random.Random, layout: Layout) -> Layout:
    """A run of consecutive entries, so that lists of keys stay readable."""
    names = list(layout)
    length = rng.randint(2, max(2, min(12, len(names) - 1)))
    start = rng.randint(0, len(names) - length)
    return {name: layout[name] for name in names[start : start + length]}


def _resized(rng: random.Random, layout: Layout) -> Layout:
    """The same names; some shapes with another first dimension."""
    chosen = set(rng.sample(sorted(layout), min(len(layout), rng.randint(1, 4))))
    factor = rng.choice((2, 3, 5))
    return {
        name: (shape[0] * factor, *shape[1:]) if name in chosen and shape else shape for name, shape in layout.items()
    }


def _renamed(rng: random.Random, layout: Layout) -> Layout:
    """Keys that lost or gained a few characters or a level."""
    cut = rng.choice((4, 6, 7, 8))
    stem = rng.choice(("backbone.", "encoder.", "base_model.model.", "net.", "student.", "ema_model."))
    if rng.random() < 0.3:
        return {name[cut:] or name: shape for name, shape in layout.items()}
    return {stem + name: shape for name, shape in layout.items()}


def _modules(rng: random.Random) -> Iterator[Message]:
    """Each architecture against state dicts of a head, prefix, depth or width that it has not."""
    for group, (core, class_names, draw) in ARCHITECTURES.items():
        for _ in range(10 if core else 7):
            layout = _some(rng, draw(rng))
            other = _some(rng, draw(rng))
            prefix = rng.choice(("module.", "module.", "_orig_mod.", "model."))
            prefixed = {prefix + name: shape for name, shape in layout.items()}
            model, saved = rng.choice(
                (
                    (layout, prefixed),
                    (prefixed, layout),
                    (layout, _resized(rng, layout)),
                    (layout, _resized(rng, layout)),
                    (layout, _renamed(rng, layout)),
                    (layout, other | layout),
                    (other | layout, layout),
                    (layout, _resized(rng, layout) | other),
                    (layout, {"state_dict": (), "epoch": (), "optimizer": ()}),
                    (layout, {"model_state_dict": (), "optimizer_state_dict": (), "loss": ()}),
                )
            )
            if model == saved:
                continue
            module = _built(rng.choice(class_names), model)
            state = {name: torch.empty(shape, device="meta") for name, shape in saved.items()}
            message = caught(CAUSE, f"load_state_dict of {group}", partial(module.load_state_dict, state), core=core)
            yield replace(message, text=message.text[:MAX_CHARS])


def _optimizers(rng: random.Random) -> Iterator[Message]:
    makers: tuple[Callable[..., torch.optim.Optimizer], ...] = (
        torch.optim.SGD,
        torch.optim.Adam,
        torch.optim.AdamW,
        torch.optim.RMSprop,
    )
    for make in makers:
        one, two = nn.Linear(2, 2), nn.Linear(2, 2)
        single = make(one.parameters(), lr=0.1)
        groups = make([{"params": one.parameters()}, {"params": two.parameters()}], lr=0.1)
        larger = make([*one.parameters(), *two.parameters()], lr=0.1)
        yield caught(CAUSE, "optimizer groups", partial(single.load_state_dict, groups.state_dict()), core=True)
        yield caught(CAUSE, "optimizer group size", partial(single.load_state_dict, larger.state_dict()), core=True)
    step: Any = torch.optim.lr_scheduler.StepLR(single, rng.randint(2, 9))
    yield caught(CAUSE, "scheduler of another kind", lambda: step.load_state_dict([1, 2]))
    scaler: Any = torch.amp.GradScaler("cpu")
    yield caught(CAUSE, "scaler without state", lambda: scaler.load_state_dict({}))


def _confusions() -> Iterator[Message]:
    """A model where a state dict belongs, a state dict where a model belongs."""
    net: Any = _built("Net", {"fc.weight": (2, 2)})
    weights: Any = OrderedDict(net.state_dict())
    plain: Any = {"model": weights, "epoch": 3}
    loaded = net.load_state_dict(weights)
    for name in ("eval", "to", "cuda", "load_state_dict", "state_dict", "parameters", "train", "modules", "forward"):
        yield caught(CAUSE, "OrderedDict for a model", partial(getattr, weights, name), core=True)
        yield caught(CAUSE, "dict for a model", partial(getattr, plain, name), core=True)
        yield caught(CAUSE, "load_state_dict's result for a model", partial(getattr, loaded, name))
    yield caught(CAUSE, "OrderedDict called", lambda: weights(torch.zeros(1)), core=True)
    for wrong in (
        net,
        None,
        "model.pth",
        [1],
        3,
        (weights, 1),
        torch.zeros(2),
        b"weights",
        nn.Sequential(),
        nn.Linear(1, 1),
    ):
        yield caught(CAUSE, "no dict for a state dict", partial(net.load_state_dict, wrong), core=True)
    for key in (
        "state_dict",
        "model_state_dict",
        "model",
        "net",
        "generator",
        "ema",
        "model.state_dict",
        "optimizer",
        "pytorch-lightning_version",
    ):
        yield caught(CAUSE, "key of a checkpoint", partial(weights.__getitem__, key))
