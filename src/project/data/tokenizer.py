r"""Tokenizers: word-level, made for English and for pasted logs alike, and byte-level BPE.

Everything a tokenizer does is a step of a Hugging Face `tokenizers` pipeline, so that its JSON alone restores it. The
word level turns `File "/home/me/env/torch/nn/functional.py", line 2282, in scaled_dot_product_attention` into
`file " nn / functional py " , line 0000 , in scaled dot product attention`: sizes, addresses and folders that training
never saw still become known words. A number of several digits keeps only how many they are; a single digit, and the
width in a name such as `float32`, stay as they stand, since those carry meaning.

The padding id 0 and the unknown id 1 are plain entries of the vocabulary, not what `tokenizers` calls special tokens: a
text that contains `<pad>` is never mistaken for padding.
"""

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers

from project.data.cache import digest
from project.errors import UserError

PAD_ID = 0
UNKNOWN_ID = 1
RESERVED = ("<pad>", "<unk>")  # by id
NUM_BYTES = 256

# colours and cursor moves of a terminal; a rule is (what is replaced, by what)
ANSI_RULE = (r"\x1b\[[0-9;?]*[ -/]*[@-~]", "")

PART = r"[^\s/\\\"'`<>\[\]{}|:,;=()]"  # one character of a folder's or a file's name

# in this order, before a text is cut into words
WORD_RULES = (
    (r"(?:\\u001b|\\x1b|\\033|\^\[)?\[[0-9;]+m", ""),  # the same, after a copy that lost or spelt out the escape byte
    (r"&(?:quot|#34|#x22);", '"'),  # a page that was copied as HTML source
    (r"&(?:apos|#39|#x27);|\u2019", "'"),
    (r"&lt;", "<"),
    (r"&gt;", ">"),
    (r"&(?:amp|nbsp);", " "),
    # all but the last two parts of a path (Unix, Windows) or of a URL; not of the relative a/b or either/or/both
    (rf"(?<!{PART})(?<![/\\])(?:~|\.{{1,2}}|[A-Za-z]:)?(?:[/\\]+{PART}+)*[/\\]+(?={PART}+[/\\]+[\w.])", ""),
    (r"(?<!\\)\\+[nrt]", " "),  # a line end or tab that was pasted as its JSON or Python escape
    (r"\b0[xX][0-9a-fA-F]+", "0x"),  # an address
    (r"\b(?=[a-f]*[0-9])(?=[0-9]*[a-f])[0-9a-f]{7,}\b", "0x"),  # a commit or another hash
    (r"_+", " "),
    (r"(?<=[\p{Ll}0-9])(?=\p{Lu})|(?<=\p{Lu})(?=\p{Lu}\p{Ll})", " "),  # camelCase, CUDAError
    (r"(?<=\w)\.(?=[A-Za-z])", " "),  # torch.nn.Linear, functional.py; not the point of 0.5
    (r"(?<=[0-9])x(?=[0-9])", " x "),  # 32x128
    (r"(?<=[A-Za-z])(?=[0-9])(?!(?:8|16|32|64|128)(?![0-9])|[0-9]d)", " "),  # mat1, layer12; not int64, conv2d
    # every digit of a number of two digits or more, except of the widths that the line above left at their name
    (r"(?:(?<=[0-9])[0-9]|[0-9](?=[0-9]))(?<![A-Za-z][0-9])(?<![A-Za-z][0-9]{2})(?<![A-Za-z][0-9]{3})", "0"),
    (r"(?<=[0-9]{5})[0-9]+", ""),  # a number of six digits or more is just large
    (r"([-=*#^~+|>\u2500-\u259f])(?=\1)", ""),  # rules, arrows, progress bars: one of each
)

# one character of a script written without spaces; letters and digits, with inner apostrophes (don't); one other mark
SPACELESS = r"\p{Han}\p{Hiragana}\p{Katakana}"
WORD = rf"[{SPACELESS}]|[\w&&[^{SPACELESS}]]+(?:'[\w&&[^{SPACELESS}]]+)*|[^\w\s]"


@dataclass(frozen=True)
class TokenizerConfig:
    """How a tokenizer is trained."""

    kind: Literal["word", "bpe"] = "word"
    """Whole words, with rules for numbers, paths and identifiers; or byte-level BPE, which knows no unknown words."""
    num_tokens: int = 20_000
    """Upper bound of the vocabulary's size, padding and unknown included; the most frequent tokens are kept."""
    min_count: int = 2
    """Words (for BPE: pairs) seen less often in training are left out; from 2 on, the unknown token gets trained."""
    lowercase: bool = True
    """Whether upper and lower case are one."""

    def __post_init__(self) -> None:
        least = len(RESERVED) + (NUM_BYTES if self.kind == "bpe" else 1)
        if self.kind not in ("word", "bpe"):
            raise UserError(f'tokenizer.kind: unknown kind, found {self.kind!r}, expected "word" or "bpe"')
        if self.num_tokens < least:
            raise UserError(f"tokenizer.num_tokens: too few, found {self.num_tokens}, expected at least {least}")
        if self.min_count < 1:
            raise UserError(f"tokenizer.min_count: found {self.min_count}, expected at least 1")


