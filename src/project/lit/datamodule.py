"""The LightningDataModule: opens the splits of each stage."""

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
    """Batches of JSONL rows; takes the fields of `DataConfig`."""

    def __init__(self, **config: Any) -> None:
        super().__init__()
        self.rows = Data(DataConfig(**config))
        self.tokenizer_from: str | None = None
        """The checkpoint of `model.init_from`: a new run takes its tokenizer too."""
        self.start = (0, 0)
        """Epoch and micro-batch at which training starts."""

    def setup(self, stage: str) -> None:
        """Open the files of this stage, and no others.

        Raises:
            UserError: where a file or a row is faulty.
        """
        if not hasattr(self.rows, "vocabulary"):
            loaded = getattr(self.trainer and self.trainer.lightning_module, "vocabulary", None)
            if loaded is not None:  # by `load_from_checkpoint`
                self.rows.vocabulary = loaded
            else:
                self.rows.fit_vocabulary(tokenizer_in(self.tokenizer_from) if self.tokenizer_from else None)
        for split in SPLITS[stage]:
            self.rows.open_split(split)

    def train_dataloader(self) -> DataLoader[Example]:
        """Training micro-batches, in the order of (seed, epoch)."""
        loader = self._loader("train")
        loader.batch_sampler.seek(*self.start)  # type: ignore[union-attr]
        return loader

    def val_dataloader(self) -> DataLoader[Example]:
        """Validation micro-batches, in the file's order."""
        return self._loader("val")

    def test_dataloader(self) -> DataLoader[Example]:
        """Test micro-batches, in the file's order."""
        return self._loader("test")

    def predict_dataloader(self) -> DataLoader[Example]:
        """Prediction micro-batches, in the file's order."""
        return self._loader("predict")

    def _loader(self, split: str) -> DataLoader[Example]:
        assert self.trainer is not None
        return self.rows.loader(split, rank=self.trainer.global_rank, world_size=self.trainer.world_size)
