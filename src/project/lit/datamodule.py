"""The LightningDataModule: files to datasets to loaders."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import lightning as L
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from project.config import DataConfig
from project.errors import UserError
from project.task.batch import collate
from project.task.classifier import read_checkpoint
from project.task.dataset import Example, JsonlDataset
from project.task.order import OrderedBatches
from project.task.rows import DataError, load_rows
from project.task.vocabulary import Vocabulary


class JsonlDataModule(L.LightningDataModule):
    """Rows of JSONL files as batches; its arguments are the fields of `DataConfig`.

    `vocabulary` is fitted on the training rows, or set beforehand from a checkpoint.
    """

    train: JsonlDataset
    val: JsonlDataset
    test: JsonlDataset
    predict: JsonlDataset
    vocabulary: Vocabulary

    def __init__(self, **config: Any) -> None:
        super().__init__()
        self.config = DataConfig(**config)
        self.tokenizer_from: str | None = None
        """A checkpoint whose tokenizer a new run takes over together with its weights; `model.init_from`."""

    def take_vocabulary(self, checkpoint: dict[str, Any]) -> None:
        """Use the vocabulary and the text length that a checkpoint's classifier was trained with."""
        self.vocabulary = Vocabulary.from_state(checkpoint["classifier"]["vocabulary"])
        self.config.max_tokens = int(checkpoint["classifier"]["max_tokens"])

    def setup(self, stage: str) -> None:
        """Prepare the rows that `stage` needs, through the cache; `test_file` is opened by the test stage alone."""
        if stage == "fit":
            if not hasattr(self, "vocabulary"):
                self.vocabulary = self._fitted_vocabulary()
            self.train = self._dataset("train_file")
        if stage in ("fit", "validate"):
            self.val = self._dataset("val_file")
        if stage == "test":
            self.test = self._dataset("test_file")
        if stage == "predict":
            self.predict = self._predict_dataset()

    @property
    def label_counts(self) -> Tensor:
        """Training rows per class, (C,) int64."""
        labels = torch.from_numpy(self.train.labels.copy())
        return torch.bincount(labels, minlength=self.vocabulary.num_classes)

    def train_dataloader(self) -> DataLoader[Example]:
        """Micro-batches in the order of (seed, epoch)."""
        return self._loader(self.train, seed=self.config.seed)

    def val_dataloader(self) -> DataLoader[Example]:
        """Micro-batches in the file's order."""
        return self._loader(self.val)

    def test_dataloader(self) -> DataLoader[Example]:
        """Micro-batches in the file's order."""
        return self._loader(self.test)

    def predict_dataloader(self) -> DataLoader[Example]:
        """Micro-batches in the file's order."""
        return self._loader(self.predict)

    def _fitted_vocabulary(self) -> Vocabulary:
        rows = load_rows(self._path("train_file"), self.config.cache_dir, empty_text=self.config.empty_text)
        fitted = Vocabulary.fit(rows, self.config.tokenizer, self.config.cache_dir)
        if self.tokenizer_from is None:
            return fitted
        theirs = Vocabulary.from_state(read_checkpoint(self.tokenizer_from)["classifier"]["vocabulary"])
        return Vocabulary(theirs.tokenizer, fitted.labels)

    def _path(self, key: str) -> str:
        path: str | None = getattr(self.config, key)
        if path is None:
            raise UserError(f"data.{key}: not set; name a .jsonl or .jsonl.gz file, such as --data.{key} rows.jsonl")
        return path

    def _dataset(self, key: str) -> JsonlDataset:
        return self._prepared(self._path(key), labelled=True)

    def _prepared(self, path: str | Path, *, labelled: bool) -> JsonlDataset:
        return JsonlDataset(
            path,
            self.vocabulary,
            max_tokens=self.config.max_tokens,
            cache_dir=self.config.cache_dir,
            empty_text=self.config.empty_text,
            labelled=labelled,
        )

    def _predict_dataset(self) -> JsonlDataset:
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

    def _loader(self, dataset: JsonlDataset, seed: int | None = None) -> DataLoader[Example]:
        trainer = self.trainer
        batches = OrderedBatches(
            len(dataset),
            self.config.batch_size,
            seed=seed,
            rank=trainer.global_rank if trainer else 0,
            world_size=trainer.world_size if trainer else 1,
        )
        return DataLoader(
            dataset,
            batch_sampler=batches,
            collate_fn=collate,
            num_workers=self.config.num_workers,
            persistent_workers=self.config.num_workers > 0,
            pin_memory=torch.cuda.is_available(),
            # A generator of its own: iter() would otherwise draw from the stream that feeds dropout (pytorch 80119).
            generator=torch.Generator().manual_seed(self.config.seed),
        )
