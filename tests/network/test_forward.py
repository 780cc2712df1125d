"""The networks' answers against the same written out for one text, token by token and without padding, in float64."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor, nn

from project.network import Committee, Head, Pooling, Residual, TextCNN, Transformer
from project.network.committee import Bag
from project.network.transformer import EncoderLayer

NUM_TOKENS, NUM_CLASSES, MULTIPLIER = 40, 3, 2_654_435_761
TEXTS = [[7, 3, 9, 9, 12], [5], [30, 2, 4, 21, 8, 8, 17, 39, 11, 1, 6, 19, 23, 2, 33, 14, 3, 28], [4, 5]]


def applied(linear: nn.Linear, x: Tensor) -> Tensor:
    return linear.weight @ x + linear.bias


def normed(norm: nn.LayerNorm, x: Tensor) -> Tensor:
    centred = x - x.mean()
    return norm.weight * centred / (centred.square().mean() + 1e-5).sqrt() + norm.bias


def after_residual(block: Residual, x: Tensor) -> Tensor:
    branch = applied(block.linear, normed(block.norm, x))
    return x + block.scale * branch * (1 + torch.erf(branch / math.sqrt(2))) / 2


def answer(head: Head, x: Tensor) -> Tensor:
    return applied(head.output, applied(head.hidden, x).clamp(min=0))


def by_pooling(network: Pooling, text: Sequence[int]) -> Tensor:
    assert network.ngram_embedding is not None
    vectors = [network.token_embedding.weight[token] for token in text]
    for n in range(2, network.num_ngrams + 1):
        for first in range(len(text) - n + 1):
            row = n
            for token in text[first : first + n]:
                row = (row * MULTIPLIER + token) % network.ngram_buckets
            vectors.append(network.ngram_embedding.weight[1 + row])
    return answer(network.head, after_residual(network.residual, torch.stack(vectors).mean(dim=0)))


def by_textcnn(network: TextCNN, text: Sequence[int]) -> Tensor:
    embedded = network.embedding.weight
    largest = []
    for width, filters in zip(network.widths, network.filters, strict=True):
        assert isinstance(filters, nn.Linear)
        found = []
        for centre in range(len(text)):  # as many tokens before it as after it, or one less
            places = range(centre - (width - 1) // 2, centre + width // 2 + 1)
            window = [embedded[text[place]] if 0 <= place < len(text) else 0 * embedded[0] for place in places]
            found.append(applied(filters, torch.cat(window)).clamp(min=0))
        largest.append(torch.stack(found).amax(dim=0))
    return answer(network.head, after_residual(network.residual, torch.cat(largest)))


def by_transformer(network: Transformer, text: Sequence[int]) -> Tensor:
    rows = [
        network.embedding.weight[token] + position_vector(position, network.embedding.embedding_dim)
        for position, token in enumerate(text)
    ]
    for layer in network.layers:
        assert isinstance(layer, EncoderLayer)
        rows = [after_residual(layer.residual, x) for x in after_attention(layer, rows)]
    return answer(network.head, torch.stack([normed(network.norm, x) for x in rows]).mean(dim=0))


def position_vector(position: int, dim: int) -> Tensor:
    """Vaswani et al. 2017, 3.5, with the sines first."""
    angles = [position / 10_000 ** (2 * pair / dim) for pair in range(dim // 2)]
    return torch.tensor([*map(math.sin, angles), *map(math.cos, angles)], dtype=torch.float64)


def after_attention(layer: EncoderLayer, rows: Sequence[Tensor]) -> list[Tensor]:
    projected = [applied(layer.query_key_value, normed(layer.norm, x)).chunk(3) for x in rows]
    queries, keys, values = ([x.chunk(layer.num_heads) for x in part] for part in zip(*projected, strict=True))
    found = []
    for x, query in zip(rows, queries, strict=True):
        mixed = []
        for head in range(layer.num_heads):
            scores = torch.stack([query[head] @ key[head] / math.sqrt(len(key[head])) for key in keys]).exp()
            weighted = [score * value[head] for score, value in zip(scores / scores.sum(), values, strict=True)]
            mixed.append(torch.stack(weighted).sum(dim=0))
        found.append(x + applied(layer.project, torch.cat(mixed)))
    return found


def by_bag(network: Bag, text: Sequence[int]) -> Tensor:
    vectors = [network.tokens.weight[token] for token in text]
    for token, following in itertools.pairwise(text):
        vectors.append(network.pairs.weight[1 + (token * MULTIPLIER + following) % network.buckets])
    return applied(network.output, network.scale * torch.stack(vectors).mean(dim=0))


def by_committee(network: Committee, text: Sequence[int]) -> Tensor:
    """A bag of weight 0.7, and two TextCNNs that share the rest."""
    bag, *others = network.members
    assert isinstance(bag, Bag)
    answers = [by_bag(bag, text), *(by_textcnn(member, text) for member in others if isinstance(member, TextCNN))]
    first, second, third = (logits - logits.exp().sum().log() for logits in answers)
    return 0.7 * first + 0.15 * second + 0.15 * third


def committee() -> Committee:
    sizes = {"num_textcnns": 2, "bag_dim": 8, "bag_buckets": 50}
    return Committee(NUM_TOKENS, NUM_CLASSES, bag_weight=0.7, dim=6, num_filters=5, **sizes)


CASES: dict[str, tuple[Callable[[], nn.Module], Callable[..., Tensor]]] = {
    "pooling": (lambda: Pooling(NUM_TOKENS, NUM_CLASSES, dim=8, num_ngrams=3, ngram_buckets=50), by_pooling),
    "textcnn": (lambda: TextCNN(NUM_TOKENS, NUM_CLASSES, dim=6, widths=(1, 2, 3, 4), num_filters=5), by_textcnn),
    "transformer": (lambda: Transformer(NUM_TOKENS, NUM_CLASSES, dim=16, num_heads=4), by_transformer),
    "bag": (lambda: Bag(NUM_TOKENS, NUM_CLASSES, dim=8, buckets=50, scale=4.0), by_bag),
    "committee": (committee, by_committee),
}
"""How each network is built, and how its answer is found by hand."""


@pytest.mark.parametrize("name", CASES)
def test_the_answer_is_the_one_found_by_hand(name: str) -> None:
    build, by_hand = CASES[name]
    torch.manual_seed(1)
    network = build().eval()
    with torch.no_grad():
        for parameter in network.parameters():  # away from ones and zeros, which would hide a factor or a term
            parameter.add_(0.3 * torch.randn(parameter.shape))
        for module in network.modules():
            if isinstance(module, nn.Embedding | nn.EmbeddingBag):
                module.weight[0] = 0.0  # padding
        tokens = torch.nn.utils.rnn.pad_sequence([torch.tensor(text) for text in TEXTS], batch_first=True)
        found = network(tokens, torch.tensor([len(text) for text in TEXTS]))
        exact = network.double()
        expected = torch.stack([by_hand(exact, text) for text in TEXTS])
    torch.testing.assert_close(found, expected.float())
