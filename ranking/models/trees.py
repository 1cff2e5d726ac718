"""Sums of regression trees, as arrays: no library and no code of a file is needed to score."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, ClassVar, Final, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ranking.contracts.model import Model, Tensors
from ranking.errors import ModelFileError

if TYPE_CHECKING:
    from ranking.data.judged_lists import JudgedLists
    from ranking.kernels.kernel import Kernel

BLOCK: Final = 4096
"""Rows that go down the trees together, to stay in the cache."""

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def _no_ints() -> Ints:
    return np.zeros(0, np.int64)


def _no_floats() -> Floats:
    return np.zeros(0)


@dataclasses.dataclass
class Trees(Model):
    """Score a row by the sum of one leaf of each tree.

    A row goes to `left` where its feature is at most the threshold, else to `right`. A child c is a
    node if c >= 0, else the leaf -1 - c; nodes come before their children.

    Attributes
    ----------
    roots : int64 array
        The root of each tree, a node or a leaf.
    features, thresholds, left, right : arrays
        One per node.
    leaves : float64 array
        The value of each leaf.
    feature_ids : int64 array
        The number of each feature in the data it was trained on.
    """

    name: ClassVar[str] = "trees"
    form: ClassVar[Literal["functions"]] = "functions"

    roots: Ints = dataclasses.field(init=False, repr=False, compare=False, default_factory=_no_ints)
    features: Ints = dataclasses.field(
        init=False, repr=False, compare=False, default_factory=_no_ints
    )
    thresholds: Floats = dataclasses.field(
        init=False, repr=False, compare=False, default_factory=_no_floats
    )
    left: Ints = dataclasses.field(init=False, repr=False, compare=False, default_factory=_no_ints)
    right: Ints = dataclasses.field(init=False, repr=False, compare=False, default_factory=_no_ints)
    leaves: Floats = dataclasses.field(
        init=False, repr=False, compare=False, default_factory=_no_floats
    )
    feature_ids: Ints = dataclasses.field(
        init=False, repr=False, compare=False, default_factory=_no_ints
    )

    def initialize(self, data: JudgedLists, seed: int, kernel: Kernel) -> None:
        """Start without trees."""
        ints, floats = np.zeros(0, np.int64), np.zeros(0)
        self.roots = self.features = self.left = self.right = ints
        self.thresholds = self.leaves = floats
        self.feature_ids = np.array(data.feature_ids)

    def append(
        self, features: Ints, thresholds: Floats, left: Ints, right: Ints, leaves: Floats
    ) -> None:
        """Add a tree whose nodes and leaves are numbered from 0; without nodes it is one leaf."""
        nodes, n_leaves = self.features.size, self.leaves.size
        moved = [np.where(c >= 0, c + nodes, c - n_leaves) for c in (left, right)]
        root = nodes if features.size else -1 - n_leaves
        self.roots = np.append(self.roots, root).astype(np.int64)
        self.features = np.concatenate((self.features, features))
        self.thresholds = np.concatenate((self.thresholds, thresholds))
        self.left = np.concatenate((self.left, moved[0]))
        self.right = np.concatenate((self.right, moved[1]))
        self.leaves = np.concatenate((self.leaves, leaves))

    def scores(self, data: JudgedLists, kernel: Kernel, threads: int = 1) -> Floats:
        """Return the sum of the leaves of each row, tree by tree."""
        rows = data.aligned_features(self.feature_ids)
        total = np.zeros(rows.shape[0])
        for start in range(0, total.size, BLOCK):
            part = rows[start : start + BLOCK]
            dense = part.toarray() if sp.issparse(part) else np.asarray(part)
            self._add(dense.astype(np.float64), total[start : start + BLOCK])
        return total

    def _add(self, rows: Floats, out: Floats) -> None:
        for root in self.roots.tolist():
            at = np.full(out.size, root)
            going = np.flatnonzero(at >= 0)
            while going.size:
                node = at[going]
                lower = rows[going, self.features[node]] <= self.thresholds[node]
                at[going] = np.where(lower, self.left[node], self.right[node])
                going = going[at[going] >= 0]
            out += self.leaves[-1 - at]

    def tensors(self) -> Tensors:
        """Return the nodes and leaves of all trees."""
        return {name: getattr(self, name) for name in _TENSORS}

    def restore(self, tensors: Tensors) -> None:
        """Restore the trees; refuse children that do not exist or come before their parents."""
        for name, kind in _TENSORS.items():
            tensor = tensors.get(name)
            if tensor is None or tensor.dtype != kind or tensor.ndim != 1:
                raise ModelFileError(
                    f"a model of trees needs the tensor {name!r}, one row of {np.dtype(kind)}."
                )
        features, left, right = tensors["features"], tensors["left"], tensors["right"]
        thresholds, leaves = tensors["thresholds"], tensors["leaves"]
        if not features.shape == thresholds.shape == left.shape == right.shape:
            raise ModelFileError(
                "a model of trees needs a feature, threshold and children by node."
            )
        if not (np.isfinite(thresholds).all() and np.isfinite(leaves).all()):
            raise ModelFileError("thresholds and leaves of a model of trees must be finite.")
        if np.any((features < 0) | (features >= tensors["feature_ids"].size)):
            raise ModelFileError("a model of trees asks for features that do not exist.")
        nodes = np.arange(features.size)
        for child in (left, right):
            ahead = np.where(child >= 0, (child > nodes) & (child < nodes.size), True)
            if not ahead.all() or np.any(child < -leaves.size):
                raise ModelFileError("a model of trees has children that do not exist.")
        roots = tensors["roots"]
        if np.any((roots >= nodes.size) | (roots < -leaves.size)):
            raise ModelFileError("a model of trees has roots that do not exist.")
        for name in _TENSORS:
            setattr(self, name, np.array(tensors[name]))

    def importances(self) -> Floats:
        """Return how many nodes ask for each feature."""
        return np.bincount(self.features, minlength=self.feature_ids.size).astype(np.float64)

    @property
    def density(self) -> float:
        """The share of features that a node asks for."""
        return float(np.unique(self.features).size) / max(self.feature_ids.size, 1)


_TENSORS: Final[dict[str, type]] = {
    "roots": np.int64,
    "features": np.int64,
    "thresholds": np.float64,
    "left": np.int64,
    "right": np.int64,
    "leaves": np.float64,
    "feature_ids": np.int64,
}
