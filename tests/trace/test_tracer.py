"""The trace: what stands in each record, bit for bit, and that looking changes nothing."""

from __future__ import annotations

import json
import math
import random
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from torch import Tensor, nn

from project.errors import UserError
from project.trace.stages import STAGES
from project.trace.tracer import FLUSH_AFTER, OFF, Level, Tracer, digest, norm, random_digests


def lines(path: Path) -> list[dict[str, Any]]:
    """Header and records; each line must be whole."""
    content = path.read_text(encoding="utf-8")
    assert content.endswith("\n")
    return [json.loads(line) for line in content.splitlines()]


def network() -> nn.Module:
    """With a buffer, dropout, and a parameter that never has a gradient."""
    torch.manual_seed(3)
    layers = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Dropout(0.3), nn.Linear(6, 1))
    layers.register_parameter("unused", nn.Parameter(torch.ones(2)))
    return layers


def batches(num: int = 6) -> list[tuple[Tensor, Tensor]]:
    draw = torch.Generator().manual_seed(4)
    return [(torch.randn(8, 4, generator=draw), torch.randn(8, 1, generator=draw)) for _ in range(num)]


def train(path: Path | None, level: Level = "full", *, tensors_at: int | None = None) -> tuple[nn.Module, Any]:
    """Six micro-batches in windows of two; returns network and optimizer."""
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    with Tracer(path, model, optimizer, level=level, source="a test", tensors_at=tensors_at) as trace:
        step = 0
        for number, (x, y) in enumerate(batches()):
            trace.micro_batch(0, number, step, ids=torch.arange(8) + 8 * number, inputs=(x, y, "a name"))
            loss = (model(x) - y).square().sum()
            trace.forward(loss, len(x))
            loss.backward()
            trace.gradients("backward")
            if number % 2:
                trace.optimizer_step(0, step)
                for parameter in model.parameters():
                    if parameter.grad is not None:
                        parameter.grad.div_(16)
                trace.gradients("normalise", num_examples=16)
                optimizer.step()
                trace.optimizer_stepped(scale=2.0)
                optimizer.zero_grad()
                scheduler.step()
                trace.scheduler_stepped()
                step += 1
        trace.evaluation(0, step, {"b": 0.1, "a": math.nan})
        trace.checkpoint(step, model.state_dict())
    return model, optimizer


def float32(hexadecimal: str) -> bytes:
    return struct.pack("<f", float.fromhex(hexadecimal))


def bits(tensor: Tensor) -> bytes:
    return bytes(tensor.detach().contiguous().numpy().tobytes())


# What is written.


def test_header(tmp_path: Path) -> None:
    train(tmp_path / "new" / "folder" / "a.jsonl")
    assert lines(tmp_path / "new" / "folder" / "a.jsonl")[0] == {
        "kind": "trace",
        "format": 1,
        "level": "full",
        "source": "a test",
        "torch": str(torch.__version__),
        "device": "cpu",
    }


def test_records_of_the_full_level(tmp_path: Path) -> None:
    model, optimizer = train(tmp_path / "a.jsonl")
    _, *records = lines(tmp_path / "a.jsonl")
    assert [record["kind"] for record in records] == 3 * ["micro_batch", "micro_batch", "step"] + [
        "evaluation",
        "checkpoint",
    ]
    first, second, step, *_, evaluation, checkpoint = records

    assert {key: second[key] for key in second if key != "stages"} == {
        "kind": "micro_batch",
        "epoch": 0,
        "micro_batch": 1,
        "step": 0,
    }
    assert set(second["stages"]) == {"data", "rng", "forward", "backward", "scheduler"}
    assert second["stages"]["data"]["ids"] == list(range(8, 16))
    x, y = batches()[0]
    assert first["stages"]["data"]["inputs"] == {
        "0": [digest(x), float(norm(x)).hex()],
        "1": [digest(y), float(norm(y)).hex()],
    }
    assert set(first["stages"]["rng"]) >= {"python", "numpy", "torch"}
    assert first["stages"]["rng"] != second["stages"]["rng"]  # dropout drew
    assert first["stages"]["forward"]["num_examples"] == 8
    assert set(first["stages"]["forward"]["buffers"]) == {"1.running_mean", "1.running_var", "1.num_batches_tracked"}
    names = {name for name, _ in model.named_parameters()} - {"unused"}
    assert set(first["stages"]["backward"]["gradients"]) == names
    assert first["stages"]["scheduler"] == {"learning_rates": [(0.1).hex()]}

    assert {key: step[key] for key in step if key != "stages"} == {"kind": "step", "epoch": 0, "step": 0}
    assert set(step["stages"]) == {"normalise", "optimizer", "scheduler"}
    assert step["stages"]["normalise"]["num_examples"] == 16
    assert step["stages"]["optimizer"]["skipped"] is False
    assert step["stages"]["optimizer"]["scale"] == "0x1.0000000000000p+1"
    assert step["stages"]["scheduler"] == {"learning_rates": [(0.05).hex()]}
    last = records[-3]["stages"]["optimizer"]
    assert last["parameters"] == {name: [digest(p), float(norm(p)).hex()] for name, p in model.named_parameters()}
    moment = optimizer.state[model.get_parameter("3.weight")]["exp_avg"]
    assert last["state"]["3.weight.exp_avg"] == [digest(moment), float(norm(moment)).hex()]
    assert set(last["state"]) == {f"{name}.{entry}" for name in names for entry in ("step", "exp_avg", "exp_avg_sq")}

    assert evaluation == {
        "kind": "evaluation",
        "epoch": 0,
        "step": 3,
        "stages": {"evaluation": {"a": "nan", "b": (0.1).hex()}},
    }
    assert (checkpoint["kind"], checkpoint["step"]) == ("checkpoint", 3)
    assert checkpoint["stages"]["checkpoint"]["state_dict"] == {
        name: [digest(value), float(norm(value)).hex()] for name, value in model.state_dict().items()
    }
    assert {stage for record in records for stage in record["stages"]} <= set(STAGES)


