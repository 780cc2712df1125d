"""The figure to beat: TF-IDF of words and word pairs, then logistic regression (scikit-learn), on any two JSONL files.

    python scripts/baseline.py data/errors/train.jsonl data/errors/test.jsonl

Words are what stands between white space, in lower case; counts enter as 1 + log(count); the penalty is weak (C = 10).
For pasted logs scikit-learn's own words, runs of letters, digits and underscores, are the stronger choice; take them
with `--words`.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, f1_score

from project.data.rows import DataError, Label, load_rows

WORDS = r"\S+"


class Result(NamedTuple):
    num_train: int
    num_test: int
    num_classes: int
    """Classes in the training file."""
    accuracy: float
    macro_f1: float
    """Mean of F1 over the classes that occur among the test labels or the predictions."""
    seconds: float
    """Wall time of vectorising, fitting and predicting; reading the files is not in it."""


def read(path: Path) -> tuple[list[str], list[Label]]:
    """Texts and labels by the project's own rules. Raises DataError."""
    with tempfile.TemporaryDirectory() as cache_dir:
        rows = load_rows(path, cache_dir)
        return list(rows.texts()), list(rows.labels or [])


def measure(train_file: Path, test_file: Path, words: str = WORDS) -> Result:
    """Fit on one file, count on the other. Raises DataError for a file that is not as it should be."""
    train_texts, train_labels = read(train_file)
    test_texts, test_labels = read(test_file)
    # numbers for labels: scikit-learn refuses a mixture of strings and ints, and a test label may be new
    number: dict[Label, int] = {}
    train, test = (
        [number.setdefault(label, len(number)) for label in labels] for labels in (train_labels, test_labels)
    )
    if len(set(train)) < 2:
        raise DataError(f"{train_file}: every row has the label {train_labels[0]!r}; a classifier needs two classes")

    start = time.perf_counter()
    vectorizer = TfidfVectorizer(ngram_range=(1, 2), token_pattern=words, sublinear_tf=True)
    model = LogisticRegression(C=10, max_iter=1000)
    model.fit(vectorizer.fit_transform(train_texts), train)
    predicted = model.predict(vectorizer.transform(test_texts))
    seconds = time.perf_counter() - start
    return Result(
        num_train=len(train),
        num_test=len(test),
        num_classes=len(set(train)),
        accuracy=float(accuracy_score(test, predicted)),
        macro_f1=float(f1_score(test, predicted, average="macro", zero_division=0)),
        seconds=seconds,
    )


def main(argv: Sequence[str]) -> int:
    """Measure and print; the exit status is 0, or 1 for files that cannot be used."""
    parser = argparse.ArgumentParser(description="TF-IDF + logistic regression on two JSONL files.", allow_abbrev=False)
    parser.add_argument("train_file", type=Path)
    parser.add_argument("test_file", type=Path)
    parser.add_argument("--words", default=WORDS, metavar="REGEX", help="what a word is; default: %(default)s")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the table")
    options = parser.parse_args(argv)
    try:
        result = measure(options.train_file, options.test_file, options.words)
    except (DataError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps(result._asdict()))
        return 0
    table = Table(title="TF-IDF (1, 2) + logistic regression")
    for heading in ("train rows", "test rows", "classes", "accuracy", "macro-F1", "seconds"):
        table.add_column(heading, justify="right")
    table.add_row(
        f"{result.num_train:,}",
        f"{result.num_test:,}",
        str(result.num_classes),
        f"{result.accuracy:.1%}",
        f"{result.macro_f1:.1%}",
        f"{result.seconds:.1f}",
    )
    Console().print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
