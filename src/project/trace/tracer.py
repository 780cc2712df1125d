"""Writes a trace: a record of every step of a training run, as JSON lines.

A trace is a header and one record per line: a micro-batch, an optimizer step, an evaluation or a checkpoint. A record
holds **stages** in the order in which they happen, and a stage holds quantities. Two runs diverge at the first stage
whose quantities differ. docs/traces.md describes the format, and how to write a trace: with a few calls of `Tracer` in
a loop, or with a callback for Lightning.

A number is written as a hexadecimal float, so no bit is lost; a tensor as a digest of its bits, and its norm.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self, get_args

import msgspec
import numpy
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from project.errors import UserError
from project.ranks.sharding import is_sharded

FORMAT = 1
"""Version of the format; readers refuse others."""

Level = Literal["cheap", "full"]

FLUSH_AFTER = 256
"""Records after which all waiting records are written, so that losses are read off the device together."""


class Tracer:
    """Writes a trace; a training loop makes one call per stage.

    Level `cheap` writes example ids, counts, losses and learning rates. It reads losses late and costs little. Level
    `full` adds the random state, and digests and norms of gradients, parameters, buffers and optimizer state. It copies
    all of them to the CPU at every stage.

    `with Tracer(…) as trace:` closes the trace however the training ends; otherwise call `close`.

    Args:
        path: the file to write; None writes nothing, and every call returns at once.
        network: the network whose parameters and buffers are traced, under their own names.
        optimizer: the optimizer or optimizers whose state and learning rates are traced.
        level: how much is written.
        source: what trains, in words, for the header.
        tensors_at: number of the record (from 0) whose tensors are saved in full, beside the trace as `<name>.pt`.
        goes_on_at: epoch, micro-batches done in it, and optimizer steps of a continued run. An existing trace of the
            same level is kept up to there and continued; another one is replaced.

    Raises:
        UserError: the file cannot be written, or there is no such level.
    """

    def __init__(
        self,
        path: str | Path | None,
        network: nn.Module | None = None,
        optimizer: Optimizer | Sequence[Optimizer] | None = None,
        *,
        level: Level = "full",
        source: str = "",
        tensors_at: int | None = None,
        goes_on_at: tuple[int, int, int] | None = None,
    ) -> None:
        if level not in get_args(Level):
            raise UserError(f"trace: level {level!r}; there are {', '.join(get_args(Level))}")
        self.network = network
        self.optimizers = [optimizer] if isinstance(optimizer, Optimizer) else list(optimizer or ())
        self.level = level
        self.tensors_at = tensors_at
        self._is_on = path is not None
        self._is_full = self._is_on and level == "full"
        self._records: list[dict[str, Any]] = []
        self._num_written = 0
        self._whole: dict[str, dict[str, Tensor]] = {}
        if path is not None:
            self.path = Path(path)
            device = next((str(parameter.device) for parameter in network.parameters()), "") if network else ""
            header = {"kind": "trace", "format": FORMAT, "level": level, "source": source}
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                kept = [] if goes_on_at is None else lines_before(self.path, level, goes_on_at)
                self._file = self.path.open("wb", buffering=0)
            except OSError as error:
                reason = f"{error.strerror}: {error.filename}"
                raise UserError(f"{path}: the trace cannot be written here ({reason})") from None
            self._num_written = max(0, len(kept) - 1)
            if kept:
                self._put(b"".join(kept))
            else:
                self._write([{**header, "torch": str(torch.__version__), "device": device}])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # `micro_batch`, `optimizer_step`, `evaluation` and `checkpoint` begin a record; the other calls add stages to it.

    def micro_batch(self, epoch: int, micro_batch: int, step: int, ids: Any = None, inputs: Iterable[Any] = ()) -> None:
        """Begin a micro-batch, before its forward pass: stages data and rng, and the current learning rates.

        Args:
            epoch: from 0.
            micro_batch: its number in the epoch, from 0.
            step: number of the optimizer step that ends its window, from 0.
            ids: its examples: a tensor, or a list of numbers or strings.
            inputs: the network's inputs; the tensors among them are digested.
        """
        if not self._is_on:
            return
        self._open("micro_batch", epoch=epoch, micro_batch=micro_batch, step=step)
        if ids is not None:
            self._add("data", ids=ids.detach().clone() if isinstance(ids, Tensor) else ids)
        self._add("scheduler", learning_rates=self._learning_rates())
        if self._is_full:
            tensors = {str(position): value for position, value in enumerate(inputs) if isinstance(value, Tensor)}
            self._add("data", inputs=self._look("data", tensors))
            self._add("rng", **random_digests())

    def forward(self, loss: Tensor, num_examples: int) -> None:
        """After the forward pass, before backward: the loss, () floating, and the network's buffers."""
        if self._is_on:
            self._add("forward", loss=loss.detach().clone(), num_examples=num_examples)
        if self._is_full and self.network is not None:
            self._add("forward", buffers=self._look("forward", dict(self.network.named_buffers())))

    def optimizer_step(self, epoch: int, step: int) -> None:
        """Begin optimizer step `step`, from 0, at the end of a window."""
        if self._is_on:
            self._open("step", epoch=epoch, step=step)

    def gradients(self, stage: str, **counts: float) -> None:
        """After `stage` (backward, reduce, unscale, normalise or clip): the gradients, and the `counts` given."""
        if self._is_on and counts:
            self._add(stage, **counts)
        if self._is_full and self.network is not None:
            gradients = {name: p.grad for name, p in self.network.named_parameters() if p.grad is not None}
            self._add(stage, norm=self._total_norm(), gradients=self._look(stage, gradients))

    def optimizer_stepped(self, *, skipped: bool = False, scale: float = 1.0) -> None:
        """After the update, or its skip for an overflow: parameters, optimizer state, and the scaler's new `scale`."""
        if self._is_on:
            self._add("optimizer", skipped=skipped, scale=float(scale))
        if self._is_full and self.network is not None:
            parameters = dict(self.network.named_parameters())
            self._add("optimizer", parameters=self._look("optimizer", parameters))
            self._add("optimizer", state=self._look("optimizer", optimizer_tensors(self.optimizers, self.network)))

    def scheduler_stepped(self) -> None:
        """After the scheduler's turn, whether it advanced or not: the learning rates of the next step."""
        if self._is_on:
            self._add("scheduler", learning_rates=self._learning_rates())

    def evaluation(self, epoch: int, step: int, metrics: Mapping[str, float]) -> None:
        """After an evaluation: its metrics; `step` counts the optimizer steps before it."""
        if self._is_on:
            self._open("evaluation", epoch=epoch, step=step)
            self._add("evaluation", **{name: float(value) for name, value in sorted(metrics.items())})

    def checkpoint(self, step: int, state_dict: Mapping[str, Tensor]) -> None:
        """A checkpoint: the saved weights and buffers; `step` counts the optimizer steps before it."""
        if self._is_on:
            self._open("checkpoint", step=step)
            if self._is_full:
                self._add("checkpoint", state_dict=self._look("checkpoint", state_dict))
            else:
                self._add("checkpoint", names=sorted(state_dict))

    def close(self) -> None:
        """Write the waiting records and close the file."""
        if self._is_on:
            self.flush()
            self._end()

    def flush(self) -> None:
        """Write the waiting records, reading their losses off the device. Call it between two records."""
        if not self._is_on:
            return
        records, self._records = self._records, []
        self._write([_plain(record) for record in records])
        if self._whole:
            torch.save(self._whole, self.path.with_suffix(".pt"))
            self._whole = {}

    def _open(self, kind: str, **position: int) -> None:
        if len(self._records) >= FLUSH_AFTER:
            self.flush()
        self._num_written += 1
        self._records.append({"kind": kind, **position, "stages": {}})

    def _add(self, stage: str, **quantities: Any) -> None:
        if not self._records:
            raise UserError(f"trace: stage {stage} belongs to no record; call micro_batch or optimizer_step before it")
        self._records[-1]["stages"].setdefault(stage, {}).update(quantities)

    def _look(self, stage: str, tensors: Mapping[str, Tensor]) -> dict[str, list[Any]]:
        """Digest and norm of each tensor; also keeps copies if this is the record `tensors_at`."""
        tensors = {name: dense(tensor) for name, tensor in tensors.items()}
        if self._num_written - 1 == self.tensors_at:
            copies = {name: tensor.to("cpu", copy=True) for name, tensor in tensors.items()}
            self._whole.setdefault(stage, {}).update(copies)
        return {name: [digest(tensor), norm(tensor)] for name, tensor in tensors.items()}

    def _total_norm(self) -> Tensor:
        assert self.network is not None
        parameters: Iterable[Tensor] = self.network.parameters()
        if self.optimizers:  # in their order, like a clipping norm: the order changes the last bit
            parameters = [parameter for group in self._groups() for parameter in group["params"]]
        return nn.utils.get_total_norm([dense(p.grad) for p in parameters if p.grad is not None])

    def _learning_rates(self) -> list[float]:
        return [float(group["lr"]) for group in self._groups() if "lr" in group]

    def _groups(self) -> Iterator[dict[str, Any]]:
        return (group for optimizer in self.optimizers for group in optimizer.param_groups)

    def _end(self) -> None:
        self._is_on = self._is_full = False
        self._file.close()

    def _write(self, lines: Sequence[dict[str, Any]]) -> None:
        """Write all lines at once, so that a run that dies leaves complete lines."""
        self._put(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))

    def _put(self, content: bytes) -> None:
        try:
            self._file.write(content)
        except OSError as error:
            self._end()
            raise UserError(f"{self.path}: the trace cannot be continued ({error.strerror})") from None


