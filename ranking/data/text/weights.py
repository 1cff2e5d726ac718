"""Weights of terms: term frequency, inverse document frequency, length normalisation.

All functions are in float64. Logarithms are natural.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Floats = NDArray[np.float64]

SLOPE: Final = 0.3
"""Slope of the pivoted length normalisation, as published."""


def sublinear(counts: Floats) -> Floats:
    """Return 1 + log c."""
    return 1.0 + np.log(counts)


def smooth_idf(documents: NDArray[Any], n_texts: int) -> Floats:
    """Return log((1 + m) / (1 + r)) + 1 for terms that r of m texts contain; never below 1."""
    idf: Floats = np.log((1.0 + n_texts) / (1.0 + documents)) + 1.0
    return idf


def plain_idf(documents: NDArray[Any], n_texts: int) -> Floats:
    """Return log(m / r) for terms that r of m texts contain; 0 for what all of them contain.

    A term that no text contains (only a hashed column) counts as if one did.
    """
    idf: Floats = np.log(n_texts / np.maximum(documents, 1.0))
    return idf


def mean_distinct(counts: Any) -> float:
    """Return the mean number of distinct terms of a text: the pivot."""
    return float(counts.nnz) / float(counts.shape[0])


def pivoted(counts: Any, pivot: float) -> Floats:
    """Return Singhal's term frequencies, for the entries of a CSR array of counts.

    With c the count, n the number of distinct terms of the text and a the mean of its counts::

        (1 + log c) / (1 + log a) / (1 - slope + slope n / pivot)
    """
    distinct = np.diff(counts.indptr)
    divisor = np.maximum(distinct, 1)  # an empty text has no entries, but must not divide by 0
    mean = np.maximum(counts.sum(axis=1) / divisor, 1.0)
    scale = (1.0 + np.log(mean)) * (1.0 - SLOPE + SLOPE * distinct / pivot)
    values: Floats = sublinear(counts.data.astype(np.float64)) / np.repeat(scale, distinct)
    return values


def bm25_idf(documents: NDArray[Any], n_texts: int) -> Floats:
    """Return log(1 + (m - r + 1/2) / (r + 1/2)) for terms that r of m texts contain: positive."""
    idf: Floats = np.log1p((n_texts - documents + 0.5) / (documents + 0.5))
    return idf


def mean_length(counts: Any) -> float:
    """Return the mean number of terms of a text, counted with repetitions."""
    return float(counts.sum()) / float(counts.shape[0])


def saturated(counts: Any, pivot: float, k1: float, b: float) -> Floats:
    """Return BM25's term frequencies, for the entries of a CSR array of counts.

    With c the count and l the number of terms of the text::

        c / (c + k1 (1 - b + b l / pivot))
    """
    lengths = np.asarray(counts.sum(axis=1), dtype=np.float64)
    damping = np.repeat(k1 * (1.0 - b + b * lengths / pivot), np.diff(counts.indptr))
    values = counts.data.astype(np.float64)
    saturated_values: Floats = values / (values + damping)
    return saturated_values


def shares(counts: Any) -> Floats:
    """Return the share of each term in all texts; a term that does not occur counts as once."""
    totals = np.maximum(np.bincount(counts.indices, counts.data, counts.shape[1]), 1.0)
    probabilities: Floats = totals / max(float(counts.sum()), 1.0)
    return probabilities


def smoothed(counts: Any, collection: Floats, mu: float) -> Floats:
    """Return log(1 + c / (mu p)) for the entries of a CSR array; p is the term's share."""
    values: Floats = np.log1p(counts.data / (mu * collection[counts.indices]))
    return values


def with_length(features: Any, counts: Any, mu: float | None) -> Any:
    """Append a column to a CSR array: log(mu / (l + mu)) of documents of l terms, or l of queries.

    Parameters
    ----------
    mu : float or None
        None for queries.
    """
    lengths = np.asarray(counts.sum(axis=1), dtype=np.float64)
    column = lengths if mu is None else -np.log1p(lengths / mu)
    n_rows, n_columns = features.shape
    ends = features.indptr[1:]
    return sparse.csr_array(
        (
            np.insert(features.data, ends, column),
            np.insert(features.indices, ends, n_columns),
            features.indptr + np.arange(n_rows + 1, dtype=features.indptr.dtype),
        ),
        shape=(n_rows, n_columns + 1),
    )


def scale_to_unit_length(features: Any) -> None:
    """Divide each row of a CSR array by its Euclidean norm, in place; zero rows stay zero."""
    squares = features.copy()
    squares.data **= 2
    norms = np.sqrt(squares.sum(axis=1))
    norms[norms == 0.0] = 1.0
    features.data /= np.repeat(norms, np.diff(features.indptr))
