"""The commands as a person types them, run in this process."""

from __future__ import annotations

import io
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
import yaml
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from project.__main__ import main
from project.checkpoint.classifier import Classifier
from project.commands.runs import best_checkpoint, new_run
from tiny_corpus import STRANGERS_NETWORK, Corpus, write_corpus

CONFIG = """\
seed_everything: 1
trainer: {max_epochs: 2, accelerator: cpu, log_every_n_steps: 1}
model:
  network: {class_path: project.network.Pooling, init_args: {dim: 16}}
  optimizer: {class_path: torch.optim.AdamW, init_args: {lr: 0.05}}
  lr_scheduler: {class_path: torch.optim.lr_scheduler.OneCycleLR, init_args: {max_lr: 0.05}}
data: {batch_size: 8}
"""


def fit(corpus: Corpus, *options: str) -> Path:
    """Train on the tiny corpus; returns the run folder."""
    config = corpus.folder / "config.yaml"
    config.write_text(CONFIG, encoding="utf-8")
    assert main(["fit", "--config", str(config), *corpus.arguments, *options]) == 0
    return best_checkpoint(corpus.folder / "runs").parent.parent


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """A corpus beside one finished run, for tests that only read it."""
    corpus = write_corpus(tmp_path_factory.mktemp("trained"))
    fit(corpus, "--trainer.max_epochs=8", "--data.max_tokens=60", "--data.batch_size=8")
    return corpus


def root(corpus: Corpus) -> str:
    return f"--trainer.default_root_dir={corpus.folder / 'runs'}"


def test_a_run_leaves_what_it_promises(trained: Corpus) -> None:
    run = trained.folder / "runs" / "default" / "version_0"
    assert sorted(path.name for path in run.glob("*") if "tfevents" not in path.name) == [
        "checkpoints",
        "config.yaml",
        "finished.json",
        "hparams.yaml",
        "tokenizer.json",
    ]
    summary = json.loads((run / "finished.json").read_text())
    assert summary["optimizer_steps"] == 56
    assert summary["epochs"] == 8
    saved = yaml.safe_load((run / "config.yaml").read_text())
    assert saved["data"]["train_file"] == str(trained.train)
    assert saved["model"]["network"]["init_args"]["dim"] == 16


def test_tensorboard_holds_curves_picture_text_and_hyperparameters(trained: Corpus) -> None:
    run = trained.folder / "runs" / "default" / "version_0"
    events = EventAccumulator(str(run))
    events.Reload()
    scalars = set(events.Tags()["scalars"])
    assert {"train/loss", "train/lr", "train/grad_norm", "val/loss", "val/accuracy", "val/macro_f1"} <= scalars
    assert "final/val/macro_f1" in scalars
    assert [event.step for event in events.Scalars("train/loss")] == list(range(1, 57))
    assert [event.step for event in events.Scalars("val/loss")] == list(range(7, 57, 7))
    assert events.Tags()["images"] == ["val/confusion"]
    assert "val/misclassified/text_summary" in events.Tags()["tensors"]
    assert "hp_metric" not in scalars


def test_a_checkpoint_is_neutral_and_reads_without_pickle(trained: Corpus) -> None:
    path = best_checkpoint(trained.folder / "runs")
    content = torch.load(path, weights_only=True)
    classifier = Classifier.load(path)
    assert content["state_dict"].keys() == classifier.network.state_dict().keys()
    assert classifier.labels == ("animal", "colour", "tool")
    texts = ["word1 cat word2", "green", "the drill and word3"]
    assert classifier.probabilities(texts).argmax(dim=1).tolist() == [0, 1, 2]


def test_evaluation_uses_the_newest_run_and_its_configuration(
    trained: Corpus, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["validate", root(trained)]) == 0
    output = capsys.readouterr()
    assert "best.ckpt" in output.err
    assert "macro-F1" in output.out
    assert "20 rows in" in output.out
    assert main(["test", root(trained)]) == 0
    assert "macro-F1" in capsys.readouterr().out


