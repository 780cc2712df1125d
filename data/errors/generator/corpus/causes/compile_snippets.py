"""Small pieces of a user's code that a compiler of torch refuses; NAME and the sizes M, N, K are filled in.

Each defines `NAME`; `corpus.causes.compile_failure` hands it to Dynamo, TorchScript, tracing, export, FX or functorch.
"""

# ruff: noqa: E501
from __future__ import annotations

# The first line of every snippet's file.
PREAMBLE = (
    "import collections, contextlib, copy, json, logging, os, random, threading, time, types, warnings; "
    "from typing import Dict, List, Optional, Tuple; import numpy as np; import torch"
)

DYNAMO: dict[str, str] = {
    "branch on data": "def NAME(x):\n    if x.sum() > M:\n        return x\n    return x * N",
    "loop on data": "def NAME(x):\n    while x.norm() > M:\n        x = x / N\n    return x",
    "assert on data": "def NAME(x):\n    y = x.mean()\n    return x if y else y * N",
    "tolist": "def NAME(x):\n    return [i * M for i in x.tolist()]",
    "print": "def NAME(x):\n    print('loss', M)\n    return x * N",
    "graph break": "def NAME(x):\n    y = x + M\n    torch._dynamo.graph_break()\n    return y",
    "numpy call": "def NAME(x):\n    return torch.tensor(np.random.choice([M, N])) + x",
    "open": "def NAME(x):\n    with open('log.txt') as file:\n        return x * M",
    "time": "def NAME(x):\n    start = time.perf_counter()\n    return x * M, time.perf_counter() - start",
    "random": "def NAME(x):\n    return x * random.SystemRandom().random()",
    "backward": "def NAME(x):\n    loss = (x * M).sum()\n    loss.backward()\n    return loss",
    "requires_grad": "def NAME(x):\n    y = x * M\n    y.requires_grad_()\n    return y",
    "data pointer": "def NAME(x):\n    return x.data_ptr() + M",
    "deepcopy": "def NAME(x):\n    return copy.deepcopy(x) * M",
    "generator": "def NAME(x):\n    gen = torch.Generator()\n    gen.manual_seed(M)\n    return torch.rand(N, generator=gen) + x",
    "import": "def NAME(x):\n    import PIL_missing_M\n    return x",
    "raise": "def NAME(x):\n    if x.shape[0] < 99:\n        raise ValueError('too short: M')\n    return x",
    "unknown attribute": "def NAME(x):\n    return x.not_there(M)",
    "lock": "def NAME(x):\n    lock = threading.Lock()\n    with lock:\n        return x * M",
    "thread": "def NAME(x):\n    threading.Thread(target=print).start()\n    return x * M",
    "sparse": "def NAME(x):\n    return x.to_sparse() * M",
    "shape in a fake call": "def NAME(x):\n    return x @ torch.ones(M, N)",
    "view in a fake call": "def NAME(x):\n    return x.view(M, N, 7919)",
    "cat in a fake call": "def NAME(x):\n    return torch.cat([x, torch.ones(M, N, K)])",
    "linear in a fake call": "def NAME(x):\n    return torch.nn.functional.linear(x, torch.ones(N, 7919))",
    "conv in a fake call": "def NAME(x):\n    return torch.nn.functional.conv2d(x, torch.ones(N, M, 3, 3))",
    "exec": "def NAME(x):\n    exec('y = M')\n    return x",
    "eval": "def NAME(x):\n    return eval('x * M')",
    "id": "def NAME(x):\n    return x * id(object())",
    "globals": "def NAME(x):\n    return x * len(globals()) * hash(x)",
    "environment": "def NAME(x):\n    os.environ['SEED'] = 'M'\n    return x * M",
    "json": "def NAME(x):\n    json.dumps({'size': object()})\n    return x * M",
    "logging": "def NAME(x):\n    logging.getLogger('train').warning('step M')\n    return x",
    "warning": "def NAME(x):\n    warnings.warn('slow path M')\n    return x",
    "context manager": "def NAME(x):\n    with contextlib.ExitStack() as stack:\n        stack.callback(print)\n        return x * M",
    "yield": "def NAME(x):\n    def inner():\n        yield from iter(x.tolist())\n    return sum(inner()) + M",
    "coroutine": "def NAME(x):\n    async def inner():\n        return x * M\n    return inner().send(None)",
}

