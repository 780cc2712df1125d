"""The twins are equal in every bit: a selection of the parity matrix in which all pairs of two axes' values meet.

`make parity` runs the full product as well.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import torch

from parity_matrix import AXES, NUM_TRAIN, Cell, fault, options, pairs, product, run_cells
from project.parity.twins import train_here
from tiny_corpus import Corpus, write_corpus

COMPILED: Cell = {"precision": "bf16-mixed", "accumulation": "3", "clipping": "norm", "compile": "on"}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return write_corpus(tmp_path_factory.mktemp("matrix"), num_train=NUM_TRAIN)


def arguments(corpus: Corpus, cell: Cell) -> list[str]:
    epochs = 2
    if cell["precision"] == "16-mixed":  # which needs some steps to get over its overflows
        epochs = 6 if cell["accumulation"] == "41" else 3
    sizes = [f"--trainer.max_epochs={epochs}", "--data.batch_size=4", "--trainer.accelerator=cpu"]
    if cell.get("network") == "pooling":
        sizes.append("--model.network.ngram_buckets=500")  # digests of a large table would take most of the run
    return [*options(cell), *corpus.arguments, *sizes, "--trace.level=full"]


# torch's word to a per-epoch schedule of which every step so far overflowed.
@pytest.mark.filterwarnings("ignore:Detected call of .lr_scheduler.step")
@pytest.mark.parametrize("cell", pairs(), ids=lambda cell: ", ".join(cell.values()))
def test_cell_is_equal(cell: Cell, corpus: Corpus, tmp_path: Path) -> None:
    hand, lit = (train_here(twin, tmp_path, arguments(corpus, cell)) for twin in ("hand", "lit"))
    assert fault(cell, hand, lit) is None


def test_compiled_cell_is_equal(tmp_path: Path) -> None:
    """With batches of one shape, for which a kernel is built once; `make parity` has shapes that vary."""
    corpus = write_corpus(tmp_path, num_train=48)
    given = [*arguments(corpus, COMPILED), "--data.max_tokens=2"]
    hand, lit = (next(run_cells(twin, tmp_path, [COMPILED], given)) for twin in ("hand", "lit"))
    assert fault(COMPILED, hand, lit) is None


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
@pytest.mark.parametrize("precision", AXES["precision"])
def test_cell_is_equal_on_cuda(precision: str, corpus: Corpus, tmp_path: Path) -> None:
    cell = {"precision": precision, "accumulation": "3", "clipping": "norm"}
    on_cuda = [*arguments(corpus, cell), "--trainer.accelerator=cuda", "--trainer.deterministic=true"]
    hand, lit = (train_here(twin, tmp_path, on_cuda) for twin in ("hand", "lit"))
    assert fault(cell, hand, lit) is None


def test_the_product_is_full_and_the_pairs_are_all_there() -> None:
    assert len({tuple(cell.items()) for cell in product()}) == 4 * 4 * 3 * 2
    axes = [axis for axis in AXES if axis != "compile"]
    for one, other in itertools.combinations(axes, 2):
        met = {(cell[one], cell[other]) for cell in pairs()}
        assert met == set(itertools.product(AXES[one], AXES[other]))
