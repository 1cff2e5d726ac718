"""One linear model per query or label, trained in parallel and joined into one bilinear model."""

from __future__ import annotations

import copy
import dataclasses
import time
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from joblib import Parallel, delayed
from numpy.typing import NDArray

from ranking.contracts.recipe import Search
from ranking.data.inputs import Trainable
from ranking.data.judged_lists import JudgedLists
from ranking.data.matching_data import MatchingData
from ranking.data.own_queries import own_queries
from ranking.errors import DataError
from ranking.io.result import TrainingResult
from ranking.kernels.select import get_kernel
from ranking.models.bilinear import Bilinear
from ranking.models.linear import Linear
from ranking.training.fitter import Fitter
from ranking.training.plan import TrainingPlan
from ranking.training.wrappers.search import ParameterSearch

Grades = NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class QueryReport:
    """The training of one query.

    Attributes
    ----------
    query : int or str
        Its id.
    problem : str
        Why it has no weights, or nothing.
    relevant : int
        Number of its positives.
    facts : dict
        ``epochs``, ``objective``, ``stopped``, ``seconds``, ``nonzero``, and the parameters that a
        search chose.
    """

    query: Any
    problem: str
    relevant: int
    facts: dict[str, Any]

    def row(self) -> dict[str, Any]:
        """Return what is the same in every training: everything but the seconds."""
        facts = {name: value for name, value in self.facts.items() if name != "seconds"}
        return {"query": self.query, "problem": self.problem, "relevant": self.relevant, **facts}


@dataclasses.dataclass(frozen=True)
class PerQuery(Fitter):
    """Train a linear model of the documents for each query.

    Every query ranks all documents, its positives first. A query without positives, or without
    negatives, is reported and has no weights. The resulting bilinear model has one row per query,
    whose only feature is its id, as in ``MatchingData(None, documents, ...)``; its history has one
    row: the epochs of the longest training, and the mean objective. The report is a list of
    `QueryReport`, in the order of the queries. The result does not depend on `jobs`.

    Parameters
    ----------
    plan : TrainingPlan
        The base, with a linear model.
    search : Search, optional
        Chooses parameters for each query by itself; needs validation data with the same queries
        and other documents.
    jobs : int
        Threads, each with one query at a time; the kernels release the GIL. With several jobs,
        a query has one thread. joblib's ``parallel_config`` selects another backend.

    Examples
    --------
    >>> from ranking import MatchingData
    >>> topics = MatchingData(None, [[1, 0], [0, 1], [1, 1]], [[1, 0, 1], [0, 1, 0], [0, 0, 0]])
    >>> result = PerQuery(TrainingPlan(loss="domination", regularizer="l2")).fit(topics)
    >>> problems(result.report)
    {2: 'no document matches it'}
    """

    plan: TrainingPlan
    search: Search | None = None
    jobs: int = 1

    def prepare(
        self, data: MatchingData, valid: MatchingData | None = None
    ) -> tuple[MatchingData, MatchingData | None]:
        """Return the data with queries known by id, one per label if labelled, in one order."""
        topics = own_queries(data)
        return topics, None if valid is None else own_queries(valid, topics.query_ids)

    def trainer(
        self, data: Trainable, valid: Trainable | None = None, *, exclude_seen: bool = False
    ) -> PerQueryTraining:
        """Return the training of all queries, before the first."""
        if isinstance(data, JudgedLists) or isinstance(valid, JudgedLists):
            raise DataError(
                "one model per query needs queries and documents, and these are judged rows, whose "
                "queries share no documents."
            )
        if (valid is None) != (self.search is None):
            raise DataError(
                "a search needs validation data, and those are for a search; give both."
            )
        if valid is not None and not np.array_equal(valid.query_ids, data.query_ids):
            raise DataError(
                "the validation data have other queries; give the same, in the same order."
            )
        return PerQueryTraining(self, data, valid)


