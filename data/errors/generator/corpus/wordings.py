"""Tables of wordings and of failing operations, and their turning into messages.

A wording is a template with placeholders such as `{d}` or `{shape4}`; a failing operation is a function of a random
generator that draws its sizes and fails. Both are filled several times with other numbers.
"""
# ruff: noqa: E501  (running text and pools are kept on long lines)

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from corpus.message import Message
from corpus.raising import caught, rendered

Operation = Callable[[random.Random], object]

SIZES = (2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 14, 15, 16, 18, 20, 21, 24, 25, 28, 30, 32, 36, 40, 48, 49, 50, 56, 60, 64, 72, 80, 84, 96, 100,
         112, 120, 127, 128, 144, 150, 160, 176, 192, 196, 197, 200, 224, 240, 250, 256, 299, 300, 320, 384, 400, 480, 500, 512, 576, 600, 640,
         768, 784, 800, 896, 1000, 1024, 1152, 1280, 1536, 1600, 2048, 3136, 4096, 5120, 9216, 11008, 25088, 32000, 32768, 50257, 50265)  # fmt: skip
SMALL = tuple(size for size in SIZES if size <= 128)
CHANNELS = (
    1, 2, 3, 4, 6, 8, 9, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 192, 256, 320, 384, 512, 768, 1024, 2048,
)  # fmt: skip
MODULES = (
    "layer", "conv1", "fc", "fc1", "linear", "encoder", "decoder", "backbone", "head", "net", "model", "lstm",
    "embedding", "classifier",
)  # fmt: skip


def sizes(rng: random.Random, num: int, pool: Sequence[int] = SMALL) -> list[int]:
    """Return `num` sizes above one that all differ, so that no two of them broadcast."""
    return rng.sample([size for size in pool if size > 1], num)


def drawn(num: int, fail: Callable[..., object], pool: Sequence[int] = SMALL) -> Operation:
    """Return an operation that calls `fail` with its generator and `num` sizes that all differ."""
    return lambda rng: fail(rng, *sizes(rng, num, pool))


def _shape(rng: random.Random, num_dims: int) -> str:
    batch = (rng.choice((1, 2, 4, 8, 16, 32, 64, 128, 10, 5, 6, 3)),)
    rest = {
        1: (rng.choice(SIZES),),
        2: (*batch, rng.choice(SIZES)),
        3: (*batch, rng.choice(SIZES), rng.choice(SIZES)),
        4: (*batch, rng.choice(CHANNELS), *[rng.choice((7, 14, 28, 32, 64, 128, 224, 256, 299, 480, 512, 640))] * 2),
        5: (*batch, rng.choice(CHANNELS), rng.choice((8, 16, 32)), *[rng.choice((16, 32, 56, 64, 96, 112, 128))] * 2),
    }[num_dims]
    return "[" + ", ".join(map(str, rest)) + "]"


