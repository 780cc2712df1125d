"""Tokenizers restore from their JSON, give words back, and do not trip over numbers, paths and pasted logs."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from project.data.tokenizer import PAD_ID, UNKNOWN_ID, Tokenizer, TokenizerConfig

TEXTS = [
    "RuntimeError: mat1 and mat2 shapes cannot be multiplied (32x128 and 64x10)",
    'File "/home/me/lib/python3.11/site-packages/torch/nn/functional.py", line 2282, in scaled_dot_product_attention',
    "a stirring , funny and finally transporting re-imagining of beauty and the beast and 1930s horror films",
    "they presume their audience wo n't sit still for a sociology lesson",
    "expected scalar type float32 but found int64 at cuda:0, address 0x7f3acd120000",
]
WORDS = TokenizerConfig(kind="word", min_count=1)
BPE = TokenizerConfig(kind="bpe", min_count=1)


@cache
def trained(config: TokenizerConfig) -> Tokenizer:
    return Tokenizer.train(TEXTS, config)


def words_of(text: str, config: TokenizerConfig = WORDS) -> str:
    """The words a text is cut into, by way of a vocabulary that knows them all."""
    tokenizer = Tokenizer.train([text], config)
    return tokenizer.decode(tokenizer.encode(text))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("scaled_dot_product_attention __init__", "scaled dot product attention init"),
        ("RuntimeError CUDAError torch.nn.Linear", "runtime error cuda error torch nn linear"),
        ("don't sit, wo n't 'weight'", "don't sit , wo n't ' weight '"),
        ("size [3, 12, 768] 1234567 0.25", "size [ 3 , 00 , 000 ] 00000 0 . 00"),
        ("(32x128 and 64x10)", "( 00 x 000 and 00 x 00 )"),
        ("float32 bfloat16 int64 conv2d mat1 layer12 A100", "float32 bfloat16 int64 conv2d mat 1 layer 00 a 000"),
        ("0x7f3acd12 0xDEADBEEF a3f9c2d deadbeef", "0x 0x 0x deadbeef"),
        ('File "/home/me/env/torch/nn/functional.py"', 'file " nn / functional py "'),
        (r"C:\Users\nick\torch\nn\linear.py", r"nn \ linear py"),
        ("https://pytorch.org/docs/stable/notes/cuda.html", "https : notes / cuda html"),
        ("either/or/both /x.py ~/a/b.py", "either / or / both / x py a / b py"),
        ("\x1b[0;31mRuntimeError\x1b[0m: [1;32mx[0m \\u001b[31my", "runtime error : x y"),
        ("&lt;module&gt; &quot;a&quot; &amp; &#39;b&#39;", "< module > \" a \" ' b '"),
        (r"line\n  next\tRuntimeError", "line next runtime error"),
        ("----> 1 x ██████ 100%", "- > 1 x █ 000 %"),
        ("中文 abc한국", "中 文 abc한국"),
        ("ﬁne … <pad> <unk>", "fine . . . < pad > < unk >"),
    ],
)
def test_words(text: str, words: str) -> None:
    assert words_of(text) == words


def test_case_is_kept_on_request() -> None:
    assert words_of("RuntimeError Error", TokenizerConfig(lowercase=False, min_count=1)) == "Runtime Error Error"


def test_unseen_sizes_addresses_and_folders_are_known_words() -> None:
    tokenizer = Tokenizer.train(TEXTS, WORDS)
    text = 'File "/srv/x1/y/nn/functional.py", line 9371, 51x777 and 48x93, address 0x1b2c3d'
    assert UNKNOWN_ID not in tokenizer.encode(text)
    assert UNKNOWN_ID in tokenizer.encode(text + " unheard")


@pytest.mark.parametrize(("config", "expected"), [(WORDS, words_of), (BPE, str.lower)])
def test_round_trip_and_restore(config: TokenizerConfig, expected: Callable[[str], str], tmp_path: Path) -> None:
    tokenizer = Tokenizer.train(TEXTS, config)
    assert [tokenizer.decode(tokenizer.encode(text)) for text in TEXTS] == [expected(text) for text in TEXTS]
    tokenizer.save(tmp_path / "tokenizer.json")
    for text in ((tmp_path / "tokenizer.json").read_text(), tokenizer.to_json()):
        restored = Tokenizer.from_json(text)
        assert restored.to_json() == tokenizer.to_json()
        assert restored.fingerprint == tokenizer.fingerprint
        assert restored.num_tokens == tokenizer.num_tokens
        assert restored.encode_batch(TEXTS) == [tokenizer.encode(text) for text in TEXTS]


@settings(max_examples=100, deadline=None)
@given(st.text())
def test_bpe_gives_any_text_back(text: str) -> None:
    tokenizer = trained(TokenizerConfig(kind="bpe", lowercase=False))
    text = text.replace("\x1b", "")  # terminal colours are dropped on purpose
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert not {PAD_ID, UNKNOWN_ID} & set(ids)


@settings(max_examples=100, deadline=None)
@given(st.text())
def test_word_ids_are_in_range_and_never_padding(text: str) -> None:
    tokenizer = trained(WORDS)
    assert all(PAD_ID < index < tokenizer.num_tokens for index in tokenizer.encode(text + "<pad>[PAD]"))


@pytest.mark.parametrize("kind", ["word", "bpe"])
def test_vocabulary_is_bounded_and_rare_words_dropped(kind: str) -> None:
    everything = Tokenizer.train(TEXTS, TokenizerConfig(kind, min_count=1))  # type: ignore[arg-type]
    bounded = Tokenizer.train(TEXTS, TokenizerConfig(kind, num_tokens=260, min_count=1))  # type: ignore[arg-type]
    frequent = Tokenizer.train(TEXTS, TokenizerConfig(kind, min_count=3))  # type: ignore[arg-type]
    assert bounded.num_tokens <= 260
    assert frequent.num_tokens < everything.num_tokens
    small = Tokenizer.train(["b b b a a c"], TokenizerConfig(num_tokens=4, min_count=1))
    assert small.encode("a b c") == [3, 2, UNKNOWN_ID]


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(ValueError, match=r"tokenizer\.num_tokens: too few, found 257, expected at least 258"):
        TokenizerConfig(kind="bpe", num_tokens=257)
    with pytest.raises(ValueError, match=r"tokenizer\.num_tokens: too few, found 2, expected at least 3"):
        TokenizerConfig(num_tokens=2)
    with pytest.raises(ValueError, match=r'tokenizer\.kind: unknown kind, found \'char\', expected "word" or "bpe"'):
        TokenizerConfig(kind="char")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"tokenizer\.min_count: found 0, expected at least 1"):
        TokenizerConfig(min_count=0)
    with pytest.raises(ValueError, match=r"tokenizer\.min_count: no words left, found none that occurs 2 times"):
        Tokenizer.train(["all words differ"], TokenizerConfig(min_count=2))


def run(script: str, **environment: str) -> str:
    """Standard output of the script in a fresh process; its standard error must stay empty."""
    process = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
        env={**os.environ, **environment},
    )
    assert process.stderr == ""
    return process.stdout


TRAIN = """
import itertools, string
from project.data.tokenizer import Tokenizer, TokenizerConfig
texts = [" ".join(map("".join, itertools.product(string.ascii_lowercase[i:i + 5], repeat=3))) for i in range(20)]
for kind, size in (("word", 500), ("bpe", 600)):
    print(Tokenizer.train(texts, TokenizerConfig(kind, size, min_count=1)).fingerprint)
