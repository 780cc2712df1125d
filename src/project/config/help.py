"""What `--help` and `--help-all` print of a command that trains or evaluates."""

from __future__ import annotations

import json
import re
import textwrap

from project.config.description import as_described
from project.config.trust import HELP
from project.config.values import Source, Takes

WIDTH = 100
PROCESS = ("trainer.accelerator", "trainer.devices", "trainer.precision", "trainer.default_root_dir")
FIT = (
    *("name", "ckpt_path", "seed_everything", *PROCESS, "trainer.max_epochs", "trainer.max_steps"),
    *("trainer.accumulate_grad_batches", "trainer.gradient_clip_val", "trainer.val_check_interval"),
    *("model.network", "model.optimizer", "model.lr_scheduler", "model.label_smoothing"),
    *("data.train_file", "data.val_file", "data.batch_size", "data.max_tokens", "early_stopping.patience"),
)
"""The keys of fit that people use."""
SPLITS = {"validate": "val", "test": "test", "predict": "predict"}
DOES = {
    "fit": "Train the network that a YAML file describes; --KEY VALUE overrides the file.",
    "validate": "Print a checkpoint's metrics on the validation rows.",
    "test": "Print a checkpoint's metrics on the test rows.",
    "predict": "Label rows, a JSON object a line, as JSON lines.",
}
TRAIN = """\
{call} --config configs/default.yaml
{call} -c configs/default.yaml -c configs/bf16.yaml --trainer.max_epochs 2
{call} -c configs/default.yaml --model.network project.network.Transformer --model.network.dim 64"""
EVALUATE = """\
{call}
{call} --ckpt_path runs/default/version_0/checkpoints/last.ckpt
{call} --data.{split}_file rows.jsonl"""
TO_CONTINUE = "--ckpt_path last, or best: of the run below runs/, or --trainer.default_root_dir, that saved one last."
TO_EVALUATE = (
    "Without --ckpt_path: the best checkpoint of the newest finished run below runs/, or --trainer.default_root_dir. "
    "Without --config: the configuration that was saved with it."
)


def short_help(name: str, command: str) -> str:
    """The keys that people use, which both twins have, examples, and where checkpoints are looked for.

    Args:
        name: the command as it is typed, such as `hand predict`.
        command: fit, validate, test or predict.
    """
    keys = as_described("hand", command).keys | as_described("hand", "fit").keys
    call = f"python -m project {name}"
    wanted = "--config FILE" if command == "fit" else "[--config FILE]"
    lines = [f"usage: {call} {wanted} [--KEY VALUE …]", "", DOES[command]]
    lines += ["hand [fit] trains; hand validate, hand test and hand predict evaluate.", ""] if "hand" in name else [""]
    lines += _entry("-c, --config FILE", "A YAML file; later ones win.")
    split = SPLITS.get(command)
    evaluated = ("ckpt_path", *PROCESS, f"data.{split}_file", "data.batch_size", f"trainer.limit_{split}_batches")
    for key in (*evaluated, *(["output"] if command == "predict" else [])) if split else FIT:
        takes = keys[key]
        lines += _entry(f"--{key}{_default(takes)}", _first_sentence(takes.help))
    examples = (EVALUATE if split else TRAIN).format(call=call, split=split)
    lines += ["", "examples:", textwrap.indent(examples, "  "), ""]
    lines += textwrap.wrap(TO_EVALUATE if split else TO_CONTINUE, WIDTH)
    lines += textwrap.wrap(HELP, WIDTH)
    lines.append(
        "--help-all lists every key; --model.network.help CLASS the arguments of a class; "
        "--print_config the configuration."
    )
    return "\n".join(lines)


def long_help(name: str, source: Source) -> str:
    """Every key with its default, what it takes and what it does."""
    lines = [f"usage: python -m project {name} [--KEY VALUE …]", ""]
    lines += _entry("-c, --config FILE", "A YAML file; later ones win.")
    lines += _entry("--print_config", "Print the configuration instead of running.")
    for key, takes in source.keys.items():
        if takes.help:
            lines += _entry(f"--{key}{_default(takes)}", f"{takes.help.rstrip('.')}. Takes {takes.words}.")
    return "\n".join([*lines, "", *textwrap.wrap(HELP, WIDTH)])


def _entry(option: str, text: str) -> list[str]:
    """An option with its text beside it, or below where it is long."""
    wrapped = textwrap.wrap(text.replace("``", ""), WIDTH - 38)
    first = f"  {option:<35} {wrapped.pop(0)}" if len(option) <= 35 else f"  {option}"
    return [first, *(f"{'':38}{line}" for line in wrapped)]


def _default(takes: Takes) -> str:
    if takes.default is None:
        return ""
    return f" {takes.default if isinstance(takes.default, str) else json.dumps(takes.default)}"


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=[.]) (?=[A-Z])", text, maxsplit=1)[0]
