"""The command `compare`, as a person or a program uses it."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from parity.handmade import CHECKPOINT, edited, records, write_trace
from project.__main__ import main
from project.checkpoint.file import FORMAT, write_checkpoint
from project.commands.report import terminal
from project.errors import UserError
from project.parity import cli, twins
from project.parity.compare import EXACT, Difference, Divergence
from project.parity.quantities import LAST, PREDICTIONS
from project.parity.report import Report, Side, print_report
from project.parity.twins import Twin, newest_run, train_here
from project.trace.reading import Trace, read_trace
from tables import FRAME, row, rows
from tiny_corpus import Corpus

DEFAULT = Path(__file__).parents[2] / "configs" / "default.yaml"
WEIGHT_DECAY = "--model.optimizer.init_args.weight_decay=0.3"

Output = tuple[int, str, str]
Compare = Callable[..., Output]


@pytest.fixture
def compare(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Compare:
    """Runs the command on a terminal of 80 columns; gives its exit code, what it printed, and its errors."""
    monkeypatch.setenv("COLUMNS", "80")

    def call(*arguments: str | Path) -> Output:
        capsys.readouterr()
        code = main(["compare", *map(str, arguments)])
        return code, *capsys.readouterr()

    return call


@pytest.fixture
def paths(tmp_path: Path) -> tuple[Path, Path]:
    """Two traces, whose second has another loss at micro-batch 2 of epoch 0."""
    other = edited((3, "forward", "loss", (1.5).hex()))
    return write_trace(tmp_path / "a.jsonl", records()), write_trace(tmp_path / "b.jsonl", other)


def options(corpus: Corpus) -> list[str]:
    base = ["--config", str(DEFAULT), *corpus.arguments, "--trainer.accelerator=cpu", "--data.batch_size=7"]
    return [*base, "--trainer.max_steps=4", "--trainer.val_check_interval=2"]


def saved(folder: Path, value: float) -> Path:
    """A run folder with a last checkpoint and no trace."""
    write_checkpoint(folder / LAST, {"classifier": {"format": FORMAT}, "state_dict": {"weight": torch.tensor(value)}})
    return folder


# Two traces


def test_equal_traces(compare: Compare, paths: tuple[Path, Path]) -> None:
    code, out, err = compare(paths[0], paths[0])
    assert code == 0
    assert err == ""
    assert out.splitlines()[:2] == [f"A: {paths[0]}", f"B: {paths[0]}"]
    assert row(out, "training losses") == ["8", "equal", "0", "0"]
    assert row(out, "val/loss") == ["0.700000", "0.700000"]
    assert out.splitlines()[-1] == "equal, every bit: 40 values, 16 records of the traces"


def test_the_first_divergence_is_named(compare: Compare, paths: tuple[Path, Path]) -> None:
    code, out, _ = compare(*paths)
    assert code == 1
    assert row(out, "training losses") == ["8", "1 differ", "2,097,152", "0.25"]
    end = out[out.index("first divergence") :].splitlines()
    assert end[:4] == [
        "first divergence: epoch 0, micro-batch 2, optimizer step 1, stage forward   (all counted from 0)",
        "  loss: 2,097,152 ULP, 0.25 in value",
        "    A  0x1.4000000000000p+0  1.25",
        "    B  0x1.8000000000000p+0  1.5",
    ]
    assert end[4].startswith("  usual causes: other weights or buffers at the start, training or evaluation")
    assert all(len(line) <= 80 for line in end[4:])


def test_an_evaluation_comes_after_steps(compare: Compare, paths: tuple[Path, Path], tmp_path: Path) -> None:
    b = write_trace(tmp_path / "b.jsonl", edited((6, "evaluation", "val/loss", (0.5).hex())))
    _, out, _ = compare(paths[0], b)
    assert "first divergence: epoch 0, micro-batch 3, after 2 optimizer steps, stage evaluation   (all" in out


@pytest.mark.parametrize("option", [("--rtol", "0.17"), ("--rtol=0.17",), ("--ulp", "2097152")])
@pytest.mark.parametrize("is_first", [True, False])
def test_a_tolerance_accepts_it(
    compare: Compare, paths: tuple[Path, Path], option: tuple[str, ...], is_first: bool
) -> None:
    code, out, _ = compare(*option, *paths) if is_first else compare(*paths, *option)
    assert code == 0
    within = "a relative difference of 0.17" if "rtol" in option[0] else "2097152 ULP"
    assert out.splitlines()[-1] == f"equal, within {within}: 40 values, 16 records of the traces"
    assert compare("--rtol", "0.16", *paths)[0] == compare("--ulp", "2097151", *paths)[0] == 1


def test_what_the_table_does_not_show_is_a_difference(
    compare: Compare, paths: tuple[Path, Path], tmp_path: Path
) -> None:
    code, out, _ = compare(paths[0], write_trace(tmp_path / "b.jsonl", edited((8, "rng", "torch", "r2"))))
    assert code == 1
    assert {verdict for _, _, verdict, *_ in rows(out)[1:5]} == {"equal"}
    assert "micro-batch 0, optimizer step 2, stage rng   (all counted from 0)\n  torch: differs\n    A  r1\n" in out


def test_whole_numbers_are_not_counted_in_ulp(capsys: pytest.CaptureFixture[str]) -> None:
    divergence = Divergence("data", {"kind": "micro_batch"}, [Difference("inputs 0[1, 2]", 3, 5, ulp=2)])
    print_report(Report(Side("A"), Side("B"), EXACT, divergence=divergence), terminal())
    assert "  inputs 0[1, 2]: 2 in value\n    A  3\n    B  5\n" in capsys.readouterr().out


def test_all_that_differs_in_a_stage_is_counted_and_the_largest_shown(compare: Compare, tmp_path: Path) -> None:
    gradients = {name: [f"{name}!", (1.0 + number).hex()] for number, name in enumerate(["a", "b", "c", "d", "e"])}
    other = {name: [f"{name}?", (1.0 + 2 * number).hex()] for number, name in enumerate(["a", "b", "c", "d", "e"])}
    a = write_trace(tmp_path / "a.jsonl", edited((2, "clip", "gradients", gradients)))
    b = write_trace(tmp_path / "b.jsonl", edited((2, "clip", "gradients", other)))
    _, out, _ = compare(a, b)
    shown = [line for line in out.splitlines() if "ULP, " in line or " more " in line]
    assert shown == [
        "  norm of gradients e: 7,340,032 ULP, 4 in value",
        "  norm of gradients d: 6,291,456 ULP, 3 in value",
        "  norm of gradients c: 6,291,456 ULP, 2 in value",
        "  and 2 more in this stage",
    ]


def test_tensors_of_one_norm_are_said_to_differ_in_bits(
    compare: Compare, tmp_path: Path, paths: tuple[Path, Path]
) -> None:
    gradients = {"bias": ["other", (0.5).hex()], "weight": ["g1", (2.0).hex()]}
    b = write_trace(tmp_path / "b.jsonl", edited((0, "backward", "gradients", gradients)))
    _, out, _ = compare(paths[0], b)
    assert "  bits of gradients bias: differ, though its norm does not\n    A  g0\n    B  other\n" in out


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("nan", "not comparable\n    A  0x1.4000000000000p+0  1.25\n    B  nan  nan\n"),
        ("-inf", "3.21e+09 ULP\n"),
        ((-1e300).hex(), "1e+300 in value\n"),
        (4, "differs\n    A  0x1.4000000000000p+0  1.25\n    B  4\n"),
    ],
)
def test_distances_are_said_as_far_as_there_are_any(
    compare: Compare, paths: tuple[Path, Path], tmp_path: Path, value: Any, expected: str
) -> None:
    _, out, _ = compare(paths[0], write_trace(tmp_path / "b.jsonl", edited((0, "forward", "loss", value))))
    assert f"  loss: {expected}" in out


def test_a_run_that_was_killed(compare: Compare, tmp_path: Path, paths: tuple[Path, Path]) -> None:
    content = paths[0].read_bytes()
    killed = tmp_path / "killed.jsonl"
    killed.write_bytes(content[: content.rindex(b'"kind": "step"') + 40])
    code, out, _ = compare(paths[0], killed)
    assert code == 1
    assert "note: B ends in the middle of a line, as of a run that was killed; the rest is compared\n" in out
    assert "first divergence: epoch 1, micro-batch 3, optimizer step 3, stage optimizer" in out
    assert "  the record of this step and all that follow: missing in B\n" in out
    assert "    A  there" not in out


def test_traces_made_elsewhere_are_compared_in_what_both_have(compare: Compare, tmp_path: Path) -> None:
    cheap = [record for record in records() if record["kind"] != "checkpoint"]
    for record in cheap:
        record["stages"].pop("rng", None)
        record["stages"].get("data", {}).pop("inputs", None)
    a = write_trace(tmp_path / "a.jsonl", records())
    b = write_trace(tmp_path / "b.jsonl", cheap, level="cheap", torch="2.6.0", device="cuda:0")
    code, out, _ = compare(a, b)
    assert code == 0
    assert [line for line in out.splitlines() if line.startswith("note: ")] == [
        "note: torch: 2.13.0 in A, 2.6.0 in B",
        "note: device: cpu in A, cuda:0 in B",
        "note: level: full in A, cheap in B",
        "note: only in A, not compared: checkpoint, micro_batch.data.inputs, micro_batch.rng",
    ]


def test_brackets_in_names_are_no_markup(compare: Compare, tmp_path: Path) -> None:
    folder = tmp_path / "[bold]run[/bold]"
    a = write_trace(folder / "a.jsonl", edited((14, "evaluation", "[red]", (1.0).hex())))
    _, out, _ = compare(a, a)
    assert f"A: {a}\n" in out
    assert row(out, "[red]") == ["1.000000", "1.000000"]


@pytest.mark.parametrize("columns", ["80", "200"])
def test_tables_fit_whatever_the_paths_and_distances(
    compare: Compare, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, columns: str
) -> None:
    deep = tmp_path / ("long" * 20) / ("path" * 20)
    a = write_trace(deep / "a.jsonl", records())
    b = write_trace(deep / "b.jsonl", edited((0, "forward", "loss", (-1e300).hex()), (1, "forward", "loss", "nan")))
    c = write_trace(deep / "c.jsonl", edited((0, "forward", "loss", (-0.1).hex())))  # float64: 19 digits of ULP
    monkeypatch.setenv("COLUMNS", columns)
    for other in (b, c):
        _, out, _ = compare(a, other)
        assert f"B: {other}\n" in out
        assert all(len(line) <= 80 for line in out.splitlines() if re.match(FRAME, line))
        heading, *quantities = rows(out)
        assert heading[0] == "quantity"
        assert "…" not in str(quantities)


# Run folders


def test_run_folders_without_traces_are_compared_in_what_they_saved(compare: Compare, tmp_path: Path) -> None:
    a, b = saved(tmp_path / "a", 1.0), saved(tmp_path / "b", 1.0)
    code, out, _ = compare(a, b)
    assert code == 0
    assert "note: no trace.jsonl in A and B, so the first difference is unknown; see --trace.level\n" in out
    assert out.endswith("equal, every bit: 1 values, 0 records of the traces\n")
    saved(b, 2.0)
    code, out, _ = compare(a, b)
    assert code == 1
    assert out.endswith("different: state dict; there are no traces to find the first difference\n")


def test_a_trace_in_one_of_two_run_folders_is_said_to_be_of_no_use(compare: Compare, tmp_path: Path) -> None:
    a, b = saved(tmp_path / "a", 1.0), saved(tmp_path / "b", 2.0)
    write_trace(a / "trace.jsonl", records())
    code, out, _ = compare(a, b)
    assert code == 1
    assert "note: no trace.jsonl in B, so the first difference is unknown" in out
    assert row(out, "val/loss") == ["0.700000", ""]


def test_what_equal_traces_do_not_explain(compare: Compare, tmp_path: Path) -> None:
    a, b = saved(tmp_path / "a", 1.0), saved(tmp_path / "b", 2.0)
    for folder in (a, b):
        write_trace(folder / "trace.jsonl", records())
    torch.save(torch.ones(1, 3), a / PREDICTIONS)
    code, out, _ = compare(a, b)
    assert code == 1
    assert out.endswith("different: state dict; the traces that both have are equal\n")
    assert f"note: only in A, not compared: {PREDICTIONS}\n" in out


def test_run_folders_without_checkpoints(compare: Compare, tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_trace(tmp_path / name / "trace.jsonl", records())
    assert compare(tmp_path / "a", tmp_path / "b")[0] == 0
    saved(tmp_path / "b", 1.0)
    _, out, _ = compare(tmp_path / "a", tmp_path / "b")
    assert f"note: only in B, not compared: {LAST}\n" in out


# JSON


def strict(text: str) -> Any:
    def refuse(literal: str) -> None:
        raise AssertionError(f"{literal} is no JSON")

    return json.loads(text, parse_constant=refuse)


def test_json_says_the_same(compare: Compare, paths: tuple[Path, Path], tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    code, out, _ = compare(*paths, "--json", file, "--ulp", "7")
    assert (code, out) == compare(*paths, "--ulp", "7")[:2]
    found = strict(file.read_text())
    assert found["equal"] is False
    assert found["tolerance"] == {"ulp": 7, "rtol": 0.0}
    metrics = {"val/accuracy": 0.75, "val/loss": 0.7}
    assert found["a"] == {"name": "A", "path": str(paths[0]), "metrics": metrics, "seconds": None}
    assert found["quantities"][0] == {
        "quantity": "training losses",
        "num_values": 8,
        "num_different": 1,
        "num_missing": 0,
        "max_ulp": 2**21,
        "max_difference": 0.25,
        "equal": False,
    }
    assert [row["equal"] for row in found["quantities"]] == [False, True, True, True]
    assert (found["num_records"], found["notes"]) == (16, [])
    divergence = found["first_divergence"]
    assert divergence.pop("usual_causes").startswith("other weights")
    assert divergence == {
        "stage": "forward",
        "kind": "micro_batch",
        "epoch": 0,
        "micro_batch": 2,
        "step": 1,
        "records": [3, 3],
        "differences": [
            {
                "quantity": "loss",
                "a": 1.25,
                "b": 1.5,
                "a_hex": "0x1.4000000000000p+0",
                "b_hex": "0x1.8000000000000p+0",
                "ulp": 2**21,
                "difference": 0.25,
                "tensor": None,
            }
        ],
    }


def test_json_of_equal_traces(compare: Compare, paths: tuple[Path, Path], tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    assert compare(f"--json={file}", paths[0], paths[0])[0] == 0
    found = strict(file.read_text())
    assert found["equal"] is True
    assert found["first_divergence"] is None


def test_json_holds_what_is_no_number(compare: Compare, paths: tuple[Path, Path], tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    b = write_trace(tmp_path / "b.jsonl", edited((0, "forward", "loss", "nan"), (14, "evaluation", "val/loss", "-inf")))
    compare(paths[0], b, "--json", file)
    found = strict(file.read_text())
    assert found["b"]["metrics"]["val/loss"] == "-inf"
    assert (found["quantities"][0]["max_ulp"], found["quantities"][0]["max_difference"]) == (None, "inf")
    (difference,) = found["first_divergence"]["differences"]
    assert (difference["b"], difference["b_hex"], difference["ulp"], difference["difference"]) == (
        "nan",
        "nan",
        None,
        "inf",
    )


def test_json_of_a_missing_record(compare: Compare, paths: tuple[Path, Path], tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    compare(paths[0], write_trace(tmp_path / "b.jsonl", records()[:5]), "--json", file)
    divergence = strict(file.read_text())["first_divergence"]
    assert (divergence["stage"], divergence["records"]) == ("optimizer", [5, -1])
    assert divergence["differences"][0]["b"] == "missing"
    assert divergence["differences"][0]["difference"] is None


# What cannot run


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "compare: nothing to compare; give it --config FILE, or two traces or run folders"),
        (["a.jsonl"], "compare: takes two traces or run folders, --json, --ulp, --rtol; found a.jsonl"),
        (["a", "b", "c"], "compare: takes two traces or run folders, --json, --ulp, --rtol; found a b c"),
        (["a", "--data.x=3"], "compare: takes two traces or run folders, --json, --ulp, --rtol; found a --data.x=3"),
        (["a", "b", "--ulp", "-1"], "compare: --ulp takes a count from 0, --rtol a fraction from 0 to below 1"),
        (["a", "b", "--ulp", str(2**63)], "compare: --ulp takes a count from 0, --rtol a fraction from 0 to below 1"),
        (["a", "b", "--rtol", "nan"], "compare: --ulp takes a count from 0, --rtol a fraction from 0 to below 1"),
        (["a", "b", "--rtol", "1"], "compare: --ulp takes a count from 0, --rtol a fraction from 0 to below 1"),
        (
            ["a", "b", "--ulp", "two"],
            "compare: argument --ulp: invalid int value: 'two'; see python -m project compare --help",
        ),
        (["a", "b", "--rtol"], "compare: argument --rtol: expected one argument; see python -m project compare --help"),
        (["a", "b", "--keep", "c"], "compare: --keep goes with --config; two paths leave nothing to keep"),
        (
            ["a", "b", "--json", "no/where.json"],
            "--json: no/where.json cannot be written: no such folder; make it first",
        ),
        (["gone", "b"], "gone: no such file or folder; name a trace or a run folder"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_run_is_said_in_one_line(
    compare: Compare, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert compare(*arguments) == (2, "", f"error: {message}\n")


def test_a_folder_that_is_no_run_is_refused(compare: Compare, tmp_path: Path) -> None:
    a = saved(tmp_path / "a", 1.0)
    message = "not a run folder, which holds trace.jsonl or checkpoints/last.ckpt; name one, or a trace"
    assert compare(a, tmp_path) == (2, "", f"error: {tmp_path}: {message}\n")


def test_a_folder_without_a_trace_has_nothing_to_compare_with_a_trace(
    compare: Compare, paths: tuple[Path, Path], tmp_path: Path
) -> None:
    b = saved(tmp_path / "b", 1.0)
    assert compare(paths[0], b) == (
        2,
        "",
        f"error: {b}: no trace.jsonl in this folder; train with --trace.level full\n",
    )


def test_traces_with_nothing_in_common_are_not_equal(
    compare: Compare, paths: tuple[Path, Path], tmp_path: Path
) -> None:
    header = write_trace(tmp_path / "header.jsonl", [])
    other = write_trace(tmp_path / "other.jsonl", [{"kind": "checkpoint", "stages": CHECKPOINT}])
    steps = write_trace(tmp_path / "steps.jsonl", records()[2:3])
    for a, b in ((paths[0], header), (header, header), (steps, other)):
        code, out, err = compare(a, b)
        assert (code, out) == (2, "")
        assert err == f"error: compare: {a} and {b} have no records of a trace in common, nor checkpoints/last.ckpt\n"


def test_a_folder_cannot_be_the_json_file(compare: Compare, paths: tuple[Path, Path], tmp_path: Path) -> None:
    code, _, err = compare(*paths, "--json", tmp_path)
    assert (code, err) == (2, f"error: --json: {tmp_path} cannot be written: Is a directory\n")


def test_help_says_what_it_does(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["compare", "--help"])
    assert caught.value.code == 0
    out = capsys.readouterr().out
    assert "Exit codes: 0 equal, 1 different, 2 could not run." in out
    assert max(map(len, out.splitlines())) <= 120


# The twins' processes


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, str], None]:
    """Lets the twins' processes end with a code after they said something."""

    def pretend(code: int, said: str) -> None:
        def ended(command: list[str], **keywords: Any) -> subprocess.CompletedProcess[bytes]:
            keywords["stdout"].write(said.encode())
            return subprocess.CompletedProcess(command, code)

        monkeypatch.setattr(subprocess, "run", ended)

    return pretend


