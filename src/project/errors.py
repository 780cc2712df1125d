"""The exception whose text is meant for the user, and the name that was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(ValueError):
    """Something that the user can mend; its text says what is wrong, where, what was found and what to do.

    Commands print it as it is, without a traceback, and exit with 2.
    """


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
