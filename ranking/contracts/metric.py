"""The contract of a metric: a number per query, and a name that spells its definition out."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from ranking.contracts.part import Part
from ranking.data.judged_lists import JudgedLists


@dataclasses.dataclass
class Metric(Part, ABC):
    """A measure of ranked lists.

    `higher_is_better` orients early stopping and parameter search.
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
        """Return the name with every choice spelled out, as it is printed beside numbers."""

    def mean(self, data: JudgedLists, scores: NDArray[np.float64]) -> float:
        """Return the mean over the queries that are not skipped."""
        values = self.per_query(data, scores)
        kept = values[~np.isnan(values)]
        return float(kept.mean()) if kept.size else float("nan")
