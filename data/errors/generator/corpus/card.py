"""The data card of the bundled corpus, written from the rows themselves."""
# ruff: noqa: E501  (running text and pools are kept on long lines)

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

import torch

from corpus.splits import SPLITS, Row, Split
from project.tools.causes import CAUSES

_HEAD = """# The bundled corpus: PyTorch's own errors

Texts of PyTorch errors as people paste them, labelled with their cause. One JSON object per line, `{{"text": …, "label": …}}`,
UTF-8.

{files}

`python data/errors/generator/make.py --seed {seed}` wrote these files and this card, with Python {python} and torch {torch}. The same
seed gives the same bytes with the same Python and the packages of `constraints.txt`. Do not edit them by hand; the
[generator](errors/generator/README.md) says how to change them.

## How it was made

1. **Messages.** Each cause has a module in `errors/generator/corpus/causes/`. Where a CPU can raise the error, it is raised: the
   module calls the operation with sizes, types or devices that do not fit, and keeps the exception's own words and the
   library's frames ("raised"). Where it cannot (CUDA, NCCL, MPS, wordings of torch 0.4 to 2.x that the installed version no longer
   uses, other libraries' wordings), the message is written from its known form with varied numbers ("rendered").
2. **Groups.** A message belongs to a group: its operator, or its wording. All rows of a group lie in one split. The commonest
   wordings ("core") are always trained on; of the other groups about an eighth each goes to validation and test, which
   therefore hold operators and wordings that no training row shows.
3. **Surroundings.** Tracebacks of invented programs, frameworks' frames, notebook arrows, logger and rank prefixes, chained exceptions,
   progress bars, remarks, Markdown, wrapping, ANSI codes, HTML and JSON escapes, and cuts are drawn without looking at the
   cause. A fifth of each pool (projects, files, remarks, prefixes, …) is used only outside training.
4. **Nothing of the machine.** Paths, process ids, host names and addresses in raised texts are replaced before anything is written.

Texts have 40 to 800 characters and 1 to 15 lines. No text is in two splits.
"""

_LIMITS = """
## Limits

- The surroundings are invented. Real pastes are messier, longer, and mention more libraries.
- Each text has one cause; a real log may hold several errors, and an error outside these causes is labelled as one of them all the
  same by a classifier trained here.
- Raised wordings are those of one torch version. Older and newer wordings are rendered from memory of their form and may
  differ in a word.
- The causes are balanced, which they are not in life.
- Validation and test measure wordings left out of training, but made by the same generator: they say little about texts of
  another origin.
"""


def card(rows: Mapping[Split, Sequence[Row]], digests: Mapping[Split, str], seed: int) -> str:
    """Return the text of `data/README.md`; `digests` holds the SHA-256 of each split's file."""
    files = ["| file | rows | SHA-256 |", "|---|---:|---|"]
    files += [f"| `errors/{split}.jsonl` | {len(rows[split])} | `{digests[split]}` |" for split in SPLITS]
    python, torch_version = f"{sys.version_info.major}.{sys.version_info.minor}", torch.__version__.split("+")[0]
    head = _HEAD.format(files="\n".join(files), seed=seed, python=python, torch=torch_version)
    parts = [head, _counts(rows), _definitions(), _groups(rows), _LIMITS]
    return "\n".join(part.strip("\n") + "\n" for part in parts)


def _counts(rows: Mapping[Split, Sequence[Row]]) -> str:
    """Return the table of rows by cause and split, and of messages by origin."""
    lines = [
        "## Counts",
        "",
        "Rows by split; then, over all rows, how many hold a raised and how many a rendered message, and how many distinct messages there are.",
        "",
        "| cause | train | val | test | raised rows | rendered rows | messages raised | messages rendered |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    causes = _causes(rows)
    totals = [0] * 7
    for cause in causes:
        own = {split: [row for row in rows[split] if row.message.cause == cause] for split in SPLITS}
        every = [row for split in SPLITS for row in own[split]]
        raised = sum(row.message.origin == "raised" for row in every)
        distinct = {row.message.text: row.message.origin for row in every}
        num_raised = sum(origin == "raised" for origin in distinct.values())
        figures = [*(len(own[s]) for s in SPLITS), raised, len(every) - raised, num_raised, len(distinct) - num_raised]
        totals = [total + figure for total, figure in zip(totals, figures, strict=True)]
        lines.append(f"| {cause} | " + " | ".join(map(str, figures)) + " |")
    return "\n".join([*lines, "| **all** | " + " | ".join(map(str, totals)) + " |"])


def _definitions() -> str:
    lines = ["## Causes", "", "Where two could claim a text, the one that names what to do wins.", ""]
    return "\n".join(lines + [f"- **{cause.name}**: {cause.title}. {cause.meaning}" for cause in CAUSES.values()])


def _groups(rows: Mapping[Split, Sequence[Row]]) -> str:
    """Return the groups of each cause and split; rows of a group are all raised, all rendered, or of both kinds."""
    lines = ["## Groups by split", "", "`*` core, `r` raised, `t` rendered from a template.", ""]
    for cause in _causes(rows):
        lines.append(f"### {cause}")
        for split in SPLITS:
            marks: dict[str, set[str]] = {}
            for row in rows[split]:
                if row.message.cause == cause:
                    mark = ("*" if row.message.core else "") + ("r" if row.message.origin == "raised" else "t")
                    marks.setdefault(row.message.group, set()).add(mark)
            names = ", ".join(f"{group} ({'/'.join(sorted(marks[group]))})" for group in sorted(marks))
            lines.append(f"- {split}: {names}")
        lines.append("")
    return "\n".join(lines)


def _causes(rows: Mapping[Split, Sequence[Row]]) -> list[str]:
    present = {row.message.cause for split in SPLITS for row in rows[split]}
    return [name for name in CAUSES if name in present]
