"""Typical library frames above an error of autograd or of a layer, as releases since 2017 printed them.

A message that is rendered has no real traceback; these give it one of the right shape. Line numbers are those of some
release or near them: nobody reads an error by its line numbers, and the classifier must not either.
"""
# ruff: noqa: E501  (pools of quoted lines read best unwrapped)

from __future__ import annotations

import random
from collections.abc import Iterable

from corpus.message import Frame

_RUN_BACKWARD = "Variable._execution_engine.run_backward(  # Calls into the C++ engine to run the backward pass"

_BACKWARD: tuple[tuple[tuple[str, tuple[int, ...], str, str], ...], ...] = (
    (("torch/autograd/variable.py", (144, 146, 156, 167), "backward", "torch.autograd.backward(self, gradient, retain_graph, create_graph, retain_variables)"), ("torch/autograd/__init__.py", (98, 99), "backward", "variables, grad_variables, retain_graph)")),
    (("torch/tensor.py", (93, 102, 107, 118, 150, 166, 195, 198), "backward", "torch.autograd.backward(self, gradient, retain_graph, create_graph)"), ("torch/autograd/__init__.py", (89, 90, 93, 98, 99, 100), "backward", "allow_unreachable=True)  # allow_unreachable flag")),
    (("torch/tensor.py", (221, 245), "backward", "torch.autograd.backward(self, gradient, retain_graph, create_graph, inputs=inputs)"), ("torch/autograd/__init__.py", (130, 132, 145, 147), "backward", "Variable._execution_engine.run_backward(")),
    (("torch/_tensor.py", (255, 307, 363, 396), "backward", "torch.autograd.backward(self, gradient, retain_graph, create_graph, inputs=inputs)"), ("torch/autograd/__init__.py", (147, 149, 154, 156, 173, 175), "backward", _RUN_BACKWARD)),
    (("torch/_tensor.py", (487, 488, 492), "backward", "torch.autograd.backward("), ("torch/autograd/__init__.py", (197, 200, 204, 251, 266), "backward", _RUN_BACKWARD)),
    (("torch/_tensor.py", (521, 522, 525, 581, 626, 647, 648), "backward", "torch.autograd.backward("), ("torch/autograd/__init__.py", (267, 289, 347, 353, 354), "backward", "_engine_run_backward("), ("torch/autograd/graph.py", (744, 768, 769, 823, 825, 829, 841), "_engine_run_backward", f"return {_RUN_BACKWARD}")),
)  # fmt: skip

_GRAD: tuple[tuple[tuple[str, tuple[int, ...], str, str], ...], ...] = (
    (("torch/autograd/__init__.py", (144, 149, 157, 158, 192, 204), "grad", "inputs, allow_unused)"),),
    (("torch/autograd/__init__.py", (226, 234, 236, 275, 276, 300, 303, 319), "grad", f"return {_RUN_BACKWARD}"),),
    (("torch/autograd/__init__.py", (394, 411, 412, 436, 496, 502, 503), "grad", "result = _engine_run_backward("), ("torch/autograd/graph.py", (744, 769, 825, 829), "_engine_run_backward", f"return {_RUN_BACKWARD}")),
)  # fmt: skip

_MODULE = "torch/nn/modules/module.py"
_CALL: tuple[tuple[str, tuple[int, ...], str, str], ...] = (
    (_MODULE, (206, 325, 357, 477, 489, 491, 532, 547, 722), "__call__", "result = self.forward(*input, **kwargs)"),
    (_MODULE, (744, 889, 1051, 1071), "_call_impl", "result = self.forward(*input, **kwargs)"),
    (_MODULE, (1102, 1110, 1130, 1190, 1194), "_call_impl", "return forward_call(*input, **kwargs)"),
    (_MODULE, (1501, 1518, 1520, 1527, 1562, 1750, 1762), "_call_impl", "return forward_call(*args, **kwargs)"),
    (_MODULE, (1511, 1532, 1553, 1739, 1751), "_wrapped_call_impl", "return self._call_impl(*args, **kwargs)"),
)

_CPP_ROOTS = (
    "../",
    "/pytorch/",
    "/opt/conda/conda-bld/pytorch_1603729096996/work/",
    "C:\\cb\\pytorch_1000000000000\\work\\",
)


def backward(rng: random.Random) -> tuple[Frame, ...]:
    """Return the frames of `loss.backward()` in one release."""
    return _drawn(rng, rng.choice(_BACKWARD))


