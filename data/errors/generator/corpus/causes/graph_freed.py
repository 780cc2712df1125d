"""Backward ran a second time through a graph whose saved tensors the first backward had freed."""
# ruff: noqa: E501  (pools of quoted lines read best unwrapped)

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from corpus import library_frames
from corpus.message import Message
from corpus.raising import caught, rendered
from corpus.wordings import Operation, raised_messages

CAUSE = "graph_freed"

# The sentence in the order of the releases that printed it: 0.1, 0.2 to 1.5, 1.6 and 1.7, 1.8 and 1.9, 1.10, since 1.11.
_WORDINGS = (
    "Trying to backward through the graph second time, but the buffers have already been freed. "
    "Please specify retain_variables=True when calling backward for the first time.",
    "Trying to backward through the graph a second time, but the buffers have already been freed. "
    "Specify retain_graph=True when calling backward the first time.",
    "Trying to backward through the graph a second time, but the saved intermediate results have already been freed. "
    "Specify retain_graph=True when calling backward the first time.",
    "Trying to backward through the graph a second time, but the saved intermediate results have already been freed. "
    "Specify retain_graph=True when calling .backward() or autograd.grad() the first time.",
    "Trying to backward through the graph a second time (or directly access saved variables after they have already "
    "been freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). "
    "Specify retain_graph=True if you need to backward through the graph a second time or if you need to access saved "
    "variables after calling backward.",
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already "
    "been freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). "
    "Specify retain_graph=True if you need to backward through the graph a second time or if you need to access saved "
    "tensors after calling backward.",
)
_UNPACKED_TWICE = (
    "Unpack is being triggered for a tensor that was already unpacked once. If you are calling ctx.saved_tensors in "
    "backward, make sure to do so only once. Otherwise please open an issue with details on your use case."
)
_FUNCTIONS = (
    "CudnnRnnBackward", "CudnnConvolutionBackward", "CudnnBatchNormBackward", "AddmmBackward", "MmBackward", "MulBackward0",
    "SigmoidBackward", "LogSoftmaxBackward", "EmbeddingBackward", "ThnnConv2DBackward", "PowBackward0", "TanhBackward",
)  # fmt: skip


def messages(rng: random.Random) -> Iterator[Message]:
    """Yield the messages of this cause, drawn from `rng`."""
    for group, forward in _FORWARDS.items():
        for ending in (_backward_twice, _grad_twice):
            yield caught(CAUSE, group, partial(ending, forward, rng), core=group in ("linear", "lstm", "mul"))
    yield from raised_messages(CAUSE, _OTHER, rng, 1)
    for number, wording in enumerate(_WORDINGS):
        for _ in range(8 if number in (0, 2) else 24):
            frames = library_frames.backward(rng) if rng.random() < 0.8 else library_frames.grad(rng)
            yield rendered(CAUSE, f"wording_{number}", wording, "RuntimeError", core=True, frames=frames)
    for group, exception, texts in _around(rng):
        for text in texts:
            frames = library_frames.backward(rng) if exception else ()
            yield rendered(CAUSE, group, text, exception, core=group == "first_sentence", frames=frames)


def _around(rng: random.Random) -> Iterator[tuple[str, str, list[str]]]:
    """Yield (group, exception, texts) of the sentence with what stands beside it: a tail, a warning, another process."""
    first, last = _WORDINGS[1], _WORDINGS[-1]
    short = "Trying to backward through the graph a second time"
    yield "first_sentence", "RuntimeError", [f"{short}.", short, first.split(". ")[0] + ".", last.split(". ")[0] + "."]
    yield "function_tail", "RuntimeError", [f"{first} (function {name})" for name in rng.sample(_FUNCTIONS, 6)]
    yield "anomaly", "", [
        f"Error detected in {name}. Traceback of forward call that caused the error:\n"
        f"    {rng.choice(('x = self.fc(x)', 'h = self.cell(x, h)', 'out = self.conv(x)'))}\n"
        f"RuntimeError: {wording}"
        for name, wording in zip(rng.sample(_FUNCTIONS, 5), _WORDINGS[1:], strict=True)
    ]  # fmt: skip
    yield (
        "libtorch",
        "",
        [
            library_frames.libtorch(rng, wording, "unpack", "torch/csrc/autograd/saved_variable.cpp")
            for wording in _WORDINGS[2:] * 2
        ],
    )
    yield (
        "remote",
        "RuntimeError",
        [f"Error on Node {node}: {wording}" for node in range(2) for wording in _WORDINGS[3:]],
    )
    yield (
        "worker_process",
        "torch.multiprocessing.spawn.ProcessRaisedException",
        [
            f"\n\n-- Process {rank} terminated with the following error:\nRuntimeError: {_WORDINGS[rng.choice((1, 3, 5))]}"
            for rank in range(4)
        ],
    )
    yield "checkpoint_unpack", "RuntimeError", [_UNPACKED_TWICE]


def _leaf(rng: random.Random, *shape: int) -> Tensor:
    return torch.ones(*shape, dtype=rng.choice((torch.float32, torch.float64)), requires_grad=True)


def _square(rng: random.Random) -> Tensor:
    return _leaf(rng, rng.randint(2, 9), rng.randint(2, 9))


def _backward_twice(forward: Callable[[random.Random], Tensor], rng: random.Random) -> None:
    loss = forward(rng).sum()
    loss.backward()  # type: ignore[no-untyped-call]
    loss.backward()  # type: ignore[no-untyped-call]


