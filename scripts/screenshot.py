"""Draws docs/tensorboard.png: TensorBoard's page with the curves of both twins, which lie on top of each other.

    python scripts/screenshot.py

Needs chromium. Both twins train on the bundled validation rows, which takes some two minutes. The table below each
chart then lists both runs with their last values.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import quote
from urllib.request import urlopen

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "tensorboard.png"
WIDTH, HEIGHT = 1400, 700
TAGS = "^(train/loss|val/loss|val/accuracy)$"
NUM_CHARTS = "document.querySelectorAll('line-chart').length"
SETTINGS = "[...document.querySelectorAll('button')].find(button => button.innerText.includes('Settings'))"
OPTIONS = [
    f"--config={ROOT / 'configs' / 'default.yaml'}",
    f"--data.train_file={ROOT / 'data' / 'errors' / 'val.jsonl'}",
    f"--data.val_file={ROOT / 'data' / 'errors' / 'test.jsonl'}",
    "--trainer.accelerator=cpu",
    "--trainer.log_every_n_steps=1",
]


class Browser:
    """Headless chromium, told what to do through a pair of pipes: one JSON object each way, ended by NUL."""

    def __init__(self, read: int, write: int) -> None:
        self.read, self.write = os.fdopen(read, "rb"), os.fdopen(write, "wb")
        self.number, self.session = 0, None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method of the DevTools protocol, and wait for its result."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session is not None:
            message["sessionId"] = self.session
        self.write.write(json.dumps(message).encode() + b"\0")
        self.write.flush()
        while True:
            answer = json.loads(self._message())
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                result: dict[str, Any] = answer["result"]
                return result

    def value(self, expression: str) -> Any:
        """The value of a JavaScript expression on the page."""
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def _message(self) -> bytes:
        found = bytearray()
        while (byte := self.read.read(1)) != b"\0":
            if not byte:
                raise RuntimeError("chromium has ended")
            found += byte
        return bytes(found)


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """Start chromium with an empty profile; it ends with the block."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        raise SystemExit("error: no chromium; on Debian: apt install chromium")
    its_read, our_write = os.pipe()
    our_read, its_write = os.pipe()
    flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--remote-debugging-pipe",  # which it expects at the descriptors 3 and 4
        f"--user-data-dir={profile}",
        f"--window-size={WIDTH},{HEIGHT}",
    ]
    script = f'exec "$@" 3<&{its_read} 4>&{its_write}'
    process = subprocess.Popen(
        ["bash", "-c", script, "bash", chromium, *flags], pass_fds=(its_read, its_write), stderr=subprocess.DEVNULL
    )
    os.close(its_read)
    os.close(its_write)
    try:
        yield Browser(our_read, our_write)
    finally:
        process.terminate()
        process.wait()


@contextmanager
def tensorboard(runs: Path) -> Iterator[str]:
    """Serve these runs on this machine alone; gives the address."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "tensorboard.main", f"--logdir={runs}", "--host=localhost", f"--port={port}"]
    process = subprocess.Popen([*command, "--load_fast=false"], stderr=subprocess.DEVNULL)
    try:
        address = f"http://localhost:{port}"
        wait_for(lambda: len(scalars(address)) == 2)
        yield address
    finally:
        process.terminate()
        process.wait()


def scalars(address: str) -> dict[str, Any]:
    """TensorBoard's scalars by run; none while it is still reading."""
    try:
        with urlopen(f"{address}/data/plugin/scalars/tags") as answer:
            found: dict[str, Any] = json.load(answer)
            return found
    except (URLError, ConnectionError):
        return {}


def wait_for(condition: Any, seconds: float = 60) -> None:
    """Wait until the condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise SystemExit(f"error: nothing came within {seconds:.0f} seconds")
        time.sleep(0.2)


def draw(address: str, profile: Path) -> bytes:
    """The page as a PNG, once its three charts are drawn."""
    with browser(profile) as page:
        page.call("Page.navigate", url=f"{address}/?tagFilter={quote(TAGS, safe='')}&smoothing=0#timeseries")
        wait_for(lambda: page.value(NUM_CHARTS) == 3)
        page.value(f"{SETTINGS}.click()")  # they stand open, and take the room of a chart
        time.sleep(5)  # the curves move into place
        return base64.b64decode(page.call("Page.captureScreenshot", format="png")["data"])


def main() -> int:
    """Train, serve, draw."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for command, run in (("hand", "hand"), ("fit", "lightning")):
            own = [f"--trainer.default_root_dir={folder / 'runs'}", f"--name={run}"]
            subprocess.run([sys.executable, "-m", "project", command, *OPTIONS, *own], check=True)
        with tensorboard(folder / "runs") as address:
            PICTURE.write_bytes(draw(address, folder / "profile"))
    print(f"{PICTURE}: {PICTURE.stat().st_size / 1000:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
