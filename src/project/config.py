"""The typed configuration that both twins read: one dataclass per group of the YAML, one docstring per key.

`model` is `project.task.recipe.Recipe`; `trainer` belongs to each twin, under Lightning's names.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any, Literal

from jsonargparse import ArgumentParser, Namespace
from jsonargparse.typing import NonNegativeInt, PositiveInt

from project.errors import UserError
from project.task.tokenizer import TokenizerConfig
from project.trace import Level

STRATEGIES = ("auto", "ddp", "ddp_find_unused_parameters_true")
"""How several processes may share the work: strategies that both twins implement, under Lightning's names."""

Monitor = Literal["val/loss", "val/accuracy", "val/macro_f1"]


@dataclass
class DataConfig:
    """Which rows, and how they become batches: the `data` group. A run needs nothing but the first two keys."""

    train_file: str | None = None
    """Training rows, .jsonl or .jsonl.gz: {"text": "...", "label": "..."} a line."""
    val_file: str | None = None
    """Validation rows."""
    test_file: str | None = None
    """Test rows; opened by the test command alone."""
    predict_file: str | None = None
    """Rows to label; only "text" is read. Standard input when not given."""
    batch_size: PositiveInt = 32
    """Examples per micro-batch and rank."""
    drop_last: bool = False
    """Leave out a training epoch's last micro-batch where it is not full; evaluation always reads every row."""
    num_workers: NonNegativeInt = 0
    """Loader processes. Rows are tokenised once and memory-mapped, so 0 is usually fastest."""
    max_tokens: PositiveInt = 256
    """A longer text keeps its head and its tail."""
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    """How text becomes tokens."""
    cache_dir: str = ".cache"
    """Where prepared rows are kept; safe to delete."""
    empty_text: Literal["refuse", "keep"] = "refuse"
    """What to do with a row whose text is empty or white space."""
    seed: int = 0
    """Seed of the training order; `seed_everything` sets it."""


@dataclass
class EarlyStopping:
    """End the run when validation stops improving."""

    patience: NonNegativeInt | None = None
    """Validations without improvement before the run ends; null: never."""
    monitor: Monitor = "val/macro_f1"
    """The metric that is watched."""
    mode: Literal["min", "max"] = "max"
    """Whether smaller or larger is better."""
    min_delta: float = 0.0
    """A smaller change is no improvement."""


@dataclass
class Checkpoint:
    """Which weights count as best; best.ckpt and last.ckpt are written in any case."""

    monitor: Monitor = "val/macro_f1"
    """The metric that decides."""
    mode: Literal["min", "max"] = "max"
    """Whether smaller or larger is better."""


@dataclass
class Trace:
    """What each step leaves behind in the run's trace.jsonl, for `compare`."""

    level: Level | None = None
    """cheap: example ids, losses, learning rates; full: also digests of all gradients and weights; null: no trace."""
    tensors_at: NonNegativeInt | None = None
    """Number of the trace's record, from 0, whose tensors are saved whole in trace.pt."""


def add_shared_arguments(parser: ArgumentParser, command: str) -> None:
    """Add what a command takes beside the trainer's keys and the two groups `model` and `data`."""
    parser.add_argument("--name", type=str, default="default", help="Runs go to <default_root_dir>/<name>.")
    parser.add_class_arguments(EarlyStopping, "early_stopping")
    parser.add_class_arguments(Checkpoint, "checkpoint")
    parser.add_class_arguments(Trace, "trace")
    if command != "fit":
        parser.add_argument("--ckpt_path", type=str | None, default=None, help="Checkpoint to evaluate.")
    if command == "predict":
        parser.add_argument("--output", type=str | None, default=None, help="File to write; else standard output.")
    parser.link_arguments("seed_everything", "data.seed", compute_fn=seed_of)
    parser.link_arguments("seed_everything", "model.seed", compute_fn=seed_of)


def check_launched(devices: int | str, num_nodes: int) -> None:
    """Hold what torchrun has started against what the configuration says.

    Raises:
        UserError: where the numbers of processes differ.
    """
    if "TORCHELASTIC_RUN_ID" in os.environ:
        started, wanted = int(os.environ["WORLD_SIZE"]), (1 if devices == "auto" else int(devices)) * num_nodes
        if started != wanted:
            raise UserError(
                f"trainer.devices: {devices} on each of {num_nodes} machines makes {wanted} processes, but torchrun "
                f"started {started}; give both the same number"
            )


def seed_of(seed_everything: bool | int) -> int:
    """The seed of order and weights; true and false mean 0, which Lightning takes for true."""
    return 0 if isinstance(seed_everything, bool) else seed_everything


def hyperparameters(config: Namespace) -> dict[str, int | float | str]:
    """What TensorBoard's hparams page shows of a parsed configuration: the keys that people vary, flat."""
    chosen: dict[str, Any] = {"batch_size": config.data.batch_size, "max_tokens": config.data.max_tokens}
    chosen |= {f"tokenizer.{key}": value for key, value in vars(config.data.tokenizer).items()}
    for group in ("network", "optimizer", "lr_scheduler"):
        part = config.model[group]
        if part is not None:
            chosen[group] = part.class_path.rpartition(".")[2]
            init_args = part.get("init_args")
            chosen |= {f"{group}.{key}": value for key, value in (vars(init_args) if init_args else {}).items()}
    chosen |= {key: config.trainer[key] for key in ("precision", "accumulate_grad_batches", "gradient_clip_val")}
    chosen |= {"label_smoothing": config.model.label_smoothing, "seed": config.seed_everything}
    return {key: _plain(value) for key, value in chosen.items()}


def _plain(value: Any) -> int | float | str:
    """jsonargparse hands over subclasses of int and float, which TensorBoard would take for text."""
    if isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return int(value)
    return float(value) if isinstance(value, float) else str(value)
