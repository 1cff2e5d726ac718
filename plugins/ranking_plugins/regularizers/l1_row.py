"""A largest sum of absolute values for every row."""

from __future__ import annotations

import dataclasses
import warnings
from typing import ClassVar

import numpy as np

from ranking.contracts.regularizer import Array, Granularity, Regularizer
from ranking_plugins.regularizers.soft import soft
from ranking_plugins.regularizers.strength import check_limit


@dataclasses.dataclass
class L1Row(Regularizer):
    """The constraint ``sum |row| <= limit``.

    For alignment it degenerates (Wu, Lu and Li, 2013, appendix A): the maximum puts a whole row
    on one dimension, and the best of all is one dimension for all rows. `l1l2-row` does not.

    Parameters
    ----------
    limit : float
        lambda.
    """

    name: ClassVar[str] = "l1-row"
    granularity: ClassVar[Granularity] = "row"
    proximal: ClassVar[frozenset[str]] = frozenset({"matrix", "factors"})
    bounded: ClassVar[bool] = True

    limit: float = 1.0

    def __post_init__(self) -> None:
        """Check the limit."""
        check_limit(self.name, self.limit)
        self._warned = False

    def penalty(self, parameters: Array) -> float:
        """Return 0 within the limit, up to rounding, else infinity."""
        sums = np.abs(parameters).sum(axis=1)
        return 0.0 if (sums <= self.limit * (1.0 + 1e-5)).all() else float("inf")

    def prox(self, parameters: Array, step: float) -> Array:
        """Return the nearest rows within the limit: each soft-thresholded as far as it needs.

        With the absolute values in falling order, a_1 >= a_2 >= ..., the threshold is the largest
        of (a_1 + ... + a_k - limit) / k, and 0 if the row is within the limit.
        """
        falling = -np.sort(-np.abs(parameters), axis=1)
        over = (np.cumsum(falling, axis=1) - self.limit) / np.arange(1, falling.shape[1] + 1)
        threshold = np.maximum(over.max(axis=1, initial=0.0), 0.0)[:, None]
        return soft(parameters, threshold)

    def maximize(self, gain: Array) -> Array:
        """Return rows with the limit at the largest entry of the gain, the first of equals."""
        if not self._warned:
            self._warned = True
            warnings.warn(
                "l1-row alone degenerates: every vector comes to lie on one dimension, and in the "
                "end all on the same; take l1l2-row.",
                stacklevel=2,
            )
        best = np.zeros_like(gain)
        rows, places = np.arange(gain.shape[0]), np.abs(gain).argmax(axis=1)
        best[rows, places] = self.limit * np.sign(gain[rows, places])
        return best