def test_losses_and_norms_are_exact(tmp_path: Path) -> None:
    """A loss whose decimal form would lose bits, and gradients before and after the division."""
    train(tmp_path / "a.jsonl")
    _, first, second, step, *_ = lines(tmp_path / "a.jsonl")
    model = network()
    (x, y), (u, v) = batches()[:2]
    loss = (model(x) - y).square().sum()
    assert float32(first["stages"]["forward"]["loss"]) == bits(loss)
    loss.backward()
    (model(u) - v).square().sum().backward()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    assert float32(second["stages"]["backward"]["norm"]) == bits(nn.utils.get_total_norm(gradients))
    assert second["stages"]["backward"]["gradients"]["0.weight"][0] == digest(gradients[0])
    for gradient in gradients:
        gradient.div_(16)
    assert float32(step["stages"]["normalise"]["norm"]) == bits(nn.utils.get_total_norm(gradients))
    assert step["stages"]["normalise"]["gradients"]["0.weight"][0] == digest(gradients[0])


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (torch.tensor(1 / 3), "0x1.5555560000000p-2"),
        (torch.tensor(1 / 3, dtype=torch.float64), "0x1.5555555555555p-2"),
        (torch.tensor(1 / 3, dtype=torch.bfloat16), "0x1.5600000000000p-2"),
        (torch.tensor(-0.0), "-0x0.0p+0"),
        (torch.tensor(2.0**-149), (2.0**-149).hex()),
        (torch.tensor(math.inf), "inf"),
        (torch.tensor(-math.inf), "-inf"),
        (torch.tensor(math.nan), "nan"),
    ],
)
def test_a_loss_in_hexadecimal(value: Tensor, written: str, tmp_path: Path) -> None:
    with Tracer(tmp_path / "a.jsonl", level="cheap") as trace:
        trace.micro_batch(0, 0, 0)
        trace.forward(value, 1)
    assert lines(tmp_path / "a.jsonl")[1]["stages"]["forward"]["loss"] == written


@pytest.mark.parametrize("ids", [torch.tensor([5, 7]), numpy.array([5, 7]), [5, 7], (5, 7), [numpy.int64(5), 7]])
def test_ids_of_any_kind(ids: Any, tmp_path: Path) -> None:
    with Tracer(tmp_path / "a.jsonl", level="cheap") as trace:
        trace.micro_batch(0, 0, 0, ids=ids)
        trace.micro_batch(0, 1, 0, ids=["a", "b"])
        trace.micro_batch(0, 2, 0)
    data = [record["stages"].get("data") for record in lines(tmp_path / "a.jsonl")[1:]]
    assert data == [{"ids": [5, 7]}, {"ids": ["a", "b"]}, None]


