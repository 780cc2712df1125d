"""The trace of LightningModules that know nothing of this project: what is seen, and that training keeps its bits."""

from __future__ import annotations

import functools
import itertools
import json
import signal
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightning as L
import pytest
import torch
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.plugins.precision import MixedPrecision
from torch import Tensor, nn
from torch.utils.data import DataLoader

from project.errors import UserError
from project.lit.trace import TraceCallback
from project.trace.tracer import digest

NUM_BATCHES = 5
Batches = DataLoader[Any]


class Regression(L.LightningModule):
    """A network with dropout, a mean loss, no scheduler."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.model = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.2), nn.Linear(4, 1))

    def loss(self, batch: Any) -> Tensor:
        x, y = batch
        return nn.functional.mse_loss(self.model(x), y)

    def configure_optimizers(self) -> Any:
        return torch.optim.AdamW(self.parameters(), lr=0.1)


class Stranger(Regression):
    """As people write it; that there is a `batch_idx` they need not know."""

    def training_step(self, batch: Any) -> Any:
        return self.loss(batch)


class DictOutput(Regression):
    def training_step(self, batch: Any, batch_idx: int) -> Any:
        return {"loss": self.loss(batch), "batch_idx": batch_idx}


class DictBatch(Regression):
    def training_step(self, batch: Any) -> Any:
        return self.loss((batch["x"], batch["y"]))


class DataclassBatch(Regression):
    def training_step(self, batch: Any) -> Any:
        return self.loss((batch.x, batch.y))


def logged(step: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator as a stranger may have one; Lightning looks through it to learn what the step takes."""

    @functools.wraps(step)
    def call(*args: Any) -> Any:
        return step(*args)

    return call


class Decorated(Regression):
    @logged
    def training_step(self, batch: Any) -> Any:
        return self.loss(batch)


class TwoGroups(Stranger):
    """And a scheduler that advances with each step."""

    def configure_optimizers(self) -> Any:
        groups: Any = [{"params": self.model[0].parameters(), "lr": 0.5}, {"params": self.model[2].parameters()}]
        optimizer = torch.optim.SGD(groups, lr=0.25, momentum=0.9)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}


class ClipsItself(Stranger):
    def configure_gradient_clipping(self, optimizer: Any, **_: Any) -> None:  # type: ignore[override]
        nn.utils.clip_grad_value_(self.parameters(), 0.01)


class DividesItself(Stranger):
    def on_before_optimizer_step(self, optimizer: Any) -> None:
        for parameter in self.parameters():
            if parameter.grad is not None:
                parameter.grad.div_(8)


class SkipsABatch(Regression):
    def training_step(self, batch: Any, batch_idx: int) -> Any:
        return None if batch_idx == 2 else self.loss(batch)


class ByHand(Regression):
    """Manual optimization: windows of two, and a last one that is short."""

    automatic_optimization = False

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        optimizer: Any = self.optimizers()
        loss = self.loss(batch)
        self.manual_backward(loss / 2)
        if batch_idx % 2 or batch_idx == NUM_BATCHES - 1:
            self.clip_gradients(optimizer, gradient_clip_val=0.1, gradient_clip_algorithm="norm")
            optimizer.step()
            optimizer.zero_grad()
        return loss


class BackwardByHand(Regression):
    """Manual optimization that goes around Lightning's backward, and steps twice."""

    automatic_optimization = False

    def training_step(self, batch: Any, batch_idx: int) -> None:
        optimizer: Any = self.optimizers()
        optimizer.zero_grad()
        torch.autograd.backward(self.loss(batch))
        optimizer.step()
        optimizer.step()


class Adversaries(Regression):
    """Two optimizers, each with a step in every batch."""

    automatic_optimization = False

    def training_step(self, batch: Any, batch_idx: int) -> None:
        for optimizer, sign in zip(self.optimizers(), (1, -0.01), strict=True):
            optimizer.zero_grad()
            self.manual_backward(sign * self.loss(batch))
            optimizer.step()

    def configure_optimizers(self) -> Any:
        return [torch.optim.SGD(self.model[0].parameters(), 0.5), torch.optim.Adam(self.model[2].parameters(), 0.25)]


