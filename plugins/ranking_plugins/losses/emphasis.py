"""Weights and margins of single documents in the domination loss.

A document i of a list dominates every document j of a lower grade. Its term has a weight omega_i
and may require a margin Delta_ij between the scores of i and j.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ranking.errors import DataError, PartError

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

WEIGHTS = ("one", "gain", "query")
MARGINS = ("none", "grade", "log", "layers")
LARGEST_GAIN = 1000.0
"""The largest grade g for which the gain 2**g - 1 is computed."""


def dominating(grades: Array, group_ptr: Ints) -> NDArray[np.bool_]:
    """Return which rows are above the lowest grade of their group."""
    lowest = np.minimum.reduceat(grades, group_ptr[:-1])
    return grades > np.repeat(lowest, np.diff(group_ptr))


def weights_by_grade(kind: str, grades: Array, above: NDArray[np.bool_], query: Ints) -> Array:
    """Return omega of each row: 1, its gain, or its share of its query's weight of 1.

    Parameters
    ----------
    above : bool array
        The rows that dominate something.
    query : int64 array
        The query of each row, from 0.
    """
    if kind == "gain":
        if grades.max() > LARGEST_GAIN:
            raise DataError(
                f"the largest grade is {grades.max():g}, and its gain 2^grade - 1 is too large for "
                "a weight; scale the grades, or use weights=one."
            )
        return np.maximum(np.exp2(grades) - 1.0, 0.0)
    if kind == "query":
        count = np.bincount(query, weights=above)
        return 1.0 / np.maximum(count, 1.0)[query]
    return np.ones(grades.size)


def margins_by_grade(
    kind: str, grades: Array, above: NDArray[np.bool_], a: float, b: float
) -> Array:
    """Return s of each row, with Delta_ij = s_i - s_j; 0 for rows that dominate nothing."""
    if kind == "log":
        if np.any(grades[above] <= 0.0):
            raise DataError(
                f"margin=log needs positive grades, and a document of grade "
                f"{grades[above].min():g} dominates others; use margin=grade."
            )
        grades = np.log(np.where(above, grades, 1.0))
    return np.where(above, a * grades + b, 0.0)


def boundary_margins(boundaries: Sequence[float], grades: Array, above: NDArray[np.bool_]) -> Array:
    """Return the margin of each row to all that it dominates: boundaries[grade - 1]."""
    index = np.where(above, grades, 1.0) - 1.0
    whole = (index == np.floor(index)) & (index >= 0) & (index < len(boundaries))
    if not whole.all():
        raise DataError(
            f"boundaries has {len(boundaries)} margins, for the grades 1 to {len(boundaries)}, and "
            f"a document of grade {grades[~whole][0]:g} dominates others; give one per grade."
        )
    return np.where(above, np.asarray(boundaries, float)[index.astype(np.int64)], 0.0)


def parse_boundaries(text: str | Sequence[float]) -> tuple[float, ...]:
    """Parse ``0.5+1``: the margins of grade 1, grade 2, and so on."""
    words = text.split("+") if isinstance(text, str) else text
    try:
        margins = tuple(float(word) for word in words)
    except ValueError:
        margins = ()
    if not margins or not np.isfinite(margins).all():
        raise PartError(
            f"domination has boundaries={text!r}; give one number per grade from 1 on, as in 0.5+1."
        )
    return margins


def reorder_values(name: str, values: Array, row_order: Ints) -> Array:
    """Return values for each row of the input in the order of the rows of the data."""
    needed = int(row_order.max()) + 1
    if values.size < needed or (needed == row_order.size and values.size != needed):
        raise DataError(
            f"{name} has {values.size} values, and the data have {needed} rows; give one per row."
        )
    return values[row_order]


def validate_values(name: str, values: object) -> Array:
    """Validate an array with one value per row."""
    array = np.asarray(values, dtype=float)
    if array.ndim != 1 or not np.isfinite(array).all():
        raise PartError(
            f"domination has {name} of shape {array.shape}; give one finite number per row."
        )
    return array
