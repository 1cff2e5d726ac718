"""Schedules of the learning rate; steps count from 1."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SCHEDULES: dict[str, Callable[[Floats], Floats]] = {
    "inverse-sqrt": lambda t: 1.0 / np.sqrt(t),
    "constant": np.ones_like,
    "inverse": lambda t: 1.0 / t,
}
"""The learning rate of step t for C = 1."""


def learning_rates(schedule: str, constant: float, first: int, count: int) -> Floats:
    """Return the learning rates C * schedule(t) of the steps t = first, first + 1, ..."""
    return constant * SCHEDULES[schedule](np.arange(first, first + count, dtype=np.float64))
