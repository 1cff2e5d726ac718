"""What an evaluation joins: `Judgements` (qrels) and a `Ranking` (run), into a `JudgedRun`."""

from __future__ import annotations

import dataclasses
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ranking.data.judged_lists import gather
from ranking.data.validation import Ids, Ints, as_ids, first_repeat, frozen
from ranking.errors import DataError

Floats = NDArray[np.float64]


@dataclasses.dataclass(frozen=True, init=False, eq=False, repr=False)
class _Lists:
    """Documents with a number each, gathered by query; what both kinds of file hold.

    Attributes
    ----------
    query_ids : int64 or str array
        In the order of their first row.
    group_ptr : int64 array
        Query q has the rows ``group_ptr[q]:group_ptr[q + 1]``.
    document_ids : int64 or str array
        One a row, distinct within a query.
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
        ids, group_ptr, order = gather(queries)
        if order is not None:
            documents, values = documents[order], values[order]
        self._fill(ids, group_ptr, documents, values)
        repeat = first_repeat(self.row_groups, documents)
        if repeat is not None:
            raise DataError(
                f"document {documents[repeat[0]]} is twice in query "
                f"{ids[self.row_groups[repeat[0]]]}; keep one of them."
            )

    def _fill(self, query_ids: Any, group_ptr: Any, document_ids: Any, numbers: Any) -> Self:
        object.__setattr__(self, "query_ids", frozen(query_ids))
        object.__setattr__(self, "group_ptr", frozen(group_ptr.astype(np.int64)))
        object.__setattr__(self, "document_ids", frozen(document_ids))
        object.__setattr__(self, "_numbers", frozen(numbers))
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
    """Which documents were judged for which query, and how: a qrels file.

    Parameters
    ----------
    query_ids, document_ids : sequence of int or str
        One a row, in any order of rows.
    grades : array-like
        One a row; trec_eval counts 1 and above as relevant.
    """

    def __init__(self, query_ids: Any, document_ids: Any, grades: ArrayLike) -> None:
        super().__init__(query_ids, document_ids, grades, "grades")

    @property
    def grades(self) -> Floats:
        """The grade of each row."""
        return self._numbers


@dataclasses.dataclass(frozen=True, init=False, eq=False, repr=False)
class Ranking(_Lists):
    """Which documents some system found for which query, with a score each: a run file.

    Parameters
    ----------
    query_ids, document_ids : sequence of int or str
        One a row, in any order of rows.
    scores : array-like
        The order is that of the scores alone.
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
    """A run with the grades of what it found, and what it should have found.

    Attributes
    ----------
    query_ids : array
        The judged queries, in the order of the judgements.
    group_ptr : int64 array
        Query q has the rows ``group_ptr[q]:group_ptr[q + 1]``, none if the run lacks it.
    document_ids, scores : arrays
        What the run found, in its own order.
    grades : float64 array
        The grade of each row; NaN if nobody judged the document.
    unfound_ptr, unfound_grades : arrays
        The grades of the judged documents that the run did not find, by query in the same way.
    missing : bool array
        The judged queries that the run lacks. trec_eval leaves them out of a mean, or counts
        them as 0 if called with -c.
    unjudged_queries : array
        The queries of the run that nobody judged; they are not in `query_ids`.
    """

    query_ids: Ids
    group_ptr: Ints
    document_ids: Ids
    scores: Floats
    grades: Floats
    unfound_ptr: Ints
    unfound_grades: Floats
    missing: NDArray[np.bool_]
    unjudged_queries: Ids


def judged_from(ranking: Ranking, judgements: Judgements) -> JudgedRun:
    """Join a run with judgements.

    Examples
    --------
    >>> run = Ranking(["q", "q"], ["a", "b"], [2.0, 1.0])
    >>> joined = judged_from(run, Judgements(["q", "q", "r"], ["b", "c", "a"], [1, 2, 1]))
    >>> joined.grades.tolist(), joined.unfound_grades.tolist(), joined.missing.tolist()
    ([nan, 1.0], [2.0, 1.0], [False, True])
    """
    for name in ("query_ids", "document_ids"):
        one, other = getattr(ranking, name), getattr(judgements, name)
        if one.dtype.kind != other.dtype.kind:
            raise DataError(
                f"{name} of the ranking are like {one[0]!r} and of the judgements like "
                f"{other[0]!r}; give both as numbers or both as text."
            )
    place = {query: at for at, query in enumerate(judgements.query_ids.tolist())}
    group_of = np.array([place.get(query, -1) for query in ranking.query_ids.tolist()])
    row_group = group_of[ranking.row_groups]
    # The run's rows in the order of the judged queries; what nobody judged goes.
    order = np.argsort(row_group, kind="stable")
    order = order[np.searchsorted(row_group[order], 0) :]
    groups = row_group[order]
    documents = ranking.document_ids[order]
    keys = zip(judgements.row_groups.tolist(), judgements.document_ids.tolist(), strict=True)
    row_of = {key: row for row, key in enumerate(keys)}
    found = [row_of.get(key, -1) for key in zip(groups.tolist(), documents.tolist(), strict=True)]
    at = np.array(found, dtype=np.int64)
    unfound = np.ones(judgements.n_rows, np.bool_)
    unfound[at[at >= 0]] = False
    sizes = np.bincount(groups, minlength=judgements.n_queries)
    unfound_sizes = np.bincount(judgements.row_groups[unfound], minlength=judgements.n_queries)
    return JudgedRun(
        query_ids=judgements.query_ids,
        group_ptr=frozen(np.concatenate(([0], np.cumsum(sizes)))),
        document_ids=frozen(documents),
        scores=frozen(ranking.scores[order]),
        grades=frozen(np.where(at >= 0, judgements.grades[at], np.nan)),
        unfound_ptr=frozen(np.concatenate(([0], np.cumsum(unfound_sizes)))),
        unfound_grades=frozen(judgements.grades[unfound]),
        missing=frozen(sizes == 0),
        unjudged_queries=frozen(ranking.query_ids[group_of < 0]),
    )
