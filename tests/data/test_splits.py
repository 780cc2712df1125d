"""The loaders of a run's splits."""

from __future__ import annotations

import pytest

from project.data.config import DataConfig
from project.data.splits import Data
from tiny_corpus import Corpus


@pytest.mark.parametrize(("drop_last", "train_sizes"), [(False, [8] * 6 + [2]), (True, [8] * 6)])
def test_drop_last_is_for_training_alone(corpus: Corpus, drop_last: bool, train_sizes: list[int]) -> None:
    """50 rows to train on, 20 to evaluate on, in micro-batches of 8."""
    config = DataConfig(
        train_file=str(corpus.train),
        val_file=str(corpus.val),
        test_file=str(corpus.test),
        predict_file=str(corpus.test),
        cache_dir=str(corpus.cache),
        batch_size=8,
        drop_last=drop_last,
    )
    data = Data(config)
    data.fit_vocabulary()
    sizes = {}
    for split in ("train", "val", "test", "predict"):
        data.open_split(split)
        loader = data.loader(split)
        sizes[split] = [len(batch.labels) for batch in loader]
        assert len(loader) == len(sizes[split])
    assert sizes == {"train": train_sizes, "val": [8, 8, 4], "test": [8, 8, 4], "predict": [8, 8, 4]}
