"""Precision and recall at k, and R-precision."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from ranking.contracts.parameters import choice, integer
from ranking.kernels.contract import MeasureKind
from ranking.metrics.ranked import EMPTY, SCORES, TIES, Measure, RankedMetric


@dataclasses.dataclass
class Precision(RankedMetric):
    """The relevant documents among the first k, divided by k even where there are fewer.

    Attributes
    ----------
    k : int
        The cut-off.
    ties : {"docid", "file", "average"}
        See `ranking.metrics.ranked.Measure`.
    empty : {"zero", "skip"}
        Value of a query without relevant documents: 0, or left out.
    scores : {"float32", "float64"}
        Precision in which scores are compared.
    """

    name: ClassVar[str] = "p"

    k: int = integer(minimum=1)
    ties: str = choice("docid", *TIES)
    empty: str = choice("zero", *EMPTY)
    scores: str = choice("float32", *SCORES)

    def measure(self) -> Measure:
        """Return what the kernel computes."""
        return Measure(
            MeasureKind.PRECISION, self.empty, self.scores, ties=self.ties, cutoff=self.k
        )


@dataclasses.dataclass
class LetorPrecision(Precision):
    """Precision as LETOR's own evaluation script computes it: ties in file order."""

    name: ClassVar[str] = "letor-p"

    ties: str = choice("file", *TIES)
    scores: str = choice("float64", *SCORES)


@dataclasses.dataclass
class Recall(Precision):
    """The relevant documents among the first k, divided by all that are relevant."""

    name: ClassVar[str] = "recall"

    def measure(self) -> Measure:
        """Return what the kernel computes."""
        return super().measure()._replace(kind=MeasureKind.RECALL)


@dataclasses.dataclass
class RPrecision(RankedMetric):
    """Precision at R, the number of relevant documents. The attributes are those of `Precision`."""

    name: ClassVar[str] = "r-precision"

    ties: str = choice("docid", *TIES)
    empty: str = choice("zero", *EMPTY)
    scores: str = choice("float32", *SCORES)

    def measure(self) -> Measure:
        """Return what the kernel computes."""
        return Measure(MeasureKind.R_PRECISION, self.empty, self.scores, ties=self.ties)
