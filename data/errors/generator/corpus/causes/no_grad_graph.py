"""There is nothing to differentiate: what backward was asked of has no graph, or the graph never used the input."""
# ruff: noqa: E501  (pools of quoted lines read best unwrapped)

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import functional
from torch.utils.checkpoint import checkpoint

from corpus import library_frames
from corpus.message import Message
from corpus.raising import rendered
from corpus.wordings import Operation, raised_messages

CAUSE = "no_grad_graph"
NUM_RAISED = 3

_UNUSED = "One of the differentiated Tensors appears to not have been used in the graph. Set allow_unused=True if this is the desired behavior."
_CHECKPOINT = "UserWarning: None of the inputs have requires_grad=True. Gradients will be None"
_INFERENCE = (
    "Inference tensors cannot be saved for backward. To work around you can make a clone to get a normal tensor and use it in autograd.",
    "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode in computation tracked by autograd. To work around this, you can "
    "make a clone to get a normal tensor and use it in autograd, or use `torch.no_grad()` instead of `torch.inference_mode()`.",
)
# group, core, exception, wordings; {n}: an index
_WORDINGS: tuple[tuple[str, bool, str, tuple[str, ...]], ...] = (
    ("element", True, "RuntimeError", ("element {n} of tensors does not require grad and does not have a grad_fn",)),
    ("element_variables", True, "RuntimeError", ("element {n} of variables does not require grad and does not have a grad_fn", "element {n} of variables tuple is volatile")),
    ("element_dot", True, "RuntimeError", ("element {n} of tensors does not require grad and does not have a grad_fn.",)),
    ("no_nodes", True, "RuntimeError", ("there are no graph nodes that require computing gradients",)),
    ("volatile", False, "RuntimeError", (
        "calling backward on a volatile variable",
        "element {n} of variables tuple is volatile",
        "calling backward on a Variable that doesn't require gradient",
    )),
    ("does_not_require", True, "RuntimeError", ("One of the differentiated Tensors does not require grad", "One of the differentiated Variables does not require grad")),
    ("not_used", True, "RuntimeError", (
        _UNUSED,
        _UNUSED.replace("Tensors", "Variables"),
        "The differentiated Tensor at index {n} appears to not have been used in the graph. Set allow_unused=True if this is the desired behavior.",
        "differentiated input is unreachable",
    )),
    ("inference_saved", True, "RuntimeError", _INFERENCE),
    ("inference_requires", False, "RuntimeError", (
        "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.",
        "Cannot set version_counter for inference tensor",
    )),
    ("inference_forward", False, "RuntimeError", ("Inference tensors do not track version counter.",)),
    ("hook", True, "RuntimeError", (
        "cannot register a hook on a tensor that doesn't require gradient",
        "cannot register a hook on a variable that doesn't require gradient",
        "cannot register a hook on a volatile variable",
    )),
    ("flags", True, "RuntimeError", (
        "you can only change requires_grad flags of leaf variables.",
        "you can only change requires_grad flags of leaf variables. If you want to use a computed variable in a subgraph that doesn't require differentiation use var_no_grad = var.detach().",
    )),
    ("retain", False, "RuntimeError", ("can't retain_grad on Tensor that has requires_grad=False", "can't retain_grad on Variable that has requires_grad=False")),
    ("grad_none", True, "AttributeError", (
        "'NoneType' object has no attribute 'zero_'",
        "'NoneType' object has no attribute 'norm'",
        "'NoneType' object has no attribute 'abs'",
        "'NoneType' object has no attribute 'detach_'",
    )),
    ("checkpoint_inputs", True, "", (
        f"torch/utils/checkpoint.py:{{l}}: {_CHECKPOINT}\n  warnings.warn(\"None of the inputs have requires_grad=True. Gradients will be None\")",
        f"torch/utils/checkpoint.py:{{l}}: {_CHECKPOINT}\nRuntimeError: element 0 of tensors does not require grad and does not have a grad_fn",
        f"{_CHECKPOINT}\n  warnings.warn(",
        "none of output has requires_grad=True, this checkpoint() is not necessary",
        "None of the inputs have requires_grad=True. Gradients will be None",
    )),
    ("grad_attribute", True, "", (
        "UserWarning: The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute won't be populated during autograd.backward(). If you indeed want the "
        ".grad field to be populated for a non-leaf Tensor, use .retain_grad() on the non-leaf Tensor.",
        "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute won't be populated during autograd.backward(). If you indeed want the gradient for a "
        "non-leaf Tensor, use .retain_grad() on the non-leaf Tensor. If you access the non-leaf Tensor by mistake, make sure you access the leaf Tensor instead.",
    )),
    ("non_leaf", False, "ValueError", ("can't optimize a non-leaf Tensor", "can't optimize a non-leaf Variable", "can't optimize a variable that doesn't require gradients", "optimizing a parameter that doesn't require gradients")),
    ("empty_list", False, "ValueError", ("optimizer got an empty parameter list",)),
    ("scaler", False, "AssertionError", ("No inf checks were recorded for this optimizer.",)),
    ("lightning_step", False, "RuntimeError", (
        "element 0 of tensors does not require grad and does not have a grad_fn\nEpoch 0:   0%|          | 0/{l} [00:00<?, ?it/s]",
        "element 0 of tensors does not require grad and does not have a grad_fn\n  0%|          | 0/{l} [00:02<?, ?it/s]",
    )),
    ("lora", False, "", (
        "trainable params: 0 || all params: {l}738415616 || trainable%: 0.0\nRuntimeError: element 0 of tensors does not require grad and does not have a grad_fn",
        "`use_cache=True` is incompatible with gradient checkpointing. Setting `use_cache=False`...\nRuntimeError: element 0 of tensors does not require grad and does not have a grad_fn",
    )),
    ("worker_process", False, "torch.multiprocessing.spawn.ProcessRaisedException", (
        "\n\n-- Process {n} terminated with the following error:\nRuntimeError: element 0 of tensors does not require grad and does not have a grad_fn",
    )),
)  # fmt: skip
_IN_BACKWARD = {"element", "element_variables", "element_dot", "no_nodes", "volatile", "lightning_step"}
_CORE = frozenset(
    ("plain", "no_grad", "detached", "frozen", "unused", "inference", "hook", "flag", "grad_norm", "integer")
)


