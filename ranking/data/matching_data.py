"""`MatchingData`: queries, documents and who matches whom, checked once and read-only from then on."""

from __future__ import annotations

import dataclasses
import functools
import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ranking.data.matches import Matches, as_unique_ids
from ranking.data.validation import (
    Ids,
    Ints,
    as_features,
    as_ids,
    frozen_any,
    refuse_infinite,
)
from ranking.errors import DataError, DataWarning

DUPLICATES = {"sum": "added up", "max": "replaced by the largest", "last": "replaced by the last"}
"""What may be done with interactions of one user with one item, and how it is told."""


class FeatureTable(NamedTuple):
    """Features of users or items: their ids, one row each, and what the columns are called."""

    ids: Ids
    features: Any
    names: Ids


@dataclasses.dataclass(frozen=True, init=False, eq=False, repr=False)
class MatchingData(Matches):
    """Queries and documents, each described by features, and which match.

    Parameters
    ----------
    queries, documents : array-like, scipy.sparse matrix or None
        One row an object; the two may have different widths. None is one indicator feature an
        object, which takes no memory: the recommender that knows nothing but ids.
    relevance : scipy.sparse matrix or array-like of shape (queries, documents), optional
        Grades or clicks. Stored entries are judgements, also zeros; above 0 is relevant.
    labels : (sequence, sequence), optional
        Instead of relevance: the classes of the queries and of the documents, where the same class
        means relevant.
    query_ids, document_ids : sequence of int or str, optional
        By default positions, from 0.
    query_feature_ids, document_feature_ids : sequence of int or str, optional
        What the columns are called; by default numbers from 1, or the ids if features are None.
    times : array-like, optional
        Numbers or dates, one a stored entry of a CSR or COO relevance, in its order.
    same_objects : bool
        Query i and document i are the same object, which is then not relevant to itself.

    Attributes
    ----------
    queries, documents : ndarray, scipy.sparse.csr_array or None
    query_feature_ids, document_feature_ids : int64 or str arrays
    query_ids, document_ids, relevance, times, labels, classes, itself
        As in `ranking.data.matches.Matches`.

    Raises
    ------
    DataError
        For anything that a ranker could not use, with both sizes and their names.

    Examples
    --------
    >>> data = MatchingData(None, None, [[1, 0, 2], [0, 1, 0]], document_ids=["a", "b", "c"])
    >>> data
    MatchingData(2 queries x 3 documents, 3 judged pairs, features 2 x 3)
    >>> data.document_ids[data.relevant(0)].tolist()
    ['a', 'c']
    """

    queries: Any
    documents: Any
    query_feature_ids: Ids
    document_feature_ids: Ids

    def __init__(
        self,
        queries: Any,
        documents: Any,
        relevance: Any = None,
        *,
        labels: tuple[Any, Any] | None = None,
        query_ids: Any = None,
        document_ids: Any = None,
        query_feature_ids: Any = None,
        document_feature_ids: Any = None,
        times: Any = None,
        same_objects: bool = False,
    ) -> None:
        left = None if queries is None else as_features(queries, "queries")
        right = left
        if documents is not queries:
            right = None if documents is None else as_features(documents, "documents")
        sizes = (
            _size("queries", left, relevance, labels, 0),
            _size("documents", right, relevance, labels, 1),
        )
        self._fill_matches(sizes, relevance, labels, query_ids, document_ids, times, same_objects)
        self._fill(
            queries=left,
            documents=right,
            query_feature_ids=_feature_ids(
                "query_feature_ids", query_feature_ids, left, self.query_ids
            ),
            document_feature_ids=_feature_ids(
                "document_feature_ids", document_feature_ids, right, self.document_ids
            ),
        )
        if left is not None:
            refuse_infinite(left, self.query_feature_ids, self.query_ids, "queries", "query")
        if right is not None and right is not left:
            names = self.document_feature_ids
            refuse_infinite(right, names, self.document_ids, "documents", "document")

    @property
    def n_query_features(self) -> int:
        """The number of features of a query."""
        return self.query_feature_ids.size

    @property
    def n_document_features(self) -> int:
        """The number of features of a document."""
        return self.document_feature_ids.size

    @functools.cached_property
    def query_rows(self) -> Any:
        """The features of the queries as a csr_array, also where they are dense or indicators."""
        return _as_rows(self.queries, self.n_queries)

    @functools.cached_property
    def document_rows(self) -> Any:
        """The features of the documents as a csr_array."""
        return _as_rows(self.documents, self.n_documents)

    def unit_length(self) -> MatchingData:
        """Return the same data with every row of features scaled to Euclidean norm 1."""
        return self._replace(queries=_unit_rows(self.queries), documents=_unit_rows(self.documents))

    def with_indicators(self) -> MatchingData:
        """Return the same data with one more feature an object that has features: itself.

        An object then has a weight, or a vector, of its own beside those that it shares. The
        features are called ``query:<id>`` and ``document:<id>``.
        """
        changed: dict[str, Any] = {}
        for name, features, ids, names in (
            ("query", self.queries, self.query_ids, self.query_feature_ids),
            ("document", self.documents, self.document_ids, self.document_feature_ids),
        ):
            if features is None:
                continue
            side = "queries" if name == "query" else "documents"
            own = sparse.eye_array(ids.size, dtype=features.dtype)
            changed[side] = sparse.csr_array(sparse.hstack([sparse.csr_array(features), own]))
            added = [f"{name}:{each}" for each in ids.tolist()]
            changed[f"{name}_feature_ids"] = np.array([*names.astype(np.str_).tolist(), *added])
        return self._replace(**changed)

    def with_documents(self, ids: Ids) -> MatchingData:
        """Return the same data with these documents too, where documents are known by id only.

        A file of interactions names the items that were taken in it; a recommender chooses among
        all that it knows. Documents that have features, and ids of which these data have none,
        change nothing.

        Examples
        --------
        >>> taken = MatchingData(None, None, [[1.0]], document_ids=["alien"])
        >>> taken.with_documents(np.array(["alien", "brazil"])).document_ids.tolist()
        ['alien', 'brazil']
        """
        have = self.document_ids
        by_id = self.documents is None and np.array_equal(self.document_feature_ids, have)
        if not by_id or self.relevance is None or not np.isin(have, ids).any():
            return self
        all_ids = np.concatenate((have, np.setdiff1d(ids, have)))
        relevance = sparse.csr_array(self.relevance)
        relevance.resize((self.n_queries, all_ids.size))
        return self._replace(
            document_ids=all_ids, document_feature_ids=all_ids, relevance=relevance
        )

    def _selected(self, chosen: Ints) -> dict[str, Any]:
        if self.queries is not None:
            return {"queries": self.queries[chosen]}
        # The features of some of the objects are still those of all: a column for each.
        parts = (np.ones(chosen.size), chosen, np.arange(chosen.size + 1))
        return {"queries": sparse.csr_array(parts, shape=(chosen.size, self.n_query_features))}

    @classmethod
    def from_interactions(
        cls,
        users: Any,
        items: Any,
        values: Any = None,
        times: Any = None,
        *,
        duplicates: str = "sum",
        user_features: FeatureTable | None = None,
        item_features: FeatureTable | None = None,
    ) -> MatchingData:
        """Make data from who did something with what.

        Users and items are sorted by id, so that the order of the interactions does not matter.

        Parameters
        ----------
        users, items : sequence of int or str
            One an interaction.
        values : array-like, optional
            Ratings or counts; by default 1 each.
        times : array-like, optional
            Numbers or dates.
        duplicates : {"sum", "max", "last"}
            What becomes of the values of one user and item; a `DataWarning` counts them. The last
            is the latest if there are times. Of their times the latest is kept.
        user_features, item_features : FeatureTable, optional
            By default one indicator feature an object. Who is in the table only has no matches;
            who is not in it has no features, and a `DataWarning` counts those.
        """
        if duplicates not in DUPLICATES:
            raise DataError(
                f"duplicates={duplicates!r} is not known; it is {' or '.join(DUPLICATES)}."
            )
        user_features = _checked("users", user_features)
        item_features = _checked("items", item_features)
        user_ids, rows = factorize("users", users, user_features)
        item_ids, columns = factorize("items", items, item_features)
        if rows.size != columns.size:
            raise DataError(f"there are {rows.size} users and {columns.size} items; pair them up.")
        numbers = _numbers("values", np.ones(rows.size) if values is None else values, rows.size)
        moments = None if times is None else _numbers("times", times, rows.size)
        key = rows * item_ids.size + columns
        # Equal moments are settled by value, so that only "last" without times sees the order.
        if moments is not None:
            order = np.lexsort((numbers, moments, key))
        elif duplicates == "last":
            order = np.argsort(key, kind="stable")
        else:
            order = np.lexsort((numbers, key))
        key = key[order]
        starts = np.flatnonzero(np.concatenate(([True], key[1:] != key[:-1])))
        lasts = np.append(starts[1:], key.size) - 1
        if starts.size < key.size:
            warnings.warn(
                f"{key.size - starts.size} of {key.size} interactions repeat a user and an item; "
                f'their values were {DUPLICATES[duplicates]} (duplicates="{duplicates}").',
                DataWarning,
                stacklevel=2,
            )
        merged = numbers[order][lasts]
        if duplicates != "last":
            reduce = np.add if duplicates == "sum" else np.maximum
            merged = reduce.reduceat(numbers[order], starts)
        kept = order[starts]
        counts = np.bincount(rows[kept], minlength=user_ids.size)
        parts = (merged, columns[kept], np.concatenate(([0], np.cumsum(counts))))
        return cls(
            _lay_out("users", user_features, user_ids),
            _lay_out("items", item_features, item_ids),
            sparse.csr_array(parts, shape=(user_ids.size, item_ids.size)),
            query_ids=user_ids,
            document_ids=item_ids,
            query_feature_ids=None if user_features is None else user_features.names,
            document_feature_ids=None if item_features is None else item_features.names,
            times=None if moments is None else moments[order][lasts],
        )

    def __repr__(self) -> str:
        return (
            f"MatchingData({self.n_queries} queries x {self.n_documents} documents, "
            f"{described(self)}, features {self.n_query_features} x {self.n_document_features})"
        )


