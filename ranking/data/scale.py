"""The scale of features: numbers whose squares overflow or vanish train nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ranking.data.judged_lists import JudgedLists
from ranking.data.matching_data import MatchingData
from ranking.errors import DataError

SMALLEST = 1e-150
"""Squares of smaller numbers lose digits or are 0."""

LARGEST_SUM = 1e307
"""Sums of squares stay below it."""


def refuse_unusable_scale(data: JudgedLists | MatchingData) -> None:
    """Refuse features of float64 whose squares are not finite or are 0.

    Gradients and curvatures are sums of squares; of such features they are infinite or 0, and a
    solver would report that it has converged with all weights at 0. float32 has no such numbers.
    """
    if isinstance(data, JudgedLists):
        _check(data.features, data.feature_ids, "feature")
        return
    for side, features, ids in (
        ("query", data.queries, data.query_feature_ids),
        ("document", data.documents, data.document_feature_ids),
    ):
        if features is not None:
            _check(features, ids, f"{side} feature")


def _check(features: Any, ids: NDArray[Any], what: str) -> None:
    if features.dtype != np.float64:
        return
    largest = float(np.sqrt(LARGEST_SUM / features.shape[0]))
    peaks = _peaks(features, largest)
    wrong = (peaks > largest) | ((peaks > 0.0) & (peaks < SMALLEST))
    if wrong.any():
        column = int(np.argmax(wrong))
        raise DataError(
            f"the largest absolute value of {what} {ids[column]} is {peaks[column]:.3g}, and its "
            f"squares cannot be computed; scale the features to between {SMALLEST:g} and "
            f"{largest:.0e}, best to about 1."
        )


def _peaks(features: Any, largest: float) -> NDArray[np.float64]:
    """Return the largest absolute value of each column; of some sparse ones only what matters."""
    if not sparse.issparse(features):
        peaks: NDArray[np.float64] = np.maximum(features.max(axis=0), -features.min(axis=0))
        return peaks
    sizes = np.abs(features.data)
    peaks = np.zeros(features.shape[1])
    small = (sizes < SMALLEST) & (sizes > 0.0)
    if small.any() or sizes.max(initial=0.0) > largest:
        np.maximum.at(peaks, features.indices, sizes)
    return peaks
