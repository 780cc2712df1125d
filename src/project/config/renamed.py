"""Import paths that have changed since a configuration or a checkpoint was written."""

from __future__ import annotations

import re

RENAMED = {"project.task.network": "project.network"}


def renamed(text: str) -> str:
    """The text with today's import paths."""
    for old, new in RENAMED.items():
        text = re.sub(rf"\b{re.escape(old)}(?=\.\w)", new, text)
    return text
