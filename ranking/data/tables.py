"""Encode columns of a table as features: numbers as they are, categories as indicators."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from ranking.data.matching_data import FeatureTable
from ranking.data.validation import as_ids
from ranking.errors import DataError


@dataclasses.dataclass(frozen=True)
class Numbers:
    """A numeric column: one feature, called like the column."""

    values: Any


@dataclasses.dataclass(frozen=True)
class Categories:
    """A column of categories: one feature per value, called ``column=value``; none for None."""

    values: Sequence[Any]


@dataclasses.dataclass(frozen=True)
class Lists:
    """A column of lists of categories: one feature per value, called ``column=value``."""

    values: Sequence[Iterable[Any] | None]


def encode(ids: Sequence[Any], columns: Mapping[str, Numbers | Categories | Lists]) -> FeatureTable:
    """Encode a table as features.

    Examples
    --------
    >>> table = encode(["u", "v"], {"age": Numbers([30, 40]), "sex": Categories(["f", "m"])})
    >>> table.names.tolist(), table.features.toarray().tolist()
    (['age', 'sex=f', 'sex=m'], [[30.0, 1.0, 0.0], [40.0, 0.0, 1.0]])
    """
    blocks: list[Any] = []
    names: list[str] = []
    for name, column in columns.items():
        if isinstance(column, Numbers):
            values = np.asarray(column.values, dtype=np.float64)
            if not np.isfinite(values).all():
                row = int(np.argmin(np.isfinite(values)))
                raise DataError(
                    f"column {name}: row {row} ({ids[row]}) is {values[row]}; fill it in."
                )
            blocks.append(sparse.csr_array(values[:, None]))
            names.append(name)
            continue
        lists = (
            column.values
            if isinstance(column, Lists)
            else [None if value is None else (value,) for value in column.values]
        )
        # Repeated values of a list count once; sorted values fix the order of the columns.
        rows = [set() if values is None else set(values) for values in lists]
        ordered = sorted(set().union(*rows), key=lambda value: (str(type(value)), value))
        code = {value: at for at, value in enumerate(ordered)}
        indices = [sorted(code[value] for value in values) for values in rows]
        indptr = np.concatenate(([0], np.cumsum([len(row) for row in indices])))
        flat = np.array([index for row in indices for index in row], dtype=np.int64)
        parts = (np.ones(flat.size), flat, indptr)
        blocks.append(sparse.csr_array(parts, shape=(len(rows), len(ordered))))
        names.extend(f"{name}={value}" for value in ordered)
    if not names:
        raise DataError("a table of features needs a column besides the ids; add one.")
    features = sparse.hstack(blocks, format="csr")
    return FeatureTable(as_ids("ids", list(ids), len(ids)), features, np.array(names))
