"""One weight vector per query or label, trained in parallel; together they are one model."""

from __future__ import annotations

import copy
import dataclasses
import time
from typing import Any

import numpy as np
import scipy.sparse as sp
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.base import clone

from ranking.contracts.recipe import Search
from ranking.data.judged_lists import JudgedLists
from ranking.data.matching_data import MatchingData
from ranking.errors import DataError
from ranking.kernels.select import get_kernel
from ranking.models.bilinear import Bilinear
from ranking.models.linear import Linear
from ranking.ranker import Ranker
from ranking.training.search import fit_path


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

    def row(self) -> dict[str, Any]:
        """Return what does not change from one training to the next: all but the seconds."""
        facts = {name: value for name, value in self.facts.items() if name != "seconds"}
        return {"query": self.query, "problem": self.problem, "relevant": self.relevant, **facts}


@dataclasses.dataclass(frozen=True)
class PerQuery:
    """A model of one weight vector a query, and a report for each.

    Attributes
    ----------
    model : Bilinear
        W has a row a query, whose one feature is itself: the form that
        ``MatchingData(None, documents, ...)`` has.
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
    data: MatchingData,
    *,
    valid: MatchingData | None = None,
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
    data : MatchingData
        Features of queries are not looked at.
    valid : MatchingData, optional
        The same queries with other documents, for `search`.
    search : Search, optional
        Chooses parameters for each query by itself.
    jobs : int
        Threads, each with a query at a time; the kernels release the GIL. With several, a query
        has one thread, whatever the ranker says. joblib's ``parallel_config`` chooses another way
        to share the work, such as processes.

    Examples
    --------
    >>> from ranking import MatchingData, Ranker
    >>> topics = MatchingData(None, [[1, 0], [0, 1], [1, 1]], [[1, 0, 1], [0, 1, 0], [0, 0, 0]])
    >>> found = fit_per_query(Ranker(loss="domination", regularizer="l2"), topics)
    >>> found.problems
    {2: 'no document matches it'}
    """
    if (valid is None) != (search is None):
        raise DataError("a search needs validation data, and those are for a search; give both.")
    if valid is not None and not np.array_equal(valid.query_ids, data.query_ids):
        raise DataError("the validation data have other queries; give the same, in the same order.")
    get_kernel(ranker.kernel)  # plugins are found here, once, and not by every thread
    unfitted = clone(ranker)
    if jobs != 1:  # a query at a time for each of them: more threads would be in their way
        unfitted.set_params(threads=1)
    rows, held_out = _rows(data), None if valid is None else _rows(valid)
    fitted = Parallel(n_jobs=jobs, prefer="threads")(
        delayed(_fit_one)(
            unfitted,
            rows,
            _grades(data, query),
            held_out,
            None if valid is None else _grades(valid, query),
            search,
        )
        for query in range(data.n_queries)
    )
    reports = [
        Report(query, problem, int(count), facts)
        for query, count, (_, problem, facts) in zip(
            data.query_ids.tolist(), data.n_relevant.tolist(), fitted, strict=True
        )
    ]
    return PerQuery(_joined(data, [weights for weights, _, _ in fitted]), reports)


def adopt(ranker: Ranker, data: MatchingData, found: PerQuery) -> None:
    """Make the ranker fitted by these models together, so that it can score and be saved.

    Its history is one row: the epochs of the longest training, and the mean objective. The
    reports are in its description, and so in its file.
    """
    facts = [report.facts for report in found.reports if not report.problem]
    if not facts:
        first = found.reports[0]
        raise DataError(
            f"none of the {len(found.reports)} queries could be trained; of the first, "
            f"{first.query}, {first.problem}."
        )
    run = ranker.prepare(_rows(data))  # its linear parts, before any training
    run.stopped = "per query"
    run.history.append(
        {
            "epoch": max(int(each["epochs"]) for each in facts),
            "objective": float(np.mean([each["objective"] for each in facts])),
        }
    )
    ranker.adopt(run)
    ranker.model_ = found.model
    described = ranker.description_
    described["parts"]["model"]["spec"] = found.model.spec()
    described["training"] |= {
        "queries": data.n_queries,
        "documents": data.n_documents,
        "trained": len(facts),
    }
    del described["training"]["rows"]
    described["per query"] = [report.row() for report in found.reports]


Fitted = tuple[sp.csr_array, str, dict[str, Any]]
Grades = NDArray[np.float64]


def _grades(data: MatchingData, query: int) -> Grades:
    """Return the grade of each document: what relevance says, or 1 for the same label."""
    grades = np.zeros(data.n_documents)
    if data.labels is not None:
        grades[data.relevant(query)] = 1.0
    else:
        row = slice(*data.relevance.indptr[query : query + 2])
        grades[data.relevance.indices[row]] = data.relevance.data[row]
    return grades


def _rows(data: MatchingData) -> JudgedLists:
    """Return the documents as rows of one query; every query has grades of its own for them."""
    return JudgedLists(
        data.document_rows, np.zeros(data.n_documents), np.zeros(data.n_documents, int)
    )


def _fit_one(
    unfitted: Ranker,
    rows: JudgedLists,
    grades: Grades,
    held_out: JudgedLists | None,
    held_out_grades: Grades | None,
    search: Search | None,
) -> Fitted:
    data = rows.with_grades(grades)
    valid = None
    if held_out is not None and held_out_grades is not None:
        valid = held_out.with_grades(held_out_grades)
    nothing = sp.csr_array((1, data.n_features))
    if not (data.grades > 0).any():
        return nothing, "no document matches it", {}
    if np.ptp(data.grades) == 0.0:
        return nothing, "every document matches it alike", {}
    if valid is not None and not (valid.grades > 0).any():
        return nothing, "no document of the validation data matches it", {}
    started = time.perf_counter()
    ranker = copy.deepcopy(unfitted)  # whose callbacks belong to one training
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


def _joined(data: MatchingData, rows: list[sp.csr_array]) -> Bilinear:
    model = Bilinear(initial="zero", dtype="float64")
    model.query_feature_ids = data.query_ids.copy()
    model.document_feature_ids = data.document_feature_ids.copy()
    model.weights = sp.csr_array(sp.vstack(rows))
    return model
