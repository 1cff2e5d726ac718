"""Rank judged rows: the documents of each query by their scores."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ranking.data.judged_lists import JudgedLists
from ranking.inference.results import RankedResults
from ranking.inference.retrieval import TopK


@dataclasses.dataclass(frozen=True)
class _JudgedRetriever:
    data: JudgedLists
    scores: NDArray[np.float64]
    k: int | None

    def __call__(self, queries: NDArray[np.int64] | None) -> Iterator[TopK]:
        """Yield the rows of each query, best first."""
        data, scores = self.data, self.scores
        for query in range(data.n_queries) if queries is None else queries.tolist():
            start, stop = data.group_ptr[query : query + 2].tolist()
            order = np.lexsort((data.doc_ids[start:stop], -scores[start:stop]))[: self.k]
            yield TopK(query, start + order, scores[start + order])


def rank_judged(data: JudgedLists, scores: NDArray[np.float64], k: int | None) -> RankedResults:
    """Return the k best rows of each query, by document id; equal scores by document id.

    Parameters
    ----------
    scores : array
        One per stored row of `data`.
    """
    return RankedResults(data.query_ids, data.doc_ids, _JudgedRetriever(data, scores, k))
