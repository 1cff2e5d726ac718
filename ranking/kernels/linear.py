"""Scores of the linear model, with checked arguments."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ranking.kernels.contract import Csr, Features, Floats, LinearFamily, Rows
from ranking.kernels.validation import FLOATS, check_array, check_compressed, validate_threads


class LinearKernel:
    """Scores of the linear model."""

    def __init__(self, implementation: LinearFamily) -> None:
        self.implementation = implementation

    def scores(
        self, features: Features | sp.csr_array, weights: Floats, threads: int = 1
    ) -> Floats:
        """Return the dot product of each row with the weights."""
        check_array("weights", weights, ("float64",), (features.shape[1],))
        out = np.empty(features.shape[0])
        rows: Rows
        if isinstance(features, sp.csr_array):
            rows = Csr(features.indptr, features.indices, features.data)
            check_compressed(*rows, *features.shape)
        else:
            rows = features
            check_array("features", features, FLOATS, (None, None))
        self.implementation.linear_scores(rows, weights, out, validate_threads(threads))
        return out
