"""`MatchingData`: features of queries and documents, and their relevance; validated, read-only."""

from __future__ import annotations

import dataclasses
import functools
import warnings
from typing import Any, NamedTuple, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ranking.data.fingerprint import fingerprint
from ranking.data.relevance import RelevanceData, as_unique_ids
from ranking.data.validation import (
    Ids,
    Ints,
    as_features,
    as_ids,
    read_only_matrix,
    refuse_infinite,
)
from ranking.errors import DataError, DataWarning

DUPLICATES = {"sum": "added up", "max": "replaced by the largest", "last": "replaced by the last"}
"""How interactions of the same user and item are merged, and the word for it in messages."""

MIN_PROPENSITY = 0.05
"""Smaller propensities count as this, so that no interaction weighs more than 20 others."""


class FeatureTable(NamedTuple):
    """Features of users or items: their ids, one row per id, and the names of the columns."""

    ids: Ids
    features: Any
    names: Ids


class MatchingNames(TypedDict, total=False):
    """Ids of `MatchingData` by keyword, and what recommenders call the two sides."""

    query_ids: Any
    document_ids: Any
    query_feature_ids: Any
    document_feature_ids: Any
    users: Any
    items: Any
    user_ids: Any
    item_ids: Any
    user_feature_ids: Any
    item_feature_ids: Any


class InteractionColumns(TypedDict, total=False):
    """Columns of a data frame of interactions, propensities, and the least values that count."""

    user: str
    item: str
    rating: str
    timestamp: str
    propensity: str
    propensities: Any
    min_rating: float
    min_propensity: float


ALIASES = {
    "users": "queries",
    "items": "documents",
    "user_ids": "query_ids",
    "item_ids": "document_ids",
    "user_feature_ids": "query_feature_ids",
    "item_feature_ids": "document_feature_ids",
}


