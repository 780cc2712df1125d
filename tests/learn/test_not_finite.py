"""A training loss that is NaN or infinite: the run stops, or leaves that step out, in both twins alike."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from interrupted import CONFIG, EACH_STEP, TWINS, checkpoint, content, curves, first_difference
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from processes import start
from project.__main__ import main
from project.errors import UserError
from project.learn.not_finite import LOOK_AFTER, LossWatch
from project.parity.cli import compare_paths
from project.parity.compare import EXACT
from project.ranks.world import ALONE
from tiny_corpus import Corpus, write_corpus

POISONED = """\
import torch


class Poisoned(torch.nn.Module):
    '''Goes wrong over texts of 60 tokens: the logits are infinite, or their gradients are not numbers.'''

    def __init__(self, num_tokens, num_classes, how: str = "loss"):
        super().__init__()
        self.bag = torch.nn.EmbeddingBag(num_tokens, 8, padding_idx=0)
        self.norm = torch.nn.BatchNorm1d(8)
        self.dropout = torch.nn.Dropout(0.1)
        self.out = torch.nn.Linear(8, num_classes)
        self.how = how

    def forward(self, tokens, lengths):
        is_poison = (lengths == 60)[:, None]
        hidden = self.bag(tokens)
        if self.how == "loss":
            hidden = torch.where(is_poison, torch.inf, hidden)
        hidden = self.norm(hidden) if len(hidden) > 1 else hidden
        if self.how == "gradient":
            hidden = hidden + torch.where(is_poison, hidden * 0, 1.0).sqrt()
        return self.out(self.dropout(hidden))
