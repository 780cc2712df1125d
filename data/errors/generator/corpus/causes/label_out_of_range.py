"""A class label, token id or index lies outside the range that the loss, the embedding or the tensor allows."""
# ruff: noqa: E501  (pools of quoted lines read best unwrapped)

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchmetrics.functional.classification import (
    binary_accuracy,
    binary_stat_scores,
    multiclass_accuracy,
    multiclass_confusion_matrix,
)

from corpus import device_asserts
from corpus.library_frames import cross_entropy, embedding, layer_call, replica
from corpus.message import Message
from corpus.raising import rendered
from corpus.wordings import Operation, raised_messages

CAUSE = "label_out_of_range"
NUM_RAISED = 9
_FLOATS = (torch.float32, torch.float64)


def messages(rng: random.Random) -> Iterator[Message]:
    """Yield the messages of this cause, drawn from `rng`."""
    yield from raised_messages(CAUSE, _CORE | _OTHER, rng, NUM_RAISED, core=frozenset(_CORE))
    for _ in range(14):
        text = f"Target {_bad(rng, 20)} is out of bounds."
        frames = (*layer_call(rng), cross_entropy(rng))
        yield rendered(CAUSE, "cross_entropy", text, "IndexError", core=True, frames=frames)
        embedded = (*layer_call(rng), embedding(rng))
        yield rendered(CAUSE, "embedding", "index out of range in self", "IndexError", core=True, frames=embedded)
    for _ in range(8):
        frames = (embedding(rng),)
        text = replica(rng, "IndexError", "index out of range in self", frames)
        yield rendered(CAUSE, "embedding_replica", text, "IndexError", core=True)
    for group, core, exception, templates in _OLD:
        for _ in range(10):
            text = _filled(rng, rng.choice(templates))
            yield rendered(CAUSE, group, text, exception, core=core, frames=layer_call(rng))
    yield from device_asserts.messages(CAUSE, rng)


# Wordings of torch 0.x and 1.x, and of libraries above torch. {b}: a bad label, {c}: how many there are, {l}: a line.
_OLD: tuple[tuple[str, bool, str, tuple[str, ...]], ...] = (
    (
        "thnn_nll",
        True,
        "RuntimeError",
        (
            "Assertion `cur_target >= 0 && cur_target < n_classes' failed.  at {root}THNN/generic/ClassNLLCriterion.c:{l}",
            "Assertion `THIndex_(get)(target, i) >= 0 && THIndex_(get)(target, i) < n_classes' failed.  at {root}THNN/generic/SpatialClassNLLCriterion.c:{l}",
            "Assertion `cur_target >= 0 && cur_target < n_classes' failed.  at {root}THNN/generic/SpatialClassNLLCriterion.c:{l}",
        ),
    ),
    ("th_index_select", True, "RuntimeError", ("index out of range: Tried to access index {b} out of table with {c} rows. at {root}TH/generic/THTensorEvenMoreMath.cpp:{l}", "index out of range at {root}TH/generic/THTensorMath.c:{l}", "index out of range at {root}TH/generic/THTensorEvenMoreMath.cpp:{l}")),
    (
        "th_gather",
        False,
        "RuntimeError",
        ("Invalid index in gather at {root}TH/generic/THTensorEvenMoreMath.cpp:{l}", "Invalid index in scatter at {root}TH/generic/THTensorEvenMoreMath.cpp:{l}", "Invalid index in scatterAdd at {root}TH/generic/THTensorEvenMoreMath.cpp:{l}", "Invalid index in gather at {root}TH/generic/THTensorMath.c:{l}"),
    ),
    ("th_bce", False, "RuntimeError", ("Assertion `x >= 0. && x <= 1.' failed. input value should be between 0~1, but got {b}.482113 at {root}THNN/generic/BCECriterion.c:{l}", "Assertion `(target >= 0.0) && (target <= 1.0)' failed. at {root}THNN/generic/BCECriterion.c:{l}")),
    (
        "vocabulary",
        True,
        "",
        (
            "Token indices sequence length is longer than the specified maximum sequence length for this model ({b} > {c}). Running this sequence through the model will result in indexing errors\nIndexError: index out of range in self",
            "tokenizer has {b} tokens but the embedding has {c} rows\nIndexError: index out of range in self",
            "vocab_size={c}, max(input_ids)={b}\nIndexError: index out of range in self",
            "num_classes = {c}, labels.max() = {b}\nIndexError: Target {b} is out of bounds.",
            "labels: tensor([0, 1, {b}, 2])\nIndexError: Target {b} is out of bounds.",
        ),
    ),
    ("served_tokens", False, "ValueError", ("Token id {b} is out of vocabulary",)),
)  # fmt: skip


