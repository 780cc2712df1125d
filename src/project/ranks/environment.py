"""What the environment says of this process: whether a launcher started it as one of several ranks."""

from __future__ import annotations

import os

COMMAND = "TWINLOOP_COMMAND"
"""Variable in which a command leaves its arguments, as they were given, for the ranks that it starts."""


def is_rank() -> bool:
    """Whether torchrun, or `ranks.launch`, started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def is_main() -> bool:
    """Whether this process logs, prints and saves for all ranks."""
    return not is_rank() or os.environ["RANK"] == "0"
