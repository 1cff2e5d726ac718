"""Normalised discounted cumulative gain, as in trec_eval and as in LETOR's script."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from ranking.kernels.contract import MeasureKind
from ranking.metrics.ranked import EMPTY, SCORES, TIES, Measure, RankedMetric


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
    choices: ClassVar[dict[str, tuple[str, ...]]] = {
        "gain": ("linear", "exp2"),
        "discount": ("log2", "letor"),
        "ties": TIES,
        "empty": EMPTY,
        "short": ("keep", "zero"),
        "scores": SCORES,
    }

    k: int | None = None
    gain: str = "linear"
    discount: str = "log2"
    ties: str = "docid"
    empty: str = "zero"
    short: str = "keep"
    scores: str = "float32"

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

    gain: str = "exp2"
    discount: str = "letor"
    ties: str = "file"
    short: str = "zero"
    scores: str = "float64"


@dataclasses.dataclass
class LetorMeanNDCG(RankedMetric):
    """The mean of NDCG@1, NDCG@2, ... to the end of each list: LETOR's MeanNDCG.

    The attributes are those of `NDCG`.
    """

    name: ClassVar[str] = "letor-mean-ndcg"
    choices: ClassVar[dict[str, tuple[str, ...]]] = {
        key: words for key, words in NDCG.choices.items() if key != "short"
    }

    gain: str = "exp2"
    discount: str = "letor"
    ties: str = "file"
    empty: str = "zero"
    scores: str = "float64"

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