class Tokenizer:
    """Turns a text into token ids. Equal JSON is an equal tokenizer."""

    def __init__(self, backend: tokenizers.Tokenizer) -> None:
        self._backend = backend

    @classmethod
    def train(cls, texts: Iterable[str], config: TokenizerConfig) -> "Tokenizer":
        """Fit a vocabulary to the texts. The same texts give the same tokenizer, in any process.

        Raises:
            ValueError: no word occurs `min_count` times.
        """
        backend = _untrained(config)
        size = config.num_tokens - len(RESERVED)
        trainer: trainers.Trainer
        if config.kind == "word":
            trainer = trainers.WordLevelTrainer(
                vocab_size=size, min_frequency=config.min_count, show_progress=False, special_tokens=[]
            )
        else:
            trainer = trainers.BpeTrainer(
                vocab_size=size,
                min_frequency=config.min_count,
                show_progress=False,
                special_tokens=[],
                initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
            )
        with _single_thread():
            backend.train_from_iterator(texts, trainer)
        if backend.get_vocab_size() == 0:
            raise UserError(
                f"tokenizer.min_count: no words left, found none that occurs {config.min_count} times in the training "
                "texts, expected at least one; lower min_count"
            )
        # the trainers would register reserved tokens as special; shifting the ids makes room for plain entries instead
        state = json.loads(backend.to_str())
        words = sorted(state["model"]["vocab"], key=state["model"]["vocab"].__getitem__)
        state["model"]["vocab"] = {word: index for index, word in enumerate((*RESERVED, *words))}
        return cls.from_json(json.dumps(state))

    @property
    def num_tokens(self) -> int:
        """Size of the vocabulary, padding and unknown included; every id is below it."""
        return self._backend.get_vocab_size()

    @property
    def fingerprint(self) -> str:
        """Hex digest of everything the tokenizer does."""
        return digest("tokenizer", self.to_json())

    def encode(self, text: str) -> list[int]:
        """Token ids of the text; empty for a text of no words. Never the padding id."""
        return self._backend.encode(text).ids

    def encode_batch(self, texts: list[str]) -> list[list[int]]:
        """Token ids of each text, as `encode` gives them."""
        with _single_thread():
            return [encoding.ids for encoding in self._backend.encode_batch_fast(texts)]

    def decode(self, ids: list[int]) -> str:
        """The words of the ids, joined by spaces; for BPE the text as it stood, after lower-casing if that is on."""
        return self._backend.decode(ids, skip_special_tokens=False)

    def to_json(self) -> str:
        """The whole tokenizer as JSON, in one line."""
        return self._backend.to_str()

    @classmethod
    def from_json(cls, text: str) -> "Tokenizer":
        """Restore a tokenizer from `to_json`."""
        return cls(tokenizers.Tokenizer.from_str(text))

    def save(self, path: str | Path) -> None:
        """Write `to_json` to a file."""
        Path(path).write_text(self.to_json(), encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> "Tokenizer":
        """Restore a tokenizer from a file that `save` wrote."""
        return cls.from_json(Path(path).read_text(encoding="utf-8"))


def _untrained(config: TokenizerConfig) -> tokenizers.Tokenizer:
    """The pipeline without its vocabulary."""
    lowercase = [normalizers.Lowercase()] if config.lowercase else []
    if config.kind == "bpe":
        backend = tokenizers.Tokenizer(models.BPE())
        backend.normalizer = normalizers.Sequence([_replace(ANSI_RULE), *lowercase])
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        backend.decoder = decoders.ByteLevel()
        return backend
    backend = tokenizers.Tokenizer(models.WordLevel(vocab={}, unk_token=RESERVED[UNKNOWN_ID]))
    rules = [_replace(rule) for rule in (ANSI_RULE, *WORD_RULES)]
    backend.normalizer = normalizers.Sequence([normalizers.NFKC(), *rules, *lowercase])
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Split(Regex(WORD), "isolated")]
    )
    return backend


def _replace(rule: tuple[str, str]) -> normalizers.Normalizer:
    return normalizers.Replace(Regex(rule[0]), rule[1])


@contextmanager
def _single_thread() -> Iterator[None]:
    """Keep `tokenizers` off its thread pool, unless the user's environment asks for one.

    A pool's threads do not survive a fork, and Python 3.12 warns of a fork (a loader's worker) from a process that has
    threads. The library reads the variable at each call, so it is set only for the duration of one.
    """
    name = "TOKENIZERS_PARALLELISM"
    if name in os.environ:
        yield
        return
    os.environ[name] = "false"
    try:
        yield
    finally:
        del os.environ[name]
