"""What can go wrong while a run trains: both twins stop with one line, or go on where nothing is lost."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch

import project.data.splits
from project.__main__ import main
from project.commands.running import explanation
from project.data.dataset import Example, JsonlDataset
from project.data.splits import Data
from project.network import Pooling
from tiny_corpus import Corpus, write_corpus

CONFIG = Path(__file__).parents[2] / "configs" / "default.yaml"
TWINS = {"hand": ["hand"], "lit": ["fit"]}

pytestmark = pytest.mark.parametrize("twin", TWINS)


def call(twin: str, corpus: Corpus, *more: str) -> int:
    """Train for three epochs of four steps."""
    base = ["--config", str(CONFIG), *corpus.arguments, "--trainer.accelerator=cpu", "--data.batch_size=13"]
    network = ["--model.network=project.network.Pooling", "--model.network.dim=8"]
    return main([*TWINS[twin], *base, *network, "--trainer.max_epochs=3", "--trainer.log_every_n_steps=1", *more])


def error(capsys: pytest.CaptureFixture[str]) -> str:
    """The one line of the error, and nothing else that looks like trouble."""
    lines = capsys.readouterr().err.splitlines()
    found = [line for line in lines if line.startswith("error: ")]
    assert len(found) == 1
    assert lines[-1] == found[0]
    assert not any("Traceback" in line for line in lines)
    return found[0].removeprefix("error: ")


def before_second_epoch(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Let something happen between two epochs; both twins look at their files there."""
    check, calls = Data.check_unchanged, count(1)

    def acted(data: Data) -> None:
        if next(calls) == 2:
            act()
        check(data)

    monkeypatch.setattr(Data, "check_unchanged", acted)


def run_of(corpus: Corpus) -> Path:
    return corpus.folder / "runs" / "default" / "version_0"