def messages(rng: random.Random) -> Iterator[Message]:
    """Yield the messages of this cause, drawn from `rng`."""
    yield from raised_messages(CAUSE, _RAISED, rng, NUM_RAISED, core=_CORE)
    for group, is_core, exception, wordings in _WORDINGS:
        for _ in range(45 if group == "element" else 12 if is_core else 8):
            text = rng.choice(wordings).format(n=rng.choice((0, 0, 0, 0, 1, 2)), l=rng.randrange(10, 900))
            frames = library_frames.backward(rng) if group in _IN_BACKWARD else ()
            if group in ("does_not_require", "not_used"):
                frames = library_frames.grad(rng)
            elif group == "inference_saved":
                frames = library_frames.layer_call(rng)
            yield rendered(CAUSE, group, text, exception, core=is_core, frames=frames)
    for _ in range(6):
        text = library_frames.libtorch(
            rng, _WORDINGS[0][3][0].format(n=0), "run_backward", "torch/csrc/autograd/autograd.cpp"
        )
        yield rendered(CAUSE, "libtorch", text, "")


def _values(rng: random.Random) -> Tensor:
    return torch.ones(rng.randint(2, 9), rng.randint(2, 9), dtype=rng.choice((torch.float32, torch.float64)))


def _leaf(rng: random.Random) -> Tensor:
    return _values(rng).requires_grad_()


def _backward(make: Callable[[random.Random], Tensor], rng: random.Random) -> None:
    make(rng).sum().backward()  # type: ignore[no-untyped-call]


def _frozen(rng: random.Random) -> Tensor:
    layer = nn.Linear(rng.randint(2, 9), 3, device="meta").to_empty(device="cpu").requires_grad_(False)
    found: Tensor = layer(torch.ones(2, layer.in_features))
    return found


def _without_grad(rng: random.Random) -> Tensor:
    with torch.no_grad():
        return _leaf(rng).exp()


def _in_inference_mode(rng: random.Random) -> Tensor:
    with torch.inference_mode():
        return _leaf(rng).exp()


def _checkpointed(rng: random.Random) -> Tensor:
    weight = torch.ones(3, requires_grad=True)
    found: Tensor = checkpoint(lambda inputs: inputs * weight, torch.ones(2, 3), use_reentrant=True)
    return found


def _cross_entropy_of_choice(rng: random.Random) -> Tensor:
    chosen = _leaf(rng).argmax(1)
    return F.mse_loss(chosen.float(), torch.zeros(len(chosen)))


def _double(rng: random.Random) -> Tensor:
    inputs = _leaf(rng)
    (grad,) = torch.autograd.grad(inputs.pow(3).sum(), inputs)
    return grad