SCRIPT: dict[str, str] = {
    "star arguments": "def NAME(x, *rest):\n    return x * M",
    "star keywords": "def NAME(x, **options):\n    return x * M",
    "wrong type": "def NAME(x):\n    return torch.zeros(M) + 'abc'",
    "int for tensor": "def NAME(x: int):\n    return torch.relu(x)",
    "undefined name": "def NAME(x):\n    return x * scale_M",
    "unknown builtin": "def NAME(x):\n    return torch.no_such_operator_M(x)",
    "numpy": "def NAME(x):\n    return np.mean(x) * M",
    "two types": "def NAME(x):\n    if bool(x.sum() > M):\n        y = 1\n    else:\n        y = 'a'\n    return y",
    "undefined in branch": "def NAME(x):\n    if bool(x.sum() > M):\n        y = x\n    return y",
    "return types": "def NAME(x):\n    if bool(x.sum() > M):\n        return x\n    return N",
    "comprehension": "def NAME(x):\n    return {i for i in range(M)}",
    "lambda": "def NAME(x):\n    f = lambda y: y * M\n    return f(x)",
    "global statement": "def NAME(x):\n    global counter\n    counter = M\n    return x",
    "with": "def NAME(x):\n    with open('a') as f:\n        return x * M",
    "try": "def NAME(x):\n    try:\n        return x * M\n    except ValueError:\n        return x",
    "yield": "def NAME(x):\n    yield x * M",
    "f-string": "def NAME(x):\n    print(f'{x!r:>M}')\n    return x",
    "isinstance": "def NAME(x):\n    return x if isinstance(x, dict) else x.unknown_field",
    "attribute": "def NAME(x):\n    return x.no_such_attribute",
    "method": "def NAME(x):\n    return x.no_such_method(M)",
    "optional": "def NAME(x: Optional[torch.Tensor]):\n    return x + M",
    "index a tuple": "def NAME(x: Tuple[int, str], i: int):\n    return x[i]",
    "too many arguments": "def NAME(x):\n    return torch.relu(x, M, N)",
    "missing argument": "def NAME(x):\n    return torch.conv2d(x)",
    "keyword argument": "def NAME(x):\n    return torch.relu(x, slope=M)",
    "unpack": "def NAME(x: List[int]):\n    a, b = x, M, N\n    return a",
    "starred": "def NAME(x):\n    a, *b, c = [M, N]\n    return a",
    "annotation": "def NAME(x: 'Batch'):\n    return x",
    "set": "def NAME(x):\n    y = set([M])\n    return x",
    "matrix power": "def NAME(x):\n    return x ** 'M'",
    "while else": "def NAME(x):\n    while M > N:\n        x = x + 1\n    else:\n        x = x\n    return x",
    "nested def": "def NAME(x):\n    def inner(y):\n        return y * M\n    return inner(x)",
    "class": "def NAME(x):\n    class A: pass\n    return x",
    "delete": "def NAME(x):\n    y = x * M\n    del y\n    return y",
    "chained super": "def NAME(x):\n    return super().forward(x)",
    "recursion": "def NAME(x):\n    return NAME(x) + M",
    "slices": "def NAME(x: Dict[str, int]):\n    return x[1:M]",
    "random": "def NAME(x):\n    return random.random() * x",
    "time": "def NAME(x):\n    return x * time.time()",
    "import": "def NAME(x):\n    import math\n    return x * M",
    "walrus": "def NAME(x):\n    while (n := M) > N:\n        x = x + n\n    return x",
}

