"""A corpus small enough to be written, tokenised and learnt within a second."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from pathlib import Path

WORDS = {
    "animal": ["cat", "dog", "horse", "whale"],
    "colour": ["red", "green", "blue", "brown"],
    "tool": ["saw", "hammer", "drill", "file"],
}


STRANGERS_NETWORK = """\
import torch


class Bag(torch.nn.Module):
    def __init__(self, num_tokens, num_classes, width: int = 4):
        super().__init__()
        self.bag = torch.nn.EmbeddingBag(num_tokens, width, padding_idx=0)
        self.out = torch.nn.Linear(width, num_classes)

    def forward(self, tokens, lengths):
        return self.out(self.bag(tokens))
"""
"""A module of somebody who knows nothing of this project but the contract of a network."""


@dataclass(frozen=True)
class Corpus:
    """Files of a corpus that a network learns within a few steps."""

    folder: Path
    train: Path
    val: Path
    test: Path
    cache: Path
    """Of what is prepared from them; may be shared with other corpora."""

    @property
    def arguments(self) -> list[str]:
        """Options that point a command at these files and keep its runs beside them."""
        return [
            f"--data.train_file={self.train}",
            f"--data.val_file={self.val}",
            f"--data.test_file={self.test}",
            f"--data.cache_dir={self.cache}",
            f"--trainer.default_root_dir={self.folder / 'runs'}",
        ]


def write_corpus(
    folder: Path, num_train: int = 50, num_val: int = 20, num_test: int = 20, cache: Path | None = None
) -> Corpus:
    """Write the three files of a tiny corpus into `folder`; they are prepared in `cache`, or there too."""
    random_numbers = random.Random(7)

    def row() -> dict[str, str]:
        label = random_numbers.choice(sorted(WORDS))
        filler = [f"word{random_numbers.randrange(30)}" for _ in range(random_numbers.randrange(1, 12))]
        filler.insert(random_numbers.randrange(len(filler) + 1), random_numbers.choice(WORDS[label]))
        return {"text": " ".join(filler), "label": label}

    paths = {}
    for name, num_rows in (("train", num_train), ("val", num_val), ("test", num_test)):
        paths[name] = folder / f"{name}.jsonl"
        lines = [json.dumps(row()) for _ in range(num_rows)]
        paths[name].write_text("\n".join(lines) + "\n", encoding="utf-8")
    return Corpus(folder, **paths, cache=cache or folder / "cache")
