"""Breaks one line of the code that both twins share, many times over, and counts how often the tests notice.

    python scripts/mutants.py            # what `make mutants` runs

Comparing the twins cannot find a mistake in what they share; other tests have to. Each mutant is an edit of a copy of
the source. The everyday tests of its file run against it, then those that share no code with the project.
"""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = Path("src") / "project"

SERVER = multiprocessing.get_context("forkserver")
"""Forks a process for each run of tests, which saves importing torch and Lightning each time."""

LEARN, DATA, NETWORK = "tests/learn/", "tests/data/", "tests/network/"
EVERY = ("tests/test_oracles.py", "tests/test_textbook.py")
"""What runs against each mutant that its own tests let pass."""


class Part(NamedTuple):
    """A file below src/project, the tests of it, and what is done to it."""

    file: str
    tests: Sequence[str]
    edits: Sequence[tuple[str, str, str]]
    """A part of a line, which stands in the file exactly once; what takes its place; what is wrong then."""


PARTS = [
    Part(
        "learn/objective.py",
        [LEARN + "test_objective.py", LEARN + "test_arithmetic.py"],
        [
            (" label_smoothing=label_smoothing,", "", "no label is smoothed"),
            ("class_weights[labels]", "class_weights.mean()", "all classes weigh alike"),
            ("return losses.sum()", "return losses.mean()", "a mean over the micro-batch instead of a sum"),
            ("float(num_examples)", "float(len(gradients))", "divided by the number of tensors"),
            ("(len(counts) * counts)", "counts", "balanced weights have another mean"),
            ("torch.round(", "torch.floor(", "evaluation losses are rounded down"),
            ("(logits.float(), labels, reduction", "(logits, labels, reduction", "evaluated in half precision"),
            ("occurring = support + predicted > 0", "occurring = support > 0", "macro-F1 leaves classes out"),
            ("correct / predicted", "correct / support", "precision is recall"),
            ("2 * correct /", "correct /", "F1 is half of it"),
            ("LOSS_UNIT / num_examples", "LOSS_UNIT / len(confusion)", "the loss is divided by the classes"),
        ],
    ),
    Part(
        "learn/interval.py",
        [LEARN + "test_interval.py"],
        [("+= num_examples", "+= 1", "the logged loss is divided by micro-batches")],
    ),
    Part(
        "learn/plan.py",
        [LEARN + "test_plan.py", LEARN + "test_arithmetic.py"],
        [
            (" == 0 or self.closes_epoch(micro_batch)", " == 0", "an epoch's short last window is dropped"),
            ("range(self.rank, ", "range(0, ", "every rank counts like the first one"),
            ("self.num_examples - micro_batch * global_batch_size", "self.num_examples", "the last one counts as full"),
            ("-(-self.num_micro_batches // self", "(self.num_micro_batches // self", "a short window is no step"),
            ("due = (epoch + 1) %", "due = epoch %", "validations come an epoch late"),
            ("else min(by_epochs, self.max_steps)", "else by_epochs", "max_steps is left out of the plan"),
            ("return int(self._num_available *", "return round(self._num_available *", "fractions are rounded up"),
            ("return epoch * per_epoch", "return (epoch + 1) * per_epoch", "an epoch too many counts as trained"),
        ],
    ),
    Part(
        "learn/recipe.py",
        [LEARN + "test_recipe.py", LEARN + "test_arithmetic.py"],
        [
            (', "weight_decay": 0.0}', "}", "biases and norms decay"),
            ("parameter.ndim < 2]", "parameter.ndim < 1]", "biases and norms are not trained"),
            ("manual_seed(self.seed)", "manual_seed(self.seed + 1)", "weights of another seed"),
            ("with torch.random.fork_rng(devices=[]):", "if True:", "drawing weights moves dropout's stream"),
            ("plan.total_steps if self", "plan.num_epochs if self", "a schedule by steps is as long as one by epochs"),
            ("given.get(name, 1.0)", "given.get(name, 0.0)", "a class that is given no weight is not learnt"),
        ],
    ),
    Part(
        "learn/not_finite.py",
        [LEARN + "test_not_finite.py"],
        [
            ("sum(~loss.isfinite() for", "sum(loss.isnan() for", "a step of infinite loss is taken"),
            (
                "parameter.grad = None",
                "parameter.grad = 0 * parameter.detach()",
                "a step that is left out decays weights",
            ),
            ("(step, loss.detach(), ids)", "(step + 1, loss.detach(), ids)", "another step is named"),
        ],
    ),
    Part(
        "data/order.py",
        [DATA + "test_order.py", LEARN + "test_arithmetic.py"],
        [
            ("0x9E3779B97F4A7C15 + epoch + 1)", "0x9E3779B97F4A7C15 + epoch)", "every epoch has another's order"),
            ("state >> 30", "state >> 29", "seeds and epochs are mixed otherwise"),
            ("CHUNK = 50", "CHUNK = 49", "other examples are grouped by length"),
            ("argsort(stable=True)", "argsort(stable=True, descending=True)", "long texts come first"),
            ("together[self.rank :: self.world_size]", "together[self.rank :]", "ranks train on each other's examples"),
            ("stand_in(int(together[0]))", "stand_in(int(together[-1]))", "another row stands in"),
            ("whole[rank :: len(parts)] = part", "whole[rank :: len(parts)] = parts[0]", "one rank's predictions"),
            ("begin = micro_batch * global_batch_size", "begin = micro_batch", "a run goes on too early"),
            ("num_examples % (batch_size * world_size)", "num_examples % batch_size", "drop_last looks at one rank"),
        ],
    ),
    Part(
        "data/tokenizer.py",
        [DATA + "test_tokenizer.py"],
        [
            ('key=state["model"]["vocab"].__getitem__', "key=str", "ids in the alphabet's order"),
            ("(*RESERVED, *words)", "(*words, *RESERVED)", "a word has the id of padding"),
            ('(r"_+", " "),', "", "names with underscores are one word"),
        ],
    ),
    Part(
        "data/vocabulary.py",
        [DATA + "test_vocabulary.py"],
        [("tuple(sorted(labels))", "tuple(labels)", "classes in the order of their first rows")],
    ),
    Part(
        "data/dataset.py",
        [DATA + "test_dataset.py"],
        [
            ("index_of_code[rows.label_codes]", "rows.label_codes", "labels are numbered as they appear"),
            ("ids[: max_tokens - tail] + ids[len(ids) - tail :]", "ids[:max_tokens]", "a long text loses its end"),
            ("tail = max_tokens // 2", "tail = (max_tokens + 1) // 2", "the odd token comes from the end"),
            ("ids or [UNKNOWN_ID]", "ids or [0]", "a text without words is padding"),
            ("vocabulary.num_tokens <= 2**16", "vocabulary.num_tokens <= 2**17", "large ids wrap around"),
        ],
    ),
    Part(
        "data/batch.py",
        [DATA + "test_batch.py"],
        [
            ("padding_value=PAD_ID", "padding_value=1", "short texts are filled up with unknown words"),
            ("[len(sequence) for sequence in tokens]", "[len(tokens[0])] * len(tokens)", "all have the first's length"),
        ],
    ),
    Part(
        "data/splits.py",
        [DATA + "test_splits.py"],
        [
            ("torch.Generator().manual_seed(self.config.seed)", "None", "loaders draw from dropout's stream"),
            ("seed=self.config.seed if training", "seed=self.config.seed + 1 if training", "the order of another seed"),
            ('self.splits["train"].labels', 'self.splits["val"].labels', "classes are counted among validation rows"),
        ],
    ),
    Part(
        "network/blocks.py",
        [NETWORK + "test_forward.py", NETWORK + "test_network.py"],
        [
            ("self.scale * F.gelu", "F.gelu", "the branch has no scale"),
            ("F.relu(self.hidden(x))", "F.gelu(self.hidden(x))", "another activation"),
            ("dropped & (tokens != PADDING_ID)", "dropped", "padding becomes an unknown word"),
            ("< lengths.unsqueeze(1)", "<= lengths.unsqueeze(1)", "one token of padding counts as real"),
            ("-rows.shape[0] % TILE", "0", "logits depend on a row's neighbours"),
            ("weight.normal_(0.0, std)", "weight.uniform_(-std, std)", "embeddings of another distribution"),
        ],
    ),
    Part(
        "network/pooling.py",
        [NETWORK + "test_forward.py", NETWORK + "test_network.py"],
        [
            ("count = count + (ngrams", "count = 0 * (ngrams", "the mean is divided by one"),
            ("hashed * _HASH_MULTIPLIER + token", "hashed + token", "n-grams with the same sum are one"),
        ],
    ),
    Part(
        "network/textcnn.py",
        [NETWORK + "test_forward.py", NETWORK + "test_network.py"],
        [
            ("(width - 1) // 2, width // 2", "width // 2, (width - 1) // 2", "windows lie one token further on"),
            (" * mask.unsqueeze(2)", "", "padding can win the maximum"),
        ],
    ),
    Part(
        "network/transformer.py",
        [NETWORK + "test_forward.py", NETWORK + "test_network.py"],
        [
            ("x = x + self.dropout(self.project", "x = self.dropout(self.project", "attention without its residual"),
            ("math.log(10_000.0)", "math.log(1_000.0)", "positions of other wavelengths"),
            ("attn_mask=attend", "attn_mask=None", "padding is attended to"),
        ],
    ),
    Part(
        "network/committee.py",
        [NETWORK + "test_forward.py", NETWORK + "test_network.py"],
        [
            ("tokens * _HASH_MULTIPLIER + following", "tokens + following", "pairs with the same sum are one"),
            ("mean = self.scale * ", "mean = ", "the bag learns at another rate"),
            ("[bag_weight] + num_textcnns", "[1 - bag_weight] + num_textcnns", "the bag has another share"),
        ],
    ),
    Part(
        "between/early_stopping.py",
        ["tests/between/test_decisions.py"],
        [
            ("value + delta < self.best_value", "value < self.best_value", "a small change counts as better"),
            ("self.num_without >= int(self", "self.num_without > int(self", "a run ends a validation late"),
        ],
    ),
    Part(
        "between/best_and_last.py",
        ["tests/between/test_decisions.py"],
        [("value > self.best_value", "value >= self.best_value", "the last of equals is the best")],
    ),
    Part(
        "checkpoint/random_states.py",
        ["tests/checkpoint/test_random_states.py"],
        [
            ('torch.set_rng_state(states["torch"])', "pass", "dropout does not go on where it was"),
            ('"has_gaussian": int(has_gaussian)', '"has_gaussian": 0', "NumPy draws one gaussian twice"),
        ],
    ),
    Part(
        "checkpoint/rank_state.py",
        ["tests/checkpoint/test_rank_state.py"],
        [
            ("new_seed + world.rank", "new_seed", "all ranks drop the same units"),
            ("ranks if world.is_main else []", "ranks", "losses of another number of ranks are counted twice"),
        ],
    ),
    Part(
        "ranks/sharding.py",
        ["tests/ranks/test_sharding.py"],
        [
            ("return value.full_tensor()", "return value.to_local()", "a checkpoint holds one rank's part"),
            ("type(value)(map(full_tensors, value))", "value", "lists keep sharded tensors"),
            ("isinstance(value, Tensor) and value.shape == like.shape", "False", "optimizer state is not sharded"),
        ],
    ),
]


