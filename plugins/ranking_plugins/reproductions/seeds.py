"""Values of several seeds: means with confidence intervals, and differences by seed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import stats

Values = dict[str, float]


def half_width(values: np.ndarray[Any, Any]) -> float:
    """Return half the width of Student's 95 % interval of a mean."""
    error = values.std(ddof=1) / np.sqrt(values.size)
    return float(stats.t.ppf(0.975, values.size - 1) * error)


def means(values: Sequence[Values]) -> Values:
    """Return the mean of each measure, and under its name with ± the half width."""
    result = {}
    for name in values[0]:
        of_seeds = np.array([value[name] for value in values])
        result[name] = float(of_seeds.mean())
        result[f"{name} ±"] = half_width(of_seeds)
    return result


def gains(new: Sequence[Values], old: Sequence[Values]) -> list[Values]:
    """Return the differences by seed."""
    return [
        {name: one[name] - other[name] for name in one} for one, other in zip(new, old, strict=True)
    ]