class Searches(Stranger):
    """LBFGS evaluates the loss several times in a step."""

    def configure_optimizers(self) -> Any:
        return torch.optim.LBFGS(self.parameters(), max_iter=3)


class NoOptimizer(Stranger):
    def configure_optimizers(self) -> None:
        return None


@dataclass
class Pair:
    x: Tensor
    y: Tensor


def batches(num: int = NUM_BATCHES, pack: Callable[[Tensor, Tensor], Any] = lambda x, y: (x, y)) -> Batches:
    draw = torch.Generator().manual_seed(6)
    found: Any = [pack(torch.randn(4, 3, generator=draw), torch.randn(4, 1, generator=draw)) for _ in range(num)]
    return DataLoader(found, batch_size=None)


def numbered() -> Batches:
    count = iter(range(100))
    return batches(pack=lambda x, y: {"y": y, "x": x, "index": torch.arange(4) + 4 * next(count)})


def overflowing() -> dict[str, Any]:
    """fp16 whose first scale is too large, so that the first steps are skipped."""
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**18, growth_interval=100)
    return {"plugins": [MixedPrecision("16-mixed", device="cpu", scaler=scaler)]}


def fit(module: L.LightningModule, loader: Batches, *callbacks: L.Callback, **settings: Any) -> L.Trainer:
    merged: dict[str, Any] = {
        "max_epochs": 2,
        "accelerator": "cpu",
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "num_sanity_val_steps": 0,
    }
    val_loader = settings.pop("val_loader", None)
    trainer = L.Trainer(**(merged | settings), callbacks=list(callbacks))
    trainer.fit(module, loader, val_loader)
    return trainer


def records_of(path: Path) -> list[dict[str, Any]]:
    header, *records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert header["kind"] == "trace"
    return records


def traced(
    module: L.LightningModule, folder: Path, loader: Batches | None = None, **settings: Any
) -> list[dict[str, Any]]:
    """The records of one epoch."""
    path = folder / "trace.jsonl"
    fit(module, loader or batches(), TraceCallback(path, "model"), **{"max_epochs": 1, **settings})
    return records_of(path)


def stages(records: list[dict[str, Any]], kind: str, stage: str) -> Iterator[dict[str, Any]]:
    """What each record of a kind has in one stage; a record without that stage is an error."""
    return (record["stages"][stage] for record in records if record["kind"] == kind)


def kinds(records: list[dict[str, Any]]) -> str:
    """One letter a record: m for a micro-batch, s for a step."""
    return "".join(record["kind"][0] for record in records)


STRANGERS: dict[str, tuple[type[Regression], Callable[[], Batches], Callable[[], Mapping[str, Any]]]] = {
    "plain": (Stranger, batches, dict),
    "dict output": (DictOutput, batches, lambda: {"accumulate_grad_batches": 3}),
    "dict batch": (DictBatch, numbered, dict),
    "dataclass batch": (DataclassBatch, lambda: batches(pack=Pair), dict),
    "decorated": (Decorated, batches, dict),
    "two groups": (TwoGroups, batches, dict),
    "clipping by Trainer": (Stranger, batches, lambda: {"gradient_clip_val": 0.1}),
    "clipping by the module": (ClipsItself, batches, dict),
    "division by the module": (DividesItself, batches, lambda: {"gradient_clip_val": 0.01}),
    "a skipped batch": (SkipsABatch, batches, dict),
    "bf16-mixed": (Stranger, batches, lambda: {"precision": "bf16-mixed"}),
    "16-mixed": (Stranger, batches, overflowing),
    "manual": (ByHand, batches, dict),
    "manual, own backward": (BackwardByHand, batches, dict),
    "two optimizers": (Adversaries, batches, dict),
    "LBFGS": (Searches, batches, dict),
    "no optimizer": (NoOptimizer, batches, dict),
}

ignore_lightnings_remarks = pytest.mark.filterwarnings(
    "ignore:`training_step` returned `None`",
    "ignore:.*configure_optimizers` returned `None`",
)


