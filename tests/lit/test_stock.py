"""LitClassifier is a LightningModule like any other: stock Trainer, loggers, checkpoints, weight averaging."""

from __future__ import annotations

import copy
import csv
import dataclasses
import functools
import inspect
import math
import pickle
import random
import typing
from pathlib import Path
from typing import Any

import lightning as L
import pytest
import torch
from lightning.pytorch.callbacks import (
    EarlyStopping,
    EMAWeightAveraging,
    ModelCheckpoint,
    StochasticWeightAveraging,
    WeightAveraging,
)
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from project.__main__ import main
from project.between.early_stopping import EarlyStopping as Rule
from project.checkpoint.config import EarlyStopping as EarlyStoppingConfig
from project.learn.recipe import Recipe
from project.lit.module import LitClassifier
from project.network import Pooling
from small_runs import data_module, lit_module
from tiny_corpus import Corpus

CALM = functools.partial(Pooling, dim=8, dropout=0.0)
"""A network that draws no random numbers: Lightning's own checkpoints hold no random state."""


def stock_trainer(folder: Path, **settings: Any) -> L.Trainer:
    """As a person writes it who knows nothing of this project."""
    usual: dict[str, Any] = {"accelerator": "cpu", "max_epochs": 2, "logger": False, "default_root_dir": folder}
    return L.Trainer(enable_progress_bar=False, enable_model_summary=False, **(usual | settings))


def same_weights(one: torch.nn.Module, other: torch.nn.Module) -> bool:
    pairs = zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.filterwarnings(
    "ignore:Checkpoint directory .* exists and is not empty"
)  # a run that goes on finds its own
def test_a_stock_trainer_logs_saves_and_goes_on(corpus: Corpus, tmp_path: Path) -> None:
    loggers = [CSVLogger(tmp_path / "csv"), TensorBoardLogger(tmp_path / "tb")]
    saves = ModelCheckpoint(tmp_path / "saved", save_top_k=-1)
    trainer = stock_trainer(tmp_path, logger=loggers, callbacks=[saves], log_every_n_steps=2)
    module = lit_module(network=CALM)
    trainer.fit(module, datamodule=data_module(corpus))

    file = next((tmp_path / "csv").rglob("metrics.csv"))
    rows = list(csv.DictReader(file.read_text(encoding="utf-8").splitlines()))
    assert [int(row["step"]) for row in rows if row["train/loss"]] == [2, 4, 6, 8, 10, 12, 14]
    assert [int(row["step"]) for row in rows if row["val/accuracy"]] == [7, 14]
    assert float(rows[-1]["val/loss"]) == module.metrics["val/loss"]
    events = EventAccumulator(str(next((tmp_path / "tb").rglob("events*")).parent))
    events.Reload()
    assert [scalar.step for scalar in events.Scalars("val/loss")] == [7, 14]

    loaded = LitClassifier.load_from_checkpoint(saves.best_model_path, network=CALM, optimizer=torch.optim.SGD)
    assert same_weights(loaded.network, module.network)
    assert loaded.vocabulary.labels == ("animal", "colour", "tool")
    stock_trainer(tmp_path).validate(loaded, datamodule=data_module(corpus), verbose=False)
    assert loaded.metrics == {name: value for name, value in module.metrics.items() if name.startswith("val/")}

    first_epoch = next((tmp_path / "saved").glob("epoch=0*"))
    again = lit_module(network=CALM)
    goes_on = stock_trainer(tmp_path, callbacks=[ModelCheckpoint(tmp_path / "saved", save_top_k=-1)])
    goes_on.fit(again, datamodule=data_module(corpus), ckpt_path=first_epoch)
    assert same_weights(again, module)


def test_a_trained_module_can_be_copied_and_pickled(corpus: Corpus, tmp_path: Path) -> None:
    module = lit_module()
    stock_trainer(tmp_path, max_steps=3).fit(module, datamodule=data_module(corpus))
    assert same_weights(copy.deepcopy(module), module)
    assert same_weights(pickle.loads(pickle.dumps(module)), module)


@pytest.mark.parametrize(
    "averaging",
    [
        '"StochasticWeightAveraging", "init_args": {"swa_lrs": 0.05, "device": "cpu"}',
        '"WeightAveraging"',
        '"EMAWeightAveraging"',
    ],
)
def test_weight_averaging_runs_under_the_command(averaging: str, corpus: Corpus) -> None:
    base = Path(__file__).parents[2] / "configs" / "default.yaml"
    small = ["--trainer.max_epochs=2", "--model.network=Pooling", "--model.lr_scheduler=null", "--data.batch_size=16"]
    command = [
        "fit",
        "--config",
        str(base),
        *corpus.arguments,
        *small,
        f'--trainer.callbacks=[{{"class_path": {averaging}}}]',
    ]
    assert main(command) == 0


@pytest.mark.filterwarnings("ignore:You're using the WeightAveraging callback with a model that overrides")
@pytest.mark.parametrize("averaging", [StochasticWeightAveraging(0.05), WeightAveraging(), EMAWeightAveraging()])
def test_weight_averaging_runs_in_a_stock_trainer(averaging: Any, corpus: Corpus, tmp_path: Path) -> None:
    module = lit_module()
    trainer = stock_trainer(tmp_path, callbacks=[averaging], enable_checkpointing=False)
    trainer.fit(module, datamodule=data_module(corpus))
    assert math.isfinite(module.metrics["val/loss"])


def test_the_signature_is_the_recipes() -> None:
    """Its keys, defaults and types, written out so that a reader, an editor and --help see them."""
    signature = inspect.signature(LitClassifier.__init__)
    types, hints = typing.get_type_hints(Recipe), typing.get_type_hints(LitClassifier.__init__)
    fields = dataclasses.fields(Recipe)
    assert list(signature.parameters)[1:] == [field.name for field in fields]
    for field in fields:
        parameter = signature.parameters[field.name]
        default = inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default
        assert parameter.default == default
        assert hints[field.name] == types[field.name]


@pytest.mark.parametrize("mode", ["min", "max"])
@pytest.mark.parametrize("patience", [0, 1, 3])
def test_early_stopping_is_lightnings_rule(mode: Any, patience: int) -> None:
    numbers = random.Random(patience)
    for _ in range(50):
        theirs = EarlyStopping("val/loss", min_delta=0.1, patience=patience, mode=mode, check_on_train_epoch_end=False)
        config = EarlyStoppingConfig(patience=patience, monitor="val/loss", mode=mode, min_delta=0.1)
        ours = Rule(config)
        while not ours.should_stop:
            value = numbers.choice([numbers.random(), numbers.random(), math.nan, math.inf])
            should_stop, _ = theirs._evaluate_stopping_criteria(torch.tensor(value, dtype=torch.float64))
            ours.validated({"val/loss": value})
            assert ours.should_stop == should_stop
            assert ours.num_without == theirs.wait_count
            assert ours.best_value == float(theirs.best_score)
