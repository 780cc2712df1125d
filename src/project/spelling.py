"""The name that was probably meant, for messages about unknown ones."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The one of `names` that `name` shortens, or is spelt most like, whatever the case; None if none is."""
    name = name.casefold()
    spelt: dict[str, str] = {}
    for known in names:
        spelt.setdefault(known.casefold(), known)
    if name in spelt:
        return spelt[name]
    shortened = [known for known in spelt if known.startswith(name) and 2 * len(name) >= len(known)]
    found = shortened or difflib.get_close_matches(name, spelt, n=1, cutoff=0.7)
    return spelt[found[0]] if found else None
