"""What the data go through on their way to a network, written once more in the plainest way, without the project.

Tests hold the project's tokenizer, order and batches against these.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor

GOLDEN_GAMMA = 0x9E3779B97F4A7C15


def split_mix(state: int, count: int) -> int:
    """The `count`-th number, from 1, of SplitMix64 (Steele, Lea and Flood 2014), started in `state`."""
    for _ in range(count):
        state = (state + GOLDEN_GAMMA) % 2**64
    number = state
    number = ((number ^ (number // 2**30)) * 0xBF58476D1CE4E5B9) % 2**64
    number = ((number ^ (number // 2**27)) * 0x94D049BB133111EB) % 2**64
    return number ^ (number // 2**31)


def generator(seed: int, epoch: int) -> torch.Generator:
    """An epoch's generator: each seed begins a stream of SplitMix64, and each epoch takes its next number."""
    return torch.Generator().manual_seed(split_mix(seed * GOLDEN_GAMMA**2 % 2**64, epoch + 1) % 2**63)


def order(num_examples: int, seed: int, epoch: int) -> list[int]:
    """The order in which an epoch visits the examples."""
    found: list[int] = torch.randperm(num_examples, generator=generator(seed, epoch)).tolist()
    return found


def grouped(
    examples: Sequence[int], lengths: Sequence[int], global_batch_size: int, seed: int, epoch: int
) -> list[int]:
    """The order of an epoch, with examples of like length together in each 50 global batches."""
    drawn = generator(seed, epoch)
    found: list[int] = []
    for first in range(0, len(examples), 50 * global_batch_size):
        stretch = sorted(examples[first : first + 50 * global_batch_size], key=lambda example: lengths[example])
        batches = [stretch[begin : begin + global_batch_size] for begin in range(0, len(stretch), global_batch_size)]
        num_full = len(stretch) // global_batch_size
        for place in torch.randperm(num_full, generator=drawn).tolist():
            found += batches[place]
        for batch in batches[num_full:]:
            found += batch
    return found


def words(text: str) -> list[str]:
    """The words of a text of the tiny corpus, such as `word7 cat`: `word`, `7` and `cat`.

    A number of two digits becomes 00; word8 and word16 stay whole, since int8 and float16 do.
    """
    found = []
    for word in text.split():
        if word.startswith("word") and word not in ("word8", "word16"):
            number = word.removeprefix("word")
            found += ["word", number if len(number) == 1 else "00"]
        else:
            found.append(word)
    return found


def vocabulary(texts: Sequence[str]) -> list[str]:
    """The words seen twice or more, the frequent first, then by the alphabet; their ids are counted from 2."""
    counts = Counter(word for text in texts for word in words(text))
    return sorted((word for word in counts if counts[word] >= 2), key=lambda word: (-counts[word], word))


def token_ids(text: str, known: Sequence[str], max_tokens: int) -> list[int]:
    """Ids of the words, 1 for one that is not known; a long text keeps its first and its last words."""
    ids = [known.index(word) + 2 if word in known else 1 for word in words(text)]
    if len(ids) <= max_tokens:
        return ids
    num_last = max_tokens // 2
    return ids[: max_tokens - num_last] + ids[-num_last:]


def batch(rows: Sequence[Sequence[int]], labels: Sequence[int]) -> tuple[Tensor, Tensor, Tensor]:
    """Tokens (B, T), filled up with 0 at the end; lengths (B,); labels (B,)."""
    tokens = torch.zeros(len(rows), max(map(len, rows)), dtype=torch.int64)
    for place, row in enumerate(rows):
        for position, token in enumerate(row):
            tokens[place, position] = token
    return tokens, torch.tensor([len(row) for row in rows]), torch.tensor(labels)