@ignore_lightnings_remarks
@pytest.mark.parametrize("name", STRANGERS)
def test_looking_changes_no_bit(name: str, tmp_path: Path) -> None:
    make, loader, settings = STRANGERS[name]
    outcomes: list[dict[str, Tensor]] = []
    for level in (None, "cheap", "full"):
        module = make()
        start = {name: value.clone() for name, value in module.state_dict().items()}
        callbacks = [] if level is None else [TraceCallback(tmp_path / f"{level}.jsonl", "model", level=level)]
        torch.manual_seed(7)
        trainer = fit(module, loader(), *callbacks, **settings())
        assert vars(module).keys().isdisjoint({"training_step", "configure_gradient_clipping"})
        states = [state for optimizer in trainer.optimizers for state in optimizer.state.values()]
        moments = {f"moment {n}": state["exp_avg"] for n, state in enumerate(states) if "exp_avg" in state}
        outcomes.append({**module.state_dict(), **moments, "random state": torch.get_rng_state()})
    without, *others = outcomes
    for other in others:
        assert without.keys() == other.keys()
        assert all(torch.equal(without[key], other[key]) for key in without)
    trained = any(not torch.equal(start[key], without[key]) for key in start)
    assert trained == (make is not NoOptimizer)
    assert kinds(records_of(tmp_path / "cheap.jsonl")) == kinds(records_of(tmp_path / "full.jsonl"))


# What is seen.


def test_every_stage_of_a_plain_module(tmp_path: Path) -> None:
    records = traced(Stranger(), tmp_path, accumulate_grad_batches=3)
    assert kinds(records) == "mmmsmms"
    assert [(record["epoch"], record.get("micro_batch"), record["step"]) for record in records] == [
        (0, 0, 0),
        (0, 1, 0),
        (0, 2, 0),
        (0, None, 0),
        (0, 3, 1),
        (0, 4, 1),
        (0, None, 1),
    ]
    for record in records:
        expected = {
            "micro_batch": {"data", "rng", "forward", "backward", "scheduler"},
            "step": {"unscale", "normalise", "clip", "optimizer", "scheduler"},
        }
        assert record["stages"].keys() == expected[record["kind"]]
    x, y = next(iter(batches()))
    assert {name: found for name, (found, _) in records[0]["stages"]["data"]["inputs"].items()} == {
        "0": digest(x),
        "1": digest(y),
    }
    names = {"0.weight", "0.bias", "2.weight", "2.bias"}
    assert records[0]["stages"]["backward"]["gradients"].keys() == names
    assert {found["num_examples"] for found in stages(records, "micro_batch", "forward")} == {4}


def test_losses_and_gradients_are_exact(tmp_path: Path) -> None:
    """A window of three and a short one of two, written out: Lightning divides each loss by three, later."""
    torch.manual_seed(7)
    module = Stranger()
    records = traced(module, tmp_path, accumulate_grad_batches=3, gradient_clip_val=0.5)
    other = Stranger()
    optimizer = other.configure_optimizers()
    losses, backward, clip = [], [], []
    for number, batch in enumerate(batches()):
        loss = other.training_step(batch)
        (loss / 3).backward()
        losses.append(loss.item().hex())
        backward.append(digest_of_gradients(other))
        if number in (2, 4):
            nn.utils.clip_grad_norm_(other.parameters(), 0.5)
            clip.append(digest_of_gradients(other))
            optimizer.step()
            optimizer.zero_grad()
    assert [found["loss"] for found in stages(records, "micro_batch", "forward")] == losses
    assert [digests(found) for found in stages(records, "micro_batch", "backward")] == backward
    assert [digests(found) for found in stages(records, "step", "normalise")] == [backward[2], backward[4]]
    assert [digests(found) for found in stages(records, "step", "clip")] == clip
    assert clip[0] != backward[2]
    *_, last = stages(records, "step", "optimizer")
    assert {name: found for name, (found, _) in last["parameters"].items()} == {
        name: digest(parameter) for name, parameter in other.model.named_parameters()
    }


def digests(quantities: dict[str, Any]) -> dict[str, str]:
    return {name: found for name, (found, _) in quantities["gradients"].items()}


def digest_of_gradients(module: Regression) -> dict[str, str]:
    return {name: digest(p.grad) for name, p in module.model.named_parameters() if p.grad is not None}


def norms(records: list[dict[str, Any]], stage: str) -> list[float]:
    return [float.fromhex(found["norm"]) for found in stages(records, "step", stage)]


