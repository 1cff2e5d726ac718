"""Losses and regularizers whose functions are native: an author overrides `functions`.

The methods below serve calls from Python. Solvers pass the functions themselves to the kernel of
the run, which calls them in its own loops.
"""

from __future__ import annotations

import dataclasses
import functools
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from ranking.contracts.loss import Array, Loss, LossInterface
from ranking.contracts.part import Part
from ranking.contracts.regularizer import Granularity, Regularizer
from ranking.kernels.contract import GradedScores, PairwiseForm
from ranking.kernels.native.functions import (
    ListwiseFunctions,
    NativeFunctions,
    PairwiseFunctions,
    RowFunctions,
)
from ranking.registry.origin import described

if TYPE_CHECKING:
    from ranking.kernels.native.calls import NativeKernel

F = TypeVar("F", bound=NativeFunctions)


@dataclasses.dataclass
class NativePart(Part, ABC, Generic[F]):
    """A part that owns C functions; they are requested again when a parameter is set."""

    is_native: ClassVar[bool] = True
    kind: ClassVar[str]
    takes_functions: ClassVar[type[NativeFunctions]]

    @abstractmethod
    def functions(self) -> object:
        """Return the capsule of ``ranking/native.h``, or the functions by their addresses.

        The current parameters of the part belong in the context.
        """

    @functools.cached_property
    def native(self) -> F:
        """The functions, checked, with references to their owners."""
        plugin, expected = described(self.kind, self), self.takes_functions
        try:
            functions = self.functions()
        except TypeError as error:
            raise TypeError(f"{plugin}: {error}") from error
        if not isinstance(functions, expected):
            functions = expected.from_capsule(functions, plugin)
        functions = cast(F, dataclasses.replace(functions, plugin=plugin))
        self.check_functions(functions)
        return functions

    def check_functions(self, functions: F) -> None:
        """Refuse functions that do not fit the class."""

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute; the functions of the old parameters are dropped."""
        super().__setattr__(name, value)
        self.__dict__.pop("native", None)

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without addresses, which are valid in one process only."""
        return {name: value for name, value in self.__dict__.items() if name != "native"}


@dataclasses.dataclass
class NativePairwiseLoss(NativePart[PairwiseFunctions], Loss):
    """A loss of a margin by `ranking_pair_loss`.

    Override `trials` and `rank_weight` to search for a violation and weigh it, as WARP does.
    """

    kind: ClassVar[str] = "loss"
    takes_functions: ClassVar[type[NativeFunctions]] = PairwiseFunctions
    interfaces: ClassVar[frozenset[LossInterface]] = frozenset({"pairwise"})
    form: ClassVar[PairwiseForm | None] = PairwiseForm.NATIVE

    @property
    def trials(self) -> int:
        """One negative, whatever its margin."""
        return 1

    def pairwise_value(self, margin: Array) -> Array:
        """Return the loss of each margin."""
        flat = np.ascontiguousarray(margin, dtype=np.float64)
        return _calls().pairwise_values(self.native, flat.ravel()).reshape(flat.shape)

    def pairwise_slope(self, margin: Array) -> Array:
        """Return its derivative."""
        flat = np.ascontiguousarray(margin, dtype=np.float64)
        return _calls().pairwise_slopes(self.native, flat.ravel()).reshape(flat.shape)

    def rank_weight(self, rank: NDArray[np.int64]) -> Array:
        """Return 1: a violation counts the same at every rank."""
        return np.ones(rank.shape)


@dataclasses.dataclass
class NativeListwiseLoss(NativePart[ListwiseFunctions], Loss):
    """A loss of lists by `ranking_list_loss`."""

    kind: ClassVar[str] = "loss"
    takes_functions: ClassVar[type[NativeFunctions]] = ListwiseFunctions
    interfaces: ClassVar[frozenset[LossInterface]] = frozenset({"listwise"})

    def listwise_value(self, scores: Array, grades: Array) -> float:
        """Return the loss of one list."""
        return float(_calls().listwise_values(self.native, _one_list(scores, grades))[0])

    def listwise_slopes(self, scores: Array, grades: Array) -> Array:
        """Return the derivative of the loss of one list with respect to each score."""
        return _calls().listwise_slopes(self.native, _one_list(scores, grades))


@dataclasses.dataclass
class NativeRowRegularizer(NativePart[RowFunctions], Regularizer):
    """A penalty of rows by `ranking_row_regularizer`."""

    kind: ClassVar[str] = "regularizer"
    takes_functions: ClassVar[type[NativeFunctions]] = RowFunctions
    granularity: ClassVar[Granularity] = "row"

    def penalty(self, parameters: Array) -> float:
        """Return the sum of the rows' penalties."""
        return float(_calls().row_penalties(self.native, _rows(parameters)).sum())

    def prox(self, parameters: Array, step: float) -> Array:
        """Return the prox of each row."""
        rows = _rows(parameters).copy()
        _calls().prox_rows(self.native, rows, step)
        return rows.reshape(parameters.shape)


@dataclasses.dataclass
class NativeBoundedRowRegularizer(NativeRowRegularizer):
    """A `NativeRowRegularizer` with a `maximize` that keeps rows bounded, for `alternating`."""

    def check_functions(self, functions: RowFunctions) -> None:
        """Refuse functions without a maximum."""
        if not functions.maximize:
            raise TypeError(
                f"{functions.plugin} has no function maximize; add it, or derive the class from "
                "NativeRowRegularizer."
            )

    def maximize(self, gain: Array) -> Array:
        """Return the maximum for each row."""
        rows = _rows(gain).copy()
        _calls().maximize_rows(self.native, rows)
        return rows.reshape(gain.shape)


@functools.cache
def _calls() -> NativeKernel:
    """Return the native family of the Cython kernel; all kernels return the same bits."""
    from ranking.kernels.builtin import cython_kernel

    return cython_kernel().native


def _rows(parameters: Array) -> Array:
    """Return a matrix; a vector is one row."""
    return np.ascontiguousarray(np.atleast_2d(parameters), dtype=np.float64)


def _one_list(scores: Array, grades: Array) -> GradedScores:
    return GradedScores(
        np.array([0, scores.size], dtype=np.int64),
        np.ascontiguousarray(scores, dtype=np.float64),
        np.ascontiguousarray(grades, dtype=np.float64),
    )
