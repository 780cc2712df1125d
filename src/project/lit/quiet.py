"""Leaves out what Lightning says of its own products and of things that are meant here."""

from __future__ import annotations

import logging
import warnings


def quieten() -> None:
    """In this process, from now on."""
    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.WARNING)
    for message in (
        ".*your dataloader is not resumable",  # the position is sought in the batch sampler
        ".*does not have many workers",  # rows are memory-mapped: a batch costs less than handing it over
        ".*recommended to use `self.log.*sync_dist=True",  # the counts behind the metrics are added up already
        ".*callbacks used to create the checkpoint need to be provided",  # an evaluation needs no BestAndLast
        ".*using a custom batch sampler `OrderedBatches` for prediction",  # it returns every row once
        ".*is smaller than the logging interval",  # the last step is logged in any case
        ".*WeightAveraging callback with a model that overrides",  # only fsdp2 shards layers there
        ".*LeafSpec.* is deprecated",  # Lightning 2.6.6 on torch 2.13
        ".*FSDP2-wrapped module .* returned a view tensor",  # into which nothing is written
    ):
        warnings.filterwarnings("ignore", message=message)
