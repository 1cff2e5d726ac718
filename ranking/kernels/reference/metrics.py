"""Reference of the metrics family.

Counts are integers and exact. Sums run in the order of the ranks, from 0.0.
"""

from __future__ import annotations

import dataclasses
from itertools import pairwise

import numpy as np

from ranking.kernels.contract import (
    RELEVANT,
    Bytes,
    Features,
    Floats,
    Ints,
    MeasureKind,
    RankedListArrays,
)

NAN = float("nan")


@dataclasses.dataclass(frozen=True)
class Sorted:
    """One list, best first.

    `blocks` are the ranges of ranks with equal scores; `unretrieved` counts the relevant documents
    that are missing from the list; `ideal` are the positive gains of all documents, largest first.
    """

    grades: list[float]
    blocks: list[tuple[int, int]]
    unretrieved: int
    gains: list[list[float]]
    ideal: list[list[float]]
    discounts: list[list[float]]

    @property
    def relevant(self) -> list[bool]:
        """Whether the document at each rank is relevant."""
        return [grade >= RELEVANT for grade in self.grades]


def rank_lists(group_ptr: Ints, scores: Features, order: Ints, tied: Bytes, threads: int) -> None:
    """Sort each list by score, highest first."""
    for start, stop in pairwise(group_ptr):
        rows = np.argsort(-scores[start:stop], kind="stable") + start
        order[start:stop] = rows
        tied[start : start + 1] = 0
        tied[start + 1 : stop] = scores[rows[1:]] == scores[rows[:-1]]


def ranked_metrics(lists: RankedListArrays, measures: Ints, out: Floats, threads: int) -> None:
    """Fill out[q, m] with measure m of list q."""
    gains = np.vstack((np.maximum(lists.grades, 0.0), lists.gains))
    missing_gains = np.vstack((np.maximum(lists.unretrieved_grades, 0.0), lists.unretrieved_gains))
    discounts = lists.discounts.tolist()
    for q in range(lists.group_ptr.size - 1):
        start, stop = lists.group_ptr[q : q + 2].tolist()
        missing = slice(*lists.unretrieved_ptr[q : q + 2].tolist())
        rows = lists.order[start:stop]
        heads = (np.flatnonzero(lists.tied[start + 1 : stop] == 0) + 1).tolist()
        ranked_gains = gains[:, rows].tolist()
        one = Sorted(
            grades=lists.grades[rows].tolist(),
            blocks=list(pairwise([0, *heads, stop - start])) if stop > start else [],
            unretrieved=int((lists.unretrieved_grades[missing] >= RELEVANT).sum()),
            gains=ranked_gains,
            ideal=[
                sorted((gain for gain in some + more if gain > 0.0), reverse=True)
                for some, more in zip(ranked_gains, missing_gains[:, missing].tolist(), strict=True)
            ],
            discounts=discounts,
        )
        out[q] = [measure(one, *row) for row in measures.tolist()]


def measure(
    one: Sorted, kind: int, cutoff: int, gain: int, discount: int, shared: int, short: int
) -> float:
    """Return one measure of one list; NaN if there is nothing to measure."""
    if kind in (MeasureKind.NDCG, MeasureKind.MEAN_NDCG):
        gains = share(one.gains[gain], one.blocks) if shared else one.gains[gain]
        if kind == MeasureKind.NDCG:
            return ndcg(gains, one.ideal[gain], one.discounts[discount], cutoff, short)
        return mean_ndcg(gains, one.ideal[gain], one.discounts[discount])
    if kind == MeasureKind.PAIR_ERROR:
        return pair_error(one)
    if kind == MeasureKind.DOMINATION_ERROR:
        return domination_error(one)
    if kind in (MeasureKind.AUC, MeasureKind.ALL_PAIRS_ERROR):
        return area(one, kind)
    if kind == MeasureKind.MEAN_RANK:
        return mean_rank(one, shared)
    retrieved = sum(one.relevant)
    relevant = retrieved + one.unretrieved
    if relevant == 0:
        return NAN
    if kind == MeasureKind.AVERAGE_PRECISION:
        return average_precision(one) / relevant
    if kind == MeasureKind.RECIPROCAL_RANK:
        limit = cutoff or len(one.grades)
        first = one.relevant.index(True) if retrieved else len(one.grades)
        return 1.0 / (first + 1) if retrieved and first < limit else 0.0
    if kind == MeasureKind.R_PRECISION:
        cutoff = relevant
    return hits(one, cutoff, shared) / (relevant if kind == MeasureKind.RECALL else cutoff)


