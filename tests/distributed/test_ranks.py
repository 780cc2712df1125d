"""Several processes on this machine: both twins equal, right by themselves, and ended as one."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import pytest
import torch
from torch import Tensor

from distributed.mistakes import train_with_mean_of_means
from processes import start, start_ranks
from project.__main__ import main
from project.parity.cli import compare_paths
from project.parity.compare import EXACT
from tiny_corpus import Corpus, write_corpus

ROOT = Path(__file__).parents[2]
TWINS = {"hand": ["hand"], "lit": ["fit"]}
FORKED = "--trainer.strategy=ddp_fork"
"""For where it does not matter how ranks are started: these do not import everything anew."""


DYING = """\
import os, signal, time, torch


class Dying(torch.nn.Module):
    def __init__(self, num_tokens, num_classes, how: str = "raise", rank: int = 1, mark: str = ""):
        super().__init__()
        self.bag = torch.nn.EmbeddingBag(num_tokens, 4, padding_idx=0)
        self.out = torch.nn.Linear(4, num_classes)
        self.how, self.rank, self.mark, self.num_calls = how, rank, mark, 0

    def forward(self, tokens, lengths):
        self.num_calls += 1
        if self.num_calls == 4 and os.environ.get("LOCAL_RANK") == str(self.rank):
            open(self.mark, "w").close()
            if self.how == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.how == "hang":
                time.sleep(1000)
            raise RuntimeError("it has had enough")
        return self.out(self.bag(tokens))
"""


NORMED = """\
import torch


class Normed(torch.nn.Module):
    def __init__(self, num_tokens, num_classes):
        super().__init__()
        self.bag = torch.nn.EmbeddingBag(num_tokens, 8, padding_idx=0)
        self.norm = torch.nn.BatchNorm1d(8)
        self.out = torch.nn.Linear(8, num_classes)

    def forward(self, tokens, lengths):
        return self.out(self.norm(self.bag(tokens)))
"""


WATCHING = """\
import gc, os, signal, torch
from torch.nn.parallel import DistributedDataParallel

destroy = torch.distributed.destroy_process_group


def watched(*args):
    held = sum(type(thing) is DistributedDataParallel for thing in gc.get_objects())
    with open(os.environ["FOUND"] + os.environ["RANK"], "w") as file:
        file.write(f"held by {held}")
    destroy(*args)


torch.distributed.destroy_process_group = watched


class Watching(torch.nn.Module):
    def __init__(self, num_tokens, num_classes, ends: bool = False):
        super().__init__()
        self.bag = torch.nn.EmbeddingBag(num_tokens, num_classes, padding_idx=0)
        self.ends, self.num_calls = ends, 0

    def forward(self, tokens, lengths):
        self.num_calls += 1
        if self.num_calls == 4 and self.ends and os.environ["RANK"] == "1":
            os.kill(os.getpid(), signal.SIGTERM)
        return self.bag(tokens)
