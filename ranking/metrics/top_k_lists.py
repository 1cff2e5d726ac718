"""Metrics with a cut-off from the k best documents of each query, without sorting the others.

A metric whose first k ranks decide, such as recall@20, needs the k best documents and the grades
of the relevant ones that are not among them, just as it is computed for a TREC run of depth k. If
scores are inner products of embeddings, a kernel finds those k without keeping the other scores;
those of other models are computed block by block, and partitioned. Values are equal to those of the
full sort: scores have the same bits, and equal scores are taken in the order that the metric
prescribes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranking.contracts.model import Embedding, MatchingModel
from ranking.data.exclusions import Pairs, contained, exclude_itself, exclusions_at
from ranking.data.matching_data import MatchingData
from ranking.kernels.contract import MeasureKind
from ranking.kernels.kernel import Kernel
from ranking.metrics.ranked import Measure
from ranking.metrics.ranked_lists import ScoredLists, Values, compute_metrics

Ints = NDArray[np.int64]

KINDS = frozenset(
    {
        MeasureKind.NDCG,
        MeasureKind.PRECISION,
        MeasureKind.RECALL,
        MeasureKind.RECIPROCAL_RANK,
    }
)
Source = Embedding | Callable[[Ints], NDArray[np.float64]]
"""Embeddings, or a function from positions of queries to their scores."""

SCORES = 1 << 25
"""Scores that are held in memory at a time."""

BLOCK = 4096
"""Queries whose best documents are found in one kernel call."""
LARGEST = 1e30
"""Embeddings whose inner products stay below this have finite scores."""


def decided_by_top_k(measure: Measure) -> bool:
    """Return whether the first ranks decide a measure, in an order without averages over ties."""
    return measure.kind in KINDS and measure.cutoff > 0 and measure.ties != "average"


def evaluate_top_k(
    model: MatchingModel,
    measures: dict[str, Measure],
    data: MatchingData,
    kernel: Kernel,
    threads: int,
    exclusions: Pairs | None,
) -> Values | None:
    """Compute measures with a cut-off from the best documents of each query.

    Returns
    -------
    dict or None
        None if the measures, the data or the model need all scores.
    """
    if data.labels is not None or not all(map(decided_by_top_k, measures.values())):
        return None
    embedding = model.embedding(data, kernel, threads)
    if embedding is not None and not _bounded(embedding):
        return None
    source = embedding or model.scorer(data, kernel, threads)
    excluded = exclude_itself(data, exclusions)
    values: Values = {}
    for by_id in (False, True):
        names = [name for name in measures if (measures[name].ties == "docid") == by_id]
        if names:
            group = {name: measures[name] for name in names}
            lists = _top_k_lists(source, group, data, kernel, threads, excluded)
            values |= compute_metrics(group, lists, kernel, threads)
    return {name: values[name] for name in measures}


def _bounded(embedding: Embedding) -> bool:
    """Return whether no score can overflow, so that none is infinite or NaN."""
    sides = [np.abs(side).max(initial=0.0) for side in (embedding.queries, embedding.documents)]
    bound = float(sides[0]) * float(sides[1]) * embedding.queries.shape[1]
    return bool(bound < LARGEST and np.abs(embedding.biases).max(initial=0.0) < LARGEST)


def _top_k_lists(
    source: Source,
    measures: dict[str, Measure],
    data: MatchingData,
    kernel: Kernel,
    threads: int,
    excluded: Pairs,
) -> ScoredLists:
    """Return the best documents of each query as lists, with the relevant documents they lack."""
    n = data.n_documents
    # NumPy compares code points, and UTF-8 keeps their order: the order of strcmp.
    id_ranks = np.argsort(np.argsort(data.document_ids.astype(np.str_), kind="stable"))
    by_id = next(iter(measures.values())).ties == "docid"
    order = np.argsort(-id_ranks) if by_id else np.arange(n)
    position = np.empty(n, np.int64)
    position[order] = np.arange(n)
    depth = min(max(measure.cutoff for measure in measures.values()), n)
    scores: NDArray[Any]
    if isinstance(source, Embedding):
        documents, scores = _best(source, order, position, depth, (kernel, threads), excluded)
    else:
        documents, scores = _best_scores(source, order, position, depth, excluded)
    is_document = documents >= 0
    keys = (np.arange(data.n_queries)[:, None] * n + documents)[is_document]
    relevance = data.relevance
    judged = np.repeat(np.arange(data.n_queries), np.diff(relevance.indptr)) * n + relevance.indices
    by_key = np.argsort(judged)
    judged, judged_grades = judged[by_key], relevance.data[by_key].astype(np.float64)
    at = np.searchsorted(judged, keys).clip(max=max(judged.size - 1, 0))
    hit = judged[at] == keys if judged.size else np.zeros(keys.size, np.bool_)
    grades = np.zeros(keys.size)
    grades[hit] = judged_grades[at[hit]]
    pointers, left_out = excluded
    excluded_keys = np.repeat(np.arange(data.n_queries), np.diff(pointers)) * n + left_out
    missing = ~contained(judged, excluded_keys)
    missing[at[hit]] = False
    counts = np.bincount(judged[missing] // n, minlength=data.n_queries)
    return ScoredLists(
        query_ids=data.query_ids,
        group_ptr=np.concatenate(([0], np.cumsum(is_document.sum(axis=1)))),
        grades=grades,
        scores=scores[is_document].astype(np.float64),
        missing_ptr=np.concatenate(([0], np.cumsum(counts))),
        missing_grades=judged_grades[missing],
        id_ranks=lambda rows: id_ranks[keys[rows] % n],
    )


def _best(
    embedding: Embedding,
    order: Ints,
    position: Ints,
    depth: int,
    run: tuple[Kernel, int],
    excluded: Pairs,
) -> tuple[Ints, NDArray[np.float32]]:
    """Return the best documents of each query and their scores; -1 fills short lists."""
    kernel, threads = run
    n_queries = embedding.queries.shape[0]
    columns = np.ascontiguousarray(embedding.documents[order])
    biases = embedding.biases[order] if embedding.biases.size else embedding.biases
    documents = np.empty((n_queries, depth), np.int64)
    scores = np.empty((n_queries, depth), np.float32)
    for start in range(0, n_queries, BLOCK):
        block = np.arange(start, min(start + BLOCK, n_queries))
        best, values = kernel.factored.top_k(
            np.ascontiguousarray(embedding.queries[block]),
            columns,
            biases,
            depth,
            exclusions_at(excluded, block, position),
            threads,
        )
        documents[block] = np.where(best >= 0, order[best], -1)
        scores[block] = values
    return documents, scores


def _best_scores(
    scorer: Callable[[Ints], NDArray[np.float64]],
    order: Ints,
    position: Ints,
    depth: int,
    excluded: Pairs,
) -> tuple[Ints, NDArray[np.float64]]:
    """Return the same from a function that computes scores, by partitioning them."""
    n_queries = excluded[0].size - 1
    documents = np.full((n_queries, depth), -1)
    best_scores = np.zeros((n_queries, depth))
    same = np.array_equal(order, np.arange(order.size))
    size = max(SCORES // order.size, 1)
    for start in range(0, n_queries, size):
        block = np.arange(start, min(start + size, n_queries))
        scores = scorer(block)
        scores = scores if same else scores[:, order]
        pointers, left_out = exclusions_at(excluded, block, position)
        scores[np.repeat(np.arange(block.size), np.diff(pointers)), left_out] = -np.inf
        for query, row in zip(block.tolist(), scores, strict=True):
            least = np.partition(row, row.size - depth)[row.size - depth]
            candidates = np.flatnonzero((row >= least) & (row > -np.inf))
            ranked = candidates[np.argsort(-row[candidates], kind="stable")][:depth]
            documents[query, : ranked.size] = order[ranked]
            best_scores[query, : ranked.size] = row[ranked]
    return documents, best_scores