@dataclasses.dataclass
class PerQueryTraining:
    """The trainings of all queries."""

    wrapper: PerQuery
    data: MatchingData
    valid: MatchingData | None = None
    model: Bilinear | None = None
    reports: list[QueryReport] = dataclasses.field(default_factory=list)

    def train(self) -> None:
        """Train the queries, in parallel."""
        data, valid, jobs = self.data, self.valid, self.wrapper.jobs
        get_kernel(self.wrapper.plan.kernel)  # find plugins once, not in every thread
        plan = self.wrapper.plan
        if jobs != 1:
            plan = dataclasses.replace(plan, threads=1)
        rows, held_out = _rows(data), None if valid is None else _rows(valid)

        def lists(query: int) -> tuple[JudgedLists, JudgedLists | None]:
            graded = rows.with_grades(_grades(data, query))
            if valid is None or held_out is None:
                return graded, None
            return graded, held_out.with_grades(_grades(valid, query))

        fits: list[_QueryFit] = Parallel(n_jobs=jobs, prefer="threads")(
            delayed(_fit_query)(plan, self.wrapper.search, *lists(query))
            for query in range(data.n_queries)
        )
        self.model = _join(data, [fit.weights for fit in fits])
        self.reports = [
            QueryReport(query, fit.problem, int(count), fit.facts)
            for query, count, fit in zip(
                data.query_ids.tolist(), data.n_relevant.tolist(), fits, strict=True
            )
        ]

    @property
    def finished(self) -> bool:
        """Whether the queries are trained."""
        return self.model is not None

    def result(self) -> TrainingResult:
        """Return the joined model; the reports are in its description, and so in its file."""
        assert self.model is not None
        trained = [report.facts for report in self.reports if not report.problem]
        if not trained:
            first = self.reports[0]
            raise DataError(
                f"none of the {len(self.reports)} queries could be trained; of the first, "
                f"{first.query}, {first.problem}."
            )
        trainer = self.wrapper.plan.trainer(_rows(self.data))  # for its parts
        trainer.stopped = "per query"
        trainer.history.append(
            {
                "epoch": max(int(facts["epochs"]) for facts in trained),
                "objective": float(np.mean([facts["objective"] for facts in trained])),
            }
        )
        result = trainer.result()
        description = result.description
        description["parts"]["model"]["spec"] = self.model.spec()
        description["training"] |= {
            "queries": self.data.n_queries,
            "documents": self.data.n_documents,
            "trained": len(trained),
        }
        del description["training"]["rows"]
        description["per query"] = [report.row() for report in self.reports]
        return dataclasses.replace(result, model=self.model, report=self.reports)


def problems(reports: list[QueryReport]) -> dict[Any, str]:
    """Return the queries without weights, and why."""
    return {report.query: report.problem for report in reports if report.problem}


class _QueryFit(NamedTuple):
    """Weights of one query, or the problem."""

    weights: sp.csr_array
    problem: str
    facts: dict[str, Any]


def _grades(data: MatchingData, query: int) -> Grades:
    """Return the grade of each document: its relevance, or 1 for the same label."""
    grades = np.zeros(data.n_documents)
    if data.labels is not None:
        grades[data.relevant(query)] = 1.0
    else:
        row = slice(*data.relevance.indptr[query : query + 2])
        grades[data.relevance.indices[row]] = data.relevance.data[row]
    return grades


def _rows(data: MatchingData) -> JudgedLists:
    """Return the documents as rows of one query, without grades."""
    return JudgedLists(
        data.document_rows, np.zeros(data.n_documents), np.zeros(data.n_documents, int)
    )


def _problem(data: JudgedLists, valid: JudgedLists | None) -> str:
    """Return why a query cannot be trained, or nothing."""
    if not (data.grades > 0).any():
        return "no document matches it"
    if np.ptp(data.grades) == 0.0:
        return "every document matches it equally"
    if valid is not None and not (valid.grades > 0).any():
        return "no document of the validation data matches it"
    return ""


def _fit_query(
    plan: TrainingPlan, search: Search | None, data: JudgedLists, valid: JudgedLists | None
) -> _QueryFit:
    problem = _problem(data, valid)
    if problem:
        return _QueryFit(sp.csr_array((1, data.n_features)), problem, {})
    started = time.perf_counter()
    plan = copy.deepcopy(plan)  # callbacks have the state of one training
    parameters: dict[str, Any] = {}
    if search is None:
        result = plan.fit(data)
    else:
        result = ParameterSearch(plan, search).fit(data, valid)
        parameters = {c.parameter: c.value for c in search.trials()[result.report.best]}
    model = result.model
    if not isinstance(model, Linear):
        raise DataError(f"one model per query is linear, and the ranker's is {model.name!r}.")
    facts = {
        **parameters,
        "epochs": result.n_epochs,
        "objective": result.objective,
        "stopped": result.stopped,
        "seconds": time.perf_counter() - started,
        "nonzero": int(np.count_nonzero(model.weights)),
    }
    return _QueryFit(sp.csr_array(model.weights[None, :]), "", facts)


def _join(data: MatchingData, rows: list[sp.csr_array]) -> Bilinear:
    model = Bilinear(initial="zero", dtype="float64")
    model.query_feature_ids = data.query_ids.copy()
    model.document_feature_ids = data.document_feature_ids.copy()
    model.weights = sp.csr_array(sp.vstack(rows))
    return model