"""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return write_corpus(tmp_path_factory.mktemp("ranks"), num_train=49)


def run(
    command: list[str], corpus: Corpus, folder: Path, *more: str, path: tuple[Path, ...] = ()
) -> subprocess.CompletedProcess[str]:
    """`python -m project` with these options, writing its run below `folder`; `path` comes first on the module path."""
    search = os.pathsep.join([*map(str, path), *filter(None, [os.environ.get("PYTHONPATH")])])
    return start([*command, *options(corpus, folder, command[0]), *more], {"PYTHONPATH": search}).ended()


def options(corpus: Corpus, folder: Path, name: str) -> list[str]:
    base = ["--config", str(ROOT / "configs" / "default.yaml"), "--config", str(ROOT / "configs" / "ddp.yaml")]
    sizes = ["--trainer.max_epochs=2", "--trainer.accelerator=cpu", "--trace.level=full"]
    return [*base, *corpus.arguments, f"--trainer.default_root_dir={folder}", f"--name={name}", *sizes]


def weights(folder: Path, twin: str = "hand") -> dict[str, Tensor]:
    path = folder / twin / "version_0" / "checkpoints" / "last.ckpt"
    found: dict[str, Tensor] = torch.load(path, weights_only=True)["state_dict"]
    return found


@pytest.mark.parametrize("strategy", ["ddp_fork", pytest.param("ddp", marks=pytest.mark.long)])
def test_the_commands_train_alike_and_one_rank_speaks_for_all(strategy: str, corpus: Corpus, tmp_path: Path) -> None:
    for command in TWINS.values():
        more = [f"--trainer.strategy={strategy}", "--data.batch_size=3", "--trainer.accumulate_grad_batches=3"]
        ended = run(command, corpus, tmp_path, *more)
        assert ended.returncode == 0, ended.stderr
        assert ended.stdout.count("epoch  2") == ended.stdout.count("look at it") == 1
        assert ended.stderr == ""
    hand, lit = (tmp_path / command[0] / "version_0" for command in TWINS.values())
    assert len(list(hand.glob("trace.rank*.jsonl"))) == 1
    assert compare_paths(hand, lit, EXACT, alike=True).is_equal
    assert [path.name for path in hand.parent.iterdir()] == ["version_0"]
    assert [path.name for path in lit.parent.iterdir()] == ["version_0"]


@pytest.mark.parametrize("ends", [pytest.param(False, marks=pytest.mark.long), True])
def test_nothing_holds_the_model_when_ranks_part(
    ends: bool, corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a rank may wait for itself for good (pytorch issue 56297), which it did in one of seven runs."""
    (tmp_path / "watching.py").write_text(WATCHING)
    monkeypatch.setenv("FOUND", str(tmp_path / "rank"))
    network = [
        FORKED,
        "--allow=watching",
        "--model.network=watching.Watching",
        f"--model.network.ends={str(ends).lower()}",
    ]
    ended = run(["hand"], corpus, tmp_path, "--data.batch_size=3", *network, path=(tmp_path,))
    assert ended.returncode == (143 if ends else 0), ended.stderr
    assert [(tmp_path / f"rank{rank}").read_text() for rank in (0, 1)] == ["held by 0"] * 2


def test_a_network_with_buffers_is_equal_too(corpus: Corpus, tmp_path: Path) -> None:
    """Each rank's batch norm sees its own rows; validation takes rank 0's statistics, in both twins."""
    (tmp_path / "normed.py").write_text(NORMED)
    more = ["--allow=normed", "--model.network=normed.Normed", "--data.drop_last=true", "--early_stopping.patience=0"]
    more += [FORKED, "--data.batch_size=4"]
    for command in TWINS.values():
        ended = run(command, corpus, tmp_path, *more, path=(tmp_path,))
        assert ended.returncode == 0, ended.stderr
    hand, lit = (tmp_path / command[0] / "version_0" for command in TWINS.values())
    assert compare_paths(hand, lit, EXACT, alike=True).is_equal
    marks = [json.loads((run / "finished.json").read_text())["epochs"] for run in (hand, lit)]
    assert marks[0] == marks[1]


@pytest.mark.long
def test_dropout_differs_between_ranks_and_examples_are_shared_out(corpus: Corpus, tmp_path: Path) -> None:
    assert run(["hand"], corpus, tmp_path, FORKED, "--data.batch_size=3", "--trainer.max_epochs=1").returncode == 0
    first, second = (
        [json.loads(line) for line in (tmp_path / "hand" / "version_0" / name).read_text().splitlines()[1:]]
        for name in ("trace.jsonl", "trace.rank1.jsonl")
    )
    ids: list[int] = []
    for one, other in zip(first, second, strict=True):
        if one["kind"] == "micro_batch":
            assert one["stages"]["rng"]["torch"] != other["stages"]["rng"]["torch"]
            mine, theirs = one["stages"]["data"]["ids"], other["stages"]["data"]["ids"]
            ids += [index for pair in zip(mine, theirs, strict=True) for index in pair if index >= 0]
    assert sorted(ids) == list(range(49))
    assert run(["hand"], corpus, tmp_path / "alone", "--data.batch_size=6", "--trainer.devices=1").returncode == 0
    alone = (tmp_path / "alone" / "hand" / "version_0" / "trace.jsonl").read_text().splitlines()[1:]
    records = [json.loads(line) for line in alone]
    order = [
        index for r in records if r["kind"] == "micro_batch" and not r["epoch"] for index in r["stages"]["data"]["ids"]
    ]
    assert ids == order, "the ranks' examples, interleaved, are the order of one process"


NO_DROPOUT = [
    "--model.network=project.network.Pooling",
    "--model.network.dropout=0",
    "--model.network.token_dropout=0",
    "--model.optimizer=torch.optim.SGD",
    "--model.optimizer.lr=0.1",
    "--model.lr_scheduler=null",
]


