"""Ends a run when validation stops improving: the rule that Lightning's EarlyStopping follows."""

from __future__ import annotations

import math

from project.config import EarlyStopping as EarlyStoppingConfig


class EarlyStopping:
    """Counts validations without improvement."""

    def __init__(self, config: EarlyStoppingConfig) -> None:
        self.config = config
        self.best_value = -math.inf if config.mode == "max" else math.inf
        self.num_without = 0
        """Validations since the best one."""

    def should_stop(self, value: float) -> bool:
        """Take a validation's value of the watched metric; whether the run ends here (it does on NaN and inf)."""
        if self.config.patience is None:
            return False
        if not math.isfinite(value):
            return True
        delta = self.config.min_delta
        better = value - delta > self.best_value if self.config.mode == "max" else value + delta < self.best_value
        if better:
            self.best_value, self.num_without = value, 0
            return False
        self.num_without += 1
        return self.num_without >= int(self.config.patience)
