"""The soft threshold, which penalties of absolute values share."""

import numpy as np

from ranking.contracts.regularizer import Array


def soft(values: Array, threshold: float | Array) -> Array:
    """Move everything towards 0 by the threshold; what is not larger becomes 0."""
    shrunk = np.abs(values) - threshold
    return np.where(shrunk > 0.0, np.copysign(shrunk, values), 0.0)
