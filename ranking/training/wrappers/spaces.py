"""Search spaces: which parameters of a recipe are tuned, and between which values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ranking.contracts.parameters import constraints
from ranking.contracts.part import Part
from ranking.contracts.recipe import Choice, Search

FACTORS: Mapping[str, tuple[float, float]] = {
    "dimensions": (0.5, 2.0),
    "epochs": (0.5, 2.0),
    "feature_fraction": (0.3, 1.0),
    "lambda_l2": (0.1, 10.0),
    "learning_rate": (0.25, 4.0),
    "max_epochs": (1.0, 4.0),
    "min_data_in_leaf": (0.5, 5.0),
    "neighbors": (0.3, 3.0),
    "num_leaves": (0.5, 8.0),
    "query_degree": (0.3, 2.0),
    "shrinkage": (0.1, 30.0),
    "strength": (0.05, 20.0),
    "temperature": (0.4, 2.5),
    "unobserved": (0.1, 10.0),
}
"""Parameters by name, and the factors of their resolved default between which they are tuned."""

KEEP = 0.3
"""The chance that a parameter keeps its default in a sampled configuration."""


class Range(NamedTuple):
    """The values of one parameter.

    Attributes
    ----------
    part, parameter : str
    low, high : float
    log : bool
        Whether logarithms are uniform.
    integer : bool
    default : float or str
        What the recipe has.
    """

    part: str
    parameter: str
    low: float
    high: float
    log: bool
    integer: bool
    default: Any

    def at(self, share: float) -> float:
        """Return the value at a share of the range, from 0 to 1."""
        if self.log:
            logs = math.log(self.low), math.log(self.high)
            value = math.exp(logs[0] + share * (logs[1] - logs[0]))
        else:
            value = self.low + share * (self.high - self.low)
        return round(value) if self.integer else float(f"{value:.4g}")


def search_space(
    parts: Mapping[str, Part], resolved: Mapping[str, Part], search: Search | None
) -> list[Range]:
    """Return the parameters of a recipe that are tuned.

    Parameters
    ----------
    parts, resolved : mapping
        Model, loss, regularizer and solver, as the recipe names them, and with numbers instead of
        "auto".
    search : Search or None
        Of the recipe; its axes are tuned between their smallest and largest values.
    """
    ranges: dict[tuple[str, str], Range] = {}
    for kind, part in resolved.items():
        limits = constraints(part)
        for name, value in part.get_params().items():
            positive = isinstance(value, int | float) and not isinstance(value, bool) and value > 0
            if name not in FACTORS or not positive or name not in limits:
                continue
            if limits[name].kind not in ("integer", "number"):
                continue
            low, high = (float(value) * factor for factor in FACTORS[name])
            limit = limits[name]
            low = max(low, limit.minimum or 0.0)
            high = high if limit.maximum is None else min(high, limit.maximum)
            if limit.kind == "integer":
                low = max(low, 1.0)
            default = getattr(parts[kind], name)
            if low < high:
                ranges[kind, name] = Range(
                    kind, name, low, high, True, limit.kind == "integer", default
                )
    for axis in () if search is None else (search, search.outer):
        if axis is not None:
            ranges[axis.part, axis.parameter] = _axis(axis, parts)
    return list(ranges.values())


def _axis(axis: Any, parts: Mapping[str, Part]) -> Range:
    values: Sequence[float] = [float(value) for value in axis.values]
    low, high = min(values), max(values)
    whole = all(value == int(value) for value in axis.values)
    integer = whole and all(isinstance(value, int) for value in axis.values)
    default = getattr(parts[axis.part], axis.parameter)
    return Range(axis.part, axis.parameter, low, high, low > 0, integer, default)


def sample(space: Sequence[Range], rng: np.random.Generator) -> tuple[Choice, ...]:
    """Return a random configuration: the parameters that differ from the default."""
    choices: list[Choice] = []
    while not choices:
        for one in space:
            keep, share = rng.random(2)
            if keep >= KEEP:
                choices.append(Choice(one.part, one.parameter, one.at(float(share))))
    return tuple(choices)