def test_the_number_of_ranks_changes_nothing_but_rounding(corpus: Corpus, tmp_path: Path) -> None:
    """Two epochs of SGD, the same global batch of 12: weights differ by rounding, and by much more in a wrong run.

    Each of ten steps adds up at most 12 examples in another order. The bound takes 12 roundings a step, of a step
    whose size the weights' own change measures; the wrong control gives each rank's mean the same weight.
    """
    runs: dict[str, dict[str, Tensor]] = {}
    for num_ranks in (1, 2, 3, 4):
        more = [FORKED, f"--trainer.devices={num_ranks}", f"--data.batch_size={12 // num_ranks}", *NO_DROPOUT]
        ended = run(["hand"], corpus, tmp_path / str(num_ranks), *more)
        assert ended.returncode == 0, ended.stderr
        runs[str(num_ranks)] = weights(tmp_path / str(num_ranks))
    more = [FORKED, "--trainer.devices=4", "--data.batch_size=3", *NO_DROPOUT]
    given = [*options(corpus, tmp_path / "wrong", "hand"), *more]
    ended = start_ranks(4, train_with_mean_of_means, given).ended()
    assert ended.returncode == 0, ended.stderr
    wrong = weights(tmp_path / "wrong")
    bound = 10 * 12 * torch.finfo(torch.float32).eps
    for several in ("2", "3", "4"):
        assert distance(runs[several], runs["1"]) <= bound
    assert distance(wrong, runs["1"]) > 100 * bound


def distance(a: dict[str, Tensor], b: dict[str, Tensor]) -> float:
    """The largest difference of two weights of one tensor, relative to the tensor's largest weight."""
    floating = [name for name, tensor in a.items() if tensor.is_floating_point()]
    return max(float((a[name] - b[name]).abs().max() / b[name].abs().max()) for name in floating)


LONG = pytest.mark.long
FAILURES = [
    pytest.param("hand", "ddp", "raise", 0, "rank 0 failed first: RuntimeError: it has had enough", 1, marks=LONG),
    ("hand", "ddp", "kill", 1, "error: rank 1 was ended by SIGKILL from outside", 137),
    pytest.param("hand", "ddp", "hang", 1, "another rank hangs, or takes longer than distrib", 1, marks=LONG),
    pytest.param("lit", "ddp", "raise", 1, "rank 1 failed first: RuntimeError: it has had enough", 1, marks=LONG),
    pytest.param("lit", "ddp", "kill", 0, "error: rank 0 was ended by SIGKILL from outside", 137, marks=LONG),
    pytest.param("lit", "ddp", "hang", 0, "distributed.timeout_seconds", 1, marks=LONG),
    ("lit", "ddp_fork", "raise", 1, "error: rank 1 failed first: RuntimeError: it has had enough", 1),
]


@pytest.mark.parametrize(("twin", "strategy", "how", "rank", "said", "code"), FAILURES)
def test_a_failing_rank_ends_the_run_and_its_error_comes_last(
    twin: str, strategy: str, how: str, rank: int, said: str, code: int, corpus: Corpus, tmp_path: Path
) -> None:
    (tmp_path / "dying.py").write_text(DYING)
    network = {"": "dying.Dying", ".how": how, ".rank": rank, ".mark": tmp_path / "mark"}
    more = [f"--model.network{key}={value}" for key, value in network.items()]
    more += [
        "--allow=dying",
        "--data.batch_size=3",
        f"--trainer.strategy={strategy}",
        "--distributed.timeout_seconds=10",
    ]
    ended = run(TWINS[twin], corpus, tmp_path / "runs", *more, path=(tmp_path,))
    assert time.time() - (tmp_path / "mark").stat().st_mtime < 30
    assert ended.returncode == code
    assert said in ended.stderr.strip().splitlines()[-1]
    assert not list((tmp_path / "runs").rglob("finished.json"))


