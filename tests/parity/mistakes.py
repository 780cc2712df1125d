"""Mistakes that people make in training loops, each planted into the hand-written twin as an edit of its source.

`MISTAKES` is the table: what is wrong, the stage at which `compare` must see the runs part, the edit, and the options
of a run in which it shows. `planted` imports the project with the edits in place, beside the untouched one.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, ModuleType

import project

SOURCE = Path(project.__path__[0])

Edits = Mapping[str, Sequence[tuple[str, str]]]
"""File below src/project: the texts that are replaced in it, each of which must stand there exactly once."""

LOOP = "hand/loop.py"
WINDOWS = ("--trainer.accumulate_grad_batches=3",)
HALF = ("--trainer.precision=16-mixed",)
# Losses eight times as large overflow float16 until the scaler has halved its scale a few times.
OVERFLOW = (*HALF, '--model.class_weights={"animal": 8, "colour": 8, "tool": 8}')
SET_EPOCH = "        loader.batch_sampler.set_epoch(training.epoch)  # type: ignore[union-attr]\n"


@dataclass(frozen=True)
class Mistake:
    """One planted mistake."""

    name: str
    stage: str
    """Where the runs must be seen to part."""
    edits: Edits
    options: tuple[str, ...] = ()
    """Of both runs, beside the tiny corpus and batches of 7."""
    own_options: tuple[str, ...] = field(default=())
    """Of the mistaken run alone."""


UNSCALE = "    training.scaler.unscale_(training.optimizer)\n"
NORMALISE = "    normalise(parameters, training.num_window_examples / training.world.size)"
CLIP = """\
    if training.gradient_clip_val and training.gradient_clip_algorithm == "norm":
        nn.utils.clip_grad_norm_(parameters, training.gradient_clip_val)
    elif training.gradient_clip_val:
        nn.utils.clip_grad_value_(parameters, training.gradient_clip_val)
"""
CLIP_NOW = "    nn.utils.clip_grad_norm_(parameters, training.gradient_clip_val)\n"
ZERO_GRAD = "    training.optimizer.zero_grad(set_to_none=True)\n"
TRAIN = "        training.network.train()\n"
EVAL = """    network.eval()
    confusion"""
FORWARD = "            with training.autocast():\n                logits = training.model(batch.tokens, batch.lengths)"
BACKWARD = "training.scaler.scale(loss).backward()"
LOSS = """\
                loss = summed_loss(
                    logits,
                    labels,
                    label_smoothing=training.recipe.label_smoothing,
                    class_weights=training.class_weights,
                )
"""
LOSS_OUTSIDE = """\
            loss = nn.functional.cross_entropy(
                logits, batch.labels, label_smoothing=training.recipe.label_smoothing, reduction="sum"
            )
"""
HELD = "recipe.advances_per_step and not skipped"
SHARE_BUFFERS = "    world.broadcast_buffers(training.network)\n"
SCORES = "    found = scores(counts.confusion, counts.losses)\n"
BATCH_MEANS = """\
    evaluated = (
        evaluate(training.network, [batch], num_classes, training.device, training.autocast)
        for batch in kept
    )
    parts = [scores(part.confusion, part.losses) for part in evaluated]
    found = scores(counts.confusion, counts.losses)
    for name in ("loss", "accuracy", "macro_f1"):
        object.__setattr__(found, name, sum(getattr(part, name) for part in parts) / len(parts))
