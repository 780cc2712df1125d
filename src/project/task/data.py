"""The files of a run as datasets and loaders; both twins read their rows through this."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from project.config import DataConfig
from project.errors import UserError
from project.task.batch import collate
from project.task.checkpoint import read_checkpoint
from project.task.dataset import Example, JsonlDataset
from project.task.order import OrderedBatches
from project.task.rows import DataError, load_rows
from project.task.vocabulary import Vocabulary


class Data:
    """Datasets by split, each opened through `open_split` when a stage needs it.

    `vocabulary` is fitted on the training rows, or taken beforehand from a checkpoint.
    """

    vocabulary: Vocabulary

    def __init__(self, config: DataConfig) -> None:
        self.config = config
        self.splits: dict[str, JsonlDataset] = {}

    def fit_vocabulary(self, tokenizer_from: str | Path | None = None) -> None:
        """Learn tokenizer and labels from the training rows; `tokenizer_from` names a checkpoint to keep those of.

        Raises:
            UserError: where the training rows or the checkpoint are faulty.
        """
        rows = load_rows(self._path("train_file"), self.config.cache_dir, empty_text=self.config.empty_text)
        self.vocabulary = Vocabulary.fit(rows, self.config.tokenizer, self.config.cache_dir)
        if tokenizer_from is not None:
            theirs = Vocabulary.from_state(read_checkpoint(tokenizer_from)["classifier"]["vocabulary"])
            self.vocabulary = Vocabulary(theirs.tokenizer, self.vocabulary.labels)

    def take_vocabulary(self, checkpoint: dict[str, Any]) -> None:
        """Use the vocabulary and the text length that a checkpoint's classifier was trained with."""
        self.vocabulary = Vocabulary.from_state(checkpoint["classifier"]["vocabulary"])
        self.config.max_tokens = int(checkpoint["classifier"]["max_tokens"])

    def open_split(self, split: str) -> JsonlDataset:
        """Prepare the rows of train, val, test or predict, through the cache.

        Raises:
            UserError: where the file is not set or its rows are faulty.
        """
        if split == "predict":
            self.splits[split] = self._predict_rows()
        else:
            self.splits[split] = self._prepared(self._path(f"{split}_file"), labelled=True)
        return self.splits[split]

    @property
    def label_counts(self) -> Tensor:
        """Training rows per class, (C,) int64."""
        labels = torch.from_numpy(self.splits["train"].labels.copy())
        return torch.bincount(labels, minlength=self.vocabulary.num_classes)

    def loader(self, split: str, rank: int = 0, world_size: int = 1) -> DataLoader[Example]:
        """Micro-batches of one rank: train in the order of (seed, epoch), the others whole and in the file's order."""
        dataset = self.splits[split]
        training = split == "train"
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
            pin_memory=torch.cuda.is_available(),
            # A generator of its own: iter() would otherwise draw from the stream that feeds dropout (pytorch 80119).
            generator=torch.Generator().manual_seed(self.config.seed),
        )

    def _path(self, key: str) -> str:
        path: str | None = getattr(self.config, key)
        if path is None:
            raise UserError(f"data.{key}: not set; name a .jsonl or .jsonl.gz file, such as --data.{key} rows.jsonl")
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
