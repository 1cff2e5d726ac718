"""What matching models are compared with: BM25, and the random walk on the click graph."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Floats = NDArray[np.float64]


def bm25(queries: Any, documents: Any, k1: float = 1.2, b: float = 0.75) -> Floats:
    """Return the scores of BM25, one row per query (Robertson et al., 1994).

    Parameters
    ----------
    queries, documents : csr_array
        Counts of terms.
    k1, b : float
        How soon a count saturates, and how much of a document's length is made up for.
    """
    counts = sparse.csr_array(documents, dtype=np.float64)
    n_documents = counts.shape[0]
    frequency = np.bincount(counts.indices, minlength=counts.shape[1])
    idf = np.log1p((n_documents - frequency + 0.5) / (frequency + 0.5))
    lengths = np.asarray(counts.sum(axis=1)).ravel()
    damping = k1 * (1.0 - b + b * lengths / max(lengths.mean(), 1.0))
    owner = np.repeat(np.arange(n_documents), np.diff(counts.indptr))
    values = counts.data * (k1 + 1.0) / (counts.data + damping[owner]) * idf[counts.indices]
    weighted = sparse.csr_array((values, counts.indices, counts.indptr), counts.shape)
    scores: Floats = (sparse.csr_array(queries, dtype=np.float64) @ weighted.T).toarray()
    return scores


def random_walk(clicks: Any, entries: Any, steps: int, stay: float = 0.9) -> Floats:
    """Return how probably a walk from each document is at a query's entries after some steps.

    The backward walk of Craswell and Szummer (2007): from a query to what was clicked for it, from
    a document to the queries that it was clicked for, in proportion to the clicks.

    Parameters
    ----------
    clicks : csr_array of shape (log queries, documents)
    entries : csr_array of shape (queries, log queries)
        Where a query is in the log: itself, or those that are like it, with weights.
    steps : int
    stay : float
        The probability of staying where one is.
    """
    onward, back = _stochastic(clicks), _stochastic(clicks.T.tocsr())
    at_queries = sparse.csr_array(entries, dtype=np.float64).toarray().T
    at_documents = np.zeros((clicks.shape[1], at_queries.shape[1]))
    for _ in range(steps):
        at_queries, at_documents = (
            stay * at_queries + (1.0 - stay) * (onward @ at_documents),
            stay * at_documents + (1.0 - stay) * (back @ at_queries),
        )
    walked: Floats = at_documents.T
    return walked


def _stochastic(matrix: Any) -> Any:
    """Return rows that sum to 1; one of zeros stays."""
    rows = sparse.csr_array(matrix, dtype=np.float64, copy=True)
    sums = np.asarray(rows.sum(axis=1)).ravel()
    rows.data /= np.repeat(np.where(sums > 0.0, sums, 1.0), np.diff(rows.indptr))
    return rows
