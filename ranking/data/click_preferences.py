"""Click preferences: a clicked document is preferred to one that was skipped (Joachims, 2002)."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from ranking.errors import DataError


def skip_above(clicks: Any, positions: Any) -> Any:
    """Return the clicks of a log without documents that may not have been seen.

    A document that was shown and not clicked counts as seen if a document below it was clicked. So
    of each query the documents down to the lowest clicked one are kept, with their clicks, 0
    included; a document with more clicks is preferred to one with fewer.

    Parameters
    ----------
    clicks : csr_array
        One row per query, one column per document; an entry for each that was shown, also 0.
    positions : csr_array
        The position of each shown document, from 1, at the same entries.
    """
    shown, places = sparse.csr_array(clicks, dtype=np.float64), sparse.csr_array(positions)
    same = np.array_equal(shown.indptr, places.indptr)
    if shown.shape != places.shape or not same or (shown.indices != places.indices).any():
        raise DataError("clicks and positions must be stored for the same pairs.")
    if places.nnz and places.data.min() < 1:
        raise DataError(f"positions start at 1, and one is {places.data.min():g}.")
    owner = np.repeat(np.arange(shown.shape[0]), np.diff(shown.indptr))
    lowest = np.zeros(shown.shape[0])
    clicked = shown.data > 0.0
    np.maximum.at(lowest, owner[clicked], places.data[clicked])
    seen = places.data <= lowest[owner]
    ends = np.concatenate(([0], np.cumsum(seen)))[shown.indptr]
    return sparse.csr_array((shown.data[seen], shown.indices[seen], ends), shape=shown.shape)
