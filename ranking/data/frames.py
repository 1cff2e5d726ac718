"""Build data from data frames: pandas, polars, pyarrow and others that narwhals supports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np

from ranking.data.matching_data import MIN_PROPENSITY, FeatureTable, MatchingData
from ranking.data.position_bias import inverse_propensities
from ranking.data.tables import Categories, Lists, Numbers, encode
from ranking.data.text.tokenise import words
from ranking.errors import DataError

ROLES = {
    "user": ("user", "user_id", "userid", "uid"),
    "item": (
        *("item", "item_id", "itemid", "movie_id", "movieid", "artist_id", "artistid"),
        *("product_id", "productid", "article_id", "articleid", "document", "document_id"),
    ),
    "value": ("value", "rating", "weight", "count", "clicks", "score"),
    "time": ("time", "timestamp"),
    "propensity": ("propensity",),
}
"""Usual names of the columns of interactions, in lower case."""


class Interactions(NamedTuple):
    """Interactions as columns, from arrays or from a data frame.

    Attributes
    ----------
    users, items : sequences of ids
    values, times : array-like or None
    user, item : str
        The names of the columns of a data frame, else empty.
    propensities : array-like or None
    """

    users: Any
    items: Any
    values: Any
    times: Any
    user: str = ""
    item: str = ""
    propensities: Any = None

    @classmethod
    def read(cls, arrays: tuple[Any, Any, Any, Any], columns: Mapping[str, Any]) -> Interactions:
        """Return the columns: `arrays`, or those of the data frame that is the first of them."""
        frame, items = arrays[:2]
        _refuse_lazy(frame)
        roles = ("user", "item", "rating", "timestamp", "propensity")
        named = {name: columns.get(name, "") for name in roles}
        unknown = set(columns) - {*named, "propensities", "min_rating", "min_propensity"}
        if unknown:
            raise DataError(
                f"from_interactions takes no {unknown.pop()!r}; the columns of a data frame are "
                f"{', '.join(named)}, and min_rating and min_propensity are numbers."
            )
        propensities = columns.get("propensities")
        if not is_frame(frame):
            if items is None:
                raise DataError("items are missing: give users and items, or a data frame.")
            if any(named.values()):
                raise DataError(
                    f"{', '.join(name for name in named if named[name])} name columns of a data "
                    f"frame, and the interactions are a {type(frame).__name__}; leave them out."
                )
            return cls(*arrays, propensities=propensities)
        if any(one is not None for one in (*arrays[1:], propensities)):
            raise DataError(
                "a data frame has all columns of the interactions; give it alone, and name its "
                "columns by user=, item=, rating=, timestamp= and propensity=."
            )
        table = _frame(frame)
        words = {"rating": "value", "timestamp": "time"}
        names = {words.get(name, name): column for name, column in named.items()}
        by_role = find_roles(table.columns, names, "the frame")
        return cls(
            _ids(table, by_role["user"]),
            _ids(table, by_role["item"]),
            _numbers(table, by_role["value"]) if "value" in by_role else None,
            _numbers(table, by_role["time"]) if "time" in by_role else None,
            by_role["user"],
            by_role["item"],
            _numbers(table, by_role["propensity"]) if "propensity" in by_role else None,
        )

    def weighted(self, least: float) -> Interactions:
        """Return the interactions with values over propensities, which are at least `least`."""
        if self.propensities is None:
            return self
        size = len(self.users)
        weights = inverse_propensities(self.propensities, size, least)
        values = np.ones(size) if self.values is None else np.asarray(self.values, np.float64)
        if values.shape != weights.shape:
            raise DataError(f"expected {size} values, one per interaction; got {values.shape}.")
        return self._replace(values=values * weights)

    def at_least(self, rating: float | None) -> Interactions:
        """Return the interactions with at least this rating."""
        if rating is None:
            return self
        if self.values is None:
            raise DataError(f"min_rating={rating} needs ratings, and the interactions have none.")
        keep = np.asarray(self.values, dtype=np.float64) >= rating
        if not keep.any():
            raise DataError(f"no interaction has a rating of at least {rating}; lower min_rating.")
        names = ("users", "items", "values", "times", "propensities")
        columns = {name: getattr(self, name) for name in names}
        selected: dict[str, Any] = {
            name: None if one is None else _take(one, keep) for name, one in columns.items()
        }
        return self._replace(**selected)


def _take(values: Any, keep: Any) -> Any:
    if isinstance(values, np.ndarray):
        return values[keep]
    return [value for value, keeps in zip(values, keep.tolist(), strict=True) if keeps]


def is_frame(value: Any) -> bool:
    """Return whether a value is a data frame: a table whose columns have names."""
    if isinstance(value, np.ndarray | list | tuple | str) or value is None:
        return False
    return hasattr(value, "__arrow_c_stream__") or (
        hasattr(value, "columns") and nw.dependencies.is_into_dataframe(value)
    )


def interactions_of(X: Any, y: Any = None) -> Any:
    """Return a data frame of interactions as `MatchingData`; other data as they are.

    A frame without grades is one of interactions if it has columns for user and item by their
    usual names.
    """
    _refuse_lazy(X)
    if y is not None or not is_frame(X):
        return X
    names = {name.lower() for name in _frame(X).columns}
    if not all(names & set(ROLES[role]) for role in ("user", "item")):
        return X
    return MatchingData.from_interactions(X)


def _refuse_lazy(frame: Any) -> None:
    """Refuse a query that has not run yet: its rows would be computed again at each use."""
    if type(frame).__name__ == "LazyFrame":
        raise DataError("a LazyFrame has no rows yet; collect it first: frame.collect().")


def as_feature_table(features: Any, id_column: str = "") -> Any:
    """Return features of users or items; a data frame becomes a `FeatureTable`.

    Its ids are in the column `id_column`, if it has that, else in the first.
    """
    if features is None or isinstance(features, FeatureTable) or not is_frame(features):
        return features
    if id_column and getattr(getattr(features, "index", None), "name", None) == id_column:
        features = features.reset_index()  # pandas: the ids are the index
    table = _frame(features)
    if id_column in table.columns:
        table = table.select(id_column, *(name for name in table.columns if name != id_column))
    return features_from_frame(table.to_native())


def matching_from_frame(
    frame: Any,
    *,
    user: str = "",
    item: str = "",
    user_features: Any = None,
    item_features: Any = None,
    duplicates: str = "sum",
    min_propensity: float = MIN_PROPENSITY,
    **columns: str,
) -> MatchingData:
    """Build data from a frame of interactions; see `MatchingData.from_interactions`.

    Examples
    --------
    >>> import polars
    >>> frame = polars.DataFrame({"user": [7, 7], "item": ["a", "b"], "rating": [5, 3]})
    >>> matching_from_frame(frame)
    MatchingData(1 queries x 2 documents, 2 judged pairs, features 1 x 2)
    """
    if not is_frame(frame):
        _frame(frame)
    return MatchingData.from_interactions(
        frame,
        user=user,
        item=item,
        rating=columns.get("value", ""),
        timestamp=columns.get("time", ""),
        propensity=columns.get("propensity", ""),
        min_propensity=min_propensity,
        user_features=user_features,
        item_features=item_features,
        duplicates=duplicates,
    )


def features_from_frame(frame: Any) -> FeatureTable:
    """Return a frame as features; its first column holds the ids.

    A column of numbers or booleans becomes one numeric feature, a column of texts or categories
    one indicator per value, called ``column=value``, and a column of lists, or of texts with ``|``
    between the values as in MovieLens, one indicator per value in the lists. A column of texts of
    several words that mostly differ, such as titles, becomes one indicator per word. To encode
    numbers as categories, convert them to text first.
    """
    table = _frame(frame)
    first, *others = table.columns
    columns: dict[str, Numbers | Categories | Lists] = {}
    for name in others:
        column = table[name]
        # pandas has NaN where others have None, and stores lists as objects.
        pairs = zip(column.to_list(), column.is_null().to_list(), strict=True)
        values = [None if missing else value for value, missing in pairs]
        has_lists = column.dtype in (nw.List, nw.Array) or any(
            isinstance(value, list | tuple | set) for value in values
        )
        if has_lists:
            columns[name] = Lists([None if value is None else list(value) for value in values])
        elif column.dtype.is_numeric() or column.dtype == nw.Boolean:
            columns[name] = Numbers(_numbers(table, name))
        elif _is_listing(values):
            columns[name] = Lists([None if value is None else value.split("|") for value in values])
        elif column.dtype in (nw.String, nw.Object) and _is_prose(values):
            columns[name] = Lists([None if value is None else words(value) for value in values])
        elif column.dtype in (nw.String, nw.Categorical, nw.Enum) or column.dtype == nw.Object:
            columns[name] = Categories(values)
        else:
            raise DataError(
                f"column {name} is of type {column.dtype}, which cannot become a feature; "
                "convert it to numbers, text or lists of text."
            )
    return encode(_ids(table, first), columns)


def _is_listing(values: list[Any]) -> bool:
    """Return whether values are texts, some of them with ``|`` between their parts."""
    texts = [value for value in values if value is not None]
    return all(isinstance(text, str) for text in texts) and any("|" in text for text in texts)


def _is_prose(values: list[Any]) -> bool:
    """Return whether most values have several words, and most differ: texts, not categories."""
    texts = [value for value in values if isinstance(value, str)]
    if not texts or len(texts) < sum(value is not None for value in values):
        return False
    several = sum(" " in text.strip() for text in texts)
    return 2 * several > len(texts) and 2 * len(set(texts)) > len(texts)


def find_roles(names: list[str], columns: dict[str, str], where: str) -> dict[str, str]:
    """Return the columns of user, item and, if they exist, value, time and propensity.

    An empty name in `columns` means: detect it.
    """
    roles = {}
    for role, column in columns.items():
        if column and column not in names:
            raise DataError(f"{where} has no column {column!r}; it has {', '.join(names)}.")
        candidates = [column] if column else [n for n in names if n.lower() in ROLES[role]]
        if len(candidates) > 1:
            raise DataError(
                f"{where} has several columns for the {role}, {' and '.join(candidates)}; name one."
            )
        if candidates:
            roles[role] = candidates[0]
        elif role in ("user", "item"):
            raise DataError(
                f"{where} has no column that is the {role} by its name, only {', '.join(names)}; "
                f"name it, as {role}=COLUMN."
            )
    return roles


def check_columns(estimator: Any, X: Any, *, reset: bool = False) -> None:
    """Record the columns of a data frame at `fit`; refuse other ones, or another order, later.

    Scikit-learn's rules and messages; arrays and data of `ranking` have no names to compare.
    """
    from sklearn.utils import validation

    if is_frame(X):
        names = [str(name) for name in getattr(X, "column_names", X.columns)]
        if len(set(names)) == len(names):  # columns of one name are checked as an array
            _refuse_other_types(_frame(X))
    if not hasattr(X, "columns") and not hasattr(X, "__dataframe__"):
        if reset and hasattr(estimator, "feature_names_in_"):
            del estimator.feature_names_in_
        if not isinstance(X, np.ndarray | list | tuple):
            return
    try:
        if hasattr(validation, "_check_feature_names"):  # from scikit-learn 1.6 on
            validation._check_feature_names(estimator, X, reset=reset)
        else:
            estimator._check_feature_names(X, reset=reset)
    except ValueError as error:
        raise DataError(str(error)) from error


def _refuse_other_types(table: nw.DataFrame[Any]) -> None:
    """Refuse columns that are not numbers, and say how to make numbers of them."""
    for name in table.columns:
        kind = table.get_column(name).dtype
        if kind.is_numeric() or kind == nw.Boolean:
            _refuse_missing(table, name)
            continue
        if kind == nw.Object and _all_numbers(table.get_column(name)):
            continue
        if kind in (nw.List, nw.Array) or _has_lists(table.get_column(name)):
            remedy = "give one column per value (pandas: explode and get_dummies)"
        elif kind in (nw.Date, nw.Datetime, nw.Duration):
            remedy = "convert it to a number, such as days before today"
        else:
            remedy = (
                "encode it, as scikit-learn's OneHotEncoder or OrdinalEncoder does, or rank texts "
                "as a TextCollection"
            )
        raise DataError(f"column {name!r} is of type {kind}, and features are numbers; {remedy}.")


def _refuse_missing(table: nw.DataFrame[Any], name: str) -> None:
    column = table.get_column(name)
    missing = column.is_null() | column.is_nan() if column.dtype.is_float() else column.is_null()
    if missing.any():
        row = missing.to_list().index(True)
        raise DataError(
            f"column {name!r}: row {row} is missing (NaN); fill in or drop missing values first."
        )


def _has_lists(column: nw.Series[Any]) -> bool:
    if column.dtype != nw.Object:
        return False
    return any(isinstance(value, list | tuple | set) for value in column.to_list())


def _all_numbers(column: nw.Series[Any]) -> bool:
    return all(isinstance(value, int | float) for value in column.to_list())


def _frame(frame: Any) -> nw.DataFrame[Any]:
    try:
        return nw.from_native(frame, eager_only=True)
    except TypeError as error:
        if hasattr(frame, "__arrow_c_stream__"):
            return nw.from_native(pyarrow_module("an Arrow stream").table(frame), eager_only=True)
        raise DataError(
            f"a {type(frame).__name__} is not a supported data frame: {error}"
        ) from error


def pyarrow_module(what: str) -> Any:
    """Return pyarrow, or raise `DataError` that says how to install it."""
    try:
        import pyarrow
    except ImportError as error:
        raise DataError(
            f"{what} needs the package pyarrow; install it with pip install 'ranking-kit[frames]'."
        ) from error
    return pyarrow


def _ids(table: nw.DataFrame[Any], name: str) -> list[Any]:
    _refuse_nulls(table, name)
    column = table[name]
    if column.dtype.is_float():  # pandas has floats for want of integers with gaps
        values = column.to_numpy()
        if (values == np.rint(values)).all() and np.abs(values).max(initial=0.0) <= 2.0**53:
            return values.astype(np.int64).tolist()
    return column.to_list()


def _numbers(table: nw.DataFrame[Any], name: str) -> Any:
    _refuse_nulls(table, name)
    column = table[name]
    if column.dtype == nw.Date:
        column = column.cast(nw.Datetime("us"))
    if column.dtype == nw.Datetime:
        return column.dt.timestamp("us").to_numpy() / 1e6
    if not column.dtype.is_numeric() and column.dtype != nw.Boolean:
        raise DataError(f"column {name} is of type {column.dtype}; numbers or dates are needed.")
    return column.to_numpy()


def _refuse_nulls(table: nw.DataFrame[Any], name: str) -> None:
    missing = table[name].is_null().to_list()
    if any(missing):
        raise DataError(
            f"column {name}: row {missing.index(True)} is missing; fill it in or drop the row."
        )