OFF = Tracer(None)
"""A tracer that writes nothing."""


def lines_before(path: Path, level: Level, position: tuple[int, int, int]) -> list[bytes]:
    """Lines of the header and the records before (epoch, micro-batch, step); none without a trace of this level."""
    try:
        lines = path.read_bytes().splitlines(keepends=True)
        header = msgspec.json.decode(lines[0])
    except (OSError, IndexError, msgspec.DecodeError):
        return []
    if header.get("format") != FORMAT or header.get("level") != level:
        return []
    kept = lines[:1]
    for line in lines[1:]:
        try:
            record = msgspec.json.decode(line)
        except msgspec.DecodeError:  # incomplete, since the run was killed
            break
        if _lies_beyond(record, position):
            break
        kept.append(line)
    return kept


def _lies_beyond(record: dict[str, Any], position: tuple[int, int, int]) -> bool:
    epoch, micro_batch, step = position
    if record["kind"] == "micro_batch":
        return (record["epoch"], record["micro_batch"]) >= (epoch, micro_batch)
    if record["kind"] == "step":
        return bool(record["step"] >= step)
    return bool(record["step"] > step)


def dense(tensor: Tensor) -> Tensor:
    """The tensor; a sparse one as dense, one that `fully_shard` has sharded as a full tensor.

    A sharded tensor takes a collective, so all ranks of a run have to be traced, or none.
    """
    tensor = tensor.detach()
    if is_sharded(tensor):
        whole: Tensor = tensor.full_tensor()  # type: ignore[attr-defined]
        return whole
    return tensor if tensor.layout == torch.strided else tensor.to_dense()


