"""The ways a traceback is printed: by Python, by a notebook, by pytest, by a debugger, cut to its last entries."""
# ruff: noqa: E501  (running text and pools are kept on long lines)

from __future__ import annotations

from collections.abc import Sequence

from corpus.message import Frame
from corpus.stacks import SOURCES, Draw, site_prefix

HEADER = "Traceback (most recent call last):"
RULE = "-" * 75


def installed(frame: Frame, prefix: str) -> Frame:
    """Return `frame` with its file under the packages folder `prefix`; a user's file is left alone."""
    windows = prefix.endswith("\\")
    if frame.file.startswith("{lib}"):
        file = (
            prefix.replace("site-packages", "").replace("dist-packages", "").rstrip("/\\") + frame.file[len("{lib}") :]
        )
    else:
        file = prefix + frame.file
    return Frame(file.replace("/", "\\") if windows else file, frame.line, frame.function, frame.source)


def jittered(frame: Frame, draw: Draw) -> Frame:
    """Return `frame` at a line of some other version of the library, most of the time."""
    line = frame.line if draw.chance(0.3) else max(1, int(frame.line * draw.rng.uniform(0.4, 1.15)))
    return Frame(frame.file, line, frame.function, frame.source)


def python_lines(frames: Sequence[Frame], draw: Draw) -> list[str]:
    """Return the entries as Python prints them, two or three lines each."""
    markers = draw.chance(0.2)
    indented = not draw.chance(0.08)
    lines = []
    for frame in frames:
        lines.append(f'  File "{frame.file}", line {frame.line}, in {frame.function}')
        if not draw.chance(0.06):
            lines.append(f"    {frame.source}")
            if markers:
                width = min(len(frame.source), 60)
                start = draw.rng.randint(0, width // 3)
                marked = max(3, width - start)
                tildes = draw.rng.randint(0, marked - 2) if draw.chance(0.4) else 0
                lines.append("    " + " " * start + "~" * tildes + "^" * (marked - tildes))
    return lines if indented else [line.strip() for line in lines]


def notebook_lines(frames: Sequence[Frame], draw: Draw) -> list[str]:
    """Return the entries as IPython prints them, with an arrow at the line and numbered neighbours."""
    lines: list[str] = []
    execution = draw.rng.randint(1, 120)
    style = draw.rng.randrange(4)
    for place, frame in enumerate(frames):
        if lines:
            lines.append("")
        digest = f"{draw.rng.getrandbits(48):012x}"
        if place == 0:
            lines.append(
                (
                    f"<ipython-input-{execution}-{digest}> in {_call(frame.function)}",
                    f"Cell In[{execution}], line {frame.line % 40 + 1}",
                    f"/tmp/ipykernel_{draw.rng.randint(20, 9999)}/{draw.rng.getrandbits(31)}.py in {_call(frame.function)}",
                    f"Input In [{execution}], in <cell line: {frame.line % 40 + 1}>()",
                )[style]
            )
        else:
            lines.append(
                f"File {frame.file}:{frame.line}, in {frame.function}(self, input)"
                if style in (1, 3)
                else f"{frame.file} in {frame.function}({draw.pick(('self, input', 'self, *input, **kwargs', 'x', 'self'))})"
            )
        number = frame.line % 40 + 1 if place == 0 else frame.line
        before = draw.rng.randint(0, 2)
        lines += [f"{n:>7} {_neighbour(draw)}" for n in range(max(1, number - before), number)]
        lines.append(f"{'-' * draw.rng.randint(2, 4)}> {number}     {frame.source}")
        lines += [f"{n:>7} {_neighbour(draw)}" for n in range(number + 1, number + 1 + draw.rng.randint(0, 2))]
    return lines


def pytest_lines(frames: Sequence[Frame], draw: Draw) -> list[str]:
    """Return the innermost entry as pytest shows it."""
    frame = frames[-1]
    return [
        f">       {frame.source}",
        "",
        f"{frame.file}:{frame.line}: " + draw.pick(("RuntimeError", "in forward", "Error")),
    ]


def short_lines(frames: Sequence[Frame], draw: Draw) -> list[str]:
    """Return the entries as people retype them: one line each."""
    style = draw.rng.randrange(4)
    return [
        (
            f"{frame.file}:{frame.line}: in {frame.function}",
            f"in {frame.function}, line {frame.line}: {frame.source}",
            f'File "{frame.file}", line {frame.line}, in {frame.function} {frame.source}',
            f"{frame.file}({frame.line}){frame.function}()",
        )[style]
        for frame in frames
    ]


def traceback_lines(user: Sequence[Frame], library: Sequence[Frame], exception: str, draw: Draw) -> list[str]:
    """Return the whole traceback in some layout: invented frames first, the library's after them."""
    prefix = site_prefix(draw)
    frames = [*user, *(installed(jittered(frame, draw), prefix) for frame in library)]
    layout = draw.rng.random()
    if layout < 0.62:
        return ([HEADER] if draw.chance(0.85) else []) + python_lines(frames, draw)
    if layout < 0.87:
        name = exception or "RuntimeError"
        header = [RULE, f"{name:<42}Traceback (most recent call last)"] if draw.chance(0.8) else []
        return header + notebook_lines(frames, draw)
    if layout < 0.94:
        return short_lines(frames, draw)
    return pytest_lines(frames, draw)


def _call(function: str) -> str:
    return function if function == "<module>" else f"{function}()"


def _neighbour(draw: Draw) -> str:
    return "" if draw.chance(0.25) else "    " + draw.pick(SOURCES)
