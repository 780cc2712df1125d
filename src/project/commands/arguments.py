"""What the commands of both twins take beside the trainer's keys and the groups `model` and `data`."""

from __future__ import annotations

from typing import Any

from jsonargparse import ArgumentParser, Namespace

from project.checkpoint.config import Checkpoint, EarlyStopping
from project.ranks.config import Distributed
from project.trace.config import Trace


def add_shared_arguments(parser: ArgumentParser, command: str) -> None:
    """Add what a command takes beside the trainer's keys and the two groups `model` and `data`."""
    parser.add_argument("--name", type=str, default="default", help="Runs go to <default_root_dir>/<name>.")
    parser.add_class_arguments(EarlyStopping, "early_stopping")
    parser.add_class_arguments(Checkpoint, "checkpoint")
    parser.add_class_arguments(Trace, "trace")
    parser.add_class_arguments(Distributed, "distributed")
    purpose = "Checkpoint to evaluate; for fit, the run to continue: last, best, or a checkpoint."
    parser.add_argument("--ckpt_path", type=str | None, default=None, help=purpose)
    if command == "predict":
        parser.add_argument("--output", type=str | None, default=None, help="File to write; else standard output.")
    parser.link_arguments("seed_everything", "data.seed", compute_fn=seed_of)
    parser.link_arguments("seed_everything", "model.seed", compute_fn=seed_of)


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
