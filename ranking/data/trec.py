"""`Judgements` (qrels), `Run` and their join, `JudgedRun`, which an evaluation measures."""

from __future__ import annotations

import dataclasses
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ranking.data.judged_lists import group_rows
from ranking.data.validation import Ids, Ints, as_ids, first_repeat, read_only
from ranking.errors import DataError

Floats = NDArray[np.float64]


@dataclasses.dataclass(frozen=True, init=False, eq=False, repr=False)
class _Lists:
    """Documents with one number each, grouped by query: the base of qrels and runs.

    Attributes
    ----------
    query_ids : int64 or str array
        In the order of their first row.
    group_ptr : int64 array
        Query q has the rows ``group_ptr[q]:group_ptr[q + 1]``.
    document_ids : int64 or str array
        One per row, distinct within a query.
    """

    query_ids: Ids
    group_ptr: Ints
    document_ids: Ids
    _numbers: Floats

    def __init__(self, query_ids: Any, document_ids: Any, numbers: ArrayLike, name: str) -> None:
        values = np.asarray(numbers, dtype=np.float64)
        if values.ndim != 1 or values.size == 0:
            raise DataError(f"{name} must be a sequence of numbers, at least one.")
        queries = as_ids("query_ids", query_ids, values.size, name)
        documents = as_ids("document_ids", document_ids, values.size, name)
        if np.isnan(values).any():
            row = int(np.argmax(np.isnan(values)))
            raise DataError(f"{name}: row {row} (query {queries[row]}) is NaN; leave the row out.")
        ids, group_ptr, order = group_rows(queries)
        if order is not None:
            documents, values = documents[order], values[order]
        self._set_fields(ids, group_ptr, documents, values)
        repeat = first_repeat(self.row_groups, documents)
        if repeat is not None:
            raise DataError(
                f"document {documents[repeat[0]]} is twice in query "
                f"{ids[self.row_groups[repeat[0]]]}; keep one of them."
            )

    def _set_fields(self, query_ids: Any, group_ptr: Any, document_ids: Any, numbers: Any) -> Self:
        object.__setattr__(self, "query_ids", read_only(query_ids))
        object.__setattr__(self, "group_ptr", read_only(group_ptr.astype(np.int64)))
        object.__setattr__(self, "document_ids", read_only(document_ids))
        object.__setattr__(self, "_numbers", read_only(numbers))
        return self

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return self.document_ids.size

    @property
    def n_queries(self) -> int:
        """The number of queries."""
        return self.query_ids.size

    @property
    def row_groups(self) -> Ints:
        """The position of each row's query."""
        return np.repeat(np.arange(self.n_queries), np.diff(self.group_ptr))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.n_rows} rows, {self.n_queries} queries)"


@dataclasses.dataclass(frozen=True, init=False, eq=False, repr=False)
class Judgements(_Lists):
    """Relevance judgements of documents for queries: a qrels file.

    Parameters
    ----------
    query_ids, document_ids : sequence of int or str
        One per row, in any order of rows.
    grades : array-like
        One per row; trec_eval counts 1 and above as relevant.
    """

    def __init__(self, query_ids: Any, document_ids: Any, grades: ArrayLike) -> None:
        super().__init__(query_ids, document_ids, grades, "grades")

    @property
    def grades(self) -> Floats:
        """The grade of each row."""
        return self._numbers


@dataclasses.dataclass(frozen=True, init=False, eq=False, repr=False)
class Run(_Lists):
    """Scores of the documents that a system retrieved for queries: a run file.

    Parameters
    ----------
    query_ids, document_ids : sequence of int or str
        One per row, in any order of rows.
    scores : array-like
        One per row; documents are ranked by score alone.
    tag : str
        The name of the run.
    """

    tag: str

    def __init__(
        self, query_ids: Any, document_ids: Any, scores: ArrayLike, tag: str = "ranking"
    ) -> None:
        super().__init__(query_ids, document_ids, scores, "scores")
        object.__setattr__(self, "tag", tag)

    @property
    def scores(self) -> Floats:
        """The score of each row."""
        return self._numbers


