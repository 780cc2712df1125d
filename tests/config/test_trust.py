"""Whose classes a configuration, a command line or a checkpoint may name."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from project.__main__ import main
from project.commands.runs import new_run
from project.config.trust import as_options, check_trusted, take_allowed, trusted
from project.errors import UserError
from tiny_corpus import STRANGERS_NETWORK, Corpus

CONFIG = Path(__file__).parents[2] / "configs" / "default.yaml"
TWINS = {"hand": ["hand"], "lit": ["fit"]}
CANARY = "from pathlib import Path\nPath({canary!r}).touch()\n"


@pytest.fixture(autouse=True)
def _nothing_is_allowed() -> Iterator[None]:
    yield
    take_allowed([])


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of modules that are importable and not in the working folder: `stranger`, which leaves a canary."""
    folder, here = tmp_path / "site", tmp_path / "here"
    folder.mkdir()
    here.mkdir()
    (folder / "stranger.py").write_text(CANARY.format(canary=str(tmp_path / "canary")) + STRANGERS_NETWORK)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.chdir(here)
    for name in ("stranger", "mine"):  # of another test's folder
        monkeypatch.delitem(sys.modules, name, raising=False)
    return folder


def call(twin: str, corpus: Corpus, *more: str) -> int:
    return main([*TWINS[twin], "--config", str(CONFIG), *corpus.arguments, "--trainer.max_steps=1", *more])


