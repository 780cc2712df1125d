"""Two machines: two of torchrun's launchers, each a node of one process, on this one."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from project.__main__ import main
from project.parity.cli import compare_paths
from project.parity.compare import EXACT
from tiny_corpus import Corpus, write_corpus

ROOT = Path(__file__).parents[2]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "1", "--rdzv-backend", "c10d"]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return write_corpus(tmp_path_factory.mktemp("nodes"), num_train=49)


def arguments(command: str, corpus: Corpus, folder: Path) -> list[str]:
    configs = [part for name in ("default", "ddp") for part in ("--config", str(ROOT / "configs" / f"{name}.yaml"))]
    sizes = ["--trainer.max_epochs=1", "--trainer.accelerator=cpu", "--trace.level=full", "--data.batch_size=4"]
    where = [f"--trainer.default_root_dir={folder}", f"--name={command}"]
    return ["-m", "project", command, *configs, *corpus.arguments, *where, *sizes]


def on_two_nodes(command: str, corpus: Corpus, folder: Path) -> list[subprocess.CompletedProcess[str]]:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        endpoint = f"localhost:{free.getsockname()[1]}"
    meeting = ["--nnodes", "2", "--rdzv-endpoint", endpoint, "--rdzv-id", command, "--local-addr", "localhost"]
    sizes = ["--trainer.num_nodes=2", "--trainer.devices=1"]
    nodes = [
        subprocess.Popen(
            [*TORCHRUN, *meeting, *arguments(command, corpus, folder), *sizes],
            env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for _ in range(2)
    ]  # fmt: skip
    ended = []
    for node in nodes:
        out, err = node.communicate(timeout=180)
        ended.append(subprocess.CompletedProcess(node.args, node.returncode, out, err))
    return ended


@pytest.mark.long
def test_two_nodes_train_as_two_processes_of_one_machine_do(corpus: Corpus, tmp_path: Path) -> None:
    for command in ("hand", "fit"):
        ended = on_two_nodes(command, corpus, tmp_path / "nodes")
        assert [node.returncode for node in ended] == [0, 0], ended
        assert sum(node.stdout.count("epoch  1") for node in ended) == 1
    alone = subprocess.run(
        [sys.executable, *arguments("hand", corpus, tmp_path / "alone")],
        env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert alone.returncode == 0, alone.stderr
    runs = [tmp_path / folder / "version_0" for folder in ("nodes/hand", "nodes/fit", "alone/hand")]
    for other in runs[1:]:
        assert compare_paths(runs[0], other, EXACT, alike=True).is_equal
        assert len(list(other.glob("trace.rank*.jsonl"))) == 1


def test_several_nodes_without_torchrun_are_refused(
    corpus: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in ("hand", "fit"):
        assert main([*arguments(command, corpus, tmp_path)[2:], "--trainer.num_nodes=2"]) == 2
        assert capsys.readouterr().err.startswith("error: trainer.num_nodes: 2 machines need a launcher on each")
    assert not list(tmp_path.rglob("version_*"))
