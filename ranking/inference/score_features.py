"""MatchingData scores as features: what one model says of a pair, for another ranker to learn from."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ranking.contracts.model import MatchingModel
from ranking.data.judged_lists import JudgedLists
from ranking.data.matching_data import MatchingData
from ranking.errors import DataError
from ranking.metrics.evaluation import query_blocks, refuse_unscorable
from ranking.ranker import Ranker

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def pair_scores(ranker: Ranker, X: Any, queries: Ints, documents: Ints) -> Floats:
    """Return the score of each pair of a query and a document, given by position.

    Parameters
    ----------
    X : MatchingData or TextCollection
    queries, documents : int64 arrays
        One each a pair.
    """
    data = _scorable(ranker, X)
    scorer = cast(MatchingModel, ranker.model_).scorer(data, ranker.kernel_, ranker.threads)
    order = np.argsort(queries, kind="stable")
    found = np.empty(queries.size)
    for block in query_blocks(data):
        first, last = np.searchsorted(queries[order], (block[0], block[-1] + 1))
        pairs = order[first:last]
        if pairs.size:
            asked, place = np.unique(queries[pairs], return_inverse=True)
            found[pairs] = scorer(asked)[place, documents[pairs]]
    return found


def judged_pairs(rankers: Sequence[Ranker], X: Any) -> JudgedLists:
    """Return the judged pairs of some data as rows, with a column for the scores of each ranker."""
    if getattr(X, "relevance", None) is None:
        raise DataError("these data have no judged pairs, only classes; give data with relevance.")
    rows = np.repeat(np.arange(X.n_queries), np.diff(X.relevance.indptr))
    columns = X.relevance.indices.astype(np.int64)
    if not rows.size:
        raise DataError("these data have no judged pairs; give data with relevance.")
    scores = [pair_scores(ranker, X, rows, columns) for ranker in rankers]
    return JudgedLists(
        np.column_stack(scores),
        X.relevance.data,
        _writable("query", X.query_ids)[rows],
        doc_ids=_writable("document", X.document_ids)[columns],
    )


def with_scores(judged: JudgedLists, rankers: Sequence[Ranker], X: Any) -> JudgedLists:
    """Return judged rows with a column more for the scores of each ranker.

    Queries and documents are found in X by their ids, compared as text; a row whose query or
    document is not there is refused.
    """
    rows = _places("query", X.query_ids, judged.query_ids[judged.row_groups])
    columns = _places("document", X.document_ids, judged.doc_ids)
    scores = np.column_stack([pair_scores(ranker, X, rows, columns) for ranker in rankers])
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
    """Return ids as LETOR can write them: a dash for a blank or a #."""
    if ids.dtype.kind != "U":
        return ids
    made = np.array([re.sub(r"[\s#]+", "-", one) for one in ids.tolist()])
    if np.unique(made).size < ids.size:
        raise DataError(
            f"two {what} ids are the same once blanks are dashes, as LETOR needs it; rename one."
        )
    return made


def _places(what: str, have: Any, want: Any) -> Ints:
    """Return the position of each id, or refuse one that is not there."""
    place = {one: at for at, one in enumerate(have.astype(np.str_).tolist())}
    listed = want.astype(np.str_).tolist()
    missing = [one for one in listed if one not in place]
    if missing:
        raise DataError(
            f"{what} {missing[0]!r} of the judged rows is not in the data that are scored; give "
            "data with all queries and documents, under the same ids."
        )
    return np.array([place[one] for one in listed], dtype=np.int64)


def _scorable(ranker: Ranker, X: Any) -> MatchingData:
    data = ranker.described(X)
    refuse_unscorable(ranker.model_, data)
    if isinstance(data, JudgedLists):
        raise DataError("matching scores are of queries and documents, and these are judged rows.")
    return data
