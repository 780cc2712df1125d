"""A tensor that autograd needs, or must not lose, was changed in place."""
# ruff: noqa: E501  (pools of quoted lines read best unwrapped)

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from corpus import library_frames
from corpus.inplace_wordings import NEEDED, NODES, needed, views
from corpus.message import Message
from corpus.raising import rendered
from corpus.wordings import Operation, raised_messages

CAUSE = "inplace_modified"
NUM_RAISED = 6

_INPLACE_CALLS = (
    ("torch/nn/functional.py", (914, 1063, 1136, 1299, 1457), "relu", "result = torch.relu_(input)"),
    ("torch/nn/init.py", (14, 19, 59), "_no_grad_uniform_", "return tensor.uniform_(a, b)"),
    ("torch/optim/adam.py", (107, 410, 434), "step", "p.data.addcdiv_(exp_avg, denom, value=-step_size)"),
    ("torch/_tensor.py", (32, 40), "wrapped", "return f(*args, **kwargs)"),
)
_LEAF = (
    "a leaf Variable that requires grad is being used in an in-place operation.",
    "a leaf Variable that requires grad has been used in an in-place operation.",
    "a view of a leaf Variable that requires grad is being used in an in-place operation.",
    "leaf variable has been moved into the graph interior",
)
_CORE = frozenset(("relu", "sigmoid", "optimizer_step", "leaf_add", "leaf_view", "leaf_row", "inference_add", "unbind"))


def messages(rng: random.Random) -> Iterator[Message]:
    """Yield the messages of this cause, drawn from `rng`."""
    yield from raised_messages(CAUSE, _RAISED, rng, NUM_RAISED, core=_CORE)
    for _ in range(90):
        yield rendered(CAUSE, "needed", needed(rng), "RuntimeError", core=True, frames=library_frames.backward(rng))
    for _ in range(10):
        text = rng.choice((NEEDED, f"{NEEDED}."))
        yield rendered(CAUSE, "needed_bare", text, "RuntimeError", core=True, frames=library_frames.backward(rng))
        warning = f"Error detected in {rng.choice(NODES)}. Traceback of forward call that caused the error:"
        yield rendered(CAUSE, "needed_anomaly", f"{warning}\nRuntimeError: {needed(rng)}", "", core=True)
        grad = library_frames.grad(rng)
        yield rendered(CAUSE, "needed_grad", needed(rng), "RuntimeError", frames=grad)
    for number, text in enumerate(_LEAF):
        for _ in range(4):
            frames = (library_frames.frame(rng, *rng.choice(_INPLACE_CALLS)),)
            yield rendered(CAUSE, f"leaf_{number}", text, "RuntimeError", core=number != 3, frames=frames)
    for group, texts in views(rng):
        for text in texts:
            yield rendered(CAUSE, group, text, "RuntimeError", core=group in ("view_multiple", "overlap"))
    for _ in range(6):
        text = library_frames.libtorch(rng, needed(rng), "unpack", "torch/csrc/autograd/saved_variable.cpp")
        yield rendered(CAUSE, "libtorch", text, "")


def _leaf(rng: random.Random) -> Tensor:
    shape = [rng.randint(2, 9) for _ in range(rng.randint(2, 4))]
    return torch.ones(shape, dtype=rng.choice((torch.float32, torch.float64)), requires_grad=True)


def _after(function: Callable[[Tensor], Tensor], change: Callable[[Tensor], object], rng: random.Random) -> None:
    """Change in place what `function` saved for its backward, then run that backward."""
    outputs = function(_leaf(rng))
    change(outputs)
    outputs.sum().backward()  # type: ignore[no-untyped-call]


def _on_leaf(change: Callable[[Tensor], object], rng: random.Random) -> None:
    change(_leaf(rng))


def _fill_row(tensor: Tensor) -> None:
    tensor[0] = 0.0


def _scale_columns(tensor: Tensor) -> None:
    tensor[:, :1] *= 2


def _weight_changed(rng: random.Random) -> None:
    width = rng.randint(2, 40)
    weight = torch.ones(width, rng.randint(2, 40), requires_grad=True)
    outputs = torch.ones(3, width, requires_grad=True) @ weight
    with torch.no_grad():
        weight.add_(1.0)
    torch.autograd.backward(outputs.sum())


def _optimizer_step(rng: random.Random) -> None:
    width = rng.randint(2, 64)
    first, second = (torch.ones(width, width, requires_grad=True) for _ in range(2))
    optimizer = torch.optim.SGD([first, second], 0.1)
    loss = torch.tanh(torch.ones(2, width) @ first @ second).sum()
    loss.backward(retain_graph=True)  # type: ignore[no-untyped-call]
    optimizer.step()
    loss.backward()  # type: ignore[no-untyped-call]