@dataclasses.dataclass(frozen=True, init=False, eq=False, repr=False)
class MatchingData(RelevanceData):
    """Features of queries and documents (users and items), and which pairs are relevant.

    Parameters
    ----------
    queries, documents : array-like, scipy.sparse matrix or None
        One row per query or document; the two may have different widths. None stands for one
        indicator feature per row, which takes no memory: pure collaborative filtering.
    relevance : scipy.sparse matrix or array-like of shape (queries, documents), optional
        Grades or clicks. Stored entries are judgements, also zeros; above 0 is relevant.
    labels : (sequence, sequence), optional
        Instead of relevance: the classes of the queries and of the documents, where the same class
        means relevant.
    query_ids, document_ids : sequence of int or str, optional
        By default positions, from 0.
    query_feature_ids, document_feature_ids : sequence of int or str, optional
        Names of the columns; by default numbers from 1, or the ids if features are None.
    times : array-like, optional
        Numbers or dates, one per stored entry of a CSR or COO relevance, in its order.
    queries_are_documents : bool
        Whether document i is query i, and so not relevant to it.
    users, items, user_ids, item_ids, user_feature_ids, item_feature_ids
        What recommenders call `queries`, `documents` and their ids; use either name.

    Attributes
    ----------
    queries, documents : ndarray, scipy.sparse.csr_array or None
    query_feature_ids, document_feature_ids : int64 or str arrays
    query_ids, document_ids, relevance, times, labels, classes, own_document
        As in `ranking.data.relevance.RelevanceData`.

    Raises
    ------
    DataError
        If the data are inconsistent or not finite; the message names both sizes.

    Examples
    --------
    >>> data = MatchingData(relevance=[[1, 0, 2], [0, 1, 0]], item_ids=["a", "b", "c"])
    >>> data
    MatchingData(2 queries x 3 documents, 3 judged pairs, features 2 x 3)
    >>> data.item_ids[data.relevant(0)].tolist()
    ['a', 'c']
    """

    queries: Any
    documents: Any
    query_feature_ids: Ids
    document_feature_ids: Ids

    def __init__(
        self,
        queries: Any = None,
        documents: Any = None,
        relevance: Any = None,
        *,
        labels: tuple[Any, Any] | None = None,
        times: Any = None,
        queries_are_documents: bool = False,
        **names: Unpack[MatchingNames],
    ) -> None:
        ids = _resolve_names({"queries": queries, "documents": documents}, dict(names))
        queries, documents = ids.pop("queries"), ids.pop("documents")
        left = None if queries is None else as_features(queries, "queries")
        right = left
        if documents is not queries:
            right = None if documents is None else as_features(documents, "documents")
        sizes = (
            _size("queries", left, relevance, labels, 0),
            _size("documents", right, relevance, labels, 1),
        )
        self._set_relevance(
            sizes,
            relevance,
            labels,
            ids.get("query_ids"),
            ids.get("document_ids"),
            times,
            queries_are_documents,
        )
        self._set_fields(
            queries=left,
            documents=right,
            query_feature_ids=_feature_ids("query", ids, left, self.query_ids),
            document_feature_ids=_feature_ids("document", ids, right, self.document_ids),
        )
        if left is not None:
            refuse_infinite(left, self.query_feature_ids, self.query_ids, "queries", "query")
        if right is not None and right is not left:
            feature_ids = self.document_feature_ids
            refuse_infinite(right, feature_ids, self.document_ids, "documents", "document")

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

    def fingerprint(self) -> str:
        """Return a hash of everything that training depends on, to recognise the same data."""
        labels = () if self.labels is None else self.labels
        ids = (self.query_feature_ids, self.document_feature_ids)
        rows = (self.query_rows, self.document_rows, self.relevance)
        return fingerprint((*rows, *labels, self.own_document, *ids))

    def unit_length(self) -> MatchingData:
        """Return the same data with every row of features scaled to Euclidean norm 1."""
        return self._replace(queries=_unit_rows(self.queries), documents=_unit_rows(self.documents))

    def with_indicators(self) -> MatchingData:
        """Return the same data with an indicator feature for each row of each side with features.

        A query or document then has a weight, or an embedding, of its own besides the shared
        ones. The features are called ``query:<id>`` and ``document:<id>``. Sides without features
        are indicators already.
        """
        changed: dict[str, Any] = {}
        for name, features, ids, names in (
            ("query", self.queries, self.query_ids, self.query_feature_ids),
            ("document", self.documents, self.document_ids, self.document_feature_ids),
        ):
            if features is None:
                continue
            side = "queries" if name == "query" else "documents"
            indicators = sparse.eye_array(ids.size, dtype=features.dtype)
            blocks = [sparse.csr_array(features), indicators]
            changed[side] = sparse.csr_array(sparse.hstack(blocks))
            new_names = [f"{name}:{row_id}" for row_id in ids.tolist()]
            changed[f"{name}_feature_ids"] = np.array([*names.astype(np.str_).tolist(), *new_names])
        return self._replace(**changed)

    def without_features(self) -> MatchingData:
        """Return the same data with queries and documents that are known by id only.

        Examples
        --------
        >>> data = MatchingData([[2.0]], None, [[1.0, 0.0]], user_ids=["ann"])
        >>> data.without_features().query_feature_ids.tolist()
        ['ann']
        """
        if self.queries is None and self.documents is None:
            return self
        return self._replace(
            queries=None,
            documents=None,
            query_feature_ids=self.query_ids,
            document_feature_ids=self.document_ids,
        )

    def with_clicks(self, log: MatchingData | None = None, weight: float = 1.0) -> MatchingData:
        """Return the same data with the clicks of a log as additional features of both sides.

        A query gets one feature per document of the log, and a document one per query, called
        ``click:<id>``; their values are the clicks, each row scaled to norm `weight`. Rows that are
        not in the log are zero.

        Parameters
        ----------
        log : MatchingData, optional
            By default the data themselves. For test data pass the training data.
        weight : float
            Weight of the clicks relative to the other features.
        """
        from ranking.data.click_features import with_clicks

        return with_clicks(self, log, weight)

    def with_documents(self, ids: Ids) -> MatchingData:
        """Return the same data with these documents added, if documents have no features.

        A file of interactions names only the items that occur in it; a recommender ranks all
        items that it was trained on. The data are returned unchanged if the documents have
        features, or if none of the ids occurs in the data.

        Examples
        --------
        >>> data = MatchingData(relevance=[[1.0]], item_ids=["alien"])
        >>> data.with_documents(np.array(["alien", "brazil"])).document_ids.tolist()
        ['alien', 'brazil']
        """
        own = self.document_ids
        by_id = self.documents is None and np.array_equal(self.document_feature_ids, own)
        if not by_id or self.relevance is None or not np.isin(own, ids).any():
            return self
        all_ids = np.concatenate((own, np.setdiff1d(ids, own)))
        relevance = sparse.csr_array(self.relevance)
        relevance.resize((self.n_queries, all_ids.size))
        return self._replace(
            document_ids=all_ids, document_feature_ids=all_ids, relevance=relevance
        )

    def _select_features(self, positions: Ints) -> dict[str, Any]:
        if self.queries is not None:
            return {"queries": self.queries[positions]}
        # Some of the queries still have one indicator column per query of the whole data.
        parts = (np.ones(positions.size), positions, np.arange(positions.size + 1))
        shape = (positions.size, self.n_query_features)
        return {"queries": sparse.csr_array(parts, shape=shape)}

    @classmethod
    def from_interactions(
        cls,
        users: Any,
        items: Any = None,
        values: Any = None,
        times: Any = None,
        *,
        duplicates: str = "sum",
        user_features: Any = None,
        item_features: Any = None,
        **columns: Unpack[InteractionColumns],
    ) -> MatchingData:
        """Build data from interactions of users with items, as arrays or as a data frame.

        Users and items are sorted by id, so that the order of the interactions does not matter.

        Parameters
        ----------
        users, items : sequence of int or str
            One per interaction. Or `users` is a data frame of pandas, polars or pyarrow with one
            row per interaction, and `items`, `values` and `times` are left out.
        values : array-like, optional
            Ratings or counts; by default 1 for each interaction.
        times : array-like, optional
            Numbers or dates.
        duplicates : {"sum", "max", "last"}
            How to merge several values of the same user and item; a `DataWarning` counts them.
            The last is the latest if there are times. The merged entry has the latest time.
        user_features, item_features : FeatureTable or data frame, optional
            By default one indicator feature per user or item. Rows of a table without
            interactions have no positives; users and items that are not in their table have no
            features, and a `DataWarning` counts them. The first column of a data frame has the
            ids, or the one of the user's or item's name; numbers become one feature, texts,
            categories and lists (such as genres) one feature per value.
        user, item, rating, timestamp, propensity : str
            Names of the columns of a data frame; by default found by their usual names.
        min_rating : float
            Leave out interactions with a lower rating.
        propensities : array-like
            The probability that each interaction could be observed, such as that of its position in
            a list (see `estimate_position_bias`). Values are divided by it (inverse propensity
            scoring), so that sums over interactions estimate those without the bias.
        min_propensity : float
            Smaller propensities count as this (clipping); 0.05.

        Examples
        --------
        >>> import polars
        >>> ratings = polars.DataFrame({"userId": [7, 7], "movieId": [1, 2], "rating": [5, 3]})
        >>> MatchingData.from_interactions(ratings, min_rating=4)
        MatchingData(1 queries x 1 documents, 1 judged pairs, features 1 x 1)
        """
        from ranking.data.frames import Interactions, as_feature_table

        if duplicates not in DUPLICATES:
            raise DataError(
                f"duplicates={duplicates!r} is not known; it is {' or '.join(DUPLICATES)}."
            )
        named = Interactions.read((users, items, values, times), columns)
        named = named.at_least(columns.get("min_rating"))
        named = named.weighted(columns.get("min_propensity", MIN_PROPENSITY))
        users, items, values, times = named[:4]
        user_features = _check_table("users", as_feature_table(user_features, named.user))
        item_features = _check_table("items", as_feature_table(item_features, named.item))
        user_ids, rows = factorize("users", users, user_features)
        item_ids, documents = factorize("items", items, item_features)
        if rows.size != documents.size:
            raise DataError(
                f"there are {rows.size} users and {documents.size} items; pair them up."
            )
        numbers = _numbers("values", np.ones(rows.size) if values is None else values, rows.size)
        moments = None if times is None else _numbers("times", times, rows.size)
        pairs = _Interactions(rows * item_ids.size + documents, numbers, moments)
        merged = _merge_duplicates(pairs, duplicates)
        if merged.key.size < rows.size:
            warnings.warn(
                f"{rows.size - merged.key.size} of {rows.size} interactions repeat a user and an "
                f'item; their values were {DUPLICATES[duplicates]} (duplicates="{duplicates}").',
                DataWarning,
                stacklevel=2,
            )
        row, column = np.divmod(merged.key, item_ids.size)
        counts = np.bincount(row, minlength=user_ids.size)
        parts = (merged.values, column, np.concatenate(([0], np.cumsum(counts))))
        return cls(
            _rows_in_order("users", user_features, user_ids),
            _rows_in_order("items", item_features, item_ids),
            sparse.csr_array(parts, shape=(user_ids.size, item_ids.size)),
            query_ids=user_ids,
            document_ids=item_ids,
            query_feature_ids=None if user_features is None else user_features.names,
            document_feature_ids=None if item_features is None else item_features.names,
            times=merged.times,
        )

    def __repr__(self) -> str:
        return (
            f"MatchingData({self.n_queries} queries x {self.n_documents} documents, "
            f"{summarize_relevance(self)}, "
            f"features {self.n_query_features} x {self.n_document_features})"
        )


