"""The contract of a loss: one or more interfaces, of which a solver asks for the one it can use."""

from __future__ import annotations

import dataclasses
import enum
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from ranking.contracts.part import Part
from ranking.contracts.regularizer import EntryPenalty

if TYPE_CHECKING:
    from ranking.data.judged_lists import JudgedLists
    from ranking.kernels.kernel import Kernel
    from ranking.native import ListwiseFunctions, PairwiseFunctions

LossInterface = Literal["pairwise", "listwise", "coordinate", "linear"]
Array = NDArray[np.float64]


class PairwiseForm(enum.IntEnum):
    """Pairwise losses whose slope a kernel can evaluate in its training loops."""

    HINGE = 0
    SQUARED_HINGE = 1
    LOGISTIC = 2
    NATIVE = 3
    """A C function of a plugin, called through its address."""


@dataclasses.dataclass
class Loss(Part, ABC):
    """What a ranker minimises.

    Attributes
    ----------
    interfaces : frozenset of {"pairwise", "listwise", "coordinate", "linear"}
        The interfaces that this loss shows. A class that names a interface fulfils its protocol.
    lacks : mapping
        Why it cannot show some other interface, for solvers that need it to say so.
    """

    interfaces: ClassVar[frozenset[LossInterface]] = frozenset()
    unsupported: ClassVar[Mapping[LossInterface, str]] = {}
    orders_positives: ClassVar[bool] = False
    """Whether a tuple has several positives, of which the score chooses one: `positives`."""

    @classmethod
    def unsupported_reason(cls, interface: LossInterface) -> str:
        """Return why the loss does not show a interface."""
        return cls.unsupported.get(interface, f"the loss has no {interface} interface")

    @property
    def native(self) -> PairwiseFunctions | ListwiseFunctions | None:
        """The C functions that kernels call, of a loss that has them."""
        return None

    @property
    def positives(self) -> tuple[int, int]:
        """How many positives are drawn, and which place among them, best first, counts from 0."""
        return 1, 0


class PairwiseLoss(Protocol):
    """The *pair* interface: a function of the margin z = f(q, d+) - f(q, d-), and how d- is drawn.

    AUC is WARP with one trial and a constant weight, so these four calls hold them all.
    """

    form: PairwiseForm | None
    """The loss whose slope kernels inline; `NATIVE`, if they call that of `Loss.native`; or None,
    if it is asked by batches, in Python."""

    trials: int
    """How many negatives are drawn at most in search of one that violates the margin."""

    @abstractmethod
    def pairwise_value(self, margin: Array) -> Array:
        """Return the loss of each margin."""

    @abstractmethod
    def pairwise_slope(self, margin: Array) -> Array:
        """Return its derivative."""

    @abstractmethod
    def rank_weight(self, rank: NDArray[np.int64]) -> Array:
        """Return the weight L(rank) of a violation at an estimated rank."""


class LinearLoss(Protocol):
    """The *linear* interface: the loss is -sum weight * score, so a half-step has a closed form."""

    per_query: bool
    """Whether a query counts as the mean of its pairs, and all queries alike; else pairs do."""

    @abstractmethod
    def pair_weights(self, relevance: Array) -> Array:
        """Return the weight of each related pair from its relevance."""


class ListwiseLoss(Protocol):
    """The *list* interface: value and slopes for the scores of one query's list."""

    @abstractmethod
    def listwise_value(self, scores: Array, grades: Array) -> float:
        """Return the loss of one list."""

    @abstractmethod
    def listwise_slopes(self, scores: Array, grades: Array) -> Array:
        """Return the derivative of the loss of one list with respect to each score."""


class CoordinateLoss(Protocol):
    """The *coordinate* interface: gradient and curvature bound along one feature at a time."""

    @abstractmethod
    def coordinate_problem(
        self, data: JudgedLists, weights: Array, kernel: Kernel, threads: int, curvature: str
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
