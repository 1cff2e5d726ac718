"""Gains and discounts of NDCG, for losses that approximate it."""

from __future__ import annotations

import numpy as np

from ranking.contracts.loss import Array


def gains(grades: Array) -> Array:
    """Return 2**grade - 1, and 0 for grades below 0."""
    powers: Array = np.exp2(np.maximum(np.asarray(grades, np.float64), 0.0))
    return powers - 1.0


def discounts(n: int, k: int) -> Array:
    """Return 1 / log2(1 + rank) for ranks from 1 to n, and 0 beyond k unless k is 0."""
    values: Array = 1.0 / np.log2(np.arange(2.0, n + 2.0))
    if k:
        values[k:] = 0.0
    return values


def normalized_gains(grades: Array, k: int = 0) -> Array:
    """Return the gains divided by the DCG of the ideal order; 0 if that is 0."""
    raw = gains(grades)
    ideal = float((np.sort(raw)[::-1] * discounts(raw.size, k)).sum())
    return raw / ideal if ideal > 0.0 else np.zeros(raw.size)


def pessimistic_discounts(scores: Array, grades: Array, k: int = 0) -> Array:
    """Return the discount of each document at its rank.

    Of equal scores, lower grades come first, so that ties count as errors; documents of the same
    score and grade share their discounts equally.
    """
    order = np.lexsort((grades, -scores))
    values = discounts(scores.size, k)
    new = np.ones(scores.size, dtype=bool)
    new[1:] = (np.diff(scores[order]) != 0.0) | (np.diff(grades[order]) != 0.0)
    starts = np.flatnonzero(new)
    sizes = np.diff(np.append(starts, scores.size))
    shared = np.empty(scores.size)
    shared[order] = np.repeat(np.add.reduceat(values, starts) / sizes, sizes)
    return shared
