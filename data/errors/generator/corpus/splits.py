"""Send each group of messages to one split, and draw each split's rows.

Groups are operators or wordings. Core groups are trained on; of the others, about an eighth goes to validation and an
eighth to test, so that those splits hold operators and wordings that no training row shows.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from corpus.message import Message
from corpus.surroundings import surround

Split = Literal["train", "val", "test"]
SPLITS: tuple[Split, ...] = ("train", "val", "test")
CORE_WEIGHT = 4.0  # a core group's share of the training rows, against another group of the same size
HELD_OUT_SHARE = 0.125
MAX_TRIES = 200


@dataclass(frozen=True)
class Row:
    """One row of a file, and the message that it was made from."""

    text: str
    message: Message


def assign_groups(messages: Sequence[Message], rng: random.Random) -> dict[str, Split]:
    """Return the split of each group of one cause's messages.

    Raises:
        ValueError: the cause has too few groups outside the core to fill validation and test.
    """
    core = {message.group for message in messages if message.core}
    free = [group for group in dict.fromkeys(message.group for message in messages) if group not in core]
    num_held_out = max(2, round(len(free) * HELD_OUT_SHARE))
    if len(free) < 2 * num_held_out:
        raise ValueError(
            f"{messages[0].cause}: {len(free)} groups outside the core, at least {2 * num_held_out} needed"
        )
    rng.shuffle(free)
    splits: dict[str, Split] = dict.fromkeys(core, "train")
    for place, group in enumerate(free):
        splits[group] = "val" if place < num_held_out else "test" if place < 2 * num_held_out else "train"
    return splits


def draw_rows(
    messages: Sequence[Message], num_rows: int, rng: random.Random, *, train: bool, taken: set[str]
) -> list[Row]:
    """Return `num_rows` rows of one cause and split; their texts are new, and are added to `taken`.

    Groups are drawn with a weight that grows with the root of their size, so that neither a large group rules nor a
    small one is repeated too often.

    Raises:
        ValueError: no new text could be made.
    """
    groups: dict[str, list[Message]] = {}
    for message in messages:
        groups.setdefault(message.group, []).append(message)
    names = list(groups)
    weights = [len(groups[name]) ** 0.5 * (CORE_WEIGHT if groups[name][0].core else 1.0) for name in names]
    for members in groups.values():
        rng.shuffle(members)
    turns = dict.fromkeys(names, 0)
    rows = []
    for name in rng.choices(names, weights, k=num_rows):
        message = groups[name][turns[name] % len(groups[name])]
        turns[name] += 1
        for _ in range(MAX_TRIES):
            text = surround(message, rng, train=train)
            if text not in taken:
                break
        else:
            raise ValueError(f"{message.cause}/{message.group}: no new text in {MAX_TRIES} tries")
        taken.add(text)
        rows.append(Row(text, message))
    return rows
