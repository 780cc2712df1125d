"""A checkpoint is written whole or not at all, whatever happens meanwhile; a damaged one is noticed."""

from __future__ import annotations

import errno
import multiprocessing
import os
import resource
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from project.checkpoint.file import check_writable, keep_previous, kept_before, read_checkpoint, write_checkpoint
from project.errors import UserError

forks = multiprocessing.get_context("fork")
CLASSIFIER = {"format": 1}


def saved(number: int) -> dict[str, Any]:
    return {"classifier": CLASSIFIER, "weights": torch.full((1000, 100), float(number)), "number": number}


def die(*_: object, **__: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def half(content: dict[str, Any], path: Path) -> None:
    """torch.save, killed in the middle."""
    torch.serialization.save(content, path.with_suffix(".whole"))
    data = path.with_suffix(".whole").read_bytes()
    path.write_bytes(data[: len(data) // 2])
    die()


@pytest.mark.parametrize("moment", ["in the middle", "before the sync", "before it replaces", "after it replaced"])
def test_killed_while_writing(moment: str, tmp_path: Path) -> None:
    path = tmp_path / "last.ckpt"
    write_checkpoint(path, saved(1))

    def killed() -> None:
        if moment == "in the middle":
            setattr(torch, "save", half)  # noqa: B010
        elif moment == "before the sync":
            os.fsync = die
        elif moment == "before it replaces":
            Path.replace = die  # type: ignore[assignment,method-assign]
        else:
            replace = Path.replace

            def replace_and_die(source: Path, target: Path) -> Path:
                replace(source, target)
                die()
                return target

            Path.replace = replace_and_die  # type: ignore[assignment,method-assign]
        write_checkpoint(path, saved(2))

    process = forks.Process(target=killed)
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert read_checkpoint(path)["number"] == (2 if moment == "after it replaced" else 1)
    check_writable(tmp_path)
    write_checkpoint(path, saved(3))
    assert read_checkpoint(path)["number"] == 3
    assert not list(tmp_path.glob(".*"))


def test_a_full_disk_leaves_the_old_one(tmp_path: Path) -> None:
    """The system's limit on the size of a file stands in for the end of a disk."""
    path = tmp_path / "last.ckpt"
    write_checkpoint(path, saved(1))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(UserError, match=r"last\.ckpt: the checkpoint cannot be written \(.*; it takes 0\.4 MB, "):
            write_checkpoint(path, saved(2))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert read_checkpoint(path)["number"] == 1
    assert [file.name for file in tmp_path.iterdir()] == ["last.ckpt"]


def test_every_flipped_byte_of_a_tensor_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "last.ckpt"
    write_checkpoint(path, saved(1))
    data = path.read_bytes()
    begin = data.index(torch.full((4,), 1.0).numpy().tobytes())
    for place in range(begin, begin + 400_000, 40_000):
        path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        assert not torch.equal(torch.load(path, weights_only=True)["weights"], saved(1)["weights"])
        with pytest.raises(UserError, match=r"last\.ckpt: damaged checkpoint, .* in it is not what was written"):
            read_checkpoint(path)


def test_the_newest_are_kept(tmp_path: Path) -> None:
    last = tmp_path / "last.ckpt"
    for number in range(1, 13):
        keep_previous(last, number - 1, 3)
        write_checkpoint(last, saved(number))
    assert [path.name for path in kept_before(last)] == ["step-11.ckpt", "step-10.ckpt"]
    assert [read_checkpoint(path)["number"] for path in (last, *kept_before(last))] == [12, 11, 10]


@pytest.mark.parametrize("fails", [None, "copying", "syncing"])
def test_they_are_copied_where_there_are_no_hard_links(
    fails: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacking(*_: Any, **__: Any) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", lacking)
    last = tmp_path / "last.ckpt"
    for number in range(1, 5):
        keep_previous(last, number - 1, 3)
        write_checkpoint(last, saved(number))
    assert [path.name for path in kept_before(last)] == ["step-3.ckpt", "step-2.ckpt"]
    assert [read_checkpoint(path)["number"] for path in (last, *kept_before(last))] == [4, 3, 2]
    if fails is not None:
        monkeypatch.setattr(*{"copying": (shutil, "copy2"), "syncing": (os, "fsync")}[fails], lacking)
        with pytest.raises(UserError, match=r"step-4\.ckpt: the checkpoint cannot be kept \(Operation not permitted; "):
            keep_previous(last, 4, 3)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["last.ckpt", "step-2.ckpt", "step-3.ckpt"]


def test_a_folder_that_cannot_be_written_is_found_out_before(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"probe\.ckpt: the checkpoint cannot be written \(File exists"):
        check_writable(tmp_path / "file")
