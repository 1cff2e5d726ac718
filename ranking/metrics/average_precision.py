"""Average precision, whose mean over the queries is MAP."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np

from ranking.data.judged import Judged
from ranking.metrics.ranked import RELEVANT, Floats, RankedMetric, per_group, rank, ratio


@dataclasses.dataclass
class AveragePrecision(RankedMetric):
    """The mean, over the relevant documents, of the precision at their ranks.

    Attributes
    ----------
    ties : {"docid", "file"}
        See `ranking.metrics.ranked.rank`.
    empty : {"zero", "skip"}
        What a query without relevant documents counts.
    scores : {"float32", "float64"}
        In which precision scores are compared.
    """

    name: ClassVar[str] = "map"
    choices: ClassVar[dict[str, tuple[str, ...]]] = {
        "ties": ("docid", "file"),
        "empty": ("zero", "skip"),
        "scores": ("float32", "float64"),
    }

    ties: str = "docid"
    empty: str = "zero"
    scores: str = "float32"

    def per_query(self, data: Judged, scores: Floats) -> Floats:
        """Return average precision for each query."""
        ranking = rank(data, scores, self.ties, self.scores)
        relevant = (data.grades >= RELEVANT)[ranking.rows]
        running = np.concatenate(([0], np.cumsum(relevant)))
        before = running[data.group_ptr]
        hits = running[1:] - before[data.row_groups]
        total = per_group(data, np.where(relevant, hits / ranking.ranks, 0.0))
        return ratio(total, np.diff(before), self.empty)


@dataclasses.dataclass
class LetorAveragePrecision(AveragePrecision):
    """Average precision as LETOR's own evaluation script computes it: ties in file order."""

    name: ClassVar[str] = "letor-map"

    ties: str = "file"
    scores: str = "float64"
