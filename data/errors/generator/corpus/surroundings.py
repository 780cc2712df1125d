"""Put around a message what people paste with it, and spoil it as pasting does.

The steps, in order: head the message with its exception class in some form, put a traceback before it, chain it to
other exceptions, put log lines and remarks around, cut to size, and disguise the characters (prefixes, wrapping,
ANSI codes, HTML or JSON escapes). No step looks at the cause.
"""
# ruff: noqa: E501, RUF001  (pools of quoted lines read best unwrapped)

from __future__ import annotations

import html
import json
import random
import textwrap
from dataclasses import dataclass, field

from corpus.layouts import traceback_lines
from corpus.message import Frame, Message
from corpus.remarks import LEADS, NOISE, OTHER_ERRORS, PREFIXES, TAILS, TITLES
from corpus.stacks import FRAMEWORKS, Draw, call_frame, user_frames

MIN_CHARACTERS, MAX_CHARACTERS, MAX_LINES = 40, 800, 15

_HINTS = (
    "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.\n"
    "For debugging consider passing CUDA_LAUNCH_BLOCKING=1.",
    "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.",
    "Exception raised from infer_size_impl at ../aten/src/ATen/ExpandUtils.cpp:35 (most recent call first):\n"
    "frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x57 (0x7f2b0c1a4d87 in /opt/libc10.so)",
    "Set TORCH_LOGS=\"+dynamo\" and TORCHDYNAMO_VERBOSE=1 for more information",
    "You can suppress this exception and fall back to eager by setting:\n    import torch._dynamo\n"
    "    torch._dynamo.config.suppress_errors = True",
    "If you are running on CPU, set map_location or use the nightly.",
)  # fmt: skip
_CODES = ("\x1b[31m", "\x1b[0;31m", "\x1b[1;31m", "\x1b[91m", "[0;31m", "\x1b[38;5;9m")


@dataclass
class Paste:
    """The lines of one pasted text; `error` holds the message and is cut last."""

    error: list[str]
    before: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)

    def num_lines(self) -> int:
        """Return how many lines the paste has."""
        return len(self.before) + len(self.error) + len(self.after)

    def num_characters(self) -> int:
        """Return how long the paste is when joined."""
        return sum(len(line) + 1 for line in (*self.before, *self.error, *self.after)) - 1

    def lines(self) -> list[str]:
        """Return all lines in order."""
        return [*self.before, *self.error, *self.after]


def surround(message: Message, rng: random.Random, *, train: bool) -> str:
    """Return one pasted text that holds `message`: 40 to 800 characters, 1 to 15 lines.

    `train=False` also draws from the part of the pools that training rows never use.
    """
    draw = Draw(rng, train=train)
    while True:
        text = _attempt(message, draw)
        if MIN_CHARACTERS <= len(text) <= MAX_CHARACTERS and text.count("\n") < MAX_LINES:
            return text


def _attempt(message: Message, draw: Draw) -> str:
    paste = Paste(_headed(message, draw).split("\n"))
    kind = draw.rng.random()
    if kind < 0.16 and "\n" not in message.text:
        paste.error = [draw.pick(TITLES).format(e=" ".join(paste.error), n=draw.rng.randint(12, 98000))]
    elif kind < 0.66:
        paste.before = _traceback(message, draw)
        if draw.chance(0.12):
            _chain(paste, draw)
    if draw.chance(0.06):
        paste.after += draw.pick(_HINTS).split("\n")
    if draw.chance(0.22):
        noise = [_filled(draw.pick(NOISE), draw) for _ in range(draw.rng.randint(1, 3))]
        paste.before, paste.after = (
            (noise + paste.before, paste.after) if draw.chance(0.6) else (paste.before, paste.after + noise)
        )
    fenced = draw.chance(0.09)
    if fenced:
        paste.before.insert(
            0, draw.pick(("```", "```python", "```pytb", "~~~", "[code]", "```shell", "<details>", "<pre>"))
        )
        paste.after.append("```")
    _remark(paste, draw, own_line=fenced)
    _fit(paste, draw, MAX_CHARACTERS - draw.rng.choice((60, 60, 150, 300, 450)), MAX_LINES - 1)
    return _disguised(paste, draw).strip("\n")


def _headed(message: Message, draw: Draw) -> str:
    """Return the message with its exception class in one of the forms people see."""
    text, name = message.text, message.exception
    if draw.chance(0.07) and len(text) > 70:
        text = _cut_short(text, draw)
    short = name.rsplit(".", 1)[-1]
    if not name:
        return draw.pick(("{t}", "{t}", "{t}", "ERROR: {t}", "Error: {t}", "Exception: {t}")).format(t=text)
    if draw.chance(0.68):
        return f"{name if draw.chance(0.85) else short}: {text}"
    if draw.chance(0.5):
        return text
    forms = (
        "{s}('{t}')", "Error: {t}", "ERROR: {t}", "Exception has occurred: {s}\n{t}", "*** {s}: {t}", "builtins.{s}: {t}", "Caught {s}: {t}",
        "<class '{s}'>: {t}", "raise {s}(\"{t}\")", "{s} : {t}", "**{s}**: {t}", "`{s}: {t}`", "{s} - {t}", "E       {s}: {t}", "Exception: {t}",
        "terminate called after throwing an instance of 'c10::Error'\n  what():  {t}", "{s}:\n{t}", "Error during training: {t}", "\"{s}: {t}\"", "{s}\n\n{t}", "E: {t}", "!!! Exception during processing !!! {t}", "[error] {t}", "! {t}", "Failed: {s}({t})", "An error occurred: {t}",
        "{s} {t}", "exception: {s}: {t}", "Failure: {t}", "FATAL: {t}", "err = {s}(\"{t}\")", "e: {s}: {t}", "> {t}",
    )  # fmt: skip
    return draw.pick(forms).format(s=short, t=text)


