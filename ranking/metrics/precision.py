"""Precision at k."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np

from ranking.data.judged import Judged
from ranking.metrics.ranked import RELEVANT, Floats, RankedMetric, per_group, rank


@dataclasses.dataclass
class Precision(RankedMetric):
    """The relevant documents among the first k, divided by k even where there are fewer.

    Attributes
    ----------
    k : int
        The cut-off.
    ties : {"docid", "file", "average"}
        See `ranking.metrics.ranked.rank`.
    empty : {"zero", "skip"}
        What a query without relevant documents counts.
    scores : {"float32", "float64"}
        In which precision scores are compared.
    """

    name: ClassVar[str] = "p"
    choices: ClassVar[dict[str, tuple[str, ...]]] = {
        "ties": ("docid", "file", "average"),
        "empty": ("zero", "skip"),
        "scores": ("float32", "float64"),
    }

    k: int
    ties: str = "docid"
    empty: str = "zero"
    scores: str = "float32"

    def per_query(self, data: Judged, scores: Floats) -> Floats:
        """Return precision for each query."""
        ranking = rank(data, scores, self.ties, self.scores)
        relevant = (data.grades >= RELEVANT).astype(np.float64)
        found = per_group(data, ranking.along(relevant) * (ranking.ranks <= self.k))
        values: Floats = found / self.k
        if self.empty == "skip":
            values[per_group(data, relevant) == 0] = np.nan
        return values


@dataclasses.dataclass
class LetorPrecision(Precision):
    """Precision as LETOR's own evaluation script computes it: ties in file order."""

    name: ClassVar[str] = "letor-p"

    ties: str = "file"
    scores: str = "float64"