def _grad_twice(forward: Callable[[random.Random], Tensor], rng: random.Random) -> None:
    outputs = forward(rng)
    weight = torch.ones_like(outputs)
    node: Any = outputs.grad_fn
    torch.autograd.backward(outputs, weight)
    torch.autograd.grad(outputs, [_root(node)], weight)


def _root(node: Any) -> Tensor:
    """Return the first leaf that a graph's node leads to."""
    while not hasattr(node, "variable"):
        node = next(parent for parent, _ in node.next_functions if parent is not None)
    leaf: Tensor = node.variable
    return leaf


def _layer(layer: nn.Module, inputs: Tensor) -> Tensor:
    """Run a layer whose parameters are ones, not drawn from torch's global stream."""
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.fill_(1.0)
    output = layer(inputs)
    found: Tensor = output[0] if isinstance(output, tuple) else output
    return found


def _lstm(rng: random.Random) -> Tensor:
    layer = nn.LSTM(rng.randint(2, 6), 3, device="meta").to_empty(device="cpu")
    return _layer(layer, torch.ones(4, 2, layer.input_size))


def _gru(rng: random.Random) -> Tensor:
    layer = nn.GRU(rng.randint(2, 6), 3, device="meta").to_empty(device="cpu")
    return _layer(layer, torch.ones(4, 2, layer.input_size))


def _linear(rng: random.Random) -> Tensor:
    width = rng.randint(2, 9)
    return F.relu(F.linear(torch.ones(3, width), torch.ones(4, width, requires_grad=True))).pow(2)


def _conv(rng: random.Random) -> Tensor:
    return F.conv2d(torch.ones(1, 3, 8, 8), torch.ones(rng.randint(1, 6), 3, 3, 3, requires_grad=True))


def _batch_norm(rng: random.Random) -> Tensor:
    return F.batch_norm(_leaf(rng, 4, rng.randint(2, 6)), None, None, training=True)


def _attention(rng: random.Random) -> Tensor:
    query = torch.ones(1, 2, rng.randint(2, 6), 4, requires_grad=True)
    return F.scaled_dot_product_attention(query, query, query)


def _embedding(rng: random.Random) -> Tensor:
    return F.embedding(torch.tensor([0, 1]), torch.ones(rng.randint(2, 9), 3, requires_grad=True)).exp()


def _checkpointed(rng: random.Random) -> Tensor:
    found: Tensor = checkpoint(torch.sin, _square(rng), use_reentrant=rng.random() < 0.5)
    return found


_FORWARDS: dict[str, Callable[[random.Random], Tensor]] = {
    "linear": _linear,
    "lstm": _lstm,
    "gru": _gru,
    "conv": _conv,
    "batch_norm": _batch_norm,
    "attention": _attention,
    "embedding": _embedding,
    "mul": lambda rng: _square(rng) * torch.ones(1, requires_grad=True),
    "matmul": lambda rng: (
        _square(rng) @ torch.ones(0) if False else torch.mm(_leaf(rng, 2, 2).double(), _leaf(rng, 2, 2).double())
    ),
    "softmax": lambda rng: _square(rng).softmax(1),
    "log_softmax": lambda rng: _square(rng).log_softmax(1),
    "gelu": lambda rng: F.gelu(_square(rng)),
    "sigmoid": lambda rng: _square(rng).sigmoid(),
    "norm": lambda rng: _square(rng).norm(),
    "layer_norm": lambda rng: F.layer_norm(_leaf(rng, 2, 4), (4,)),
    "mse": lambda rng: F.mse_loss(_leaf(rng, 3), torch.zeros(3, dtype=torch.float64)),
    "max": lambda rng: _square(rng).max(1).values,
}


class _Doubled(torch.autograd.Function):
    """A user's own function that saves its input."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor) -> Tensor:
        ctx.save_for_backward(inputs)
        return inputs * 2

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (inputs,) = ctx.saved_tensors
        return grad * 2 * torch.ones_like(inputs)


def _custom(rng: random.Random) -> None:
    outputs: Tensor = _Doubled.apply(_square(rng))  # type: ignore[no-untyped-call]
    torch.autograd.backward(outputs.sum())
    torch.autograd.backward(outputs.sum())


def _hidden_state(rng: random.Random) -> None:
    cell = nn.GRUCell(2, 3, device="meta").to_empty(device="cpu")
    hidden = torch.zeros(1, 3)
    for _ in range(2):
        with torch.no_grad():
            cell.weight_ih.fill_(1.0)
        hidden = cell(torch.ones(1, 2), hidden)
        torch.autograd.backward(hidden.sum())


def _generator(rng: random.Random) -> None:
    fake = torch.tanh(_square(rng))
    for sign in (1.0, -1.0):
        torch.autograd.backward((fake * sign).pow(2).mean())


def _saved(rng: random.Random) -> Tensor:
    outputs = _square(rng).exp()
    torch.autograd.backward(outputs.sum())
    node: Any = outputs.grad_fn
    found: Tensor = node._saved_result
    return found


def _jacobian_row(rng: random.Random) -> None:
    inputs = _square(rng)
    outputs = inputs.exp().sum(1)
    for output in outputs:
        torch.autograd.grad(output, inputs)


_OTHER: dict[str, Operation] = {
    "custom_function": _custom,
    "hidden_state": _hidden_state,
    "generator": _generator,
    "saved_result": _saved,
    "jacobian_row": _jacobian_row,
    "checkpoint": lambda rng: _backward_twice(_checkpointed, rng),
}