def grad(rng: random.Random) -> tuple[Frame, ...]:
    """Return the frames of `torch.autograd.grad(…)` in one release."""
    return _drawn(rng, rng.choice(_GRAD))


def layer_call(rng: random.Random) -> tuple[Frame, ...]:
    """Return the one or two frames of a module's call in one release."""
    call = _drawn(rng, (rng.choice(_CALL[:4]),))
    if call[0].source == "return forward_call(*args, **kwargs)" and rng.random() < 0.7:
        return _drawn(rng, _CALL[4:]) + call
    return call


def cross_entropy(rng: random.Random) -> Frame:
    """Return the innermost frame of a cross-entropy in one release."""
    file = "torch/nn/functional.py"
    return rng.choice(
        (
            Frame(file, 2824, "cross_entropy", "return torch._C._nn.cross_entropy_loss(input, target, weight, _Reduction.get_enum(reduction), ignore_index, label_smoothing)"),
            Frame(file, 3029, "cross_entropy", "return torch._C._nn.cross_entropy_loss("),
            Frame(file, 2468, "cross_entropy", "return nll_loss(log_softmax(input, 1), target, weight, None, ignore_index, None, reduction)"),
            Frame(file, 2264, "nll_loss", "ret = torch._C._nn.nll_loss(input, target, weight, _Reduction.get_enum(reduction), ignore_index)"),
            Frame(file, 2115, "nll_loss", "ret = torch._C._nn.nll_loss2d(input, target, weight, _Reduction.get_enum(reduction), ignore_index)"),
            Frame("torch/nn/modules/loss.py", 1174, "forward", "return F.cross_entropy(input, target, weight=self.weight,"),
        )
    )  # fmt: skip


def embedding(rng: random.Random) -> Frame:
    """Return the innermost frame of an embedding, or the frame of a model that looks one up."""
    file = "torch/nn/functional.py"
    return rng.choice(
        (
            Frame(file, 1484, "embedding", "return torch.embedding(weight, input, padding_idx, scale_grad_by_freq, sparse)"),
            Frame(file, 2210, "embedding", "return torch.embedding(weight, input, padding_idx, scale_grad_by_freq, sparse)"),
            Frame("torch/nn/modules/sparse.py", 126, "forward", "self.norm_type, self.scale_grad_by_freq, self.sparse)"),
            Frame("transformers/models/bert/modeling_bert.py", 230, "forward", "inputs_embeds = self.word_embeddings(input_ids)"),
            Frame("transformers/models/roberta/modeling_roberta.py", 129, "forward", "position_embeddings = self.position_embeddings(position_ids)"),
            Frame("transformers/models/gpt2/modeling_gpt2.py", 843, "forward", "position_embeds = self.wpe(position_ids)"),
        )
    )  # fmt: skip


def frame(rng: random.Random, file: str, lines: tuple[int, ...], function: str, source: str) -> Frame:
    """Return one frame whose line number is drawn from `lines`."""
    return Frame(file, rng.choice(lines), function, source)


def replica(rng: random.Random, exception: str, text: str, frames: Iterable[Frame]) -> str:
    """Return an error as DataParallel passes it on: the traceback of one replica inside the message."""
    device = rng.randrange(4)
    folder = rng.choice(("/usr/local/lib/python3.8/dist-packages", "/opt/conda/lib/python3.7/site-packages"))
    lines = [
        f"Caught {exception} in replica {device} on device {device}.",
        "Original Traceback (most recent call last):",
        f'  File "{folder}/torch/nn/parallel/parallel_apply.py", line {rng.choice((60, 61, 64, 83))}, in _worker',
        "    output = module(*input, **kwargs)",
    ]
    for entry in frames:
        lines += [f'  File "{folder}/{entry.file}", line {entry.line}, in {entry.function}', f"    {entry.source}"]
    return "\n".join([*lines, f"{exception}: {text}"])


def libtorch(rng: random.Random, text: str, function: str, file: str) -> str:
    """Return an error as a C++ program prints it, with the place that raised it."""
    place = f"Exception raised from {function} at {rng.choice(_CPP_ROOTS)}{file}:{rng.randrange(20, 900)}"
    head = "terminate called after throwing an instance of 'c10::Error'\n  what():  " if rng.random() < 0.7 else ""
    return f"{head}{text}\n{place} (most recent call first):"


def _drawn(rng: random.Random, rows: Iterable[tuple[str, tuple[int, ...], str, str]]) -> tuple[Frame, ...]:
    return tuple(frame(rng, *row) for row in rows)
