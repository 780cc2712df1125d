"""A trained classifier by itself: network, vocabulary and text length, as a checkpoint of either twin holds them."""

from __future__ import annotations

import pickle
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from project.errors import UserError
from project.task.batch import collate
from project.task.dataset import Example, cut
from project.task.recipe import describe_network, network_from
from project.task.rows import Label
from project.task.vocabulary import Vocabulary

FORMAT = 1
"""Version of what `describe` writes; a file of another version is refused."""


def describe(factory: Any, network: nn.Module, vocabulary: Vocabulary, max_tokens: int) -> dict[str, Any]:
    """What a checkpoint says of its classifier, beside `state_dict`: plain data only, so weights_only reads it."""
    return {
        "format": FORMAT,
        "network": describe_network(factory, network),
        "vocabulary": vocabulary.to_state(),
        "max_tokens": int(max_tokens),  # jsonargparse may hand over a subclass of int, which weights_only refuses
    }


def read_checkpoint(path: str | Path) -> dict[str, Any]:
    """The file's content, tensors on the CPU; loaded with weights_only, so nothing in it is executed.

    Raises:
        UserError: where the file is missing, damaged, or not a checkpoint of this project: one line that says so.
    """
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise UserError(f"{path}: no such checkpoint") from None
    except IsADirectoryError:
        raise UserError(f"{path}: a folder, not a checkpoint; name a file such as {path}/best.ckpt") from None
    except (pickle.UnpicklingError, RuntimeError, EOFError, OSError, ValueError, KeyError) as error:
        plain = re.sub(r"\x1b\[[0-9;]*m", "", str(error).strip())
        reason = re.split(r"[.:;]?\s*(?:\n|\. )", plain)[0][:120]  # torch goes on at length
        raise UserError(f"{path}: cannot be read as a checkpoint, it is damaged or unsafe ({reason})") from None
    if not isinstance(content, dict) or not isinstance(description := content.get("classifier"), Mapping):
        raise UserError(f"{path}: not a checkpoint of this project (no `classifier` in it)")
    if description.get("format") != FORMAT:
        raise UserError(f"{path}: format {description.get('format')!r}, but this version reads format {FORMAT}")
    return content


@dataclass
class Classifier:
    """Maps texts to class probabilities."""

    network: nn.Module
    vocabulary: Vocabulary
    max_tokens: int

    @classmethod
    def load(cls, path: str | Path) -> Classifier:
        """The classifier of a checkpoint written by either twin, on the CPU and in evaluation mode.

        The module of the network's class is imported: take checkpoints from people whose code you would run.

        Raises:
            UserError: where the file does not hold one: one line that says why.
        """
        content = read_checkpoint(path)
        description = content["classifier"]
        vocabulary = Vocabulary.from_state(description["vocabulary"])
        network = network_from(description["network"])(vocabulary.num_tokens, vocabulary.num_classes)
        try:
            network.load_state_dict(content["state_dict"])
        except RuntimeError as error:  # the class has changed since
            raise UserError(
                f"{path}: its weights do not fit {description['network']['class_path']} ({error})"
            ) from None
        return cls(network.eval(), vocabulary, int(description["max_tokens"]))

    @property
    def labels(self) -> tuple[Label, ...]:
        """The classes, in the order of the probabilities' columns."""
        return self.vocabulary.labels

    @torch.inference_mode()
    def probabilities(self, texts: Sequence[str]) -> Tensor:
        """Class probabilities, (N, C) float32, of N texts; all of them go through the network at once."""
        encoded = self.vocabulary.tokenizer.encode_batch(list(texts))
        examples = [
            Example(torch.tensor(cut(tokens, self.max_tokens)), label=0, index=index)
            for index, tokens in enumerate(encoded)
        ]
        batch = collate(examples)
        logits: Tensor = self.network(batch.tokens, batch.lengths)
        return logits.float().softmax(dim=1)


def start_from(path: str | Path, factory: Any, network: nn.Module, vocabulary: Vocabulary) -> list[str]:
    """Copy the weights of the checkpoint `path` into `network`; `model.init_from`.

    Where the checkpoint's labels are not this run's, the tensors whose shape depends on the number of classes keep
    their fresh values; their names are returned.

    Raises:
        UserError: where the network is another one than the checkpoint's.
    """
    content = read_checkpoint(path)
    theirs = Vocabulary.from_state(content["classifier"]["vocabulary"])
    mine, given = network.state_dict(), dict(content["state_dict"])
    fresh: list[str] = []
    if theirs.labels != vocabulary.labels:
        with torch.device("meta"):
            wider = factory(vocabulary.num_tokens, vocabulary.num_classes + 1).state_dict()
        fresh = [name for name, tensor in mine.items() if wider[name].shape != tensor.shape]
    for name in (name for name in sorted(mine.keys() | given.keys()) if name not in fresh):
        here, there = mine.get(name), given.get(name)
        if here is None or there is None or here.shape != there.shape:
            found = "absent" if there is None else f"{tuple(there.shape)} there"
            wanted = "absent" if here is None else f"{tuple(here.shape)} here"
            raise UserError(
                f"model.init_from: {path} holds another network: {name} is {found} and {wanted}; "
                "take the model.network of that run's config.yaml"
            )
    network.load_state_dict({name: mine[name] if name in fresh else given[name] for name in mine})
    return fresh
