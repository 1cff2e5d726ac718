"""The contract of a recipe: parts that belong together, and a search for their parameters."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Choice(NamedTuple):
    """One parameter of one part, set to a value."""

    part: str
    parameter: str
    value: float


@dataclasses.dataclass(frozen=True)
class Axis:
    """Values of one parameter, such as ``"loss", "slope"``."""

    part: str
    parameter: str
    values: Sequence[float]


@dataclasses.dataclass(frozen=True)
class Search:
    """A small parameter search on the validation data.

    Attributes
    ----------
    part, parameter : str
        The searched parameter, such as ``"regularizer", "strength"``.
    values : sequence
        Tried in this order, each training warm-started from the previous one: a path.
    metric : str
        The metric on the validation data that decides; of equal values, the first wins.
    outer : Axis or None
        Another parameter; each of its values has its own path.
    """

    part: str
    parameter: str
    values: Sequence[float]
    metric: str
    outer: Axis | None = None

    def trials(self) -> list[tuple[Choice, ...]]:
        """Return the parameters of each training, path after path."""
        outer = self.outer
        tops: list[tuple[Choice, ...]] = (
            [()]
            if outer is None
            else [(Choice(outer.part, outer.parameter, value),) for value in outer.values]
        )
        return [
            (*top, Choice(self.part, self.parameter, value))
            for top in tops
            for value in self.values
        ]


@dataclasses.dataclass(frozen=True)
class Recipe:
    """A named starting point for `ranking train --recipe`.

    Attributes
    ----------
    parts : mapping
        Specs of ``model``, ``loss``, ``regularizer`` and ``solver``.
    search : Search or None
        Used when validation data are given and the searched parameter is not.
    data : tuple of str
        The kinds of data that it is made for: "judged", "texts", "interactions" (ids only),
        "features"; by default what its parts suggest. `ranking benchmark` looks at it.
    """

    parts: Mapping[str, str]
    search: Search | None = None
    data: tuple[str, ...] = ()
