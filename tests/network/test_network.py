"""The networks: padding changes nothing, `calls` counts what it should, and every way they are run works."""

import copy
import pickle
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from project.network import Committee, Head, Pooling, Residual, TextCNN, Transformer
from project.network.blocks import TILE, TokenDropout

NUM_TOKENS, NUM_CLASSES = 300, 5

# Three-grams and a five-wide kernel, so that texts of one to four tokens meet every boundary.
NETWORKS: dict[str, Callable[..., nn.Module]] = {
    "pooling": partial(Pooling, num_ngrams=3, ngram_buckets=1_000),
    "textcnn": partial(TextCNN, dim=32, widths=(1, 2, 3, 5), num_filters=16),
    "transformer": partial(Transformer, dim=32),
    "committee": partial(Committee, bag_buckets=1_000, dim=32, widths=(1, 2, 3, 5), num_filters=16),
}


@pytest.fixture(params=NETWORKS)
def build(request: pytest.FixtureRequest) -> Callable[..., nn.Module]:
    """A constructor of one network, drawn from a fixed seed."""

    def build(**init_args: object) -> nn.Module:
        torch.manual_seed(1)
        return NETWORKS[request.param](NUM_TOKENS, NUM_CLASSES, **init_args)

    return build


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Products split over many threads leave each a few rows, and those are rounded by other code (`whole_tiles`)."""
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(num_threads)


def random_batch(lengths: list[int], seed: int = 0) -> tuple[Tensor, Tensor]:
    """Tokens (B, T) without padding or unknown inside the texts, and lengths (B,)."""
    generator = torch.Generator().manual_seed(seed)
    rows = [torch.randint(2, NUM_TOKENS, (length,), generator=generator) for length in lengths]
    return nn.utils.rnn.pad_sequence(rows, batch_first=True), torch.tensor(lengths)


def logits_of(network: nn.Module, tokens: Tensor, lengths: Tensor, precision: str = "float32") -> Tensor:
    network.eval()
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=precision == "autocast"):
        logits: Tensor = network(tokens, lengths)
    return logits


def residuals(network: nn.Module) -> list[Residual]:
    return [module for module in network.modules() if isinstance(module, Residual)]


# Residual and Head


def test_residual_has_4289_parameters_at_dim_64() -> None:
    assert sum(parameter.numel() for parameter in Residual(64).parameters()) == 4_289


def test_residual_adds_a_scaled_branch() -> None:
    residual = Residual(8)
    x = torch.randn(3, 8, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        residual.scale.fill_(0.25)
        normed = (x - x.mean(1, keepdim=True)) / (x.var(1, correction=0, keepdim=True) + 1e-5).sqrt()
        expected = x + 0.25 * F.gelu(normed @ residual.linear.weight.T + residual.linear.bias)
    torch.testing.assert_close(residual(x), expected)


def test_calls_counts_training_forwards_only() -> None:
    residual = Residual(4)
    residual(torch.ones(2, 4))
    with torch.no_grad():
        residual(torch.ones(2, 4))
    residual.eval()
    residual(torch.ones(2, 4))
    with torch.inference_mode():
        residual(torch.ones(2, 4))
    assert residual.calls.item() == 2


def test_calls_is_saved_and_not_trained() -> None:
    residual = Residual(4)
    residual(torch.ones(2, 4))
    restored = Residual(4)
    restored.load_state_dict(residual.state_dict())
    assert restored.calls.item() == 1
    assert restored.calls.dtype == torch.int64
    assert residual.bfloat16().calls.dtype == torch.int64
    assert "calls" not in dict(residual.named_parameters())


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_calls_does_not_count_recomputation(use_reentrant: bool) -> None:
    residual = Residual(4)
    x = torch.ones(2, 4, requires_grad=True)
    for step in (1, 2):
        checkpoint(residual, x, use_reentrant=use_reentrant).sum().backward()
        assert residual.calls.item() == step


def test_head_is_linear_relu_dropout_linear() -> None:
    head = Head(6, 3, hidden=4, dropout=0.5).eval()
    x = torch.randn(2, 6, generator=torch.Generator().manual_seed(0))
    hidden = (x @ head.hidden.weight.T + head.hidden.bias).clamp(min=0)
    torch.testing.assert_close(head(x), hidden @ head.output.weight.T + head.output.bias)
    head.train()
    assert len({tuple(head(x)[0].tolist()) for _ in range(8)}) > 1


# padding


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("precision", ["float32", "autocast", "bfloat16"])
def test_padding_and_neighbours_never_change_a_bit(build: Callable[..., nn.Module], precision: str) -> None:
    network = build()
    if precision == "bfloat16":
        network.bfloat16()
    lengths = [41, 1, 0, 2, 3, 16, 17, 40, 5, 33, 4]
    tokens, counts = random_batch(lengths)
    expected = logits_of(network, tokens, counts, precision)
    assert expected.isfinite().all()
    for columns in (1, 6, 7, 8, 23, 60):
        assert torch.equal(logits_of(network, F.pad(tokens, (0, columns)), counts, precision), expected), columns
    for rows in range(1, len(lengths)):
        assert torch.equal(logits_of(network, tokens[:rows], counts[:rows], precision), expected[:rows]), rows
    for row, length in enumerate(lengths):
        alone = logits_of(network, tokens[row : row + 1, :length], counts[row : row + 1], precision)
        assert torch.equal(alone[0], expected[row]), row


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("num_threads", [1, 2])
def test_padding_of_long_texts(name: str, num_threads: int) -> None:
    """Exact but for attention, which from 128 tokens on rounds by the batch's shape: seen up to 1e-7 on the logits."""
    torch.manual_seed(1)
    network = NETWORKS[name](NUM_TOKENS, NUM_CLASSES)
    tokens, counts = random_batch([200, 190, 7])
    threads_before = torch.get_num_threads()
    torch.set_num_threads(num_threads)
    try:
        expected = logits_of(network, tokens, counts)
        padded = logits_of(network, F.pad(tokens, (0, 61)), counts)
    finally:
        torch.set_num_threads(threads_before)
    atol = 1e-6 if name == "transformer" else 0.0
    torch.testing.assert_close(padded, expected, rtol=0, atol=atol)
    # the control: other real lengths exceed the tolerance by far
    assert (logits_of(network, tokens, counts // 2) - expected).abs().amax(1).min() > 1e-4


def test_ids_beyond_a_length_are_ignored(build: Callable[..., nn.Module]) -> None:
    network = build()
    tokens, counts = random_batch([9, 4, 1])
    dirty = tokens.masked_fill(tokens == 0, 7)
    assert torch.equal(logits_of(network, dirty, counts), logits_of(network, tokens, counts))


def test_windows_centred_on_padding_never_win() -> None:
    """Filters that answer 0 to every real token and 1 to nothing at all: only a window beyond the text could say 1."""
    network = TextCNN(NUM_TOKENS, NUM_CLASSES, dim=4, widths=(1,), num_filters=2)
    (filters,) = network.filters
    assert isinstance(filters, nn.Linear)
    with torch.no_grad():
        filters.weight.fill_(-1.0)
        filters.bias.fill_(1.0)
    embedded = torch.ones(2, 5, 4)
    embedded[:, 3:] = 0.0
    mask = (torch.arange(5) < 3).expand(2, 5)
    assert not network.pool(embedded, mask, 1, filters).any()
    assert network.pool(embedded, torch.ones_like(mask), 1, filters).all()  # the control: unmasked, it does win


def test_ngrams_never_reach_into_padding() -> None:
    network = Pooling(10, 2, num_ngrams=3, ngram_buckets=1_000)
    tokens = torch.tensor([[5, 6, 7, 0, 0], [5, 0, 0, 0, 0]])
    pairs, triples = network.hash_ngrams(tokens, 2), network.hash_ngrams(tokens, 3)
    assert (pairs != 0).tolist() == [[True, True, False, False, False], [False] * 5]
    assert (triples != 0).tolist() == [[True, False, False, False, False], [False] * 5]
    hashed = 2
    for token in (5, 6):
        hashed = (hashed * 2_654_435_761 + token) % 1_000
    assert pairs[0, 0].item() == 1 + hashed
    assert network.hash_ngrams(torch.tensor([[6, 5]]), 2)[0, 0] != pairs[0, 0]
    assert int(pairs.max()) <= 1_000


def test_ngrams_fill_the_buckets_evenly() -> None:
    """A hash that clumps would share rows between n-grams far more often than chance does."""
    network = Pooling(10, 2, ngram_buckets=20_000)
    pairs = torch.cartesian_prod(torch.arange(2, 102), torch.arange(2, 102))  # 10,000 different pairs
    num_rows = len(set(network.hash_ngrams(pairs, 2)[:, 0].tolist()))
    assert num_rows > 7_500  # at random 20,000 * (1 - exp(-1/2)) = 7,869 rows are hit


@pytest.mark.parametrize("name", NETWORKS)
def test_word_order_matters(name: str) -> None:
    network = NETWORKS[name](NUM_TOKENS, NUM_CLASSES)
    both = torch.tensor([[5, 9], [9, 5]])
    forward, backward = logits_of(network, both, torch.tensor([2, 2]))
    assert not torch.allclose(forward, backward, atol=1e-5)


def test_padding_row_stays_zero(build: Callable[..., nn.Module]) -> None:
    network = build(dropout=0.0, token_dropout=0.3)
    optimizer = torch.optim.AdamW(network.parameters(), lr=0.1, weight_decay=0.1)
    tokens, counts = random_batch([6, 2, 3, 7, 5, 2, 4, 3])
    for _ in range(3):
        optimizer.zero_grad()
        torch.autograd.backward(F.cross_entropy(network(tokens, counts), torch.arange(8) % NUM_CLASSES))
        optimizer.step()
    tables = [module for module in network.modules() if isinstance(module, nn.Embedding | nn.EmbeddingBag)]
    assert tables
    for table in tables:
        assert table.padding_idx == 0
        assert not table.weight[0].any()
        assert table.weight[1:].any()


# every way to run them


@pytest.mark.parametrize("lengths", [[1], [0], [0, 0], [1, 1], [2], [TILE], [3, 0, 70]])
def test_all_parameters_get_a_gradient(build: Callable[..., nn.Module], lengths: list[int]) -> None:
    """DistributedDataParallel stops at a parameter that took no part, even in the smallest batch."""
    network = build()
    logits = network(*random_batch(lengths))
    assert logits.shape == (len(lengths), NUM_CLASSES)
    logits.sum().backward()
    assert [name for name, parameter in network.named_parameters() if parameter.grad is None] == []
    assert all(parameter.grad.isfinite().all() for parameter in network.parameters() if parameter.grad is not None)


@pytest.mark.parametrize("precision", ["float32", "autocast", "bfloat16"])
def test_training_learns_and_repeats_to_the_bit(build: Callable[..., nn.Module], precision: str) -> None:
    tokens, counts = random_batch([12, 3, 1, 30, 7])
    labels = torch.arange(5)

    def train() -> tuple[float, dict[str, Tensor]]:
        network = build(dropout=0.1, token_dropout=0.1)
        if precision == "bfloat16":
            network.bfloat16()
        optimizer = torch.optim.AdamW(network.parameters(), lr=1e-2)
        for _ in range(40):
            with torch.autocast("cpu", torch.bfloat16, enabled=precision == "autocast"):
                loss = F.cross_entropy(network(tokens, counts).float(), labels)
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            optimizer.step()
        return loss.item(), network.state_dict()

    torch.use_deterministic_algorithms(True)
    try:
        (loss, weights), (_, again) = train(), train()
    finally:
        torch.use_deterministic_algorithms(False)
    assert loss < 0.5
    assert all(torch.equal(weights[name], again[name]) for name in weights)


def test_without_dropout_nothing_is_drawn(build: Callable[..., nn.Module]) -> None:
    batch = random_batch([5, 2])
    plain = build(dropout=0.0)
    before = torch.get_rng_state()
    plain(*batch).sum().backward()
    network = build(dropout=0.5, token_dropout=0.5)
    torch.set_rng_state(before)
    network.eval()(*batch)
    assert torch.equal(torch.get_rng_state(), before)
    network.train()(*batch)
    assert not torch.equal(torch.get_rng_state(), before)


def test_copies_answer_alike(build: Callable[..., nn.Module]) -> None:
    network, batch = build(), random_batch([8, 3])
    network(*batch)
    expected = logits_of(network, *batch)
    for twin in (copy.deepcopy(network), pickle.loads(pickle.dumps(network))):
        assert torch.equal(logits_of(twin, *batch), expected)
        assert [residual.calls.item() for residual in residuals(twin)] == [1] * len(residuals(network))


def test_compiles_without_a_graph_break_and_counts_alike(build: Callable[..., nn.Module]) -> None:
    network = build(token_dropout=0.1)
    network.compile(backend="eager", fullgraph=True, dynamic=True)
    for lengths in ([40, 3, 1], [17, 5]):
        network(*random_batch(lengths)).sum().backward()
    assert {residual.calls.item() for residual in residuals(network)} == {2}
    assert not any(name.startswith("_orig_mod") for name in network.state_dict())
    torch.compiler.reset()


def test_checkpointing_changes_no_gradient_and_no_count() -> None:
    batch = random_batch([20, 4, 9])
    runs = []
    for checkpoint_activations in (False, True):
        torch.manual_seed(1)
        network = Transformer(
            NUM_TOKENS, NUM_CLASSES, dim=32, dropout=0.4, checkpoint_activations=checkpoint_activations
        )
        network(*batch).logsumexp(1).sum().backward()
        assert [residual.calls.item() for residual in residuals(network)] == [1, 1]
        runs.append(([parameter.grad for parameter in network.parameters()], torch.get_rng_state()))
    (plain, plain_state), (recomputed, recomputed_state) = runs
    assert all(a is not None and b is not None and torch.equal(a, b) for a, b in zip(plain, recomputed, strict=True))
    assert torch.equal(plain_state, recomputed_state)


def test_masked_keys_get_no_weight() -> None:
    """A key beyond the length could hold anything, even infinities times zero: its value never enters."""
    layer = Transformer(NUM_TOKENS, NUM_CLASSES, dim=32).eval().layers[0]
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1, 16, 32, generator=generator)
    other = x.clone()
    other[:, 10:] = 1e4 * torch.randn(1, 6, 32, generator=generator)
    attend = (torch.arange(16) < 10)[None, None, None, :]
    assert torch.equal(layer(x, attend)[:, :10], layer(other, attend)[:, :10])


def test_an_empty_text_still_attends_to_something() -> None:
    """A softmax over no key at all is 0/0; which kernels answer that with a number differs by device."""
    network = Transformer(NUM_TOKENS, NUM_CLASSES, dim=32)
    masks: list[Tensor] = []
    network.layers[0].register_forward_pre_hook(lambda _layer, inputs: masks.append(inputs[1]))
    network(*random_batch([3, 0]))
    assert masks[0].sum(-1).flatten().tolist() == [3, 1]


# token dropout and arguments


def test_token_dropout_writes_unknown_over_real_tokens_only() -> None:
    dropout = TokenDropout(0.25)
    tokens = torch.full((100, 100), 7)
    tokens[:, 60:] = 0
    torch.manual_seed(0)
    dropped = dropout(tokens)
    assert not dropped[:, 60:].any()
    assert set(dropped[:, :60].flatten().tolist()) == {1, 7}
    assert 0.22 < (dropped[:, :60] == 1).float().mean() < 0.28  # 6,000 draws: five standard errors
    assert torch.equal(dropout.eval()(tokens), tokens)


@pytest.mark.parametrize(
    ("network", "init_args", "message"),
    [
        (Pooling, {"dim": 0}, "dim: expected at least 1, got 0"),
        (Pooling, {"num_ngrams": 0}, "num_ngrams: expected at least 1, got 0"),
        (Pooling, {"token_dropout": 1.0}, "token_dropout: expected a fraction"),
        (TextCNN, {"widths": ()}, "widths: expected at least one"),
        (TextCNN, {"widths": (3, 0)}, "widths: expected at least 1, got 0"),
        (TextCNN, {"dropout": -0.1}, "dropout: expected a fraction"),
        (Transformer, {"dim": 30}, "dim: expected an even multiple of num_heads 4, got 30"),
        (Transformer, {"num_layers": 0}, "num_layers: expected at least 1, got 0"),
    ],
)
def test_senseless_arguments_are_refused(
    network: Callable[..., nn.Module], init_args: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        network(NUM_TOKENS, NUM_CLASSES, **init_args)


# Committee


def test_the_committee_deals_each_row_to_one_member_and_keeps_their_order() -> None:
    """Members that answer with a number of their own: every row has one of them, in equal shares, at random."""

    class Constant(nn.Module):
        def __init__(self, answer: float) -> None:
            super().__init__()
            self.answer = answer

        def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
            return torch.stack([torch.full((len(tokens),), self.answer), tokens[:, 0].float()], dim=1)

    network = Committee(NUM_TOKENS, 2, bag_buckets=10, dim=4, num_filters=2)
    network.members = nn.ModuleList(Constant(float(answer)) for answer in range(4))
    tokens = torch.arange(2, 14).unsqueeze(1)
    torch.manual_seed(0)
    first, second = (network(tokens, torch.ones(12, dtype=torch.int64)) for _ in range(2))
    for dealt in (first, second):
        assert dealt[:, 1].tolist() == tokens[:, 0].tolist()
        assert dealt[:, 0].long().bincount().tolist() == [3, 3, 3, 3]
    assert first[:, 0].tolist() != second[:, 0].tolist()


def test_the_committee_answers_with_the_weighted_mean_of_log_probabilities() -> None:
    torch.manual_seed(0)
    network = Committee(NUM_TOKENS, NUM_CLASSES, num_textcnns=2, bag_weight=0.5, bag_buckets=10, dim=4, num_filters=2)
    tokens, lengths = random_batch([6, 1, 3])
    bag, *others = [logits_of(member, tokens, lengths).log_softmax(dim=1) for member in network.members]
    expected = 0.5 * bag + 0.25 * others[0] + 0.25 * others[1]
    torch.testing.assert_close(logits_of(network, tokens, lengths), expected)


def test_a_member_without_rows_leaves_the_others_their_work() -> None:
    network = Committee(NUM_TOKENS, NUM_CLASSES, bag_buckets=10, dim=4, num_filters=2)
    tokens, lengths = random_batch([4])
    assert network(tokens, lengths).shape == (1, NUM_CLASSES)


@pytest.mark.parametrize("options", [{"num_textcnns": 0}, {"bag_dim": 0}, {"bag_buckets": 0}, {"bag_weight": 1.0}])
def test_the_committee_refuses_what_makes_none(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        Committee(NUM_TOKENS, NUM_CLASSES, **options)
