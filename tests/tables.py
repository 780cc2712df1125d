"""What stands in the tables that commands print, whatever lines are drawn around it."""

from __future__ import annotations

import re

FRAME = r"[\u2500-\u257f]"
"""Any character that draws a line of a table."""


def rows(text: str) -> list[list[str]]:
    """The cells of each row of the tables in a text, the headings' among them."""
    lines = (re.split(rf"\s*{FRAME}\s*", line)[1:-1] for line in text.splitlines())
    return [cells for cells in lines if any(cells)]


def row(text: str, first: str) -> list[str]:
    """The cells that follow the one that begins a row."""
    (found,) = (cells[1:] for cells in rows(text) if cells[0] == first)
    return found
