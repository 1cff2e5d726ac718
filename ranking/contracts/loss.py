"""The contract of a loss: one or more interfaces, one of which a solver uses."""

from __future__ import annotations

import dataclasses
import enum
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol, runtime_checkable

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


class ListwiseForm(enum.IntEnum):
    """Listwise losses whose slopes a kernel can evaluate in its training loops."""

    DOMINATION = 0
    NATIVE = 1
    """C functions of a plugin, called through their addresses."""


class SharedForm(enum.IntEnum):
    """Losses of lists that share their negatives, as kernels have them in their loops."""

    SOFTMAX = 0
    COSINE_CONTRASTIVE = 1
    LOGISTIC = 2


class SampledListForm(NamedTuple):
    """A listwise loss for a list of one positive (grade 1) and sampled negatives (grade 0).

    Attributes
    ----------
    form : ListwiseForm
    weight, margin : float
        Of the domination loss, ``weight * log(1 + sum_j exp(f_j - f_+ + margin))``; a native loss
        has 1 and 0.
    """

    form: ListwiseForm
    weight: float = 1.0
    margin: float = 0.0


class SharedListForm(NamedTuple):
    """A loss of a positive and negatives that other positives share, as kernels have it.

    Attributes
    ----------
    form : SharedForm
    scale : float
        By which scores are multiplied; for a softmax, 1 / temperature.
    threshold, weight : float
        Of negatives, where the form has them.
    """

    form: SharedForm
    scale: float = 1.0
    threshold: float = 0.0
    weight: float = 1.0


@dataclasses.dataclass
class Loss(Part, ABC):
    """The loss that a ranker minimizes.

    Attributes
    ----------
    interfaces : frozenset of {"pairwise", "listwise", "coordinate", "linear"}
        The interfaces that the loss implements; each is a protocol of this module.
    unsupported : mapping
        The reason why it cannot implement some other interface, for messages of solvers.
    """

    interfaces: ClassVar[frozenset[LossInterface]] = frozenset()
    unsupported: ClassVar[Mapping[LossInterface, str]] = {}
    orders_positives: ClassVar[bool] = False
    """Whether several positives are sampled and one is selected by its score: `positives`."""
    is_smooth: ClassVar[bool] = True
    """Whether the loss is differentiable everywhere, as L-BFGS needs it."""

    compares_scores: ClassVar[bool] = True
    """Whether a listwise loss depends on the differences of the scores of a list only."""

    @classmethod
    def unsupported_reason(cls, interface: LossInterface) -> str:
        """Return why the loss does not implement an interface."""
        return cls.unsupported.get(interface, f"the loss has no {interface} interface")

    @property
    def native(self) -> PairwiseFunctions | ListwiseFunctions | None:
        """The C functions that kernels call, if the loss has them."""
        return None

    @property
    def curvature(self) -> float | None:
        """A bound of the second derivative of a pairwise loss.

        With it and with C functions (`native`), coordinate descent trains the loss.
        """
        return None

    @property
    def positives(self) -> tuple[int, int]:
        """The number of sampled positives, and the rank (from 0) of the one that is used."""
        return 1, 0


class PairwiseLoss(Protocol):
    """The *pairwise* interface: a function of the margin z = f(q, d+) - f(q, d-).

    It also says how negatives d- are sampled: AUC is WARP with one trial and a constant weight.
    """

    form: PairwiseForm | None
    """The form whose slope kernels have in their loops; `NATIVE` if they call `Loss.native`; None
    if the slope is computed by batches, in Python."""

    trials: int
    """The maximal number of negatives to sample until one violates the margin."""

    @abstractmethod
    def pairwise_value(self, margin: Array) -> Array:
        """Return the loss of each margin."""

    @abstractmethod
    def pairwise_slope(self, margin: Array) -> Array:
        """Return the derivative of the loss at each margin."""

    @abstractmethod
    def rank_weight(self, rank: NDArray[np.int64]) -> Array:
        """Return the weight L(rank) of a violation at an estimated rank."""


class LinearLoss(Protocol):
    """The *linear* interface: -sum weight * score, so that half-steps have a closed form."""

    per_query: bool
    """Whether all queries have the same weight, each as the mean of its pairs; else all pairs."""

    @abstractmethod
    def pair_weights(self, relevance: Array) -> Array:
        """Return the weight of each positive pair from its relevance."""