def test_a_digest_stands_for_every_bit() -> None:
    """Dtype, shape, the sign of zero and the payload of a NaN; not for how the tensor lies in memory."""
    quiet, other = (torch.tensor([pattern], dtype=torch.int32).view(torch.float32) for pattern in (2143289344, -1))
    assert quiet.isnan()
    assert other.isnan()
    tensors = [
        torch.zeros(4),
        -torch.zeros(4),
        torch.zeros(2, 2),
        torch.zeros(4, 1),
        torch.zeros(4, dtype=torch.int32),
        torch.zeros(8, dtype=torch.bfloat16),
        torch.zeros(8, dtype=torch.float16),
        torch.zeros(0),
        torch.zeros(0, 3),
        torch.tensor(0.0),
        torch.tensor(False),
        quiet,
        other,
        torch.tensor([1.0, 2.0]),
        torch.tensor([2.0, 1.0]),
    ]
    digests = [digest(tensor) for tensor in tensors]
    assert len(set(digests)) == len(tensors)
    assert all(len(found) == 16 and int(found, 16) >= 0 for found in digests)
    rows = torch.arange(6.0).view(2, 3)
    assert digest(rows.t()) == digest(rows.t().contiguous()) != digest(rows.view(3, 2))
    assert digest(nn.Parameter(rows)) == digest(rows)


def test_norms_of_any_dtype() -> None:
    assert norm(torch.tensor([3.0, 4.0], dtype=torch.float16)).dtype == torch.float32
    assert norm(torch.tensor([3.0, 4.0], dtype=torch.float64)).dtype == torch.float64
    assert [float(norm(torch.tensor([3, 4], dtype=dtype))) for dtype in (torch.int64, torch.complex64)] == [5.0, 5.0]
    assert float(norm(torch.tensor([3e4, 4e4], dtype=torch.float16))) == 5e4  # float16 itself would overflow


def test_random_states_are_told_apart() -> None:
    before = random_digests()
    assert before == random_digests()  # looking draws nothing
    draws: dict[str, Callable[[], object]] = {
        "python": random.random,
        "numpy": numpy.random.rand,
        "torch": lambda: torch.rand(1),
    }
    for name, draw in draws.items():
        draw()
        after = random_digests()
        assert {key for key in after if after[key] != before[key]} == {name}
        before = after


def test_gradients_that_are_sparse_or_missing(tmp_path: Path) -> None:
    embedding = nn.Embedding(5, 2, sparse=True)
    with Tracer(tmp_path / "a.jsonl", embedding, torch.optim.SparseAdam(embedding.parameters())) as trace:
        trace.micro_batch(0, 0, 0)
        trace.gradients("reduce")
        torch.autograd.backward(embedding(torch.tensor([1, 1, 3])).sum())
        trace.gradients("backward")
    stages = lines(tmp_path / "a.jsonl")[1]["stages"]
    assert stages["reduce"] == {"norm": "0x0.0p+0", "gradients": {}}
    expected = torch.tensor([[0.0, 0], [2, 2], [0, 0], [1, 1], [0, 0]])
    assert stages["backward"]["gradients"]["weight"][0] == digest(expected)
    assert float.fromhex(stages["backward"]["norm"]) == float(expected.norm())


def test_the_norm_is_summed_in_the_optimizers_order(tmp_path: Path) -> None:
    """As clipping sums it: in the network's order the last bit may be another."""
    model = nn.ParameterList([nn.Parameter(torch.zeros(3)) for _ in range(40)])
    groups = [{"params": list(model)[20:]}, {"params": list(model)[:20]}]
    in_order = [parameter for group in groups for parameter in group["params"]]
    clipped = by_network = torch.zeros(())
    while torch.equal(clipped, by_network):
        for parameter in model:
            parameter.grad = torch.randn(3)
        by_network = nn.utils.get_total_norm([p.grad for p in model if p.grad is not None])
        clipped = nn.utils.clip_grad_norm_(in_order, 1e9)
    with Tracer(tmp_path / "a.jsonl", model, torch.optim.SGD(groups, 0.1)) as trace:
        trace.optimizer_step(0, 0)
        trace.gradients("clip")
    assert float32(lines(tmp_path / "a.jsonl")[1]["stages"]["clip"]["norm"]) == bits(clipped)


