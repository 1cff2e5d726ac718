"""Ranks of the relevant documents: reciprocal rank of the first, and mean rank of all."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from ranking.contracts.parameters import choice, integer
from ranking.kernels.contract import MeasureKind
from ranking.metrics.ranked import EMPTY, ORDERS, SCORES, TIES, Measure, RankedMetric


@dataclasses.dataclass
class ReciprocalRank(RankedMetric):
    """One over the rank of the first relevant document, 0 if there is none within k.

    Attributes
    ----------
    k : int, optional
        Cut-off; by default all ranks.
    ties : {"docid", "file"}
        See `ranking.metrics.ranked.Measure`.
    empty : {"zero", "skip"}
        Value of a query without relevant documents: 0, or left out.
    scores : {"float32", "float64"}
        Precision in which scores are compared.
    """

    name: ClassVar[str] = "mrr"

    k: int | None = integer(None, minimum=1)
    ties: str = choice("docid", *ORDERS)
    empty: str = choice("zero", *EMPTY)
    scores: str = choice("float32", *SCORES)

    def measure(self) -> Measure:
        """Return what the kernel computes."""
        return Measure(
            MeasureKind.RECIPROCAL_RANK, self.empty, self.scores, ties=self.ties, cutoff=self.k or 0
        )


@dataclasses.dataclass
class MeanRank(RankedMetric):
    """The mean rank of the relevant documents that are in the list.

    Attributes
    ----------
    ties : {"docid", "file", "average"}
        See `ranking.metrics.ranked.Measure`.
    empty : {"skip", "zero"}
        Value of a query without relevant documents in the list: left out, or 0.
    scores : {"float32", "float64"}
        Precision in which scores are compared.
    """

    name: ClassVar[str] = "mean-rank"

    ties: str = choice("docid", *TIES)
    empty: str = choice("skip", *EMPTY)
    scores: str = choice("float32", *SCORES)

    @property
    def higher_is_better(self) -> bool:
        """False: rank 1 is the best."""
        return False

    def measure(self) -> Measure:
        """Return what the kernel computes."""
        return Measure(MeasureKind.MEAN_RANK, self.empty, self.scores, ties=self.ties)