def _filled(rng: random.Random, template: str) -> str:
    count = rng.choice((2, 5, 10, 21, 80, 512, 1000, 21128, 30522, 32000, 50257))
    root = rng.choice(("/pytorch/aten/src/", "/opt/conda/conda-bld/pytorch_1556653099582/work/aten/src/",
                       "/Users/soumith/code/builder/wheel/pytorch-src/aten/src/", "c:\\a\\w\\1\\s\\windows\\pytorch\\aten\\src\\",
                       "/tmp/pip-req-build-58y_cjjl/aten/src/", "/pytorch/torch/lib/"))  # fmt: skip
    return template.format(b=count + rng.randrange(40), c=count, l=rng.randrange(50, 900), root=root)


def _bad(rng: random.Random, most: int) -> int:
    """Return a label that no loss with fewer than `most` classes accepts, and -100 (ignored) never."""
    return rng.choice((-1, -2, rng.randint(most, most + 300), rng.randint(most, most + 300), 255))


def _count(rng: random.Random) -> int:
    return rng.randint(2, 20)


def _scores(rng: random.Random, *shape: int) -> Tensor:
    return torch.zeros(*shape, dtype=rng.choice(_FLOATS))


def _nll(rng: random.Random, *, weighted: bool = False, smoothing: float = 0.0) -> Tensor:
    classes, batch = _count(rng), rng.randint(1, 8)
    scores = torch.zeros(batch, classes)
    weight = torch.ones(classes) if weighted else None
    return F.cross_entropy(scores, torch.full((batch,), _bad(rng, classes)), weight=weight, label_smoothing=smoothing)


def _nll_spatial(rng: random.Random) -> Tensor:
    classes, side = _count(rng), rng.randint(2, 6)
    return F.nll_loss(_scores(rng, 2, classes, side, side), torch.full((2, side, side), _bad(rng, classes)))


def _embedding(rng: random.Random) -> object:
    rows, width = rng.randint(4, 60), rng.randint(2, 16)
    return nn.Embedding(rows, width, _weight=torch.zeros(rows, width))(torch.full((2, 3), rows + rng.randrange(5)))


def _embedding_bag(rng: random.Random) -> Tensor:
    rows = rng.randint(4, 60)
    return F.embedding_bag(torch.tensor([0, _bad(rng, rows)]), torch.zeros(rows, 3), torch.tensor([0]))


def _one_hot(rng: random.Random) -> Tensor:
    classes = _count(rng)
    return F.one_hot(torch.tensor([rng.choice((-1, classes, classes + 1)), 0]), classes)


def _along(name: str, rng: random.Random) -> object:
    """Call a method that takes (dim, index) or (dim, index, values) with an index past the end."""
    rows, columns = rng.randint(2, 30), rng.randint(2, 30)
    tensor, dim = _scores(rng, rows, columns), rng.randrange(2)
    bad = torch.tensor([(rows, columns)[dim] + rng.randrange(9)])
    square = name in ("gather", "scatter_", "scatter_add_", "scatter_reduce_")
    index = bad.reshape(1, 1) if square else bad
    ones = torch.ones_like(tensor[:1, :1] if square else tensor.narrow(dim, 0, 1))
    extra: tuple[object, ...] = () if name in ("gather", "index_select") else (ones,)
    if name == "index_fill_":
        extra = (1.0,)
    elif name in ("scatter_reduce_", "index_reduce_"):
        extra = (ones, "mean")
    return getattr(tensor, name)(dim, index, *extra)


def _subscript(kind: str, rng: random.Random) -> Tensor:
    rows, columns = rng.randint(2, 30), rng.randint(2, 30)
    tensor, bad = _scores(rng, rows, columns), rows + rng.randrange(40)
    if kind == "row":
        return tensor[bad]
    if kind == "negative":
        return tensor[-bad - 1]
    if kind == "column":
        return tensor[:, columns + rng.randrange(9)]
    if kind == "list":
        return tensor[[0, bad]]
    if kind == "picked":
        return tensor[torch.arange(rows), torch.full((rows,), columns + rng.randrange(3))]
    tensor[torch.tensor([bad])] = 1.0
    return tensor


def _flat(name: str, rng: random.Random) -> object:
    tensor = _scores(rng, rng.randint(2, 9), rng.randint(2, 9))
    index = torch.tensor([tensor.numel() + rng.randrange(50)])
    return tensor.take(index) if name == "take" else tensor.put_(index, tensor.reshape(-1)[:1].clone())