def test_division_in_the_modules_own_hook_is_normalise(tmp_path: Path) -> None:
    records = traced(DividesItself(), tmp_path, gradient_clip_val=0.01)
    assert norms(records, "normalise") == [value / 8 for value in norms(records, "unscale")]
    assert norms(records, "clip") == pytest.approx([0.01] * NUM_BATCHES, rel=1e-3)
    assert min(norms(records, "normalise")) > 0.02


def test_clipping_by_the_module_is_clip(tmp_path: Path) -> None:
    records = traced(ClipsItself(), tmp_path)
    assert norms(records, "normalise") == norms(records, "unscale")
    assert min(norms(records, "normalise")) > 0.1 > max(norms(records, "clip"))


def test_two_groups_have_two_learning_rates(tmp_path: Path) -> None:
    records = traced(TwoGroups(), tmp_path)
    rates = [
        [float.fromhex(rate) for rate in found["learning_rates"]] for found in stages(records, "step", "scheduler")
    ]
    assert rates == [[0.5 / 2**n, 0.25 / 2**n] for n in range(1, NUM_BATCHES + 1)]


def test_ids_and_inputs_of_dicts_and_dataclasses(tmp_path: Path) -> None:
    records = traced(DictBatch(), tmp_path, numbered())
    assert [found["ids"] for found in stages(records, "micro_batch", "data")][1] == [4, 5, 6, 7]
    in_dict = next(stages(records, "micro_batch", "data"))["inputs"]
    in_dataclass = next(stages(traced(DataclassBatch(), tmp_path, batches(pack=Pair)), "micro_batch", "data"))["inputs"]
    assert (in_dict["0"], in_dict["1"]) == (in_dataclass["1"], in_dataclass["0"])


def test_the_loss_of_a_dict(tmp_path: Path) -> None:
    outputs = []
    for make in (Stranger, DictOutput):
        torch.manual_seed(7)
        outputs.append(list(stages(traced(make(), tmp_path), "micro_batch", "forward")))
    assert outputs[0] == outputs[1]


def test_a_dict_without_a_loss_is_lightnings_affair(tmp_path: Path) -> None:
    class Forgets(Regression):
        def training_step(self, batch: Any) -> Any:
            return {"los": self.loss(batch)}

    with pytest.raises(MisconfigurationException, match="'loss' key needs to be present"):
        traced(Forgets(), tmp_path)


def test_ids_by_a_strangers_own_rule(tmp_path: Path) -> None:
    def ids(batch: Any) -> Any:
        return [f"row {float(batch[1][0]):.2f}"]

    fit(Stranger(), batches(1), TraceCallback(tmp_path / "a.jsonl", ids=ids), max_epochs=1)
    first, *_ = records_of(tmp_path / "a.jsonl")
    _, y = next(iter(batches(1)))
    assert first["stages"]["data"]["ids"] == [f"row {float(y[0]):.2f}"]
    assert "model.0.weight" in first["stages"]["backward"]["gradients"]  # the whole module, under its own names


def test_a_skipped_step_is_marked(tmp_path: Path) -> None:
    """fp16: gradients are seen scaled after backward and unscaled before the step."""
    records = traced(Stranger(), tmp_path, batches(10), **overflowing())
    optimizer = list(stages(records, "step", "optimizer"))
    skipped = [found["skipped"] for found in optimizer]
    assert skipped[0]
    assert not skipped[-1]
    scales = [2.0**18, *(float.fromhex(found["scale"]) for found in optimizer)]
    assert all(
        (after < before) == skip for (before, after), skip in zip(itertools.pairwise(scales), skipped, strict=True)
    )
    backward = [float.fromhex(found["norm"]) for found in stages(records, "micro_batch", "backward")]
    assert backward[-1] == pytest.approx(norms(records, "unscale")[-1] * scales[-2], rel=1e-3)


@ignore_lightnings_remarks
def test_a_batch_without_a_loss_has_no_forward(tmp_path: Path) -> None:
    records = traced(SkipsABatch(), tmp_path)
    assert kinds(records) == "ms" * NUM_BATCHES
    assert ["forward" in record["stages"] for record in records if record["kind"] == "micro_batch"] == [
        number != 2 for number in range(NUM_BATCHES)
    ]