def _unit_rows(features: Any) -> Any:
    """Return rows of norm 1; a row of zeros stays, and indicators have that norm already."""
    if features is None:
        return None
    wide = features.astype(np.float64)
    squares = wide.multiply(wide).sum(axis=1) if sparse.issparse(wide) else (wide * wide).sum(1)
    norms = np.sqrt(np.asarray(squares, dtype=np.float64)).ravel()
    norms[norms == 0.0] = 1.0
    if not sparse.issparse(wide):
        return (wide / norms[:, None]).astype(features.dtype)
    wide.data /= np.repeat(norms, np.diff(wide.indptr))
    return wide.astype(features.dtype)


def _as_rows(features: Any, n_objects: int) -> Any:
    if features is None:
        parts = (np.ones(n_objects, np.float32), np.arange(n_objects), np.arange(n_objects + 1))
        return frozen_any(sparse.csr_array(parts, shape=(n_objects, n_objects)))
    return features if sparse.issparse(features) else frozen_any(sparse.csr_array(features))


def described(data: Matches) -> str:
    """Say in a few words who matches whom."""
    if data.classes is not None:
        return f"{data.classes.size} classes"
    return f"{data.relevance.nnz} judged pairs"


def factorize(name: str, values: Any, table: FeatureTable | None = None) -> tuple[Ids, Ints]:
    """Return the sorted ids, also those of a table, and the position of each value in them."""
    n_values = len(values)
    if n_values == 0:
        raise DataError(f"{name} is empty; give at least one interaction.")
    known: set[Any] = set() if table is None else set(table.ids.tolist())
    listed = values.tolist() if isinstance(values, np.ndarray) else list(values)
    distinct = known.union(listed)
    try:
        ordered = sorted(distinct)
    except TypeError:  # of mixed kinds, which is refused with an example
        ordered = [*listed, *known]
    ids = as_ids(name, ordered, len(ordered))
    place = {value: position for position, value in enumerate(ordered)}
    return ids, np.fromiter(map(place.__getitem__, listed), np.int64, n_values)


