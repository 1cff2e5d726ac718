"""The contract of a recipe: parts that belong together, and how their parameters are chosen."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence


@dataclasses.dataclass(frozen=True)
class Search:
    """A small, stated search on the validation data.

    Attributes
    ----------
    part, parameter : str
        What is tried, such as ``"regularizer", "strength"``.
    values : sequence
        Tried in this order, each training warm-started from the one before.
    metric : str
        The metric on the validation data that decides; the first of equals wins.
    """

    part: str
    parameter: str
    values: Sequence[float]
    metric: str


@dataclasses.dataclass(frozen=True)
class Recipe:
    """A named starting point for `ranking train --recipe`.

    Attributes
    ----------
    parts : mapping
        Specs of ``model``, ``loss``, ``regularizer`` and ``solver``.
    search : Search or None
        Used when validation data are given and the searched parameter is not.
    """

    parts: Mapping[str, str]
    search: Search | None = None
