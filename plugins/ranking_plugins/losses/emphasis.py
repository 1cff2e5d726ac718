"""What the domination loss may say about single items: their weights and their margins.

An item i of a list dominates every item j of a lower grade. Its term has a weight omega_i, and may
demand that i stands above j by a margin Delta_ij.
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
"""The largest grade g whose gain 2**g - 1 is taken."""


def dominating(grades: Array, group_ptr: Ints) -> NDArray[np.bool_]:
    """Return which rows stand above the lowest grade of their group."""
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
                f"the largest grade is {grades.max():g}, and its gain 2^grade - 1 is no number to "
                "weight with; scale the grades, or take weights=one."
            )
        return np.maximum(np.exp2(grades) - 1.0, 0.0)
    if kind == "query":
        count = np.bincount(query, weights=above)
        return 1.0 / np.maximum(count, 1.0)[query]
    return np.ones(grades.size)


def margins_by_grade(
    kind: str, grades: Array, above: NDArray[np.bool_], a: float, b: float
) -> Array:
    """Return s of each row, for Delta_ij = s_i - s_j; 0 where nothing is dominated."""
    if kind == "log":
        if np.any(grades[above] <= 0.0):
            raise DataError(
                f"margin=log takes the logarithm of grades, and an item of grade "
                f"{grades[above].min():g} dominates others; take margin=grade."
            )
        grades = np.log(np.where(above, grades, 1.0))
    return np.where(above, a * grades + b, 0.0)


def boundary_margins(boundaries: Sequence[float], grades: Array, above: NDArray[np.bool_]) -> Array:
    """Return Delta of each row, demanded of all that it dominates: boundaries[grade - 1]."""
    place = np.where(above, grades, 1.0) - 1.0
    whole = (place == np.floor(place)) & (place >= 0) & (place < len(boundaries))
    if not whole.all():
        raise DataError(
            f"boundaries has {len(boundaries)} margins, for the grades 1 to {len(boundaries)}, and "
            f"an item of grade {grades[~whole][0]:g} dominates others; give one margin a grade."
        )
    return np.where(above, np.asarray(boundaries, float)[place.astype(np.int64)], 0.0)


def parse_boundaries(text: str | Sequence[float]) -> tuple[float, ...]:
    """Read ``0.5+1``: the margin of grade 1, of grade 2, and so on."""
    words = text.split("+") if isinstance(text, str) else text
    try:
        found = tuple(float(word) for word in words)
    except ValueError:
        found = ()
    if not found or not np.isfinite(found).all():
        raise PartError(
            f"domination has boundaries={text!r}; give one number a grade from 1 on, as in 0.5+1."
        )
    return found


def given_values(name: str, values: Array, row_order: Ints) -> Array:
    """Return what was given for each row of the input, in the order in which data keep them."""
    needed = int(row_order.max()) + 1
    if values.size < needed or (needed == row_order.size and values.size != needed):
        raise DataError(
            f"{name} has {values.size} values, and the data {needed} rows; give one a row."
        )
    return values[row_order]


def checked_values(name: str, values: object) -> Array:
    """Return values that were given one a row, or raise `PartError`."""
    array = np.asarray(values, dtype=float)
    if array.ndim != 1 or not np.isfinite(array).all():
        raise PartError(
            f"domination has {name} of shape {array.shape}; give a finite number a row."
        )
    return array
