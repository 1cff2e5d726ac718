"""Paired tests of two systems over the same queries, and the correction for many of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

from ranking.kernels.kernel import Kernel
from ranking.kernels.select import get_kernel
from ranking.metrics.bootstrap import CHUNK, SEED

EXACT = 15
"""Largest number of queries for which all 2**n signs are tried."""

FLIPS = 10_000
TOLERANCE = 1e-12
"""Share of the sum of absolute differences within which two sums are equal but for rounding."""

Floats = NDArray[np.float64]


def randomisation_test(differences: Floats, kernel: str | Kernel | None = "auto") -> float:
    """Return the two-sided p-value of a paired randomisation test of the mean difference.

    Under the null hypothesis, the difference of each query has either sign with equal probability.
    The p-value is the share of signs that give a mean at least as far from 0. Up to `EXACT` queries
    all signs are tried; beyond, `FLIPS` are sampled by SplitMix64 with the seed 0, and the observed
    ones are counted among them, so that p is never 0. Query i of sample b takes bit i % 64 of word
    b w + i // 64, where w is the number of words that n queries need.

    Parameters
    ----------
    differences : array
        One per query, without NaN.
    kernel : str or Kernel
        Generates the random numbers.
    """
    n = differences.size
    if n == 0:
        return float("nan")
    enough = abs(differences.sum()) - TOLERANCE * np.abs(differences).sum()
    exact = n <= EXACT
    words = 1 if exact else -(-n // 64)
    total = 2**n if exact else FLIPS
    sample = get_kernel(kernel).random.bits
    step = max(1, CHUNK // n)
    extreme = 0
    for start in range(0, total, step):
        count = min(step, total - start)
        if exact:
            signs = np.arange(start, start + count, dtype=np.uint64)
        else:
            signs = sample(SEED, start * words, count * words)
        bits = signs.reshape(count, words, 1) >> np.arange(64, dtype=np.uint64) & np.uint64(1)
        flipped = bits.reshape(count, words * 64)[:, :n].astype(np.bool_)
        sums = np.where(flipped, -differences, differences).sum(axis=1)
        extreme += int(np.count_nonzero(np.abs(sums) >= enough))
    return extreme / total if exact else (extreme + 1) / (total + 1)


def t_test(differences: Floats) -> float:
    """Return the two-sided p-value of the paired t-test; NaN for fewer than two queries.

    Differences that are all the same have no variance: p is 1 if they are 0, else 0.
    """
    n = differences.size
    if n < 2:
        return float("nan")
    mean = float(differences.mean())
    deviation = float(differences.std(ddof=1))
    if deviation == 0.0:
        return 1.0 if mean == 0.0 else 0.0
    return float(2.0 * stdtr(n - 1, -abs(mean) / (deviation / math.sqrt(n))))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values corrected by Holm's method; NaN is left out.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    adjusted = [float("nan")] * len(p_values)
    tested = sorted((p, at) for at, p in enumerate(p_values) if not math.isnan(p))
    largest = 0.0
    for rank, (p, at) in enumerate(tested):
        largest = max(largest, min(1.0, p * (len(tested) - rank)))
        adjusted[at] = largest
    return adjusted
