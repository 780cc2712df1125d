"""The files of a run as datasets and loaders, for both twins."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from project.data.batch import collate
from project.data.config import DataConfig
from project.data.dataset import Example, JsonlDataset
from project.data.order import OrderedBatches
from project.data.rows import DataError, Rows, load_rows, num_shared_texts
from project.data.tokenizer import Tokenizer
from project.data.vocabulary import Vocabulary

logger = logging.getLogger(__name__)

LOADER_TIMEOUT_SECONDS = 300
"""A batch takes milliseconds, so loader processes that take this long hang."""


def leave_signals_to_the_run(worker: int) -> None:
    """Ignore signals in a loader process: Slurm sends them to all, and the run uses its loaders until it has saved."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)


class Data:
    """The datasets of a run by split; `open_split` opens one when a stage needs it.

    `vocabulary` is fitted on the training rows or taken from a checkpoint, before any split is opened.
    """

    vocabulary: Vocabulary

    def __init__(self, config: DataConfig) -> None:
        self.config = config
        self.splits: dict[str, JsonlDataset] = {}

    def check_unchanged(self) -> None:
        """Check that the open files are unchanged; both twins call this at the start of each epoch.

        Raises:
            DataError: a file is gone or has other content.
        """
        for dataset in self.splits.values():
            dataset.rows.check_unchanged()

    def fit_vocabulary(self, tokenizer: Tokenizer | None = None) -> None:
        """Take the labels and fit the tokenizer from the training rows; a given `tokenizer` is used as it is.

        Raises:
            UserError: training or validation rows are faulty; the faults of both files are reported together.
        """
        found, faults = list[Rows](), list[str]()
        for key in ("train_file", "val_file"):
            try:
                found.append(load_rows(self._path(key), self.config.cache_dir, empty_text=self.config.empty_text))
            except DataError as error:
                faults.append(str(error))
        if faults:
            raise DataError("\n".join(faults))
        self.vocabulary = Vocabulary.fit(found[0], self.config.tokenizer, self.config.cache_dir)
        if tokenizer is not None:
            self.vocabulary = Vocabulary(tokenizer, self.vocabulary.labels)

    def take_vocabulary(self, checkpoint: dict[str, Any]) -> None:
        """Use the vocabulary and `max_tokens` of a checkpoint."""
        self.vocabulary = Vocabulary.from_state(checkpoint["classifier"]["vocabulary"])
        self.config.max_tokens = int(checkpoint["classifier"]["max_tokens"])

    def open_split(self, split: str) -> JsonlDataset:
        """Prepare the dataset of train, val, test or predict, and log its remarks.

        Raises:
            UserError: the file is not set, or its rows are faulty.
        """
        if split == "predict":
            self.splits[split] = self._predict_rows()
        else:
            self.splits[split] = self._prepared(self._path(f"{split}_file"), labelled=True)
        for remark in self._remarks(split):
            logger.warning("warning: %s", remark)
        return self.splits[split]

    @property
    def label_counts(self) -> Tensor:
        """Training rows per class, (C,) int64."""
        labels = torch.from_numpy(self.splits["train"].labels.copy())
        return torch.bincount(labels, minlength=self.vocabulary.num_classes)

    def loader(self, split: str, rank: int = 0, world_size: int = 1) -> DataLoader[Example]:
        """The loader of one rank: train in the order of seed and epoch, the other splits in the file's order."""
        dataset = self.splits[split]
        training = split == "train"
        warnings.filterwarnings("ignore", "This DataLoader will create")  # _remarks says so, in one line
        return DataLoader(
            dataset,
            batch_sampler=OrderedBatches(
                len(dataset),
                self.config.batch_size,
                seed=self.config.seed if training else None,
                rank=rank,
                world_size=world_size,
                drop_last=self.config.drop_last and training,
                lengths=torch.from_numpy(dataset.num_tokens_of) if self.config.group_by_length and training else None,
            ),
            collate_fn=collate,
            num_workers=self.config.num_workers,
            persistent_workers=self.config.num_workers > 0,
            worker_init_fn=leave_signals_to_the_run,
            timeout=LOADER_TIMEOUT_SECONDS if self.config.num_workers else 0,
            pin_memory=torch.cuda.is_available(),
            # Without a generator, iter() draws from the global random stream, which dropout uses (pytorch 80119).
            generator=torch.Generator().manual_seed(self.config.seed),
        )

    def _remarks(self, split: str) -> list[str]:
        """What may be a mistake in a split, on the main process only."""
        if any(os.environ.get(name, "0") != "0" for name in ("RANK", "LOCAL_RANK")):
            return []
        rows = self.splits[split].rows
        remarks = rows.remarks
        if split == "val" and "train" in self.splits:
            train = self.splits["train"].rows
            num_shared = num_shared_texts(rows, train, self.config.cache_dir)
            if num_shared:
                share = f"{num_shared} of {len(rows)} texts are also in {train.path}"
                remarks.append(f"{rows.path}: {share}; metrics on training texts are too good")
        num_workers, num_cores = self.config.num_workers, len(os.sched_getaffinity(0))
        if split != "val" and num_workers > num_cores:
            remarks.append(
                f"data.num_workers: {num_workers} loader processes for {num_cores} cores; 0 is usually fastest"
            )
        return remarks

    def _path(self, key: str) -> str:
        path: str | None = getattr(self.config, key)
        if path is None:
            raise DataError(f"data.{key}: not set; name a .jsonl or .jsonl.gz file, such as --data.{key} rows.jsonl")
        return path

    def _prepared(self, path: str | Path, *, labelled: bool) -> JsonlDataset:
        return JsonlDataset(
            path,
            self.vocabulary,
            max_tokens=self.config.max_tokens,
            cache_dir=self.config.cache_dir,
            empty_text=self.config.empty_text,
            labelled=labelled,
        )

    def _predict_rows(self) -> JsonlDataset:
        if self.config.predict_file is not None:
            return self._prepared(self.config.predict_file, labelled=False)
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / "stdin.jsonl"
            with copy.open("wb") as file:
                shutil.copyfileobj(sys.stdin.buffer, file)
            try:
                return self._prepared(copy, labelled=False)
            except DataError as error:
                raise DataError(str(error).replace(str(copy), "standard input")) from None