TRACEBACK = "training …\nTraceback (most recent call last):\n  File …\nRuntimeError: it broke\n"
KEEP = "--keep FOLDER keeps all it said, hand.log"


@pytest.mark.parametrize(
    ("code", "said", "reason"),
    [
        (2, "checking\nerror: a.yaml:3: x: no such key\n", "a.yaml:3: x: no such key"),
        (
            2,
            "error: a.yaml:3: x: no such key\na.yaml:5: y: no such key\n",
            "a.yaml:3: x: no such key; a.yaml:5: y: no such key",
        ),
        (1, TRACEBACK, f"ended with code 1, its last line: RuntimeError: it broke; {KEEP}"),
        (
            1,
            f"error: said by a logger\n{TRACEBACK}",
            f"ended with code 1, its last line: RuntimeError: it broke; {KEEP}",
        ),
        (-9, "", f"ended with code -9, its last line: nothing; {KEEP}"),
        (
            0,
            "usage",
            "there is no run to compare, as with trainer.fast_dev_run or --print_config; try trainer.max_steps",
        ),
    ],
)
def test_a_twin_that_could_not_be_trained_says_why(
    compare: Compare, process: Callable[[int, str], None], code: int, said: str, reason: str
) -> None:
    process(code, said)
    found, out, err = compare("--config", DEFAULT)
    assert (found, out) == (2, "")
    who = "" if code == 0 else "the hand twin: "
    assert err == f"training: hand\nerror: {who}{reason}\n"


