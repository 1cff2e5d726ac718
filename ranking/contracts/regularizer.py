"""The contract of a regularizer: `penalty` and `prox`, and small optional protocols.

Solvers ask ``isinstance(regularizer, SupportsMaximize)`` and so on; a class supports a protocol by
having its methods, without declaring it.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import (
    TYPE_CHECKING,
    ClassVar,
    Literal,
    NamedTuple,
    Protocol,
    TypeAlias,
    runtime_checkable,
)

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ranking.contracts.part import Part

if TYPE_CHECKING:
    from ranking.native import RowFunctions

Granularity: TypeAlias = Literal["entry", "row", "matrix"]
ParameterForm: TypeAlias = Literal["vector", "matrix", "factors"]
Array: TypeAlias = NDArray[np.float64]
Ids: TypeAlias = NDArray[np.int64] | NDArray[np.str_]


class EntryPenalty(NamedTuple):
    """``l1 * |v| + l2/2 * v**2`` for each entry."""

    l1: float = 0.0
    l2: float = 0.0


class RowPenalty(NamedTuple):
    """What happens to each row of the factors that a step changes.

    Attributes
    ----------
    max_norm : float
        The maximal norm; 0 means none.
    rowwise : bool
        Whether Adagrad has one learning rate per row: then the prox of a penalty of rows, and a
        projection, in Adagrad's metric are the usual ones. Solvers set it.
    """

    max_norm: float = 0.0
    rowwise: bool = False


class GroupPenalty(NamedTuple):
    """``strength * sum over groups of weight * norm``, for groups of rows or columns of a matrix.

    Attributes
    ----------
    strength : float
    columns : bool
        Whether the groups consist of columns (document features) instead of rows.
    groups : int64 array
        The group of each row or column, from 0.
    weights : float64 array
        One per group.
    """

    strength: float
    columns: bool
    groups: NDArray[np.int64]
    weights: Array


class RowMaximum(NamedTuple):
    """`maximize` by rows: the soft threshold of the gain, scaled to a norm."""

    threshold: float
    limit: float


class FeatureIds(NamedTuple):
    """Ids of the features to which the rows and columns of a matrix of weights belong."""

    rows: Ids
    columns: Ids


@dataclasses.dataclass
class Regularizer(Part, ABC):
    """A penalty or a constraint on the parameters.

    Attributes
    ----------
    granularity : {"entry", "row", "matrix"}
        The smallest part of the parameters on which the operators act independently. Coordinate
        descent requires "entry".
    forms : frozenset of {"vector", "matrix", "factors"}
        The forms of parameters that SGD may regularize with it: a vector of weights, a matrix of
        weights, or embeddings with one row per feature. For a form without a `kernel_form`, the
        solver applies `prox` between calls of the kernel. For "matrix" it is then given rows
        without their zeros, so it must act on each row independently, keep zeros, and not depend on
        the columns; or it has a `structure`.
    unsupported : mapping
        The reason why it has no operator for the form of a model.
    """

    granularity: ClassVar[Granularity] = "entry"
    forms: ClassVar[frozenset[ParameterForm]] = frozenset({"factors"})
    unsupported: ClassVar[Mapping[str, str]] = {}

    @abstractmethod
    def penalty(self, parameters: Array) -> float:
        """Return the penalty of the parameters; infinite outside a constraint."""

    @abstractmethod
    def prox(self, parameters: Array, step: float) -> Array:
        """Return argmin over V of ``1/2 ||V - parameters||^2 + step * penalty(V)``."""


@runtime_checkable
class SupportsMaximize(Protocol):
    """A closed maximum that stays bounded however large the gain: for the alternating solver."""

    def maximize(self, gain: Array) -> Array:
        """Return argmax over P of ``<gain, P> - penalty(P)`` under the constraint."""


@runtime_checkable
class SupportsRowMaximum(Protocol):
    """A `maximize` by rows that kernels compute in their loops."""

    def row_maximum(self) -> RowMaximum:
        """Return the threshold and the norm of `maximize`."""


@runtime_checkable
class SupportsKernelForm(Protocol):
    """A penalty that kernels apply in their loops, to parameters of some forms."""

    kernel_forms: ClassVar[frozenset[ParameterForm]]
    """The forms of parameters for which there is a `kernel_form`."""

    def kernel_form(
        self, form: ParameterForm, ids: FeatureIds | None = None
    ) -> EntryPenalty | RowPenalty | GroupPenalty:
        """Return the penalty as kernels apply it.

        An `EntryPenalty` for a vector, an `EntryPenalty` or a `GroupPenalty` for a matrix, a
        `RowPenalty` for factors.

        Parameters
        ----------
        form : {"vector", "matrix", "factors"}
            One of `kernel_forms`.
        ids : FeatureIds, optional
            The features of the rows and columns of a matrix.
        """


class StructuredPenalty(Protocol):
    """A penalty of a matrix of weights of known features, of which the non-zeros are stored."""

    def penalty(self, weights: sp.csr_array) -> float:
        """Return the penalty; infinite outside a constraint."""

    def prox(self, weights: sp.csr_array, step: float) -> sp.csr_array:
        """Return argmin over V of ``1/2 ||V - weights||^2 + step * penalty(V)``."""


@runtime_checkable
class SupportsStructure(Protocol):
    """A penalty that couples the weights of several features, or depends on feature ids.

    Solvers then use it instead of `penalty` and `prox`, between calls of the kernel.
    """

    def structure(self, rows: Ids | None, columns: Ids) -> StructuredPenalty:
        """Return the penalty of a matrix of weights.

        Parameters
        ----------
        rows : array of ids or None
            The query features; None if the matrix has one row, the weights of a linear model or the
            diagonal of a diagonal one.
        columns : array of ids
            The document features.
        """


@runtime_checkable
class SupportsQuadraticForm(Protocol):
    """A penalty of a vector of weights that is a quadratic form, for solvers with gradients."""

    def quadratic_form(self, ids: Ids) -> sp.csr_array:
        """Return the matrix Q of features with ``penalty(w) = 1/2 w'Qw``."""