def share(gains: list[float], blocks: list[tuple[int, int]]) -> list[float]:
    """Give each of the tied ranks the mean of their gains."""
    means: list[float] = []
    for start, stop in blocks:
        total = 0.0
        for gain in gains[start:stop]:
            total += gain
        means += [total / (stop - start)] * (stop - start)
    return means


def ndcg(
    gains: list[float], ideal: list[float], discounts: list[float], cutoff: int, short: int
) -> float:
    """Discounted gain over the best possible."""
    if not ideal:
        return NAN
    if short and len(gains) < cutoff:
        return 0.0
    limit = cutoff or len(discounts)
    dcg = ideal_dcg = 0.0
    for gain, discount in zip(gains[:limit], discounts, strict=False):
        dcg += gain * discount
    for gain, discount in zip(ideal[:limit], discounts, strict=False):
        ideal_dcg += gain * discount
    return dcg / ideal_dcg


def mean_ndcg(gains: list[float], ideal: list[float], discounts: list[float]) -> float:
    """Average NDCG over all cut-offs of the list."""
    if not ideal:
        return NAN
    dcg = ideal_dcg = total = 0.0
    for at, gain in enumerate(gains):
        dcg += gain * discounts[at]
        if at < len(ideal):
            ideal_dcg += ideal[at] * discounts[at]
        total += dcg / ideal_dcg
    return total / len(gains) if gains else 0.0


def average_precision(one: Sorted) -> float:
    """Sum the precisions at the ranks of relevant documents."""
    count, total = 0, 0.0
    for rank, relevant in enumerate(one.relevant, start=1):
        if relevant:
            count += 1
            total += count / rank
    return total


def hits(one: Sorted, cutoff: int, shared: int) -> float:
    """Count the relevant documents of the first ranks; tied ones in part if ties are shared."""
    if not shared:
        return float(sum(one.relevant[:cutoff]))
    total = 0.0
    for start, stop in one.blocks:
        within = min(stop, cutoff) - start
        if within > 0:
            total += (sum(one.relevant[start:stop]) * within) / (stop - start)
    return total


def mean_rank(one: Sorted, shared: int) -> float:
    """Average the ranks of the retrieved relevant documents."""
    count = twice = 0
    for start, stop in one.blocks:
        for at in range(start, stop):
            if one.relevant[at]:
                count += 1
                twice += start + stop + 1 if shared else 2 * (at + 1)
    return twice / (2 * count) if count else NAN


def area(one: Sorted, kind: int) -> float:
    """Return the AUC, or the share of (relevant, not relevant) pairs in the wrong order."""
    right = tied = above = 0
    for start, stop in one.blocks:
        good = sum(one.relevant[start:stop])
        bad = stop - start - good
        right += above * bad
        tied += good * bad
        above += good
    pairs = above * (len(one.grades) - above)
    if pairs == 0:
        return NAN
    return (2 * right + tied) / (2 * pairs) if kind == MeasureKind.AUC else (pairs - right) / pairs


def pair_error(one: Sorted) -> float:
    """Count pairs of different grades in which the higher grade has no higher score."""
    counts: dict[float, int] = dict.fromkeys(one.grades, 0)
    wrong = pairs = 0
    for start, stop in one.blocks:
        for grade in one.grades[start:stop]:
            pairs += sum(count for other, count in counts.items() if other != grade)
            counts[grade] += 1
        for grade in one.grades[start:stop]:
            wrong += sum(count for other, count in counts.items() if other < grade)
    return wrong / pairs if pairs else NAN


def domination_error(one: Sorted) -> float:
    """Count dominating documents that have a dominated one at or above their rank."""
    bottom = min(one.grades, default=0.0)
    lowest = float("inf")
    wrong = dominating = 0
    for start, stop in one.blocks:
        lowest = min([lowest, *one.grades[start:stop]])
        for grade in one.grades[start:stop]:
            dominating += grade > bottom
            wrong += grade > lowest
    return wrong / dominating if dominating else NAN