TRACE: dict[str, str] = {
    "dict output": "def NAME(x):\n    return {'out': x * M, 'n': N}",
    "string output": "def NAME(x):\n    return 'class M'",
    "none output": "def NAME(x):\n    x * M",
    "int output": "def NAME(x):\n    return M",
    "set output": "def NAME(x):\n    return {x}",
    "object output": "def NAME(x):\n    return types.SimpleNamespace(out=x * M)",
    "list of mixed": "def NAME(x):\n    return [x, [x, M]]",
}

FX: dict[str, str] = {
    "branch": "def NAME(x):\n    if x.sum() > M:\n        return x\n    return x * N",
    "len": "def NAME(x):\n    return x * len(x) + M",
    "range": "def NAME(x):\n    for i in range(x.shape[0]):\n        x = x + M\n    return x",
    "iteration": "def NAME(x):\n    a, b = x.split(M)\n    return [y for y in x]",
    "int": "def NAME(x):\n    return torch.zeros(int(x.size(0)) + M)",
    "contains": "def NAME(x):\n    return M in x.shape",
    "keywords": "def NAME(x):\n    return dict(**x)",
    "assert": "def NAME(x):\n    assert x.dim() == M\n    return x",
    "star": "def NAME(x):\n    return torch.max(*x)",
    "boolean and": "def NAME(x):\n    return x and M",
    "index": "def NAME(x):\n    return [M, N][x]",
}

EXPORT: dict[str, str] = {
    "branch on data": "def NAME(x):\n    if x.sum() > M:\n        return x\n    return x * N",
    "branch on item": "def NAME(x):\n    n = int(x.sum().item())\n    if n > M:\n        return x\n    return x * N",
    "view of item": "def NAME(x):\n    n = int(x.sum().item())\n    return x.new_zeros(n).view(M, -1)",
    "string output": "def NAME(x):\n    return x.numpy().tolist()",
    "custom output": "def NAME(x):\n    return types.SimpleNamespace(out=x * M)",
    "data pointer": "def NAME(x):\n    return x * x.data_ptr()",
    "shape mismatch": "def NAME(x):\n    return x @ torch.ones(M, N)",
    "slice of item": "def NAME(x):\n    return x[: int(x[0].item())].reshape(M)",
    "range of item": "def NAME(x):\n    for _ in range(int(x.sum().item())):\n        x = x + M\n    return x",
}

VMAP: dict[str, str] = {
    "branch": "def NAME(x):\n    if x.sum() > M:\n        return x\n    return x * N",
    "item": "def NAME(x):\n    return x * x.sum().item() * M",
    "in place": "def NAME(x):\n    out = torch.zeros(())\n    out.add_(x.sum() * M)\n    return out",
    "random": "def NAME(x):\n    return x + torch.rand(()) * M",
    "dropout": "def NAME(x):\n    return torch.nn.functional.dropout(x * M)",
    "nonzero": "def NAME(x):\n    return torch.nonzero(x) * M",
    "mask": "def NAME(x):\n    return x[x > M]",
    "not a tensor": "def NAME(x):\n    return M",
    "set output": "def NAME(x):\n    return {'a', x}",
    "unique": "def NAME(x):\n    return torch.unique(x) * M",
    "out dims": "def NAME(x):\n    return x, x * M, 'a'",
    "numpy": "def NAME(x):\n    return x.tolist()",
    "data": "def NAME(x):\n    return x.data_ptr() * x",
}

GRAD: dict[str, str] = {
    "int output": "def NAME(x):\n    return M",
    "tuple output": "def NAME(x):\n    return (x.sum() * M, x)",
    "none output": "def NAME(x):\n    x.sum() * M",
    "backward inside": "def NAME(x):\n    y = (x * M).sum()\n    y.backward()\n    return y",
    "requires_grad inside": "def NAME(x):\n    y = torch.ones(M).requires_grad_()\n    return (x.sum() * y).sum()",
    "autograd function": "class Scale(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n        return x * M\n    @staticmethod\n    def backward(ctx, g):\n        return g * M\n\ndef NAME(x):\n    return Scale.apply(x).sum()",
}