def _index_changed(rng: random.Random) -> None:
    index = torch.tensor([0, 1] * rng.randint(1, 9))
    loss = _leaf(rng)[index].sum()
    index.add_(1)
    loss.backward()  # type: ignore[no-untyped-call]


def _mask_changed(rng: random.Random) -> None:
    leaf = _leaf(rng)
    mask = torch.ones_like(leaf, dtype=torch.bool)
    loss = leaf.masked_fill(mask, 0.0).sum()
    mask.zero_()
    loss.backward()  # type: ignore[no-untyped-call]


def _recurrent(rng: random.Random) -> None:
    hidden = _leaf(rng).tanh()
    losses = []
    for step in range(rng.choice((2, 2, 2))):
        hidden[:, step] = hidden[:, step] * 2
        losses.append(hidden.pow(2).sum())
    torch.autograd.backward(torch.stack(losses).sum())


def _batch_norm_buffer(rng: random.Random) -> None:
    with torch.inference_mode():
        layer = nn.BatchNorm1d(rng.randint(2, 9))
    layer(torch.ones(3, layer.num_features))


def _multiple(split: Callable[[Tensor], tuple[Tensor, ...]], rng: random.Random) -> None:
    split(_leaf(rng) * 1)[rng.randrange(2)].add_(1.0)


def _view_in_no_grad(rng: random.Random) -> None:
    base = _leaf(rng) * 1
    with torch.no_grad():
        view = rng.choice((base[0], base.reshape(-1), base.transpose(0, 1)))
    view.mul_(2)


def _inference(change: Callable[[Tensor], object], rng: random.Random) -> None:
    with torch.inference_mode():
        tensor = torch.zeros(rng.randint(2, 9), 2)
    change(tensor)


class _AsIs(torch.autograd.Function):
    """A user's own function that returns its input."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor) -> Tensor:
        return inputs.view_as(inputs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad


def _custom_view(rng: random.Random) -> None:
    outputs: Tensor = _AsIs.apply(_leaf(rng) * 1)  # type: ignore[no-untyped-call]
    outputs.add_(1.0)


def _captured(rng: random.Random) -> None:
    outside = torch.zeros(rng.randint(2, 9))
    torch.func.grad(lambda inputs: outside.add_(inputs).sum())(torch.ones_like(outside))


def _add_one(tensor: Tensor) -> object:
    return tensor.add_(1.0)


_RAISED: dict[str, Operation] = {
    "relu": partial(_after, F.relu, _add_one),
    "sigmoid": partial(_after, torch.sigmoid, _fill_row),
    "tanh": partial(_after, torch.tanh, lambda tensor: tensor.mul_(2.0)),
    "exp": partial(_after, torch.exp, _scale_columns),
    "sqrt": partial(_after, torch.sqrt, lambda tensor: tensor.clamp_(min=0.5)),
    "softmax": partial(_after, lambda tensor: tensor.softmax(1), lambda tensor: tensor.div_(2.0)),
    "rsqrt": partial(_after, torch.rsqrt, lambda tensor: tensor.zero_()),
    "leaky_relu": partial(_after, lambda tensor: F.leaky_relu(tensor * 1, 0.1, inplace=True), _add_one),
    "reciprocal": partial(_after, torch.reciprocal, lambda tensor: tensor.sub_(1.0)),
    "elu": partial(_after, lambda tensor: F.elu(tensor * 1, inplace=True), lambda tensor: tensor.copy_(tensor.detach() + 1)),
    "dropout": partial(_after, lambda tensor: F.dropout(tensor.sigmoid(), 0.0, inplace=False).sigmoid(), _add_one),
    "weight": _weight_changed,
    "optimizer_step": _optimizer_step,
    "index": _index_changed,
    "mask": _mask_changed,
    "recurrent": _recurrent,
    "leaf_add": partial(_on_leaf, _add_one),
    "leaf_zero": partial(_on_leaf, lambda tensor: tensor.zero_()),
    "leaf_copy": partial(_on_leaf, lambda tensor: tensor.copy_(torch.zeros_like(tensor))),
    "leaf_relu": partial(_on_leaf, lambda tensor: F.relu(tensor, inplace=True)),
    "leaf_row": partial(_on_leaf, _fill_row),
    "leaf_view": partial(_on_leaf, lambda tensor: tensor.view(-1).add_(1.0)),
    "leaf_transpose": partial(_on_leaf, lambda tensor: tensor.transpose(0, 1).mul_(2.0)),
    "unbind": partial(_multiple, lambda tensor: tensor.unbind(0)),
    "split": partial(_multiple, lambda tensor: torch.split(tensor, 1)),
    "chunk": partial(_multiple, lambda tensor: tensor.chunk(2)),
    "view_in_no_grad": _view_in_no_grad,
    "custom_view": _custom_view,
    "inference_add": partial(_inference, _add_one),
    "inference_row": partial(_inference, _fill_row),
    "inference_buffer": _batch_norm_buffer,
    "captured": _captured,
}  # fmt: skip
