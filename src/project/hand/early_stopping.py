"""Ends a run when validation stops improving: the rule that Lightning's EarlyStopping follows."""

from __future__ import annotations

import math

from project.checkpoint.config import EarlyStopping as EarlyStoppingConfig


class EarlyStopping:
    """Counts validations without improvement."""

    def __init__(self, config: EarlyStoppingConfig) -> None:
        self.config = config
        self.best_value = -math.inf if config.mode == "max" else math.inf
        self.num_without = 0
        """Validations since the best one."""
        self.stopped = False
        """Whether the run ends here."""

    def validated(self, value: float) -> None:
        """Take a validation's value of the watched metric; NaN and inf end the run."""
        self.stopped = self.config.patience is not None and self._ends(value)

    def is_too_long(self) -> bool:
        """Whether the best validation lies so far back that the run ends."""
        return self.config.patience is not None and self.num_without >= int(self.config.patience)

    def _ends(self, value: float) -> bool:
        if not math.isfinite(value):
            return True
        delta = self.config.min_delta
        better = value - delta > self.best_value if self.config.mode == "max" else value + delta < self.best_value
        if better:
            self.best_value, self.num_without = value, 0
            return False
        self.num_without += 1
        return self.is_too_long()
