"""Where the relevant documents are: the reciprocal rank of the first, and the mean rank of all."""

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
        Look at the first k places only; by default at all.
    ties : {"docid", "file"}
        See `ranking.metrics.ranked.Measure`.
    empty : {"zero", "skip"}
        What a query without relevant documents counts.
    scores : {"float32", "float64"}
        In which precision scores are compared.
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
        """Return what the kernel is asked for."""
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
        What a query counts that has no relevant document in the list.
    scores : {"float32", "float64"}
        In which precision scores are compared.
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
        """Return what the kernel is asked for."""
        return Measure(MeasureKind.MEAN_RANK, self.empty, self.scores, ties=self.ties)
