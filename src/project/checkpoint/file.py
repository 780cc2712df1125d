"""The checkpoint file of both twins: plain data and tensors, so `torch.load(weights_only=True)` reads it.

state_dict     weights and buffers under the network's own names
classifier     format, network {class_path, init_args}, vocabulary, max_tokens (`describe`)
optimizer      the optimizer's state_dict
lr_scheduler   the scheduler's state_dict, or None
scaler         the gradient scaler's state_dict under 16-mixed, else None
progress       the run's position, and the plan's numbers that it refers to (checkpoint/position.py)
best           best value of the monitored metric, its epoch, monitor and mode
early_stopping best value, validations since, and whether the run was ended
metrics        the last logged training loss and validation metrics
ranks          per rank: random states, and loss and examples since the last logged step
fingerprints   digests of the training and validation rows

docs/checkpoint.md describes each key.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from project.checkpoint.archive import load_archive
from project.config.renamed import renamed
from project.data.durable import sync
from project.data.vocabulary import Vocabulary
from project.errors import UserError
from project.learn.recipe import describe_network
from project.ranks.signals import Listener

FORMAT = 1
"""Version of the file; other versions are refused."""


def describe(factory: Any, network: nn.Module, vocabulary: Vocabulary, max_tokens: int) -> dict[str, Any]:
    """The `classifier` of a checkpoint: network, vocabulary and text length as plain data."""
    return {
        "format": FORMAT,
        "network": describe_network(factory, network),
        "vocabulary": vocabulary.to_state(),
        "max_tokens": int(max_tokens),  # jsonargparse may give a subclass of int, which weights_only refuses
    }


def write_checkpoint(path: str | Path, content: Mapping[str, Any]) -> None:
    """Write the file and sync it to the disk, whole or not at all. A missing folder is made.

    An existing file of that name stays until the new one replaces it.

    Raises:
        UserError: it cannot be written.
    """
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _replacing(path) as temporary:
            torch.save(dict(content), temporary)
    except (OSError, RuntimeError) as error:  # torch.save reports a full disk as a RuntimeError
        raise UserError(f"{path}: the checkpoint cannot be written ({_reason(error, path, content)})") from error


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path; the file written there is then synced and replaces `path`, or is removed on an error."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with Listener.here().saving():
            yield temporary
            sync(temporary)
            temporary.replace(path)
            sync(path.parent)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def check_writable(folder: Path) -> None:
    """Write and remove a small checkpoint in the folder, and remove files that a killed run left half-written.

    Raises:
        UserError: the folder cannot be written to.
    """
    for unfinished in folder.glob(".*.ckpt.*"):
        unfinished.unlink(missing_ok=True)
    write_checkpoint(folder / "probe.ckpt", {})
    (folder / "probe.ckpt").unlink()


def keep_previous(last: Path, step: int, num_kept: int) -> None:
    """Keep `last`, written at optimizer step `step`, as step-<step>.ckpt before it is replaced.

    A negative `step` means that `last` is another run's or damaged; it is not kept. Of the step-<step>.ckpt files the
    newest `num_kept - 1` stay, so they and last.ckpt are `num_kept` files.

    Raises:
        UserError: a copy cannot be written.
    """
    if num_kept > 1 and step >= 0 and last.is_file():
        kept = last.with_name(f"step-{step}.ckpt")
        kept.unlink(missing_ok=True)
        try:
            os.link(last, kept)
        except OSError:  # a file system without hard links
            _copy(last, kept)
    for path in kept_before(last)[max(0, num_kept - 1) :]:
        path.unlink()


def _copy(path: Path, to: Path) -> None:
    """Copy the file and its times, whole or not at all."""
    try:
        with _replacing(to) as temporary:
            shutil.copy2(path, temporary)
    except OSError as error:
        room = f"it takes {path.stat().st_size / 1e6:,.1f} MB"
        raise UserError(f"{to}: the checkpoint cannot be kept ({error.strerror}; {room})") from error


def kept_before(last: Path) -> list[Path]:
    """The files step-<step>.ckpt beside `last`, the newest first."""
    found = [path for path in last.parent.glob("step-*.ckpt") if path.stem[5:].isdigit()]
    # By time, since a run that was continued from an older step has written smaller steps after larger ones.
    return sorted(found, key=lambda path: (path.stat().st_mtime_ns, int(path.stem[5:])), reverse=True)


def read_checkpoint(path: str | Path) -> dict[str, Any]:
    """The file's content, with tensors on the CPU; nothing in it is executed (see checkpoint/archive.py).

    Raises:
        UserError: the file is missing, damaged, unsafe or not of this project; the message has one line.
    """
    content = load_archive(path)
    if not isinstance(content, dict) or not isinstance(description := content.get("classifier"), Mapping):
        raise UserError(f"{path}: not a checkpoint of this project (no `classifier` in it)")
    if description.get("format") != FORMAT:
        raise UserError(f"{path}: format {description.get('format')!r}, but this version reads format {FORMAT}")
    for key in ("hyper_parameters", "datamodule_hyper_parameters"):
        if key in content:  # Lightning calls what their `_instantiator` names
            raise UserError(f"{path}: unsafe, {key} may name code to call, and no checkpoint of this project has them")
    network = description.get("network")
    if isinstance(network, Mapping) and isinstance(class_path := network.get("class_path"), str):
        content["classifier"] = {**description, "network": {**network, "class_path": renamed(class_path)}}
    return content


def read_classifier(path: str | Path) -> dict[str, Any]:
    """The file's content, with network, vocabulary, text length and weights checked to be there.

    Raises:
        UserError: as `read_checkpoint`, or one of these is missing or has another type.
    """
    content = read_checkpoint(path)
    description = content["classifier"]
    kinds = {"network": Mapping, "vocabulary": Mapping, "max_tokens": int}
    wrong = [key for key, kind in kinds.items() if not isinstance(description.get(key), kind)]
    if wrong or not isinstance(content.get("state_dict"), Mapping):
        missing = f"classifier.{wrong[0]}" if wrong else "state_dict"
        raise UserError(f"{path}: damaged checkpoint, {missing} is missing or of another type; take another")
    return content


def _reason(error: Exception, path: Path, content: Mapping[str, Any]) -> str:
    """The system's message, and how much room the file takes and the disk has."""
    needed = sum(tensor.nbytes for tensor in tensors_in(content))
    said = error.strerror if isinstance(error, OSError) else str(error).splitlines()[0]
    free = shutil.disk_usage(path.parent).free if path.parent.is_dir() else 0
    return f"{said}; it takes {needed / 1e6:,.1f} MB, {free / 1e6:,.1f} MB are free there"


def tensors_in(value: Any) -> Iterator[Tensor]:
    """The tensors in nested mappings, lists and tuples."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from tensors_in(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from tensors_in(item)
