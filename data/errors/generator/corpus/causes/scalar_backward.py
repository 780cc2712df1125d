"""A gradient was asked of something that is no scalar, or given in a shape that does not fit the output."""
# ruff: noqa: E501  (pools of quoted lines read best unwrapped)

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import functional

from corpus import library_frames
from corpus.library_frames import frame
from corpus.message import Frame, Message
from corpus.raising import rendered
from corpus.wordings import Operation, raised_messages

CAUSE = "scalar_backward"
NUM_RAISED = 5

_IMPLICIT = "grad can be implicitly created only for scalar outputs"
_OLD = "backward should be called only on a scalar (i.e. 1-element tensor) or with gradient w.r.t. the variable"
_ONE_ELEMENT = "only one element tensors can be converted to Python scalars"
# group, core, exception, wordings; {n}: how many elements, {d}: dimensions, {a}, {b}: shapes, {c}: a complex type
_WORDINGS: tuple[tuple[str, bool, str, tuple[str, ...]], ...] = (
    ("implicit", True, "RuntimeError", (_IMPLICIT,)),
    ("implicit_dot", True, "RuntimeError", (f"{_IMPLICIT}.",)),
    ("raise_line", True, "", (f'raise RuntimeError("{_IMPLICIT}")\nRuntimeError: {_IMPLICIT}', f'raise RuntimeError("{_IMPLICIT}")')),
    ("make_grads", True, "", (
        f'_make_grads\n    raise RuntimeError("{_IMPLICIT}")\nRuntimeError: {_IMPLICIT}',
        f'if out.numel() != 1:\n    raise RuntimeError("{_IMPLICIT}")\nRuntimeError: {_IMPLICIT}',
        f'grad_tensors = _make_grads(tensors, grad_tensors)\n    raise RuntimeError("{_IMPLICIT}")\nRuntimeError: {_IMPLICIT}',
        f'grad_tensors_ = _make_grads(tensors, grad_tensors_, is_grads_batched=False)\nRuntimeError: {_IMPLICIT}',
        f'grad_outputs = _make_grads(outputs, grad_outputs)\nRuntimeError: {_IMPLICIT}',
    )),
    ("data_parallel", True, "", (
        "UserWarning: Was asked to gather along dimension 0, but all input tensors were scalars; will instead unsqueeze and return a vector.\n"
        f"  warnings.warn('Was asked to gather along dimension 0, but all '\nRuntimeError: {_IMPLICIT}",
        "Was asked to gather along dimension 0, but all input tensors were scalars; will instead unsqueeze and return a vector.\n"
        f"RuntimeError: {_IMPLICIT}",
    )),
    ("old_variable", True, "RuntimeError", (_OLD,)),
    ("real_scalar", True, "RuntimeError", (
        "grad can be implicitly created only for real scalar outputs but got {c}",
    )),
    ("mismatch", True, "RuntimeError", ("Mismatch in shape: grad_output[{i}] has a shape of torch.Size({a}) and output[{i}] has a shape of torch.Size({b}).",)),
    ("mismatch_dtype", False, "RuntimeError", ("For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch in dtype: grad_output[{i}] has a dtype of {c} and output[{i}] has a dtype of torch.float32.",)),
    ("gradients_type", False, "TypeError", ("gradients can be either Tensors or None, but got {t}", "gradients can be either Variables or None, but got {t}")),
    ("to_scalar", True, "RuntimeError", ("a Tensor with {n} elements cannot be converted to Scalar",)),
    ("item_old", True, "ValueError", (_ONE_ELEMENT, "only one element tensors can be converted to Python scalars")),
    ("boolean", True, "RuntimeError", (
        "Boolean value of Tensor with more than one value is ambiguous", "bool value of Tensor with more than one value is ambiguous",
        "bool value of Variable objects containing non-empty torch.FloatTensor is ambiguous",
    )),
    ("size_one", False, "TypeError", ("only size-1 arrays can be converted to Python scalars", "only length-1 arrays can be converted to Python scalars", "only 0-dimensional arrays can be converted to Python scalars")),
    ("func_scalar", True, "RuntimeError", (
        "grad_and_value(f)(*args): Expected f(*args) to return a scalar tensor, got tensor with {d} dims. Maybe you wanted to use the vjp or jacrev APIs instead?",
        "grad_and_value(f)(*args): Expected f(*args) to return a scalar Tensor, got tensor with {d} dims. Maybe you wanted to use the vjp or jacrev APIs instead?",
        "grad(f)(*args): Expected f(*args) to return a scalar tensor, got tensor with {d} dims. Maybe youwanted to use the vjp or jacrev APIs instead?",
    )),
    ("functional_scalar", False, "RuntimeError", (
        "The Tensor returned by the function given to hessian should contain a single element",
        "The Tensor returned by the function given to hvp should contain a single element",
        "The Tensor returned by the function given to vhp should contain a single element",
        "The vector v can only be None if the user-provided function returns a single Tensor with a single element.",
    )),
    ("criterion_none", False, "", (
        f"loss tensor([{{f}}, {{f}}, {{f}}], grad_fn=<NllLossBackward0>)\nRuntimeError: {_IMPLICIT}",
        f"tensor([{{f}}, {{f}}], device='cuda:0', grad_fn=<GatherBackward>)\nRuntimeError: {_IMPLICIT}",
        f"torch.Size({{a}})\nRuntimeError: {_IMPLICIT}",
    )),
    ("worker_process", False, "torch.multiprocessing.spawn.ProcessRaisedException", (f"\n\n-- Process {{i}} terminated with the following error:\nRuntimeError: {_IMPLICIT}",)),
)  # fmt: skip
_IN_BACKWARD = {"implicit", "implicit_dot", "real_scalar", "mismatch", "mismatch_dtype", "gradients_type"}
_NUM_RENDERED = {"implicit": 55, "mismatch": 30, "to_scalar": 16}
_CORE = frozenset(("result", "per_example", "grad", "gradient_shape", "item", "func_grad"))