def test_bf16_losses_keep_their_bits(tmp_path: Path) -> None:
    full = [float.fromhex(found["loss"]) for found in stages(traced(Stranger(), tmp_path), "micro_batch", "forward")]
    mixed = traced(Stranger(), tmp_path, precision="bf16-mixed")
    assert [float.fromhex(found["loss"]) for found in stages(mixed, "micro_batch", "forward")] != full


# Other ways to optimize.


def test_manual_optimization(tmp_path: Path) -> None:
    records = traced(ByHand(), tmp_path)
    assert kinds(records) == "mmsmmsms"
    assert all(
        {"forward", "backward"} <= record["stages"].keys() for record in records if record["kind"] == "micro_batch"
    )
    for record in records:
        if record["kind"] == "step":  # the module has clipped by then, and nobody else will
            assert record["stages"].keys() == {"unscale", "optimizer", "scheduler"}
    assert norms(records, "unscale") == pytest.approx([0.1] * 3, rel=1e-3)


def test_manual_optimization_with_its_own_backward(tmp_path: Path) -> None:
    records = traced(BackwardByHand(), tmp_path)
    assert kinds(records) == "mss" * NUM_BATCHES
    assert all("optimizer" in record["stages"] for record in records if record["kind"] == "step")
    assert records[0]["stages"].keys() == {"data", "rng", "scheduler"}
    assert min(norms(records, "unscale")) > 0


def test_several_optimizers(tmp_path: Path) -> None:
    """Each step has a micro-batch before it, and both optimizers' states and rates are looked at together."""
    records = traced(Adversaries(), tmp_path)
    assert kinds(records) == "msms" * NUM_BATCHES
    assert [record["step"] for record in records] == [n for n in range(2 * NUM_BATCHES) for _ in "ms"]
    losses = [float.fromhex(found["loss"]) for found in stages(records, "micro_batch", "forward")]
    assert [loss > 0 for loss in losses] == [True, False] * NUM_BATCHES
    *_, last = records
    assert last["stages"]["scheduler"]["learning_rates"] == [(0.5).hex(), (0.25).hex()]
    parameters = [found["parameters"] for found in stages(records, "step", "optimizer")]
    changed = [{name for name in one if one[name] != other[name]} for one, other in itertools.pairwise(parameters)]
    assert changed[0] == {"2.weight", "2.bias"}
    assert changed[1] == {"0.weight", "0.bias"}


def test_a_closure_that_is_evaluated_again(tmp_path: Path) -> None:
    records = traced(Searches(), tmp_path, batches(1))
    assert kinds(records) == "msmsms"
    assert {record["micro_batch"] for record in records if record["kind"] == "micro_batch"} == {0}


@ignore_lightnings_remarks
def test_no_optimizer(tmp_path: Path) -> None:
    records = traced(NoOptimizer(), tmp_path)
    assert records[0]["stages"]["scheduler"] == {"learning_rates": []}


# Validation and checkpoints.


class Validates(Regression):
    """Metrics of any name, and one of training that looks like a validation's."""

    def training_step(self, batch: Any) -> Any:
        loss = self.loss(batch)
        self.log("interval", loss)
        return loss

    def validation_step(self, batch: Any) -> None:
        self.log("dev_error", self.loss(batch), batch_size=4)
        self.log("constant", 0.5, batch_size=4)


def test_metrics_are_those_that_validation_logged(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"val_loader": batches(2), "max_epochs": 3, "val_check_interval": 1.0}
    records = traced(Validates(), tmp_path, num_sanity_val_steps=2, **settings)
    assert kinds(records) == ("ms" * NUM_BATCHES + "e") * 3  # none for the sanity check
    evaluations = [record for record in records if record["kind"] == "evaluation"]
    assert [(record["epoch"], record["step"]) for record in evaluations] == [(0, 5), (1, 10), (2, 15)]
    for found in stages(evaluations, "evaluation", "evaluation"):
        assert found.keys() == {"dev_error", "constant"}
        assert found["constant"] == (0.5).hex()
    errors = [found["dev_error"] for found in stages(evaluations, "evaluation", "evaluation")]
    assert len(set(errors)) == 3


