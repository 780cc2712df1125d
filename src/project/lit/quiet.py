"""Silences Lightning's advertisements, and warnings about what this project does on purpose."""

from __future__ import annotations

import logging
import warnings


def quieten() -> None:
    """Silence them in this process."""
    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.WARNING)
    for message in (
        ".*your dataloader is not resumable",  # the batch sampler seeks the position
        ".*does not have many workers",  # rows are memory-mapped: workers would be slower
        ".*recommended to use `self.log.*sync_dist=True",  # the counts are summed over ranks already
        ".*callbacks used to create the checkpoint need to be provided",  # an evaluation needs no BestAndLast
        ".*using a custom batch sampler `OrderedBatches` for prediction",  # it yields every row once
        ".*is smaller than the logging interval",  # the last step is always logged
        ".*WeightAveraging callback with a model that overrides",  # configure_model shards nothing but under fsdp2
        ".*LeafSpec.* is deprecated",  # Lightning 2.6.6 on torch 2.13
        ".*FSDP2-wrapped module .* returned a view tensor",  # nothing writes into logits
    ):
        warnings.filterwarnings("ignore", message=message)
