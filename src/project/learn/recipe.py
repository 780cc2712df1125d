"""Builds network, optimizer and scheduler from the `model` group of the configuration.

Both twins take their `model` keys from `Recipe` and build with its methods, so both read the same YAML.
"""

from __future__ import annotations

import functools
import importlib
import shutil
import sysconfig
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import torch
from jsonargparse.typing import ClosedUnitInterval
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from project.config.trust import check_trusted
from project.data.rows import Label
from project.errors import UserError
from project.learn.not_finite import Policy
from project.learn.objective import balanced_weights
from project.learn.plan import Plan
from project.ranks.sharding import class_of

T = TypeVar("T")


@dataclass
class Recipe:
    """The `model` group: network, optimizer and scheduler."""

    network: Callable[[int, int], nn.Module]
    """Class of the network, called with the numbers of tokens and of classes and its init_args; yours works too."""
    optimizer: Callable[[Iterable[Any]], Optimizer]
    """Class of the optimizer; biases, norms and other vectors are kept out of its weight decay."""
    lr_scheduler: Callable[[Optimizer], LRScheduler] | None = None
    """Class of the learning-rate scheduler; an open `total_steps` is filled in from the data. null: constant."""
    lr_interval: Literal["step", "epoch"] = "step"
    """When the scheduler advances: after an optimizer step or at the end of an epoch."""
    lr_monitor: Literal["val/loss", "val/accuracy", "val/macro_f1"] | None = None
    """The validation metric that ReduceLROnPlateau watches, such as val/loss; it then advances after validations."""
    label_smoothing: ClosedUnitInterval = 0.0
    """Share of the target spread over all classes, in training only."""
    class_weights: Literal["balanced"] | dict[str, float] | None = None
    """Weight of each class in the training loss: balanced (inverse to frequency), or label: weight."""
    init_from: str | None = None
    """A checkpoint whose weights (and tokenizer) a new run starts from."""
    compile: bool = False
    """Compile the network with torch.compile, in place."""
    not_finite: Policy = "stop"
    """What a training loss of NaN or infinity does: stop the run, skip that optimizer step, or ignore it."""
    seed: int = 0
    """Seed of the initial weights; `seed_everything` sets it."""

    def __post_init__(self) -> None:
        self.network, self.optimizer = plain_factory(self.network), plain_factory(self.optimizer)
        self.lr_scheduler = None if self.lr_scheduler is None else plain_factory(self.lr_scheduler)

    @property
    def advances_per_step(self) -> bool:
        """Whether the scheduler advances after each optimizer step."""
        return self.lr_interval == "step" and self.lr_monitor is None

    @property
    def advances_per_epoch(self) -> bool:
        """Whether the scheduler advances at the end of each epoch."""
        return self.lr_interval == "epoch" and self.lr_monitor is None

    def build_network(self, num_tokens: int, num_classes: int) -> nn.Module:
        """A new float32 network on the CPU.

        The weights depend on `seed` alone, and drawing them does not advance the global random stream.

        Raises:
            UserError: the class refuses its arguments, or `check_contract` refuses the network.
        """
        dtype = torch.get_default_dtype()
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(self.seed)
            torch.set_default_dtype(torch.float32)
            try:
                network = self.network(num_tokens, num_classes)
            except (TypeError, ValueError) as error:
                raise UserError(f"model.network: {error}") from error
            else:
                check_contract(network, num_classes)
                return network
            finally:
                torch.set_default_dtype(dtype)

    def build_optimizer(self, network: nn.Module) -> Optimizer:
        """The optimizer, with two groups: parameters of two dimensions or more, and the rest without weight decay.

        Raises:
            UserError: the class refuses its arguments or the groups.
        """
        parameters = [parameter for parameter in network.parameters() if parameter.requires_grad]
        groups = [
            {"params": [parameter for parameter in parameters if parameter.ndim >= 2]},
            {"params": [parameter for parameter in parameters if parameter.ndim < 2], "weight_decay": 0.0},
        ]
        try:
            return self.optimizer(groups)
        except (TypeError, ValueError) as error:
            raise UserError(f"model.optimizer: {error}") from error

    def build_lr_scheduler(self, optimizer: Optimizer, plan: Plan) -> LRScheduler | None:
        """The scheduler, or None. Open `total_steps` (without `epochs`) become the number of its advances.

        Raises:
            UserError: the class refuses its arguments, ReduceLROnPlateau has no metric to watch, or another scheduler
                has one.
        """
        if self.lr_scheduler is None:
            return None
        keywords = getattr(self.lr_scheduler, "keywords", {})
        more: dict[str, int] = {}
        if "total_steps" in keywords and keywords["total_steps"] is None and keywords.get("epochs") is None:
            more["total_steps"] = plan.total_steps if self.advances_per_step else plan.num_epochs
        try:
            lr_scheduler = self.lr_scheduler(optimizer, **more)
        except (TypeError, ValueError) as error:
            raise UserError(f"model.lr_scheduler: {error}") from error
        if isinstance(lr_scheduler, ReduceLROnPlateau) != (self.lr_monitor is not None):
            raise UserError(
                f"model.lr_monitor: {self.lr_monitor} with {type(lr_scheduler).__name__}; "
                "ReduceLROnPlateau needs a metric to watch, such as val/loss, and no other scheduler takes one"
            )
        return lr_scheduler

    def build_class_weights(self, labels: Sequence[Label], label_counts: Tensor) -> Tensor | None:
        """Weights of the classes in the order of `labels`, (C,) float32, or None; `label_counts` is (C,) int64.

        Raises:
            UserError: `class_weights` names a label that the training rows do not have.
        """
        if self.class_weights is None:
            return None
        if self.class_weights == "balanced":
            return balanced_weights(label_counts)
        names = [str(label) for label in labels]
        given = {str(name): weight for name, weight in self.class_weights.items()}  # YAML reads 0: 2.0 as an int
        unknown = [name for name in given if name not in names]
        if unknown:
            raise UserError(f"model.class_weights: no label {unknown[0]!r} in the training rows; known: {names}")
        return torch.tensor([float(given.get(name, 1.0)) for name in names])


