"""Bootstrap confidence intervals of means over queries."""

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
"""Values that are sampled at a time; the samples do not depend on it."""


class Interval(NamedTuple):
    """A confidence interval."""

    low: float
    high: float


def bootstrap_interval(
    values: NDArray[np.float64], kernel: str | Kernel | None = "auto"
) -> Interval:
    """Return the 95 % percentile interval of the mean over queries.

    Queries are sampled with replacement, `RESAMPLES` times; resample b takes the random numbers
    b n, ..., (b + 1) n - 1 of SplitMix64 with the seed `SEED`. The same values give the
    same interval everywhere.

    Parameters
    ----------
    values : array
        One per query; NaN for a query that is left out.
    kernel : str or Kernel
        Generates the random numbers.
    """
    counted = values[~np.isnan(values)]
    if counted.size == 0:
        return Interval(float("nan"), float("nan"))
    sample = get_kernel(kernel).random.below
    means = np.empty(RESAMPLES)
    step = max(1, CHUNK // counted.size)
    for start in range(0, RESAMPLES, step):
        count = min(step, RESAMPLES - start)
        positions = sample(SEED, start * counted.size, count * counted.size, counted.size)
        means[start : start + count] = counted[positions.reshape(count, counted.size)].mean(axis=1)
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(float(low), float(high))
