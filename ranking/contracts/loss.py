"""The contract of a loss: one or more faces, of which a solver asks for the one it can use."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from ranking.contracts.part import Part
from ranking.contracts.regularizer import EntryPenalty
from ranking.kernels._old_contract import PairForm

if TYPE_CHECKING:
    from ranking.data.judged import Judged
    from ranking.kernels.kernel import Kernel
    from ranking.native import ListFunctions, PairFunctions

Face = Literal["pair", "list", "coordinate", "linear"]
Array = NDArray[np.float64]


@dataclasses.dataclass
class Loss(Part, ABC):
    """What a ranker minimises.

    Attributes
    ----------
    faces : frozenset of {"pair", "list", "coordinate", "linear"}
        The faces that this loss shows. A class that names a face fulfils its protocol.
    lacks : mapping
        Why it cannot show some other face, for solvers that need it to say so.
    """

    faces: ClassVar[frozenset[Face]] = frozenset()
    lacks: ClassVar[Mapping[Face, str]] = {}
    orders_positives: ClassVar[bool] = False
    """Whether a tuple has several positives, of which the score chooses one: `positives`."""

    @classmethod
    def why_no(cls, face: Face) -> str:
        """Return why the loss does not show a face."""
        return cls.lacks.get(face, f"the loss has no {face} face")

    @property
    def native(self) -> PairFunctions | ListFunctions | None:
        """The C functions that kernels call, of a loss that has them."""
        return None

    @property
    def positives(self) -> tuple[int, int]:
        """How many positives are drawn, and which place among them, best first, counts from 0."""
        return 1, 0


class PairLoss(Protocol):
    """The *pair* face: a function of the margin z = f(q, d+) - f(q, d-), and how d- is drawn.

    AUC is WARP with one trial and a constant weight, so these four calls hold them all.
    """

    form: PairForm | None
    """The loss whose slope kernels inline; `NATIVE`, if they call that of `Loss.native`; or None,
    if it is asked by batches, in Python."""

    trials: int
    """How many negatives are drawn at most in search of one that violates the margin."""

    @abstractmethod
    def pair_value(self, margin: Array) -> Array:
        """Return the loss of each margin."""

    @abstractmethod
    def pair_slope(self, margin: Array) -> Array:
        """Return its derivative."""

    @abstractmethod
    def rank_weight(self, rank: NDArray[np.int64]) -> Array:
        """Return the weight L(rank) of a violation at an estimated rank."""


class LinearLoss(Protocol):
    """The *linear* face: the loss is -sum weight * score, so a half-step has a closed form."""

    per_query: bool
    """Whether a query counts as the mean of its pairs, and all queries alike; else pairs do."""

    @abstractmethod
    def pair_weights(self, relevance: Array) -> Array:
        """Return the weight of each related pair from its relevance."""


class ListLoss(Protocol):
    """The *list* face: value and slopes for the scores of one query's list."""

    @abstractmethod
    def list_value(self, scores: Array, grades: Array) -> float:
        """Return the loss of one list."""

    @abstractmethod
    def list_slopes(self, scores: Array, grades: Array) -> Array:
        """Return the derivative of the loss of one list with respect to each score."""


class CoordinateLoss(Protocol):
    """The *coordinate* face: gradient and curvature bound along one feature at a time."""

    @abstractmethod
    def coordinate_problem(
        self, data: Judged, weights: Array, kernel: Kernel, threads: int, curvature: str
    ) -> CoordinateProblem:
        """Lay the data out for coordinate descent, starting from `weights`."""


class CoordinateProblem(Protocol):
    """A loss over one data set, seen along the features, with its current weights.

    The weights change in place, by `sweep` only.
    """

    weights: Array

    def value(self) -> float:
        """Return the loss at the current weights."""

    def slopes(self, columns: NDArray[np.int64]) -> tuple[Array, Array]:
        """Return gradient and second derivative along each of these features."""

    def sweep(self, columns: NDArray[np.int64], penalty: EntryPenalty) -> None:
        """Take one guaranteed step along each of these features, in this order."""

    def decrease(self, columns: NDArray[np.int64], penalty: EntryPenalty) -> Array:
        """Return by how much one step along each feature decreases the objective at least.

        For features whose weight is 0; feature induction asks for it.
        """

    def state(self) -> dict[str, NDArray[np.float64]]:
        """Return everything that a resumed run needs to go on with the same bits."""

    def restore(self, state: dict[str, NDArray[np.float64]]) -> None:
        """Go back to what `state` returned."""
