"""A trained classifier from a checkpoint of either twin: network, vocabulary and maximum text length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from project.checkpoint.file import read_classifier
from project.data.batch import collate
from project.data.dataset import Example, cut
from project.data.rows import Label
from project.data.tokenizer import Tokenizer
from project.data.vocabulary import Vocabulary
from project.errors import UserError
from project.learn.recipe import network_from


@dataclass
class Classifier:
    """Maps texts to class probabilities."""

    network: nn.Module
    vocabulary: Vocabulary
    max_tokens: int

    @classmethod
    def load(cls, path: str | Path) -> Classifier:
        """The classifier of a checkpoint, on the CPU and in evaluation mode.

        Imports the module of the network's class, if it is trusted (config/trust.py).

        Raises:
            UserError: the file is not such a checkpoint, or its network cannot be built; the message has one line.
        """
        content = read_classifier(path)
        description = content["classifier"]
        vocabulary = Vocabulary.from_state(description["vocabulary"])
        factory = network_from(description["network"])
        try:
            network = factory(vocabulary.num_tokens, vocabulary.num_classes)
        except (TypeError, ValueError) as error:
            raise UserError(f"{path}: its network cannot be built ({error}); take another checkpoint") from None
        try:
            network.load_state_dict(content["state_dict"])
        except RuntimeError as error:  # the class has changed since
            reason = " ".join(str(error).partition("\n")[2].split())
            raise UserError(
                f"{path}: its weights do not fit {description['network']['class_path']} ({reason})"
            ) from None
        return cls(network.eval(), vocabulary, int(description["max_tokens"]))

    @property
    def labels(self) -> tuple[Label, ...]:
        """The labels, in the order of the columns of `probabilities`."""
        return self.vocabulary.labels

    @torch.inference_mode()
    def probabilities(self, texts: Sequence[str]) -> Tensor:
        """Class probabilities, (N, C) float32, of N texts in one batch."""
        encoded = self.vocabulary.tokenizer.encode_batch(list(texts))
        examples = [
            Example(torch.tensor(cut(tokens, self.max_tokens)), label=0, index=index)
            for index, tokens in enumerate(encoded)
        ]
        batch = collate(examples)
        logits: Tensor = self.network(batch.tokens, batch.lengths)
        return logits.float().softmax(dim=1)


def tokenizer_in(path: str | Path) -> Tokenizer:
    """The tokenizer of a checkpoint.

    Raises:
        UserError: the file is not such a checkpoint.
    """
    return Vocabulary.from_state(read_classifier(path)["classifier"]["vocabulary"]).tokenizer


def start_from(path: str | Path, factory: Any, network: nn.Module, vocabulary: Vocabulary) -> list[str]:
    """Copy the weights of the checkpoint `path` into `network`, for `model.init_from`.

    If the checkpoint has other labels, the tensors whose shape depends on the number of classes keep their initial
    values. Returns the names of these tensors.

    Raises:
        UserError: the checkpoint's network has other tensors.
    """
    content = read_classifier(path)
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
