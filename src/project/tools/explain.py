"""`python -m project explain`: what a pasted PyTorch error means and what to do, by the trained classifier.

The network was trained on texts of at most about 15 lines or 800 characters. A longer log is cut into **windows** of
that size:

- one centred on each line that looks like an error message;
- windows over the whole log that overlap by half, for errors without such a line.

All windows are classified in one batch. The answer is a weighted mean of their probabilities (a linear opinion pool):
a distribution again, so one threshold serves short and long texts. The weight of a window is

- the square of its highest probability, so that vague windows do not outvote a clear one;
- times LAST_WEIGHT for the last error line, since a traceback ends with its message.

If the windows on error lines are sure, they answer alone. The others are added only if they are not: the network never
saw a text without an error, and may be confident about one for no reason.
"""

import argparse
import json
import re
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console
from rich.text import Text

from project.config.trust import HELP, take_allowed
from project.errors import UserError
from project.tools.causes import CAUSES

if TYPE_CHECKING:
    from torch import Tensor

    from project.data.rows import Label

SURE = 0.5
"""From here on, one cause is likelier than all others together."""
NEAR = 1 / 3
"""A second cause is shown if its probability is at least this fraction of the best one's."""
NUM_LIKELIEST = 3
MAX_WIDTH = 88
"""Columns of running text: longer lines are hard to read."""

MAX_LINES = 15
MAX_CHARS = 800
MAX_WINDOWS = 64
"""Of each kind. A longer log keeps its first and last error lines, and its last overlapping windows."""
LAST_WEIGHT = 1.5

ANSI_CODE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
ERROR_LINE = re.compile(
    r"(?<!except )(?<![\w.])(?:\w+\.)*[A-Z]\w*(?:Error|Exception)\s*:"  # RuntimeError: …, torch.OutOfMemoryError: …
    r"|\b(?:CUDA|NCCL|cuDNN|CUBLAS|MPS) (?i:error|out of memory)"
    r"|\b[Aa]ssertion\b.*\bfailed"
    r"|\b(?:ERROR|FATAL)\b|^\W*(?:[Ee]rror|[Ff]atal(?: error)?):"  # a prefix, not `val error: 0.3`
    r"|\b(?i:bus error|segmentation fault|core dumped)\b"
)
WRAPPER_LINE = re.compile(r"Caught \w+ in |ChildFailedError|ProcessRaisedException|ProcessExitedException")
"""Lines that look like an error message but announce another process's error."""


class Window(NamedTuple):
    """A part of a log, short enough for the network."""

    text: str
    on_error: bool
    """Centred on a line that looks like an error message."""


class Answer(NamedTuple):
    """Labels with their probabilities, the likeliest first."""

    ranked: list[tuple["Label", float]]
    num_windows: int

    @property
    def sure(self) -> bool:
        return self.ranked[0][1] >= SURE

    @property
    def shown(self) -> list[tuple["Label", float]]:
        return self.ranked[:NUM_LIKELIEST]


def log_lines(text: str) -> list[str]:
    r"""The lines that are not blank, cut to half a window.

    A carriage return ends a line (progress bars); in a longer line so does a literal `\n` (logs in JSON).
    """
    lines: list[str] = []
    longest = MAX_CHARS // 2
    for line in re.split(r"\r\n|\r|\n", text):
        parts = line.split("\\n") if len(line) > longest else [line]
        lines.extend(part[at : at + longest] for part in parts for at in range(0, len(part), longest))
    return [line for line in lines if line.strip()]


def fits(lines: Sequence[str]) -> bool:
    return len(lines) <= MAX_LINES and sum(len(line) + 1 for line in lines) <= MAX_CHARS + 1


def is_error_line(line: str) -> bool:
    bare = ANSI_CODE.sub("", line)
    return bool(ERROR_LINE.search(bare)) and not WRAPPER_LINE.search(bare)


def centred(lines: Sequence[str], centre: int) -> str:
    """As many lines around `centre` as fit, added in turn after it and before it."""
    start, stop = centre, centre + 1
    while True:
        before = stop, start
        if stop < len(lines) and fits(lines[start : stop + 1]):
            stop += 1
        if start > 0 and fits(lines[start - 1 : stop]):
            start -= 1
        if (stop, start) == before:
            return "\n".join(lines[start:stop])


def overlapping(lines: Sequence[str]) -> list[str]:
    """Windows over all lines; each starts in the middle of the one before."""
    windows: list[str] = []
    start = stop = 0
    while stop < len(lines):
        stop = start + 1
        while stop < len(lines) and fits(lines[start : stop + 1]):
            stop += 1
        windows.append("\n".join(lines[start:stop]))
        start += (stop - start + 1) // 2
    return windows


