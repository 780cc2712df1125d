"""Each private name of torch and Lightning in project/private.py: it is there, and does what it is used for."""

from __future__ import annotations

import ast
import io
from pathlib import Path

import lightning as L
import torch
from lightning.pytorch.plugins.precision import MixedPrecision
from torch._C._distributed_c10d import HashStore
from torch.utils.checkpoint import checkpoint

import project
from project import private
from small_runs import data_module, lit_module, trainer
from tiny_corpus import Corpus

SOURCE = Path(project.__path__[0])


def test_gradients_are_divided_and_buffers_copied_in_place() -> None:
    """Without `_foreach_div_` and `_foreach_copy_`: one kernel for each tensor."""
    tensors, copies = [torch.full((2,), 3.0), torch.ones(1)], [torch.zeros(2), torch.zeros(1)]
    private.divide_(tensors, 2.0)
    private.copy_(copies, tensors)
    assert [tensor.tolist() for tensor in copies] == [[1.5, 1.5], [0.5]]


def test_a_forward_pass_within_backward_is_told_from_others() -> None:
    """Without `_current_graph_task_id`: activation checkpointing would count a forward pass twice."""
    seen: list[bool] = []

    def forward(x: torch.Tensor) -> torch.Tensor:
        seen.append(private.is_recomputing())
        return x.sin()

    checkpoint(forward, torch.ones(1, requires_grad=True), use_reentrant=False).sum().backward()
    assert seen == [False, True]


def test_the_reader_of_archives_names_records_and_their_sizes() -> None:
    """Without `PyTorchFileReader`: a file with two tables of contents shows its checker another than its loader."""
    file = io.BytesIO()
    torch.save({"weight": torch.zeros(1000)}, file)
    file.seek(0)
    reader = private.archive_reader(file)
    names = reader.get_all_records()
    assert "data.pkl" in names
    assert reader.get_record_size("data/0") == 4000


def test_tensors_that_share_memory_have_one_key() -> None:
    """Without `_cdata`: a copy for saving in the background holds shared weights twice."""
    whole, other = torch.zeros(4), torch.zeros(4)
    assert private.storage_key(whole[1:]) == private.storage_key(whole) != private.storage_key(other)


def test_the_store_of_the_process_group_is_found() -> None:
    """Without `_get_default_store`: ranks cannot agree on a step without a collective."""
    store = HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        private.default_store().set("key", "value")
        assert private.default_store().get("key") == b"value"
    finally:
        torch.distributed.destroy_process_group()


def test_lightning_does_not_ask_for_signals_at_each_batch(corpus: Corpus, tmp_path: Path) -> None:
    """Without `_broadcast_sigterm_tensor`: several ranks broadcast and read the device at each micro-batch."""
    loop = trainer(tmp_path).fit_loop.epoch_loop
    assert callable(loop._broadcast_sigterm_tensor)
    asked: list[int] = []
    run = trainer(tmp_path, max_steps=2)
    run.fit_loop.epoch_loop._broadcast_sigterm_tensor = lambda: asked.append(1)  # type: ignore[method-assign]
    private.leave_signals_alone(run)
    run.fit_loop.epoch_loop._broadcast_sigterm_tensor()
    assert asked == []


def test_a_resumed_epoch_takes_its_metrics_for_granted(tmp_path: Path) -> None:
    """Without `_restarting`: ReduceLROnPlateau is left alone at the end of an epoch that is resumed."""
    loop = trainer(tmp_path).fit_loop
    loop._restarting = True
    assert loop.restarting
    private.take_metrics_for_granted(loop.trainer)
    assert not loop.restarting


def test_the_state_of_the_loops_has_the_keys_that_lightning_saves(corpus: Corpus, tmp_path: Path) -> None:
    """Without them: a resumed run starts its epoch anew. tests/resume compares every position bit for bit."""
    run = trainer(tmp_path, max_epochs=1)
    run.fit(lit_module(), datamodule=data_module(corpus))
    run.save_checkpoint(tmp_path / "stock.ckpt")
    saved = torch.load(tmp_path / "stock.ckpt", weights_only=True)["loops"]["fit_loop"]
    ours = private.loops_at(epoch=1, micro_batch=0, step=7, num_micro_batches=7, validation_due=False)
    assert ours.keys() <= saved.keys()
    assert ours["epoch_loop.state_dict"] == saved["epoch_loop.state_dict"]
    for key in ("epoch_loop.scheduler_progress", "epoch_loop.batch_progress"):
        assert ours[key].keys() <= saved[key].keys()


def test_the_scalers_state_has_lightnings_key() -> None:
    """Without it: the gradient scaler of a resumed 16-mixed run starts at its first scale."""
    assert MixedPrecision.__qualname__ == private.MIXED_PRECISION_STATE


def test_a_module_says_whether_it_has_a_trainer(tmp_path: Path) -> None:
    """Without `_trainer`: `load_from_checkpoint` asks a module without a Trainer for its rows."""
    module = L.LightningModule()
    assert not private.is_attached(module)
    module.trainer = trainer(tmp_path)
    assert private.is_attached(module)


def test_no_private_name_of_torch_or_lightning_stands_elsewhere() -> None:
    """Attributes that begin with one underscore, of anything but `self`, `cls` and the project's own classes."""
    found = []
    for path in SOURCE.rglob("*.py"):
        if path.name == "private.py" or path.parent.name == "config":  # jsonargparse's parser is walked there
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
                owner = node.value.id if isinstance(node.value, ast.Name) else ""
                if owner not in ("self", "cls") and node.attr not in ("_replace", "_exit"):
                    found.append(f"{path.relative_to(SOURCE)}:{node.lineno}: {node.attr}")
    assert found == []
