"""What tests leave out, in their own process and in those that they start: waiting for the disk, and pictures."""

from __future__ import annotations

import functools
import os

import docstring_parser
import pytest
from tensorboard.summary.writer import event_file_writer
from torch.utils.tensorboard import SummaryWriter


def do_not_wait(patch: pytest.MonkeyPatch) -> None:
    """No test pulls the plug, so none waits for the disk; and jsonargparse reads the docstrings of a class once."""
    patch.setattr(os, "fsync", lambda file: None)
    # TensorBoard reads the files of one second and process in the order of their names, where 100 comes before 98.
    patch.setattr(event_file_writer, "_global_uid", event_file_writer.AtomicCounter(10**6))
    patch.setattr(docstring_parser, "parse_from_object", functools.cache(docstring_parser.parse_from_object))


def draw_nothing(patch: pytest.MonkeyPatch) -> None:
    """The picture of a validation takes longer than the validation."""
    patch.setattr(SummaryWriter, "add_figure", lambda *_: None)