def messages(rng: random.Random) -> Iterator[Message]:
    """Yield the messages of this cause, drawn from `rng`."""
    yield from raised_messages(CAUSE, _RAISED, rng, NUM_RAISED, core=_CORE)
    for group, is_core, exception, wordings in _WORDINGS:
        for _ in range(_NUM_RENDERED.get(group, 10)):
            frames = _frames(rng) if group in _IN_BACKWARD else ()
            yield rendered(CAUSE, group, _filled(rng, rng.choice(wordings)), exception, core=is_core, frames=frames)
    for _ in range(4):
        yield rendered(
            CAUSE,
            "libtorch",
            library_frames.libtorch(rng, _IMPLICIT, "_make_grads", "torch/csrc/autograd/autograd.cpp"),
            "",
        )


def _filled(rng: random.Random, template: str) -> str:
    first, second = (
        str([rng.choice((1, 2, 4, 8, 16, 32, 64, 128, rng.randint(3, 500))) for _ in range(rng.randint(1, 4))])
        for _ in range(2)
    )
    return template.format(
        n=rng.choice((0, 2, 3, 4, 8, 16, 32, 64, 128, 256, 784, 1000, rng.randint(5, 90000))),
        d=rng.randint(1, 4),
        a=first,
        b=second if rng.random() < 0.8 else "[]",
        c=rng.choice(("torch.complex64", "torch.complex128", "torch.complex32")),
        i=rng.choice((0, 0, 0, 1, 2)),
        t=rng.choice(("int", "float", "list", "str", "<class 'bool'>", "ndarray")),
        f=f"{rng.uniform(0.01, 9):.4f}",
    )


def _frames(rng: random.Random) -> tuple[Frame, ...]:
    """Return backward's or grad's first frames and the check below them, of one release."""
    outer = (library_frames.backward(rng) if rng.random() < 0.75 else library_frames.grad(rng))[0]
    file = "torch/autograd/__init__.py"
    called = rng.choice(
        (
            frame(rng, file, (87, 90, 93, 126), "backward", "grad_tensors = _make_grads(tensors, grad_tensors)"),
            frame(
                rng, file, (126, 141, 143, 150, 166), "backward", "grad_tensors_ = _make_grads(tensors, grad_tensors_)"
            ),
            frame(
                rng,
                file,
                (190, 193, 244, 260, 340),
                "backward",
                "grad_tensors_ = _make_grads(tensors, grad_tensors_, is_grads_batched=False)",
            ),
        )
    )
    check = frame(
        rng,
        file,
        (28, 34, 50, 51, 67, 85, 88, 110, 117, 124, 198),
        "_make_grads",
        rng.choice((f'raise RuntimeError("{_IMPLICIT}")', "raise RuntimeError(")),
    )
    return rng.choice(((outer, called, check), (outer, called, check), (called, check), (check,), (outer,)))


def _leaf(rng: random.Random) -> Tensor:
    shape = [rng.randint(2, 9) for _ in range(rng.randint(1, 4))]
    return torch.ones(shape, dtype=rng.choice((torch.float32, torch.float64)), requires_grad=True)