def _cut_short(text: str, draw: Draw) -> str:
    kept = max(60, int(len(text) * draw.rng.uniform(0.6, 0.95)))
    return text[:kept] + draw.pick(("...", "…", "", " [...]", "<truncated>"))


def _traceback(message: Message, draw: Draw) -> list[str]:
    frames: list[Frame] = []
    if draw.chance(0.45):
        frames += draw.pick(FRAMEWORKS)
    if draw.chance(0.4):
        frames += [call_frame(draw) for _ in range(draw.rng.randint(1, 2))]
    own = list(message.frames)
    keep = draw.rng.randint(0, len(own)) if own else 0
    frames += own[len(own) - keep :]
    return traceback_lines(user_frames(draw, draw.rng.randint(1, 3)), frames, message.exception, draw)


def _chain(paste: Paste, draw: Draw) -> None:
    """Add another exception, after the informative one more often than before it."""
    bridge = draw.pick(
        (
            "During handling of the above exception, another exception occurred:",
            "The above exception was the direct cause of the following exception:",
        )
    )
    other = draw.pick(OTHER_ERRORS)
    frames = traceback_lines(user_frames(draw, 1), (), other.split(":")[0], draw)
    if draw.chance(0.7):
        paste.after = ["", bridge, "", *frames, other]
    else:
        paste.before = [*frames, other, "", bridge, "", *paste.before]


def _remark(paste: Paste, draw: Draw, *, own_line: bool) -> None:
    """Glue a person's words on, on lines of their own or on the same line."""
    if draw.chance(0.24):
        lead = draw.pick(LEADS)
        if not own_line and not paste.before and draw.chance(0.5):
            paste.error[0] = f"{lead} {paste.error[0]}"
        else:
            paste.before = [lead, *([""] if draw.chance(0.3) else []), *paste.before]
    if draw.chance(0.2):
        tail = draw.pick(TAILS)
        if not paste.after and draw.chance(0.4):
            paste.error[-1] += draw.pick((" ", ". ", "  ", " - ")) + tail
        else:
            paste.after += [*([""] if draw.chance(0.3) else []), tail]


def _fit(paste: Paste, draw: Draw, num_characters: int, num_lines: int) -> None:
    """Cut as people cut: the top of the traceback, then what follows, then the end of a long message."""
    keep_top = draw.chance(0.3)
    while paste.num_characters() > num_characters or paste.num_lines() > num_lines:
        if len(paste.before) > 1 and (not paste.after or draw.chance(0.7)):
            del paste.before[1 if keep_top else 0]
        elif paste.after:
            del paste.after[-1]
        elif paste.before:
            del paste.before[0]
        elif len(paste.error) > 1:
            paste.error.pop()
        else:
            paste.error[0] = paste.error[0][:num_characters]
            return


def _disguised(paste: Paste, draw: Draw) -> str:
    """Return the text after what terminals, quoting and escaping do to it."""
    lines = paste.lines()
    if draw.chance(0.13):
        prefix = draw.pick(PREFIXES)
        constant = _filled(prefix, draw)
        lines = [constant + line for line in lines] if draw.chance(0.6) else [*lines[: len(paste.before)], constant + paste.error[0],
                                                                             *lines[len(paste.before) + 1 :]]  # fmt: skip
    if draw.chance(0.05):
        at = len(paste.before)
        lines[at] = draw.pick(_CODES) + lines[at].replace(": ", "\x1b[0m: ", 1) + draw.pick(("\x1b[0m", "", "[0m"))
    roll = draw.rng.random()
    if roll < 0.05:
        width = draw.rng.randint(50, 100)
        lines = [
            piece for line in lines for piece in (textwrap.wrap(line, width, break_long_words=draw.chance(0.3)) or [""])
        ]
    text = "\n".join(lines)
    if 0.05 <= roll < 0.10:
        text = " ".join(text.split())
    elif 0.10 <= roll < 0.13:
        text = html.escape(text).replace("\n", draw.pick(("<br>", "\n", "<br/>\n")))
    elif 0.13 <= roll < 0.16:
        text = json.dumps(text)
        text = (
            text
            if draw.chance(0.4)
            else draw.pick(('{{"error": {t}}}', '{{"level": "error", "msg": {t}}}', "{t},", '"traceback": {t}')).format(
                t=text
            )
        )
    elif 0.16 <= roll < 0.19:
        text = text.lower()
    elif 0.19 <= roll < 0.21:
        text = text.replace("'", draw.pick(("", "`", "’", '"')))
    return text


def _filled(template: str, draw: Draw) -> str:
    """Return a pool's line with its numbers filled in: {n} is a count, {d} a digit."""
    return template.replace("{n}", str(draw.rng.randint(1, 999))).replace("{d}", str(draw.rng.randint(0, 7)))
