"""The table of commands: what is printed, what is imported, and with which code it exits."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.resources
import json
import subprocess
import sys
import types
from contextlib import suppress
from pathlib import Path

import pytest

from project.__main__ import COMMANDS, is_training, main, run
from project.errors import UserError

EVERY_COMMAND = [[name] for name in COMMANDS] + [["hand", name] for name in ("validate", "test", "predict")]


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    output = capsys.readouterr().out
    for name, (_, _, summary) in COMMANDS.items():
        assert f"  {name} " in output
        assert summary in output
    assert main(["-h"]) == 0
    assert capsys.readouterr().out == output


def test_without_a_command_the_list_is_shown_and_the_code_is_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "usage: python -m project COMMAND" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("fitt", "error: fitt: no such command; did you mean fit?\n"),
        ("FIT", "error: FIT: no such command; did you mean fit?\n"),
        ("valid", "error: valid: no such command; did you mean validate?\n"),
        ("xyzzy", f"error: xyzzy: no such command; commands: {', '.join(COMMANDS)}\n"),
        ("--config", f"error: --config: no such command; commands: {', '.join(COMMANDS)}\n"),
    ],
)
def test_an_unknown_command_names_the_nearest(command: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command]) == 2
    captured = capsys.readouterr()
    assert captured.err == message
    assert captured.out == ""


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_of_the_table_can_be_imported(command: str) -> None:
    assert callable(importlib.import_module(COMMANDS[command][0]).main)


def loaded_after(folder: Path, commands: list[list[str]], heavy: set[str]) -> list[tuple[object, list[str], str]]:
    """Exit code, heavy modules and standard error after each command, in one fresh process that works in `folder`."""
    program = (
        "import contextlib, io, json, sys; from project.__main__ import main\n"
        "commands, heavy = json.loads(sys.argv[1])\n"
        "def ended(command):\n"
        "    try: return main(command)\n"
        "    except SystemExit as stopped: return stopped.code\n"
        "for command in commands:\n"
        "    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:\n"
        "        code = ended(command)\n"
        "    print(json.dumps([code, sorted(set(heavy) & sys.modules.keys()), said.getvalue()]))"
    )
    given = json.dumps([commands, sorted(heavy)])
    output = subprocess.run(
        [sys.executable, "-c", program, given], capture_output=True, text=True, check=True, timeout=60, cwd=folder
    ).stdout
    return [tuple(json.loads(line)) for line in output.splitlines()]


def test_the_list_of_commands_imports_nothing_that_takes_time(tmp_path: Path) -> None:
    heavy = {"torch", "lightning", "numpy", "jsonargparse", "matplotlib", "rich", "yaml"}
    ended = loaded_after(tmp_path, [["--help"], ["--version"], ["fitt"]], heavy)
    assert [(code, loaded) for code, loaded, _ in ended] == [(0, []), (0, []), (2, [])]


HELPS = [[*command, option] for command in EVERY_COMMAND for option in ("--help", "-h")]
HELPS += [["hand", "--help-all"], ["fit", "--help-all"], ["predict", "--name", "x", "--help-all"]]
FAULTS = {
    "hand foo": "hand: foo: no such command; there are fit, validate, test, predict",
    "fit": "model.network: required, and not given",
    "fit -c none.yaml": "none.yaml: no such file; did you mean fine.yaml?",
    "fit -c fine.yaml --trainer.max_epoch=1": "--trainer.max_epoch: no such option; did you mean --trainer.max_epochs?",
    "hand -c fine.yaml --model.network.dimm=1": "project.network.TextCNN has no such argument; did you mean dim?",
    "hand -c fine.yaml --model.optimizer.lr=fast": "--model.optimizer.lr: expected a number, found fast",
    "fit -c typo.yaml": "typo.yaml:2: trainer.max_epoch: no such key; did you mean trainer.max_epochs?",
    "hand -c value.yaml": "value.yaml:2: data.batch_size: expected a whole number of at least 1, found many",
    "validate --nam=a": "--nam: no such option; did you mean --name?",
    "test --data.batch_size=many": "--data.batch_size: expected a whole number of at least 1, found many",
    "predict --outptu=a": "--outptu: no such option; did you mean --output?",
    "hand test --output=a": "--output: no such option",
    "hand --ckpt_path=last --trainer.max_epochs=x": "expected a whole number or null, found x",
    "compare --ulp=two": "compare: argument --ulp: invalid int value: 'two'",
}
"""Commands in a folder that holds fine.yaml, typo.yaml and value.yaml, and what they say."""


def test_help_and_faults_come_without_torch_and_lightning(tmp_path: Path) -> None:
    (tmp_path / "fine.yaml").write_text("model: {network: project.network.TextCNN, optimizer: torch.optim.AdamW}\n")
    (tmp_path / "typo.yaml").write_text("trainer:\n  max_epoch: 1\n")
    (tmp_path / "value.yaml").write_text("data:\n  batch_size: many\n")
    ended = loaded_after(tmp_path, [*HELPS, *map(str.split, FAULTS)], {"torch", "lightning"})
    for words, (code, loaded, said) in zip(HELPS, ended, strict=False):
        assert (code, loaded, said) == (0, [], ""), words
    for (command, expected), (code, loaded, said) in zip(FAULTS.items(), ended[len(HELPS) :], strict=True):
        assert (code, loaded) == (2, []), command
        assert expected in said, command


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"twinloop {importlib.metadata.version('twinloop')}\n"


def test_the_console_script_is_the_same_program() -> None:
    (script,) = importlib.metadata.entry_points(group="console_scripts", name="twinloop")
    assert script.load() is run
    assert importlib.resources.files("project").joinpath("py.typed").is_file()


def test_a_fault_of_the_user_is_one_line_and_code_2(tmp_path: Path) -> None:
    """As a person sees it, in a process of its own."""
    command = [sys.executable, "-m", "project", "explain", "--ckpt_path", str(tmp_path / "none.ckpt"), "some error"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, cwd=tmp_path)
    assert result.returncode == 2
    assert len(result.stderr.splitlines()) == 1
    assert f": {tmp_path / 'none.ckpt'}: no such checkpoint" in result.stderr
    assert result.stdout == ""


def test_arguments_reach_the_command_and_its_code_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []
    room = types.ModuleType("room_of_this_test")

    def command(arguments: list[str]) -> int:
        seen.append(arguments)
        return 7

    room.main = command  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, room.__name__, room)
    monkeypatch.setitem(COMMANDS, "probe", (room.__name__, ("first",), "of this test"))
    assert main(["probe", "--a", "1"]) == 7
    assert seen == [["first", "--a", "1"]]


def test_only_a_user_error_loses_its_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    room = types.ModuleType("room_of_this_test")
    error: Exception = UserError("rows.jsonl:3: not JSON")

    def command(arguments: list[str]) -> int:
        raise error

    room.main = command  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, room.__name__, room)
    monkeypatch.setitem(COMMANDS, "probe", (room.__name__, (), "of this test"))
    assert main(["probe"]) == 2
    assert capsys.readouterr().err == "error: rows.jsonl:3: not JSON\n"
    error = ValueError("a fault of the program")
    with pytest.raises(ValueError, match="a fault of the program"):
        main(["probe"])


def test_a_reader_that_stops_early_ends_the_command_quietly() -> None:
    program = (
        "import sys, types, project.__main__ as p; room = types.ModuleType('room'); sys.modules['room'] = room; "
        "room.main = lambda arguments: [print('x' * 1000) for _ in range(10_000)] and 0; "
        "p.COMMANDS['probe'] = ('room', (), ''); sys.exit(p.main(['probe']))"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(timeout=60) == 141


@pytest.mark.parametrize("words", EVERY_COMMAND, ids=" ".join)
def test_help_is_short_and_says_how_to_go_on(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with suppress(SystemExit):  # argparse's own
        main([*words, "--help"])
    shown = capsys.readouterr().out
    assert f"usage: python -m project {' '.join(words)}" in shown
    assert "--allow NAME" in " ".join(shown.split())
    assert len(shown.splitlines()) < 60
    if words[0] not in ("compare", "explain"):
        assert "-c, --config FILE" in shown
        assert "--help-all" in shown
        assert "examples:" in shown
        assert "--ckpt_path" in shown
        assert ("--model.network" in shown.partition("examples:")[0]) == (words[-1] in ("fit", "hand"))


@pytest.mark.parametrize("command", ["fit", "hand"])
def test_the_whole_help_names_every_key_and_our_networks(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help-all"]) == 0
    shown = capsys.readouterr().out
    assert "--distributed.static_graph false" in shown
    assert "torch.nn.Identity" not in shown
    assert ("--trainer.callbacks" in shown) == (command == "fit")
    assert main([command, "--help"]) == 0
    assert "project.network.Transformer" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "trains"),
    [
        (["fit"], True),
        (["hand"], True),
        (["hand", "--name", "test"], True),
        (["hand", "fit", "--name", "test"], True),
        (["hand", "test"], False),
        (["hand", "predict"], False),
        (["test"], False),
    ],
)
def test_commands_that_train_are_told_from_the_others(arguments: list[str], trains: bool) -> None:
    """By their first words: a run may be named as a command is."""
    assert is_training(arguments[0], arguments[1:]) == trains
