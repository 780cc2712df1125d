"""How a run is shown: its lines and tables in the terminal, the confusion matrix picture, the page of mistakes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from torch import Tensor, nn

from project.data.batch import Batch
from project.learn.objective import Scores
from project.learn.plan import Plan
from project.ranks.environment import is_main
from project.ranks.sharding import class_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console
    from rich.table import Table

LONGEST_NAME = 30
"""Characters of a class's name that the picture shows; a longer name would leave no room for the matrix."""

MARKDOWN = frozenset("&\\|<>`*_[]{}#~!$")
"""What Markdown or HTML may take for its own; `&` too, since a pasted error may itself be HTML."""


class Mistake(NamedTuple):
    """One wrong prediction; sorts by how sure the network was."""

    probability: float
    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody needs here
    label: int
    predicted: int


def keep_worst(mistakes: list[Mistake], batch: Batch, logits: Tensor, num_kept: int = 20) -> list[Mistake]:
    """The mistakes so far and this micro-batch's, logits (B, C): those that the network was surest of."""
    probability, predicted = logits.float().softmax(dim=1).max(dim=1)
    wrong = [
        Mistake(float(probability[row]), int(batch.index[row]), int(batch.labels[row]), int(predicted[row]))
        for row in ((predicted != batch.labels) & (batch.index >= 0)).nonzero().flatten().tolist()
    ]
    return sorted([*mistakes, *wrong], reverse=True)[:num_kept]


def worst_of(parts: Iterable[list[Mistake]], num_kept: int = 20) -> list[Mistake]:
    """Of all ranks' mistakes, those that the network was surest of."""
    return sorted(chain.from_iterable(parts), reverse=True)[:num_kept]


def training_line(network: nn.Module, plan: Plan) -> str:
    """What a run says before it starts."""
    num_parameters = sum(parameter.numel() for parameter in network.parameters())
    return (
        f"training {class_of(network).__name__} with {num_parameters:,} parameters on {plan.num_examples:,} "
        f"rows: {plan.total_steps:,} optimizer steps, {plan.num_windows:,} per epoch"
    )


def resumed_line(path: Path | str, epoch: int, micro_batch: int, step: int) -> str:
    """What a run says that is continued; `epoch` counts from 0."""
    return f"continues {path}: epoch {epoch + 1}, {micro_batch} micro-batches done in it, {step} optimizer steps"


def finished_line(path: Path, step: int) -> str:
    """What is said where a run was to be continued that has nothing left to train."""
    return f"{path}: the run is finished, after {step} optimizer steps; raise trainer.max_epochs to train on"


def fresh_line(names: Sequence[str]) -> str:
    """What a run says of the weights that `model.init_from` could not give."""
    return f"model.init_from: its labels are others, so these weights start fresh: {', '.join(names)}"


def epoch_line(epoch: int, step: int, train_loss: float | None, scores: Scores, seconds: float) -> str:
    """What a run says after a validation; `epoch` counts from 0, `train_loss` is the last logged one."""
    return (
        f"epoch {epoch + 1:>2}  step {step:>6}"
        + (f"  train/loss {train_loss:.4f}" if train_loss is not None else "")
        + f"  val/loss {scores.loss:.4f}  val/accuracy {scores.accuracy:.4f}"
        f"  val/macro_f1 {scores.macro_f1:.4f}  {seconds:6.1f} s"
    )


def best_line(path: Path, monitor: str, value: float, epoch: int) -> str:
    """What a run says at its end of its best checkpoint; `epoch` counts from 0."""
    return f"best: {path} ({monitor} {value:.4f} after epoch {epoch + 1})"


def print_evaluation(title: str, scores: Scores, labels: Sequence[str], seconds: float) -> None:
    """The table of an evaluation, and how fast it was."""
    console = terminal()
    console.print(scores_table(title, scores, labels))
    num_examples = sum(scores.support)
    console.print(f"{num_examples:,} rows in {seconds:.2f} s, {num_examples / seconds:,.0f} rows per second")


def say(line: str) -> None:
    """Print a line, on the main rank alone."""
    if is_main():
        terminal().print(line)


def terminal() -> Console:
    """Standard output, without colours in numbers and without wrapped lines."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=True)


def scores_table(title: str, scores: Scores, labels: Sequence[str]) -> Table:
    """Precision, recall, F1 and support per class, with accuracy, macro-F1 and loss in the last row."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(title), title_justify="left", show_footer=True)  # Text: brackets are no markup
    num_examples = sum(scores.support)
    table.add_column("class", footer=f"macro-F1 {scores.macro_f1:.4f}")
    table.add_column("precision", justify="right", footer=f"accuracy {scores.accuracy:.4f}")
    table.add_column("recall", justify="right", footer=f"loss {scores.loss:.4f}")
    table.add_column("F1", justify="right", footer="")
    table.add_column("rows", justify="right", footer=f"{num_examples:,}")
    for row in zip(labels, scores.precision, scores.recall, scores.f1, scores.support, strict=True):
        label, *ratios, support = row
        table.add_row(Text(label), *(f"{ratio:.4f}" for ratio in ratios), f"{support:,}")
    return table


def confusion_figure(confusion: Tensor, labels: Sequence[str]) -> Figure:
    """The confusion matrix as a picture: colour is the share of the true class, the numbers are counts.

    Args:
        confusion: (C, C) int64; rows are true classes, columns predicted ones.
        labels: names of the C classes.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # takes longer to import than a small epoch
    from matplotlib.figure import Figure

    num_classes = len(labels)
    side_inches = 1 + 0.09 * min(LONGEST_NAME, max(map(len, labels))) + max(2.0, 0.35 * num_classes)
    figure = Figure(figsize=(side_inches, side_inches), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    shares = confusion.double() / confusion.sum(dim=1, keepdim=True).clamp(min=1)
    axes.imshow(shares.numpy(), cmap="Blues", vmin=0, vmax=1)
    names = [label if len(label) <= LONGEST_NAME else f"{label[: LONGEST_NAME - 1]}…" for label in labels]
    axes.set_xticks(range(num_classes), names, rotation=90, parse_math=False)
    axes.set_yticks(range(num_classes), names, parse_math=False)
    axes.set_xlabel("predicted")
    axes.set_ylabel("true")
    if num_classes <= 40:  # beyond, numbers no longer fit into their cells
        for true, predicted in confusion.nonzero().tolist():
            colour = "white" if shares[true, predicted] > 0.5 else "black"
            count = str(int(confusion[true, predicted]))
            axes.text(predicted, true, count, ha="center", va="center", fontsize=7, color=colour)
    return figure


def mistakes_table(mistakes: Sequence[Mistake], labels: Sequence[str], text: Callable[[int], str]) -> str:
    """Markdown table of wrong predictions; `text` gives the text of an example by its index."""
    if not mistakes:
        return "No example was misclassified."
    rows = ["| true | predicted | probability | text |", "|---|---|---|---|"]
    for mistake in mistakes:
        true, predicted = _literal(labels[mistake.label]), _literal(labels[mistake.predicted])
        shown = _literal(text(mistake.index), 300)
        rows.append(f"| {true} | {predicted} | {mistake.probability:.3f} | {shown} |")
    return "\n".join(rows)


def _literal(text: str, num_characters: int | None = None) -> str:
    """The text's beginning in one line of Markdown that shows it as it is."""
    line = " ".join(text.split())[:num_characters]
    return "".join(f"&#{ord(character)};" if character in MARKDOWN else character for character in line)
