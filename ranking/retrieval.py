"""The best documents of each query, without ever holding the scores of all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ranking.contracts.model import MatchingModel
from ranking.data.matching import Matching
from ranking.evaluation.measure import query_blocks
from ranking.kernels.kernel import Kernel


class Top(NamedTuple):
    """The best documents of one query: positions and scores, best first."""

    query: int
    documents: NDArray[np.int64]
    scores: NDArray[np.float64]


def top(
    model: MatchingModel, data: Matching, k: int | None, kernel: Kernel, threads: int = 1
) -> Iterator[Top]:
    """Yield the k best documents of each query, or all; equal scores by document id.

    A query that is a document too is not among its own.
    """
    scorer = model.scorer(data, kernel, threads)
    by_id = np.argsort(np.argsort(data.document_ids, kind="stable"), kind="stable")
    for chosen in query_blocks(data):
        for query, scores in zip(chosen.tolist(), scorer(chosen), strict=True):
            itself = -1 if data.itself is None else int(data.itself[query])
            found = _best(scores, k, itself)
            order = found[np.lexsort((by_id[found], -scores[found]))][:k]
            yield Top(query, order, scores[order])


def _best(scores: NDArray[np.float64], k: int | None, itself: int) -> NDArray[np.int64]:
    """Return the documents that score at least as high as the k-th best, in no order."""
    if itself >= 0:
        scores[itself] = -np.inf
    if k is None or k >= scores.size - (itself >= 0):
        found: NDArray[np.int64] = np.arange(scores.size)
    else:
        found = np.flatnonzero(scores >= np.partition(scores, -k)[-k])
    others: NDArray[np.int64] = found[found != itself]
    return others