def plain_factory(factory: Callable[..., T]) -> Callable[..., T]:
    """A jsonargparse factory as a plain `functools.partial`; any other factory unchanged.

    jsonargparse's factory holds its parser, which cannot be copied or pickled.
    """
    if isinstance(factory, functools.partial) and factory.args and isinstance(factory.args[-1], type):
        return functools.partial(factory.args[-1], **factory.keywords)
    return factory


def describe_network(factory: Callable[[int, int], nn.Module], network: nn.Module) -> dict[str, Any]:
    """`network` as plain data, {"class_path", "init_args"}; `network_from` makes a factory of it again.

    Raises:
        UserError: an argument is not plain data, so a checkpoint cannot hold it.
    """
    init_args = dict(getattr(factory, "keywords", {}))
    for name, value in init_args.items():
        if not _is_plain(value):
            raise UserError(
                f"model.network.init_args.{name}: a {type(value).__name__} cannot be stored in a checkpoint; "
                "use numbers, strings, lists or mappings, and build the object inside the network"
            )
    its_class = class_of(network)
    return {"class_path": f"{its_class.__module__}.{its_class.__qualname__}", "init_args": init_args}


def network_from(description: Mapping[str, Any]) -> Callable[[int, int], nn.Module]:
    """The factory that `describe_network` described. Imports the class only if it is trusted (config/trust.py).

    Raises:
        UserError: the class is not trusted, does not exist, or is not a `torch.nn.Module`.
    """
    path = str(description.get("class_path"))
    try:
        check_trusted(path)
    except UserError as error:
        raise UserError(f"the checkpoint's network: {error}") from None
    module_name, _, class_name = path.rpartition(".")
    try:
        found = getattr(importlib.import_module(module_name), class_name)
    except (ImportError, AttributeError, ValueError) as error:
        raise UserError(f"{path}: the checkpoint's network class cannot be imported ({error})") from error
    if not (isinstance(found, type) and issubclass(found, nn.Module)):
        raise UserError(f"{path}: the checkpoint names this as its network, but it is not a torch.nn.Module")
    init_args = description.get("init_args")
    if not isinstance(init_args, Mapping):
        raise UserError(f"{path}: the checkpoint's init_args are not a mapping; take another checkpoint")
    return functools.partial(found, **init_args)


@torch.no_grad()
def check_contract(network: nn.Module, num_classes: int) -> None:
    """Call the network once in evaluation mode, on two short rows of unknown tokens.

    Raises:
        UserError: it does not map tokens (B, T) and lengths (B,) to logits (B, C).
    """
    network.eval()
    contract = "expected forward(tokens (B, T), lengths (B,)) → logits (B, C)"
    try:
        logits = network(torch.tensor([[1, 1], [1, 0]]), torch.tensor([2, 1]))
    except (TypeError, RuntimeError, IndexError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise UserError(f"model.network: {type(network).__name__} cannot be called: {reason}; {contract}") from error
    finally:
        network.train()
    if not isinstance(logits, Tensor) or logits.shape != (2, num_classes):
        found = f"shape {tuple(logits.shape)}" if isinstance(logits, Tensor) else f"a {type(logits).__name__}"
        raise UserError(
            f"model.network: {type(network).__name__} gave {found} for two rows and {num_classes} classes; {contract}"
        )


def check_compiler() -> None:
    """Check that this machine has what torch.compile needs.

    Raises:
        UserError: a C++ compiler or Python's headers are missing.
    """
    if not any(shutil.which(name) for name in ("c++", "g++", "clang++")):
        raise UserError("model.compile: no C++ compiler found (c++, g++ or clang++); install one, such as g++")
    header = Path(sysconfig.get_path("include")) / "Python.h"
    if not header.is_file():
        raise UserError(f"model.compile: {header} is missing; install Python's headers, such as python3-dev")


def _is_plain(value: object) -> bool:
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _is_plain(item) for key, item in value.items())
    if isinstance(value, list | tuple):
        return all(_is_plain(item) for item in value)
    return value is None or isinstance(value, bool | int | float | str)
