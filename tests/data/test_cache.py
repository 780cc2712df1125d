"""Prepared folders appear once, whole, and for everybody."""

import logging
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from project.data.cache import digest, open_array, prepared


def write_ten(folder: Path) -> None:
    (folder / "numbers").write_bytes(bytes(range(10)))


def must_not_build(folder: Path) -> None:
    raise AssertionError("built again")


def test_second_call_uses_the_folder(tmp_path: Path) -> None:
    folder = prepared(tmp_path / "new" / "cache", "key", write_ten)
    assert folder == tmp_path / "new" / "cache" / "key"
    assert (folder / "numbers").read_bytes() == bytes(range(10))
    assert prepared(tmp_path / "new" / "cache", "key", must_not_build) == folder


def test_failed_build_leaves_nothing_and_can_be_repeated(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        write_ten(folder)
        raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        prepared(tmp_path, "key", fail)
    assert [path.name for path in tmp_path.iterdir()] == ["key.lock"]
    assert (prepared(tmp_path, "key", write_ten) / "numbers").exists()


@pytest.mark.parametrize("damage", ["truncated", "missing", "no meta", "bad meta"])
def test_damaged_folder_is_built_again_with_a_warning(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    folder = prepared(tmp_path, "key", write_ten)
    if damage == "truncated":
        os.truncate(folder / "numbers", 9)
    elif damage == "missing":
        (folder / "numbers").unlink()
    elif damage == "no meta":
        (folder / "meta.json").unlink()
    else:
        (folder / "meta.json").write_text('{"files"')
    with caplog.at_level(logging.WARNING):
        prepared(tmp_path, "key", write_ten)
    assert f"{folder}: damaged cache (" in caplog.text
    assert (folder / "numbers").read_bytes() == bytes(range(10))
    prepared(tmp_path, "key", must_not_build)


BUILDER = """
import sys, time
from pathlib import Path
from project.data.cache import prepared

cache, mode = Path(sys.argv[1]), sys.argv[2]

def build(folder):
    with (cache / "builds").open("a") as stream:  # appends of one line are atomic
        stream.write("built\\n")
    (folder / "numbers").write_bytes(b"1234")
    if mode == "hang":
        print("hanging", flush=True)
        time.sleep(60)
    time.sleep(0.2)
    if mode == "fail":
        raise RuntimeError("builder failed")

start = cache / "start"
while not start.exists():
    time.sleep(0.01)
print((prepared(cache, "key", build) / "numbers").read_text())
"""


def start_builder(cache: Path, mode: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", BUILDER, str(cache), mode], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_processes_starting_together_build_once(tmp_path: Path) -> None:
    processes = [start_builder(tmp_path, "build") for _ in range(4)]
    time.sleep(0.3)
    (tmp_path / "start").touch()
    assert [process.communicate(timeout=30) for process in processes] == [("1234\n", "")] * 4
    assert (tmp_path / "builds").read_text() == "built\n"


def test_processes_starting_together_all_see_the_error(tmp_path: Path) -> None:
    processes = [start_builder(tmp_path, "fail") for _ in range(3)]
    (tmp_path / "start").touch()
    errors = [process.communicate(timeout=30)[1] for process in processes]
    assert all("RuntimeError: builder failed" in error for error in errors)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["builds", "key.lock", "start"]


def test_killed_builder_blocks_nobody(tmp_path: Path) -> None:
    (tmp_path / "start").touch()
    process = start_builder(tmp_path, "hang")
    assert process.stdout is not None
    assert process.stdout.readline() == "hanging\n"
    process.kill()
    process.communicate()
    assert (tmp_path / "key.tmp").exists()
    prepared(tmp_path, "key", write_ten)
    assert not (tmp_path / "key.tmp").exists()


def test_digest_tells_values_apart() -> None:
    assert digest("a", 1) == digest("a", 1)
    assert len({digest(value) for value in ("1", 1, True, None, ["1"], "")}) == 6
    assert len(digest("a")) == 32


def test_arrays_are_read_only_and_may_be_empty(tmp_path: Path) -> None:
    (tmp_path / "full").write_bytes(bytes(8) + b"\x01" + bytes(7))
    (tmp_path / "empty").touch()
    full = open_array(tmp_path / "full", "<i8")
    assert full.tolist() == [0, 1]
    with pytest.raises(ValueError, match="read-only"):
        full[0] = 2
    assert open_array(tmp_path / "empty", "<i8").tolist() == []
