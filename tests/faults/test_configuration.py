"""Every mistake that a person makes in YAML or on the command line: one plain line each, all at once."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Optional, Union

import pytest
from jsonargparse import ArgumentParser, Namespace

import project.lit.cli
from project.__main__ import main
from project.config.command_line import check_arguments, options, refuse_faults
from project.config.description import as_described
from project.config.values import UndescribedError
from project.errors import UserError
from tiny_corpus import Corpus

BASE = """\
seed_everything: 1
trainer: {max_epochs: 2}
model:
  network: {class_path: project.network.TextCNN, init_args: {dim: 8}}
  optimizer: {class_path: torch.optim.AdamW, init_args: {lr: 0.05}}
  lr_scheduler: {class_path: torch.optim.lr_scheduler.OneCycleLR, init_args: {max_lr: 0.05}}
"""
CONFIGS = Path(__file__).parents[2] / "configs"
PLATEAU = CONFIGS / "plateau.yaml"


@pytest.fixture(scope="module")
def parser() -> ArgumentParser:
    """The real parser of `fit`."""
    found: list[ArgumentParser] = []

    def keep(cli: object, parser: ArgumentParser, arguments: object) -> None:
        found.append(parser)
        raise InterruptedError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(project.lit.cli.Cli, "parse_arguments", keep)
        with pytest.raises(InterruptedError):
            project.lit.cli.Cli("fit", [])
    return found[0]


@pytest.fixture
def check(parser: ArgumentParser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Namespace]:
    """Parses arguments in an empty folder that holds base.yaml."""
    monkeypatch.chdir(tmp_path)
    Path("base.yaml").write_text(BASE, encoding="utf-8")
    return partial(check_arguments, parser)


Check = Callable[[list[str]], Namespace]


def faults(check: Check, arguments: list[str]) -> list[str]:
    """What the parser's check says; the description's says the same, or nothing where it does not know a class."""
    with pytest.raises(UserError) as caught:
        check(arguments)
    assert by_description(arguments) in (None, str(caught.value))
    return str(caught.value).split("\n")


def by_description(arguments: list[str], twin: str = "lit") -> str | None:
    """The faults that are found without importing a class; None where that cannot be told."""
    try:
        refuse_faults(as_described(twin, "fit"), arguments)
    except UndescribedError:
        return None
    except UserError as error:
        return str(error)
    return ""


def overlay_faults(check: Check, text: str | bytes, *arguments: str) -> list[str]:
    """The faults of an overlay on a good base."""
    Path("x.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    return faults(check, ["--config", "base.yaml", "--config", "x.yaml", *arguments])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # keys
        ("trainr:\n  max_epochs: 1\n", "x.yaml:1: trainr: no such key; did you mean trainer?"),
        (
            "trainer:\n  # why\n  max_epoch: 1\n",
            "x.yaml:3: trainer.max_epoch: no such key; did you mean trainer.max_epochs?",
        ),
        (
            "data:\n  tokenizer:\n    knd: bpe\n",
            "x.yaml:3: data.tokenizer.knd: no such key; did you mean data.tokenizer.kind?",
        ),
        ("model:\n  batch_size: 8\n", "x.yaml:2: model.batch_size: no such key; did you mean data.batch_size?"),
        ("max_epochs: 8\n", "x.yaml:1: max_epochs: no such key; did you mean trainer.max_epochs?"),
        ("lr: 8\n", "x.yaml:1: lr: no such key; did you mean model.optimizer.init_args.lr?"),
        ("Trainer:\n  max_epochs: 1\n", "x.yaml:1: Trainer: no such key; did you mean trainer?"),
        ("xyzzy: 8\n", "x.yaml:1: xyzzy: no such key"),
        ("data:\n  seed: 8\n", "x.yaml:2: data.seed: follows seed_everything; set that"),
        ("3: 8\n", "x.yaml:1: 3: no such key"),
        ("? [a, b]\n: 8\n", "x.yaml:1: expected a key, found a list"),
        # values
        ("trainer:\n  max_epochs: many\n", "x.yaml:2: trainer.max_epochs: expected a whole number or null, found many"),
        ("trainer:\n  max_steps: 2.5\n", "x.yaml:2: trainer.max_steps: expected a whole number, found 2.5"),
        (
            "trainer:\n  gradient_clip_val: x\n",
            "x.yaml:2: trainer.gradient_clip_val: expected a number or null, found x",
        ),
        ("data:\n  batch_size: 0\n", "x.yaml:2: data.batch_size: expected a whole number of at least 1, found 0"),
        ("data:\n  num_workers: -1\n", "x.yaml:2: data.num_workers: expected a whole number of at least 0, found -1"),
        (
            "data:\n  batch_size:\n",
            "x.yaml:2: data.batch_size: expected a whole number of at least 1, found nothing",
        ),
        (
            "data:\n  batch_size: [1]\n",
            "x.yaml:2: data.batch_size: expected a whole number of at least 1, found a list",
        ),
        ("data:\n  empty_text: skip\n", "x.yaml:2: data.empty_text: expected refuse or keep, found skip"),
        ("data:\n  train_file: 3\n", "x.yaml:2: data.train_file: expected text or null, found 3; put it in quotes"),
        ("data:\n  cache_dir: null\n", "x.yaml:2: data.cache_dir: expected text, found null"),
        (
            "model:\n  label_smoothing: 1.2\n",
            "x.yaml:2: model.label_smoothing: expected a number from 0 to 1, found 1.2",
        ),
        ("model:\n  compile: maybe\n", "x.yaml:2: model.compile: expected true or false, found maybe"),
        (
            "model:\n  class_weights: 7\n",
            "x.yaml:2: model.class_weights: expected balanced, a group of keys or null, found 7",
        ),
        (
            "trainer:\n  precision: float8\n",
            "x.yaml:2: trainer.precision: expected 64, 32, 16, transformer-engine, transformer-engine-float16, "
            "16-true, 16-mixed, bf16-true, bf16-mixed, 32-true, 64-true, bf16 or null, found float8",
        ),
        ("seed_everything: abc\n", "x.yaml:1: seed_everything: expected true, false or a whole number, found abc"),
        (
            "trainer:\n  callbacks: 3\n",
            "x.yaml:2: trainer.callbacks: expected a list, the class_path of a subclass of lightning's Callback "
            "or null, found 3",
        ),
        (
            "model: {class_weights: [&a [1], &b [*a, *a], &c [*b, *b], [*c, *c, 'a', 'rather', 'long', 'value']]}\n",
            "x.yaml:1: model.class_weights: expected balanced, a group of keys or null, found a list",
        ),
        # groups
        ("trainer: 3\n", "x.yaml:1: trainer: expected a group of keys, found 3"),
        ("data: []\n", "x.yaml:1: data: expected a group of keys, found a list"),
        ("trainer:\n", "x.yaml:1: trainer: no keys under it; add some, or take the line out"),
        ("model: null\n", "x.yaml:1: model: no keys under it; add some, or take the line out"),
        (
            "trainer:\n  max_epochs:1\n",
            "x.yaml:1: trainer: expected a group of keys, found max_epochs:1; "
            "did you mean `max_epochs: 1`, with a space?",
        ),
        # classes; the base names them
        (
            "model:\n  network:\n    init_args:\n      dimm: 3\n",
            "x.yaml:4: model.network.init_args.dimm: project.network.TextCNN has no such argument; did you mean dim?",
        ),
        (
            "model:\n  optimizer:\n    init_args:\n      lr: fast\n",
            "x.yaml:4: model.optimizer.init_args.lr: expected a number, found fast",
        ),
        (
            "model: {lr_scheduler: {init_args: {max_lrr: 3}}}\n",
            "x.yaml:1: model.lr_scheduler.init_args.max_lrr: torch.optim.lr_scheduler.OneCycleLR has no such argument; "
            "did you mean max_lr?",
        ),
        (
            "model: {network: {init_args: {num_tokens: 3}}}\n",
            "x.yaml:1: model.network.init_args.num_tokens: project.network.TextCNN has no such argument",
        ),
        (
            "model:\n  network:\n    dim: 3\n",
            "x.yaml:3: model.network.dim: no such key; did you mean model.network.init_args.dim?",
        ),
        (
            "model:\n  network:\n    classpath: torch.nn.Linear\n",
            "x.yaml:3: model.network.classpath: no such key; did you mean model.network.class_path?",
        ),
        (
            "model:\n  network:\n    init_args:\n",
            "x.yaml:3: model.network.init_args: no keys under it; add some, or take the line out",
        ),
        (
            "model:\n  network: {class_path: project.network.Poling}\n",
            "x.yaml:2: model.network: project.network has no class Poling; did you mean project.network.Pooling?",
        ),
        (
            "model:\n  optimizer: Adamw\n",
            "x.yaml:2: model.optimizer: no class Adamw; expected the import path of a subclass of torch's Optimizer; "
            "did you mean torch.optim.AdamW?",
        ),
        (
            "model:\n  lr_scheduler: ReduceLROnPlateau\n",
            "x.yaml:2: model.lr_scheduler: ReduceLROnPlateau may be lightning.pytorch.cli.ReduceLROnPlateau or "
            "torch.optim.lr_scheduler.ReduceLROnPlateau; write one of them",
        ),
        ("model: {network: nowhere.Net}\n", "x.yaml:1: model.network: nowhere.Net: there is no module nowhere"),
        (
            "model: {network: torch.optim.AdamW}\n",
            "x.yaml:1: model.network: torch.optim.AdamW is no subclass of torch's Module",
        ),
        (
            "model: {network: {class_path: os.system}}\n",
            "x.yaml:1: model.network: os.system: refused, os is none of torch, lightning, torchmetrics, project "
            "and no module of the working folder; add --allow os if you trust its code",
        ),
        (
            "model: {network: 3}\n",
            "x.yaml:1: model.network: expected the class_path of a subclass of torch's Module, found 3",
        ),
        (
            "model: {network: null}\n",
            "x.yaml:1: model.network: expected the class_path of a subclass of torch's Module, found null",
        ),
        (
            "model: {lr_scheduler: torch.optim.lr_scheduler.ExponentialLR}\n",
            "x.yaml:1: model.lr_scheduler: torch.optim.lr_scheduler.ExponentialLR needs "
            "model.lr_scheduler.init_args.gamma, a number",
        ),
        (
            "trainer:\n  callbacks:\n  - class_path: Timer\n    init_args: {durration: '00:00:00:01'}\n",
            "x.yaml:4: trainer.callbacks[0].init_args.durration: Timer has no such argument; did you mean duration?",
        ),
        # YAML itself
        (
            "trainer: {max_epochs: 1\nmodel: 3\n",
            "x.yaml:2: not valid YAML: expected ',' or '}', but got ':' (in what begins in line 1)",
        ),
        ("name: *b\n", "x.yaml:1: not valid YAML: found undefined alias 'b'"),
        (
            "trainer:\n  max_epochs: 1\n   devices: 3\n",
            "x.yaml:3: a key where none can stand; check the indentation of this line and the one before, "
            "and quote a value that holds `: `",
        ),
        ("trainer:\n\tmax_epochs: 1\n", "x.yaml:2: indented with a tab; use spaces"),
        (
            "trainer:\n  max_epochs: 1\n  max_epochs: 2\n",
            "x.yaml:3: trainer.max_epochs: given twice, first in line 2; keep one",
        ),
        ("", "x.yaml: no keys in it; fill it or leave it out"),
        ("# all of it is a comment\n", "x.yaml: no keys in it; fill it or leave it out"),
        ("- a\n- b\n", "x.yaml:1: expected keys and values, such as `trainer:`, found a list"),
        ("hello\n", "x.yaml:1: expected keys and values, such as `trainer:`, found hello"),
        ("name: a\n---\nname: b\n", "x.yaml:2: a second document begins here; keep one"),
        ("a: 1\nname: caf\u00e9\n".encode("latin-1"), "x.yaml:2: byte 0xe9 is not UTF-8; save the file as UTF-8"),
        ("name: a\n".encode("utf-16"), "x.yaml:1: byte 0xff is not UTF-8; save the file as UTF-8"),
        (b"a: 1\nname: a\x00b\n", "x.yaml:2: character U+0000 may not stand in YAML; remove it"),
        ("early_stopping: &b {monitor: *b}\n", "x.yaml:1: this anchor contains itself; write the values out"),
        ("base: &b {mode: min}\ncheckpoint: {<<: *b}\n", "x.yaml:1: base: no such key"),
        ("name: !mine x\n", "x.yaml:1: the tag !mine is refused; write a plain value"),
        (
            "early_stopping: &b {patience: 3}\ncheckpoint: {<<: *b}\n",
            "x.yaml:1: checkpoint.patience: no such key; did you mean early_stopping.patience?",
        ),
    ],
)
def test_one_fault_of_a_file_is_one_plain_line(check: Check, text: str | bytes, expected: str) -> None:
    assert overlay_faults(check, text) == [expected]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--trainer.max_epoch", "3"], "--trainer.max_epoch: no such option; did you mean --trainer.max_epochs?"),
        (["--trainer.max_ep=3"], "--trainer.max_ep: no such option; did you mean --trainer.max_epochs?"),
        (["--nam", "a"], "--nam: no such option; did you mean --name?"),
        (["-name", "a"], "-name: no such option; did you mean --name?"),
        (["--batch-size=3"], "--batch-size: no such option; did you mean --data.batch_size?"),
        (["--print_confg"], "--print_confg: no such option; did you mean --print_config?"),
        (["--trainer.max_epochs"], "--trainer.max_epochs: expected a value after it, found nothing"),
        (["--trainer.max_epochs", "--name=a"], "--trainer.max_epochs: expected a value after it, found nothing"),
        (["--data.batch_size="], "--data.batch_size: expected a whole number of at least 1, found nothing"),
        (["--data.batch_size=-1"], "--data.batch_size: expected a whole number of at least 1, found -1"),
        (["--data.batch_size", "-1"], "--data.batch_size: expected a whole number of at least 1, found -1"),
        (["--data.seed=3"], "--data.seed: follows --seed_everything; set that"),
        (["stray"], "stray: belongs to no option"),
        (["--data.batch_size", "8", "16"], "16: belongs to no option"),
        (["x.yaml"], "x.yaml: belongs to no option; did you mean --config x.yaml?"),
        (["--", "--name=a"], "--: belongs to no option"),
        (["--config"], "--config: expected a YAML file after it, found nothing"),
        (["--config="], "--config: expected a YAML file after it, found nothing"),
        (["--config", "--name=a"], "--config: expected a YAML file after it, found nothing"),
        (["--model.optimizer.lr=fast"], "--model.optimizer.lr: expected a number, found fast"),
        (
            ["--model.network.init_args.dimm=3"],
            "--model.network.init_args.dimm: project.network.TextCNN has no such argument; did you mean dim?",
        ),
        (
            ["--model.network=project.network.Pooling", "--model.network.num_filters=3"],
            "--model.network.num_filters: project.network.Pooling has no such argument",
        ),
        (["--trainer={max_epoch: 3}"], "trainer.max_epoch: no such key; did you mean trainer.max_epochs?"),
        (
            ["--trainer.callbacks=[!!python/name:os.system x]"],
            "--trainer.callbacks: expected a list, the class_path of a subclass of lightning's Callback or null, "
            "found [!!python/name:os.system x]",
        ),
    ],
)
def test_one_fault_of_an_option_is_one_plain_line(check: Check, arguments: list[str], expected: str) -> None:
    assert faults(check, ["--config", "base.yaml", *arguments]) == [f"command line: {expected}"]


def test_all_faults_of_two_files_and_the_command_line_are_reported_at_once(check: Check) -> None:
    Path("y.yaml").write_text("trainer: {max_epoch: 1}\nmodel: {network: {class_path: project.network.Pooling}}\n")
    found = overlay_faults(
        check,
        "data:\n  batchsize: x\n  max_tokens: x\n",
        "--config=y.yaml",
        "--config=bsae.yaml",
        "--data.num_workers=many",
        "--model.network.num_filters=3",
    )
    assert found == [
        "x.yaml:2: data.batchsize: no such key; did you mean data.batch_size?",
        "x.yaml:3: data.max_tokens: expected a whole number of at least 1, found x",
        "y.yaml:1: trainer.max_epoch: no such key; did you mean trainer.max_epochs?",
        "bsae.yaml: no such file; did you mean base.yaml?",
        "command line: --data.num_workers: expected a whole number of at least 0, found many",
        "command line: --model.network.num_filters: project.network.Pooling has no such argument",
    ]


def test_a_class_holds_for_the_files_after_it(check: Check) -> None:
    Path("y.yaml").write_text("model: {network: {class_path: project.network.Pooling}}\n")
    Path("z.yaml").write_text("model: {network: {init_args: {num_filters: 3}}}\n")
    found = faults(check, ["--config=base.yaml", "--config=y.yaml", "--config=z.yaml"])
    assert found == ["z.yaml:1: model.network.init_args.num_filters: project.network.Pooling has no such argument"]
    check(["--config=base.yaml", "--config=z.yaml"])  # TextCNN has it


def test_required_keys_are_named_with_their_place(check: Check) -> None:
    expected = [
        f"model.{name}: required, and not given; write `{name}:` under `model:` in a file that --config names, "
        "as in configs/default.yaml"
        for name in ("network", "optimizer")
    ]
    assert faults(check, []) == expected
    assert faults(check, ["--model.network=project.network.Pooling"]) == expected[1:]
    # a key with a faulty value is faulty, not missing
    Path("x.yaml").write_text("model: {network: null, optimizer: 3}\n")
    assert faults(check, ["--config=x.yaml"]) == [
        "x.yaml:1: model.network: expected the class_path of a subclass of torch's Module, found null",
        "x.yaml:1: model.optimizer: expected the class_path of a subclass of torch's Optimizer, found 3",
    ]
    # what is in a file that could not be read is not called missing
    assert faults(check, ["--config=missing.yaml"]) == ["missing.yaml: no such file"]


def test_an_argument_before_its_class_is_refused(check: Check) -> None:
    optimizer = "--model.optimizer=torch.optim.AdamW"
    assert faults(check, ["--model.network.dim=3", optimizer]) == [
        "command line: --model.network.dim: no class is chosen yet; give model.network.class_path before it"
    ]


def test_a_folder_and_a_misspelt_file(check: Check) -> None:
    Path("folder").mkdir()
    assert faults(check, ["--config", "folder"]) == ["folder: a folder; name a YAML file in it"]
    assert faults(check, ["--config", "bsae.yaml"]) == ["bsae.yaml: no such file; did you mean base.yaml?"]
    assert faults(check, ["-c", "bsae.yaml"]) == ["bsae.yaml: no such file; did you mean base.yaml?"]


def test_python_tags_are_refused_and_nothing_runs(check: Check) -> None:
    touch = "!!python/object/apply:os.system ['touch ran']"
    found = overlay_faults(check, f"name: {touch}\ntrainer:\n  max_epochs: {touch}\nmodel: !!python/name:os.system\n")
    assert found == [
        "x.yaml:1: the tag !!python/object/apply:os.system is refused; write a plain value",
        "x.yaml:3: the tag !!python/object/apply:os.system is refused; write a plain value",
        "x.yaml:4: the tag !!python/name:os.system is refused; write a plain value",
    ]
    faults(check, ["--config=base.yaml", f"--name={touch}", f"--trainer.callbacks=[{touch}]"])
    assert not Path("ran").exists()


def test_a_module_that_fails_to_import_is_the_persons_own_fault(
    check: Check, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "broken_net.py").write_text("import not_installed_here\n")
    (tmp_path / "raising_net.py").write_text("raise RuntimeError('no\\nluck')\n")
    assert overlay_faults(check, "model: {network: broken_net.Net}\n") == [
        "x.yaml:1: model.network: broken_net.Net: its import failed: No module named 'not_installed_here'"
    ]
    assert overlay_faults(check, "model: {network: raising_net.Net}\n") == [
        "x.yaml:1: model.network: raising_net.Net: its import failed: RuntimeError: no luck"
    ]


@pytest.mark.parametrize(
    ("text", "key", "expected"),
    [
        ("\ufeffname: a\n", "name", "a"),
        ("data.batch_size: 3\n", "data.batch_size", 3),
        ("model.network.init_args.dim: 24\n", "model.network.init_args.dim", 24),
        ("data: {batch_size: &n 8, max_tokens: *n}\n", "data.max_tokens", 8),
        ("early_stopping: &b {mode: min}\ncheckpoint: {<<: *b}\n", "checkpoint.mode", "min"),
        ("early_stopping: &b {mode: min}\ncheckpoint: {<<: *b, mode: max}\n", "checkpoint.mode", "max"),
        ("model: {lr_scheduler: null}\n", "model.lr_scheduler", None),
        ("model: {optimizer: {init_args: {lr: 1e-3}}}\n", "model.optimizer.init_args.lr", 1e-3),
        ("model: {network: project.network.Pooling}\n", "model.network.init_args.dim", 8),
        ("model: {class_weights: {a: 2, b: 0.5}}\n", "model.class_weights", {"a": 2.0, "b": 0.5}),
        ("trainer: {max_epochs: -1}\n", "trainer.max_epochs", -1),
        (  # needs max_lr as well, and keeps the base's, as arguments of the same name are kept
            "model: {lr_scheduler: {class_path: torch.optim.lr_scheduler.CyclicLR, init_args: {base_lr: 0.01}}}\n",
            "model.lr_scheduler.init_args.max_lr",
            0.05,
        ),
    ],
)
def test_what_is_right_is_taken(check: Check, text: str, key: str, expected: object) -> None:
    Path("x.yaml").write_text(text, encoding="utf-8")
    assert by_description(["--config", "base.yaml", "--config", "x.yaml"]) == ""
    assert check(["--config", "base.yaml", "--config", "x.yaml"])[key] == expected


def test_options_that_are_right_are_taken(check: Check) -> None:
    Path("trainer.yaml").write_text("max_epochs: 7\n")
    networks = ["--model.network=project.network.Pooling", "--model.network.dim=9", "--model.lr_scheduler=null"]
    optimizer = "--model.optimizer={class_path: torch.optim.SGD, init_args: {lr: 1}}"
    groups = ["--trainer", "trainer.yaml", "--trainer.max_steps", "-1", "--data={batch_size: 3}"]
    callbacks = ["--trainer.callbacks+=Timer", "--trainer.callbacks.duration=00:00:01:00"]
    config = check(["-c", "base.yaml", *groups, *networks, optimizer, *callbacks, "--name", "3"])
    assert (config.trainer.max_epochs, config.trainer.max_steps, config.data.batch_size) == (7, -1, 3)
    assert config.model.network.init_args.dim == 9
    assert config.model.optimizer.class_path == "torch.optim.SGD"
    assert config.name == "3"


def test_a_printed_configuration_is_taken_again(check: Check, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--config", "base.yaml", "--config", str(PLATEAU)]
    with pytest.raises(SystemExit, match="0"):
        check([*arguments, "--print_config"])
    Path("printed.yaml").write_text(capsys.readouterr().out)
    first, again = (check(given).clone() for given in (arguments, ["--config", "printed.yaml"]))
    assert {**first.as_dict(), "config": None} == {**again.as_dict(), "config": None}


def test_the_configuration_saved_with_a_run_is_taken_again(check: Check, corpus: Corpus) -> None:
    fit = ["--config", "base.yaml", *corpus.arguments, "--trainer.max_steps=1", "--trainer.accelerator=cpu"]
    fit += ["--trainer.log_every_n_steps=1"]
    assert main(["fit", *fit]) == 0
    saved = corpus.folder / "runs" / "default" / "version_0" / "config.yaml"
    first, again = (check(given).clone() for given in (fit, ["--config", str(saved)]))
    assert {**first.as_dict(), "config": None} == {**again.as_dict(), "config": None}


def test_faults_come_before_a_printed_configuration_but_help_always_works(
    check: Check, capsys: pytest.CaptureFixture[str]
) -> None:
    assert faults(check, ["--config=base.yaml", "--print_config", "--nam=a"]) == [
        "command line: --nam: no such option; did you mean --name?"
    ]
    for helps in ("--help", "-h", "--model.network.help=project.network.Pooling"):
        with pytest.raises(SystemExit, match="0"):
            check([helps])
        assert "--" in capsys.readouterr().out


@pytest.mark.parametrize("twin", ["lit", "hand"])
@pytest.mark.parametrize("name", sorted(path.name for path in CONFIGS.glob("*.yaml")))
def test_what_is_shipped_is_described(name: str, twin: str) -> None:
    """No class has to be imported to check it."""
    arguments = ["--config", str(CONFIGS / "default.yaml"), "--config", str(CONFIGS / name)]
    assert by_description(arguments, twin) == ""
    assert by_description([*arguments, "--model.optimizer.lr=x"], twin) == (
        "command line: --model.optimizer.lr: expected a number, found x"
    )


def test_options_are_split_as_argparse_does() -> None:
    words = ["--a", "1", "--b=2=3", "-c", "x.yaml", "--d", "-1", "--e", "-.5", "--f", "--g+=4", "word"]
    assert [(option.key, option.value) for option in options(words)] == [
        ("a", "1"),
        ("b", "2=3"),
        ("config", "x.yaml"),
        ("d", "-1"),
        ("e", "-.5"),
        ("f", None),
        ("g", "4"),
        ("", None),
    ]


def test_an_integer_stays_one_whatever_order_of_int_and_float_was_asked_for_first() -> None:
    """`Optional[Union[float, int]]` of any library would turn `1`, one batch, into `1.0`, all of them."""
    parser = ArgumentParser(exit_on_error=False)
    parser.add_argument("--limit", type=Optional[Union[float, int]])  # noqa: UP007, UP045  # as typing's cache has it
    assert repr(check_arguments(parser, ["--limit=1"]).limit) == "1"
    assert repr(check_arguments(parser, ["--limit=1.0"]).limit) == "1.0"
    assert check_arguments(parser, ["--limit=null"]).limit is None
