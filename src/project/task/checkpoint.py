"""The checkpoint file that both twins write and read: plain data and tensors, so `weights_only` is enough to load it.

state_dict     weights and buffers under the network's own names
classifier     format, network {class_path, init_args}, vocabulary, max_tokens: what `describe` says
optimizer      the optimizer's state_dict
lr_scheduler   the scheduler's state_dict, or None
scaler         the gradient scaler's state_dict under 16-mixed, else None
progress       epoch and optimizer step at which it was written
best           value and epoch of the watched metric at its best
"""

from __future__ import annotations

import os
import pickle
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from project.errors import UserError
from project.task.recipe import describe_network
from project.task.vocabulary import Vocabulary

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
    """Write the file, whole or not at all; the folder is made where it is missing.

    Raises:
        UserError: where it cannot be written.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save(dict(content), temporary)
        temporary.replace(path)
    except (OSError, RuntimeError) as error:  # torch.save reports a full disk as a RuntimeError
        raise UserError(f"{path}: the checkpoint cannot be written ({str(error).splitlines()[0]})") from error
    finally:
        temporary.unlink(missing_ok=True)


def read_checkpoint(path: str | Path) -> dict[str, Any]:
    """The file's content, tensors on the CPU; loaded with weights_only, so nothing in it is executed.

    Raises:
        UserError: where the file is missing, damaged, or not a checkpoint of this project: one line that says so.
    """
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise UserError(f"{path}: no such checkpoint") from None
    except IsADirectoryError:
        raise UserError(f"{path}: a folder, not a checkpoint; name a file such as {path}/best.ckpt") from None
    except (pickle.UnpicklingError, RuntimeError, EOFError, OSError, ValueError, KeyError) as error:
        plain = re.sub(r"\x1b\[[0-9;]*m", "", str(error).strip())
        reason = re.split(r"[.:;]?\s*(?:\n|\. )", plain)[0][:120]  # torch goes on at length
        raise UserError(f"{path}: cannot be read as a checkpoint, it is damaged or unsafe ({reason})") from None
    if not isinstance(content, dict) or not isinstance(description := content.get("classifier"), Mapping):
        raise UserError(f"{path}: not a checkpoint of this project (no `classifier` in it)")
    if description.get("format") != FORMAT:
        raise UserError(f"{path}: format {description.get('format')!r}, but this version reads format {FORMAT}")
    return content
