r"""Tokenizers: word level, for English and for pasted logs, and byte-level BPE.

A tokenizer is a Hugging Face `tokenizers` pipeline, and its JSON is all that is needed to restore it. The word level
turns `File "/home/me/env/torch/nn/functional.py", line 2282, in scaled_dot_product_attention` into
`file " nn / functional py " , line 0000 , in scaled dot product attention`, so that unseen sizes, addresses and folders
become known words. Of a number with several digits only their count is kept. A single digit, and the width in a name
such as `float32`, carry meaning and are kept.

Padding (id 0) and unknown (id 1) are ordinary entries of the vocabulary, not special tokens of `tokenizers`. So a text
that contains `<pad>` is not taken for padding.
"""

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers

from project.data.cache import digest
from project.errors import UserError

PAD_ID = 0
UNKNOWN_ID = 1
RESERVED = ("<pad>", "<unk>")  # by id
NUM_BYTES = 256

# A rule is (pattern, replacement). This one removes colours and cursor moves of a terminal.
ANSI_RULE = (r"\x1b\[[0-9;?]*[ -/]*[@-~]", "")

PART = r"[^\s/\\\"'`<>\[\]{}|:,;=()]"  # one character of a file's or folder's name

# applied in this order, before a text is split into words
WORD_RULES = (
    (r"(?:\\u001b|\\x1b|\\033|\^\[)?\[[0-9;]+m", ""),  # the same without the escape byte, or with it spelt out
    (r"&(?:quot|#34|#x22);", '"'),  # HTML entities
    (r"&(?:apos|#39|#x27);|\u2019", "'"),
    (r"&lt;", "<"),
    (r"&gt;", ">"),
    (r"&(?:amp|nbsp);", " "),
    # all but the last two parts of a path (Unix, Windows) or URL; leaves relative a/b and either/or/both
    (rf"(?<!{PART})(?<![/\\])(?:~|\.{{1,2}}|[A-Za-z]:)?(?:[/\\]+{PART}+)*[/\\]+(?={PART}+[/\\]+[\w.])", ""),
    (r"(?<!\\)\\+[nrt]", " "),  # a line end or tab pasted as a JSON or Python escape
    (r"\b0[xX][0-9a-fA-F]+", "0x"),  # an address
    (r"\b(?=[a-f]*[0-9])(?=[0-9]*[a-f])[0-9a-f]{7,}\b", "0x"),  # a commit or another hash
    (r"_+", " "),
    (r"(?<=[\p{Ll}0-9])(?=\p{Lu})|(?<=\p{Lu})(?=\p{Lu}\p{Ll})", " "),  # camelCase, CUDAError
    (r"(?<=\w)\.(?=[A-Za-z])", " "),  # torch.nn.Linear, functional.py; not the point of 0.5
    (r"(?<=[0-9])x(?=[0-9])", " x "),  # 32x128
    (r"(?<=[A-Za-z])(?=[0-9])(?!(?:8|16|32|64|128)(?![0-9])|[0-9]d)", " "),  # mat1, layer12; not int64, conv2d
    # every digit of a number of two digits or more, except the widths that the line above leaves at their name
    (r"(?:(?<=[0-9])[0-9]|[0-9](?=[0-9]))(?<![A-Za-z][0-9])(?<![A-Za-z][0-9]{2})(?<![A-Za-z][0-9]{3})", "0"),
    (r"(?<=[0-9]{5})[0-9]+", ""),  # a number of six digits or more is just large
    (r"([-=*#^~+|>\u2500-\u259f])(?=\1)", ""),  # rules, arrows, progress bars: one of each
)

# A word: one character of a script without spaces; or letters and digits, with inner apostrophes; or one other mark.
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
    """Turn upper case into lower case."""

    def __post_init__(self) -> None:
        least = len(RESERVED) + (NUM_BYTES if self.kind == "bpe" else 1)
        if self.kind not in ("word", "bpe"):
            raise UserError(f'tokenizer.kind: unknown kind, found {self.kind!r}, expected "word" or "bpe"')
        if self.num_tokens < least:
            raise UserError(f"tokenizer.num_tokens: too few, found {self.num_tokens}, expected at least {least}")
        if self.min_count < 1:
            raise UserError(f"tokenizer.min_count: found {self.min_count}, expected at least 1")


class Tokenizer:
    """Turns texts into token ids. Tokenizers with equal JSON are equal."""

    def __init__(self, backend: tokenizers.Tokenizer) -> None:
        self._backend = backend

    @classmethod
    def train(cls, texts: Iterable[str], config: TokenizerConfig) -> "Tokenizer":
        """Fit a tokenizer to the texts. The same texts give the same tokenizer, in any process.

        Raises:
            UserError: no word occurs `min_count` times.
        """
        backend = _untrained(config)
        options: dict[str, Any] = {
            "vocab_size": config.num_tokens - len(RESERVED),
            "min_frequency": config.min_count,
            "show_progress": False,
            "special_tokens": [],
        }
        trainer: trainers.Trainer
        if config.kind == "word":
            trainer = trainers.WordLevelTrainer(**options)
        else:
            trainer = trainers.BpeTrainer(**options, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()))
        with _single_thread():
            backend.train_from_iterator(texts, trainer)
        if backend.get_vocab_size() == 0:
            raise UserError(
                f"tokenizer.min_count: no words left, found none that occurs {config.min_count} times in the training "
                "texts, expected at least one; lower min_count"
            )
        # The trainers make reserved tokens special. Shifting the ids makes room for ordinary entries.
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
        """Hex digest of the tokenizer's JSON."""
        return digest("tokenizer", self.to_json())

    def encode(self, text: str) -> list[int]:
        """Token ids of the text, without padding; empty for a text without words."""
        return self._backend.encode(text).ids

    def encode_batch(self, texts: list[str]) -> list[list[int]]:
        """Token ids of each text, as `encode` gives them."""
        with _single_thread():
            return [encoding.ids for encoding in self._backend.encode_batch_fast(texts)]

    def decode(self, ids: list[int]) -> str:
        """The words of the ids, joined by spaces; for BPE the text itself, in lower case if `lowercase` is on."""
        return self._backend.decode(ids, skip_special_tokens=False)

    def to_json(self) -> str:
        """The whole tokenizer as JSON, in one line."""
        return self._backend.to_str()

    @classmethod
    def from_json(cls, text: str) -> "Tokenizer":
        """Restore a tokenizer from `to_json`."""
        return cls(tokenizers.Tokenizer.from_str(text))

    def save(self, path: str | Path) -> None:
        """Write the JSON of `to_json` to a file."""
        Path(path).write_text(self.to_json(), encoding="utf-8")


def _untrained(config: TokenizerConfig) -> tokenizers.Tokenizer:
    """The pipeline without a vocabulary."""
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
    """Let `tokenizers` use one thread during a call, unless the user's environment says otherwise.

    Threads do not survive a fork, and Python 3.12 warns when a process with threads forks a loader's worker. The
    library reads the environment variable at each call.
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
