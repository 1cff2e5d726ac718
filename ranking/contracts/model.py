"""The contract of a model: parameters, scores, and how it is kept in a file."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from ranking.contracts.part import Part

if TYPE_CHECKING:
    from ranking.data.judged import Judged
    from ranking.kernels.kernel import Kernel

Tensors = dict[str, NDArray[Any]]


@dataclasses.dataclass
class Model(Part, ABC):
    """Parameters that score objects.

    Attributes
    ----------
    takes : {"judged", "matching"}
        The kind of data that the model scores.
    form : {"vector", "matrix", "factors"}
        The form of its parameters: one weight a feature, one a pair of features, or two thin
        matrices.
    """

    takes: ClassVar[Literal["judged", "matching"]] = "judged"
    form: ClassVar[Literal["vector", "matrix", "factors"]] = "vector"

    @abstractmethod
    def start(self, data: Judged, seed: int) -> None:
        """Size the parameters for these data and give them their first values."""

    @abstractmethod
    def scores(self, data: Judged, kernel: Kernel, threads: int = 1) -> NDArray[np.float64]:
        """Return one score a row, higher is better."""

    @abstractmethod
    def tensors(self) -> Tensors:
        """Return the parameters, and whatever aligns them with data, as named arrays."""

    @abstractmethod
    def restore(self, tensors: Tensors) -> None:
        """Take back what `tensors` returned, refusing what cannot be right."""

    @property
    @abstractmethod
    def density(self) -> float:
        """The share of parameters that are not zero."""
