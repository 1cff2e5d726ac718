"""Features by column for losses of whole lists: centered within lists, in float64.

A loss that compares the scores of a list does not change if a feature is shifted in a list. So
dense features are centered, which costs nothing and makes sums exact for features of any offset.
Sparse ones stay as they are.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ranking.data.judged_lists import JudgedLists
from ranking.kernels.contract import Floats, Ints
from ranking.kernels.domination import Columns, SparseColumns

NEGLIGIBLE = 1e-12
"""A feature that varies within lists by less than this share of its size is constant."""


def centered_columns(data: JudgedLists, rows: Ints, list_ptr: Ints) -> Columns:
    """Return the features of some rows by column, less their mean in each list if dense."""
    features = data.features
    if isinstance(features, sp.csr_array):
        columns = sp.csc_array(features[rows]).astype(np.float64)
        columns.sort_indices()
        return SparseColumns.of(columns)
    centered = np.asfortranarray(features[rows], dtype=np.float64)
    sizes = np.diff(list_ptr)
    for column in centered.T:
        peak = float(np.abs(column).max(initial=0.0))
        column -= np.repeat(np.add.reduceat(column, list_ptr[:-1]) / sizes, sizes)
        column[np.abs(column) <= NEGLIGIBLE * peak] = 0.0
    return centered


def root_mean_squares(columns: Columns) -> Floats:
    """Return the root of the mean square of each column; 0 where a feature has no effect."""
    n_rows = max(columns.shape[0], 1)
    if isinstance(columns, SparseColumns):
        sums = np.zeros(columns.shape[1])
        owner = np.repeat(np.arange(columns.shape[1]), np.diff(columns.indptr))
        np.add.at(sums, owner, np.square(columns.data))
    else:
        sums = np.array([np.square(column).sum() for column in columns.T])
    roots: Floats = np.sqrt(sums / n_rows)
    return roots


def squared_ranges(columns: Columns, list_ptr: Ints) -> Floats:
    """Return (max - min)**2 of each list and column, one row per list."""
    first = list_ptr[:-1]
    if not isinstance(columns, SparseColumns):
        ranges: Floats = np.maximum.reduceat(columns, first) - np.minimum.reduceat(columns, first)
        return ranges * ranges
    squares = np.empty((first.size, columns.shape[1]))
    dense = np.zeros(columns.shape[0])
    for column in range(columns.shape[1]):
        part = slice(int(columns.indptr[column]), int(columns.indptr[column + 1]))
        dense[columns.indices[part]] = columns.data[part]
        ranges = np.maximum.reduceat(dense, first) - np.minimum.reduceat(dense, first)
        squares[:, column] = np.square(ranges)
        dense[columns.indices[part]] = 0.0
    return squares
