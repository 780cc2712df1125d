"""Code that Dynamo, TorchScript, tracing, FX, export or functorch refuses; the rest of compiling is rendered.

Snippets of user code are given a file name of their own, so that an error points into somebody's `model.py`.
"""

from __future__ import annotations

import contextlib
import io
import linecache
import logging
import multiprocessing
import os
import random
import re
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import Any
from unittest.mock import patch

import torch
import torch._dynamo
import torch.distributions

from corpus.causes.compile_snippets import DYNAMO, EXPORT, FX, GRAD, PREAMBLE, SCRIPT, TRACE, VMAP
from corpus.causes.compile_wordings import BUILDS, DYNAMO_WORDINGS, INDUCTOR, SCRIPT_WORDINGS, SLOTS
from corpus.message import Message
from corpus.raising import caught
from corpus.slots import render

CAUSE = "compile_failure"
NUM_EACH = 3
FILES = ("model.py", "train.py", "/workspace/net.py", "/content/modules.py", "src/layers.py", "utils/ops.py")
NAMES = ("forward", "step", "loss_fn", "compute", "attention", "normalize", "encode", "f", "train_step", "toy_example")
CORE = ("branch on data", "print", "graph break", "unknown builtin", "star arguments", "wrong type")
CONTROL_FLOW = ("branch", "boolean and", "assert")  # FX has one message for these

Compiler = Callable[[Any], object]


def messages(rng: random.Random) -> Iterator[Message]:
    """What refuses a snippet, what refuses a backend; then rendered wordings."""
    inputs = torch.ones(3, 5)
    trace: Callable[..., object] = torch.jit.trace
    compilers: tuple[tuple[str, dict[str, str], Compiler], ...] = (
        ("dynamo", DYNAMO, lambda f: torch.compile(f, backend="eager", fullgraph=True)(inputs)),
        ("script", SCRIPT, torch.jit.script),
        ("trace", TRACE, lambda f: trace(f, (inputs,))),
        ("fx", FX, torch.fx.symbolic_trace),
        ("export", EXPORT, lambda f: torch.export.export(_Module(f), (inputs[0],))),
        ("vmap", VMAP, lambda f: torch.func.vmap(f)(inputs)),
        ("grad", GRAD, lambda f: torch.func.grad(f)(inputs)),
    )
    with _quiet():
        for compiler, snippets, run in compilers:
            for kind, snippet in snippets.items():
                core = kind in (CONTROL_FLOW if compiler == "fx" else CORE) and compiler in ("dynamo", "script", "fx")
                for _ in range(4 if core else 1):
                    yield _refusal(rng, f"{compiler}: {kind}", snippet, run, core=core)
        yield from _backends(rng)
        yield from _shapes(rng)
    yield from render(CAUSE, chain(DYNAMO_WORDINGS, INDUCTOR, SCRIPT_WORDINGS, BUILDS), SLOTS, rng, num_each=NUM_EACH)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Compile with nothing printed or logged, and leave no compiled code behind."""
    out = io.StringIO()
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    validate = torch.distributions.Distribution._validate_args  # Dynamo switches this off for good
    start_method: str | None = multiprocessing.get_start_method(allow_none=True)
    torch._dynamo.reset()
    try:
        with (
            patch.dict(os.environ),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(out),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        torch._dynamo.reset()
        logging.disable(level)
        torch.distributions.Distribution.set_default_validate_args(validate)
        multiprocessing.set_start_method(start_method, force=True)


class _Module(torch.nn.Module):
    """A module that calls a function: export takes no plain functions."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


def _defined(source: str, file: str, name: str) -> Any:
    """The function of that name, whose code says that it comes from `file`."""
    namespace: dict[str, Any] = {"__name__": "model"}
    exec(compile(source, file, "exec"), namespace)
    return namespace[name]


def _refusal(rng: random.Random, group: str, snippet: str, run: Compiler, *, core: bool) -> Message:
    """The message of one compiler about one snippet, a few lines down in a drawn file."""
    file, name = rng.choice(FILES), rng.choice(NAMES)
    sizes = {letter: str(rng.randint(2, 400)) for letter in "MNK"}
    words = re.sub(r"(?<![A-Za-z])[MNK]\b", lambda letter: sizes[letter[0]], snippet.replace("NAME", name))
    source = PREAMBLE + "\n" * rng.randint(5, 300) + words + "\n"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    try:
        return caught(CAUSE, group, partial(run, _defined(source, file, name)), core=core)
    finally:
        linecache.cache.pop(file, None)
        torch._dynamo.reset()


def _backends(rng: random.Random) -> Iterator[Message]:
    """Backends that do not exist or fail, and options that nobody has."""
    inputs = torch.ones(2)

    def run(**options: Any) -> object:
        return torch.compile(lambda x: x * 2, **options)(inputs)

    for name in ("inductr", "tensorrt", "nvfuser", "onnxrt_cuda", "ipex", "hidet", "openxla"):
        yield caught(CAUSE, "unknown backend", partial(run, backend=name))
    errors = (
        ("inductor", AssertionError("size=[2, 3], stride=[3, 1] does not match")),
        ("inductor", RuntimeError("Failed to find C compiler. Please specify via CC environment variable.")),
        ("inductor", ImportError("cannot import name 'get_cuda_stream' from 'triton.runtime.jit'")),
        ("inductor", NotImplementedError("could not find kernel for aten._thnn_fused_lstm_cell")),
        ("my_backend", TypeError("my_backend() missing 1 required positional argument: 'example_inputs'")),
        ("aot_eager", RuntimeError("Cannot access data pointer of Tensor (e.g. FakeTensor, FunctionalTensor)")),
        ("cudagraphs", KeyError("device index")),
        ("tvm", ModuleNotFoundError("No module named 'tvm'")),
    )
    for name, error in errors:

        def backend(graph: object, examples: object, error: Exception = error) -> Any:
            raise error

        backend.__name__ = name
        core = name == "inductor"
        yield caught(CAUSE, f"backend {name} fails", partial(run, backend=backend), core=core)
    for mode in ("fast", "max", "reduce_overhead", "autotune"):
        yield caught(CAUSE, "unknown mode", partial(run, mode=mode))
    for option in ("max_autotun", "triton.cudagraph", "epilogue"):
        yield caught(CAUSE, "unknown option", partial(run, options={option: True}))


def _shapes(rng: random.Random) -> Iterator[Message]:
    """Dynamic dimensions that the exported code makes constant or relates to one another."""
    for _ in range(3):
        size = rng.randint(3, 60)
        fixed = _Module(partial(_fixed_to, size))
        dim = torch.export.Dim(rng.choice(("batch", "seq_len", "height", "dim_0", "time")))
        for name, group in (("x", "constraint violation"), ("y", "dynamic shapes")):
            shapes = {name: {0: dim}}
            run = partial(torch.export.export, fixed, (torch.ones(size),), dynamic_shapes=shapes)
            yield caught(CAUSE, group, run)


def _fixed_to(size: int, x: torch.Tensor) -> torch.Tensor:
    return x.view(size, 1) if x.shape[0] == size else x
