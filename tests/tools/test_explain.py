"""`explain`: what is cut out of a log, how windows are pooled, and what a person and a program get to read."""

import io
import json
import sys
import types
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor

from project.__main__ import main as command_line
from project.errors import UserError
from project.tools import explain
from project.tools.causes import CAUSES
from project.tools.explain import (
    MAX_CHARS,
    MAX_LINES,
    MAX_WINDOWS,
    Window,
    is_error_line,
    log_lines,
    main,
    overlapping,
    pool,
    windows_of,
)

Explain = Callable[..., int]
PROGRESS = [f"Epoch 0: {step:4}/9999 train error: 0.3" for step in range(200)]
SHAPES = "RuntimeError: mat1 and mat2 shapes cannot be multiplied (3x4 and 5x6)"
FREED = "RuntimeError: Trying to backward through the graph a second time"


class FakeClassifier:
    """Believes in the label of each keyword that it finds; knows nothing about other texts."""

    labels: tuple[str | int, ...] = tuple(CAUSES)
    keywords: dict[str, str | int] = {"mat1": "shape_mismatch", "second time": "graph_freed"}  # noqa: RUF012
    belief = 4.0
    asked: list[list[str]]

    @classmethod
    def load(cls, path: Path) -> "FakeClassifier":
        if path.name == "damaged.ckpt":
            raise UserError(f"{path}: cannot be read as a checkpoint")
        return cls()

    @torch.inference_mode()
    def probabilities(self, texts: Sequence[str]) -> Tensor:
        self.asked.append(list(texts))
        found = [{label for word, label in self.keywords.items() if word in text} for text in texts]
        logits = [[self.belief * (label in labels) for label in self.labels] for labels in found]
        return torch.tensor(logits).softmax(dim=1)


@pytest.fixture(autouse=True)
def _plain_output(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the terminal or the CI service that runs the tests has set."""
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setenv("COLUMNS", "100")


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> type[FakeClassifier]:
    """A fresh fake in the classifier's place, and a newest run."""

    class Fake(FakeClassifier):
        asked: list[list[str]] = []  # noqa: RUF012

    module = types.ModuleType("project.checkpoint.classifier")
    module.Classifier = Fake  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "project.checkpoint.classifier", module)
    monkeypatch.setattr("project.commands.runs.best_checkpoint", lambda: Path("runs/newest/best.ckpt"))
    return Fake


def give_stdin(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))


