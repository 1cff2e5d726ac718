"""The contract of a regularizer: an operator with two sides and a granularity."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ranking.contracts.part import Part

Granularity = Literal["entry", "row", "matrix"]
Array = NDArray[np.float64]


class EntryPenalty(NamedTuple):
    """``l1 * |v| + l2/2 * v**2`` for each entry: the form that kernels inline."""

    l1: float
    l2: float


@dataclasses.dataclass
class Regularizer(Part, ABC):
    """A penalty, or a constraint, on the parameters.

    Attributes
    ----------
    granularity : {"entry", "row", "matrix"}
        The smallest piece of the parameters on which the operator acts by itself. Coordinate
        descent needs "entry".
    """

    granularity: ClassVar[Granularity] = "entry"

    @abstractmethod
    def penalty(self, parameters: Array) -> float:
        """Return the penalty of these parameters; infinite outside a constraint."""

    @abstractmethod
    def prox(self, parameters: Array, step: float) -> Array:
        """Return argmin over V of ``1/2 ||V - parameters||^2 + step * penalty(V)``."""

    def maximize(self, gain: Array) -> Array:
        """Return argmax over P of ``<gain, P> - penalty(P)`` under the constraint.

        The alternating solver uses it. A penalty that leaves the maximum unbounded has none, and
        keeps this method, which refuses.
        """
        from ranking.errors import CombinationError

        raise CombinationError(
            f"regularizer {self.name!r} has no closed maximum, so the alternating solver cannot "
            "use it in a closed half-step."
        )

    def entry_penalty(self) -> EntryPenalty | None:
        """Return the penalty in the form that kernels inline, or None if it has another form."""
        return None
