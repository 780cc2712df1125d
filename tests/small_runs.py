"""Module, data module and Trainer of a run on the tiny corpus, for tests of the Lightning twin's parts."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import lightning as L
import torch

from project.lit.datamodule import JsonlDataModule
from project.lit.module import LitClassifier
from project.network import Pooling
from tiny_corpus import Corpus


def data_module(corpus: Corpus, **changes: Any) -> JsonlDataModule:
    settings = {"train_file": str(corpus.train), "val_file": str(corpus.val), "test_file": str(corpus.test)}
    return JsonlDataModule(**(settings | {"cache_dir": str(corpus.cache), "batch_size": 8} | changes))


def lit_module(**changes: Any) -> LitClassifier:
    settings: dict[str, Any] = {
        "network": functools.partial(Pooling, dim=8),
        "optimizer": functools.partial(torch.optim.SGD, lr=0.1),
    }
    return LitClassifier(**(settings | changes))


def trainer(folder: Path, **settings: Any) -> L.Trainer:
    merged: dict[str, Any] = {
        "accelerator": "cpu",
        "max_epochs": 1,
        "default_root_dir": folder,
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "num_sanity_val_steps": 0,
        "use_distributed_sampler": False,
    }
    return L.Trainer(**(merged | settings))