def test_checkpoints_have_the_networks_own_names(tmp_path: Path) -> None:
    keeper = L.pytorch.callbacks.ModelCheckpoint(tmp_path / "checkpoints", save_top_k=-1, every_n_epochs=1)
    module = Stranger()
    fit(module, batches(), keeper, TraceCallback(tmp_path / "a.jsonl", "model"), enable_checkpointing=True)
    records = [record for record in records_of(tmp_path / "a.jsonl") if record["kind"] == "checkpoint"]
    assert [record["step"] for record in records] == [5, 10]
    assert {name: found for name, (found, _) in records[-1]["stages"]["checkpoint"]["state_dict"].items()} == {
        name: digest(value) for name, value in module.model.state_dict().items()
    }


# Beginnings and ends.


def test_a_second_fit_is_traced_once(tmp_path: Path) -> None:
    """The same callback and the same module: nothing of the first fit may still look."""
    callback, module = TraceCallback(tmp_path / "a.jsonl", "model"), ClipsItself()
    fit(module, batches(), callback)
    first = records_of(tmp_path / "a.jsonl")
    looks: list[str] = []
    fit(module, batches(), callback, Counts(callback, looks))
    assert kinds(records_of(tmp_path / "a.jsonl")) == kinds(first)
    assert looks.count("forward") == looks.count("clip") == 2 * NUM_BATCHES


class Counts(L.Callback):
    """Counts the calls that the trace of a callback gets."""

    def __init__(self, callback: TraceCallback, looks: list[str]) -> None:
        self.callback, self.looks = callback, looks

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        trace = self.callback.trace
        forward, gradients = trace.forward, trace.gradients

        def count_forward(loss: Tensor, num_examples: int) -> None:
            self.looks.append("forward")
            forward(loss, num_examples)

        def count_gradients(stage: str, **counts: float) -> None:
            self.looks.append(stage)
            gradients(stage, **counts)

        trace.forward, trace.gradients = count_forward, count_gradients  # type: ignore[method-assign]


def test_a_method_of_the_instance_is_put_back(tmp_path: Path) -> None:
    """As of a module that was compiled: its step is an attribute of the instance."""
    module = Stranger()
    own = functools.partial(Stranger.training_step, module)
    module.training_step = own  # type: ignore[method-assign]
    fit(module, batches(), TraceCallback(tmp_path / "a.jsonl"))
    assert vars(module)["training_step"] is own


@pytest.mark.parametrize(
    ("raised", "expected"), [(ZeroDivisionError, ZeroDivisionError), (KeyboardInterrupt, SystemExit)]
)
def test_an_exception_in_training(raised: type[BaseException], expected: type[BaseException], tmp_path: Path) -> None:
    class Fails(Regression):
        def training_step(self, batch: Any, batch_idx: int) -> Any:
            if batch_idx == 3:
                raise raised
            return self.loss(batch)

    module, interrupted = Fails(), signal.getsignal(signal.SIGINT)
    with pytest.raises(expected):
        fit(module, batches(), TraceCallback(tmp_path / "a.jsonl", "model"))
    signal.signal(signal.SIGINT, interrupted)  # Lightning ignores it from now on
    assert kinds(records_of(tmp_path / "a.jsonl")) == "msmsmsm"
    assert vars(module).keys().isdisjoint({"training_step", "configure_gradient_clipping"})


def test_a_part_that_is_not_there(tmp_path: Path) -> None:
    module = Stranger()
    with pytest.raises(UserError, match=r"^TraceCallback: Stranger has no module network; there are: model$"):
        fit(module, batches(), TraceCallback(tmp_path / "a.jsonl", "network"))
    assert not list(tmp_path.iterdir())


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # Python 3.12, where a process has threads
def test_each_process_has_a_trace(tmp_path: Path) -> None:
    """Under DDP the window's gradients are reduced by the end of its last backward, which is one stage with it."""
    first = traced(Stranger(), tmp_path, strategy="ddp_fork", devices=2, accumulate_grad_batches=2)
    second = records_of(tmp_path / "trace.rank1.jsonl")
    assert kinds(first) == kinds(second) == "mmsms"
    for one, other, is_reduced in zip(first, second, (False, True, True, True, True), strict=True):
        if one["kind"] == "micro_batch":
            assert one["stages"]["data"] != other["stages"]["data"]
            assert (one["stages"]["backward"] == other["stages"]["backward"]) == is_reduced
        else:
            assert one == other
