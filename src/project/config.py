"""The typed configuration that both twins read: one dataclass per group of the YAML, one docstring per key.

`model` is `project.task.recipe.Recipe`; `trainer` belongs to each twin, under Lightning's names.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from jsonargparse import ArgumentParser, Namespace
from jsonargparse.typing import NonNegativeInt, PositiveFloat, PositiveInt

from project.errors import UserError
from project.task.tokenizer import TokenizerConfig
from project.trace import Level

Strategy = Literal["auto", "ddp", "ddp_find_unused_parameters_true", "ddp_spawn", "ddp_fork", "fsdp2"]
"""How several processes may share the work: what both twins implement, under Lightning's names.

auto is ddp where there are several processes. `fsdp2` is Lightning's ModelParallelStrategy around `fully_shard`.
"""

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
    group_by_length: bool = False
    """Train on micro-batches of rows of like length, which saves padding; evaluation keeps the file's order."""
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
class Distributed:
    """How several processes work together; trainer.strategy, devices and num_nodes say in what way and how many."""

    timeout_seconds: PositiveFloat = 1800.0
    """How long a rank waits for the others in a collective before the run ends with an error."""
    static_graph: bool = False
    """Tell DistributedDataParallel that every step uses the same parameters; not with accumulated micro-batches."""
    gradient_as_bucket_view: bool = False
    """Let gradients live in DistributedDataParallel's buckets, which saves a copy of them."""
    reduce_once_per_window: bool = False
    """fsdp2: add gradients up on a window's last micro-batch alone, as ddp does; faster, and takes more memory."""

    def check(self, strategy: str, accumulate_grad_batches: int) -> None:
        """Hold the options against the strategy.

        Raises:
            UserError: one line for each option that the strategy does not know.
        """
        faults = []
        is_sharded = strategy == "fsdp2"
        if self.static_graph and accumulate_grad_batches > 1:
            faults.append(
                "distributed.static_graph: true, but torch's static graph takes no accumulated micro-batches "
                f"(trainer.accumulate_grad_batches: {accumulate_grad_batches}); turn one of them off"
            )
        for key in ("static_graph", "gradient_as_bucket_view"):
            if is_sharded and getattr(self, key):
                faults.append(f"distributed.{key}: true is an option of the ddp strategies, not of fsdp2; turn it off")
        if self.reduce_once_per_window and not is_sharded:
            faults.append(
                f"distributed.reduce_once_per_window: true is an option of fsdp2, not of {strategy}, which does so in "
                "any case; turn it off"
            )
        if faults:
            raise UserError("\n".join(faults))


@dataclass
class Checkpoint:
    """Which weights count as best, and when last.ckpt is written beside after every validation and at the end."""

    monitor: Monitor = "val/macro_f1"
    """The metric that decides."""
    mode: Literal["min", "max"] = "max"
    """Whether smaller or larger is better."""
    save_every_n_steps: PositiveInt | None = None
    """Optimizer steps between writing last.ckpt; null: validations alone decide."""
    save_every_minutes: PositiveFloat | None = None
    """Minutes between writing last.ckpt, at the next optimizer step; null: validations alone decide."""
    async_save: bool = False
    """Write in the background: a step waits for a copy of the tensors in the CPU's memory only."""
    keep_last: PositiveInt = 1
    """How many of the newest are kept: last.ckpt, and before it step-<step>.ckpt. best.ckpt is kept in any case."""


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
    parser.add_class_arguments(Distributed, "distributed")
    purpose = "Run to continue: last, best, or a checkpoint." if command == "fit" else "Checkpoint to evaluate."
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