class _Interactions(NamedTuple):
    """A number per pair of user and item, with the value and the time of each interaction."""

    key: Ints
    values: NDArray[np.float64]
    times: NDArray[np.float64] | None


def _merge_duplicates(pairs: _Interactions, duplicates: str) -> _Interactions:
    """Return one interaction per pair, in the order of their keys."""
    key, values, times = pairs
    # Ties in time are broken by value, so that only "last" without times depends on the order.
    if times is not None:
        order = np.lexsort((values, times, key))
    elif duplicates == "last":
        order = np.argsort(key, kind="stable")
    else:
        order = np.lexsort((values, key))
    key, values = key[order], values[order]
    starts = np.flatnonzero(np.concatenate(([True], key[1:] != key[:-1])))
    lasts = np.append(starts[1:], key.size) - 1
    merged = values[lasts]
    if duplicates != "last":
        reduce = np.add if duplicates == "sum" else np.maximum
        merged = reduce.reduceat(values, starts)
    return _Interactions(key[starts], merged, None if times is None else times[order][lasts])


def _resolve_names(sides: dict[str, Any], names: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments under the names of queries and documents."""
    resolved = dict(sides)
    for name, value in names.items():
        if name not in MatchingNames.__annotations__:
            known = ", ".join(MatchingNames.__annotations__)
            raise TypeError(f"MatchingData has no parameter {name!r}; ids are passed as {known}.")
        target = ALIASES.get(name, name)
        if resolved.get(target) is not None:
            raise DataError(f"{name} is another name of {target}; pass one of them.")
        resolved[target] = value
    return resolved


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


def _as_rows(features: Any, n_rows: int) -> Any:
    if features is None:
        parts = (np.ones(n_rows, np.float32), np.arange(n_rows), np.arange(n_rows + 1))
        return read_only_matrix(sparse.csr_array(parts, shape=(n_rows, n_rows)))
    return features if sparse.issparse(features) else read_only_matrix(sparse.csr_array(features))


def summarize_relevance(data: RelevanceData) -> str:
    """Return the number of classes or of judged pairs, for a repr."""
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
    except TypeError:  # of mixed types, which `as_ids` rejects with an example
        ordered = [*listed, *known]
    ids = as_ids(name, ordered, len(ordered))
    position = {value: at for at, value in enumerate(ordered)}
    return ids, np.fromiter(map(position.__getitem__, listed), np.int64, n_values)


def _numbers(name: str, values: Any, size: int) -> NDArray[np.float64]:
    array = np.asarray(values)
    if array.dtype.kind == "M":
        array = (array - np.datetime64(0, "s")) / np.timedelta64(1, "s")
    if array.shape != (size,) or array.dtype.kind not in "buif":
        raise DataError(
            f"{name} has shape {array.shape} and type {array.dtype}, and there are {size} "
            "interactions; give one number for each."
        )
    numbers = array.astype(np.float64)
    if not np.isfinite(numbers).all():
        row = int(np.argmin(np.isfinite(numbers)))
        raise DataError(f"{name}: interaction {row} is {numbers[row]}; fill it in or leave it out.")
    return numbers


def _check_table(name: str, table: FeatureTable | None) -> FeatureTable | None:
    if table is None:
        return None
    features = as_features(table.features, f"features of {name}")
    ids = as_unique_ids(f"ids of the features of {name}", table.ids, features.shape[0], "rows")
    return FeatureTable(ids, features, table.names)


def _rows_in_order(name: str, table: FeatureTable | None, ids: Ids) -> Any:
    """Return the rows of a table in the order of the ids; ids without a row get zeros."""
    if table is None:
        return None
    position = np.searchsorted(ids, table.ids)
    n_missing = ids.size - table.ids.size
    if n_missing:
        has_row = np.zeros(ids.size, np.bool_)
        has_row[position] = True
        warnings.warn(
            f"{n_missing} of {ids.size} {name} are not in their table of features and have none "
            f"(the first is {ids[np.argmin(has_row)]}).",
            DataWarning,
            stacklevel=3,
        )
    features = sparse.csr_array(table.features)
    row_of = sparse.csr_array(
        (np.ones(position.size, features.dtype), (position, np.arange(position.size))),
        shape=(ids.size, position.size),
    )
    return row_of @ features


def _size(name: str, features: Any, relevance: Any, labels: Any, side: int) -> int:
    """Return the number of queries or documents: rows of features, else of relevance or labels."""
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


def _feature_ids(side: str, names: dict[str, Any], features: Any, ids: Ids) -> Ids:
    feature_ids = names.get(f"{side}_feature_ids")
    if feature_ids is None:
        return ids if features is None else np.arange(1, features.shape[1] + 1)
    width = ids.size if features is None else features.shape[1]
    return as_unique_ids(f"{side}_feature_ids", feature_ids, width, "columns")
