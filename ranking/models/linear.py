"""The linear model: one weight per feature."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from ranking.contracts.model import Model, Tensors
from ranking.errors import ModelFileError

if TYPE_CHECKING:
    from ranking.data.judged_lists import JudgedLists
    from ranking.kernels.kernel import Kernel


@dataclasses.dataclass
class Linear(Model):
    """Score a row by w . x.

    Attributes
    ----------
    weights : float64 array
        One per feature.
    feature_ids : int64 array
        The number of each feature in the data it was trained on.
    """

    name: ClassVar[str] = "linear"

    weights: NDArray[np.float64] = dataclasses.field(
        init=False, repr=False, compare=False, default_factory=lambda: np.zeros(0)
    )
    feature_ids: NDArray[np.int64] = dataclasses.field(
        init=False, repr=False, compare=False, default_factory=lambda: np.zeros(0, dtype=np.int64)
    )

    def initialize(self, data: JudgedLists, seed: int, kernel: Kernel) -> None:
        """Start from zero: the losses for this model are convex."""
        self.weights = np.zeros(data.n_features)
        self.feature_ids = np.array(data.feature_ids)

    def scores(self, data: JudgedLists, kernel: Kernel, threads: int = 1) -> NDArray[np.float64]:
        """Return w . x for each row, features matched by their numbers."""
        return kernel.linear.scores(
            data.aligned_features(self.feature_ids), self.weights, threads=threads
        )

    def tensors(self) -> Tensors:
        """Return the weights and the numbers of their features."""
        return {"weights": self.weights, "feature_ids": self.feature_ids}

    def restore(self, tensors: Tensors) -> None:
        """Restore weights and feature numbers."""
        weights, ids = tensors.get("weights"), tensors.get("feature_ids")
        if weights is None or ids is None or weights.ndim != 1 or weights.shape != ids.shape:
            raise ModelFileError("a linear model needs `weights` and `feature_ids` of one length.")
        if weights.dtype != np.float64 or ids.dtype != np.int64:
            raise ModelFileError("a linear model's weights are float64, its feature_ids int64.")
        if not np.isfinite(weights).all():
            raise ModelFileError("a linear model's weights must be finite.")
        self.weights, self.feature_ids = np.array(weights), np.array(ids)

    @property
    def density(self) -> float:
        """The share of weights that are not zero."""
        return float(np.count_nonzero(self.weights)) / max(self.weights.size, 1)