def digest(tensor: Tensor) -> str:
    """Digest of the tensor's dtype, shape and bits: 16 hexadecimal digits."""
    tensor = tensor.detach().cpu().resolve_conj().contiguous()
    found = hashlib.blake2b(f"{tensor.dtype} {tuple(tensor.shape)}".encode(), digest_size=8)
    found.update(tensor.flatten().view(torch.uint8).numpy().data)
    return found.hexdigest()


def norm(tensor: Tensor) -> Tensor:
    """The tensor's 2-norm, () float32, or float64 for a float64 tensor."""
    tensor = tensor.detach()
    found: Tensor = torch.linalg.vector_norm(
        tensor if tensor.dtype == torch.float64 or tensor.is_complex() else tensor.float()
    )
    return found


def random_digests() -> dict[str, str]:
    """Digests of the states of the random generators: Python's, NumPy's, torch's, and each CUDA device's."""
    kind, keys, *position = numpy.random.get_state(legacy=True)
    states = {
        "python": repr(random.getstate()).encode(),
        "numpy": f"{kind} {position}".encode() + numpy.asarray(keys).tobytes(),
        "torch": torch.get_rng_state().numpy().tobytes(),
    }
    is_cuda_used = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]  # tracing must not start CUDA
    for device in range(torch.cuda.device_count() if is_cuda_used else 0):
        states[f"cuda:{device}"] = torch.cuda.get_rng_state(device).numpy().tobytes()
    return {name: hashlib.blake2b(state, digest_size=8).hexdigest() for name, state in states.items()}


def optimizer_tensors(optimizers: Sequence[Optimizer], network: nn.Module) -> dict[str, Tensor]:
    """The state of the network's parameters, by name and entry, such as `head.weight.exp_avg`; numbers as tensors."""
    names: dict[Tensor, str] = {parameter: name for name, parameter in network.named_parameters()}
    return {
        f"{names[parameter]}.{entry}": torch.as_tensor(value)
        for optimizer in optimizers
        for parameter, state in optimizer.state.items()
        for entry, value in state.items()
        if parameter in names and isinstance(value, Tensor | int | float)
    }


def _plain(value: Any) -> Any:
    """The value for JSON: floats as hexadecimal strings, tensors and arrays as numbers or lists."""
    if isinstance(value, float):
        return value.hex()
    if isinstance(value, Tensor) and not value.is_floating_point():
        return value.tolist()  # ids are many, so no recursion into them
    if isinstance(value, Tensor | numpy.ndarray | numpy.generic):
        return _plain(value.tolist())
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
