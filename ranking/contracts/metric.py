"""The contract of a metric: one number per query, and a name that states its definition."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ranking.contracts.part import Part

if TYPE_CHECKING:
    from ranking.data.judged_lists import JudgedLists


@dataclasses.dataclass
class Metric(Part, ABC):
    """A measure of the quality of ranked lists.

    `higher_is_better` tells early stopping and parameter search the direction.
    """

    @property
    def higher_is_better(self) -> bool:
        """True for gains, False for errors."""
        return True

    @abstractmethod
    def per_query(self, data: JudgedLists, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return one value per query of `data`, in its order; NaN marks a skipped query."""

    @abstractmethod
    def spelled(self) -> str:
        """Return the full name with all options, as it is printed beside numbers."""

    def mean(self, data: JudgedLists, scores: NDArray[np.float64]) -> float:
        """Return the mean over the queries that are not skipped."""
        values = self.per_query(data, scores)
        values = values[~np.isnan(values)]
        return float(values.mean()) if values.size else float("nan")