def test_several_optimizers_and_parameters_that_are_not_the_networks(tmp_path: Path) -> None:
    head, body, other = nn.Linear(2, 1), nn.Linear(2, 2), nn.Parameter(torch.ones(1))
    model = nn.ModuleDict({"body": body, "head": head})
    groups = [{"params": body.parameters(), "lr": 0.25}, {"params": [other], "lr": 0.5}]
    optimizers = [torch.optim.SGD(groups, momentum=0.9), torch.optim.SGD(head.parameters(), lr=2.0, momentum=0.9)]
    with Tracer(tmp_path / "a.jsonl", model, optimizers) as trace:
        trace.micro_batch(0, 0, 0)
        (head(body(torch.ones(1, 2))) * other).sum().backward()
        trace.optimizer_step(0, 0)
        for optimizer in optimizers:
            optimizer.step()
        trace.optimizer_stepped()
        trace.scheduler_stepped()
    stages = lines(tmp_path / "a.jsonl")[2]["stages"]
    assert stages["scheduler"]["learning_rates"] == [rate.hex() for rate in (0.25, 0.5, 2.0)]
    names = {f"{part}.{kind}.momentum_buffer" for part in ("body", "head") for kind in ("weight", "bias")}
    assert set(stages["optimizer"]["state"]) == names


def test_an_optimizer_without_a_learning_rate(tmp_path: Path) -> None:
    model = nn.Linear(1, 1)
    with Tracer(tmp_path / "a.jsonl", model, torch.optim.Optimizer(model.parameters(), {})) as trace:
        trace.micro_batch(0, 0, 0)
    assert lines(tmp_path / "a.jsonl")[1]["stages"]["scheduler"] == {"learning_rates": []}


# Levels.


def test_the_cheap_level_looks_at_no_tensor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("digest", "norm", "random_digests", "optimizer_tensors"):
        monkeypatch.delattr(f"project.trace.tracer.{name}")
    train(tmp_path / "a.jsonl", "cheap")
    header, *records = lines(tmp_path / "a.jsonl")
    assert header["level"] == "cheap"
    micro_batch, step, checkpoint = records[0]["stages"], records[2]["stages"], records[-1]["stages"]
    assert micro_batch.keys() == {"data", "forward", "scheduler"}
    assert micro_batch["data"] == {"ids": list(range(8))}
    assert micro_batch["forward"].keys() == {"loss", "num_examples"}
    assert step.keys() == {"normalise", "optimizer", "scheduler"}
    assert step["normalise"] == {"num_examples": 16}
    assert step["optimizer"] == {"skipped": False, "scale": "0x1.0000000000000p+1"}
    assert checkpoint["checkpoint"] == {"names": sorted(network().state_dict())}


def test_both_levels_agree_on_what_both_hold(tmp_path: Path) -> None:
    train(tmp_path / "cheap.jsonl", "cheap")
    train(tmp_path / "full.jsonl", "full")
    for cheap, full in zip(lines(tmp_path / "cheap.jsonl")[1:], lines(tmp_path / "full.jsonl")[1:], strict=True):
        for stage, quantities in cheap["stages"].items():
            shared = quantities.keys() & full["stages"][stage].keys()
            assert {name: quantities[name] for name in shared} == {name: full["stages"][stage][name] for name in shared}


def test_the_cheap_level_reads_the_loss_late_but_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = []
    read: Any = Tensor.tolist

    def reading(tensor: Tensor) -> Any:
        reads.append(tensor.shape)
        return read(tensor)

    monkeypatch.setattr(Tensor, "tolist", reading)
    for name in ("item", "__float__", "cpu", "numpy"):
        monkeypatch.setattr(Tensor, name, None)
    loss, ids = torch.tensor(1.5), torch.tensor([3, 4])
    trace = Tracer(tmp_path / "a.jsonl", level="cheap")
    trace.micro_batch(0, 0, 0, ids=ids)
    trace.forward(loss, 2)
    loss.mul_(7)
    ids.zero_()
    assert reads == []
    trace.close()
    assert len(reads) == 2
    stages = lines(tmp_path / "a.jsonl")[1]["stages"]
    assert stages["forward"]["loss"] == (1.5).hex()
    assert stages["data"]["ids"] == [3, 4]


def test_off_does_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("digest", "norm", "random_digests", "optimizer_tensors"):
        monkeypatch.delattr(f"project.trace.tracer.{name}")
    with OFF as trace:
        trace.micro_batch(0, 0, 0, ids=torch.tensor([1]), inputs=[torch.ones(1)])
        trace.forward(torch.tensor(1.0), 1)
        trace.gradients("clip", num_examples=3)
        trace.optimizer_step(0, 0)
        trace.optimizer_stepped()
        trace.scheduler_stepped()
        trace.evaluation(0, 0, {"a": 1.0})
        trace.checkpoint(0, {"a": torch.ones(1)})
        trace.flush()
    assert not list(tmp_path.iterdir())
    assert not OFF._records


