"""Hierarchical group lasso: a tree of groups of features, which become zero from the leaves up."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

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
from ranking_plugins.regularizers.feature_files import none_known, read_columns
from ranking_plugins.regularizers.soft import soft
from ranking_plugins.regularizers.structured import dense_penalty, dense_prox

SEPARATOR = "/"


@dataclasses.dataclass
class HierarchicalGroupL1(Regularizer):
    """Penalty ``strength * sum_g sqrt(n_g) ||W_g||`` over the groups g of a tree.

    Each feature is a leaf of the tree, and each inner node the group of the features below it; n_g
    is the number of weights of group g. So if a group is zero, all groups below it are (Zhao,
    Rocha and Yu, 2009). The prox is that of each group in turn, from the leaves to the root
    (Jenatton et al., 2011).

    Parameters
    ----------
    strength : float
        Larger values keep fewer groups.
    tree : path or mapping, optional
        The path of each feature in the tree, such as ``animals/birds``; a file has one
        ``feature<TAB>path`` per line. A feature without a path is a group by itself; by default
        all are.
    entries : float
        Strength of L1 for single weights, relative to `strength`: weights below the leaves.
    by : {"rows", "columns"}
        Whether groups consist of query features (rows of W) or of document features (columns). The
        weights of a linear or diagonal model are one row, and always grouped by their features.
    """

    name: ClassVar[str] = "hierarchical-group-l1"
    granularity: ClassVar[Granularity] = "matrix"
    forms: ClassVar[frozenset[ParameterForm]] = frozenset({"vector", "matrix"})
    unsupported: ClassVar[Mapping[str, str]] = {
        "factors": (
            "the rows of a group of embeddings have steps of different lengths, for which the prox "
            "of the norm of the group has no closed form; a matrix of weights has one step for all"
        ),
    }

    strength: float = number(0.001, minimum=0.0)
    tree: Mapping[Any, str] | str | Path | None = None
    entries: float = number(0.0, minimum=0.0)
    by: str = choice("rows", "rows", "columns")

    def structure(self, rows: Ids | None, columns: Ids) -> StructuredPenalty:
        """Return the penalty of a matrix of these features, or of a vector in one row."""
        if rows is None or self.by == "columns":
            levels = self._levels(columns, 1 if rows is None else rows.size)
            return _TreePenalty(self.strength, self.entries, levels, by_column=True)
        return _TreePenalty(self.strength, self.entries, self._levels(rows, columns.size), False)

    def penalty(self, parameters: Array) -> float:
        """Return the penalty of weights of features 0, 1, ..."""
        return dense_penalty(self, parameters)

    def prox(self, parameters: Array, step: float) -> Array:
        """Return the weights after the prox of each group, from the leaves to the root."""
        return dense_prox(self, parameters, step)

    def _levels(self, ids: Ids, across: int) -> list[_Level]:
        """Return the groups of each level, leaves first; each feature has `across` weights."""
        leaves = _Level(np.arange(ids.size), np.full(ids.size, float(across)))
        paths = self._paths(ids)
        depth = max((len(path) for path in paths), default=0)
        return [leaves] + [_level(paths, length, across) for length in range(depth, 0, -1)]

    def _paths(self, ids: Ids) -> list[tuple[str, ...]]:
        """Return the names of the nodes above each feature, from the root."""
        if self.tree is None:
            return [()] * ids.size
        if isinstance(self.tree, str | Path):
            rows = read_columns(
                "hierarchical-group-l1:tree", Path(self.tree), "feature<TAB>path", 2
            )
            path_of = {row[0]: row[1] for row in rows}
            if len(path_of) < len(rows):
                raise PartError(f"{self.tree}: a feature occurs twice; keep one path for each.")
        elif isinstance(self.tree, Mapping):
            path_of = {str(feature): str(path) for feature, path in self.tree.items()}
        else:
            raise PartError(
                f"hierarchical-group-l1 has tree={self.tree!r}; it must be a mapping from features "
                "to paths such as animals/birds, or the path of a file."
            )
        known = [path_of.get(str(one)) for one in ids.tolist()]
        if path_of and not any(path is not None for path in known):
            raise none_known("hierarchical-group-l1:tree", len(path_of), ids)
        return [() if path is None else _names(path) for path in known]


class _Level(NamedTuple):
    """The groups of one level: the group of each feature or -1, and the weights of each group."""

    codes: NDArray[np.int64]
    sizes: Array


def _names(path: str) -> tuple[str, ...]:
    names = tuple(path.split(SEPARATOR))
    if "" in names:
        raise PartError(
            f"hierarchical-group-l1: {path!r} has an empty name; write a path as animals/birds."
        )
    return names


def _level(paths: list[tuple[str, ...]], length: int, across: int) -> _Level:
    """Return the groups whose paths have this length."""
    numbers: dict[tuple[str, ...], int] = {}
    codes = np.array(
        [
            numbers.setdefault(path[:length], len(numbers)) if len(path) >= length else -1
            for path in paths
        ],
        dtype=np.int64,
    )
    sizes = np.bincount(codes[codes >= 0], minlength=len(numbers)).astype(np.float64)
    return _Level(codes, sizes * across)


@dataclasses.dataclass(frozen=True)
class _TreePenalty:
    """The penalty of a matrix by rows or columns, which it stores as squares of their norms."""

    strength: float
    entries: float
    levels: list[_Level]
    by_column: bool

    def penalty(self, weights: sp.csr_array) -> float:
        """Return the sum over all groups, plus that of single weights."""
        squares, total = self._squares(weights), 0.0
        for level in self.levels:
            total += float((np.sqrt(level.sizes) * self._norms(level, squares)).sum())
        single = float(np.abs(weights.data).sum(dtype=np.float64)) if self.entries else 0.0
        return self.strength * (total + self.entries * single)

    def prox(self, weights: sp.csr_array, step: float) -> sp.csr_array:
        """Return the weights, scaled by the product of what each of their groups leaves."""
        due = step * self.strength
        if not due:
            return weights
        data = weights.data.astype(np.float64)
        if self.entries:
            data = soft(data, due * self.entries)
        result = sp.csr_array((data, weights.indices, weights.indptr), shape=weights.shape)
        squares, scale = self._squares(result), np.ones(self.levels[0].codes.size)
        for level in self.levels:
            norms = self._norms(level, squares)
            limits = due * np.sqrt(level.sizes)
            left = np.where(norms > limits, 1.0 - limits / np.where(norms > 0.0, norms, 1.0), 0.0)
            member = level.codes >= 0
            own = left[level.codes[member]]
            scale[member] *= own
            squares[member] *= own * own
        result.data *= scale[self._features(result)]
        return result.astype(weights.dtype)

    def _features(self, weights: sp.csr_array) -> NDArray[np.int64]:
        """Return the position of the feature of each stored weight."""
        if self.by_column:
            columns: NDArray[np.int64] = weights.indices.astype(np.int64)
            return columns
        return np.repeat(np.arange(weights.shape[0]), np.diff(weights.indptr))

    def _squares(self, weights: sp.csr_array) -> Array:
        """Return the sum of squares of the weights of each feature."""
        data = weights.data.astype(np.float64)
        size = self.levels[0].codes.size
        squares: Array = np.bincount(self._features(weights), data * data, size).astype(np.float64)
        return squares

    def _norms(self, level: _Level, squares: Array) -> Array:
        """Return the norm of each group of a level."""
        member = level.codes >= 0
        sums = np.bincount(level.codes[member], squares[member], level.sizes.size)
        norms: Array = np.sqrt(sums.astype(np.float64))
        return norms
