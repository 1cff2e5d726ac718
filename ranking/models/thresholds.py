"""Sums of thresholds: each feature adds a step function to the score."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ranking.contracts.model import Model, Tensors
from ranking.errors import ModelFileError

if TYPE_CHECKING:
    from ranking.data.judged_lists import JudgedLists
    from ranking.kernels.kernel import Kernel


@dataclasses.dataclass
class Thresholds(Model):
    """Score a row by the sum of the values of all thresholds that its features exceed.

    Attributes
    ----------
    features : int64 array
        The position of the feature of each threshold, in ascending order.
    thresholds, values : float64 arrays
        The score rises by the value where the feature is above the threshold; of one feature, the
        thresholds ascend.
    feature_ids : int64 array
        The number of each feature in the data it was trained on.
    """

    name: ClassVar[str] = "thresholds"
    form: ClassVar[Literal["functions"]] = "functions"

    features: NDArray[np.int64] = dataclasses.field(
        init=False, repr=False, compare=False, default_factory=lambda: np.zeros(0, np.int64)
    )
    thresholds: NDArray[np.float64] = dataclasses.field(
        init=False, repr=False, compare=False, default_factory=lambda: np.zeros(0)
    )
    values: NDArray[np.float64] = dataclasses.field(
        init=False, repr=False, compare=False, default_factory=lambda: np.zeros(0)
    )
    feature_ids: NDArray[np.int64] = dataclasses.field(
        init=False, repr=False, compare=False, default_factory=lambda: np.zeros(0, np.int64)
    )

    def initialize(self, data: JudgedLists, seed: int, kernel: Kernel) -> None:
        """Start without thresholds."""
        self.features, self.thresholds = np.zeros(0, np.int64), np.zeros(0)
        self.values, self.feature_ids = np.zeros(0), np.array(data.feature_ids)

    def add(self, feature: int, threshold: float, value: float) -> None:
        """Add a threshold, or its value to an equal one."""
        at = np.searchsorted(self.features, feature)
        end = np.searchsorted(self.features, feature, side="right")
        at += np.searchsorted(self.thresholds[at:end], threshold)
        if at < end and self.thresholds[at] == threshold:
            self.values = self.values.copy()
            self.values[at] += value
            return
        self.features = np.insert(self.features, at, feature)
        self.thresholds = np.insert(self.thresholds, at, threshold)
        self.values = np.insert(self.values, at, value)

    def scores(self, data: JudgedLists, kernel: Kernel, threads: int = 1) -> NDArray[np.float64]:
        """Return the sum of the step functions of the features, feature by feature."""
        rows = data.aligned_features(self.feature_ids)
        columns = sp.csc_array(rows) if sp.issparse(rows) else rows
        total = np.zeros(rows.shape[0])
        for feature in np.unique(self.features).tolist():
            own = self.features == feature
            steps = np.concatenate(([0.0], np.cumsum(self.values[own])))
            column = (
                columns[:, [feature]].toarray()[:, 0] if sp.issparse(rows) else columns[:, feature]
            )
            exceeded = np.searchsorted(self.thresholds[own], np.asarray(column, np.float64))
            total += steps[exceeded]
        return total

    def tensors(self) -> Tensors:
        """Return the thresholds with their features and values."""
        return {
            "features": self.features,
            "thresholds": self.thresholds,
            "values": self.values,
            "feature_ids": self.feature_ids,
        }

    def restore(self, tensors: Tensors) -> None:
        """Restore the thresholds; refuse those of features that do not exist or out of order."""
        try:
            features, ids = tensors["features"], tensors["feature_ids"]
            thresholds, values = tensors["thresholds"], tensors["values"]
        except KeyError as error:
            raise ModelFileError(f"a thresholds model needs the tensor {error}.") from None
        if not (features.dtype == ids.dtype == np.int64 and ids.ndim == 1):
            raise ModelFileError("features and feature_ids of a thresholds model are int64.")
        if not (thresholds.dtype == values.dtype == np.float64):
            raise ModelFileError("thresholds and values of a thresholds model are float64.")
        if features.ndim != 1 or not features.shape == thresholds.shape == values.shape:
            raise ModelFileError("a thresholds model needs one feature and value per threshold.")
        if not (np.isfinite(thresholds).all() and np.isfinite(values).all()):
            raise ModelFileError("thresholds and values of a thresholds model must be finite.")
        steps, rises = np.diff(features), np.diff(thresholds)
        if np.any(steps < 0) or np.any((steps == 0) & (rises <= 0.0)):
            raise ModelFileError("the thresholds of a thresholds model must ascend.")
        if features.size and not 0 <= features[0] <= features[-1] < ids.size:
            raise ModelFileError("a thresholds model has thresholds of unknown features.")
        self.features, self.thresholds = np.array(features), np.array(thresholds)
        self.values, self.feature_ids = np.array(values), np.array(ids)

    def importances(self) -> NDArray[np.float64]:
        """Return the sum of the absolute values of the thresholds of each feature."""
        sums = np.zeros(self.feature_ids.size)
        np.add.at(sums, self.features, np.abs(self.values))
        return sums

    @property
    def density(self) -> float:
        """The share of features with a threshold."""
        return float(np.unique(self.features).size) / max(self.feature_ids.size, 1)
