"""Normalised discounted cumulative gain, as in trec_eval and as in LETOR's script."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from ranking.contracts.parameters import choice, integer
from ranking.kernels.contract import MeasureKind
from ranking.metrics.ranked import EMPTY, SCORES, TIES, Measure, RankedMetric

GAINS = ("linear", "exp2")
DISCOUNTS = ("log2", "letor")
SHORT = ("keep", "zero")


@dataclasses.dataclass
class NDCG(RankedMetric):
    """The discounted gain of a list over that of the best list of the same documents.

    A negative grade gains nothing.

    Attributes
    ----------
    k : int, optional
        Count the first k places only; by default all.
    gain : {"linear", "exp2"}
        The grade itself, or ``2**grade - 1``.
    discount : {"log2", "letor"}
        ``1 / log2(rank + 1)``; or LETOR's, which is 1 for ranks 1 *and* 2 and ``1 / log2(rank)``
        from rank 3 on.
    ties : {"docid", "file", "average"}
        See `ranking.metrics.ranked.Measure`.
    empty : {"zero", "skip"}
        What a query counts in which nothing gains.
    short : {"keep", "zero"}
        ``"zero"``: a query with fewer than k documents counts 0.
    scores : {"float32", "float64"}
        Precision in which scores are compared.
    """

    name: ClassVar[str] = "ndcg"

    k: int | None = integer(None, minimum=1)
    gain: str = choice("linear", *GAINS)
    discount: str = choice("log2", *DISCOUNTS)
    ties: str = choice("docid", *TIES)
    empty: str = choice("zero", *EMPTY)
    short: str = choice("keep", *SHORT)
    scores: str = choice("float32", *SCORES)

    def measure(self) -> Measure:
        """Return what the kernel computes."""
        return Measure(
            MeasureKind.NDCG,
            self.empty,
            self.scores,
            ties=self.ties,
            cutoff=self.k or 0,
            gain=self.gain,
            discount=self.discount,
            short=self.short == "zero",
        )


@dataclasses.dataclass
class LetorNDCG(NDCG):
    """NDCG as LETOR's own evaluation script (3.0 and 4.0) computes it.

    Gain ``2**grade - 1``; discount 1, 1, 1/log2(3), 1/log2(4), ..., which is not the
    ``1 / log2(rank + 1)`` of most papers; ties in the order of the file. The script's list of
    values ends with the list of documents, so that a query with fewer than k of them counts 0.
    """

    name: ClassVar[str] = "letor-ndcg"

    gain: str = choice("exp2", *GAINS)
    discount: str = choice("letor", *DISCOUNTS)
    ties: str = choice("file", *TIES)
    short: str = choice("zero", *SHORT)
    scores: str = choice("float64", *SCORES)


@dataclasses.dataclass
class LetorMeanNDCG(RankedMetric):
    """The mean of NDCG@1, NDCG@2, ... to the end of each list: LETOR's MeanNDCG.

    The attributes are those of `NDCG`.
    """

    name: ClassVar[str] = "letor-mean-ndcg"

    gain: str = choice("exp2", *GAINS)
    discount: str = choice("letor", *DISCOUNTS)
    ties: str = choice("file", *TIES)
    empty: str = choice("zero", *EMPTY)
    scores: str = choice("float64", *SCORES)

    def measure(self) -> Measure:
        """Return what the kernel computes."""
        return Measure(
            MeasureKind.MEAN_NDCG,
            self.empty,
            self.scores,
            ties=self.ties,
            gain=self.gain,
            discount=self.discount,
        )
