"""How an evaluation is shown: the table in the terminal, the confusion matrix picture, the page of mistakes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from rich.table import Table
from rich.text import Text
from torch import Tensor

from project.task.objective import Figures

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


def figures_table(title: str, figures: Figures, labels: Sequence[str]) -> Table:
    """Precision, recall, F1 and support per class, with accuracy, macro-F1 and loss in the last row."""
    table = Table(title=Text(title), title_justify="left", show_footer=True)  # Text: brackets are no markup
    num_examples = sum(figures.support)
    table.add_column("class", footer=f"macro-F1 {figures.macro_f1:.4f}")
    table.add_column("precision", justify="right", footer=f"accuracy {figures.accuracy:.4f}")
    table.add_column("recall", justify="right", footer=f"loss {figures.loss:.4f}")
    table.add_column("F1", justify="right", footer="")
    table.add_column("rows", justify="right", footer=f"{num_examples:,}")
    for row in zip(labels, figures.precision, figures.recall, figures.f1, figures.support, strict=True):
        label, *ratios, support = row
        table.add_row(Text(label), *(f"{ratio:.4f}" for ratio in ratios), f"{support:,}")
    return table


def confusion_figure(confusion: Tensor, labels: Sequence[str]) -> Figure:
    """The confusion matrix as a picture: colour is the share of the true class, the numbers are counts.

    Args:
        confusion: (C, C) int64; rows are true classes, columns predicted ones.
        labels: names of the C classes.
    """
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
