"""Ranks of the relevant documents: reciprocal rank of the first, and mean rank of all."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

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
    choices: ClassVar[dict[str, tuple[str, ...]]] = {
        "ties": ORDERS,
        "empty": EMPTY,
        "scores": SCORES,
    }

    k: int | None = None
    ties: str = "docid"
    empty: str = "zero"
    scores: str = "float32"

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
    choices: ClassVar[dict[str, tuple[str, ...]]] = {
        "ties": TIES,
        "empty": EMPTY,
        "scores": SCORES,
    }

    ties: str = "docid"
    empty: str = "skip"
    scores: str = "float32"

    @property
    def higher_is_better(self) -> bool:
        """False: rank 1 is the best."""
        return False

    def measure(self) -> Measure:
        """Return what the kernel computes."""
        return Measure(MeasureKind.MEAN_RANK, self.empty, self.scores, ties=self.ties)
