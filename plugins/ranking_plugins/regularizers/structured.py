"""Penalties that couple the weights of several features: dense arrays, and common helpers."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ranking.contracts.regularizer import Array, StructuredPenalty, SupportsStructure


def dense_penalty(regularizer: SupportsStructure, parameters: Array) -> float:
    """Return the penalty of an array whose rows and columns are features 0, 1, ..."""
    return _of_shape(regularizer, parameters).penalty(_matrix(parameters))


def dense_prox(regularizer: SupportsStructure, parameters: Array, step: float) -> Array:
    """Return the prox of an array whose rows and columns are features 0, 1, ..."""
    result = _of_shape(regularizer, parameters).prox(_matrix(parameters), step).toarray()
    return np.asarray(result, np.float64).reshape(parameters.shape)


def _matrix(parameters: Array) -> sp.csr_array:
    return sp.csr_array(np.atleast_2d(parameters))


def _of_shape(regularizer: SupportsStructure, parameters: Array) -> StructuredPenalty:
    columns = np.arange(parameters.shape[-1])
    rows = np.arange(parameters.shape[0]) if parameters.ndim == 2 else None
    return regularizer.structure(rows, columns)
