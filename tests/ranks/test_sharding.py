"""Sharded weights and optimizer state become whole ones, and sharded again, on two ranks that are forked here."""

from __future__ import annotations

import multiprocessing
import traceback
from multiprocessing.queues import SimpleQueue
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from project.ranks.sharding import class_of, full_tensors, sharded_state, sharded_weights

FORKS = multiprocessing.get_context("fork")


class Network(nn.Module):
    """Five rows, which two ranks share as three and two, and a buffer, which is not sharded."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.linear = nn.Linear(4, 5)
        self.register_buffer("calls", torch.tensor(7))

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.linear(x)
        return found


def trained(network: nn.Module) -> torch.optim.Optimizer:
    optimizer = torch.optim.AdamW(network.parameters(), lr=0.1)
    torch.autograd.backward(network(torch.ones(2, 4)).sum())
    optimizer.step()
    return optimizer


def check(rank: int, store: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    alone, network = Network(), Network()
    optimizer_alone = trained(alone)
    fully_shard(network, mesh=init_device_mesh("cpu", (2,)))
    optimizer = trained(network)
    assert class_of(network) is class_of(alone) is Network

    whole = full_tensors(network.state_dict())
    assert whole.keys() == alone.state_dict().keys()
    for name, tensor in alone.state_dict().items():
        assert torch.equal(whole[name], tensor), name
    assert torch.equal(full_tensors([1, (network.linear.weight,)])[1][0], alone.linear.weight)
    state = full_tensors(optimizer.state_dict())
    for index, entry in optimizer_alone.state_dict()["state"].items():
        for name, tensor in entry.items():
            assert torch.equal(state["state"][index][name], tensor), (index, name)

    other = Network()
    fully_shard(other, mesh=init_device_mesh("cpu", (2,)))
    other.load_state_dict(sharded_weights({name: 2 * tensor for name, tensor in whole.items()}, other))
    weight: Tensor = other.linear.weight
    assert isinstance(weight, DTensor)
    assert weight.to_local().shape == ((3, 4), (2, 4))[rank]
    for name, tensor in full_tensors(other.state_dict()).items():
        assert torch.equal(tensor, 2 * whole[name]), name
    other_optimizer = torch.optim.AdamW(other.parameters(), lr=0.1)
    other_optimizer.load_state_dict(sharded_state(state, other_optimizer))
    moments = other_optimizer.state[other.linear.weight]["exp_avg"]
    assert isinstance(moments, DTensor)
    assert torch.equal(moments.full_tensor(), state["state"][0]["exp_avg"])
    dist.destroy_process_group()


def checked(rank: int, store: Path, said: SimpleQueue[str]) -> None:
    try:
        check(rank, store)
        said.put("")
    except BaseException:
        said.put(traceback.format_exc())


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")  # of a fork, from Python 3.12 on
def test_two_ranks_make_whole_tensors_and_share_them_out_again(tmp_path: Path) -> None:
    said: SimpleQueue[str] = FORKS.SimpleQueue()
    ranks = [FORKS.Process(target=checked, args=(rank, tmp_path / "store", said)) for rank in range(2)]
    for process in ranks:
        process.start()
    found = [said.get() for _ in ranks]
    for process in ranks:
        process.join()
    assert found == ["", ""], "\n".join(found)
