"""A training loop in plain PyTorch, on one page; `python scripts/textbook.py` trains a small network with it."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn, optim
from torch.nn.utils.rnn import pad_sequence


def train(
    network: nn.Module,
    optimizer: optim.Optimizer,
    scheduler: optim.lr_scheduler.LRScheduler,
    epochs: Iterable[Sequence[tuple[Tensor, ...]]],  # of batches: what the network is called with, then labels (B,)
    dtype: torch.dtype = torch.float32,  # of the forward pass; bfloat16 and float16 are mixed with float32
    accumulate: int = 1,  # batches per optimizer step; an epoch's last step takes what is left
    clip: float = float("inf"),  # largest norm of a step's gradients
) -> None:
    """Train in place. Lines 1 to 9 stand in every loop; the others are for half precision, accumulation, schedule."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    device = parameters[0].device
    scaler = torch.amp.GradScaler(device.type, enabled=dtype == torch.float16)  # disabled, it does nothing
    for epoch in epochs:
        network.train()  # 1
        for window in (epoch[first : first + accumulate] for first in range(0, len(epoch), accumulate)):
            optimizer.zero_grad()  # 2
            for batch in window:  # 3
                *inputs, labels = (tensor.to(device) for tensor in batch)  # 4
                with torch.autocast(device.type, dtype, enabled=dtype != torch.float32, cache_enabled=False):
                    logits = network(*inputs)  # 5
                    loss = nn.functional.cross_entropy(logits.float(), labels, reduction="sum")  # 6
                scaler.scale(loss).backward()  # 7: adds to the gradients of the window so far
            scaler.unscale_(optimizer)
            for gradient in [parameter.grad for parameter in parameters if parameter.grad is not None]:
                gradient /= sum(len(labels) for *_, labels in window)  # a sum over examples becomes their mean
            nn.utils.clip_grad_norm_(parameters, clip)  # 8
            scale = scaler.get_scale()
            scaler.step(optimizer)  # 9: left out where a gradient overflowed
            scaler.update()
            if scaler.get_scale() >= scale:  # an overflow lowers the scale, and the schedule waits
                scheduler.step()
        print(f"loss of the epoch's last batch: {loss.item() / len(labels):.3f}")


if __name__ == "__main__":
    file = Path(__file__).parents[1] / "data" / "errors" / "train.jsonl"
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()[:600]]
    ids: dict[str, int] = {}  # from 1; 0 fills short texts up
    texts = [torch.tensor([ids.setdefault(word, len(ids) + 1) for word in row["text"].split()]) for row in rows]
    causes = sorted({row["label"] for row in rows})
    targets = torch.tensor([causes.index(row["label"]) for row in rows])
    orders = [torch.split(torch.randperm(len(rows)), 20) for _ in range(6)]
    epochs = [[(pad_sequence([texts[i] for i in part], True), targets[part]) for part in order] for order in orders]
    network = nn.Sequential(nn.EmbeddingBag(len(ids) + 1, 64, padding_idx=0), nn.Linear(64, len(causes)))
    optimizer = optim.AdamW(network.parameters(), lr=0.01)
    scheduler = optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.01, total_steps=6 * 15)
    train(network, optimizer, scheduler, epochs, torch.bfloat16, accumulate=2, clip=1.0)
# mypy: disable-error-code="no-untyped-call"
