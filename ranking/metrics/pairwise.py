"""Metrics of pairs: is the better document above the worse one? Ties have rules of their own."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from ranking.contracts.parameters import choice
from ranking.kernels.contract import MeasureKind
from ranking.metrics.ranked import EMPTY, SCORES, Measure, RankedMetric


@dataclasses.dataclass
class PairMetric(RankedMetric):
    """A metric of pairs of documents in the list.

    Attributes
    ----------
    empty : {"skip", "zero"}
        What a query without such pairs counts.
    scores : {"float32", "float64"}
        Precision in which scores are compared.
    """

    kind: ClassVar[MeasureKind]

    empty: str = choice("skip", *EMPTY)
    scores: str = choice("float32", *SCORES)

    @property
    def higher_is_better(self) -> bool:
        """False, as these are errors but for AUC."""
        return False

    def measure(self) -> Measure:
        """Return what the kernel computes."""
        return Measure(self.kind, self.empty, self.scores)


@dataclasses.dataclass
class AUC(PairMetric):
    """The share of the pairs (relevant, not relevant) in this order; a tie counts half."""

    name: ClassVar[str] = "auc"
    kind: ClassVar[MeasureKind] = MeasureKind.AUC

    @property
    def higher_is_better(self) -> bool:
        """True."""
        return True


@dataclasses.dataclass
class PairError(PairMetric):
    """The share of the pairs of different grades that are in the wrong order or tied."""

    name: ClassVar[str] = "pair-error"
    kind: ClassVar[MeasureKind] = MeasureKind.PAIR_ERROR


@dataclasses.dataclass
class DominationError(PairMetric):
    """The share of dominating documents that are below, or tied with, one that they dominate.

    A document dominates those of lower grades. Dekel, Manning and Singer (2004) do not count ties.
    """

    name: ClassVar[str] = "domination-error"
    kind: ClassVar[MeasureKind] = MeasureKind.DOMINATION_ERROR


@dataclasses.dataclass
class AllPairsError(PairMetric):
    """The share of the pairs (relevant, not relevant) that are in the wrong order or tied."""

    name: ClassVar[str] = "all-pairs-error"
    kind: ClassVar[MeasureKind] = MeasureKind.ALL_PAIRS_ERROR
