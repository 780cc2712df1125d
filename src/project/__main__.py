"""`python -m project COMMAND …`: a table of commands; imports only the one that runs."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import nullcontext

from project.errors import UserError, nearest
from project.ranks.environment import is_rank
from project.ranks.signals import Listener, Stopped, say_stopped, tell_launcher

# command: (module with its `main`, words that main is given before the user's, what --help says)
COMMANDS: dict[str, tuple[str, tuple[str, ...], str]] = {
    "fit": ("project.lit.cli", ("fit",), "train with Lightning's Trainer"),
    "validate": ("project.lit.cli", ("validate",), "metrics of a checkpoint on the validation rows"),
    "test": ("project.lit.cli", ("test",), "metrics of a checkpoint on the test rows"),
    "predict": ("project.hand.cli", ("predict",), "label rows of a file or of standard input"),
    "hand": ("project.hand.cli", (), "fit, or hand validate, test, predict: the same by a loop written by hand"),
    "compare": ("project.parity.options", (), "train both twins, or take two traces, and say where they first part"),
    "explain": ("project.tools.explain", (), "say what a pasted PyTorch error means and what to do"),
}

TWINS = {"project.hand.cli": "hand", "project.lit.cli": "lit"}

EXAMPLES = """\
examples:
  python -m project fit --config configs/default.yaml
  python -m project fit --config configs/default.yaml --config configs/bf16.yaml --trainer.max_epochs 2
  python -m project test
  echo '{"text": "mat1 and mat2 shapes cannot be multiplied (3x4 and 5x6)"}' | python -m project predict
  python -m project explain "mat1 and mat2 shapes cannot be multiplied (3x4 and 5x6)"

`python -m project COMMAND --help` lists a command's options. `twinloop` is short for `python -m project`."""


def main(arguments: Sequence[str]) -> int:
    """Run the command that `arguments` name; returns the exit code: 2 for what the user can mend."""
    if arguments[:1] == ["--version"]:
        from importlib.metadata import version

        print(f"twinloop {version('twinloop')}")
        return 0
    if not arguments or arguments[0] in ("-h", "--help"):
        width = max(map(len, COMMANDS))
        print("usage: python -m project COMMAND [options]\n\ncommands:")
        for name, (_, _, summary) in COMMANDS.items():
            print(f"  {name:<{width}}  {summary}")
        print(f"\n{EXAMPLES}")
        return 0 if arguments else 2
    command, *rest = arguments
    if command not in COMMANDS:
        meant = nearest(command, COMMANDS)
        hint = f"; did you mean {meant}?" if meant else f"; commands: {', '.join(COMMANDS)}"
        print(f"error: {command}: no such command{hint}", file=sys.stderr)
        return 2
    module_name, leading, _ = COMMANDS[command]
    words, trains = [*leading, *rest], is_training(command, rest)
    try:
        with Listener().listening() if trains else nullcontext():  # from here on: imports alone take seconds
            if help_text := first_look(command, module_name, words):
                print(help_text)
                return 0
            code = int(importlib.import_module(module_name).main(words))
        if trains:
            tell_launcher(code)
        return code
    except Stopped as stopped:
        code = say_stopped(stopped.received)
        tell_launcher(code)
        return code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except UserError as error:
        if not _is_told(error):
            print(f"error: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # whoever reads the output, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the interpreter still flushes it at its end
        return 128 + signal.SIGPIPE
    except Exception as error:
        if _is_told(error):
            return 1
        raise


def first_look(command: str, module_name: str, words: Sequence[str]) -> str | None:
    """The help that is asked for, if it is; every fault that is seen without importing torch is raised here."""
    if module_name not in TWINS or is_rank():  # the process that starts the ranks has looked
        return None
    from project.config.first_look import look

    return look(command, TWINS[module_name], words)


def is_training(command: str, rest: Sequence[str]) -> bool:
    """Whether the command trains, by the words that it begins with: `hand` does so without a word of its own, too."""
    return command == "fit" or (command == "hand" and rest[:1] not in (["validate"], ["test"], ["predict"]))


def _is_told(error: Exception) -> bool:
    """Whether a launcher has been told, which then prints what the first rank to fail said, and nothing of the rest."""
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return False
    from project.ranks.launch import record

    return record(error)


def run() -> int:
    """What the script `twinloop` calls."""
    return main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(run())
