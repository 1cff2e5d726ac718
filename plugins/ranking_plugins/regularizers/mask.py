"""Prior knowledge on W: which pairs of features may have a weight."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from ranking.contracts.parameters import boolean, number
from ranking.contracts.regularizer import (
    Array,
    Granularity,
    Ids,
    ParameterForm,
    Regularizer,
    StructuredPenalty,
)
from ranking_plugins.regularizers.feature_files import as_pairs, none_known, positions, read_columns
from ranking_plugins.regularizers.soft import soft
from ranking_plugins.regularizers.structured import dense_penalty, dense_prox


@dataclasses.dataclass
class Mask(Regularizer):
    """Weights outside a mask of pairs of features are zero, or penalized by ``outside * |w|``.

    Parameters
    ----------
    pairs : path or pairs, optional
        The mask: pairs of a query feature and a document feature; a file has one
        ``query feature<TAB>document feature`` per line. By default there are no pairs but those of
        `diagonal`.
    outside : float or "zero"
        The strength of L1 for weights outside the mask; "zero" forbids them.
    inside : float
        The strength of L1 for weights inside the mask.
    diagonal : bool
        Whether each feature that queries and documents share may match itself.
    symmetric : bool
        Whether a pair counts in both directions.
    """

    name: ClassVar[str] = "mask"
    granularity: ClassVar[Granularity] = "matrix"
    forms: ClassVar[frozenset[ParameterForm]] = frozenset({"matrix"})
    unsupported: ClassVar[Mapping[str, str]] = {
        "vector": (
            "a mask says which pairs of a query feature and a document feature may have a weight, "
            "and a linear model has no query features; leave unwanted features out of the data"
        ),
        "factors": (
            "a mask says which weights of pairs of features may be other than zero, and those that "
            "embeddings imply are products U'V, which no single parameter sets to zero"
        ),
    }

    pairs: Collection[tuple[Any, Any]] | str | Path | None = None
    outside: float | str = number("zero", minimum=0.0, words=("zero",))
    inside: float = number(0.0, minimum=0.0)
    diagonal: bool = boolean(True)
    symmetric: bool = boolean(True)

    def structure(self, rows: Ids | None, columns: Ids) -> StructuredPenalty:
        """Return the penalty of a matrix of these features."""
        mask = self._matrix(columns if rows is None else rows, columns)
        if rows is None:  # the diagonal in one row
            mask = sp.csr_array(mask.diagonal()[None, :])
        return _MaskPenalty(mask, None if self.outside == "zero" else self._outside, self.inside)

    def penalty(self, parameters: Array) -> float:
        """Return outside * sum abs(w) outside the mask, or infinity, plus inside * sum abs(w)."""
        return dense_penalty(self, parameters)

    def prox(self, parameters: Array, step: float) -> Array:
        """Return the weights, soft-thresholded outside and inside the mask as each is penalized."""
        return dense_prox(self, parameters, step)

    @property
    def _outside(self) -> float:
        return float(self.outside)

    def _matrix(self, rows: Ids, columns: Ids) -> sp.csr_array:
        """Return a matrix of ones inside the mask."""
        entries = self._entries(positions(rows), positions(columns), rows)
        if self.diagonal:
            by_column = positions(columns)
            entries += [
                (at, by_column[one]) for one, at in positions(rows).items() if one in by_column
            ]
        at = np.array(entries, dtype=np.int64).reshape(-1, 2)
        mask = sp.coo_array((np.ones(len(at)), tuple(at.T)), (rows.size, columns.size)).tocsr()
        mask.data[:] = 1.0  # of pairs that were given twice, too
        return mask

    def _entries(
        self, by_row: dict[str, int], by_column: dict[str, int], ids: Ids
    ) -> list[tuple[int, int]]:
        if self.pairs is None:
            return []
        if isinstance(self.pairs, str | Path):
            path = Path(self.pairs)
            listed = read_columns("mask:pairs", path, "query feature<TAB>document feature", 2)
        else:
            listed = [[str(one) for one in row] for row in as_pairs("mask:pairs", self.pairs, 2)]
        both = listed + [row[::-1] for row in listed] if self.symmetric else listed
        known = [(by_row[a], by_column[b]) for a, b in both if a in by_row and b in by_column]
        if listed and not known:
            raise none_known("mask:pairs", len(listed), ids)
        return known


@dataclasses.dataclass(frozen=True)
class _MaskPenalty:
    """The penalty of weights inside and outside a matrix of ones; outside=None forbids them."""

    mask: sp.csr_array
    outside: float | None
    inside: float

    def penalty(self, weights: sp.csr_array) -> float:
        """Return the penalty; infinite if a weight is outside that must not be."""
        inner = weights.multiply(self.mask).tocsr()
        within = float(np.abs(inner.data).sum())
        if self.outside is None:
            allowed = np.count_nonzero(inner.data) == np.count_nonzero(weights.data)
            return self.inside * within if allowed else np.inf
        beyond = float(np.abs((weights - inner).data).sum())
        return self.outside * beyond + self.inside * within

    def prox(self, weights: sp.csr_array, step: float) -> sp.csr_array:
        """Return the weights after the soft threshold of each."""
        inner = weights.multiply(self.mask).tocsr()
        beyond = None if self.outside is None else (weights - inner).tocsr()
        inner.data = soft(inner.data, step * self.inside)
        if beyond is None or self.outside is None:
            return inner
        beyond.data = soft(beyond.data, step * self.outside)
        return (inner + beyond).tocsr()