def _grad_of_plain_input(rng: random.Random) -> object:
    return torch.autograd.grad(_leaf(rng).sum(), _values(rng))


def _grad_of_unused(rng: random.Random) -> object:
    leaves = [_leaf(rng) for _ in range(rng.randint(1, 4))]
    return torch.autograd.grad(_leaf(rng).sum(), leaves)


def _grad_of_plain_output(rng: random.Random) -> object:
    return torch.autograd.grad(_values(rng).sum(), _leaf(rng))


def _saved_inference(rng: random.Random) -> object:
    with torch.inference_mode():
        values = _values(rng)
    return values * torch.ones_like(values).requires_grad_()


def _inference_weight(rng: random.Random) -> object:
    with torch.inference_mode():
        features = torch.ones(2, rng.randint(2, 9))
    return F.linear(features, torch.ones(3, features.shape[1], requires_grad=True))


def _inference_requires(rng: random.Random) -> object:
    with torch.inference_mode():
        values = _values(rng)
    return values.requires_grad_()


def _hooked(method: str, rng: random.Random) -> object:
    return getattr(_values(rng), method)(torch.Tensor.clone)


def _flag(rng: random.Random) -> None:
    _leaf(rng).exp().requires_grad = False


def _grad_norm(rng: random.Random) -> object:
    grad: Any = _leaf(rng).grad
    return grad.norm()


def _grad_zero(rng: random.Random) -> object:
    grad: Any = _leaf(rng).grad
    return grad.zero_()


def _strict(name: str, rng: random.Random) -> object:
    """Ask for a strict derivative of a function that detaches."""
    call: Callable[..., object] = getattr(functional, name)
    values = _values(rng)
    arguments = (values,) if name in ("jacobian", "hessian") else (values, values)

    def detached(inputs: Tensor) -> Tensor:
        return inputs.detach() if name in ("jacobian", "vjp", "jvp") else inputs.detach().sum()

    return call(detached, *arguments, strict=True)


def _empty_optimizer(rng: random.Random) -> object:
    return torch.optim.SGD([leaf for leaf in (_values(rng), _values(rng)) if leaf.requires_grad], 0.1)


def _gradcheck(rng: random.Random) -> object:
    return torch.autograd.gradcheck(torch.exp, (_values(rng),))


_RAISED: dict[str, Operation] = {
    "plain": partial(_backward, _values),
    "no_grad": partial(_backward, _without_grad),
    "detached": partial(_backward, lambda rng: _leaf(rng).exp().detach()),
    "data": partial(_backward, lambda rng: _leaf(rng).exp().data),
    "frozen": partial(_backward, _frozen),
    "argmax": partial(_backward, lambda rng: _leaf(rng).argmax(1)),
    "chosen": partial(_backward, _cross_entropy_of_choice),
    "integer": partial(_backward, lambda rng: _leaf(rng).long()),
    "compared": partial(_backward, lambda rng: (_leaf(rng) > 0).float()),
    "item": partial(_backward, lambda rng: torch.tensor(_leaf(rng).sum().item())),
    "numpy": partial(_backward, lambda rng: torch.from_numpy(_leaf(rng).detach().numpy())),
    "inference_output": partial(_backward, _in_inference_mode),
    "checkpointed": partial(_backward, _checkpointed),
    "second_order": partial(_backward, _double),
    "grad_plain_input": _grad_of_plain_input,
    "unused": _grad_of_unused,
    "grad_plain_output": _grad_of_plain_output,
    "inference": _saved_inference,
    "inference_weight": _inference_weight,
    "inference_flag": _inference_requires,
    "hook": partial(_hooked, "register_hook"),
    "accumulate_hook": partial(_hooked, "register_post_accumulate_grad_hook"),
    "retain_grad": lambda rng: _values(rng).retain_grad(),
    "flag": _flag,
    "grad_norm": _grad_norm,
    "grad_zero": _grad_zero,
    "jacobian": partial(_strict, "jacobian"),
    "hessian": partial(_strict, "hessian"),
    "vjp": partial(_strict, "vjp"),
    "jvp": partial(_strict, "jvp"),
    "hvp": partial(_strict, "hvp"),
    "vhp": partial(_strict, "vhp"),
    "gradcheck": _gradcheck,
    "optimizer_non_leaf": lambda rng: torch.optim.SGD([_leaf(rng).exp()], 0.1),
    "optimizer_empty": _empty_optimizer,
}