def test_predictions_are_in_input_order_and_need_only_text(
    trained: Corpus, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [f"{word} word{number}" for number, word in enumerate(["saw", "cat", "blue", "dog", "red", "file"] * 6)]
    rows = "".join(json.dumps({"text": text, "label": ["ignored"], "more": 1}) + "\n" for text in texts)
    output = trained.folder / "out" / "predictions.jsonl"
    output.parent.mkdir()
    source = trained.folder / "rows.jsonl"
    source.write_text(rows, encoding="utf-8")
    command = ["predict", root(trained), "--data.batch_size=7"]
    assert main([*command, f"--data.predict_file={source}", f"--output={output}"]) == 0
    assert [path.name for path in output.parent.iterdir()] == ["predictions.jsonl"]
    lines = [json.loads(line) for line in output.read_text().splitlines()]
    expected = Classifier.load(best_checkpoint(trained.folder / "runs")).probabilities(texts)
    assert [line["index"] for line in lines] == list(range(36))
    for line, row in zip(lines, expected, strict=True):
        assert list(line) == ["index", "label", "probability", "probabilities"]
        assert list(line["probabilities"].values()) == pytest.approx(row.tolist(), abs=2e-6)  # six decimals are written
        assert line["label"] == max(line["probabilities"], key=line["probabilities"].__getitem__)
        assert line["probability"] == line["probabilities"][line["label"]]

    capsysbinary.readouterr()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(rows.encode())))
    assert main(command) == 0
    assert capsysbinary.readouterr().out == output.read_bytes()


def test_faulty_rows_on_standard_input_are_named_by_line(
    trained: Corpus, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'{"text": "a"}\n{"label": 1}\n')))
    assert main(["predict", root(trained)]) == 2
    assert "standard input:2: " in capsys.readouterr().err


def test_a_rerun_makes_a_new_version_and_evaluation_makes_none(corpus: Corpus) -> None:
    fit(corpus, "--trainer.max_epochs=1")
    second = fit(corpus, "--trainer.max_epochs=1")
    assert second.name == "version_1"
    assert main(["test", root(corpus)]) == 0
    assert sorted(path.name for path in second.parent.iterdir()) == ["version_0", "version_1"]


def test_the_same_command_gives_the_same_weights(corpus: Corpus) -> None:
    states = []
    for _ in range(2):
        run = fit(corpus)
        states.append(torch.load(run / "checkpoints" / "last.ckpt", weights_only=True)["state_dict"])
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def test_fit_never_opens_the_test_file(corpus: Corpus, capsys: pytest.CaptureFixture[str]) -> None:
    corpus.test.unlink()
    fit(corpus, "--trainer.max_epochs=1")
    assert main(["test", root(corpus)]) == 2
    assert "test.jsonl: no such file" in capsys.readouterr().err


def test_last_is_the_last_even_when_best_is_older(corpus: Corpus) -> None:
    """The second epoch trains nothing (its learning rate is 0), so best stays at the first and last moves on."""
    run = fit(corpus, "--trainer.max_epochs=3", "--checkpoint.monitor=val/loss", "--checkpoint.mode=max")
    last = torch.load(run / "checkpoints" / "last.ckpt", weights_only=True)
    best = torch.load(run / "checkpoints" / "best.ckpt", weights_only=True)
    assert (last["progress"]["epoch"], best["progress"]["epoch"]) == (2, 0)
    assert last["progress"]["step"] == 21


def test_early_stopping_ends_the_run(corpus: Corpus) -> None:
    run = fit(corpus, "--trainer.max_epochs=9", "--early_stopping.patience=1", "--early_stopping.min_delta=2")
    assert json.loads((run / "finished.json").read_text())["epochs"] == 2


