"""How the main process retells what a loader's worker died of: "Caught … in DataLoader worker process 0."."""

from __future__ import annotations

import random

_SITES = (
    "/usr/local/lib/python3.6/dist-packages",
    "/usr/local/lib/python3.10/dist-packages",
    "/opt/conda/lib/python3.7/site-packages",
    "/home/user/anaconda3/envs/torch/lib/python3.8/site-packages",
    "/home/user/.local/lib/python3.9/site-packages",
    "C:\\Users\\user\\anaconda3\\lib\\site-packages",
    "/venv/lib/python3.11/site-packages",
)
_RELEASES = ((178, 44), (185, 47), (198, 47), (202, 47), (287, 52), (302, 52), (308, 54), (309, 55), (349, 55))


def retold(rng: random.Random, exception: str, text: str, calls: tuple[tuple[str, int, str, str], ...]) -> str:
    """Return the text of the wrapped error; `calls` are the frames below the fetcher: file, line, function, source."""
    site = rng.choice(_SITES)
    bar = "\\" if "\\" in site else "/"
    worker, fetch = rng.choice(_RELEASES)
    utils = bar.join((site, "torch", "utils", "data", "_utils"))
    lines = [
        f"Caught {exception} in DataLoader worker process {rng.randint(0, 7)}.",
        "Original Traceback (most recent call last):",
        f'  File "{utils}{bar}worker.py", line {worker}, in _worker_loop',
        "    data = fetcher.fetch(index)",
        f'  File "{utils}{bar}fetch.py", line {fetch}, in fetch',
    ]
    for file, line, function, source in calls:
        place = file.replace("@", utils).replace("/", bar) if file.startswith("@") else file
        lines += [f'  File "{place}", line {line}, in {function}', f"    {source}"]
    return "\n".join([*lines, f"{exception}: {text}", ""])
