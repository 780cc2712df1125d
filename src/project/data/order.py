"""The order of examples: a pure function of seed, epoch, position, rank and world size.

Each epoch draws a permutation from a generator of its own. A global batch is a slice of it, and rank r takes every
`world_size`-th example of the slice, from r on. So any number of ranks trains on the same global order, and a resumed
run seeks its place without replaying the epoch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor


def epoch_order(num_examples: int, seed: int, epoch: int) -> Tensor:
    """The order of the examples in epoch `epoch`, (num_examples,) int64."""
    return torch.randperm(num_examples, generator=epoch_generator(seed, epoch))


def epoch_generator(seed: int, epoch: int) -> torch.Generator:
    """A generator for one epoch.

    SplitMix64's multiplier and finaliser (Steele, Lea and Flood 2014) mix seed and epoch, so neighbouring seeds and
    epochs give unrelated orders.
    """
    mask = 2**64 - 1
    state = (seed * 0x9E3779B97F4A7C15 + epoch + 1) * 0x9E3779B97F4A7C15 & mask
    state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & mask
    state = (state ^ state >> 27) * 0x94D049BB133111EB & mask
    return torch.Generator().manual_seed((state ^ state >> 31) & (2**63 - 1))


CHUNK = 50
"""Global batches that are sorted by length together: many give batches of similar lengths, few mix better."""


def grouped_by_length(order: Tensor, lengths: Tensor, global_batch_size: int, generator: torch.Generator) -> Tensor:
    """The order with examples of similar length together, (N,) int64, which saves padding.

    Each `CHUNK` global batches are sorted by length, and then these batches are shuffled. A last batch that is not
    full stays last.

    Args:
        order: (N,) int64, the epoch's examples.
        lengths: (size of the dataset,) int64, tokens of each example.
        global_batch_size: examples of all ranks' micro-batches together.
        generator: shuffles the batches; the epoch's.
    """
    parts = []
    for chunk in torch.split(order, CHUNK * global_batch_size):
        batches = torch.split(chunk[lengths[chunk].argsort(stable=True)], global_batch_size)
        num_full = len(chunk) // global_batch_size
        parts += [batches[place] for place in torch.randperm(num_full, generator=generator)]
        parts += batches[num_full:]
    return torch.cat(parts)


def stand_in(index: int) -> int:
    """The index -1 - `index`, which marks row `index` as a stand-in.

    A rank without examples in a global batch takes a stand-in, so that it joins every collective. The row is not
    counted.
    """
    return -1 - index


def interleaved(parts: Sequence[Tensor]) -> Tensor:
    """All rows in the file's order, (N, …), from the ranks' shares; each of n ranks has every n-th row."""
    whole = parts[0].new_empty(sum(map(len, parts)), *parts[0].shape[1:])
    for rank, part in enumerate(parts):
        whole[rank :: len(parts)] = part
    return whole


class OrderedBatches:
    """A batch sampler: the example indices of one rank's micro-batches. `set_epoch` chooses the epoch.

    Args:
        num_examples: size of the dataset.
        batch_size: examples per micro-batch and rank.
        seed: seed of the order; None keeps the file's order, for evaluation.
        rank: this process, 0 <= rank < world_size.
        world_size: number of processes that share each global batch.
        drop_last: leave out an epoch's last micro-batch if it is not full on every rank.
        lengths: (num_examples,) int64, tokens of each example, to group examples of similar length; None: no groups.
    """

    def __init__(
        self,
        num_examples: int,
        batch_size: int,
        *,
        seed: int | None,
        rank: int = 0,
        world_size: int = 1,
        drop_last: bool = False,
        lengths: Tensor | None = None,
    ) -> None:
        self.num_examples = num_examples
        # No attribute `drop_last`: Lightning would take this for torch's BatchSampler and, for predictions, build it
        # again with arguments that this class does not have.
        self.num_visited = num_examples - num_examples % (batch_size * world_size) if drop_last else num_examples
        self.batch_size = batch_size
        self.seed = seed
        self.rank = rank
        self.world_size = world_size
        self.lengths = lengths
        self.epoch = 0
        self._sought = (0, 0)

    def set_epoch(self, epoch: int) -> None:
        """Use the order of this epoch from the next iteration on. Lightning calls this method too."""
        self.epoch = epoch

    def seek(self, epoch: int, micro_batch: int) -> None:
        """Begin epoch `epoch` at micro-batch `micro_batch`; every other epoch begins at 0. `len` does not change.

        Call it before the loader's iterator is made, since workers fetch ahead.
        """
        self.epoch = epoch
        self._sought = (epoch, micro_batch)

    @property
    def sampler(self) -> OrderedBatches:
        """This object: Lightning calls `set_epoch` of a loader's `batch_sampler.sampler` only."""
        return self

    def __len__(self) -> int:
        return -(-self.num_visited // (self.batch_size * self.world_size))

    def __iter__(self) -> Iterator[list[int]]:
        if self.seed is None:
            order = torch.arange(self.num_examples)
        else:
            order = epoch_order(self.num_examples, self.seed, self.epoch)[: self.num_visited]
        global_batch_size = self.batch_size * self.world_size
        if self.seed is not None and self.lengths is not None:
            generator = epoch_generator(self.seed, self.epoch)
            order = grouped_by_length(order, self.lengths, global_batch_size, generator)
        epoch, micro_batch = self._sought
        begin = micro_batch * global_batch_size if epoch == self.epoch else 0
        for start in range(begin, self.num_visited, global_batch_size):
            together = order[start : start + global_batch_size]
            mine = together[self.rank :: self.world_size].tolist()
            yield mine or [stand_in(int(together[0]))]
