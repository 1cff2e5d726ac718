"""Prune item-item weights to a density: the largest ones stay."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse


def pruned(weights: Any, density: float) -> Any:
    """Return the largest absolute weights, at most a share `density` of all pairs of items.

    Of equal weights at the threshold, the first in stored order stay.

    Parameters
    ----------
    weights : csr_array
    """
    rows, columns = weights.shape
    most = int(density * rows * columns)
    if weights.nnz <= most:
        return weights
    sizes = np.abs(weights.data)
    least = np.partition(sizes, -most)[-most] if most else np.inf
    keep = sizes > least
    ties = np.flatnonzero(sizes == least)[: most - int(keep.sum())]
    keep[ties] = True
    indptr = np.concatenate(([0], np.cumsum(keep)))[weights.indptr]
    parts = (weights.data[keep], weights.indices[keep], indptr)
    return sparse.csr_array(parts, shape=weights.shape)
