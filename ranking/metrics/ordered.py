"""Base of the metrics that Python computes from ranked lists: what they are given, and the order.

They measure judged lists, runs, and queries that rank all documents, as kernel metrics do.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ranking.contracts.metric import Metric
from ranking.data.judged_lists import JudgedLists
from ranking.data.matching_data import MatchingData
from ranking.kernels.contract import RELEVANT
from ranking.metrics.ranked import Floats
from ranking.metrics.ranked_lists import ScoredLists, Values

Ints = NDArray[np.int64]


@dataclasses.dataclass(frozen=True)
class Catalogue:
    """The items that can be recommended, and who has them in the training data.

    Attributes
    ----------
    size : int
        Number of items.
    counts : int64 array
        Users that have each item.
    n_users : int
    vectors : csr_array
        One row per item: its features, or else the users that have it.
    """

    size: int
    counts: Ints
    n_users: int
    vectors: Any


@dataclasses.dataclass(frozen=True)
class OrderedLists:
    """Ranked lists, best first.

    Attributes
    ----------
    pointers : int64 array
        List q has the places ``pointers[q]:pointers[q + 1]``.
    grades : float64 array
        By place; 0 where a document is not judged.
    judged : bool array
        By place.
    missing_pointers, missing_grades : arrays
        The grades of judged documents that the lists lack, by list.
    documents : int64 array
        Positions of documents by place; empty if the lists are not of one catalogue.
    catalogue : Catalogue or None
    """

    pointers: Ints
    grades: Floats
    judged: NDArray[np.bool_]
    missing_pointers: Ints
    missing_grades: Floats
    documents: Ints
    catalogue: Catalogue | None = None

    @property
    def size(self) -> int:
        """The number of lists."""
        return self.pointers.size - 1

    def ranks(self) -> Ints:
        """Return the rank of each place within its list, from 1."""
        starts = np.repeat(self.pointers[:-1], np.diff(self.pointers))
        return np.arange(self.grades.size) - starts + 1

    def lists(self) -> Ints:
        """Return the list of each place."""
        return np.repeat(np.arange(self.size), np.diff(self.pointers))

    def totals(self, values: Any) -> Floats:
        """Return the sum of values, one per place, over each list."""
        weights = np.asarray(values, dtype=np.float64)
        return np.bincount(self.lists(), weights, minlength=self.size).astype(np.float64)

    def n_relevant(self) -> Floats:
        """Return the number of relevant documents of each query, missing ones too."""
        missing = np.repeat(np.arange(self.size), np.diff(self.missing_pointers))
        lacking = np.bincount(missing[self.missing_grades >= RELEVANT], minlength=self.size)
        return self.totals(self.grades >= RELEVANT) + lacking


@dataclasses.dataclass
class OrderedMetric(Metric):
    """A metric that Python computes from the order of lists; plugins may subclass it.

    Equal scores are ordered by document id, as trec_eval does. A query without relevant documents
    has the value 0.
    """

    @abstractmethod
    def values(self, lists: OrderedLists) -> Floats:
        """Return one value per list; NaN marks a list that is left out."""

    def per_query(self, data: JudgedLists, scores: Floats) -> Floats:
        """Return the metric for each query."""
        from ranking.metrics.evaluation import evaluate

        return evaluate([self], data, scores)[self.spelled()]

    def spelled(self) -> str:
        """Return the full name, with every option; `parse_metric` reads it back."""
        names = [name for name in self.parameter_names() if name != "k"]
        options = ",".join(f"{name}={getattr(self, name)}" for name in names)
        k = getattr(self, "k", None)
        cut = "" if k is None else f"@{k}"
        return f"{self.name}{cut}" + (f"({options})" if options else "")


def ordered_lists(
    lists: ScoredLists,
    judged: NDArray[np.bool_] | None = None,
    documents: Ints | None = None,
    catalogue: Catalogue | None = None,
) -> OrderedLists:
    """Sort lists by score; scores are compared in single precision, as trec_eval does.

    Parameters
    ----------
    lists : ScoredLists
    judged : bool array, optional
        Which rows are judged; by default all.
    documents : int64 array, optional
        The position of each row's document.
    catalogue : Catalogue, optional
    """
    rows = np.arange(lists.grades.size)
    groups = np.repeat(np.arange(lists.group_ptr.size - 1), np.diff(lists.group_ptr))
    with np.errstate(over="ignore"):
        scores = lists.scores.astype(np.float32)
    order = np.lexsort((-lists.id_ranks(rows), -scores, groups))
    everything = np.ones(rows.size, np.bool_)
    return OrderedLists(
        lists.group_ptr,
        lists.grades[order],
        (everything if judged is None else judged)[order],
        lists.missing_ptr,
        lists.missing_grades,
        np.empty(0, np.int64) if documents is None else documents[order],
        catalogue,
    )


def catalogue_of(data: MatchingData, training: Sequence[MatchingData]) -> Catalogue | None:
    """Return the documents of data, and which queries of the training data have them."""
    parts = []
    for one in training:
        if one.relevance is None:
            return None
        place = {name: at for at, name in enumerate(data.document_ids.tolist())}
        columns = np.array([place.get(name, -1) for name in one.document_ids.tolist()])
        entries = sparse.coo_array(one.relevance)
        column = columns[entries.col]
        known = (column >= 0) & (entries.data > 0)
        shape = (one.n_queries, data.n_documents)
        ones = np.ones(int(known.sum()))
        parts.append(sparse.csr_array((ones, (entries.row[known], column[known])), shape=shape))
    users = sparse.csr_array(sparse.vstack(parts))
    counts = np.diff(sparse.csc_array(users).indptr).astype(np.int64)
    owners = int(np.count_nonzero(np.diff(users.indptr)))
    vectors = sparse.csr_array(users.T) if data.documents is None else data.document_rows
    return Catalogue(data.n_documents, counts, max(owners, 1), sparse.csr_array(vectors))


def compute_ordered(metrics: Sequence[OrderedMetric], lists: OrderedLists) -> Values:
    """Return the values of metrics by their full names."""
    return {one.spelled(): np.asarray(one.values(lists), np.float64) for one in metrics}