class ListwiseLoss(Protocol):
    """The *listwise* interface: value and slopes for the scores of one list."""

    @abstractmethod
    def listwise_value(self, scores: Array, grades: Array) -> float:
        """Return the loss of one list."""

    @abstractmethod
    def listwise_slopes(self, scores: Array, grades: Array) -> Array:
        """Return the derivative of the loss of one list with respect to each score."""


@runtime_checkable
class SupportsSampledLists(Protocol):
    """A listwise loss that kernels have in their loops."""

    @abstractmethod
    def sampled_list_form(self) -> SampledListForm:
        """Return the loss of a list of one positive and sampled negatives."""


@runtime_checkable
class SupportsFoldIn(Protocol):
    """A loss that computes embeddings of new queries from their positives."""

    @abstractmethod
    def fold_in(
        self,
        documents: NDArray[np.float32],
        pairs: Any,
        regularizer: Any,
        kernel: Kernel,
        threads: int,
    ) -> NDArray[np.float32]:
        """Return one embedding per query, padded as those of the documents.

        Parameters
        ----------
        documents : float32 array
            The embeddings of all documents.
        pairs : csr_array of float32
            The responses, one row per query.
        regularizer : Regularizer or None
            Of the embeddings.
        """


@runtime_checkable
class SharedNegativesLoss(Protocol):
    """A listwise loss of embeddings for which all positives of a block have the same negatives."""

    @abstractmethod
    def shared_list_form(self, n_negatives: int) -> SharedListForm:
        """Return the loss of a positive and n negatives."""

    @abstractmethod
    def shared_values(self, own: Array, others: Array) -> Array:
        """Return the loss of each list, from scores that are multiplied by the scale.

        Row i of `others` has those of the negatives of list i, -inf for one that is excluded.
        """


@runtime_checkable
class TopKWeightedLoss(SharedNegativesLoss, Protocol):
    """A loss with shared negatives whose lists are weighted by the k-th largest score.

    Attributes
    ----------
    k : int
    refresh : int
        The epochs after which the k-th largest scores are computed again.
    """

    k: int
    refresh: int

    @abstractmethod
    def top_k_weights(self, own: Array, thresholds: Array) -> Array:
        """Return the weight of each list.

        Parameters
        ----------
        own : array
            The score of the positive.
        thresholds : array
            The k-th largest score of its query over all documents.
        """


@runtime_checkable
class MarginListLoss(Protocol):
    """Lists of one positive and several negatives, by their margins: all lists in one call.

    Row i of `margins` has z_j = f(q, d+) - f(q, d_j) for each negative d_j of list i. A listwise
    loss that has these methods is not called list by list, and block coordinate descent takes it.
    """

    @abstractmethod
    def margin_values(self, margins: Array) -> Array:
        """Return the loss of each list."""

    @abstractmethod
    def margin_slopes(self, margins: Array) -> Array:
        """Return the derivative of the loss of its list with respect to each margin."""

    @abstractmethod
    def margin_curvatures(self, margins: Array) -> Array:
        """Return c for each margin such that ``slope * dz + c/2 * dz**2`` bounds the change.

        Solvers enlarge it if it is too small, so an estimate will do.
        """


class CoordinateLoss(Protocol):
    """The *coordinate* interface: gradient and curvature bound along one feature at a time."""

    @abstractmethod
    def coordinate_problem(
        self, data: JudgedLists, weights: Array, kernel: Kernel, threads: int, curvature: str
    ) -> CoordinateProblem:
        """Prepare the data for coordinate descent, starting from `weights`."""


class CoordinateProblem(Protocol):
    """A loss on one data set along its features, with the current weights.

    Only `sweep` changes the weights, in place.
    """

    weights: Array

    def value(self) -> float:
        """Return the loss at the current weights."""

    def slopes(self, columns: NDArray[np.int64]) -> tuple[Array, Array]:
        """Return gradient and second derivative along each of these features."""

    def sweep(self, columns: NDArray[np.int64], penalty: EntryPenalty) -> None:
        """Take one step along each of these features, in order; none increases the objective."""

    def decrease(self, columns: NDArray[np.int64], penalty: EntryPenalty) -> Array:
        """Return a lower bound of the decrease of the objective by one step along each feature.

        For features whose weight is 0; feature induction uses it.
        """

    def state(self) -> dict[str, NDArray[np.float64]]:
        """Return everything that a resumed run needs to continue with the same bits."""

    def restore(self, state: dict[str, NDArray[np.float64]]) -> None:
        """Restore what `state` returned."""
