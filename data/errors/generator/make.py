"""Write the bundled corpus of PyTorch errors and its data card: `python data/errors/generator/make.py`.

Every cause has a module in `corpus.causes` that raises or renders its messages; `corpus.surroundings` pastes them
messily; `corpus.splits` keeps the groups of the splits apart. The same seed, Python and packages give the same bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import os
import random
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from corpus.card import card
from corpus.message import Message
from corpus.splits import SPLITS, Row, Split, assign_groups, draw_rows
from project.tools.causes import CAUSES

DATA = Path(__file__).resolve().parents[2]
DEFAULT_SEED, DEFAULT_ROWS = 1, 450


def cause_names() -> list[str]:
    """Return the causes that have a module, in the order of their definitions."""
    folder = Path(__file__).resolve().parent / "corpus" / "causes"
    return [name for name in CAUSES if (folder / f"{name}.py").is_file()]


def collect(cause: str, seed: int) -> list[Message]:
    """Return the messages of one cause, each text once; a text that a core group shares with another stays core.

    Raises:
        ValueError: a module yields a message of another cause, or a group that is partly core.
    """
    torch.manual_seed(seed)
    module = importlib.import_module(f"corpus.causes.{cause}")
    distinct: dict[tuple[str, str], Message] = {}
    is_core: dict[str, bool] = {}
    for message in module.messages(random.Random(f"{seed}/{cause}")):
        if message.cause != cause:
            raise ValueError(
                f"corpus.causes.{cause} yields a message of cause {message.cause!r}: {message.text[:80]!r}"
            )
        if is_core.setdefault(message.group, message.core) != message.core:
            raise ValueError(f"{cause}/{message.group}: core for some messages and not for others")
        distinct.setdefault((message.exception, message.text), message)
    return list(distinct.values())


def build(seed: int, num_rows: int, causes: Sequence[str]) -> dict[Split, list[Row]]:
    """Return each split's rows, shuffled: `num_rows` per cause for training, a tenth of that for each other split."""
    taken: set[str] = set()
    rows: dict[Split, list[Row]] = {split: [] for split in SPLITS}
    for cause in causes:
        messages = collect(cause, seed)
        split_of = assign_groups(messages, random.Random(f"{seed}/groups/{cause}"))
        for split in SPLITS:
            chosen = [message for message in messages if split_of[message.group] == split]
            wanted = num_rows if split == "train" else max(1, num_rows // 10)
            rng = random.Random(f"{seed}/{split}/{cause}")
            rows[split] += draw_rows(chosen, wanted, rng, train=split == "train", taken=taken)
    for split in SPLITS:
        random.Random(f"{seed}/order/{split}").shuffle(rows[split])
    return rows


def write_atomically(path: Path, text: str) -> None:
    """Write `text` beside `path` and move it there, so that no reader sees half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text, encoding="utf-8", newline="\n")
    os.replace(partial, path)


def write(rows: dict[Split, list[Row]], output: Path, seed: int) -> None:
    """Write the files of each split under `output/errors`, and the data card as `output/README.md`."""
    digests: dict[Split, str] = {}
    for split, members in rows.items():
        lines = [json.dumps({"text": row.text, "label": row.message.cause}, ensure_ascii=False) for row in members]
        text = "\n".join(lines) + "\n"
        digests[split] = hashlib.sha256(text.encode()).hexdigest()
        write_atomically(output / "errors" / f"{split}.jsonl", text)
    write_atomically(output / "README.md", card(rows, digests, seed))


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line, build, write, and say what was done."""
    parser = argparse.ArgumentParser(description="Write the bundled corpus of PyTorch errors and its data card.")
    parser.add_argument("--seed", type=int, default=DEFAULT_SEED, help=f"seed of all draws (default {DEFAULT_SEED})")
    parser.add_argument("--output", type=Path, default=DATA, help="folder to write into (default data/)")
    parser.add_argument(
        "--rows", type=int, default=DEFAULT_ROWS, help=f"training rows per cause (default {DEFAULT_ROWS})"
    )
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    start = time.perf_counter()
    rows = build(options.seed, options.rows, cause_names())
    write(rows, options.output, options.seed)
    for split in SPLITS:
        size = (options.output / "errors" / f"{split}.jsonl").stat().st_size
        num_groups = len({(row.message.cause, row.message.group) for row in rows[split]})
        print(f"{split:5} {len(rows[split]):6} rows  {num_groups:4} groups  {size / 1e6:.2f} MB")
    print(f"wrote {options.output}/errors and {options.output}/README.md in {time.perf_counter() - start:.1f} s")


if __name__ == "__main__":
    main()
