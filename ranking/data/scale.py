"""The scale of features: numbers whose squares overflow or vanish train nothing."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ranking.data.judged_lists import JudgedLists
from ranking.data.matching_data import MatchingData
from ranking.data.scaling import ScaledLists
from ranking.errors import DataError, DataWarning

SMALLEST = 1e-150
"""Squares of smaller numbers lose digits or are 0."""

DIFFERENT = 1e4
"""Features whose largest values differ by this factor are not of one order of magnitude."""

OUTSTANDING = 100.0
"""A feature of users or items with values that are so many times those of half of the others."""

BLOCK = 1 << 20
"""Entries of sparse features that are looked at together."""

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


class Scales(NamedTuple):
    """The features with the smallest and the largest values.

    Attributes
    ----------
    smallest, largest : float
        The largest absolute values of these two features.
    of_smallest, of_largest : int
        Their ids.
    """

    smallest: float
    largest: float
    of_smallest: int
    of_largest: int

    def problem(self) -> str:
        """Return what differs too much, or an empty text."""
        if self.smallest == 0.0 or self.largest / self.smallest < DIFFERENT:
            return ""
        return (
            f"feature {self.of_largest} has values up to {self.largest:.3g} and feature "
            f"{self.of_smallest} up to {self.smallest:.3g}; scale them, as --scale standard does"
        )


def find_scales(data: JudgedLists) -> Scales:
    """Return the features with the smallest and the largest values, without those that are 0."""
    peaks = _largest(data.features)
    used = np.flatnonzero(peaks)
    if not used.size:
        return Scales(0.0, 0.0, 0, 0)
    low, high = used[np.argmin(peaks[used])], used[np.argmax(peaks[used])]
    ids = data.feature_ids
    return Scales(float(peaks[low]), float(peaks[high]), int(ids[low]), int(ids[high]))


def warn_of_scales(data: JudgedLists | MatchingData) -> None:
    """Warn of features that differ by orders of magnitude and are not scaled."""
    if isinstance(data, JudgedLists) and not isinstance(data, ScaledLists):
        problem = find_scales(data).problem()
        if problem:
            warnings.warn(f"{problem} and Ranker(scale='standard').", DataWarning, stacklevel=5)
    elif isinstance(data, MatchingData):
        _warn_of_outstanding("query", data.queries, data.query_feature_ids)
        if data.documents is not data.queries:
            _warn_of_outstanding("document", data.documents, data.document_feature_ids)


def _warn_of_outstanding(side: str, features: Any, ids: NDArray[Any]) -> None:
    """Warn of a feature beside which the others hardly count, such as a year beside genres."""
    peaks = np.zeros(0) if features is None else _largest(features)
    used = peaks[peaks > 0.0]
    if used.size < 2 or used.max() < OUTSTANDING * np.median(used):
        return
    warnings.warn(
        f"{side} feature {ids[int(np.argmax(peaks))]} has values up to {used.max():.3g}, and half "
        f"of the others at most {np.median(used):.3g}; scale it, for example to a standard "
        "deviation of 1, because it dominates all dot products.",
        DataWarning,
        stacklevel=6,
    )


def _largest(features: Any) -> NDArray[np.float64]:
    """Return the largest absolute value of each column, without a copy of the features."""
    if not sparse.issparse(features):
        peaks: NDArray[np.float64] = np.maximum(features.max(axis=0), -features.min(axis=0))
        return peaks
    peaks = np.zeros(features.shape[1])
    for start in range(0, features.nnz, BLOCK):
        part = slice(start, start + BLOCK)
        np.maximum.at(peaks, features.indices[part], np.abs(features.data[part]))
    return peaks


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
