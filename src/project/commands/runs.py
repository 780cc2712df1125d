"""Where runs lie, `<root>/<name>/version_N`, and what marks one as finished.

A run folder holds config.yaml, tokenizer.json, checkpoints/best.ckpt, checkpoints/last.ckpt, TensorBoard's event
files, and finished.json once the run has ended by itself.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import shlex
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import IO, Any

from project.errors import UserError
from project.ranks.environment import COMMAND

logger = logging.getLogger(__name__)

ROOT = Path("runs")
LAUNCHED = ".launched"
"""Name of the file in a run's folder that says which job of Slurm, or launch of torchrun, trains it."""

FINISHED = "finished.json"

LOCK = ".lock"
"""Name of the file in a run's folder that is there, and locked, while a process trains in it; it says which."""


def new_run(root: Path, name: str) -> Path:
    """Make and return `<root>/<name>/version_N` with the next free N; runs that start together get one each.

    Raises:
        UserError: where the name leads out of `root`, or the folder cannot be made.
    """
    if Path(name).is_absolute() or ".." in Path(name).parts or "\0" in name:
        raise UserError(f"name: {name!r} leads out of {root}; take a plain name, such as default or sweep/one")
    parent = root / name
    try:
        parent.mkdir(parents=True, exist_ok=True)
        versions = [int(path.name[8:]) for path in parent.glob("version_*") if path.name[8:].isdigit()]
        for version in count(max(versions, default=-1) + 1):
            run = parent / f"version_{version}"
            with suppress(FileExistsError):
                run.mkdir()
                return run
    except OSError as error:
        reason = f"cannot make a run folder here ({error.strerror})"
        raise UserError(f"{parent}: {reason}; name another place with --trainer.default_root_dir") from None
    raise AssertionError("count() is endless")


@contextmanager
def held(run: Path) -> Iterator[None]:
    """Keep other processes from training in this run's folder; a process that is killed lets go of it.

    Raises:
        UserError: where another one trains there.
    """
    path = run / LOCK
    lock = _locked(path)
    os.register_at_fork(after_in_child=lock.close)  # a loader's worker may live on for seconds after its parent
    try:
        yield
    finally:
        with suppress(OSError):  # such as a folder that is gone
            if os.path.samestat(os.fstat(lock.fileno()), path.stat()):
                path.unlink()  # while it is ours: see `_locked`
        lock.close()


def _locked(path: Path) -> IO[bytes]:
    """The file, locked and with the name of this process in it."""
    while True:
        lock = path.open("a+b", buffering=0)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with lock:
                lock.seek(0)
                holder = lock.read().decode() or "another process"
            todo = "wait for it to end, or stop it; without --ckpt_path, fit trains in a folder of its own"
            raise UserError(f"{path.parent}: {holder} trains in this run; {todo}") from None
        except OSError as error:
            logger.warning("%s: no locks here (%s), so do not train twice in one run folder", path, error.strerror)
        with suppress(FileNotFoundError):  # whoever held it has removed it meanwhile: then it is another file's turn
            if os.path.samestat(os.fstat(lock.fileno()), path.stat()):
                lock.truncate(0)
                lock.write(f"process {os.getpid()} on {socket.gethostname()}".encode())
                return lock
        lock.close()


def summary(
    *, num_rows: int, num_train_rows: int, step: int, seconds: float, monitor: str, best_value: float, best_epoch: int
) -> dict[str, Any]:
    """What finished.json says of a run.

    Args:
        num_rows: rows that were trained on, one as often as it was.
        num_train_rows: rows of the training file.
        step: optimizer steps.
        seconds: of training, validations included.
        monitor: the metric that decided what is best.
        best_value: its best value.
        best_epoch: the epoch, from 0, that reached it; -1 where nothing was validated.
    """
    validated = best_epoch >= 0
    return {
        "epochs": round(num_rows / num_train_rows, 3),
        "optimizer_steps": step,
        "seconds": round(seconds, 3),
        "train_rows_per_second": round(num_rows / seconds, 1),
        "monitor": monitor,
        "best_value": best_value if validated else None,
        "best_epoch": best_epoch + 1 if validated else None,
    }