def test_a_place_where_nothing_can_be_kept(compare: Compare, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    code, _, err = compare("--config", DEFAULT, "--keep", file)
    assert (code, err) == (2, f"training: hand\nerror: --keep: {file}: no run can be kept here (File exists)\n")


def test_a_faulty_configuration(compare: Compare) -> None:
    """In a real process."""
    code, out, err = compare("--config", DEFAULT, "--trainer.max_epoch", "2", "--data.batch_size", "many")
    assert (code, out) == (2, "")
    first, second = err.splitlines()
    assert first == "training: hand"
    assert second.startswith("error: the hand twin: ")
    assert "--trainer.max_epoch: no such" in second
    assert "; command line: --data.batch_size: expected " in second


def test_both_twins_are_trained_and_equal(compare: Compare, corpus: Corpus, tmp_path: Path) -> None:
    """In real processes."""
    file, kept = tmp_path / "out.json", tmp_path / "kept"
    code, out, err = compare(*options(corpus), "--json", file, "--keep", kept)
    assert code == 0, out + err
    assert err == "training: hand\ntraining: Lightning\n"
    found = strict(file.read_text())
    assert [row["quantity"] for row in found["quantities"]] == [
        "training losses",
        "gradient norms",
        "learning rates",
        "validation metrics",
        "state dict",
        "optimizer state",
        "scheduler state",
        "position",
        "best metric",
        "early stopping",
        "random states",
        "test predictions",
    ]
    assert all(row["num_values"] for row in found["quantities"])
    assert found["a"]["metrics"] == found["b"]["metrics"]
    assert found["a"]["metrics"].keys() == {"val/accuracy", "val/loss", "val/macro_f1"}
    assert found["a"]["seconds"] > 0
    assert found["b"]["seconds"] > 0
    assert [found[side]["name"] for side in ("a", "b")] == ["hand", "Lightning"]
    assert found["a"]["path"] == str(kept / "hand" / "version_0")
    assert (kept / "lit" / "version_0" / "trace.jsonl").is_file()


# The twins in this process, which starts faster


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> list[Sequence[str]]:
    """Trains in this process, Lightning's twin with another weight decay; lists the arguments of each training."""
    calls: list[Sequence[str]] = []

    def train(twin: Twin, folder: Path, arguments: Sequence[str]) -> Path:
        calls.append(arguments)
        return train_here(twin, folder, [*arguments, *([WEIGHT_DECAY] if twin == "lit" else [])])

    monkeypatch.setattr(cli, "train", train)
    return calls


def test_the_element_that_differs_is_named(
    compare: Compare, here: list[Sequence[str]], corpus: Corpus, tmp_path: Path
) -> None:
    file = tmp_path / "out.json"
    code, out, err = compare(*options(corpus), "--json", file)
    assert code == 1
    assert "training: hand again, saving the tensors of the first difference\n" in err
    assert [arguments[-1] for arguments in here] == ["--trace.level=full"] * 2 + ["--trace.tensors_at=1"] * 2
    divergence = strict(file.read_text())["first_divergence"]
    assert (divergence["stage"], divergence["epoch"], divergence["step"]) == ("optimizer", 0, 0)
    largest = divergence["differences"][0]
    assert largest["quantity"].startswith("parameters ")
    assert largest["quantity"].endswith("]")
    assert float.fromhex(largest["a_hex"]) == largest["a"] != largest["b"] == float.fromhex(largest["b_hex"])
    assert largest["difference"] == abs(largest["a"] - largest["b"]) > 0
    assert all(not difference["quantity"].startswith("norm") for difference in divergence["differences"])
    lines = out.splitlines()
    at = lines.index(next(line for line in lines if line.startswith("first divergence: ")))
    where = "epoch 0, micro-batch 0, optimizer step 0, stage optimizer"
    assert lines[at] == f"first divergence: {where}   (all counted from 0)"
    assert lines[at + 1].startswith(f"  {largest['quantity']}: ")
    assert lines[at + 2] == f"    hand       {largest['a_hex']}  {largest['a']!r}"
    assert lines[at + 3] == f"    Lightning  {largest['b_hex']}  {largest['b']!r}"
    assert "hand: " not in out  # where it lay: the runs are gone


def test_what_elements_cannot_explain_is_not_trained_twice(
    compare: Compare, here: list[Sequence[str]], corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stage that only one twin has, too, is a difference between twins."""

    def without_rng(path: Path) -> Trace:
        found = read_trace(path)
        for record in found.records if "lit" in path.parts else []:
            record["stages"].pop("rng", None)
        return found

    monkeypatch.setattr(cli, "read_trace", without_rng)
    code, out, _ = compare(*options(corpus))
    assert code == 1
    assert "stage rng   (all counted from 0)\n  stage rng: missing in Lightning\n" in out
    assert "micro_batch.rng" not in out  # in a note, as if it was not compared
    assert len(here) == 2


def test_each_twin_saves_the_tensors_of_its_own_record(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    differences = [Difference("norm of gradients a", 1.0, 2.0, 2**23, tensor="gradients a")]
    divergence = Divergence("clip", {"kind": "step"}, differences, (3, 5))
    calls: list[tuple[Twin, str]] = []

    def train(twin: Twin, folder: Path, arguments: Sequence[str]) -> Path:
        calls.append((twin, arguments[-1]))
        return folder / twin

    monkeypatch.setattr(cli, "train", train)
    monkeypatch.setattr(cli, "compare_paths", lambda *_, **__: Report(Side("a"), Side("b"), EXACT, [], divergence))
    assert cli.compare_twins([], tmp_path, EXACT).divergence == divergence
    assert calls[2:] == [("hand", "--trace.tensors_at=3"), ("lit", "--trace.tensors_at=5")]


@pytest.mark.usefixtures("here")
def test_a_trainers_key_that_only_lightning_has(compare: Compare, corpus: Corpus) -> None:
    code, out, err = compare(*options(corpus), "--trainer.min_epochs=2")
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 2
    assert "trainer.min_epochs" in err


@pytest.mark.usefixtures("here")
def test_a_rehearsal_leaves_nothing_to_compare(compare: Compare, corpus: Corpus) -> None:
    code, _, err = compare(*options(corpus), "--trainer.fast_dev_run=1")
    assert code == 2
    assert err.splitlines()[-1] == (
        "error: there is no run to compare, as with trainer.fast_dev_run or --print_config; try trainer.max_steps"
    )


def test_the_newest_run_is_the_one_with_the_highest_number(tmp_path: Path) -> None:
    for version in (2, 10, 9):
        (tmp_path / "hand" / f"version_{version}").mkdir(parents=True)
    assert newest_run(tmp_path, "hand").name == "version_10"
    with pytest.raises(UserError, match="there is no run to compare"):
        newest_run(tmp_path, "lit")


def test_two_runs_of_one_twin_with_another_weight_decay(compare: Compare, corpus: Corpus) -> None:
    folders = [
        train_here("hand", corpus.folder / name, [*options(corpus), "--trace.level=full", *own])
        for name, own in (("a", []), ("b", [WEIGHT_DECAY]), ("c", []))
    ]
    code, out, _ = compare(*folders[:2])
    assert code == 1
    assert "first divergence: epoch 0, micro-batch 0, optimizer step 0, stage optimizer " in out
    assert "  usual causes: another weight decay" in out
    assert "  norm of parameters " in out
    assert compare(folders[0], folders[2])[0] == 0
    assert compare(*folders[:2], "--rtol", "0.999")[0] == 1  # in the optimizer's own settings, 0.01 against 0.3


def test_the_process_is_this_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []

    def ended(command: list[str], **_: Any) -> subprocess.CompletedProcess[bytes]:
        commands.append(command)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", ended)
    (tmp_path / "lit" / "version_0").mkdir(parents=True)
    assert twins.train("lit", tmp_path, ["--x=1"]) == tmp_path / "lit" / "version_0"
    assert commands[0][1:] == ["-m", "project.parity.twins", "lit", str(tmp_path), "--x=1"]


def test_the_rank_that_parts_first_is_named(compare: Compare, tmp_path: Path) -> None:
    """Other rows on rank 1 reach rank 0 through the reduction: rank 1's data is the place."""
    for name, loss, ids in (("a", 1.25, [4, 0, 7]), ("b", 2.5, [4, 0, 9])):
        run = saved(tmp_path / name, 1.0)
        of_rank_0, of_rank_1 = records(), records()
        of_rank_0[3]["stages"]["forward"]["loss"] = loss.hex()
        of_rank_1[0]["stages"]["data"]["ids"] = ids
        write_trace(run / "trace.jsonl", of_rank_0)
        write_trace(run / "trace.rank1.jsonl", of_rank_1)
    code, out, _ = compare(tmp_path / "a", tmp_path / "b")
    assert code == 1
    assert "first divergence: epoch 0, micro-batch 0, optimizer step 0, stage data" in out
    (tmp_path / "a" / "trace.rank1.jsonl").unlink()
    _, out, _ = compare(tmp_path / "a", tmp_path / "b")
    assert "note: only in B, not compared: trace.rank1.jsonl" in out
    assert "stage forward" in out
    for name in ("a", "b"):
        write_trace(tmp_path / name / "trace.jsonl", records())
    assert cli.compare_paths(tmp_path / "a", tmp_path / "b", EXACT).is_equal
    assert not cli.compare_paths(tmp_path / "a", tmp_path / "b", EXACT, alike=True).is_equal
