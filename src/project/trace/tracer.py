"""What each step of a training run leaves behind, as JSON lines, so that two runs can be held against each other.

A trace is a header and one record a line: a micro-batch, an optimizer step, an evaluation, a checkpoint. A record
holds **stages**, in the order in which they happen; a stage holds quantities. Where two traces first differ in a stage
is where the runs parted. docs/traces.md describes the format and shows both ways of writing one: a few calls of
`Tracer` in a loop written by hand, and a callback for Lightning.

A number is written as a hexadecimal float, so no bit is lost; a tensor as a digest of its bits and its norm.
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
"""Version of the format; a reader refuses another."""

Level = Literal["cheap", "full"]

STAGES = (
    "data",
    "rng",
    "forward",
    "backward",
    "reduce",
    "unscale",
    "normalise",
    "clip",
    "optimizer",
    "scheduler",
    "evaluation",
    "checkpoint",
)
"""In the order in which a step goes through them."""

FLUSH_AFTER = 256
"""Records that wait before they are written, so that losses are read off the device together."""


class Tracer:
    """Writes a trace; in a training loop, one call per stage.

    Level `cheap` writes example ids, counts, losses and learning rates; it reads losses late and costs little. Level
    `full` adds the random state, and digests and norms of gradients, parameters, buffers and optimizer state: it
    copies all of them to the CPU at every stage.

    Used as `with Tracer(…) as trace:` it is closed however the training ends; else call `close`.

    Args:
        path: the file to write; None writes nothing, and each call returns at once.
        network: whose parameters and buffers are looked at, under their own names.
        optimizer: whose state and learning rates are looked at; a list where there are several.
        level: how much is written.
        source: who trains, in words, for the header.
        tensors_at: number of the record (from 0) whose tensors are saved whole, beside the trace as `<name>.pt`.
        goes_on_at: epoch, micro-batches done in it, and optimizer steps of a run that is continued: a trace that is
            there already keeps what lies before and goes on from it; one of another level begins anew.

    Raises:
        UserError: where the file cannot be written, or there is no such level.
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

    # Records. Each call opens one; the stages that follow belong to it.

    def micro_batch(self, epoch: int, micro_batch: int, step: int, ids: Any = None, inputs: Iterable[Any] = ()) -> None:
        """A micro-batch has arrived and nothing was computed yet: stages data and rng, and the learning rates so far.

        Args:
            epoch: from 0.
            micro_batch: its number in the epoch, from 0.
            step: number of the optimizer step, from 0, that its window ends with.
            ids: which examples it holds: a tensor, or a list of numbers or strings.
            inputs: what the network is fed; the tensors among it are digested.
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
        """The loss is there, and nothing went backward yet; stage forward, with the network's buffers."""
        if self._is_on:
            self._add("forward", loss=loss.detach().clone(), num_examples=num_examples)
        if self._is_full and self.network is not None:
            self._add("forward", buffers=self._look("forward", dict(self.network.named_buffers())))

    def optimizer_step(self, epoch: int, step: int) -> None:
        """A window is complete: what follows belongs to optimizer step `step`, from 0."""
        if self._is_on:
            self._open("step", epoch=epoch, step=step)

    def gradients(self, stage: str, **counts: float) -> None:
        """Look at the gradients as they are after `stage`: backward, reduce, unscale, normalise or clip."""
        if self._is_on and counts:
            self._add(stage, **counts)
        if self._is_full and self.network is not None:
            gradients = {name: p.grad for name, p in self.network.named_parameters() if p.grad is not None}
            self._add(stage, norm=self._total_norm(), gradients=self._look(stage, gradients))

    def optimizer_stepped(self, *, skipped: bool = False, scale: float = 1.0) -> None:
        """The update is done, or was skipped for an overflow; `scale` is the gradient scaler's from now on."""
        if self._is_on:
            self._add("optimizer", skipped=skipped, scale=float(scale))
        if self._is_full and self.network is not None:
            parameters = dict(self.network.named_parameters())
            self._add("optimizer", parameters=self._look("optimizer", parameters))
            self._add("optimizer", state=self._look("optimizer", optimizer_tensors(self.optimizers, self.network)))

    def scheduler_stepped(self) -> None:
        """The scheduler advanced, or did not: the learning rates of the next step."""
        if self._is_on:
            self._add("scheduler", learning_rates=self._learning_rates())

    def evaluation(self, epoch: int, step: int, metrics: Mapping[str, float]) -> None:
        """An evaluation ended with these metrics; `step` counts the optimizer steps before it."""
        if self._is_on:
            self._open("evaluation", epoch=epoch, step=step)
            self._add("evaluation", **{name: float(value) for name, value in sorted(metrics.items())})

    def checkpoint(self, step: int, state_dict: Mapping[str, Tensor]) -> None:
        """These weights and buffers are saved; `step` counts the optimizer steps before."""
        if self._is_on:
            self._open("checkpoint", step=step)
            if self._is_full:
                self._add("checkpoint", state_dict=self._look("checkpoint", state_dict))
            else:
                self._add("checkpoint", names=sorted(state_dict))

    def close(self) -> None:
        """Write what waits."""
        if self._is_on:
            self.flush()
            self._end()

    def flush(self) -> None:
        """Write the records that wait; losses are read off the device here. Between two records, not within one."""
        if not self._is_on:
            return
        records, self._records = self._records, []
        self._write([_plain(record) for record in records])
        if self._whole:
            torch.save(self._whole, self.path.with_suffix(".pt"))
            self._whole = {}

    # How things are looked at.

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
        """Digest and norm of each tensor; whole copies of them where this is the record that is wanted."""
        tensors = {name: dense(tensor) for name, tensor in tensors.items()}
        if self._num_written - 1 == self.tensors_at:
            copies = {name: tensor.to("cpu", copy=True) for name, tensor in tensors.items()}
            self._whole.setdefault(stage, {}).update(copies)
        return {name: [digest(tensor), norm(tensor)] for name, tensor in tensors.items()}

    def _total_norm(self) -> Tensor:
        assert self.network is not None
        parameters: Iterable[Tensor] = self.network.parameters()
        if self.optimizers:  # in their order, as a clipping norm is summed: another changes the last bit
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
        """All of them in one piece, so that a run that dies leaves complete lines."""
        self._put(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))

    def _put(self, content: bytes) -> None:
        try:
            self._file.write(content)
        except OSError as error:
            self._end()
            raise UserError(f"{self.path}: the trace cannot be continued ({error.strerror})") from None