def mark_finished(run: Path, summary: dict[str, Any]) -> None:
    """Write the run's summary as finished.json, whole or not at all."""
    temporary = run / f".{FINISHED}.{os.getpid()}"
    temporary.write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
    temporary.replace(run / FINISHED)


def newest_finished(root: Path = ROOT) -> Path:
    """The run folder under `root` that finished last.

    Raises:
        UserError: where there is none; the message says what to do.
    """
    marks = sorted(root.rglob(f"version_*/{FINISHED}"), key=lambda mark: mark.stat().st_mtime_ns)
    if not marks:
        raise UserError(
            f"{root}: no finished run here; train one with `python -m project fit --config configs/default.yaml`, "
            "or name a checkpoint with --ckpt_path"
        )
    return marks[-1].parent


def mark_launched(run: Path) -> None:
    """Note with the run which job or launch trains it, for when that is started anew."""
    mark, name = run / LAUNCHED, launch_name()
    if name is not None and not (mark.exists() and mark.read_text(encoding="utf-8") == name):
        mark.write_text(name, encoding="utf-8")  # a start anew keeps the first one's time: see `interrupted_run`


def launch_name() -> str | None:
    """What tells this job of Slurm, or else this launch of torchrun, from others; None where nothing does.

    It is the same in all ranks, and after a new start. A job may train more than once, by other options.
    """
    if job := os.environ.get("SLURM_JOB_ID"):
        return f"Slurm job {job}: {os.environ.get(COMMAND) or shlex.join(sys.argv[1:])}"
    name = os.environ.get("TORCHELASTIC_RUN_ID")
    if name == "none":  # torchrun's own, for want of --rdzv-id; on one machine its process tells it apart
        is_one_machine = os.environ.get("WORLD_SIZE") == os.environ.get("LOCAL_WORLD_SIZE")
        return f"process {os.getppid()}" if is_one_machine else None
    return name


def interrupted_run(root: Path) -> Path | None:
    """The last.ckpt that this job or launch has saved under `root` before it was started anew.

    None where it had not come so far, or this is its first start.
    """
    if all(int(os.environ.get(f"{by}_RESTART_COUNT", "0")) == 0 for by in ("SLURM", "TORCHELASTIC")):
        return None
    marks = sorted(root.rglob(f"version_*/{LAUNCHED}"), key=lambda mark: mark.stat().st_mtime_ns)
    for mark in reversed(marks):
        last = mark.parent / "checkpoints" / "last.ckpt"
        if mark.read_text(encoding="utf-8") == launch_name():
            is_new = last.exists() and last.stat().st_mtime_ns >= mark.stat().st_mtime_ns  # not of an earlier launch
            return last if is_new else None
    return None


def newest_checkpoint(root: Path, name: str) -> Path:
    """The checkpoint `name` of the run under `root` that wrote one last, finished or not.

    Raises:
        UserError: where no run has one.
    """
    found = sorted(root.rglob(f"version_*/checkpoints/{name}"), key=lambda path: path.stat().st_mtime_ns)
    if not found:
        raise UserError(f"{root}: no run here has a {name}, so there is nothing to continue; train without --ckpt_path")
    return found[-1]


def best_checkpoint(root: Path = ROOT) -> Path:
    """The best checkpoint of the newest finished run under `root`; its last one where none was validated.

    Raises:
        UserError: where there is no finished run, or its checkpoints are gone.
    """
    folder = newest_finished(root) / "checkpoints"
    for name in ("best.ckpt", "last.ckpt"):
        if (folder / name).is_file():
            return folder / name
    raise UserError(f"{folder}: neither best.ckpt nor last.ckpt is here; name a checkpoint with --ckpt_path")