def _select(rng: random.Random) -> Tensor:
    tensor = _scores(rng, *(rng.randint(2, 12) for _ in range(rng.randint(1, 4))))
    dim = rng.randrange(tensor.dim())
    return tensor.select(dim, tensor.shape[dim] + rng.randrange(30))


def _bce(rng: random.Random) -> Tensor:
    shape = (rng.randint(1, 9), rng.randint(1, 9))
    good, bad = torch.full(shape, 0.5), torch.full(shape, float(rng.choice((-1, 2, 255))))
    return F.binary_cross_entropy(good, bad) if rng.random() < 0.6 else F.binary_cross_entropy(bad, good)


def _multi_margin(rng: random.Random) -> Tensor:
    classes = _count(rng)
    return F.multi_margin_loss(_scores(rng, 1, classes), torch.tensor([_bad(rng, classes)]))


def _multilabel_margin(rng: random.Random) -> Tensor:
    classes = _count(rng)
    return F.multilabel_margin_loss(torch.zeros(2, classes), torch.full((2, classes), classes + rng.randrange(9)))


def _ctc(rng: random.Random) -> Tensor:
    classes, lengths = _count(rng), torch.tensor([9])
    scores = torch.zeros(9, 1, classes).log_softmax(2)
    return F.ctc_loss(scores, torch.ones(1, 3, dtype=torch.long), lengths, torch.tensor([3]), blank=_bad(rng, classes))


def _adaptive(rng: random.Random) -> object:
    classes = rng.randint(12, 60)
    # skip_init: real initialisation would draw from torch's global stream
    loss = nn.AdaptiveLogSoftmaxWithLoss(4, classes, [5, 10], device="meta").to_empty(device="cpu")
    return loss(torch.zeros(2, 4), torch.tensor([0, classes + rng.randrange(40)]))


def _categorical(rng: random.Random) -> object:
    classes = _count(rng)
    chosen = torch.distributions.Categorical(logits=torch.zeros(rng.randint(1, 5), classes), validate_args=True)
    return chosen.log_prob(torch.tensor(_bad(rng, classes)))  # type: ignore[no-untyped-call]


def _bincount(rng: random.Random) -> Tensor:
    return torch.bincount(torch.tensor([rng.randrange(9), -rng.randint(1, 9)]))


def _padding(rng: random.Random) -> object:
    rows = rng.randint(2, 40)
    return F.embedding(torch.tensor([0]), torch.zeros(rows, 2), padding_idx=rows + rng.randrange(5))


def _metric(rng: random.Random) -> Tensor:
    classes = rng.randint(3, 9)
    target = torch.arange(classes + rng.randint(1, 3))
    metric = rng.choice((multiclass_accuracy, multiclass_confusion_matrix))
    return metric(target.remainder(classes), target, num_classes=classes, validate_args=True)


def _binary_metric(rng: random.Random) -> Tensor:
    target = torch.tensor([0, 1, rng.choice((-1, 2, 3, 255))])
    return rng.choice((binary_accuracy, binary_stat_scores))(torch.zeros(3), target, validate_args=True)


_CORE: dict[str, Operation] = {
    "cross_entropy": _nll,
    "embedding": _embedding,
    "one_hot": _one_hot,
    "gather": partial(_along, "gather"),
    "bce": _bce,
    "picked": partial(_subscript, "picked"),
    "row": partial(_subscript, "row"),
    "categorical": _categorical,
}

_OTHER: dict[str, Operation] = {
    "nll_spatial": _nll_spatial,
    "cross_entropy_weight": partial(_nll, weighted=True),
    "cross_entropy_smoothing": partial(_nll, smoothing=0.1),
    "embedding_bag": _embedding_bag,
    "index_select": partial(_along, "index_select"),
    "scatter": partial(_along, "scatter_"),
    "scatter_add": partial(_along, "scatter_add_"),
    "scatter_reduce": partial(_along, "scatter_reduce_"),
    "index_add": partial(_along, "index_add_"),
    "index_copy": partial(_along, "index_copy_"),
    "index_fill": partial(_along, "index_fill_"),
    "index_reduce": partial(_along, "index_reduce_"),
    "column": partial(_subscript, "column"),
    "negative": partial(_subscript, "negative"),
    "list": partial(_subscript, "list"),
    "index_put": partial(_subscript, "assigned"),
    "take": partial(_flat, "take"),
    "put": partial(_flat, "put"),
    "select": _select,
    "multi_margin": _multi_margin,
    "multilabel_margin": _multilabel_margin,
    "ctc": _ctc,
    "adaptive_log_softmax": _adaptive,
    "bincount": _bincount,
    "padding_idx": _padding,
    "multiclass_metric": _metric,
    "binary_metric": _binary_metric,
}
