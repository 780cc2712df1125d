"""The `data` group of the configuration: which rows, and how they become batches."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from jsonargparse.typing import NonNegativeInt, PositiveInt

from project.data.tokenizer import TokenizerConfig


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
