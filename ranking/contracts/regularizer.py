"""The contract of a regularizer: an operator with two sides and a granularity."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ranking.contracts.part import Part

if TYPE_CHECKING:
    from ranking.native import RowFunctions

Granularity = Literal["entry", "row", "matrix"]
Array = NDArray[np.float64]
Ids = NDArray[np.int64] | NDArray[np.str_]


class EntryPenalty(NamedTuple):
    """``l1 * |v| + l2/2 * v**2`` for each entry: the form that kernels inline."""

    l1: float
    l2: float


class RowPenalty(NamedTuple):
    """``l2/2 * ||row||**2`` for each row of the factors, and a largest norm; 0 is none."""

    l2: float
    max_norm: float


class RowMaximum(NamedTuple):
    """A maximum by rows: the soft threshold of the gain, scaled to a norm; see `half_step`."""

    threshold: float
    limit: float


class GroupPenalty(NamedTuple):
    """``strength * sum over groups of weight * norm``, for groups of rows or columns of a matrix.

    Attributes
    ----------
    strength : float
    columns : bool
        Whether the groups are of columns, the document features, and not of rows.
    groups : int64 array
        The group of each row, or column, from 0.
    weights : float64 array
        One a group.
    """

    strength: float
    columns: bool
    groups: NDArray[np.int64]
    weights: Array


@dataclasses.dataclass
class Regularizer(Part, ABC):
    """A penalty, or a constraint, on the parameters.

    Attributes
    ----------
    granularity : {"entry", "row", "matrix"}
        The smallest piece of the parameters on which the operator acts by itself. Coordinate
        descent needs "entry".
    inlined : frozenset of {"vector", "matrix", "factors"}
        The forms of parameters for which kernels have this penalty in their loops.
    proximal : frozenset of the same
        The forms of which a solver may take `prox` between calls of a kernel, where it is not
        inlined. Vectors of a factored model have a row a feature. Who says "matrix" acts on each
        row by itself, leaves zeros zero, and does not care in which column an entry stands: it
        is given rows without their zeros.
    lacks : mapping
        Why it has no operator for some other form.
    bounded : bool
        Whether `maximize` exists and keeps the parameters bounded, however large the gain: what
        the alternating solver needs.
    """

    granularity: ClassVar[Granularity] = "entry"
    inlined: ClassVar[frozenset[str]] = frozenset()
    proximal: ClassVar[frozenset[str]] = frozenset({"factors"})
    unsupported: ClassVar[Mapping[str, str]] = {}
    bounded: ClassVar[bool] = False

    @property
    def native(self) -> RowFunctions | None:
        """The C functions that kernels call for each row, of a regularizer that has them."""
        return None

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

    def maximize_rows(self, gain: NDArray[np.float32], threads: int = 1) -> NDArray[np.float32]:
        """Return `maximize` of many rows, in their precision, for those that can do it faster."""
        return self.maximize(gain.astype(np.float64)).astype(np.float32)

    def entry_penalty(self) -> EntryPenalty | None:
        """Return the penalty in the form that kernels inline, or None if it has another form."""
        return None

    def group_penalty(self, rows: Ids, columns: Ids) -> GroupPenalty | None:
        """Return the penalty of a matrix by groups in the form that kernels inline, or None.

        Parameters
        ----------
        rows, columns : int64 or str arrays
            The ids of the features that its rows and columns are for.
        """
        return None

    @property
    def target_density(self) -> float | None:
        """The density for which the solver is to find the strength, if that is what is asked."""
        return None

    def settle(self, strength: float) -> None:
        """Take the strength that was found for `target_density`."""
        raise NotImplementedError

    def row_penalty(self) -> RowPenalty | None:
        """Return the penalty of vectors in the form that kernels inline, or None."""
        return None

    def row_maximum(self) -> RowMaximum | None:
        """Return what `maximize` does to a row in the form that kernels inline, or None."""
        return None

    def column_length(self, shape: tuple[int, ...]) -> float | None:
        """Return how long columns are that must be orthogonal, if it asks for that alone, or None.

        Then `maximize` is that length times a polar factor, and the best of both sides are singular
        vectors, for which the alternating solver has faster half-steps.
        """
        return None

    def of_side(self, side: int) -> Regularizer:
        """Return what it is for the vectors of queries (0) or of documents (1) alone."""
        return self
