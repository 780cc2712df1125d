"""The LightningDataModule: which split each stage opens, and its loader."""

from __future__ import annotations

from typing import Any

import lightning as L
from torch.utils.data import DataLoader

from project.checkpoint.classifier import tokenizer_in
from project.data.config import DataConfig
from project.data.dataset import Example
from project.data.splits import Data

SPLITS = {"fit": ("train", "val"), "validate": ("val",), "test": ("test",), "predict": ("predict",)}


class JsonlDataModule(L.LightningDataModule):
    """Rows of JSONL files as batches; its arguments are the fields of `DataConfig`."""

    def __init__(self, **config: Any) -> None:
        super().__init__()
        self.rows = Data(DataConfig(**config))
        self.tokenizer_from: str | None = None
        """A checkpoint whose tokenizer a new run takes over together with its weights; `model.init_from`."""
        self.start = (0, 0)
        """Epoch and micro-batch from which the training rows are read."""

    def setup(self, stage: str) -> None:
        """Prepare what `stage` needs; `test_file` is opened by the test stage alone."""
        if not hasattr(self.rows, "vocabulary"):
            loaded = getattr(self.trainer and self.trainer.lightning_module, "vocabulary", None)
            if loaded is not None:  # the module comes from `load_from_checkpoint`
                self.rows.vocabulary = loaded
            else:
                self.rows.fit_vocabulary(tokenizer_in(self.tokenizer_from) if self.tokenizer_from else None)
        for split in SPLITS[stage]:
            self.rows.open_split(split)

    def train_dataloader(self) -> DataLoader[Example]:
        """Micro-batches in the order of (seed, epoch)."""
        loader = self._loader("train")
        loader.batch_sampler.seek(*self.start)  # type: ignore[union-attr]
        return loader

    def val_dataloader(self) -> DataLoader[Example]:
        """Micro-batches in the file's order."""
        return self._loader("val")

    def test_dataloader(self) -> DataLoader[Example]:
        """Micro-batches in the file's order."""
        return self._loader("test")

    def predict_dataloader(self) -> DataLoader[Example]:
        """Micro-batches in the file's order."""
        return self._loader("predict")

    def _loader(self, split: str) -> DataLoader[Example]:
        assert self.trainer is not None
        return self.rows.loader(split, rank=self.trainer.global_rank, world_size=self.trainer.world_size)
