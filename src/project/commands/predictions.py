"""Writes predictions as JSON lines, in input order."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from torch import Tensor

from project.data.rows import Label
from project.errors import UserError


def prediction_lines(probabilities: Tensor, labels: Sequence[Label]) -> Iterator[bytes]:
    """One JSON line per row of `probabilities` (N, C): index, label, its probability, and all probabilities."""
    names = [str(label) for label in labels]
    for index, row in enumerate(probabilities.tolist()):
        best = max(range(len(row)), key=row.__getitem__)
        shown = {name: round(value, 6) for name, value in zip(names, row, strict=True)}
        prediction = {"index": index, "label": labels[best], "probability": shown[names[best]], "probabilities": shown}
        yield msgspec.json.encode(prediction) + b"\n"


def write_predictions(probabilities: Tensor, labels: Sequence[Label], output: str | None) -> None:
    """Write the lines to the file `output`, whole or not at all, or to standard output.

    Raises:
        UserError: where the file cannot be written.
    """
    lines = prediction_lines(probabilities, labels)
    if output is None:
        sys.stdout.buffer.writelines(lines)
        sys.stdout.buffer.flush()
        return
    path = Path(output)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            file.writelines(lines)
        temporary.replace(path)
    except OSError as error:
        reason = "no such folder; make it first" if isinstance(error, FileNotFoundError) else error.strerror
        raise UserError(f"--output: {output} cannot be written: {reason}") from error
    finally:
        temporary.unlink(missing_ok=True)


def refuse_standard_input(predict_file: str | None, num_processes: int) -> None:
    """Refuse rows from standard input where several processes would share it.

    Raises:
        UserError: with what to do.
    """
    if predict_file is None and num_processes > 1:
        raise UserError(
            f"data.predict_file: not set, and {num_processes} processes cannot share standard input; name a file, or "
            "set trainer.devices to 1"
        )