OFF = Tracer(None)
"""Writes nothing."""


def lines_before(path: Path, level: Level, position: tuple[int, int, int]) -> list[bytes]:
    """Header and records of a trace that lie before (epoch, micro-batch, step); none where there is no such trace."""
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
        except msgspec.DecodeError:  # cut off when the run was killed
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
    """The tensor itself, or what a sparse one, or one that `fully_shard` shares out, stands for.

    The latter takes a collective, so every rank of a run has to be traced, or none.
    """
    tensor = tensor.detach()
    if is_sharded(tensor):
        whole: Tensor = tensor.full_tensor()  # type: ignore[attr-defined]
        return whole
    return tensor if tensor.layout == torch.strided else tensor.to_dense()


def digest(tensor: Tensor) -> str:
    """16 hexadecimal digits that stand for the tensor's dtype, shape and bits."""
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
    is_cuda_used = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]  # looking must not start CUDA
    for device in range(torch.cuda.device_count() if is_cuda_used else 0):
        states[f"cuda:{device}"] = torch.cuda.get_rng_state(device).numpy().tobytes()
    return {name: hashlib.blake2b(state, digest_size=8).hexdigest() for name, state in states.items()}


def optimizer_tensors(optimizers: Sequence[Optimizer], network: nn.Module) -> dict[str, Tensor]:
    """The optimizers' state by parameter name and entry, such as `head.weight.exp_avg`; numbers become tensors.

    What belongs to no parameter of the network is left out.
    """
    names: dict[Tensor, str] = {parameter: name for name, parameter in network.named_parameters()}
    return {
        f"{names[parameter]}.{entry}": torch.as_tensor(value)
        for optimizer in optimizers
        for parameter, state in optimizer.state.items()
        for entry, value in state.items()
        if parameter in names and isinstance(value, Tensor | int | float)
    }


def _plain(value: Any) -> Any:
    """What JSON can hold: floats and floating scalars in hexadecimal, other tensors and arrays as lists."""
    if isinstance(value, float):
        return value.hex()
    if isinstance(value, Tensor) and not value.is_floating_point():
        return value.tolist()  # ids are many: no look at each of them
    if isinstance(value, Tensor | numpy.ndarray | numpy.generic):
        return _plain(value.tolist())
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
