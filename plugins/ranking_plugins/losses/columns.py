"""Features by column, with rows in the order of judged lists, as coordinate descent reads them."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ranking.data.judged_lists import JudgedLists
from ranking.kernels.domination import Columns, LayeredLists, SparseColumns

TILE = 4096
"""Rows that are transposed at a time, to stay in the cache."""


def by_column(data: JudgedLists, lists: LayeredLists) -> Columns:
    """Return the features by column, with rows in the order of the layout; padding is 0."""
    features = data.features
    if isinstance(features, sp.csr_array):
        columns = sp.csc_array(features[lists.source])
        columns.sort_indices()
        return SparseColumns.of(columns)
    ordered = np.zeros((lists.n_rows, features.shape[1]), dtype=features.dtype, order="F")
    for start in range(0, lists.n_rows, TILE):
        source = lists.source[start : start + TILE]
        tile = features[source]
        tile[source < 0] = 0.0
        ordered[start : start + TILE] = tile
    return ordered
