"""What `--help` and `--help-all` print of a command that trains or evaluates."""

from __future__ import annotations

import json
import re
import textwrap

from project.config.description import as_described
from project.config.trust import HELP
from project.config.values import Source, Takes

WIDTH = 100
SHARED = ("trainer.accelerator", "trainer.devices", "trainer.precision", "trainer.default_root_dir")
SHOWN = {
    "fit": (
        *("name", "ckpt_path", "seed_everything", *SHARED, "trainer.max_epochs", "trainer.max_steps"),
        *("trainer.accumulate_grad_batches", "trainer.gradient_clip_val", "trainer.val_check_interval"),
        *("model.network", "model.optimizer", "model.lr_scheduler", "model.label_smoothing"),
        *("data.train_file", "data.val_file", "data.batch_size", "data.max_tokens"),
        "early_stopping.patience",
    ),
    "validate": ("ckpt_path", *SHARED, "data.val_file", "data.batch_size", "trainer.limit_val_batches"),
    "test": ("ckpt_path", *SHARED, "data.test_file", "data.batch_size", "trainer.limit_test_batches"),
    "predict": (
        "ckpt_path",
        "output",
        *SHARED,
        "data.predict_file",
        "data.batch_size",
        "trainer.limit_predict_batches",
    ),
}
"""The keys that people use."""
DOES = {
    "fit": "Train the network that a YAML file describes; --KEY VALUE overrides the file.",
    "validate": "Print a checkpoint's metrics on the validation rows.",
    "test": "Print a checkpoint's metrics on the test rows.",
    "predict": "Label rows, a JSON object a line, as JSON lines.",
}
EXAMPLES = {
    "fit": (
        "{} --config configs/default.yaml",
        "{} -c configs/default.yaml -c configs/bf16.yaml --trainer.max_epochs 2",
        "{} -c configs/default.yaml --model.network project.network.Transformer --model.network.dim 64",
    ),
    "validate": (
        "{}",
        "{} --ckpt_path runs/default/version_0/checkpoints/last.ckpt",
        "{} --data.val_file rows.jsonl",
    ),
    "test": ("{}", "{} --ckpt_path runs/default/version_0/checkpoints/last.ckpt", "{} --data.test_file rows.jsonl"),
    "predict": (
        """echo '{{"text": "CUDA out of memory"}}' | {}""",
        "{} --data.predict_file rows.jsonl --output labels.jsonl",
        "{} --ckpt_path runs/default/version_0/checkpoints/last.ckpt < rows.jsonl",
    ),
}
CHECKPOINTS = {
    "fit": "--ckpt_path last or best: of the run below runs/, or --trainer.default_root_dir, that saved one last.",
    "": "Without --ckpt_path: the best checkpoint of the newest finished run below runs/, or "
    "--trainer.default_root_dir. Without --config, the configuration that was saved with it.",
}


def short_help(name: str, command: str) -> str:
    """The keys that people use, which both twins have, examples, and where checkpoints are looked for.

    Args:
        name: the command as it is typed, such as `hand predict`.
        command: fit, validate, test or predict.
    """
    keys = as_described("hand", command).keys | as_described("hand", "fit").keys
    call = f"python -m project {name}"
    wanted = "--config FILE" if command == "fit" else "[--config FILE]"
    lines = [f"usage: {call} {wanted} [--KEY VALUE …]", "", DOES[command], ""]
    lines += _entry("-c, --config FILE", "A YAML file; later ones win.")
    for key in SHOWN[command]:
        takes = keys[key]
        lines += _entry(f"--{key}{_default(takes)}", _first_sentence(takes.help))
    lines += ["", "examples:", *(f"  {example.format(call)}" for example in EXAMPLES[command]), ""]
    lines += textwrap.wrap(CHECKPOINTS.get(command, CHECKPOINTS[""]), WIDTH)
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