@pytest.mark.parametrize(
    ("command", "start"),
    [
        ("hand", FORKED),
        pytest.param("fit", FORKED, marks=LONG),
        pytest.param("fit", "--trainer.strategy=ddp", marks=LONG),
    ],
)
def test_what_the_user_can_mend_is_said_once(command: str, start: str, corpus: Corpus, tmp_path: Path) -> None:
    broken = tmp_path / "broken.jsonl"
    broken.write_text('{"text": "a", "label": "animal"}\n{"text": "b"}\n')
    ended = run([command], corpus, tmp_path / "runs", start, f"--data.train_file={broken}")
    assert ended.returncode == 2
    assert ended.stderr.startswith(f"error: {broken}:2:")
    assert ended.stderr.count("error:") == 1
    assert not list(tmp_path.rglob("version_*"))


@LONG
def test_fewer_rows_than_ranks_train_and_validate_alike(corpus: Corpus, tmp_path: Path) -> None:
    """Three ranks and two rows: a rank without any row only keeps the others company."""
    few = tmp_path / "few.jsonl"
    few.write_text('{"text": "a cat a cat", "label": "animal"}\n{"text": "red or red", "label": "colour"}\n')
    more = [FORKED, "--data.batch_size=1", "--trainer.devices=3", f"--data.train_file={few}", f"--data.val_file={few}"]
    for command in TWINS.values():
        ended = run(command, corpus, tmp_path, *more)
        assert ended.returncode == 0, ended.stderr
    hand, lit = (tmp_path / command[0] / "version_0" for command in TWINS.values())
    assert compare_paths(hand, lit, EXACT, alike=True).is_equal


@pytest.mark.parametrize("twin", ["hand", pytest.param("lit", marks=LONG)])
def test_evaluations_give_the_same_in_any_number_of_processes(
    twin: str, corpus: Corpus, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """val/* as two ranks logged them in training, and the figures and predictions of one process and of three."""
    assert run(["hand"], corpus, tmp_path, FORKED, "--data.batch_size=3", "--trainer.max_epochs=1").returncode == 0
    trace = (tmp_path / "hand" / "version_0" / "trace.jsonl").read_text().splitlines()
    logged = next(r["stages"]["evaluation"] for r in map(json.loads, trace[1:]) if r["kind"] == "evaluation")
    path = tmp_path / "hand" / "version_0" / "checkpoints" / "last.ckpt"
    predictions = set()
    command = {"hand": ["hand"], "lit": []}[twin]
    for devices in ("3", "1"):
        given = [FORKED, f"--ckpt_path={path}", f"--trainer.devices={devices}", "--data.batch_size=4"]
        found = printed([*command, "validate", *given], corpus, devices, capfd)
        for name, title in (("val/accuracy", "accuracy"), ("val/macro_f1", "macro-F1"), ("val/loss", "loss")):
            assert found.count(f"{title} {float.fromhex(logged[name]):.4f}") == 1
        predict = [*command, "predict", *given, f"--data.predict_file={corpus.test}"]
        predictions.add(printed(predict, corpus, devices, capfd))
    assert len(predictions) == 1
    assert [json.loads(line)["index"] for line in predictions.pop().splitlines()] == list(range(20))


def printed(command: list[str], corpus: Corpus, devices: str, capfd: pytest.CaptureFixture[str]) -> str:
    """What a command of one process, which is this one, or of several prints."""
    if devices == "1":
        assert main([*command, *corpus.arguments]) == 0
        return capfd.readouterr().out
    ended = start([*command, *corpus.arguments]).ended()
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_several_processes_do_not_share_standard_input(
    corpus: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = [f"--trainer.default_root_dir={tmp_path}", "--trainer.accelerator=cpu"]
    config = f"--config={ROOT / 'configs' / 'default.yaml'}"
    assert main(["hand", config, *corpus.arguments, *folder, "--trainer.max_epochs=1", "--trainer.devices=1"]) == 0
    path = tmp_path / "default" / "version_0" / "checkpoints" / "last.ckpt"
    for command in (["predict"], ["hand", "predict"]):
        assert main([*command, f"--ckpt_path={path}", "--trainer.devices=2"]) == 2
        assert "cannot share standard input" in capsys.readouterr().err


def test_a_strategy_that_the_twins_do_not_share_is_refused_by_name(
    corpus: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = f"--config={ROOT / 'configs' / 'default.yaml'}"
    for command in TWINS.values():
        folder = f"--trainer.default_root_dir={tmp_path}"
        assert main([*command, config, *corpus.arguments, folder, "--trainer.strategy=fsdp"]) == 2
        assert "trainer.strategy" in capsys.readouterr().err
        assert not list(tmp_path.rglob("version_*"))
