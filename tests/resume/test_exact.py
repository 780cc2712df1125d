"""A run stopped at any optimizer step and continued, in either twin, equals the run that was never stopped."""

from __future__ import annotations

from pathlib import Path

import pytest
from interrupted import EACH_STEP, TWINS, checkpoint, content, curves, first_difference, go_on, steps_of, stopped, train

from project.__main__ import main
from tiny_corpus import Corpus, write_corpus

PLATEAU = [
    "--config",
    "configs/plateau.yaml",
    "--model.lr_scheduler.init_args.patience=0",
    "--model.lr_scheduler.init_args.threshold=10",
]
OVERFLOW = ["--trainer.precision=16-mixed", '--model.class_weights={"animal": 8, "colour": 8, "tool": 8}']
CELLS = {
    "windows of 3, the last ragged; validation within the epoch and at its end": [
        "--trainer.accumulate_grad_batches=3",
        "--trainer.val_check_interval=3",
        "--trace.level=full",
    ],
    "bf16-mixed, never validated": [
        "--trainer.precision=bf16-mixed",
        "--trainer.limit_val_batches=0",
        "--trainer.accumulate_grad_batches=4",
    ],
    "16-mixed with overflow steps": [*OVERFLOW, "--trainer.accumulate_grad_batches=2"],
    "two workers, by steps alone": [
        "--data.num_workers=2",
        "--trainer.max_epochs=-1",
        "--trainer.max_steps=7",
        "--trainer.accumulate_grad_batches=2",
    ],
    "ReduceLROnPlateau": [*PLATEAU, "--trainer.max_epochs=4", "--trainer.accumulate_grad_batches=5"],
    "early stopping": ["--early_stopping.patience=1", "--early_stopping.min_delta=1", "--trainer.val_check_interval=2"],
}
"""Every cell is tried at each of its steps, in each twin; which twin wrote the checkpoint alternates."""


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(options, id=name, marks=[pytest.mark.long] * (name in ("ReduceLROnPlateau", "early stopping")))
        for name, options in CELLS.items()
    ],
)
def test_stopped_at_every_step(options: list[str], tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path)
    whole = {twin: train(twin, corpus, f"whole-{twin}", *EACH_STEP, *options) for twin in TWINS}
    expected = {twin: (content(run), curves(run), trace_of(run)) for twin, run in whole.items()}
    assert first_difference(expected["hand"], expected["lit"]) is None
    steps = steps_of(whole["hand"])
    assert len(steps) >= 3
    for number, step in enumerate(steps):
        for position, second in enumerate(TWINS):
            first = sorted(TWINS)[(number + position) % 2]
            run = go_on(second, stopped(whole[first], step, f"{first}-{second}-{step}"))
            found = (content(run), curves(run), trace_of(run))
            assert first_difference(found, expected[second]) is None, f"{first} to {second}, stopped at step {step}"


def trace_of(run: Path) -> list[str]:
    """The lines of a run's trace, but for the header, which says who wrote it."""
    trace = run / "trace.jsonl"
    return trace.read_text().splitlines()[1:] if trace.exists() else []


def test_the_plateau_and_the_overflow_happen(corpus: Corpus) -> None:
    """What the cells above are named after."""
    run = train("hand", corpus, "plateau", *CELLS["ReduceLROnPlateau"])
    assert len({value for _, value in curves(run)["train/lr"]}) > 1
    run = train("hand", corpus, "overflow", *CELLS["16-mixed with overflow steps"])
    assert content(run)["scaler"]["scale"] < 2.0**16


def test_the_same_from_best(corpus: Corpus) -> None:
    """--ckpt_path best goes on from there, and trains what came after it once more."""
    run = train("lit", corpus, "best", "--trainer.val_check_interval=2", "--checkpoint.monitor=val/loss", *EACH_STEP)
    expected = content(run), curves(run)
    (run / "finished.json").unlink()
    assert main(["hand", "--ckpt_path=best", f"--trainer.default_root_dir={corpus.folder / 'runs'}"]) == 0
    assert first_difference((content(run), curves(run)), expected) is None
    assert checkpoint(run, 1).exists()