@dataclasses.dataclass(frozen=True)
class JudgedRun:
    """A run joined with judgements: the grades of retrieved and of missing documents.

    Attributes
    ----------
    query_ids : array
        The judged queries, in the order of the judgements.
    group_ptr : int64 array
        Query q has the rows ``group_ptr[q]:group_ptr[q + 1]``, none if it is not in the run.
    document_ids, scores : arrays
        The retrieved documents, in the order of the run.
    grades : float64 array
        The grade of each row; NaN if the document is not judged.
    unretrieved_ptr, unretrieved_grades : arrays
        The grades of the judged documents that are not in the run, grouped by query likewise.
    missing : bool array
        The judged queries that are not in the run. trec_eval leaves them out of a mean, or counts
        them as 0 if called with -c.
    unjudged_queries : array
        The queries of the run without judgements; they are not in `query_ids`.
    """

    query_ids: Ids
    group_ptr: Ints
    document_ids: Ids
    scores: Floats
    grades: Floats
    unretrieved_ptr: Ints
    unretrieved_grades: Floats
    missing: NDArray[np.bool_]
    unjudged_queries: Ids


def join_run(run: Run, judgements: Judgements) -> JudgedRun:
    """Join a run with judgements.

    Examples
    --------
    >>> run = Run(["q", "q"], ["a", "b"], [2.0, 1.0])
    >>> joined = join_run(run, Judgements(["q", "q", "r"], ["b", "c", "a"], [1, 2, 1]))
    >>> joined.grades.tolist(), joined.unretrieved_grades.tolist(), joined.missing.tolist()
    ([nan, 1.0], [2.0, 1.0], [False, True])
    """
    for name in ("query_ids", "document_ids"):
        one, other = getattr(run, name), getattr(judgements, name)
        if one.dtype.kind != other.dtype.kind:
            raise DataError(
                f"{name} of the run are like {one[0]!r} and of the judgements like "
                f"{other[0]!r}; give both as numbers or both as text."
            )
    position = {query: at for at, query in enumerate(judgements.query_ids.tolist())}
    group_of = np.array([position.get(query, -1) for query in run.query_ids.tolist()])
    row_group = group_of[run.row_groups]
    # The rows of the run in the order of the judged queries; unjudged queries are dropped.
    order = np.argsort(row_group, kind="stable")
    order = order[np.searchsorted(row_group[order], 0) :]
    groups = row_group[order]
    documents = run.document_ids[order]
    keys = zip(judgements.row_groups.tolist(), judgements.document_ids.tolist(), strict=True)
    row_of = {key: row for row, key in enumerate(keys)}
    pairs = zip(groups.tolist(), documents.tolist(), strict=True)
    at = np.array([row_of.get(pair, -1) for pair in pairs], dtype=np.int64)
    unretrieved = np.ones(judgements.n_rows, np.bool_)
    unretrieved[at[at >= 0]] = False
    sizes = np.bincount(groups, minlength=judgements.n_queries)
    unretrieved_sizes = np.bincount(
        judgements.row_groups[unretrieved], minlength=judgements.n_queries
    )
    return JudgedRun(
        query_ids=judgements.query_ids,
        group_ptr=read_only(np.concatenate(([0], np.cumsum(sizes)))),
        document_ids=read_only(documents),
        scores=read_only(run.scores[order]),
        grades=read_only(np.where(at >= 0, judgements.grades[at], np.nan)),
        unretrieved_ptr=read_only(np.concatenate(([0], np.cumsum(unretrieved_sizes)))),
        unretrieved_grades=read_only(judgements.grades[unretrieved]),
        missing=read_only(sizes == 0),
        unjudged_queries=read_only(run.query_ids[group_of < 0]),
    )