"""
BUFFER = 'self.register_buffer("calls", torch.zeros((), dtype=torch.int64))'

MISTAKES = [
    # The optimizer step
    Mistake("clip before unscale", "unscale", {LOOP: [(UNSCALE, CLIP_NOW + UNSCALE), (CLIP, "")]}, HALF),
    Mistake("unscale forgotten, so scaled gradients are clipped", "unscale", {LOOP: [(UNSCALE, "")]}, HALF),
    Mistake("clip before normalising", "normalise", {LOOP: [(NORMALISE, CLIP_NOW + NORMALISE), (CLIP, "")]}, WINDOWS),
    Mistake(
        "divide by N full batches in a short last window",
        "normalise",
        {
            LOOP: [
                (
                    NORMALISE,
                    "    normalise(parameters, training.plan.accumulate_grad_batches * training.plan.batch_size)\n",
                )
            ]
        },
        WINDOWS,
    ),
    Mistake(
        "mean of unequal micro-batch means",
        "backward",
        {
            LOOP: [
                (BACKWARD, "training.scaler.scale(loss / len(batch.labels)).backward()"),
                (NORMALISE, "    normalise(parameters, training.plan.accumulate_grad_batches)\n"),
            ]
        },
        WINDOWS,
    ),
    Mistake(
        "loss divided by N = 41, gradients multiplied by it",
        "backward",
        {
            LOOP: [
                (BACKWARD, "training.scaler.scale(loss / 41).backward()"),
                (NORMALISE, "    normalise(parameters, training.num_window_examples / 41)\n"),
            ]
        },
        ("--trainer.accumulate_grad_batches=41", "--data.batch_size=1"),
    ),
    Mistake("zero_grad forgotten", "backward", {LOOP: [(ZERO_GRAD, "")]}),
    Mistake("zero_grad inside the window", "backward", {LOOP: [(FORWARD, "        " + ZERO_GRAD + FORWARD)]}, WINDOWS),
    Mistake(
        "clip by value instead of norm",
        "clip",
        {LOOP: [(CLIP, "    nn.utils.clip_grad_value_(parameters, training.gradient_clip_val)\n")]},
        ("--trainer.gradient_clip_val=0.1",),
    ),
    Mistake(
        "scale kept after an overflow", "optimizer", {LOOP: [("scaler.update()", "scaler.update(scale)")]}, OVERFLOW
    ),
    Mistake(
        "decay of biases and norms, by the optimizer's default",
        "optimizer",
        {"learn/recipe.py": [(', "weight_decay": 0.0}', "}")]},
    ),
    Mistake("Adam instead of AdamW", "optimizer", {}, own_options=("--model.optimizer=torch.optim.Adam",)),
    Mistake(
        "last window dropped",
        "optimizer",
        {"learn/plan.py": [(" == 0 or self.closes_epoch(micro_batch)", " == 0")]},
        WINDOWS,
    ),
    # Modes, loss, precision
    Mistake(
        "no model.train() after validation", "forward", {LOOP: [(TRAIN, "        if not training.step:\n    " + TRAIN)]}
    ),
    Mistake("no model.eval()", "evaluation", {LOOP: [(EVAL, "    confusion")]}),
    Mistake(
        "softmax before cross_entropy",
        "forward",
        {LOOP: [(LOSS, LOSS.replace("logits,", "logits.softmax(dim=1),"))]},
    ),
    Mistake(
        "autocast around the model only, not the loss",
        "forward",
        {LOOP: [(LOSS, LOSS_OUTSIDE)]},
        ("--trainer.precision=bf16-mixed",),
    ),
    Mistake(
        "label smoothing left out in one twin",
        "forward",
        {LOOP: [("                    label_smoothing=training.recipe.label_smoothing,\n", "")]},
    ),
    Mistake(
        "weights drawn with another seed",
        "forward",
        {"learn/recipe.py": [("manual_seed(self.seed)", "manual_seed(1 + self.seed)")]},
    ),
    Mistake(
        "a plain tensor instead of a buffer",
        "forward",
        {"network/blocks.py": [(BUFFER, "self.calls = torch.zeros((), dtype=torch.int64)")]},
    ),
    Mistake(
        "a buffer not saved",
        "checkpoint",
        {"network/blocks.py": [(BUFFER, BUFFER.replace("int64))", "int64), persistent=False)"))]},
    ),
    # The scheduler
    Mistake(
        "scheduler per micro-batch",
        "scheduler",
        {
            LOOP: [
                (
                    "        training.micro_batch += 1\n",
                    "        else:\n            training.lr_scheduler.step()\n        training.micro_batch += 1\n",
                )
            ]
        },
        WINDOWS,
    ),
    Mistake(
        "scheduler advanced on an overflow step",
        "scheduler",
        {LOOP: [(HELD, "recipe.advances_per_step")]},
        OVERFLOW,
    ),
    Mistake(
        "scheduler per epoch instead of per step",
        "scheduler",
        {LOOP: [(HELD, "recipe.advances_per_step and closes_epoch")]},
    ),
    # Order, randomness
    Mistake("set_epoch forgotten", "data", {"hand/fit.py": [(SET_EPOCH, "")]}),
    Mistake(
        "sampler seeded differently",
        "data",
        {"data/splits.py": [("seed=self.config.seed if", "seed=1 + self.config.seed if")]},
    ),
    Mistake("shuffle off", "data", {"data/splits.py": [("seed=self.config.seed if training else None", "seed=None")]}),
    Mistake("another text length", "data", {}, own_options=("--data.max_tokens=5",)),
    Mistake(
        "validation drawing from the training random stream",
        "rng",
        {
            "data/splits.py": [
                (
                    "generator=torch.Generator().manual_seed(self.config.seed)",
                    "generator=torch.Generator() if training else None",
                )
            ]
        },
    ),
    Mistake(
        "weights drawn from the training random stream",
        "rng",
        {"learn/recipe.py": [("with torch.random.fork_rng(devices=[]):", "if True:")]},
    ),
    # Evaluation
    Mistake(
        "metric averaged over batches rather than examples",
        "evaluation",
        {
            "hand/fit.py": [
                (SCORES, BATCH_MEANS),
                (SHARE_BUFFERS, SHARE_BUFFERS + "    batches = kept = list(batches)\n"),
            ]
        },
    ),
]


@contextmanager
def planted(edits: Edits) -> Iterator[None]:
    """Within, `import project…` gives modules of their own, with the edits; afterwards the untouched ones are back.

    Raises:
        ValueError: where a text does not stand in its file exactly once, so a mistake cannot silently vanish.
    """
    untouched = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "project"}
    finder = _Finder({SOURCE / file: pairs for file, pairs in edits.items()})
    for name in untouched:
        del sys.modules[name]
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if name.partition(".")[0] == "project"]:
            del sys.modules[name]
        sys.modules.update(untouched)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the edited modules; all others are found as ever."""

    def __init__(self, edits: Mapping[Path, Sequence[tuple[str, str]]]) -> None:
        self.edits = edits

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        file = SOURCE.parent / (fullname.replace(".", "/") + ".py")
        if file not in self.edits:
            return None
        return importlib.util.spec_from_file_location(fullname, file, loader=_Loader(fullname, file, self.edits[file]))


class _Loader(importlib.machinery.SourceFileLoader):
    """Compiles the edited source, past any cached bytecode."""

    def __init__(self, fullname: str, path: Path, edits: Sequence[tuple[str, str]]) -> None:
        super().__init__(fullname, str(path))
        self.edits = edits

    def get_code(self, fullname: str) -> CodeType:
        source = Path(self.path).read_text(encoding="utf-8")
        for old, new in self.edits:
            if source.count(old) != 1:
                raise ValueError(f"{self.path}: stands there {source.count(old)} times, not once: {old!r}")
            source = source.replace(old, new)
        return compile(source, self.path, "exec", dont_inherit=True)
