"""Early stopping for both twins, by the rule of Lightning's EarlyStopping."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from project.checkpoint.config import EarlyStopping as EarlyStoppingConfig


class EarlyStopping:
    """Counts validations without improvement; stops the run after `patience` of them."""

    def __init__(self, config: EarlyStoppingConfig) -> None:
        self.config = config
        self.best_value = -math.inf if config.mode == "max" else math.inf
        self.num_without = 0
        """Validations since the best one."""
        self.should_stop = False
        """Whether the run ends after this validation."""

    def validated(self, metrics: Mapping[str, float]) -> None:
        """Look at the metrics of a validation. A value that is not finite stops the run."""
        if self.config.patience is None:
            return
        value, delta = metrics[self.config.monitor], self.config.min_delta
        better = value - delta > self.best_value if self.config.mode == "max" else value + delta < self.best_value
        if not math.isfinite(value):
            self.should_stop = True
        elif better:
            self.best_value, self.num_without = value, 0
        else:
            self.num_without += 1
            self.should_stop = self.num_without >= int(self.config.patience)

    def state_dict(self) -> dict[str, Any]:
        """The state for a checkpoint."""
        return {"best_value": self.best_value, "num_without": self.num_without, "stopped": self.should_stop}

    def load_state_dict(self, state: Mapping[str, Any], metrics: Mapping[str, float]) -> None:
        """Restore the state and look at the last metrics. With a larger patience, a stopped run continues."""
        self.best_value, self.num_without = state["best_value"], state["num_without"]
        value, patience = metrics.get(self.config.monitor, 0.0), self.config.patience
        is_over = patience is not None and (self.num_without >= int(patience) or not math.isfinite(value))
        self.should_stop = bool(state["stopped"]) and is_over
