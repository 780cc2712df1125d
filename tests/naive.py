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


def grouped(examples: Sequence[int], lengths: Sequence[int], global_batch_size: int, seed: int, epoch: int) -> list[int]:
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
    """The words of a text of the tiny corpus, such as `word12 cat`: a number of two digits becomes 00."""
    pieces = text.replace("word", "word ").split()
    return ["00" if len(piece) == 2 and piece.isdigit() else piece for piece in pieces]


def token_ids(texts: Sequence[str], max_tokens: int) -> list[list[int]]:
    """Ids of the texts' words: 1 for one seen once; from 2 on the others, the frequent first, then by the alphabet.

    A long text keeps its first and its last words.
    """
    counts = Counter(word for text in texts for word in words(text))
    known = sorted((word for word in counts if counts[word] >= 2), key=lambda word: (-counts[word], word))
    rows = [[known.index(word) + 2 if word in known else 1 for word in words(text)] for text in texts]
    num_last = max_tokens // 2
    num_first = max_tokens - num_last
    return [row if len(row) <= max_tokens else row[:num_first] + row[-num_last:] for row in rows]


def batch(rows: Sequence[Sequence[int]], labels: Sequence[int]) -> tuple[Tensor, Tensor, Tensor]:
    """Tokens (B, T), filled up with 0 at the end; lengths (B,); labels (B,)."""
    tokens = torch.zeros(len(rows), max(map(len, rows)), dtype=torch.int64)
    for place, row in enumerate(rows):
        for position, token in enumerate(row):
            tokens[place, position] = token
    return tokens, torch.tensor([len(row) for row in rows]), torch.tensor(labels)