def windows_of(text: str) -> list[Window]:
    """A short text itself; of a longer one, windows on error lines in order, then overlapping ones."""
    lines = log_lines(text)
    if fits(lines):
        return [Window(text.strip(), on_error=True)]
    errors = [number for number, line in enumerate(lines) if is_error_line(line)]
    # Ranks and workers repeat messages. The first and the last ones matter most.
    if len(errors) > MAX_WINDOWS:
        errors = errors[: MAX_WINDOWS // 2] + errors[-MAX_WINDOWS // 2 :]
    return [
        *(Window(centred(lines, number), on_error=True) for number in errors),
        *(Window(part, on_error=False) for part in overlapping(lines)[-MAX_WINDOWS:]),
    ]


def pool(windows: Sequence[Window], probabilities: "Tensor") -> "Tensor":
    """One distribution, (C,), from those of the windows, (N, C); the file's docstring gives the weights."""
    weights = probabilities.amax(dim=1) ** 2  # (N,)
    num_errors = sum(window.on_error for window in windows)
    if num_errors:
        weights[num_errors - 1] *= LAST_WEIGHT
        errors_only = weights[:num_errors] @ probabilities[:num_errors] / weights[:num_errors].sum()  # (C,)
        if errors_only.max() >= SURE:
            return errors_only
    return weights @ probabilities / weights.sum()


def percent(probability: float) -> str:
    """Whole per cent, but never 100 or 0."""
    if probability > 0.99:
        return ">99 %"
    return "<1 %" if probability < 0.01 else f"{100 * probability:.0f} %"


def as_json(answer: Answer, bundled: bool, ckpt_path: Path) -> str:
    label, probability = answer.ranked[0]
    cause = CAUSES[str(label)] if bundled else None
    return json.dumps(
        {
            "label": label,
            "probability": probability,
            "sure": answer.sure,
            "title": cause and cause.title,
            "meaning": cause and cause.meaning,
            "what_to_do": cause and cause.what_to_do,
            "likeliest": [{"label": label, "probability": probability} for label, probability in answer.shown],
            "num_windows": answer.num_windows,
            "ckpt_path": str(ckpt_path),
        }
    )


def show(answer: Answer, bundled: bool, console: Console) -> None:
    """Print the answer; in colour on a terminal."""

    def name(label: "Label") -> str:
        return f"{CAUSES[str(label)].title} ({label})" if bundled else str(label)

    (best, probability), *others = answer.shown
    if not answer.sure:
        console.print(Text(f"Unsure: nothing reaches {percent(SURE)}. The likeliest:", style="bold yellow"))
        for label, part in answer.shown:
            console.print(Text(f"  {percent(part):>5}  {name(label)}"))
        console.print(Text("\nMore of the error usually helps, above all the last lines of the traceback."))
        return
    console.print(Text.assemble((name(best), "bold green"), f", {percent(probability)} sure"))
    if bundled:
        cause = CAUSES[str(best)]
        for heading, words in (("What it means", cause.meaning), ("What to do", cause.what_to_do)):
            console.print(Text(f"\n{heading}", style="bold"))
            lines = textwrap.wrap(words, min(console.width, MAX_WIDTH) - 2, break_on_hyphens=False)
            console.print(Text(textwrap.indent("\n".join(lines), "  ")))
    if others and others[0][1] >= NEAR * probability:
        console.print(Text(f"\nIt could also be: {name(others[0][0])}, {percent(others[0][1])}", style="dim"))


def read_input(words: Sequence[str]) -> str:
    if words:
        return " ".join(words)
    if sys.stdin.isatty():
        print("Paste the error, then press Ctrl-D on a line of its own.", file=sys.stderr)
    return sys.stdin.buffer.read().decode("utf-8", errors="replace")


def main(argv: Sequence[str]) -> int:
    """Explain one text; returns 0.

    Raises:
        UserError: where there is no text or no checkpoint.
    """
    parser = argparse.ArgumentParser(
        prog="python -m project explain",
        description="Say what a pasted PyTorch error means and what to do.",
        epilog=HELP,
        allow_abbrev=False,
    )
    parser.add_argument("text", nargs="*", help="the error, or a whole log; read from standard input when not given")
    parser.add_argument(
        "--ckpt_path", type=Path, metavar="FILE", help="default: the best one of the newest finished run"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object, for programs")
    options = parser.parse_args(take_allowed(argv))
    text = read_input(options.text)
    if not text.strip():
        raise UserError('the text is empty; give it as an argument, explain "…", or on standard input')

    # torch takes seconds to import: --help and the errors above do without it
    from project.checkpoint.classifier import Classifier
    from project.commands.runs import best_checkpoint

    ckpt_path = options.ckpt_path or best_checkpoint()
    classifier = Classifier.load(ckpt_path)
    print(f"checkpoint: {ckpt_path}", file=sys.stderr)
    windows = windows_of(text)
    pooled = pool(windows, classifier.probabilities([window.text for window in windows])).tolist()
    ranked = sorted(zip(classifier.labels, pooled, strict=True), key=lambda pair: -pair[1])
    answer = Answer(ranked, len(windows))
    bundled = all(label in CAUSES for label in classifier.labels)
    if options.json:
        print(as_json(answer, bundled, ckpt_path))
    else:
        show(answer, bundled, Console(highlight=False))
    return 0
