"""Turn labelled texts kept in another form into the JSONL files that this project reads.

Every row that comes out is `{"text": …, "label": …}`. What may go in:

    csv      a comma-separated table; quoted fields may hold line breaks
    tsv      a tab-separated table, with quotes as in CSV or with none at all (see `sources.tsv_records`)
    lines    one example a line: the label, a space or tab, the text
    folder   a folder for each class, in it a file for each text; files beside the class folders are not read

    python scripts/to_jsonl.py reviews.csv --text review --label stars --output data/reviews
    python scripts/to_jsonl.py train.txt --encoding latin-1 --output data/train.jsonl

Tables: `--text` and `--label` name columns of the header; two numbers, counted from 1, mean that there is no header.
Labels become integers when **every** label of the source is written as a plain integer (`7`, `-1`; not `07` or `1.0`),
and stay strings otherwise: never a mixture. Blank lines are skipped, spaces around a label dropped, CRLF becomes LF.
"""

import argparse
import json
import os
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

from sources import Label, SourceError, guess_format, read

SPLITS = ("train", "val", "test")


def assign(rows: Sequence[tuple[str, Label]], shares: Sequence[Fraction], seed: int) -> list[int]:
    """The split, as a number, of each row; the same seed gives the same answer.

    Rows whose texts are the same but for white space form a group that stays together. Groups are shuffled and dealt
    out, the large ones first, each to the split that lacks most of the group's classes. What is lacking over all
    classes decides ties, so that many rare classes do not all leave the same split empty. Shares are exact fractions:
    with floats a rounding error would decide the ties.
    """
    groups: defaultdict[str, list[int]] = defaultdict(list)
    for index, (text, _) in enumerate(rows):
        groups[" ".join(text.split())].append(index)
    dealt = list(groups.values())
    random.Random(seed).shuffle(dealt)
    dealt.sort(key=len, reverse=True)

    num_rows = Counter(label for _, label in rows)
    lacking = [{label: share * count for label, count in num_rows.items()} for share in shares]
    lacking_in_all = [share * len(rows) for share in shares]
    chosen = [0] * len(rows)
    for group in dealt:
        labels = [rows[index][1] for index in group]
        needs = [
            (sum(lacking[split][label] for label in labels), lacking_in_all[split]) for split in range(len(shares))
        ]
        split = max(range(len(shares)), key=needs.__getitem__)
        for index, label in zip(group, labels, strict=True):
            chosen[index] = split
            lacking[split][label] -= 1
        lacking_in_all[split] -= len(group)
    return chosen


def write(files: dict[Path, list[tuple[str, Label]]]) -> None:
    """Write every file under a temporary name and only then rename: a failure leaves the old files as they were."""
    temporary = {path: path.with_name(f".{path.name}.{os.getpid()}.tmp") for path in files}
    try:
        for path, rows in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            with temporary[path].open("w", encoding="utf-8", newline="\n") as file:
                for text, label in rows:
                    file.write(json.dumps({"text": text, "label": label}, ensure_ascii=False) + "\n")
        for path, unfinished in temporary.items():
            os.replace(unfinished, path)
    finally:
        for unfinished in temporary.values():
            unfinished.unlink(missing_ok=True)


def count_table(files: dict[Path, list[tuple[str, Label]]]) -> str:
    """A line for each class and a column for each file."""
    counts = [Counter(label for _, label in rows) for rows in files.values()]
    labels = sorted(set().union(*counts), key=lambda label: (isinstance(label, str), label))
    heads = [path.name for path in files]
    lines = [["label", *heads], *([str(label), *(str(count[label]) for count in counts)] for label in labels)]
    lines.append(["all", *(str(count.total()) for count in counts)])
    widths = [max(len(cell) for cell in column) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join([line[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(line[1:], widths[1:], strict=True))])
        for line in lines
    )


def parse_shares(value: str) -> list[Fraction]:
    """`0.8,0.1,0.1` as exact fractions: shares of train, val and test, which sum to 1."""
    try:
        shares = [Fraction(part.strip()) for part in value.split(",")]
    except (ValueError, ZeroDivisionError):
        shares = []
    if len(shares) != len(SPLITS) or sum(shares) != 1 or min(shares) < 0 or not shares[0]:
        raise argparse.ArgumentTypeError(f"found {value!r}; give shares of train,val,test that sum to 1: 0.8,0.1,0.1")
    return shares


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="CSV, TSV, `label text` lines or a folder per class, to JSONL.", allow_abbrev=False
    )
    parser.add_argument("source", type=Path, help="a file, or a folder that holds a folder for each class")
    parser.add_argument(
        "--output", type=Path, required=True, metavar="PATH", help="FILE.jsonl, or a folder for the splits"
    )
    parser.add_argument("--format", choices=["csv", "tsv", "lines", "folder"], help="default: from the source's name")
    parser.add_argument(
        "--text", default="text", metavar="COLUMN", help="name, or number from 1 without header (default: text)"
    )
    parser.add_argument("--label", default="label", metavar="COLUMN", help="likewise (default: label)")
    parser.add_argument("--encoding", default="utf-8", help="of the source; for example latin-1 (default: utf-8)")
    parser.add_argument(
        "--split",
        type=parse_shares,
        metavar="SHARES",
        help="train,val,test of a folder (default: 0.8,0.1,0.1); a file of share 0 is neither written nor touched",
    )
    parser.add_argument("--seed", type=int, default=0, help="of the split (default: 0)")
    parser.add_argument("--overwrite", action="store_true", help="replace files that are there already")
    return parser


def main(argv: Sequence[str]) -> int:
    """Convert, print the counts, return the exit status: 0, or 2 with lines on standard error that say what to mend."""
    parser = make_parser()
    options = parser.parse_args(argv)
    single = options.output.suffix == ".jsonl"
    if single and options.split is not None:
        parser.error(f"--split needs a folder as --output, found the file {options.output}")
    try:
        rows = read(
            options.source,
            options.format or guess_format(options.source),
            options.encoding,
            options.text,
            options.label,
        )
        if single:
            files = {options.output: rows}
        else:
            shares = options.split or parse_shares("0.8,0.1,0.1")
            chosen = assign(rows, shares, options.seed)
            files = {
                options.output / f"{name}.jsonl": [
                    row for row, split in zip(rows, chosen, strict=True) if split == number
                ]
                for number, name in enumerate(SPLITS)
                if shares[number]
            }
            for path, part in files.items():
                if not part:
                    raise SourceError(
                        f"{options.source}: {len(rows)} rows are too few, none falls to {path.name}; change --split"
                    )
        there = [str(path) for path in files if path.exists()]
        if there and not options.overwrite:
            raise SourceError(
                f"{', '.join(there)}: there already; add --overwrite to replace, or name another --output"
            )
        write(files)
    except SourceError as error:
        print("error:", "\n".join(error.args), file=sys.stderr)
        return 2
    except OSError as error:
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    print(count_table(files))
    print(f"wrote {', '.join(map(str, files))}")
    if not single and (missing := {label for _, label in rows} - {label for _, label in next(iter(files.values()))}):
        print(f"warning: not in {next(iter(files))}: {', '.join(map(str, sorted(missing, key=str)))}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