"""
POISON = 17
"""Position of the row of 60 tokens; a blank line before it makes its line 19."""


@pytest.fixture(scope="module", autouse=True)
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("networks")
    (folder / "poisoned.py").write_text(POISONED)
    sys.path.insert(0, str(folder))
    return folder


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    corpus = write_corpus(tmp_path)
    lines = corpus.train.read_text().splitlines()
    lines[POISON] = json.dumps({"text": "cat " * 60, "label": "animal"})
    corpus.train.write_text("\n".join(["", *lines]) + "\n")
    return corpus


def arguments(twin: str, corpus: Corpus, name: str, *more: str) -> list[str]:
    base = ["--config", str(CONFIG), *corpus.arguments, f"--name={name}", "--trainer.accelerator=cpu"]
    small = ["--data.batch_size=7", "--trainer.max_epochs=2", "--model.network=poisoned.Poisoned"]
    return [*TWINS[twin], *base, *small, "--allow=poisoned", *more]


def run_of(corpus: Corpus, name: str) -> Path:
    return corpus.folder / "runs" / name / "version_0"


def poisoned_steps(run: Path, trace: str = "trace.jsonl") -> list[tuple[int, list[int]]]:
    """Optimizer steps, from 1, whose windows hold the row, and the examples of the micro-batch that holds it."""
    records = records_of(run / trace)
    batches = [(r["step"] + 1, r["stages"]["data"]["ids"]) for r in records if r["kind"] == "micro_batch"]
    return [(step, ids) for step, ids in batches if POISON in ids]


def last_evaluation(run: Path) -> int:
    """The optimizer step after which the run validated last; 0 where it has not."""
    steps = [record["step"] for record in records_of(run / "trace.jsonl") if record["kind"] == "evaluation"]
    return max(steps, default=0)


def records_of(trace: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in trace.read_text().splitlines()[1:]]


LOGGED = ["--trainer.log_every_n_steps=1"]
SELDOM = ["--trainer.log_every_n_steps=50"]
SEEN = {
    "when a step is logged": LOGGED,
    "before a checkpoint": [*SELDOM, "--checkpoint.save_every_n_steps=1"],
    "before a validation": [*SELDOM, "--trainer.val_check_interval=2"],
}


@pytest.mark.parametrize("seen", SEEN.values(), ids=SEEN)
def test_stopped(seen: list[str], corpus: Corpus, capsys: pytest.CaptureFixture[str]) -> None:
    """The last good checkpoint stays, and a run that goes on from it, leaving the step out, is the one that did so."""
    more = ["--trainer.accumulate_grad_batches=2", "--trace.level=cheap", *seen]
    for twin in TWINS:
        assert main(arguments(twin, corpus, twin, *more)) == 2
        step, ids = poisoned_steps(run_of(corpus, twin))[0]
        lines = capsys.readouterr().err.strip().splitlines()
        named = ", ".join(map(str, ids[:5]))
        assert len(lines) == 1
        assert lines[0].startswith(
            f"error: optimizer step {step}: the loss is nan with training examples {named} and 2 "
        )
        assert f"train.jsonl, lines {', '.join(str(index + 2) for index in ids[:5])} and 2 more" in lines[0]
        assert last_evaluation(run_of(corpus, twin)) < step
        assert not (run_of(corpus, twin) / "finished.json").exists()
        if seen == LOGGED:  # at once
            assert records_of(run_of(corpus, twin) / "trace.jsonl")[-1]["step"] == step - 1
    if seen == LOGGED:  # nothing was saved before
        assert not list(corpus.folder.rglob("*.ckpt"))
        return
    lit, hand = (content(run_of(corpus, twin)) for twin in TWINS)
    assert first_difference(hand, lit) is None
    assert hand["progress"]["step"] < step
    assert all(tensor.isfinite().all() for tensor in hand["state_dict"].values())
    assert main(arguments("lit", corpus, "skips", *more, "--model.not_finite=skip")) == 0
    for twin in TWINS:
        path = run_of(corpus, twin) / "checkpoints" / "last.ckpt"
        assert main([*TWINS[twin], f"--ckpt_path={path}", "--model.not_finite=skip", "--allow=poisoned"]) == 0
        assert first_difference(content(run_of(corpus, twin)), content(run_of(corpus, "skips"))) is None


KINDS = {
    "every micro-batch a step": [],
    "windows, clipped": ["--trainer.accumulate_grad_batches=3", "--trainer.gradient_clip_val=0.1"],
    "16-mixed": ["--trainer.precision=16-mixed", "--trainer.accumulate_grad_batches=2"],
    "per epoch": ["--model.lr_interval=epoch", "--model.lr_scheduler=StepLR", "--model.lr_scheduler.step_size=1"],
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_left_out(kind: list[str], corpus: Corpus, capsys: pytest.CaptureFixture[str]) -> None:
    for twin in TWINS:
        more = ["--model.not_finite=skip", "--trace.level=full", *LOGGED, *EACH_STEP, *kind]
        assert main(arguments(twin, corpus, twin, *more)) == 0
        found = poisoned_steps(run_of(corpus, twin))
        assert len(found) == 2
        lines = [line for line in capsys.readouterr().out.splitlines() if "is left out" in line]
        for line, (step, ids) in zip(lines, found, strict=True):
            said = f"optimizer step {step} is left out: the loss is nan with training examples {ids[0]}, {ids[1]}"
            assert line.startswith(said)
    lit, hand = (run_of(corpus, twin) for twin in TWINS)
    assert compare_paths(hand, lit, EXACT, alike=True).is_equal
    assert first_difference(content(hand), content(lit)) is None
    assert first_difference(curves(hand), curves(lit)) is None
    for step in (step for step, _ in found if step > 1):
        before, after = (torch.load(checkpoint(hand, number), weights_only=True) for number in (step - 1, step))
        is_epochs_end = after["progress"]["micro_batch"] in (0, after["progress"]["num_micro_batches"])
        same = ("state_dict", "optimizer") if kind == KINDS["per epoch"] and is_epochs_end else MOVED
        assert [first_difference(before[key], after[key]) for key in same] == [None] * len(same)
    steps = [torch.load(checkpoint(hand, step), weights_only=True) for step in range(1, found[0][0])]
    assert kind == KINDS["16-mixed"] or all(
        first_difference(one["state_dict"], other["state_dict"]) for one, other in pairwise(steps)
    )
    assert all(tensor.isfinite().all() for tensor in content(hand)["state_dict"].values())


MOVED = ("state_dict", "optimizer", "lr_scheduler")


def test_ignored(corpus: Corpus) -> None:
    for twin in TWINS:
        assert main(arguments(twin, corpus, twin, "--model.not_finite=ignore", *EACH_STEP)) == 0
        assert content(run_of(corpus, twin))["state_dict"]["out.weight"].isnan().all()


@pytest.mark.parametrize("twin", TWINS)
@pytest.mark.parametrize("policy", ["stop", "skip"])
def test_a_gradient_that_is_no_number_spoils_no_checkpoint(
    twin: str, policy: str, corpus: Corpus, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ["--model.network.how=gradient", f"--model.not_finite={policy}", "--trace.level=cheap", *EACH_STEP, *SELDOM]
    assert main(arguments(twin, corpus, twin, *more)) == 2
    step = poisoned_steps(run_of(corpus, twin))[0][0]
    assert f"error: optimizer step {step}: weights of bag.weight are not finite" in capsys.readouterr().err
    saved = content(run_of(corpus, twin))
    assert saved["progress"]["step"] == step - 1
    assert all(tensor.isfinite().all() for tensor in saved["state_dict"].values())


def test_an_overflow_of_scaled_gradients_is_no_fault(corpus: Corpus) -> None:
    loud = ["--trainer.precision=16-mixed", '--model.class_weights={"animal": 8, "colour": 8, "tool": 8}']
    for twin in TWINS:
        assert main(arguments(twin, corpus, twin, "--model.network=project.network.TextCNN", *loud, *LOGGED)) == 0
        assert content(run_of(corpus, twin))["scaler"]["scale"] < 2.0**16


@pytest.mark.parametrize(
    ("policy", "strategy"),
    [
        ("skip", "ddp_fork"),
        *(
            pytest.param(*case, marks=pytest.mark.long)
            for case in [("stop", "ddp"), ("skip", "fsdp2"), ("stop", "fsdp2")]
        ),
    ],
)
def test_ranks_decide_alike(policy: str, strategy: str, corpus: Corpus, network: Path) -> None:
    """The row is on one rank; both leave the step out, or stop, and one speaks for both."""
    for twin in TWINS:
        more = [f"--model.not_finite={policy}", "--trace.level=full", "--trainer.devices=2", "--data.batch_size=3"]
        more += [f"--trainer.strategy={strategy}"]
        given = arguments(twin, corpus, twin, *more, "--trainer.max_epochs=1")
        ended = start(given, {"PYTHONPATH": str(network)}).ended()
        traces = ("trace.jsonl", "trace.rank1.jsonl")
        [(step, ids)] = [found for trace in traces for found in poisoned_steps(run_of(corpus, twin), trace)]
        said = ended.stdout + ended.stderr
        assert said.count(f"the loss is nan with training examples {', '.join(map(str, ids))} among them") == 1
        assert f"optimizer step {step}" in said
        assert ended.returncode == (2 if policy == "stop" else 0), ended.stderr
    if policy == "skip":
        lit, hand = (run_of(corpus, twin) for twin in TWINS)
        assert compare_paths(hand, lit, EXACT, alike=True).is_equal
        assert all(tensor.isfinite().all() for tensor in content(hand)["state_dict"].values())


class Reads(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts what is computed, and what is read off the device."""

    num_calls = num_reads = 0

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        self.num_calls += func is not torch.ops.aten.detach.default
        self.num_reads += func in (torch.ops.aten._local_scalar_dense.default, torch.ops.aten._to_copy.default)
        return func(*args, **(kwargs or {}))