def test_says_cause_confidence_meaning_advice_and_checkpoint(
    fake: type[FakeClassifier], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([SHAPES]) == 0
    out, err = capsys.readouterr()
    cause = CAUSES["shape_mismatch"]
    expected = 100 * torch.tensor([4.0] + [0.0] * (len(CAUSES) - 1)).softmax(dim=0)[0].item()
    assert out.splitlines()[0] == f"{cause.title} (shape_mismatch), {expected:.0f} % sure"
    said = " ".join(out.split())
    assert f"What it means {cause.meaning}" in said
    assert f"What to do {cause.what_to_do}" in said
    assert "could also be" not in said
    assert "\x1b" not in out
    assert not any(line.endswith(" ") for line in out.splitlines())
    assert err == "checkpoint: runs/newest/best.ckpt\n"


def test_long_words_of_advice_are_wrapped_and_coloured_on_a_terminal(
    fake: type[FakeClassifier], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # what rich takes for a terminal
    monkeypatch.setenv("COLUMNS", "200")
    assert main([SHAPES]) == 0
    out = capsys.readouterr().out
    assert "\x1b[" in out
    assert max(map(len, out.splitlines())) <= explain.MAX_WIDTH


def test_near_runner_up_is_named(
    fake: type[FakeClassifier], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explain, "SURE", 0.4)
    assert main(["mat1", "second time"]) == 0  # words of the shell make one text
    assert f"It could also be: {CAUSES['graph_freed'].title} (graph_freed), 43 %" in capsys.readouterr().out


def test_unsure_says_so_and_lists_three(fake: type[FakeClassifier], capsys: pytest.CaptureFixture[str]) -> None:
    fake.belief = 1.0
    assert main(["mat1"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Unsure: nothing reaches 50 %")
    assert f"13 %  {CAUSES['shape_mismatch'].title} (shape_mismatch)" in out
    assert out.count(" %  ") == 3
    assert "What to do" not in out


def test_labels_of_other_data_come_without_advice(
    fake: type[FakeClassifier], capsys: pytest.CaptureFixture[str]
) -> None:
    fake.labels, fake.keywords = ("out_of_memory", 7), {"good": 7}
    assert main(["good film"]) == 0
    assert capsys.readouterr().out == "7, 98 % sure\n"
    assert main(["--json", "good film"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["label"], answer["title"], answer["what_to_do"]) == (7, None, None)


def test_json_for_programs(fake: type[FakeClassifier], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--json", "--ckpt_path", "mine.ckpt", FREED]) == 0
    answer = json.loads(capsys.readouterr().out)
    cause = CAUSES["graph_freed"]
    assert answer["label"] == "graph_freed"
    assert answer["sure"] is True
    assert (answer["title"], answer["meaning"], answer["what_to_do"]) == (cause.title, cause.meaning, cause.what_to_do)
    assert answer["likeliest"][0] == {"label": "graph_freed", "probability": answer["probability"]}
    assert len(answer["likeliest"]) == 3
    assert answer["ckpt_path"] == "mine.ckpt"


def test_reads_standard_input_whatever_its_bytes(
    fake: type[FakeClassifier], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    give_stdin(monkeypatch, b"\xff\xfe " + FREED.encode())
    assert main([]) == 0
    assert "(graph_freed)" in capsys.readouterr().out


def test_text_that_starts_with_a_notebook_arrow_is_no_flag(
    fake: type[FakeClassifier], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["----> 2 loss=f(x) second time"]) == 0
    assert "(graph_freed)" in capsys.readouterr().out


@pytest.mark.parametrize("argv", [[], [""], [" \n\t"]])
def test_empty_text_is_one_line_and_2(
    argv: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    give_stdin(monkeypatch, b" \n")
    assert command_line(["explain", *argv]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: the text is empty")
    assert err.count("\n") == 1


def test_no_run_and_damaged_checkpoint_are_one_line_and_2(
    fake: type[FakeClassifier], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def none() -> Path:
        raise UserError("runs: no finished run here")

    assert command_line(["explain", "--ckpt_path", "damaged.ckpt", "x"]) == 2
    assert capsys.readouterr() == ("", "error: damaged.ckpt: cannot be read as a checkpoint\n")
    monkeypatch.setattr("project.commands.runs.best_checkpoint", none)
    assert command_line(["explain", "x"]) == 2
    assert capsys.readouterr() == ("", "error: runs: no finished run here\n")


def test_error_in_a_long_log_is_found_in_one_batch(
    fake: type[FakeClassifier], capsys: pytest.CaptureFixture[str]
) -> None:
    log = "\n".join([*PROGRESS, "Traceback (most recent call last):", SHAPES, *PROGRESS])
    assert main([log]) == 0
    assert "(shape_mismatch)" in capsys.readouterr().out
    assert len(fake.asked) == 1


def test_error_without_any_sign_is_found_by_the_overlapping_windows(
    fake: type[FakeClassifier], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["\n".join([*PROGRESS, "it says backward a second time", *PROGRESS[:5]])]) == 0
    assert "(graph_freed)" in capsys.readouterr().out


def test_short_text_is_one_window_as_it_stands() -> None:
    text = f"Traceback:\n\n  x = 1\n{SHAPES}"
    assert windows_of(f"\n{text}\n") == [Window(text, on_error=True)]


def test_windows_are_small_enough_and_cover_the_log() -> None:
    lines = [*PROGRESS, "y" * 3000, SHAPES, *PROGRESS]
    windows = windows_of("\n".join(lines))
    assert all(len(window.text) <= MAX_CHARS and window.text.count("\n") < MAX_LINES for window in windows)
    covered = {line for part in overlapping(log_lines("\n".join(lines))) for line in part.split("\n")}
    assert covered == set(log_lines("\n".join(lines)))
    error = [window for window in windows if window.on_error]
    assert len(error) == 1
    assert SHAPES in error[0].text
    assert PROGRESS[0] in error[0].text  # the line after the error; before it stands the long one
    assert "y" in error[0].text


def test_of_many_error_lines_the_first_and_the_last_are_kept() -> None:
    log = [f"[rank{rank}]: {SHAPES}" for rank in range(500)]
    errors = [window.text for window in windows_of("\n".join(log)) if window.on_error]
    assert len(errors) == MAX_WINDOWS
    assert errors[0].startswith(log[0])
    assert errors[-1].endswith(log[-1])


def test_neighbouring_windows_share_half() -> None:
    first, second, *_ = overlapping([f"line {number}" for number in range(100)])
    assert first.split("\n")[MAX_LINES // 2 + 1 :] == second.split("\n")[: MAX_LINES // 2]


def test_escaped_log_on_one_line_is_taken_apart() -> None:
    assert log_lines("\\n".join(PROGRESS)) == PROGRESS
    assert log_lines("10%\r20%\r\n\n30%") == ["10%", "20%", "30%"]
    assert log_lines("path C:\\new") == ["path C:\\new"]


@pytest.mark.parametrize(
    "line",
    [
        SHAPES,
        "[rank3]: torch.OutOfMemoryError: CUDA out of memory",
        "\x1b[0;31mValueError\x1b[0m: bad",
        "E   IndexError: index 3 is out of bounds",
        "2024-01-01 12:00 ERROR trainer failed",
        "CUDA error: an illegal memory access",
        "Loss.cu:240: block: [0,0,0] Assertion `t >= 0 && t < n_classes` failed.",
        "fatal error: Python.h: No such file or directory",
    ],
)
def test_looks_like_an_error(line: str) -> None:
    assert is_error_line(line)


@pytest.mark.parametrize(
    "line",
    [
        PROGRESS[0],
        "val_error: 0.3",
        "except RuntimeError:",
        '    raise UserError("bad")',
        "RuntimeError                    Traceback (most recent call last)",
        "RuntimeError: Caught RuntimeError in DataLoader worker process 0.",
    ],
)
def test_does_not_look_like_an_error(line: str) -> None:
    assert not is_error_line(line)


def test_pool_is_the_stated_mean() -> None:
    windows = [Window("a", True), Window("b", True), Window("c", False)]
    sure = torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.0, 1.0]])
    first, last = 0.9**2, 1.5 * 0.8**2
    expected = (first * 0.9 + last * 0.2) / (first + last)
    torch.testing.assert_close(pool(windows, sure), torch.tensor([expected, 1 - expected]))


def test_pool_asks_all_windows_where_error_lines_leave_it_unsure() -> None:
    windows = [Window("a", True), Window("b", False)]
    unsure = torch.tensor([[0.4, 0.3, 0.3], [0.0, 1.0, 0.0]])
    weight = 1.5 * 0.4**2
    expected = (weight * unsure[0] + unsure[1]) / (weight + 1)
    torch.testing.assert_close(pool(windows, unsure), expected)


def test_last_of_equals_decides_and_an_early_clear_one_beats_a_late_vague_one() -> None:
    windows = [Window("a", True), Window("b", True)]
    assert pool(windows, torch.tensor([[0.9, 0.1], [0.1, 0.9]])).argmax() == 1
    assert pool(windows, torch.tensor([[0.95, 0.05], [0.4, 0.6]])).argmax() == 0
