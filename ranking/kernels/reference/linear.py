"""Reference of the linear family."""

from __future__ import annotations

import numpy as np

from ranking.kernels.contract import Floats, Rows
from ranking.kernels.reference.random import dot


def linear_scores(features: Rows, weights: Floats, out: Floats, threads: int) -> None:
    """Compute one dot product per row: in lanes if dense, in stored order if sparse."""
    for row in range(out.size):
        if isinstance(features, np.ndarray):
            out[row] = dot(features[row].astype(np.float64), weights)
            continue
        total = 0.0
        for at in range(features.indptr[row], features.indptr[row + 1]):
            total += float(features.data[at]) * float(weights[features.indices[at]])
        out[row] = total