def test_a_run_can_start_from_anothers_weights(corpus: Corpus) -> None:
    first = fit(corpus)
    start = first / "checkpoints" / "last.ckpt"
    second = fit(corpus, f"--model.init_from={start}", "--model.optimizer.lr=0", "--model.lr_scheduler=null")
    theirs, ours = (Classifier.load(run / "checkpoints" / "last.ckpt") for run in (first, second))
    weights = dict(theirs.network.named_parameters())
    assert all(torch.equal(weights[name], parameter) for name, parameter in ours.network.named_parameters())


def test_init_from_keeps_the_tokenizer_and_leaves_the_last_layer_fresh_for_other_labels(corpus: Corpus) -> None:
    first = fit(corpus)
    start = first / "checkpoints" / "last.ckpt"
    for path in (corpus.train, corpus.val, corpus.test):
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        rows = [
            {"text": row["text"] + " unseen", "label": "living" if row["label"] == "animal" else "dead"} for row in rows
        ]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    second = fit(corpus, f"--model.init_from={start}", "--model.optimizer.lr=0", "--model.lr_scheduler=null")
    theirs, ours = (Classifier.load(run / "checkpoints" / "last.ckpt") for run in (first, second))
    assert ours.vocabulary.tokenizer.to_json() == theirs.vocabulary.tokenizer.to_json()
    assert ours.labels == ("dead", "living")
    weights = dict(theirs.network.named_parameters())
    for name, parameter in ours.network.named_parameters():
        assert torch.equal(weights[name], parameter) == (weights[name].shape == parameter.shape), name


def test_init_from_another_network_is_refused(corpus: Corpus, capsys: pytest.CaptureFixture[str]) -> None:
    start = fit(corpus, "--trainer.max_epochs=1") / "checkpoints" / "last.ckpt"
    config = str(corpus.folder / "config.yaml")
    options = [*corpus.arguments, f"--model.init_from={start}", "--model.network.init_args.dim=24"]
    assert main(["fit", "--config", config, *options]) == 2
    assert "model.init_from:" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no such checkpoint"),
        (b"", "not a checkpoint, it is empty"),
        (b"PK\x03\x04 not really", "damaged checkpoint"),
        ({"state_dict": {}}, "not a checkpoint of this project"),
        ({"classifier": {"format": 99}}, "format 99, but this version reads format 1"),
    ],
)
def test_what_is_no_checkpoint_is_refused_in_one_line(
    trained: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str], content: object, message: str
) -> None:
    path = tmp_path / "some.ckpt"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        torch.save(content, path)
    assert main(["test", root(trained), f"--ckpt_path={path}", *trained.arguments]) == 2
    error = capsys.readouterr().err.strip()
    assert f"{path}: " in error
    assert message in error
    assert "\n" not in error


def test_without_a_run_the_message_says_how_to_make_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test", f"--trainer.default_root_dir={tmp_path}"]) == 2
    assert "no finished run here; train one with `python -m project fit" in capsys.readouterr().err


def test_a_strangers_network_works_by_its_class_path(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "theirs.py").write_text(STRANGERS_NETWORK)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)  # modules of the working folder are trusted
    run = fit(corpus, "--model.network=theirs.Bag", "--model.network.width=6", "--trainer.max_epochs=1")
    assert main(["test", root(corpus)]) == 0
    assert Classifier.load(run / "checkpoints" / "last.ckpt").network.bag.weight.shape[1] == 6  # type: ignore[union-attr,index]


def test_a_rehearsal_leaves_nothing_behind(corpus: Corpus) -> None:
    config = corpus.folder / "config.yaml"
    config.write_text(CONFIG, encoding="utf-8")
    assert main(["fit", "--config", str(config), *corpus.arguments, "--trainer.fast_dev_run=true"]) == 0
    assert not (corpus.folder / "runs").exists()


