"""Average precision, whose mean over the queries is MAP."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from ranking.contracts.parameters import choice
from ranking.kernels.contract import MeasureKind
from ranking.metrics.ranked import EMPTY, ORDERS, SCORES, Measure, RankedMetric


@dataclasses.dataclass
class AveragePrecision(RankedMetric):
    """The mean, over the relevant documents, of the precision at their ranks.

    Attributes
    ----------
    ties : {"docid", "file"}
        See `ranking.metrics.ranked.Measure`.
    empty : {"zero", "skip"}
        Value of a query without relevant documents: 0, or left out.
    scores : {"float32", "float64"}
        Precision in which scores are compared.
    """

    name: ClassVar[str] = "map"

    ties: str = choice("docid", *ORDERS)
    empty: str = choice("zero", *EMPTY)
    scores: str = choice("float32", *SCORES)

    def measure(self) -> Measure:
        """Return what the kernel computes."""
        return Measure(MeasureKind.AVERAGE_PRECISION, self.empty, self.scores, ties=self.ties)


@dataclasses.dataclass
class LetorAveragePrecision(AveragePrecision):
    """Average precision as LETOR's own evaluation script computes it: ties in file order."""

    name: ClassVar[str] = "letor-map"

    ties: str = choice("file", *ORDERS)
    scores: str = choice("float64", *SCORES)
