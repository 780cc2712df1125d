"""What can stop a run from outside, in one line: memory, loader processes, folders; the rest keeps its traceback."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from project.errors import UserError


@contextmanager
def explained() -> Iterator[None]:
    """Turn an error that the user can mend into a `UserError`.

    Raises:
        UserError: what happened and what to do; any other error passes unchanged.
    """
    report = threading.excepthook

    def report_others(thread: threading.ExceptHookArgs) -> None:
        if not isinstance(thread.exc_value, OSError):  # TensorBoard's writer thread fails, then its caller does
            report(thread)

    threading.excepthook = report_others
    try:
        yield
    except (RuntimeError, MemoryError, OSError, UserError) as error:
        text = explanation(error)
        if text is None:
            raise
        raise UserError(text) from error
    finally:
        threading.excepthook = report


def explanation(error: Exception) -> str | None:
    """What is said of an error, or None where it has to speak for itself."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error).strip())
    first = re.split(r"[.]?\s*(?:\n|\. )", text)[0]
    if isinstance(error, UserError):  # out of a loader process it comes with that one's traceback
        raised = re.search(r"^[\w.]*Error: (.*)", text.rpartition("Traceback")[2], re.MULTILINE)
        return raised[1] if raised and "DataLoader worker process" in first else None
    if isinstance(error, torch.OutOfMemoryError | MemoryError) or "can't allocate memory" in text:
        wanted = re.search(r"tried to allocate ([\d.]+ \w+)", text, re.IGNORECASE)
        detail = f", {wanted[1]} more were asked for" if wanted else ""
        return (
            f"out of memory{detail}; take a smaller data.batch_size, with trainer.accumulate_grad_batches for windows "
            "of the same size, or a smaller data.max_tokens"
        )
    if re.search(r"DataLoader worker \(pid.*(killed by signal|exited unexpectedly)", text):
        return (
            f"data.num_workers: a loader process is gone ({first}), for lack of memory as a rule; take fewer of them, "
            "or 0: rows are memory-mapped, and loader processes rarely help"
        )
    if "loading state_dict" in text:
        detail = " ".join(text.partition("\n")[2].split())[:120]
        return f"the checkpoint's weights do not fit its network ({detail}); its class has changed since, or the file"
    if "DataLoader timed out" in text:
        return (
            f"data.num_workers: no batch came from the loader processes ({first}); see whether the disk of "
            "data.cache_dir answers, or take 0"
        )
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        path = os.fsdecode(error.filename)
        return f"{path}: {error.strerror}; see that its folder is there, can be written to and is not full"
    return None