def test_runs_that_start_together_get_a_folder_each(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        runs = list(pool.map(lambda _: new_run(tmp_path, "same"), range(8)))
    assert sorted(run.name for run in runs) == sorted(f"version_{number}" for number in range(8))


def test_a_start_that_fails_leaves_no_run_folder(corpus: Corpus) -> None:
    corpus.val.write_text("no JSON\n")
    config = corpus.folder / "config.yaml"
    config.write_text(CONFIG, encoding="utf-8")
    assert main(["fit", "--config", str(config), *corpus.arguments]) == 2
    assert not list((corpus.folder / "runs").rglob("version_*"))


def test_a_run_that_stops_within_an_epoch_says_what_it_did(corpus: Corpus) -> None:
    run = fit(corpus, "--trainer.max_steps=3", "--trainer.logger=false")
    summary = json.loads((run / "finished.json").read_text())
    assert summary["epochs"] == 24 / 50
    assert summary["best_value"] is None
    assert (run / "config.yaml").is_file()
    assert [path.name for path in (run / "checkpoints").iterdir()] == ["last.ckpt"]


def test_a_saved_configuration_repeats_its_run(corpus: Corpus) -> None:
    """Also where the configuration said nothing of a seed."""
    config = corpus.folder / "config.yaml"
    config.write_text(CONFIG.replace("seed_everything: 1\n", ""), encoding="utf-8")
    assert main(["fit", "--config", str(config), *corpus.arguments]) == 0
    first = best_checkpoint(corpus.folder / "runs").parent.parent
    assert main(["fit", "--config", str(first / "config.yaml")]) == 0
    second = best_checkpoint(corpus.folder / "runs").parent.parent
    assert second != first
    states = [torch.load(run / "checkpoints" / "last.ckpt", weights_only=True)["state_dict"] for run in (first, second)]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def test_class_weights_and_a_plateau_work_where_validation_is_rarer(corpus: Corpus) -> None:
    plateau = ["--model.lr_scheduler=torch.optim.lr_scheduler.ReduceLROnPlateau", "--model.lr_monitor=val/loss"]
    options = ["--trainer.precision=bf16-true", "--model.class_weights=balanced", "--trainer.check_val_every_n_epoch=2"]
    run = fit(corpus, *plateau, *options, "--trainer.max_epochs=3")
    assert json.loads((run / "finished.json").read_text())["epochs"] == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit", "--ckpt_path=x.ckpt"], "x.ckpt: no such checkpoint"),
        (["fit", "--trainer.val_check_interval=3", "--trainer.accumulate_grad_batches=2"], "would cut a window of 2"),
        (["fit", "--early_stopping.monitor=val/los"], "early_stopping.monitor"),
        (["fit", "--data.tokenizer.num_tokens=1"], "tokenizer.num_tokens: too few"),
        (["fit", "--trainer.accelerator=gpux"], "accelerator"),
        (["validate", "--trainer.limit_val_batches=0"], "trainer.limit_val_batches: 0 leaves no row"),
        (["predict", "--trainer.limit_predict_batches=0"], "trainer.limit_predict_batches: 0 leaves no row"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    trained: Corpus, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    config = trained.folder / "config.yaml"
    source = ["--config", str(config)] if arguments[0] == "fit" else [f"--data.predict_file={trained.test}"]
    before = sorted((trained.folder / "runs").rglob("version_*"))
    assert main([arguments[0], *source, *trained.arguments, *arguments[1:]]) == 2
    assert message in capsys.readouterr().err
    assert sorted((trained.folder / "runs").rglob("version_*")) == before


def test_a_checkpoint_alone_is_enough(trained: Corpus, tmp_path: Path) -> None:
    """Away from its run's configuration, and with init_args of its own."""
    moved = tmp_path / "elsewhere.ckpt"
    moved.write_bytes(best_checkpoint(trained.folder / "runs").read_bytes())
    assert main(["test", f"--ckpt_path={moved}", f"--data.test_file={trained.test}"]) == 0