@runtime_checkable
class OrthogonalColumns(Protocol):
    """A constraint to orthogonal columns of one length, and nothing else.

    `maximize` is then that length times a polar factor, and the optimum of both sides are singular
    vectors, for which the alternating solver has faster half-steps.
    """

    def column_length(self, shape: tuple[int, ...]) -> float:
        """Return the length of the columns of a matrix of this shape."""


@runtime_checkable
class DensityTarget(Protocol):
    """A penalty whose strength the solver determines such that a share of the weights remains."""

    @property
    def target_density(self) -> float | None:
        """The share of weights to keep, or None if the strength is known."""

    def set_strength(self, strength: float) -> None:
        """Use the strength that was determined for `target_density`."""


@runtime_checkable
class PerSide(Protocol):
    """Different penalties for the embeddings of queries and of documents."""

    def of_side(self, side: int) -> Regularizer:
        """Return the regularizer of queries (0) or of documents (1)."""


@runtime_checkable
class SupportsRowWeights(Protocol):
    """A penalty of entries that can weigh the rows of embeddings by their frequency."""

    @property
    def weighs_rows(self) -> bool:
        """Whether it does; otherwise all rows have the weight 1."""

    def weighted_penalty(self, parameters: Array, weights: Array) -> float:
        """Return the sum over rows of weight * penalty."""


@runtime_checkable
class SupportsRowSteps(Protocol):
    """A prox that acts on each row independently, for all rows at once with a step for each."""

    def prox_by_row(self, parameters: Array, steps: Array) -> Array:
        """Return the prox of each row with its own step."""


@runtime_checkable
class NativeRows(Protocol):
    """C functions that kernels call for each row."""

    @property
    def native(self) -> RowFunctions:
        """The functions."""


def kernel_forms(regularizer: Regularizer) -> frozenset[ParameterForm]:
    """Return the forms of parameters to which kernels apply a penalty in their loops."""
    if isinstance(regularizer, SupportsKernelForm):
        return regularizer.kernel_forms
    return frozenset()


def kernel_form(
    regularizer: Regularizer, form: ParameterForm, ids: FeatureIds | None = None
) -> EntryPenalty | RowPenalty | GroupPenalty | None:
    """Return the penalty as kernels apply it, or None if `prox` is the only operator."""
    if isinstance(regularizer, SupportsKernelForm) and form in regularizer.kernel_forms:
        return regularizer.kernel_form(form, ids)
    return None


def target_density(regularizer: Regularizer) -> float | None:
    """Return the density for which a solver has to determine the strength, or None."""
    return regularizer.target_density if isinstance(regularizer, DensityTarget) else None


def of_side(regularizer: Regularizer, side: int) -> Regularizer:
    """Return the regularizer of queries (0) or of documents (1)."""
    return regularizer.of_side(side) if isinstance(regularizer, PerSide) else regularizer


def weighs_rows(regularizer: Regularizer) -> bool:
    """Return whether rows of embeddings have weights of their own."""
    return isinstance(regularizer, SupportsRowWeights) and regularizer.weighs_rows


def prox_by_row(regularizer: Regularizer, parameters: Array, steps: Array) -> Array:
    """Return the prox of each row with its own step: one call per step without the protocol."""
    if isinstance(regularizer, SupportsRowSteps):
        return regularizer.prox_by_row(parameters, steps)
    result = np.empty_like(parameters)
    for step in np.unique(steps).tolist():
        rows = steps == step
        result[rows] = regularizer.prox(parameters[rows], step)
    return result


def native_rows(regularizer: Regularizer) -> RowFunctions | None:
    """Return the C functions of a regularizer that has them, or None."""
    return regularizer.native if isinstance(regularizer, NativeRows) else None
