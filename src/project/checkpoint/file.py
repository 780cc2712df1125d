"""The checkpoint file that both twins write and read: plain data and tensors, so `weights_only` is enough to load it.

state_dict     weights and buffers under the network's own names
classifier     format, network {class_path, init_args}, vocabulary, max_tokens: what `describe` says
optimizer      the optimizer's state_dict
lr_scheduler   the scheduler's state_dict, or None
scaler         the gradient scaler's state_dict under 16-mixed, else None
progress       where the run stood, and the plan's numbers that give that its meaning: see checkpoint/position.py
best           value and epoch of the watched metric at its best, and what is watched: monitor and mode
early_stopping best value, validations since, and whether the run was ended
metrics        the last logged training loss and validation metrics
ranks          for each rank its random states, and loss and examples since the last logged step
fingerprints   digests of the training and validation rows

docs/checkpoint.md describes each key.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from project.checkpoint.archive import load_archive
from project.data.durable import sync
from project.data.vocabulary import Vocabulary
from project.errors import UserError
from project.learn.recipe import describe_network
from project.ranks.signals import Listener

FORMAT = 1
"""Version of the file; another is refused."""


def describe(factory: Any, network: nn.Module, vocabulary: Vocabulary, max_tokens: int) -> dict[str, Any]:
    """What a checkpoint says of its classifier, beside `state_dict`: plain data only, so weights_only reads it."""
    return {
        "format": FORMAT,
        "network": describe_network(factory, network),
        "vocabulary": vocabulary.to_state(),
        "max_tokens": int(max_tokens),  # jsonargparse may hand over a subclass of int, which weights_only refuses
    }


def write_checkpoint(path: str | Path, content: Mapping[str, Any]) -> None:
    """Write the file, whole or not at all, and on the disk when this returns; the folder is made where it is missing.

    A file of that name stays as it was until the new one has replaced it. Each record within carries its CRC-32.

    Raises:
        UserError: where it cannot be written.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with Listener.here().saving():
            torch.save(dict(content), temporary)
            sync(temporary)
            temporary.replace(path)
            sync(path.parent)
    except (OSError, RuntimeError) as error:  # torch.save reports a full disk as a RuntimeError
        raise UserError(f"{path}: the checkpoint cannot be written ({_reason(error, path, content)})") from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def check_writable(folder: Path) -> None:
    """Write, sync, rename and remove a small file in the folder, as a checkpoint will be; what a kill left half-written
    is removed.

    Raises:
        UserError: where that fails.
    """
    for unfinished in folder.glob(".*.ckpt.*"):
        unfinished.unlink(missing_ok=True)
    write_checkpoint(folder / "probe.ckpt", {})
    (folder / "probe.ckpt").unlink()


def keep_previous(last: Path, step: int, num_kept: int) -> None:
    """Give `last`, written at optimizer step `step`, a name of its own before it is replaced: step-<step>.ckpt.

    Where `step` is negative, `last` is not this run's, or is damaged, and gets none.
    Of such files the newest `num_kept - 1` stay, so that they and last.ckpt are `num_kept` together.
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
    """Copy the file with its time, whole or not at all.

    Raises:
        UserError: where the copy cannot be written.
    """
    temporary = to.with_name(f".{to.name}.{os.getpid()}")
    try:
        with Listener.here().saving():
            shutil.copy2(path, temporary)
            sync(temporary)
            temporary.replace(to)
            sync(to.parent)
    except OSError as error:
        room = f"it takes {path.stat().st_size / 1e6:,.1f} MB"
        raise UserError(f"{to}: the checkpoint cannot be kept ({error.strerror}; {room})") from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def kept_before(last: Path) -> list[Path]:
    """The files step-<step>.ckpt beside `last`, the newest first."""
    found = [path for path in last.parent.glob("step-*.ckpt") if path.stem[5:].isdigit()]
    # By time: a run that went on from an older step has written smaller steps after larger ones.
    return sorted(found, key=lambda path: (path.stat().st_mtime_ns, int(path.stem[5:])), reverse=True)


def read_checkpoint(path: str | Path) -> dict[str, Any]:
    """The file's content, tensors on the CPU; nothing in it is executed (see checkpoint/archive.py).

    Raises:
        UserError: where the file is missing, damaged, unsafe or not of this project: one line says so.
    """
    content = load_archive(path)
    if not isinstance(content, dict) or not isinstance(description := content.get("classifier"), Mapping):
        raise UserError(f"{path}: not a checkpoint of this project (no `classifier` in it)")
    if description.get("format") != FORMAT:
        raise UserError(f"{path}: format {description.get('format')!r}, but this version reads format {FORMAT}")
    for key in ("hyper_parameters", "datamodule_hyper_parameters"):
        if key in content:  # Lightning would call what their `_instantiator` names
            raise UserError(f"{path}: unsafe, {key} may name code to call, and no checkpoint of this project has them")
    return content


def read_classifier(path: str | Path) -> dict[str, Any]:
    """The content of a checkpoint that names a network, a vocabulary and weights.

    Raises:
        UserError: as `read_checkpoint`, and where one of these is missing or of another kind.
    """
    content = read_checkpoint(path)
    description = content["classifier"]
    kinds = {"network": Mapping, "vocabulary": Mapping, "max_tokens": int}
    wrong = [key for key, kind in kinds.items() if not isinstance(description.get(key), kind)]
    if wrong or not isinstance(content.get("state_dict"), Mapping):
        missing = f"classifier.{wrong[0]}" if wrong else "state_dict"
        raise UserError(f"{path}: damaged checkpoint, {missing} is missing or of another kind; take another")
    return content


def _reason(error: Exception, path: Path, content: Mapping[str, Any]) -> str:
    """The system's words, and how much room the file takes where there may be too little."""
    needed = sum(tensor.nbytes for tensor in tensors_in(content))
    said = error.strerror if isinstance(error, OSError) else str(error).splitlines()[0]
    free = shutil.disk_usage(path.parent).free if path.parent.is_dir() else 0
    return f"{said}; it takes {needed / 1e6:,.1f} MB, {free / 1e6:,.1f} MB are free there"


def tensors_in(value: Any) -> Iterator[Tensor]:
    """The tensors within nested mappings, lists and tuples."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from tensors_in(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from tensors_in(item)