class Mutant(NamedTuple):
    """One edit of one file."""

    file: str
    tests: Sequence[str]
    old: str
    new: str
    note: str

    def source(self) -> str:
        """The text of the file after the edit.

        Raises:
            ValueError: where the old text does not stand there exactly once.
        """
        text = (ROOT / SOURCE / self.file).read_text(encoding="utf-8")
        if text.count(self.old) != 1:
            raise ValueError(f"{self.file}: stands there {text.count(self.old)} times, not once: {self.old!r}")
        return text.replace(self.old, self.new)


MUTANTS = [Mutant(part.file, part.tests, *edit) for part in PARTS for edit in part.edits]


def copy_tree(folder: Path) -> None:
    """Copy what the tests need into the folder."""
    for name in ("src", "tests", "scripts", "configs"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    (folder / "data").symlink_to(ROOT / "data")


class Failures:
    """A plugin of pytest: which tests failed."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Called by pytest for set-up, call and teardown of each test."""
        if report.failed:
            self.found.append(report.nodeid)


def run_tests(folder: Path, tests: Sequence[str], answer: Connection) -> None:
    """What the process of `first_failure` does: it sends pytest's exit code, its output and the tests that failed."""
    os.chdir(folder)
    source = str(folder / "src")
    sys.path.insert(0, source)
    sys.dont_write_bytecode = True
    os.environ |= {"PYTHONPATH": source, "PYTHONDONTWRITEBYTECODE": "1"}  # for processes that tests start
    failures, output = Failures(), io.StringIO()
    options = ["-x", "-q", "-p", "no:cacheprovider", "-o", "addopts=--import-mode=importlib", "-m", "not long"]
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        code = pytest.main([*options, *tests], plugins=[failures])
    answer.send((int(code), output.getvalue(), failures.found))


def first_failure(folder: Path, tests: Sequence[str]) -> str | None:
    """The first of these everyday tests that fails on the source in the folder, or None.

    Raises:
        RuntimeError: where the tests cannot be run.
    """
    receiver, sender = SERVER.Pipe(duplex=False)
    process = SERVER.Process(target=run_tests, args=(folder, tests, sender))
    process.start()
    sender.close()
    code, output, failed = receiver.recv()
    process.join()
    if code != (1 if failed else 0):
        raise RuntimeError(f"pytest ended with code {code}:\n{output}")
    return failed[0] if failed else None


def caught_by(mutant: Mutant) -> str | None:
    """The first test that fails on the mutant, or None where it survives."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copy_tree(folder)
        (folder / SOURCE / mutant.file).write_text(mutant.source(), encoding="utf-8")
        for tests in (mutant.tests, *([test] for test in EVERY)):  # in turn: collecting alone takes a second
            if found := first_failure(folder, tests):
                return found
    return None


def main() -> int:
    """Try all mutants; returns 1 where one survives."""
    start_seconds = time.perf_counter()
    for mutant in MUTANTS:
        mutant.source()  # all edits fit, before any is tried
    found = []
    SERVER.set_forkserver_preload(["torch", "lightning.pytorch", "pytest", "sklearn.metrics"])
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for mutant, test in zip(MUTANTS, pool.map(caught_by, MUTANTS), strict=True):
            print(f"{'caught' if test else 'SURVIVED':8}  {mutant.file}: {mutant.note}", flush=True)
            print(f"          {test or 'no test sees it'}", flush=True)
            found.append(test)
    with tempfile.TemporaryDirectory() as name:
        copy_tree(Path(name))
        if wrong := first_failure(Path(name), sorted({test for test in found if test})):
            raise RuntimeError(f"{wrong} fails without a mutant, too")
    num_caught = len(found) - found.count(None)
    print(f"{(time.perf_counter() - start_seconds) / 60:.1f} minutes")
    print(f"{num_caught} of {len(found)} caught")
    return 0 if num_caught == len(found) else 1


if __name__ == "__main__":
    sys.exit(main())
