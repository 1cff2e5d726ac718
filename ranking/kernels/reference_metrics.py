"""The reference for measures of ranked lists; see :mod:`ranking.kernels.reference`.

Counts are integers and exact. Sums run in the order of the ranks, from 0.0.
"""

from __future__ import annotations

import dataclasses
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ranking.kernels._old_contract import RELEVANT, Features, Floats, Ints
from ranking.kernels.measures import Kind

NAN = float("nan")


@dataclasses.dataclass(frozen=True)
class Sorted:
    """One list, best first.

    `blocks` are the ranges of places that have equal scores; `lacking` counts the relevant
    documents that the list lacks; `best` are the positive gains of all documents, largest first.
    """

    grades: list[float]
    blocks: list[tuple[int, int]]
    lacking: int
    gains: list[list[float]]
    best: list[list[float]]
    discounts: list[list[float]]

    @property
    def relevant(self) -> list[bool]:
        """Whether the document at each place is relevant."""
        return [grade >= RELEVANT for grade in self.grades]


def rank_lists(
    group_ptr: Ints, scores: Features, order: Ints, tied: NDArray[np.uint8], threads: int
) -> None:
    """Sort each list by score, highest first."""
    for start, stop in pairwise(group_ptr):
        rows = np.argsort(-scores[start:stop], kind="stable") + start
        order[start:stop] = rows
        tied[start : start + 1] = 0
        tied[start + 1 : stop] = scores[rows[1:]] == scores[rows[:-1]]


def ranked_metrics(
    group_ptr: Ints,
    grades: Floats,
    order: Ints,
    tied: NDArray[np.uint8],
    unfound_ptr: Ints,
    unfound_grades: Floats,
    gains: Floats,
    unfound_gains: Floats,
    discounts: Floats,
    measures: Ints,
    out: Floats,
    threads: int,
) -> None:
    """Fill out[q, m] with measure m of list q."""
    found = np.vstack((np.maximum(grades, 0.0), gains))
    unfound = np.vstack((np.maximum(unfound_grades, 0.0), unfound_gains))
    for q in range(group_ptr.size - 1):
        start, stop = group_ptr[q : q + 2].tolist()
        rows = order[start:stop]
        heads = (np.flatnonzero(tied[start + 1 : stop] == 0) + 1).tolist()
        placed = found[:, rows].tolist()
        lost = unfound[:, unfound_ptr[q] : unfound_ptr[q + 1]].tolist()
        one = Sorted(
            grades=grades[rows].tolist(),
            blocks=list(pairwise([0, *heads, stop - start])) if stop > start else [],
            lacking=int((unfound_grades[unfound_ptr[q] : unfound_ptr[q + 1]] >= RELEVANT).sum()),
            gains=placed,
            best=[
                sorted((gain for gain in some + more if gain > 0.0), reverse=True)
                for some, more in zip(placed, lost, strict=True)
            ],
            discounts=discounts.tolist(),
        )
        out[q] = [measure(one, *row) for row in measures.tolist()]


def measure(
    one: Sorted, kind: int, cutoff: int, gain: int, discount: int, shared: int, short: int
) -> float:
    """Return one measure of one list; NaN if there is nothing to measure."""
    if kind in (Kind.NDCG, Kind.MEAN_NDCG):
        placed = share(one.gains[gain], one.blocks) if shared else one.gains[gain]
        if kind == Kind.NDCG:
            return ndcg(placed, one.best[gain], one.discounts[discount], cutoff, short)
        return mean_ndcg(placed, one.best[gain], one.discounts[discount])
    if kind == Kind.PAIR_ERROR:
        return pair_error(one)
    if kind == Kind.DOMINATION_ERROR:
        return domination_error(one)
    if kind in (Kind.AUC, Kind.ALL_PAIRS_ERROR):
        return area(one, kind)
    if kind == Kind.MEAN_RANK:
        return mean_rank(one, shared)
    found = sum(one.relevant)
    relevant = found + one.lacking
    if relevant == 0:
        return NAN
    if kind == Kind.AVERAGE_PRECISION:
        return average_precision(one) / relevant
    if kind == Kind.RECIPROCAL_RANK:
        limit = cutoff or len(one.grades)
        first = one.relevant.index(True) if found else len(one.grades)
        return 1.0 / (first + 1) if found and first < limit else 0.0
    if kind == Kind.R_PRECISION:
        cutoff = relevant
    return hits(one, cutoff, shared) / (relevant if kind == Kind.RECALL else cutoff)


def share(gains: list[float], blocks: list[tuple[int, int]]) -> list[float]:
    """Give each of the tied places the mean of their gains."""
    placed: list[float] = []
    for start, stop in blocks:
        total = 0.0
        for gain in gains[start:stop]:
            total += gain
        placed += [total / (stop - start)] * (stop - start)
    return placed


def ndcg(
    gains: list[float], best: list[float], discounts: list[float], cutoff: int, short: int
) -> float:
    """Discounted gain over the best possible."""
    if not best:
        return NAN
    if short and len(gains) < cutoff:
        return 0.0
    limit = cutoff or len(discounts)
    found = ideal = 0.0
    for gain, discount in zip(gains[:limit], discounts, strict=False):
        found += gain * discount
    for gain, discount in zip(best[:limit], discounts, strict=False):
        ideal += gain * discount
    return found / ideal


def mean_ndcg(gains: list[float], best: list[float], discounts: list[float]) -> float:
    """Average NDCG over all cut-offs of the list."""
    if not best:
        return NAN
    found = ideal = total = 0.0
    for at, gain in enumerate(gains):
        found += gain * discounts[at]
        if at < len(best):
            ideal += best[at] * discounts[at]
        total += found / ideal
    return total / len(gains) if gains else 0.0


def average_precision(one: Sorted) -> float:
    """Add the precisions at the ranks of relevant documents."""
    count, total = 0, 0.0
    for rank, relevant in enumerate(one.relevant, start=1):
        if relevant:
            count += 1
            total += count / rank
    return total


def hits(one: Sorted, cutoff: int, shared: int) -> float:
    """Count the relevant documents of the first places; tied ones in part if ties are shared."""
    if not shared:
        return float(sum(one.relevant[:cutoff]))
    total = 0.0
    for start, stop in one.blocks:
        within = min(stop, cutoff) - start
        if within > 0:
            total += (sum(one.relevant[start:stop]) * within) / (stop - start)
    return total


def mean_rank(one: Sorted, shared: int) -> float:
    """Average the ranks of the relevant documents that were found."""
    count = twice = 0
    for start, stop in one.blocks:
        for at in range(start, stop):
            if one.relevant[at]:
                count += 1
                twice += start + stop + 1 if shared else 2 * (at + 1)
    return twice / (2 * count) if count else NAN


def area(one: Sorted, kind: int) -> float:
    """AUC, or the share of (relevant, not relevant) that are not in this order."""
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
    return (2 * right + tied) / (2 * pairs) if kind == Kind.AUC else (pairs - right) / pairs


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
    """Count dominating documents with one they dominate above or beside them."""
    bottom = min(one.grades, default=0.0)
    lowest = float("inf")
    wrong = dominating = 0
    for start, stop in one.blocks:
        lowest = min([lowest, *one.grades[start:stop]])
        for grade in one.grades[start:stop]:
            dominating += grade > bottom
            wrong += grade > lowest
    return wrong / dominating if dominating else NAN
