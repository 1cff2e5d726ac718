"""Parts whose functions are native: an author overrides `functions`, and the rest is here.

The faces below are for whoever asks in Python. Solvers hand the functions themselves to the kernel
of the run, which calls them in its own loops.
"""

from __future__ import annotations

import dataclasses
import functools
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from ranking.contracts.loss import Array, Face, Loss
from ranking.contracts.part import Part
from ranking.contracts.regularizer import Granularity, Regularizer
from ranking.kernels import native as loops
from ranking.kernels._old_contract import PairForm
from ranking.native import Functions, ListFunctions, PairFunctions, RowFunctions
from ranking.registry.origin import described

if TYPE_CHECKING:
    from ranking.kernels.kernel import Kernel

F = TypeVar("F", bound=Functions)


@dataclasses.dataclass
class NativePart(Part, ABC, Generic[F]):
    """A part that owns C functions, and asks for them anew when a parameter was set."""

    kind: ClassVar[str]
    takes_functions: ClassVar[type[Functions]]

    @abstractmethod
    def functions(self) -> object:
        """Return the capsule of ``ranking/native.h``, or the functions by their addresses.

        Parameters of the part belong into the context, as they are now.
        """

    @property
    def native(self) -> F:
        """The functions, checked, with all that keeps them alive."""
        held = self.__dict__.get("_native")
        if held is None:
            plugin, wanted = described(self.kind, self), self.takes_functions
            try:
                given = self.functions()
            except TypeError as error:
                raise TypeError(f"{plugin}: {error}") from error
            held = given if isinstance(given, wanted) else wanted.from_capsule(given, plugin)
            held = dataclasses.replace(held, plugin=plugin)
            self.check_functions(cast(F, held))
            self.__dict__["_native"] = held
        return cast(F, held)

    def check_functions(self, functions: F) -> None:
        """Refuse functions that do not fit the class."""

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute; the functions of the old parameters are let go."""
        super().__setattr__(name, value)
        self.__dict__.pop("_native", None)

    def __getstate__(self) -> dict[str, Any]:
        """Travel without addresses, which mean nothing elsewhere; they are asked for anew."""
        return {name: value for name, value in self.__dict__.items() if name != "_native"}


@dataclasses.dataclass
class NativePairLoss(NativePart[PairFunctions], Loss):
    """A loss of a margin by `ranking_pair_loss`.

    Override `trials` and `rank_weight` to search for a violation and weigh it, as WARP does.
    """

    kind: ClassVar[str] = "loss"
    takes_functions: ClassVar[type[Functions]] = PairFunctions
    faces: ClassVar[frozenset[Face]] = frozenset({"pair"})
    form: ClassVar[PairForm | None] = PairForm.NATIVE

    @property
    def trials(self) -> int:
        """One negative, whatever its margin."""
        return 1

    def pair_value(self, margin: Array) -> Array:
        """Return the loss of each margin."""
        flat = np.ascontiguousarray(margin, dtype=np.float64)
        return loops.pair_values(_kernel(), self.native, flat.ravel()).reshape(flat.shape)

    def pair_slope(self, margin: Array) -> Array:
        """Return its derivative."""
        flat = np.ascontiguousarray(margin, dtype=np.float64)
        return loops.pair_slopes(_kernel(), self.native, flat.ravel()).reshape(flat.shape)

    def rank_weight(self, rank: NDArray[np.int64]) -> Array:
        """Return 1: a violation counts the same at every rank."""
        return np.ones(rank.shape)


@dataclasses.dataclass
class NativeListLoss(NativePart[ListFunctions], Loss):
    """A loss of lists by `ranking_list_loss`."""

    kind: ClassVar[str] = "loss"
    takes_functions: ClassVar[type[Functions]] = ListFunctions
    faces: ClassVar[frozenset[Face]] = frozenset({"list"})

    def list_value(self, scores: Array, grades: Array) -> float:
        """Return the loss of one list."""
        return float(loops.list_values(_kernel(), self.native, *_one_list(scores, grades))[0])

    def list_slopes(self, scores: Array, grades: Array) -> Array:
        """Return the derivative of the loss of one list with respect to each score."""
        return loops.list_slopes(_kernel(), self.native, *_one_list(scores, grades))


@dataclasses.dataclass
class NativeRowRegularizer(NativePart[RowFunctions], Regularizer):
    """A penalty of rows by `ranking_row_regularizer`.

    A class whose functions have a `maximize` that keeps rows bounded says ``bounded = True``; then
    the alternating solver takes it.
    """

    kind: ClassVar[str] = "regularizer"
    takes_functions: ClassVar[type[Functions]] = RowFunctions
    granularity: ClassVar[Granularity] = "row"

    def check_functions(self, functions: RowFunctions) -> None:
        """Refuse a class that says it is bounded and has no maximum."""
        if self.bounded and not functions.maximize:
            raise TypeError(
                f"{functions.plugin} says bounded = True and has no function maximize; give one, "
                "or leave bounded out."
            )

    def penalty(self, parameters: Array) -> float:
        """Return the sum of the rows' penalties."""
        return float(loops.row_penalties(_kernel(), self.native, _rows(parameters)).sum())

    def prox(self, parameters: Array, step: float) -> Array:
        """Return the prox of each row."""
        rows = _rows(parameters).copy()
        loops.prox_rows(_kernel(), self.native, rows, step)
        return rows.reshape(parameters.shape)

    def maximize(self, gain: Array) -> Array:
        """Return the maximum for each row."""
        if not self.native.maximize:
            return super().maximize(gain)
        rows = _rows(gain).copy()
        loops.maximize_rows(_kernel(), self.native, rows)
        return rows.reshape(gain.shape)


@functools.cache
def _kernel() -> Kernel:
    """Return the kernel that is always there; all of them return the same bits."""
    from ranking.kernels.builtin import cython_kernel

    return cython_kernel()


def _rows(parameters: Array) -> Array:
    """Return a matrix; a vector is one row."""
    return np.ascontiguousarray(np.atleast_2d(parameters), dtype=np.float64)


def _one_list(scores: Array, grades: Array) -> tuple[NDArray[np.int64], Array, Array]:
    ends = np.array([0, scores.size], dtype=np.int64)
    as_given = [np.ascontiguousarray(part, dtype=np.float64) for part in (scores, grades)]
    return ends, as_given[0], as_given[1]