"""


def test_training_is_the_same_in_every_process() -> None:
    fingerprints = {run(TRAIN, PYTHONHASHSEED=str(seed)) for seed in range(3)}
    assert len(fingerprints) == 1  # among thousands of words and pairs of equal counts


FORK = """
import os
from project.data.tokenizer import Tokenizer, TokenizerConfig
threads = len(os.listdir("/proc/self/task"))
tokenizer = Tokenizer.train(["a b", "a b"] * 100, TokenizerConfig())
tokenizer.encode_batch(["a b"] * 1000)
print(len(os.listdir("/proc/self/task")) - threads, os.environ.get("TOKENIZERS_PARALLELISM"), flush=True)
child = os.fork()
tokenizer.encode_batch(["a b"] * 1000)
if child:
    os.waitpid(child, 0)
"""


def test_no_threads_are_left_for_a_fork_and_the_environment_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TOKENIZERS_PARALLELISM", raising=False)
    assert run(FORK) == "0 None\n"


def test_a_setting_of_the_user_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "true")
    Tokenizer.train(TEXTS, WORDS).encode_batch(TEXTS)
    assert os.environ["TOKENIZERS_PARALLELISM"] == "true"


REPEATED = r"""
from project.data.tokenizer import Tokenizer, TokenizerConfig
tokenizer = Tokenizer.train(["a a"], TokenizerConfig())
for unit in ("/", "\\" * 4, "\\n", "/-", "~/", "../", "_", "0", "=", "Aa", "fa0", "x_", "[0;", "a.", "'a", "://a/"):
    tokenizer.encode(unit * 50_000)
"""


def test_no_rule_backtracks_over_a_long_text() -> None:
    run(REPEATED)  # a second or so; a rule of quadratic cost takes minutes and runs into the limit of `run`


def test_json_holds_reserved_ids() -> None:
    vocabulary = json.loads(Tokenizer.train(TEXTS, WORDS).to_json())["model"]["vocab"]
    assert (vocabulary["<pad>"], vocabulary["<unk>"]) == (PAD_ID, UNKNOWN_ID)
    assert sorted(vocabulary.values()) == list(range(len(vocabulary)))
