"""Options that a strategy does not know are refused by name, all of them at once."""

from __future__ import annotations

import pytest

from project.errors import UserError
from project.ranks.config import Distributed


def test_what_a_strategy_knows_is_accepted() -> None:
    Distributed().check("auto", 3)
    Distributed(static_graph=True, gradient_as_bucket_view=True).check("ddp_spawn", 1)
    Distributed(reduce_once_per_window=True).check("fsdp2", 3)


@pytest.mark.parametrize(
    ("options", "strategy", "keys"),
    [
        (Distributed(static_graph=True), "ddp", ["static_graph"]),
        (
            Distributed(static_graph=True, gradient_as_bucket_view=True),
            "fsdp2",
            ["static_graph", "static_graph", "gradient_as_bucket_view"],
        ),
        (Distributed(reduce_once_per_window=True), "ddp", ["reduce_once_per_window"]),
    ],
)
def test_what_it_does_not_know_is_refused(options: Distributed, strategy: str, keys: list[str]) -> None:
    with pytest.raises(UserError) as refused:
        options.check(strategy, accumulate_grad_batches=3)
    assert [line.split(":")[0] for line in str(refused.value).splitlines()] == [f"distributed.{key}" for key in keys]
