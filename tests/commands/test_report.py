"""What a person sees of an evaluation: figures in the terminal, the picture, the page of mistakes."""

from __future__ import annotations

import html
import io
import re
import warnings

import pytest
import torch
from rich.console import Console

from project.commands.report import LONGEST_NAME, Mistake, confusion_figure, mistakes_table, scores_table
from project.learn.objective import scores
from tables import row

with warnings.catch_warnings():  # of a sanitiser that TensorBoard brings with it
    warnings.simplefilter("ignore", DeprecationWarning)
    from tensorboard import plugin_util

# class a: 3 of 4 found; class b: 1 of 2 found, 1 wrongly; class c never occurs and is never predicted
CONFUSION = torch.tensor([[3, 1, 0], [1, 1, 0], [0, 0, 0]])


def printed(labels: list[str], title: str = "test: runs/x/best.ckpt") -> str:
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(scores_table(title, scores(CONFUSION, torch.tensor([6 * 2**32, 0])), labels))
    return console.export_text()


def test_the_table_shows_figures_counted_by_hand() -> None:
    text = printed(["a_label", "b_label", "c_label"])
    assert text.splitlines()[0].strip() == "test: runs/x/best.ckpt"
    assert row(text, "a_label") == ["0.7500", "0.7500", "0.7500", "4"]
    assert row(text, "b_label") == ["0.5000", "0.5000", "0.5000", "2"]
    assert row(text, "c_label") == ["0.0000", "0.0000", "0.0000", "0"]
    assert row(text, "macro-F1 0.6250") == ["accuracy 0.6667", "loss 1.0000", "", "6"]


def test_the_table_takes_no_label_and_no_path_for_markup() -> None:
    text = printed(["[red]", "[/b]", ":smile:"], title="test: runs/[bold]/best.ckpt")
    for name in ("[red]", "[/b]", ":smile:", "runs/[bold]/best.ckpt"):
        assert name in text


@pytest.mark.parametrize(
    "labels",
    [
        ["no", "yes"],
        [f"a_cause_of_some_error_{number}" for number in range(20)],
        ["$\\no{math$", "a very long class name, as a person writes a whole sentence of many words"],
    ],
)
def test_the_picture_has_room_for_names_and_matrix(labels: list[str]) -> None:
    num_classes = len(labels)
    confusion = torch.eye(num_classes, dtype=torch.int64) * 12_345
    confusion[0, 1] = 7
    figure = confusion_figure(confusion, labels)
    figure.canvas.draw()  # a warning, such as of no room, is an error here
    axes = figure.axes[0]
    assert axes.get_window_extent().width >= 180
    assert axes.get_window_extent().width / num_classes >= 25  # pixels a cell: five digits fit
    whole = figure.bbox
    for name in (*axes.get_xticklabels(), *axes.get_yticklabels()):
        box = name.get_window_extent()
        assert whole.x0 <= box.x0
        assert box.x1 <= whole.x1
        assert whole.y0 <= box.y0
        assert box.y1 <= whole.y1
    shown = [name.get_text() for name in axes.get_yticklabels()]
    assert all(len(name) <= LONGEST_NAME for name in shown)
    assert [name for name in shown if not name.endswith("…")] == [name for name in labels if len(name) <= LONGEST_NAME]
    counts = {(text.get_position(), text.get_text()) for text in axes.texts}
    assert ((1, 0), "7") in counts  # the true class is the row, y
    assert len(counts) == num_classes + 1


def test_the_pictures_colour_is_the_share_of_the_true_class() -> None:
    figure = confusion_figure(CONFUSION, ["a", "b", "c"])
    image = figure.axes[0].images[0]
    colours = image.get_array()
    assert colours is not None
    assert colours.tolist() == [[0.75, 0.25, 0], [0.5, 0.5, 0], [0, 0, 0]]


NASTY = [
    "| a | b |\n|---|---|\n| x | y |",
    "`torch.bmm` and ```fenced```",
    "<b>bold</b> <script>alert(1)</script>",
    "&lt;module&gt; &amp;",
    "a*b*c __init__ _x_ **kw**",
    "[rank3]: [link](http://example.org) ![image](x.png)",
    "# heading\n> quote\n- item\n1. one",
    "C:\\new\\table \\* ~~gone~~ {x} $y$ !z",
    "x = 1\n    indented\n\tcode",
]


@pytest.mark.parametrize("text", NASTY)
def test_a_pasted_error_stands_on_the_page_as_it_is(text: str) -> None:
    """Rendered as TensorBoard renders it, the cell holds the text and no markup."""
    page = mistakes_table([Mistake(0.5, 0, label=0, predicted=1)], ["a|b", "<i>"], lambda index: text)
    assert len(page.splitlines()) == 3
    cells = re.findall(r"<td>(.*?)</td>", plugin_util.markdown_to_safe_html(page), re.DOTALL)
    assert [html.unescape(cell) for cell in cells] == ["a|b", "<i>", "0.500", " ".join(text.split())]
    assert not any("<" in cell for cell in cells)


def test_the_page_of_mistakes_names_classes_and_cuts_long_texts() -> None:
    texts = {4: "short", 9: "x" * 1000}
    mistakes = [Mistake(0.98765, 9, label=0, predicted=1), Mistake(0.5, 4, label=1, predicted=0)]
    lines = mistakes_table(mistakes, ["cat", "dog"], texts.__getitem__).splitlines()
    assert lines[2] == f"| cat | dog | 0.988 | {'x' * 300} |"
    assert lines[3] == "| dog | cat | 0.500 | short |"
    assert mistakes_table([], ["cat", "dog"], texts.__getitem__) == "No example was misclassified."


def test_mistakes_sort_by_how_sure_the_network_was() -> None:
    assert max([Mistake(0.5, 1, 0, 1), Mistake(0.9, 0, 0, 1), Mistake(0.7, 2, 0, 1)]).index == 0
