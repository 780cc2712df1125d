"""Wordings that a CPU cannot raise, rendered from the message's known form with varied values.

A template's `{slot}` is drawn when it is first met: the same name again gives the same value, and a digit at the end of
a name (`{rank}`, `{rank2}`) makes it another draw of the same kind. Literal braces are doubled, as in `str.format`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from corpus.message import Frame, Message
from corpus.raising import rendered

Slot = Callable[[random.Random], object]


@dataclass(frozen=True)
class Wording:
    """One template; `exception` may name alternatives, parted by `|`, that different releases raise."""

    group: str
    exception: str
    template: str
    core: bool = False
    frames: tuple[Frame, ...] = ()


class _Draws(dict[str, str]):
    """The values of one message's slots, drawn as `str.format_map` asks for them."""

    def __init__(self, rng: random.Random, slots: Mapping[str, Slot]) -> None:
        super().__init__()
        self._rng = rng
        self._slots = slots

    def __missing__(self, name: str) -> str:
        slot = self._slots[name.rstrip("0123456789")]
        self[name] = str(slot(self._rng))
        return self[name]


def one_of(*values: Any) -> Slot:
    """A slot that takes one of the values."""
    return lambda rng: rng.choice(values)


def between(low: int, high: int) -> Slot:
    """A slot that takes an integer from `low` to `high`, both included."""
    return lambda rng: rng.randint(low, high)


def fill(template: str, slots: Mapping[str, Slot], rng: random.Random) -> str:
    """The template with its slots drawn."""
    return template.format_map(_Draws(rng, slots))


def render(
    cause: str, wordings: Iterable[Wording], slots: Mapping[str, Slot], rng: random.Random, *, num_each: int
) -> Iterator[Message]:
    """Distinct messages of each wording: `num_each` at most, half as many again where the wording is core."""
    for wording in wordings:
        texts: set[str] = set()
        for _ in range(num_each + wording.core * (num_each // 2)):
            text = fill(wording.template, slots, rng)
            exception = rng.choice(wording.exception.split("|"))
            if text not in texts:
                texts.add(text)
                yield rendered(cause, wording.group, text, exception, core=wording.core, frames=wording.frames)
