"""What cannot be continued is refused in one line; what is continued otherwise is announced; what is over stays."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from interrupted import EACH_STEP, TWINS, content, first_difference, go_on, listed, stopped, train

from project.__main__ import main
from tiny_corpus import Corpus, write_corpus


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    corpus = write_corpus(tmp_path_factory.mktemp("refused"))
    options = ["--trainer.accumulate_grad_batches=2", "--data.batch_size=4", *EACH_STEP]
    return train("hand", corpus, "whole", *options)


@pytest.mark.parametrize("twin", TWINS)
@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--data.train_file={other}"], "data.train_file holds other rows"),
        (["--data.val_file={other}"], "data.val_file holds other rows"),
        (["--data.train_file={labels}", "--data.val_file={labels}"], "the labels were ['animal', 'colour', 'tool']"),
        (["--data.tokenizer.num_tokens=20"], "the vocabulary (data.tokenizer) is another"),
        (["--data.max_tokens=5"], "data.max_tokens was 192 and is 5"),
        (["--model.network.init_args.token_dropout=0.5"], "init_args.token_dropout was 0.1 and is 0.5"),
        (["--model.network=Pooling"], "model.network was project.network"),
        (["--trainer.accumulate_grad_batches=4"], "where no window ends with a world size of 1"),
        (["--seed_everything=2"], "24 rows of an epoch in the order of seed_everything 1; found 2"),
        (["--data.batch_size=5"], "saved after 24 rows of epoch 1, where no window ends"),
        (["--trainer.max_epochs=9"], "ends after 14 advances, but 63 are planned"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_refused(twin: str, more: list[str], said: str, whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = whole.parents[2]
    places = {"other": folder / "other.jsonl", "labels": folder / "labels.jsonl"}
    lines = (folder / "train.jsonl").read_text().splitlines(keepends=True)
    places["other"].write_text("".join(lines[1:]))
    places["labels"].write_text("".join(lines).replace('"tool"', '"hammer"'))
    run = stopped(whole, 3, f"{twin}-{abs(hash(more[0]))}")
    before = listed(run)
    last = f"--ckpt_path={run / 'checkpoints' / 'last.ckpt'}"
    assert main([*TWINS[twin], last, *(option.format(**places) for option in more)]) == 2
    assert said in capsys.readouterr().err
    assert listed(run) == before


@pytest.mark.parametrize("twin", TWINS)
def test_a_position_that_ends_a_window_goes_on_under_another_accumulation(twin: str, whole: Path) -> None:
    run = stopped(whole, 2, f"{twin}-accumulated")  # after four micro-batches of four rows
    go_on(twin, run, "--trainer.accumulate_grad_batches=4", "--trainer.max_epochs=1")
    assert content(run)["progress"]["step"] == 5  # 2, and 9 micro-batches in windows of 4


@pytest.mark.parametrize("twin", TWINS)
def test_the_command_line_wins_and_says_so(twin: str, whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = stopped(whole, 3, f"{twin}-changed")
    changed = ["--model.optimizer.init_args.weight_decay=0.5", "--trainer.gradient_clip_val=0.1"]
    go_on(twin, run, *changed, "--trainer.log_every_n_steps=3")
    said = capsys.readouterr().out
    assert "model.optimizer.init_args.weight_decay: 0.01 in the saved run, 0.5 from here on" in said
    assert "trainer.gradient_clip_val: 1.0 in the saved run, 0.1 from here on" in said
    assert said.count("from here on") == 2
    assert content(run)["optimizer"]["param_groups"][0]["weight_decay"] == 0.5
    assert first_difference(content(run), content(whole)) is not None


@pytest.mark.parametrize("twin", TWINS)
@pytest.mark.parametrize("wanted", ["last", "best"])
def test_a_finished_run_says_so_and_changes_nothing(
    twin: str, wanted: str, corpus: Corpus, capsys: pytest.CaptureFixture[str]
) -> None:
    run = train("lit" if twin == "hand" else "hand", corpus, "finished", "--checkpoint.monitor=val/loss")
    before = listed(run)
    assert main([*TWINS[twin], "--ckpt_path=last", f"--trainer.default_root_dir={corpus.folder / 'runs'}"]) == 0
    assert "the run is finished, after 16 optimizer steps" in capsys.readouterr().out
    assert listed(run) == before


@pytest.mark.parametrize("twin", TWINS)
def test_a_run_that_was_killed_after_its_last_save_becomes_finished(twin: str, corpus: Corpus) -> None:
    """All is trained and saved, and only finished.json is missing: no command would find the run otherwise."""
    run = train("lit" if twin == "hand" else "hand", corpus, "killed")
    mark = run / "finished.json"
    expected = json.loads(mark.read_text(encoding="utf-8"))
    mark.unlink()
    assert main([*TWINS[twin], f"--ckpt_path={run / 'checkpoints' / 'last.ckpt'}"]) == 0
    found = json.loads(mark.read_text(encoding="utf-8"))
    for timing in ("seconds", "train_rows_per_second"):
        assert found.pop(timing) > 0
        del expected[timing]
    assert found == expected


@pytest.mark.parametrize("twin", TWINS)
def test_a_run_that_was_stopped_early_is_finished(
    twin: str, corpus: Corpus, capsys: pytest.CaptureFixture[str]
) -> None:
    early = ["--early_stopping.patience=0", "--early_stopping.monitor=val/loss", "--early_stopping.mode=min"]
    early += ["--trainer.max_epochs=4"]
    run = train("lit" if twin == "hand" else "hand", corpus, "early", *early)
    assert content(run)["early_stopping"]["stopped"]
    before = listed(run)
    assert main([*TWINS[twin], f"--ckpt_path={run / 'checkpoints' / 'last.ckpt'}"]) == 0
    assert "the run is finished" in capsys.readouterr().out
    assert listed(run) == before


@pytest.mark.parametrize("twin", TWINS)
def test_a_run_beyond_what_is_asked_for_is_finished(twin: str, whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = stopped(whole, 9, f"{twin}-beyond")  # in the second epoch of two
    for asked in ("--trainer.max_epochs=1", "--trainer.max_steps=5"):
        assert main([*TWINS[twin], f"--ckpt_path={run / 'checkpoints' / 'last.ckpt'}", asked]) == 0
        assert "the run is finished, after 9 optimizer steps" in capsys.readouterr().out


@pytest.mark.parametrize("twin", TWINS)
def test_an_order_by_length_goes_on_with_its_own_batches_only(
    twin: str, corpus: Corpus, capsys: pytest.CaptureFixture[str]
) -> None:
    run = stopped(train("hand", corpus, "grouped", "--data.group_by_length=true", *EACH_STEP), 2, f"{twin}-grouped")
    last = f"--ckpt_path={run / 'checkpoints' / 'last.ckpt'}"
    assert main([*TWINS[twin], last, "--data.batch_size=14"]) == 2
    assert "data.group_by_length orders them by data.batch_size 7 and world size 1" in capsys.readouterr().err
    go_on(twin, run)
    whole = corpus.folder / "runs" / "grouped" / "version_0"
    assert first_difference(content(run), content(whole)) is None


def test_a_damaged_last_takes_no_older_files_place(corpus: Corpus) -> None:
    keep = ["--checkpoint.save_every_n_steps=1", "--checkpoint.keep_last=3"]
    whole = train("hand", corpus, "kept", *keep)
    for twin in TWINS:
        run = stopped(whole, 16, f"{twin}-kept")
        for step in (14, 15):
            (run / "checkpoints" / f"step-{step}.ckpt").write_bytes(
                (whole / "checkpoints" / f"step-{step}.ckpt").read_bytes()
            )
        (run / "checkpoints" / "last.ckpt").write_bytes(b"junk")
        go_on(twin, run)
        assert first_difference(content(run), content(whole)) is None
        for path in (run / "checkpoints").glob("step-*.ckpt"):
            assert torch.load(path, weights_only=True)["progress"]["step"] == int(path.stem[5:])


@pytest.mark.parametrize("twin", TWINS)
def test_last_is_the_newest_runs_and_a_damaged_one_is_reported(
    twin: str, whole: Path, corpus: Corpus, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--trainer.max_epochs=1", *EACH_STEP]
    train("hand", corpus, "older", *options)
    run = train("hand", corpus, "newer", *options)
    expected = content(run)
    last = run / "checkpoints" / "last.ckpt"
    data = bytearray(last.read_bytes())
    data[len(data) // 2] ^= 1
    last.write_bytes(data)
    assert main([*TWINS[twin], "--ckpt_path=last", f"--trainer.default_root_dir={corpus.folder / 'runs'}"]) == 0
    assert "newer/version_0/checkpoints/last.ckpt: damaged checkpoint" in capsys.readouterr().err
    assert first_difference(content(run), expected) is None


@pytest.mark.parametrize("twin", TWINS)
@pytest.mark.parametrize("junk", [None, b"", b"junk", b"PK\x03\x04"])
def test_a_missing_or_junk_file_is_one_line(
    twin: str, junk: bytes | None, whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "some.ckpt"
    if junk is not None:
        path.write_bytes(junk)
    config = ["--config", str(whole / "config.yaml"), f"--trainer.default_root_dir={tmp_path / 'runs'}"]
    for wanted in (str(path), "last"):
        assert main([*TWINS[twin], *config, f"--ckpt_path={wanted}"]) == 2
        error = capsys.readouterr().err.strip().splitlines()
        assert len(error) == 1
        assert "some.ckpt: " in error[0] or "nothing to continue" in error[0]
    assert not (tmp_path / "runs").exists()


def test_weights_alone_are_refused(whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = torch.load(whole / "checkpoints" / "last.ckpt", weights_only=True)
    for key in ("optimizer", "lr_scheduler", "scaler", "ranks"):
        del saved[key]
    torch.save(saved, tmp_path / "weights.ckpt")
    config = ["--config", str(whole / "config.yaml"), f"--trainer.default_root_dir={tmp_path / 'runs'}"]
    for command in TWINS.values():
        assert main([*command, *config, f"--ckpt_path={tmp_path / 'weights.ckpt'}"]) == 2
        assert "weights.ckpt: holds weights but not what continuing" in capsys.readouterr().err