@pytest.mark.parametrize("twin", TWINS)
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "model: {network: stranger.Bag}\n",
            "x.yaml:1: model.network: stranger.Bag: refused, stranger is none of torch",
        ),
        (
            "model:\n  optimizer: {class_path: stranger.Bag}\n",
            "x.yaml:2: model.optimizer: stranger.Bag: refused, stranger is none of",
        ),
        ("allow: stranger\n", "x.yaml:1: allow: no such key"),  # a file cannot widen what files may name
        ("allow: [stranger]\nmodel: {network: stranger.Bag}\n", "model.network: stranger.Bag: refused"),
        (  # inside the arguments of a class, where only jsonargparse looks
            "model:\n  lr_scheduler:\n    class_path: torch.optim.lr_scheduler.LambdaLR\n"
            "    init_args: {lr_lambda: stranger.Bag}\n",
            "x.yaml:4: model.lr_scheduler.init_args.lr_lambda: expected",
        ),
    ],
)
def test_a_strangers_module_is_refused_and_not_imported(
    twin: str, text: str, said: str, corpus: Corpus, elsewhere: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("x.yaml").write_text(text)
    assert call(twin, corpus, "--config=x.yaml") == 2
    assert said in capsys.readouterr().err
    assert not (elsewhere.parent / "canary").exists()


@pytest.mark.parametrize("twin", TWINS)
def test_allow_adds_a_name_for_one_command(
    twin: str, corpus: Corpus, elsewhere: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(twin, corpus, "--model.network=stranger.Bag", "--allow", "numpy", "--allow=stranger") == 0
    checkpoint = corpus.folder / "runs" / "default" / "version_0" / "checkpoints" / "last.ckpt"
    evaluate = ["hand", "validate"] if twin == "hand" else ["validate"]
    for command in (evaluate, ["explain", "some error"]):
        arguments = [f"--ckpt_path={checkpoint}"] + ([] if command[0] == "explain" else corpus.arguments)
        capsys.readouterr()
        assert main([*command, *arguments]) == 2
        said = capsys.readouterr().err
        assert "stranger.Bag: refused, stranger is none of torch" in said
        assert "add --allow stranger if you trust its code" in said
        assert main([*command, *arguments, "--allow=stranger"]) == 0


def test_the_ranks_are_told_the_names(corpus: Corpus, elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[list[str]] = []

    def elastic_launch(config: object, entry: object) -> Callable[..., None]:
        return lambda *words: started.append(list(words))

    monkeypatch.setattr("torch.distributed.launcher.api.elastic_launch", elastic_launch)
    more = ["--allow", "stranger", "--model.network=stranger.Bag", "--trainer.devices=2", "--trainer.strategy=ddp"]
    assert call("hand", corpus, *more, "--trainer.accelerator=cpu") == 0
    assert take_allowed(started[0])
    assert as_options() == ["--allow=stranger"]


@pytest.mark.long
def test_compare_hands_the_names_on_to_both_twins(
    corpus: Corpus, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(elsewhere), prepend=":")
    arguments = ["compare", "--allow=stranger", "--config", str(CONFIG), "--model.network=stranger.Bag"]
    data = [argument for argument in corpus.arguments if argument.startswith("--data")]
    assert main([*arguments, *data, "--trainer.max_steps=1", "--json=report.json"]) == 0
    assert json.loads(Path("report.json").read_text())


def test_names_are_taken_out_of_the_arguments() -> None:
    assert take_allowed(["fit", "--allow", "timm", "--name=a", "--allow=mine.networks"]) == ["fit", "--name=a"]
    assert as_options() == ["--allow=timm", "--allow=mine.networks"]
    for name in ("timm.Net", "timm", "mine.networks.Net", "torch.nn.Linear", "project.network.Pooling"):
        check_trusted(name)
    for name in ("timmy.Net", "mine.Net", "numpy.ndarray", "torchvision.models.ResNet", "builtins.eval", "os.system"):
        with pytest.raises(UserError):
            check_trusted(name)
    assert take_allowed(["fit"]) == ["fit"]
    assert as_options() == []


@pytest.mark.parametrize(
    "arguments", [["--allow"], ["--allow="], ["--allow", "*"], ["--allow", "a-b"], ["--allow=../a"]]
)
def test_what_is_no_module_is_refused(arguments: list[str]) -> None:
    with pytest.raises(UserError, match=r"--allow: expected a module such as timm or timm.models after it, found"):
        take_allowed(arguments)


def test_modules_of_the_working_folder_are_those_that_are_imported_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder with the name of a library's module, or an environment that lies in it, opens no door."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path / "env"))
    for file in ("mine.py", "package/__init__.py", "plain/net.py", "code/old.py", "env/other.py", "not-a-name.py"):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).touch()
    assert {"mine", "package", "plain"} <= set(trusted())
    assert not {"code", "other", "not-a-name"} & set(trusted())
    for name in ("mine.Net", "package.Net", "plain.net.Net"):
        check_trusted(name)
    for name in ("code.InteractiveInterpreter", "other.Net"):
        with pytest.raises(UserError, match="refused"):
            check_trusted(name)


@pytest.mark.parametrize("twin", TWINS)
def test_a_module_that_only_hands_on_a_strangers_class_does_not_hide_it(
    twin: str, corpus: Corpus, elsewhere: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("mine.py").write_text("from stranger import Bag\n")
    monkeypatch.syspath_prepend(str(Path.cwd()))
    assert call(twin, corpus, "--model.network=mine.Bag") == 2
    assert "stranger.Bag: refused" in capsys.readouterr().err


@pytest.mark.parametrize("twin", TWINS)
@pytest.mark.parametrize("name", ["../out", "a/../../out", "/tmp/out", ".."])
def test_a_runs_name_stays_below_its_root(
    twin: str, name: str, corpus: Corpus, capsys: pytest.CaptureFixture[str]
) -> None:
    root = corpus.folder / "a" / "b" / "runs"
    assert call(twin, corpus, f"--trainer.default_root_dir={root}", f"--name={name}") == 2
    assert f"name: {name!r} leads out of {root}; take a plain name" in capsys.readouterr().err
    assert not list(corpus.folder.rglob("version_*"))
    assert not Path("/tmp/out").exists()


def test_a_name_in_parts_is_fine(tmp_path: Path) -> None:
    assert new_run(tmp_path, "sweep/one") == tmp_path / "sweep" / "one" / "version_0"


def test_tensorboard_is_started_on_this_machine_alone(corpus: Corpus, capsys: pytest.CaptureFixture[str]) -> None:
    makefile = (CONFIG.parents[1] / "Makefile").read_text()
    lines = [line for line in makefile.splitlines() if "tensorboard --logdir" in line]
    assert lines
    assert all("--host localhost" in line for line in lines)
    for twin in TWINS:
        assert call(twin, corpus, f"--name={twin}") == 0
        hint = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("look at it"))
        assert hint.endswith("--host localhost")
    assert "bind_all" not in makefile
