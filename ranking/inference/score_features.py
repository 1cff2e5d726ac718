"""Scores as features: what a model scores a pair becomes a feature of another ranker."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ranking.contracts.model import MatchingModel
from ranking.data.judged_lists import JudgedLists
from ranking.data.matching_data import MatchingData
from ranking.errors import DataError
from ranking.kernels.kernel import Kernel
from ranking.metrics.evaluation import query_blocks

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class PairScorer(Protocol):
    """What scores pairs of queries and documents: a fitted `Ranker`."""

    def score_pairs(self, X: Any, queries: Ints, documents: Ints) -> Floats:
        """Return the score of each pair, given by positions in X."""


def pair_scores(
    model: MatchingModel,
    data: MatchingData,
    queries: Ints,
    documents: Ints,
    kernel: Kernel,
    threads: int = 1,
) -> Floats:
    """Return the score of each pair of a query and a document, given by position."""
    scorer = model.scorer(data, kernel, threads)
    order = np.argsort(queries, kind="stable")
    scores = np.empty(queries.size)
    for block in query_blocks(data):
        first, last = np.searchsorted(queries[order], (block[0], block[-1] + 1))
        pairs = order[first:last]
        if pairs.size:
            unique_queries, row = np.unique(queries[pairs], return_inverse=True)
            scores[pairs] = scorer(unique_queries)[row, documents[pairs]]
    return scores


def scores_as_features(
    rankers: Sequence[PairScorer],
    X: Any,
    append_to: JudgedLists | None = None,
    *,
    candidates: int = 0,
) -> JudgedLists:
    """Return judged rows with one column per ranker for the scores of their pairs.

    Parameters
    ----------
    rankers : sequence of Ranker
        Fitted on queries and documents.
    X : MatchingData or TextCollection
        The queries and documents to score.
    append_to : JudgedLists, optional
        Rows that get the scores as new columns; their queries and documents are found in X by id,
        compared as text. By default the rows are the judged pairs of X.
    candidates : int
        How many of the best documents of each query by the first ranker are rows too, with grade 0
        if they are not judged.
    """
    if append_to is None:
        return judged_pairs(rankers, X, candidates)
    if candidates:
        raise DataError("append_to has the rows already; leave candidates out.")
    return with_scores(append_to, rankers, X)


def judged_pairs(rankers: Sequence[PairScorer], X: Any, candidates: int = 0) -> JudgedLists:
    """Return the judged pairs of some data as rows, with one column per ranker for the scores.

    Parameters
    ----------
    rankers, X, candidates
        As in `scores_as_features`.
    """
    rows, columns, grades = _judged(X)
    if candidates:
        rows, columns, grades = _with_candidates(rankers[0], X, candidates)
    scores = [ranker.score_pairs(X, rows, columns) for ranker in rankers]
    return _as_rows(X, (rows, columns, grades), scores)


def scored_pairs(
    model: MatchingModel, data: MatchingData, kernel: Kernel, threads: int = 1
) -> tuple[JudgedLists, Floats]:
    """Return the judged pairs of some data as rows, and the score of each stored row."""
    rows, columns, grades = _judged(data)
    scores = pair_scores(model, data, rows, columns, kernel, threads)
    lists = _as_rows(data, (rows, columns, grades), [scores])
    return lists, np.asarray(lists.features[:, 0], np.float64)


def _judged(X: Any) -> tuple[Ints, Ints, Floats]:
    """Return the positions and the grades of the judged pairs."""
    if getattr(X, "relevance", None) is None:
        raise DataError("these data have no judged pairs, only classes; give data with relevance.")
    rows = np.repeat(np.arange(X.n_queries), np.diff(X.relevance.indptr))
    if not rows.size:
        raise DataError("these data have no judged pairs; give data with relevance.")
    return rows, X.relevance.indices.astype(np.int64), X.relevance.data


def _as_rows(X: Any, pairs: tuple[Ints, Ints, Floats], scores: Sequence[Floats]) -> JudgedLists:
    """Return pairs of positions as judged rows, with one column per ranker for the scores."""
    rows, columns, grades = pairs
    return JudgedLists(
        np.column_stack(scores),
        grades,
        _writable("query", X.query_ids)[rows],
        doc_ids=_writable("document", X.document_ids)[columns],
    )


def _with_candidates(ranker: Any, X: Any, count: int) -> tuple[Ints, Ints, Floats]:
    """Return the judged pairs and the best documents of judged queries, and their grades."""
    judged = np.flatnonzero(np.diff(X.relevance.indptr))
    place = {one: at for at, one in enumerate(X.document_ids.tolist())}
    row_of = {one: at for at, one in enumerate(X.query_ids.tolist())}
    entries = sparse.coo_array(X.relevance)
    pairs_of = zip(*(column.tolist() for column in entries.coords), strict=True)
    graded = dict(zip(pairs_of, entries.data.tolist(), strict=True))
    for query, documents in ranker.rank(X.select(judged), count):
        for document, _ in documents:
            graded.setdefault((row_of[query], place[document]), 0.0)
    pairs = np.array(sorted(graded), dtype=np.int64)
    grades = np.array([graded[row, column] for row, column in pairs.tolist()])
    return pairs[:, 0], pairs[:, 1], grades


def with_scores(judged: JudgedLists, rankers: Sequence[PairScorer], X: Any) -> JudgedLists:
    """Return judged rows with one more column per ranker for the scores.

    Queries and documents are found in X by id, compared as text; a row whose query or document is
    not there is refused.
    """
    rows = _positions("query", X.query_ids, judged.query_ids[judged.row_groups])
    columns = _positions("document", X.document_ids, judged.doc_ids)
    scores = np.column_stack([ranker.score_pairs(X, rows, columns) for ranker in rankers])
    first = int(judged.feature_ids.max()) + 1
    stack = sparse.hstack if sparse.issparse(judged.features) else np.hstack
    features = stack([judged.features, scores.astype(judged.features.dtype)])
    return JudgedLists(
        sparse.csr_array(features) if sparse.issparse(features) else features,
        judged.grades,
        judged.query_ids[judged.row_groups],
        doc_ids=judged.doc_ids,
        feature_ids=np.concatenate((judged.feature_ids, np.arange(first, first + len(rankers)))),
    )


def _writable(what: str, ids: Any) -> Any:
    """Return ids as LETOR can write them: a hyphen for a blank or a #."""
    if ids.dtype.kind != "U":
        return ids
    words = np.array([re.sub(r"[\s#]+", "-", one) for one in ids.tolist()])
    if np.unique(words).size < ids.size:
        raise DataError(
            f"two {what} ids are equal when blanks are written as hyphens, as LETOR requires; "
            "rename one."
        )
    return words


def _positions(what: str, known: Any, ids: Any) -> Ints:
    """Return the position of each id, or refuse one that is not there."""
    position = {one: at for at, one in enumerate(known.astype(np.str_).tolist())}
    names = ids.astype(np.str_).tolist()
    missing = [one for one in names if one not in position]
    if missing:
        raise DataError(
            f"{what} {missing[0]!r} of the judged rows is not in the data that are scored; give "
            "data with all queries and documents, under the same ids."
        )
    return np.array([position[one] for one in names], dtype=np.int64)
