"""Which example goes where: a pure function of (seed, epoch, position, rank, world size).

No loader state and no global random stream takes part. An epoch's order is a permutation drawn from a generator of
its own; a micro-batch is a slice of it; a rank's share of a micro-batch is every `world_size`-th example of that
slice. So the ranks' examples, interleaved, are the one-process order, and a resume is a seek rather than a replay.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor


def epoch_order(num_examples: int, seed: int, epoch: int) -> Tensor:
    """The order in which epoch `epoch` visits the examples, (num_examples,) int64."""
    return torch.randperm(num_examples, generator=epoch_generator(seed, epoch))


def epoch_generator(seed: int, epoch: int) -> torch.Generator:
    """A generator for one epoch alone.

    Seed and epoch are mixed by the multiplier and finaliser of SplitMix64 (Steele, Lea and Flood 2014), so that
    neighbouring seeds and epochs share nothing.
    """
    mask = 2**64 - 1
    state = (seed * 0x9E3779B97F4A7C15 + epoch + 1) * 0x9E3779B97F4A7C15 & mask
    state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & mask
    state = (state ^ state >> 27) * 0x94D049BB133111EB & mask
    return torch.Generator().manual_seed((state ^ state >> 31) & (2**63 - 1))


CHUNK = 50
"""Global batches among which examples are sorted by length: enough for batches of like lengths, few enough to mix."""


def grouped_by_length(order: Tensor, lengths: Tensor, global_batch_size: int, generator: torch.Generator) -> Tensor:
    """The order with examples of like length together, (N,) int64: it saves padding.

    Each stretch of `CHUNK` global batches is sorted by length, and its batches are then shuffled; a last one that is
    not full stays last.

    Args:
        order: (N,) int64, the examples that are visited.
        lengths: tokens of each example of the dataset, int64.
        global_batch_size: examples of all ranks' micro-batches together.
        generator: of the epoch, which the batches are shuffled with.
    """
    parts = []
    for chunk in torch.split(order, CHUNK * global_batch_size):
        batches = torch.split(chunk[lengths[chunk].argsort(stable=True)], global_batch_size)
        num_full = len(chunk) // global_batch_size
        parts += [batches[place] for place in torch.randperm(num_full, generator=generator)]
        parts += batches[num_full:]
    return torch.cat(parts)


def stand_in(index: int) -> int:
    """What stands for row `index` where a rank has none left: it joins every collective and counts for nothing.

    Such a row is real, and its index is negative: -1 - index.
    """
    return -1 - index


def interleaved(parts: Sequence[Tensor]) -> Tensor:
    """The rows of all in the file's order, (N, …), from each rank's share of them, which is every n-th row."""
    whole = parts[0].new_empty(sum(map(len, parts)), *parts[0].shape[1:])
    for rank, part in enumerate(parts):
        whole[rank :: len(parts)] = part
    return whole


class OrderedBatches:
    """A batch sampler: the example indices of one rank's micro-batches, epoch by epoch.

    With `seed` None the order is the file's own, which is what evaluation wants. The caller announces the epoch
    through `set_epoch`, under the name that Lightning calls too.

    Args:
        num_examples: size of the dataset.
        batch_size: examples per micro-batch and rank.
        seed: seed of the order, or None for the file's order.
        rank: this process, 0 <= rank < world_size.
        world_size: number of processes that share each micro-batch.
        drop_last: leave out an epoch's last micro-batch where it is not full on every rank.
        lengths: tokens of each example, (num_examples,) int64, where examples of like length are to come together.
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
        # No attribute `drop_last`: Lightning takes an object with that and `batch_size` for torch's BatchSampler and
        # builds it anew for predictions, with arguments that this class does not have.
        self.num_visited = num_examples - num_examples % (batch_size * world_size) if drop_last else num_examples
        self.batch_size = batch_size
        self.seed = seed
        self.rank = rank
        self.world_size = world_size
        self.lengths = lengths
        self.epoch = 0
        self._sought = (0, 0)

    def set_epoch(self, epoch: int) -> None:
        """Take the order of this epoch from the next iteration on."""
        self.epoch = epoch

    def seek(self, epoch: int, micro_batch: int) -> None:
        """Take the order of `epoch` next, from its micro-batch `micro_batch` on; every other epoch is whole.

        The length stays the epoch's. Called before the loader is asked for its iterator, since workers fetch ahead.
        """
        self.epoch = epoch
        self._sought = (epoch, micro_batch)

    @property
    def sampler(self) -> OrderedBatches:
        """Itself: Lightning announces an epoch to a loader's `batch_sampler.sampler`, never to the batch sampler."""
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
