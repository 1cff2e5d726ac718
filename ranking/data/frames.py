"""Build data from data frames: pandas, polars, pyarrow and others that narwhals supports."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import numpy as np

from ranking.data.matching_data import FeatureTable, MatchingData
from ranking.data.tables import Categories, Lists, Numbers, encode
from ranking.errors import DataError

ROLES = {
    "user": ("user", "user_id", "userid", "uid"),
    "item": (
        *("item", "item_id", "itemid", "movie_id", "movieid", "artist_id", "artistid"),
        *("product_id", "productid", "article_id", "articleid", "document", "document_id"),
    ),
    "value": ("value", "rating", "weight", "count", "clicks", "score"),
    "time": ("time", "timestamp"),
}
"""Usual names of the columns of interactions, in lower case."""


def matching_from_frame(
    frame: Any,
    *,
    user: str = "",
    item: str = "",
    value: str = "",
    time: str = "",
    user_features: Any = None,
    item_features: Any = None,
    duplicates: str = "sum",
) -> MatchingData:
    """Build data from a frame of interactions.

    Parameters
    ----------
    frame : data frame
        One row per interaction.
    user, item, value, time : str
        Names of the columns; by default detected by their usual names. Without a value column,
        each interaction has the value 1.
    user_features, item_features : data frame, optional
        The first column holds the ids; see `features_from_frame`.
    duplicates : {"sum", "max", "last"}
        As in `MatchingData.from_interactions`.

    Examples
    --------
    >>> import polars
    >>> frame = polars.DataFrame({"user": [7, 7], "item": ["a", "b"], "rating": [5, 3]})
    >>> matching_from_frame(frame)
    MatchingData(1 queries x 2 documents, 2 judged pairs, features 1 x 2)
    """
    table = _frame(frame)
    columns = {"user": user, "item": item, "value": value, "time": time}
    roles = find_roles(table.columns, columns, "the frame")
    return MatchingData.from_interactions(
        _ids(table, roles["user"]),
        _ids(table, roles["item"]),
        _numbers(table, roles["value"]) if "value" in roles else None,
        _numbers(table, roles["time"]) if "time" in roles else None,
        duplicates=duplicates,
        user_features=None if user_features is None else features_from_frame(user_features),
        item_features=None if item_features is None else features_from_frame(item_features),
    )


def features_from_frame(frame: Any) -> FeatureTable:
    """Return a frame as features; its first column holds the ids.

    A column of numbers or booleans becomes one numeric feature, a column of texts or categories
    one indicator per value, called ``column=value``, and a column of lists one indicator per value
    in the lists. To encode numbers as categories, convert them to text first.
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
        elif column.dtype in (nw.String, nw.Categorical, nw.Enum) or column.dtype == nw.Object:
            columns[name] = Categories(values)
        else:
            raise DataError(
                f"column {name} is of type {column.dtype}, which cannot become a feature; "
                "convert it to numbers, text or lists of text."
            )
    return encode(_ids(table, first), columns)


def find_roles(names: list[str], columns: dict[str, str], where: str) -> dict[str, str]:
    """Return the columns of user, item and, if they exist, value and time.

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
    return table[name].to_list()


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
