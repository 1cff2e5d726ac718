"""A maximal sum of absolute values for every row."""

from __future__ import annotations

import dataclasses
import warnings
from typing import ClassVar

import numpy as np

from ranking.contracts.parameters import number
from ranking.contracts.regularizer import Array, Granularity, ParameterForm, Regularizer
from ranking_plugins.regularizers.soft import soft


@dataclasses.dataclass
class L1Row(Regularizer):
    """The constraint ``sum |row| <= limit``.

    For the alignment loss it degenerates (Wu, Lu and Li, 2013, appendix A): the maximum puts a
    whole row on one dimension, and the optimum is one dimension for all rows. `l1l2-row` does not.

    Parameters
    ----------
    limit : float
        lambda.
    """

    name: ClassVar[str] = "l1-row"
    granularity: ClassVar[Granularity] = "row"
    forms: ClassVar[frozenset[ParameterForm]] = frozenset({"matrix", "factors"})

    limit: float = number(1.0, above=0.0)

    def _setup(self) -> None:
        self._warned = False

    def penalty(self, parameters: Array) -> float:
        """Return 0 within the limit, up to rounding, else infinity."""
        sums = np.abs(parameters).sum(axis=1)
        return 0.0 if (sums <= self.limit * (1.0 + 1e-5)).all() else float("inf")

    def prox(self, parameters: Array, step: float) -> Array:
        """Return the nearest rows within the limit: each soft-thresholded as far as necessary.

        With the absolute values in decreasing order a_1 >= a_2 >= ... the threshold is the largest
        of (a_1 + ... + a_k - limit) / k, and 0 if the row is within the limit.
        """
        decreasing = -np.sort(-np.abs(parameters), axis=1)
        over = (np.cumsum(decreasing, axis=1) - self.limit) / np.arange(1, decreasing.shape[1] + 1)
        threshold = np.maximum(over.max(axis=1, initial=0.0), 0.0)[:, None]
        return soft(parameters, threshold)

    def prox_by_row(self, parameters: Array, steps: Array) -> Array:
        """Return the same rows: a projection has no step."""
        return self.prox(parameters, 0.0)

    def maximize(self, gain: Array) -> Array:
        """Return rows with the limit at the largest entry of the gain (the first of equal ones)."""
        if not self._warned:
            self._warned = True
            warnings.warn(
                "l1-row alone degenerates: every embedding ends up on one dimension, and finally "
                "all on the same one; use l1l2-row.",
                stacklevel=2,
            )
        best = np.zeros_like(gain)
        rows, columns = np.arange(gain.shape[0]), np.abs(gain).argmax(axis=1)
        best[rows, columns] = self.limit * np.sign(gain[rows, columns])
        return best
