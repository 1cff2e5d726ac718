"""The bootstrap: how far a mean over queries might lie from that over other queries."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ranking.kernels.kernel import Kernel
from ranking.kernels.select import get_kernel

RESAMPLES = 2000
SEED = 0
LEVEL = 0.95
CHUNK = 1 << 22
"""How many values are drawn at once; the draws do not depend on it."""


class Interval(NamedTuple):
    """From low to high."""

    low: float
    high: float


def bootstrap_interval(
    values: NDArray[np.float64], kernel: str | Kernel | None = "auto"
) -> Interval:
    """Return the 95 % percentile interval of the mean over queries.

    Queries are drawn with replacement, `RESAMPLES` times as many as there are; resample b takes
    the draws b n, ..., (b + 1) n - 1 of SplitMix64 with the seed `SEED`. The same values give the
    same interval everywhere.

    Parameters
    ----------
    values : array
        One a query; NaN marks a skipped query.
    kernel : str or Kernel
        Who draws.
    """
    kept = values[~np.isnan(values)]
    if kept.size == 0:
        return Interval(float("nan"), float("nan"))
    draw = get_kernel(kernel).random.below
    means = np.empty(RESAMPLES)
    step = max(1, CHUNK // kept.size)
    for start in range(0, RESAMPLES, step):
        count = min(step, RESAMPLES - start)
        drawn = draw(SEED, start * kept.size, count * kept.size, kept.size)
        means[start : start + count] = kept[drawn.reshape(count, kept.size)].mean(axis=1)
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(float(low), float(high))
