"""How an evaluation is shown: the table in the terminal, the confusion matrix picture, the page of mistakes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from rich.table import Table
from torch import Tensor

from project.task.objective import Figures


class Mistake(NamedTuple):
    """One wrong prediction; sorts by how sure the network was."""

    probability: float
    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody needs here
    label: int
    predicted: int


def figures_table(title: str, figures: Figures, labels: Sequence[str]) -> Table:
    """Precision, recall, F1 and support per class, with accuracy, macro-F1 and loss in the last row."""
    table = Table(title=title, title_justify="left", show_footer=True)
    num_examples = sum(figures.support)
    table.add_column("class", footer=f"macro-F1 {figures.macro_f1:.4f}")
    table.add_column("precision", justify="right", footer=f"accuracy {figures.accuracy:.4f}")
    table.add_column("recall", justify="right", footer=f"loss {figures.loss:.4f}")
    table.add_column("F1", justify="right", footer="")
    table.add_column("rows", justify="right", footer=f"{num_examples:,}")
    for row in zip(labels, figures.precision, figures.recall, figures.f1, figures.support, strict=True):
        label, *ratios, support = row
        table.add_row(label, *(f"{ratio:.4f}" for ratio in ratios), f"{support:,}")
    return table


def confusion_figure(confusion: Tensor, labels: Sequence[str]) -> Figure:
    """The confusion matrix as a picture: colour is the share of the true class, the numbers are counts.

    Args:
        confusion: (C, C) int64; rows are true classes, columns predicted ones.
        labels: names of the C classes.
    """
    num_classes = len(labels)
    side_inches = 2.5 + 0.35 * num_classes
    figure = Figure(figsize=(side_inches, side_inches), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    shares = confusion.double() / confusion.sum(dim=1, keepdim=True).clamp(min=1)
    axes.imshow(shares.numpy(), cmap="Blues", vmin=0, vmax=1)
    axes.set_xticks(range(num_classes), labels, rotation=90)
    axes.set_yticks(range(num_classes), labels)
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
        shown = " ".join(text(mistake.index).split())[:300]
        for character in "\\|<>`*_[]":
            shown = shown.replace(character, f"&#{ord(character)};")
        rows.append(f"| {labels[mistake.label]} | {labels[mistake.predicted]} | {mistake.probability:.3f} | {shown} |")
    return "\n".join(rows)
