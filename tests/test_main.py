"""The table of commands: what is printed, what is imported, and with which code it exits."""

from __future__ import annotations

import importlib
import subprocess
import sys
import types
from pathlib import Path

import pytest

from project.__main__ import COMMANDS, is_training, main
from project.errors import UserError


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


def test_help_imports_neither_torch_nor_lightning() -> None:
    """In a process of its own, since this one has both."""
    program = (
        "import sys; from project.__main__ import main; main(['--help']); main(['fitt']); "
        "print('loaded:', sorted({name.partition('.')[0] for name in sys.modules} & set(sys.argv)))"
    )
    heavy = ["torch", "lightning", "numpy", "jsonargparse", "matplotlib", "rich", "yaml", "sys"]
    output = subprocess.run(
        [sys.executable, "-c", program, *heavy], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    assert output.splitlines()[-1] == "loaded: ['sys']"


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

    def command(leading: str, arguments: list[str]) -> int:
        seen.append((leading, arguments))
        return 7

    room.main = command  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, room.__name__, room)
    monkeypatch.setitem(COMMANDS, "probe", (room.__name__, ("first",), "of this test"))
    assert main(["probe", "--a", "1"]) == 7
    assert seen == [("first", ["--a", "1"])]


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


@pytest.mark.parametrize("command", ["fit", "hand"])
def test_help_names_our_networks_and_not_every_module(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([command, "--help"])
    assert stopped.value.code == 0
    shown = capsys.readouterr().out
    assert "project.network.TextCNN" in shown
    assert "torch.nn.Identity" not in shown
    assert ("--trainer.callbacks" in shown) == (command == "fit")


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