class Lines:
    """Rows of a file that has one a line."""

    path = Path("train.jsonl")

    def line(self, index: int) -> int:
        return index + 1


def watch(policy: Any, said: list[str] | None = None) -> LossWatch:
    return LossWatch(policy, nn.Linear(2, 2), Lines(), ALONE, [].append if said is None else said.append)  # type: ignore[arg-type]


def test_nothing_is_computed_or_read_until_something_is_read_anyway() -> None:
    stops, loss, ids = watch("stop"), torch.tensor(1.0), torch.arange(3)
    with Reads() as reads:  # type: ignore[no-untyped-call]
        for step in range(1, LOOK_AFTER + 1):
            stops.saw(step, loss, ids)
            assert not stops.leave_out_if_not_finite([])
        stops.logged(1.0)
    assert reads.num_calls == reads.num_reads == 0


def test_many_micro_batches_are_looked_at_before_anything_is_logged() -> None:
    stops = watch("stop")
    for micro_batch in range(LOOK_AFTER):
        stops.saw(1 + micro_batch // 4, torch.tensor(math.inf if micro_batch in (9, 11) else 1.0), torch.arange(8))
    with pytest.raises(UserError, match=r"^optimizer step 3: the loss is inf .* 0, 1, 2, 3, 4 and 11 more among them"):
        stops.saw(65, torch.tensor(1.0), torch.arange(8))


def test_losses_whose_sum_overflows_are_no_fault() -> None:
    stops = watch("stop")
    for _ in range(3):
        stops.saw(1, torch.tensor(3e38), torch.arange(2))
    stops.logged(math.inf)
    stops.before_saving(1)


def test_large_weights_are_no_fault() -> None:
    stops = watch("stop")
    with torch.no_grad():
        stops.network.weight.fill_(3e38)  # type: ignore[operator]
        stops.before_saving(1)
        stops.network.bias.fill_(math.nan)  # type: ignore[operator]
    with pytest.raises(UserError, match=r"optimizer step 7: weights of bias are not finite"):
        stops.before_saving(7)
