"""One error message of the corpus, before anything is put around it.

Each module of `corpus.causes` yields messages; `corpus.surroundings` puts tracebacks, prompts and remarks around
them; `corpus.splits` sends each group to one split.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Origin = Literal["raised", "rendered"]


@dataclass(frozen=True)
class Frame:
    """One traceback entry; the innermost frame of a message comes last."""

    file: str
    line: int
    function: str
    source: str


@dataclass(frozen=True)
class Message:
    """An error's own words and what is known of where it came from.

    `group` is the operator, or the wording's template: all rows of a group fall into one split. `core` marks the
    wording that most people meet; core groups are always trained on, so validation and test hold none of them.
    """

    cause: str
    text: str  # without the exception class; may hold several lines
    exception: str  # "RuntimeError", "torch.OutOfMemoryError", …; "" where the message stands without a class
    group: str
    origin: Origin
    core: bool = False
    frames: tuple[Frame, ...] = field(default=())  # library frames that really (or typically) precede the message