def _backward(make: Callable[[random.Random], Tensor], rng: random.Random) -> None:
    make(rng).backward()  # type: ignore[no-untyped-call]


def _gradient_shape(rng: random.Random) -> None:
    leaf = _leaf(rng)
    outputs = leaf * 2 if rng.random() < 0.7 else leaf.sum()
    outputs.backward(torch.ones(rng.randint(10, 99)))  # type: ignore[no-untyped-call]


def _grad_shape(rng: random.Random) -> object:
    leaf = _leaf(rng)
    return torch.autograd.grad(leaf * 2, leaf, torch.ones(rng.randint(10, 99), 2))


def _vjp_shape(rng: random.Random) -> object:
    pull: Callable[..., object] = torch.func.vjp(torch.sin, torch.ones(rng.randint(2, 9)))[1]
    return pull(torch.ones(rng.randint(10, 99)))


def _complex(rng: random.Random) -> Tensor:
    return torch.ones((), dtype=rng.choice((torch.complex64, torch.complex128)), requires_grad=True) * 2


def _complex_gradient(rng: random.Random) -> None:
    leaf = torch.ones(rng.randint(2, 9), requires_grad=True)
    torch.autograd.backward(leaf * 2, torch.ones_like(leaf, dtype=torch.complex64))


def _per_example(reduction_of: Callable[..., Tensor], rng: random.Random) -> Tensor:
    scores = torch.ones(rng.randint(2, 64), rng.randint(2, 20), requires_grad=True)
    if reduction_of is F.cross_entropy:
        return F.cross_entropy(scores, torch.zeros(len(scores), dtype=torch.long), reduction="none")
    return reduction_of(scores, torch.zeros_like(scores), reduction="none")


def _functional(name: str, rng: random.Random) -> object:
    call: Callable[..., object] = getattr(functional, name)
    values = torch.ones(rng.randint(2, 9))
    return call(torch.sin, values) if name in ("hessian", "vjp") else call(torch.sin, values, values)


def _func(name: str, rng: random.Random) -> object:
    transform: Callable[..., Callable[..., object]] = getattr(torch.func, name)
    return transform(torch.sin)(torch.ones([2] * rng.randint(1, 5)))


def _batched_grads(rng: random.Random) -> object:
    leaf = torch.ones(rng.randint(2, 9), requires_grad=True)
    return torch.autograd.grad(leaf * 2, leaf, torch.ones_like(leaf), is_grads_batched=True)


def _line_search(rng: random.Random) -> object:
    leaf = _leaf(rng)
    return torch.optim.LBFGS([leaf]).step(lambda: leaf.detach())  # type: ignore[no-untyped-call]


_RAISED: dict[str, Operation] = {
    "leaf": partial(_backward, _leaf),
    "result": partial(_backward, lambda rng: _leaf(rng) * 2),
    "rows": partial(_backward, lambda rng: torch.ones(rng.randint(2, 9), 3, requires_grad=True).mean(1)),
    "stacked": partial(
        _backward, lambda rng: torch.stack([_leaf(rng).sum().double() for _ in range(rng.randint(2, 8))])
    ),
    "per_example": partial(_backward, partial(_per_example, F.cross_entropy)),
    "per_example_mse": partial(_backward, partial(_per_example, F.mse_loss)),
    "per_example_l1": partial(_backward, partial(_per_example, F.smooth_l1_loss)),
    "per_example_bce": partial(_backward, partial(_per_example, F.binary_cross_entropy_with_logits)),
    "grad": lambda rng: torch.autograd.grad(torch.stack([leaf := torch.ones(2, requires_grad=True)]), leaf),
    "several": lambda rng: torch.autograd.backward([_leaf(rng) * 2, _leaf(rng) * 2]),
    "gradient_shape": _gradient_shape,
    "grad_shape": _grad_shape,
    "vjp_shape": _vjp_shape,
    "complex": partial(_backward, _complex),
    "complex_gradient": _complex_gradient,
    "item": lambda rng: _leaf(rng).item(),
    "float": lambda rng: float(_leaf(rng)),
    "int": lambda rng: int(_leaf(rng)),
    "tensor_of_list": lambda rng: torch.tensor([_leaf(rng).detach(), _leaf(rng).detach()]),
    "line_search": _line_search,
    "hessian": partial(_functional, "hessian"),
    "hvp": partial(_functional, "hvp"),
    "vhp": partial(_functional, "vhp"),
    "vjp": partial(_functional, "vjp"),
    "func_grad": partial(_func, "grad"),
    "func_grad_and_value": partial(_func, "grad_and_value"),
    "batched_grads": _batched_grads,
}