def _numbers(name: str, given: Any, size: int) -> NDArray[np.float64]:
    array = np.asarray(given)
    if array.dtype.kind == "M":
        array = (array - np.datetime64(0, "s")) / np.timedelta64(1, "s")
    if array.shape != (size,) or array.dtype.kind not in "buif":
        raise DataError(
            f"{name} has shape {array.shape} and type {array.dtype}, and there are {size} "
            "interactions; give one number each."
        )
    numbers = array.astype(np.float64)
    if not np.isfinite(numbers).all():
        row = int(np.argmin(np.isfinite(numbers)))
        raise DataError(f"{name}: interaction {row} is {numbers[row]}; fill it in or leave it out.")
    return numbers


def _checked(name: str, table: FeatureTable | None) -> FeatureTable | None:
    if table is None:
        return None
    features = as_features(table.features, f"features of {name}")
    ids = as_unique_ids(f"ids of the features of {name}", table.ids, features.shape[0], "rows")
    return FeatureTable(ids, features, table.names)


def _lay_out(name: str, table: FeatureTable | None, ids: Ids) -> Any:
    """Return the rows of a table in the order of the ids, with zeros for who is not in it."""
    if table is None:
        return None
    place = np.searchsorted(ids, table.ids)
    lacking = ids.size - table.ids.size
    if lacking:
        have = np.zeros(ids.size, np.bool_)
        have[place] = True
        warnings.warn(
            f"{lacking} of {ids.size} {name} are not in their table of features and have none "
            f"(the first is {ids[np.argmin(have)]}).",
            DataWarning,
            stacklevel=3,
        )
    features = sparse.csr_array(table.features)
    row_of = sparse.csr_array(
        (np.ones(place.size, features.dtype), (place, np.arange(place.size))),
        shape=(ids.size, place.size),
    )
    return row_of @ features


def _size(name: str, features: Any, relevance: Any, labels: Any, side: int) -> int:
    """Return how many objects a side has: as many as features, else as the matches say."""
    if features is not None:
        return int(features.shape[0])
    if relevance is not None:
        shape = np.shape(relevance)
        size = int(shape[side]) if len(shape) == 2 else 0
    else:
        size = len(labels[side]) if isinstance(labels, tuple) and len(labels) == 2 else 0
    if size == 0:
        raise DataError(f"there are no {name}; give at least one.")
    return size


def _feature_ids(name: str, given: Any, features: Any, ids: Ids) -> Ids:
    if given is None:
        return ids if features is None else np.arange(1, features.shape[1] + 1)
    width = ids.size if features is None else features.shape[1]
    return as_unique_ids(name, given, width, "columns")
