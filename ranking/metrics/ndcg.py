"""Normalised discounted cumulative gain, as in trec_eval and as in LETOR's script."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np

from ranking.data.judged import Judged
from ranking.errors import DataError
from ranking.metrics.ranked import Floats, Ints, RankedMetric, per_group, rank, ratio


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
        See `ranking.metrics.ranked.rank`.
    empty : {"zero", "skip"}
        What a query counts in which nothing gains.
    short : {"keep", "zero"}
        ``"zero"``: a query with fewer than k documents counts 0.
    scores : {"float32", "float64"}
        In which precision scores are compared.
    """

    name: ClassVar[str] = "ndcg"
    choices: ClassVar[dict[str, tuple[str, ...]]] = {
        "gain": ("linear", "exp2"),
        "discount": ("log2", "letor"),
        "ties": ("docid", "file", "average"),
        "empty": ("zero", "skip"),
        "short": ("keep", "zero"),
        "scores": ("float32", "float64"),
    }

    k: int | None = None
    gain: str = "linear"
    discount: str = "log2"
    ties: str = "docid"
    empty: str = "zero"
    short: str = "keep"
    scores: str = "float32"

    def per_query(self, data: Judged, scores: Floats) -> Floats:
        """Return NDCG for each query."""
        ranking = rank(data, scores, self.ties, self.scores)
        gains = _gains(data, self.gain)
        discounts = _discounts(ranking.ranks, self.discount)
        if self.k is not None:
            discounts[ranking.ranks > self.k] = 0.0
        found = per_group(data, ranking.along(gains) * discounts)
        ideal = per_group(data, _best_first(data, gains) * discounts)
        if self.k is not None and self.short == "zero":
            found[np.diff(data.group_ptr) < self.k] = 0.0
        return ratio(found, ideal, self.empty)


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

    def per_query(self, data: Judged, scores: Floats) -> Floats:
        """Return the mean NDCG for each query."""
        ranking = rank(data, scores, self.ties, self.scores)
        gains = _gains(data, self.gain)
        discounts = _discounts(ranking.ranks, self.discount)
        found = ranking.along(gains) * discounts
        ideal = _best_first(data, gains) * discounts
        # Running sums over the flat arrays would carry rounding from one query into the next.
        return np.array(
            [
                ratio(np.cumsum(found[start:stop]), np.cumsum(ideal[start:stop]), self.empty).mean()
                for start, stop in zip(data.group_ptr[:-1], data.group_ptr[1:], strict=True)
            ]
        )


def _gains(data: Judged, gain: str) -> Floats:
    grades = np.maximum(data.grades, 0.0)
    with np.errstate(over="ignore"):
        gains = grades if gain == "linear" else np.exp2(grades) - 1.0
        totals = per_group(data, gains)
    if not np.isfinite(totals).all():
        query = int(np.argmin(np.isfinite(totals)))
        largest = data.grades[data.group_ptr[query] : data.group_ptr[query + 1]].max()
        raise DataError(
            f"query {data.query_ids[query]} has grade {largest:g}, whose gain is beyond float64 "
            f"with gain={gain}; use gain=linear or smaller grades."
        )
    return gains


def _discounts(ranks: Ints, discount: str) -> Floats:
    return 1.0 / np.log2(ranks + 1 if discount == "log2" else np.maximum(ranks, 2))


def _best_first(data: Judged, gains: Floats) -> Floats:
    return gains[np.lexsort((-gains, data.row_groups))]
