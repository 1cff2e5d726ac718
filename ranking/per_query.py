"""One weight vector per query or label, trained in parallel; together they are one model."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import numpy as np
import scipy.sparse as sp
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.base import clone

from ranking.contracts.recipe import Search
from ranking.data.judged import Judged
from ranking.data.matching import Matching
from ranking.errors import DataError
from ranking.models.bilinear import Bilinear
from ranking.models.linear import Linear
from ranking.ranker import Ranker
from ranking.search import fit_path


@dataclasses.dataclass(frozen=True)
class Report:
    """What became of one query.

    Attributes
    ----------
    query : int or str
        Its id.
    problem : str
        Why it has no weights, or nothing.
    relevant : int
        Documents that match it.
    facts : dict
        Of its training: ``epochs``, ``objective``, ``stopped``, ``seconds``, ``nonzero``, and the
        parameters that a search chose.
    """

    query: Any
    problem: str
    relevant: int
    facts: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class PerQuery:
    """A model of one weight vector a query, and a report for each.

    Attributes
    ----------
    model : Bilinear
        W has a row a query, whose one feature is itself: the form that
        ``Matching(None, documents, ...)`` has.
    reports : list of Report
        In the order of the queries.
    """

    model: Bilinear
    reports: list[Report]

    @property
    def problems(self) -> dict[Any, str]:
        """The queries without weights, and why."""
        return {report.query: report.problem for report in self.reports if report.problem}


def fit_per_query(
    ranker: Ranker,
    data: Matching,
    *,
    valid: Matching | None = None,
    search: Search | None = None,
    jobs: int = 1,
) -> PerQuery:
    """Train a linear model of the documents for each query.

    Every query ranks all documents; those that match it come first. A query that no document
    matches, or every one, is reported, and has no weights. The result does not depend on `jobs`.

    Parameters
    ----------
    ranker : Ranker
        Its parts train each model; it is not changed.
    data : Matching
        Features of queries are not looked at.
    valid : Matching, optional
        The same queries with other documents, for `search`.
    search : Search, optional
        Chooses parameters for each query by itself.
    jobs : int
        Processes; see joblib, whose ``parallel_config`` chooses another way to share the work.

    Examples
    --------
    >>> from ranking import Matching, Ranker
    >>> topics = Matching(None, [[1, 0], [0, 1], [1, 1]], [[1, 0, 1], [0, 1, 0], [0, 0, 0]])
    >>> found = fit_per_query(Ranker(loss="domination", regularizer="l2"), topics)
    >>> found.problems
    {2: 'no document matches it'}
    """
    if (valid is None) != (search is None):
        raise DataError("a search needs validation data, and those are for a search; give both.")
    if valid is not None and not np.array_equal(valid.query_ids, data.query_ids):
        raise DataError("the validation data have other queries; give the same, in the same order.")
    # A job takes several queries, so that the documents travel once.
    shares = np.array_split(np.arange(data.n_queries), min(4 * jobs, data.n_queries))
    shares = [np.arange(data.n_queries)] if jobs == 1 else shares
    documents = data.document_rows
    held_out = None if valid is None else valid.document_rows
    done = Parallel(n_jobs=jobs)(
        delayed(_fit_share)(
            clone(ranker),
            documents,
            [_grades(data, query) for query in share.tolist()],
            held_out,
            [] if valid is None else [_grades(valid, query) for query in share.tolist()],
            search,
        )
        for share in shares
    )
    fitted = [one for share in done for one in share]
    reports = [
        Report(query, problem, int(count), facts)
        for query, count, (_, problem, facts) in zip(
            data.query_ids.tolist(), data.n_relevant.tolist(), fitted, strict=True
        )
    ]
    return PerQuery(_joined(data, [weights for weights, _, _ in fitted]), reports)


Fitted = tuple[sp.csr_array, str, dict[str, Any]]
Grades = NDArray[np.float64]


def _grades(data: Matching, query: int) -> Grades:
    """Return the grade of each document: what relevance says, or 1 for the same label."""
    grades = np.zeros(data.n_documents)
    relevant = data.relevant(query)
    if data.labels is not None:
        grades[relevant] = 1.0
    else:
        row = data.relevance[[query]]
        grades[row.indices] = row.data
    return grades


def _fit_share(
    ranker: Ranker,
    documents: sp.csr_array,
    grades: list[Grades],
    held_out: sp.csr_array | None,
    held_out_grades: list[Grades],
    search: Search | None,
) -> list[Fitted]:
    fitted = []
    for number, own in enumerate(grades):
        valid = None
        if held_out is not None:
            valid = _judged(held_out, held_out_grades[number])
        fitted.append(_fit_one(ranker, _judged(documents, own), valid, search))
    return fitted


def _judged(documents: sp.csr_array, grades: Grades) -> Judged:
    return Judged(documents, grades, np.zeros(grades.size, np.int64))


def _fit_one(ranker: Ranker, data: Judged, valid: Judged | None, search: Search | None) -> Fitted:
    nothing = sp.csr_array((1, data.n_features))
    if not (data.grades > 0).any():
        return nothing, "no document matches it", {}
    if np.ptp(data.grades) == 0.0:
        return nothing, "every document matches it alike", {}
    if valid is not None and not (valid.grades > 0).any():
        return nothing, "no document of the validation data matches it", {}
    started = time.perf_counter()
    chosen: dict[str, Any] = {}
    if search is None or valid is None:
        ranker.fit(data)
    else:
        found = fit_path(ranker, search, data, valid)
        chosen = {c.parameter: c.value for c in search.trials()[found.best]}
    model = ranker.model_
    if not isinstance(model, Linear):
        raise DataError(f"one model per query is linear, and the ranker's is {model.name!r}.")
    facts = {
        **chosen,
        "epochs": ranker.n_iter_,
        "objective": ranker.objective_,
        "stopped": ranker.stopped_,
        "seconds": time.perf_counter() - started,
        "nonzero": int(np.count_nonzero(model.weights)),
    }
    return sp.csr_array(model.weights[None, :]), "", facts


def _joined(data: Matching, rows: list[sp.csr_array]) -> Bilinear:
    model = Bilinear(initial="zero", dtype="float64")
    model.query_feature_ids = data.query_ids.copy()
    model.document_feature_ids = data.document_feature_ids.copy()
    model.weights = sp.csr_array(sp.vstack(rows))
    return model
