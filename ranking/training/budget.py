"""How long to search: seconds, or a number of trainings."""

from __future__ import annotations

import dataclasses
import re
import time
from typing import ClassVar, Self

from ranking.contracts.callback import Callback, TrainingRun
from ranking.contracts.solver import EpochResult
from ranking.errors import PartError

UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


@dataclasses.dataclass(frozen=True)
class Budget:
    """How long to search, such as ``60s`` or ``40trials``.

    Attributes
    ----------
    seconds : float or None
        No training begins after these, and one that runs ends with its epoch.
    trials : int or None
        The number of trainings.

    Examples
    --------
    >>> Budget.parse("60s")
    Budget(seconds=60.0, trials=None)
    >>> str(Budget.parse("40trials"))
    '40trials'
    """

    seconds: float | None = None
    trials: int | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``60s``, ``5m``, ``2h`` or ``40trials``."""
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|m|h|trials?)", text.strip())
        value = float(match[1]) if match else 0.0
        if match is None or value <= 0.0:
            raise PartError(f"the budget is {text!r}; write 60s, 5m, 2h or 40trials.")
        if match[2] in UNITS:
            return cls(seconds=value * UNITS[match[2]])
        if value != int(value):
            raise PartError(f"the budget is {text!r}; write a whole number of trials.")
        return cls(trials=int(value))

    def __str__(self) -> str:
        return f"{self.seconds:g}s" if self.trials is None else f"{self.trials}trials"

    def start(self) -> RunningBudget:
        """Begin to count, in processor time, so that other programs do not matter."""
        return RunningBudget(self, time.process_time())


@dataclasses.dataclass
class RunningBudget:
    """A budget that is being used."""

    budget: Budget
    started: float
    trials: int = 0

    @property
    def is_spent(self) -> bool:
        """Whether no training may begin."""
        if self.budget.trials is not None:
            return self.trials >= self.budget.trials
        return self.is_late

    @property
    def is_late(self) -> bool:
        """Whether the time is over."""
        seconds = self.budget.seconds
        return seconds is not None and time.process_time() - self.started >= seconds


@dataclasses.dataclass
class Deadline(Callback):
    """Stop a training at the end of the epoch in which its budget is used up."""

    name: ClassVar[str] = "budget"

    running: RunningBudget | None = None

    def on_epoch_end(self, run: TrainingRun, result: EpochResult) -> bool:
        """Return whether to stop."""
        return self.running is not None and self.running.is_late