@pytest.mark.parametrize("level", ["cheap", "full"])
def test_looking_changes_no_bit(level: Level, tmp_path: Path) -> None:
    def everything(path: Path | None) -> Iterator[bytes]:
        random.seed(1)
        numpy.random.seed(1)
        model, optimizer = train(path, level)
        for tensor in model.state_dict().values():
            yield bits(tensor)
        for state in optimizer.state.values():
            yield from (bits(value) for value in state.values())
        yield bits(torch.get_rng_state())
        yield repr((random.getstate(), numpy.random.get_state())).encode()

    without = list(everything(None))
    assert list(everything(tmp_path / "a.jsonl")) == without
    assert without[0] != bits(network().state_dict()["0.weight"])  # it trained


# Files.


def test_whole_tensors_of_one_record(tmp_path: Path) -> None:
    """Record 2 is the first step: gradients after the division, parameters and state after the update."""
    train(tmp_path / "a.jsonl", tensors_at=2)
    saved = torch.load(tmp_path / "a.pt", weights_only=True)
    stages = lines(tmp_path / "a.jsonl")[3]["stages"]
    assert saved.keys() == {"normalise", "optimizer"}
    assert {name: digest(value) for name, value in saved["normalise"].items()} == {
        name: found for name, (found, _) in stages["normalise"]["gradients"].items()
    }
    expected = stages["optimizer"]["parameters"] | stages["optimizer"]["state"]
    assert {name: digest(value) for name, value in saved["optimizer"].items()} == {
        name: found for name, (found, _) in expected.items()
    }


@pytest.mark.parametrize("tensors_at", [None, 1000])
def test_no_tensors_are_saved_unasked(tensors_at: int | None, tmp_path: Path) -> None:
    train(tmp_path / "a.jsonl", tensors_at=tensors_at)
    assert [path.name for path in tmp_path.iterdir()] == ["a.jsonl"]


def test_a_run_that_dies_leaves_complete_lines(tmp_path: Path) -> None:
    """Nobody closes the trace: the header is there at once, and records in whole lots."""
    trace = Tracer(tmp_path / "a.jsonl", network(), level="full")
    assert len(lines(tmp_path / "a.jsonl")) == 1
    for number in range(FLUSH_AFTER + 1):
        assert len(lines(tmp_path / "a.jsonl")) == 1
        trace.micro_batch(0, number, 0, ids=[f"example {number}" for _ in range(20)])
        trace.forward(torch.tensor(1.0), 1)
    records = lines(tmp_path / "a.jsonl")[1:]
    assert [record["micro_batch"] for record in records] == list(range(FLUSH_AFTER))
    assert all("forward" in record["stages"] for record in records)
    trace._file.close()


def test_an_exception_in_the_loop_loses_nothing(tmp_path: Path) -> None:
    def loop() -> None:
        with Tracer(tmp_path / "a.jsonl") as trace:
            trace.micro_batch(0, 0, 0)
            trace.micro_batch(0, 1, 0)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        loop()
    assert [record.get("micro_batch") for record in lines(tmp_path / "a.jsonl")] == [None, 0, 1]


def test_closing_twice_and_calls_afterwards_are_harmless(tmp_path: Path) -> None:
    trace = Tracer(tmp_path / "a.jsonl", network())
    trace.micro_batch(0, 0, 0)
    trace.close()
    before = (tmp_path / "a.jsonl").read_bytes()
    trace.micro_batch(0, 1, 0)
    trace.gradients("backward")
    trace.flush()
    trace.close()
    assert (tmp_path / "a.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("folder", "{0}/folder: the trace cannot be written here (Is a directory: {0}/folder)"),
        ("file/a.jsonl", "{0}/file/a.jsonl: the trace cannot be written here (File exists: {0}/file)"),
        ("/dev/full", "/dev/full: the trace cannot be continued (No space left on device)"),
    ],
)
def test_a_path_that_cannot_be_written(path: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(UserError) as raised:
        Tracer(tmp_path / path)
    assert str(raised.value) == message.format(tmp_path)


def test_an_unknown_level_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^trace: level 'fast'; there are cheap, full$"):
        Tracer(tmp_path / "a.jsonl", level="fast")  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_a_stage_before_any_record_is_refused(tmp_path: Path) -> None:
    with Tracer(tmp_path / "a.jsonl") as trace, pytest.raises(UserError, match="call micro_batch or optimizer_step"):
        trace.forward(torch.tensor(1.0), 1)
