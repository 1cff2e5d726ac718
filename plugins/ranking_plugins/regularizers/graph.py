"""A graph of features as prior knowledge: linked features get similar weights."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from ranking.contracts.parameters import choice, number
from ranking.contracts.regularizer import (
    Array,
    Granularity,
    Ids,
    ParameterForm,
    Regularizer,
    StructuredPenalty,
)
from ranking.errors import PartError
from ranking_plugins.regularizers.feature_files import as_pairs, none_known, positions, read_columns
from ranking_plugins.regularizers.structured import dense_penalty, dense_prox

BLOCK = 1 << 22
"""Numbers that are solved for at a time."""


@dataclasses.dataclass
class Graph(Regularizer):
    """Penalty ``strength / 2 * sum over edges (a, b) of c_ab * ||W_a - W_b||**2``.

    Parameters
    ----------
    strength : float
        Larger values make the weights of linked features more similar.
    edges : path or pairs, optional
        The graph: pairs of features, and optionally the weight c_ab > 0 of each, which is 1
        otherwise; a file has one ``feature<TAB>feature<TAB>weight`` per line. By default each
        feature is linked to the next, in the order of the data.
    by : {"rows", "columns"}
        Whether the edges link query features (rows of W) or document features (columns). The
        weights of a linear or diagonal model are one row, and always linked by their features.
    """

    name: ClassVar[str] = "graph"
    granularity: ClassVar[Granularity] = "matrix"
    forms: ClassVar[frozenset[ParameterForm]] = frozenset({"vector", "matrix"})
    unsupported: ClassVar[Mapping[str, str]] = {
        "factors": (
            "linked rows of embeddings have steps of different lengths, so that no step has the "
            "prox of the penalty; a matrix of weights has one step for all"
        ),
    }

    strength: float = number(0.001, minimum=0.0)
    edges: Collection[tuple[Any, ...]] | str | Path | None = None
    by: str = choice("rows", "rows", "columns")

    def structure(self, rows: Ids | None, columns: Ids) -> StructuredPenalty:
        """Return the penalty of a matrix of these features, or of a vector in one row."""
        by_column = rows is None or self.by == "columns"
        ids = columns if rows is None or by_column else rows
        return _GraphPenalty(self.strength, self._incidence(ids), by_column)

    def quadratic_form(self, ids: Ids) -> sp.csr_array:
        """Return Q such that the penalty of a vector of weights is 1/2 w'Qw."""
        incidence = self._incidence(ids)
        return (self.strength * (incidence.T @ incidence)).tocsr()

    def penalty(self, parameters: Array) -> float:
        """Return the penalty of weights of features 0, 1, ..."""
        return dense_penalty(self, parameters)

    def prox(self, parameters: Array, step: float) -> Array:
        """Return the solution V of (I + step * strength * L) V = W; L is the graph's Laplacian."""
        return dense_prox(self, parameters, step)

    def _incidence(self, ids: Ids) -> sp.csr_array:
        """Return one row per edge, sqrt(c) at one end and -sqrt(c) at the other."""
        at, weights = self._edges(ids)
        root = np.sqrt(weights)
        row = np.arange(weights.size)
        return sp.coo_array(
            (np.concatenate((root, -root)), (np.concatenate((row, row)), at.T.ravel())),
            shape=(weights.size, ids.size),
        ).tocsr()

    def _edges(self, ids: Ids) -> tuple[np.ndarray[Any, np.dtype[np.int64]], Array]:
        """Return the two ends of each edge of known features, and its weight."""
        if self.edges is None:
            first = np.arange(max(ids.size - 1, 0))
            return np.column_stack((first, first + 1)), np.ones(first.size)
        by_id = positions(ids)
        listed = _given(self.edges)
        known = [(by_id[a], by_id[b], c) for a, b, c in listed if a in by_id and b in by_id]
        if listed and not known:
            raise none_known("graph:edges", len(listed), ids)
        at = np.array([row[:2] for row in known], dtype=np.int64).reshape(-1, 2)
        return at, np.array([row[2] for row in known], dtype=np.float64)


def _given(edges: Collection[tuple[Any, ...]] | str | Path) -> list[tuple[str, str, float]]:
    """Return the ends and the weight of each edge."""
    name = "graph:edges"
    rows: list[Any]
    if isinstance(edges, str | Path):
        rows = read_columns(name, Path(edges), "feature<TAB>feature<TAB>weight", 2)
    else:
        rows = as_pairs(name, edges, 3)
    result = []
    for row in rows:
        a, b = str(row[0]), str(row[1])
        try:
            weight = float(row[2]) if len(row) > 2 else 1.0
        except (TypeError, ValueError):
            weight = np.nan
        if not (np.isfinite(weight) and weight > 0.0):
            raise PartError(
                f"{name}: edge {a!r}, {b!r} has the weight {row[2]!r}; give a number > 0."
            )
        if a == b:
            raise PartError(f"{name}: {a!r} is linked to itself; remove this edge.")
        result.append((a, b, weight))
    return result


class _GraphPenalty:
    """The penalty of rows, or of columns, that a graph links."""

    def __init__(self, strength: float, incidence: sp.csr_array, by_column: bool) -> None:
        self.strength, self.incidence, self.by_column = strength, incidence, by_column
        laplacian = (incidence.T @ incidence).tocsc()
        linked = np.flatnonzero(laplacian.diagonal() > 0.0)
        self.laplacian = laplacian[linked][:, linked].tocsc()
        self.linked = linked

    def penalty(self, weights: sp.csr_array) -> float:
        """Return strength/2 times the sum of squared differences."""
        across = weights.T if self.by_column else weights
        differences = (self.incidence @ across.tocsr()).astype(np.float64)
        return 0.5 * self.strength * float((differences.data**2).sum())

    def prox(self, weights: sp.csr_array, step: float) -> sp.csr_array:
        """Return the solution of (I + step * strength * L) V = W.

        V has no zeros in the columns of a component of the graph in which W has a weight.
        """
        scale = step * self.strength
        if not scale or not self.linked.size:
            return weights
        across = (weights.T if self.by_column else weights).tocsr()
        solved = self._solve(across[self.linked].tocsc(), scale)
        entries = across.tocoo()
        free = np.ones(across.shape[0], dtype=bool)
        free[self.linked] = False
        unlinked = free[entries.coords[0]]
        rows = np.concatenate((entries.coords[0][unlinked], self.linked[solved.coords[0]]))
        columns = np.concatenate((entries.coords[1][unlinked], solved.coords[1]))
        values = np.concatenate((entries.data[unlinked], solved.data.astype(weights.dtype)))
        result = sp.coo_array((values, (rows, columns)), shape=across.shape)
        return (result.T if self.by_column else result).tocsr()

    def _solve(self, part: sp.csc_array, scale: float) -> sp.coo_array:
        """Return the solution for the linked rows; a block of columns is dense at a time."""
        identity = sp.eye_array(self.linked.size, format="csc")
        system = splu((identity + scale * self.laplacian).tocsc())
        used = np.flatnonzero(np.diff(part.indptr))
        width = max(BLOCK // self.linked.size, 1)
        blocks = []
        for start in range(0, used.size, width):
            columns = used[start : start + width]
            block = sp.coo_array(system.solve(part[:, columns].toarray().astype(np.float64)))
            blocks.append((block.coords[0], columns[block.coords[1]], block.data))
        if not blocks:
            return sp.coo_array(part.shape)
        rows, columns, values = map(np.concatenate, zip(*blocks, strict=True))
        return sp.coo_array((values, (rows, columns)), shape=part.shape)