_PLACEHOLDERS: dict[str, Callable[[random.Random], str]] = {
    "n": lambda r: str(r.choice(SIZES)),
    "d": lambda r: str(r.choice(SIZES)),
    "b": lambda r: str(r.choice((1, 2, 3, 4, 5, 8, 10, 12, 16, 20, 24, 32, 48, 64, 100, 128, 256))),
    "c": lambda r: str(r.choice(CHANNELS)),
    "k": lambda r: str(r.choice((1, 3, 4, 5, 7, 9))),
    "i": lambda r: str(r.randint(0, 4)),
    "j": lambda r: str(r.randint(1, 3)),
    "g": lambda r: str(r.randint(0, 7)),
    "big": lambda r: str(r.randint(1000, 9_999_999)),
    "line": lambda r: str(r.randint(20, 900)),
    "float": lambda r: f"{r.uniform(0.0001, 9):.4f}",
    "gib": lambda r: f"{r.uniform(1.0, 48):.2f} GiB",
    "mib": lambda r: f"{r.choice((2, 12, 14, 16, 20, 26, 32, 50, 64, 98, 100, 128, 192, 256, 384, 392, 512, 768, 784, 978))}.00 MiB",
    "amount": lambda r: r.choice((f"{r.uniform(1, 40):.2f} GiB", f"{r.choice((2, 20, 64, 128, 256, 512, 392, 770))}.00 MiB", f"{r.uniform(2, 999):.2f} MiB")),
    "cap": lambda r: r.choice(("3.95", "5.80", "7.79", "7.93", "8.00", "10.76", "10.92", "11.17", "11.91", "14.56", "14.76", "15.78", "15.90", "16.00", "22.20", "23.69", "23.99", "31.75", "39.56", "44.49", "47.54", "79.15", "79.35", "93.10")) + " GiB",
    "bytes": lambda r: str(r.choice((4, 8, 16)) * r.randint(10**8, 10**11)),
    "pid": lambda r: str(r.randint(100, 99999)),
    "cuda": lambda r: f"cuda:{r.choice((0, 0, 0, 0, 1, 1, 2, 3, 7))}",
    "shape1": lambda r: _shape(r, 1),
    "shape2": lambda r: _shape(r, 2),
    "shape3": lambda r: _shape(r, 3),
    "shape4": lambda r: _shape(r, 4),
    "mod": lambda r: r.choice(MODULES),
    "root": lambda r: r.choice(("/pytorch", "/opt/conda/conda-bld/pytorch_1556653114079/work", "..", "/tmp/pip-req-build-58y_cjjl", "c:\\a\\w\\1\\s\\tmp_conda_3.6\\conda\\conda-bld\\pytorch_1544087948354\\work", "/build/python-pytorch/src/pytorch", "C:\\w\\b\\windows\\pytorch", "/Users/distiller/project/conda/conda-bld/pytorch_1593656616439/work")),
    "arch": lambda r: r.choice(("sm_30", "sm_35", "sm_37", "sm_50", "sm_61", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")),
    "gpu": lambda r: r.choice(("GeForce GTX 1080 Ti", "NVIDIA GeForce RTX 3090", "Tesla K40c", "NVIDIA A100-SXM4-40GB", "GeForce RTX 3080", "NVIDIA GeForce RTX 5090", "NVIDIA H100 80GB HBM3", "Quadro K2200", "NVIDIA GeForce RTX 4090", "GeForce GT 730", "NVIDIA RTX A6000", "NVIDIA GeForce RTX 5070 Ti")),
    "cudaver": lambda r: r.choice(("8.0", "9.0", "9.2", "10.0", "10.1", "10.2", "11.0", "11.1", "11.3", "11.6", "11.7", "11.8", "12.1", "12.4", "12.6", "12.8")),
    "driver": lambda r: str(r.choice((8000, 9000, 9010, 9020, 10000, 10010, 10020, 11000, 11010, 11020, 11040, 11060, 11070, 11080, 12000, 12020))),
    "ver": lambda r: r.choice(("1.0.1", "1.4.0", "1.7.1", "1.8.1+cu111", "1.10.0+cu102", "1.12.1", "1.13.1+cpu", "2.0.1", "2.1.0+cpu", "2.2.1", "2.4.0", "2.5.1+cpu")),
    "op": lambda r: r.choice(("MmBackward0", "MulBackward0", "SqrtBackward0", "DivBackward0", "LogBackward", "PowBackward0", "SoftmaxBackward0", "LogSoftmaxBackward0", "CudnnConvolutionBackward", "ConvolutionBackward0", "NativeBatchNormBackward0", "AcosBackward0", "NormBackward1", "LinalgVectorNormBackward0", "ExpBackward0", "AddmmBackward0", "BmmBackward0", "SqrtBackward", "MeanBackward0", "StdBackward0", "Atan2Backward0", "NllLossBackward0", "ScaledDotProductEfficientAttentionBackward0", "CudnnBatchNormBackward", "SubBackward0", "AbsBackward")),
    "file": lambda r: r.choice(("model.py", "data.csv", "train.csv", "features.npy", "img_00{n}.png")).replace("{n}", str(r.randint(1, 9))),
}  # fmt: skip


def fill(template: str, rng: random.Random) -> str:
    """Return `template` with each known placeholder drawn anew; other braces stay as they are."""
    return re.sub(r"\{(\w+)\}", lambda m: _PLACEHOLDERS[m[1]](rng) if m[1] in _PLACEHOLDERS else m[0], template)


@dataclass(frozen=True)
class Wording:
    """A group of templates that are rendered."""

    group: str
    exception: str
    templates: tuple[str, ...]
    core: bool = False


def rendered_messages(cause: str, table: Sequence[Wording], rng: random.Random, num_fillings: int) -> Iterator[Message]:
    """Yield every template of `table` filled `num_fillings` times; the caller drops what comes out equal."""
    for wording in table:
        for template in wording.templates:
            for _ in range(num_fillings if "{" in template else 1):
                yield rendered(cause, wording.group, fill(template, rng), wording.exception, core=wording.core)


def raised_messages(
    cause: str,
    operations: dict[str, Operation],
    rng: random.Random,
    num_draws: int,
    *,
    core: frozenset[str] = frozenset(),
) -> Iterator[Message]:
    """Yield the error of every operation, run `num_draws` times with other sizes; the key is its group.

    A key such as `matmul/2` belongs to the group before the slash.
    """
    for name, operation in operations.items():
        group = name.split("/")[0]
        for _ in range(num_draws):
            yield caught(cause, group, lambda operation=operation: operation(rng), core=group in core)  # type: ignore[misc]