@pytest.mark.parametrize("file", ["train", "val"])
@pytest.mark.parametrize("change", ["another row", "truncated", "gone", "replaced"])
def test_a_data_file_that_changes_stops_the_run(
    twin: str, change: str, file: str, corpus: Corpus, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    path: Path = getattr(corpus, file)

    def act() -> None:
        if change == "another row":
            with path.open("a") as stream:
                stream.write('{"text": "late", "label": "tool"}\n')
        elif change == "truncated":
            os.truncate(path, 100)
        elif change == "gone":
            path.unlink()
        else:  # same size, and a time of change that is put back
            before = path.stat()
            content = path.read_text().replace("word1", "word2")
            path.unlink()
            path.write_text(content)
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    before_second_epoch(monkeypatch, act)
    assert call(twin, corpus) == 2
    found = "no file" if change == "gone" else "another content"
    assert error(capsys).startswith(
        f"{path}: changed since it was read, found {found}, expected the same rows to the end"
    )
    assert not (run_of(corpus) / "finished.json").exists()
    assert (run_of(corpus) / "checkpoints" / "last.ckpt").exists()


def test_a_data_file_that_is_only_touched_or_copied_over_stops_nothing(
    twin: str, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    def act() -> None:
        content = corpus.train.read_bytes()
        corpus.train.unlink()
        corpus.train.write_bytes(content)
        corpus.val.touch()

    before_second_epoch(monkeypatch, act)
    assert call(twin, corpus) == 0


# torch may notice the other loader's process while that loader is taken down, and can only say so on the side
@pytest.mark.filterwarnings("ignore:Exception ignored in:pytest.PytestUnraisableExceptionWarning")
def test_a_loader_process_that_is_killed(
    twin: str, corpus: Corpus, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    def act() -> None:
        workers = multiprocessing.active_children()
        assert workers
        for worker in workers:
            os.kill(int(worker.pid or 0), signal.SIGKILL)

    before_second_epoch(monkeypatch, act)
    # Lightning puts back the handlers that it found, so torch's is gone after the first run in a process.
    monkeypatch.setattr("torch.utils.data._utils.signal_handling._SIGCHLD_handler_set", False)
    assert call(twin, corpus, "--data.num_workers=1") == 2
    said = error(capsys)
    assert said.startswith("data.num_workers: a loader process is gone (DataLoader worker (pid")
    assert said.endswith("or 0: rows are memory-mapped, and loader processes rarely help")


@pytest.mark.parametrize("num_workers", [0, 1])
def test_an_example_that_cannot_be_read_is_named(
    twin: str, num_workers: int, corpus: Corpus, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    get = JsonlDataset.__getitem__

    def failing(dataset: JsonlDataset, index: int) -> Example:
        if index == 7:
            raise OSError("the disk is gone")
        return get(dataset, index)

    monkeypatch.setattr(JsonlDataset, "__getitem__", failing)
    assert call(twin, corpus, f"--data.num_workers={num_workers}") == 2
    expected = f"{corpus.train}: example 7 cannot be read (OSError: the disk is gone); delete the cache"
    assert error(capsys) == expected


def test_loader_processes_that_hang(twin: str, corpus: Corpus, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    def hanging(dataset: JsonlDataset, index: int) -> Example:
        time.sleep(20)  # nothing ends it sooner: a loader process does not hear SIGTERM
        raise AssertionError

    monkeypatch.setattr(JsonlDataset, "__getitem__", hanging)
    monkeypatch.setattr(project.data.splits, "LOADER_TIMEOUT_SECONDS", 1)
    monkeypatch.setattr("torch.utils.data._utils.MP_STATUS_CHECK_INTERVAL", 0.5)  # how long their end is waited for
    assert call(twin, corpus, "--data.num_workers=1") == 2
    assert error(capsys).startswith(
        "data.num_workers: no batch came from the loader processes (DataLoader timed out after 1"
    )


def test_memory_that_a_step_cannot_get(twin: str, corpus: Corpus, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    forward = Pooling.forward

    def greedy(network: Pooling, tokens: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        if network.training:
            torch.empty(1 << 50)
        return forward(network, tokens, lengths)

    monkeypatch.setattr(Pooling, "forward", greedy)
    assert call(twin, corpus) == 2
    said = error(capsys)
    assert said.startswith(f"out of memory, {1 << 52} bytes more were asked for; take a smaller data.batch_size, with ")


def test_memory_of_a_gpu(twin: str) -> None:
    cuda = torch.OutOfMemoryError(
        "CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 1 GiB"
    )
    assert str(explanation(cuda)).startswith(
        "out of memory, 20.00 GiB more were asked for; take a smaller data.batch_size"
    )


@pytest.mark.parametrize("place", ["file/below", "/proc/runs"])
def test_a_run_folder_that_cannot_be_made(twin: str, place: str, corpus: Corpus, capsys: Any) -> None:
    (corpus.folder / "file").touch()
    root = corpus.folder / place
    assert call(twin, corpus, f"--trainer.default_root_dir={root}") == 2
    said = error(capsys)
    assert said.startswith(f"{root / 'default'}: cannot make a run folder here (")
    assert said.endswith("; name another place with --trainer.default_root_dir")


def test_a_run_folder_that_is_deleted(twin: str, corpus: Corpus, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    before_second_epoch(monkeypatch, lambda: shutil.rmtree(run_of(corpus)))
    assert call(twin, corpus) == 2
    said = error(capsys)
    assert said.startswith(f"{run_of(corpus)}/events.out.tfevents.")
    assert said.endswith(": No such file or directory; see that its folder is there, can be written to and is not full")


def test_a_clock_that_goes_backwards(twin: str, corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    now = count(time.time(), -3600)
    monkeypatch.setattr(time, "time", lambda: next(now))
    assert call(twin, corpus) == 0
    summary = json.loads((run_of(corpus) / "finished.json").read_text())
    assert summary["seconds"] > 0
    assert summary["optimizer_steps"] == 12


def test_cuda_where_there_is_none(twin: str, corpus: Corpus, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert call(twin, corpus, "--trainer.accelerator=cuda") == 2
    assert "accelerator" in error(capsys)


def test_a_cache_that_was_damaged_since(twin: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    corpus = write_corpus(tmp_path)  # with a cache of its own
    assert call(twin, corpus) == 0
    before = (run_of(corpus) / "finished.json").read_text()
    for path in corpus.cache.glob("dataset-*/tokens"):
        content = bytearray(path.read_bytes())
        content[0] ^= 1
        path.write_bytes(content)
    assert call(twin, corpus, "--name=again") == 0
    assert "damaged cache (tokens: not what was written); building it again" in caplog.text
    again = json.loads((corpus.folder / "runs" / "again" / "version_0" / "finished.json").read_text())
    assert again["best_value"] == json.loads(before)["best_value"]


def test_a_cache_that_cannot_be_written(twin: str, corpus: Corpus, capsys: Any) -> None:
    (corpus.folder / "file").touch()
    assert call(twin, corpus, f"--data.cache_dir={corpus.folder / 'file'}") == 2
    said = error(capsys)
    assert said.startswith(f"{corpus.folder / 'file'}/rows-")
    assert said.endswith("name another place with --data.cache_dir, or make room")


def test_more_loader_processes_than_cores(
    twin: str, corpus: Corpus, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """torch's own words on it, several lines, would be an error in this test."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0})
    assert call(twin, corpus, "--data.num_workers=2", "--trainer.max_steps=1") == 0
    assert "warning: data.num_workers: 2 loader processes for 1 cores; 0 is usually fastest" in caplog.text
