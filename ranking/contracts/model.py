"""The contract of a model: parameters, scores, and how it is kept in a file."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ranking.contracts.part import Part

if TYPE_CHECKING:
    from ranking.data.matching_data import MatchingData
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
    def initialize(self, data: Any, seed: int) -> None:
        """Size the parameters for these data and give them their first values."""

    @abstractmethod
    def scores(self, data: Any, kernel: Kernel, threads: int = 1) -> NDArray[np.float64]:
        """Return scores, higher is better.

        For `JudgedLists`, one a row. For `MatchingData`, a row a query and a column a document.
        """

    @abstractmethod
    def tensors(self) -> Tensors:
        """Return the parameters, and whatever aligns them with data, as named arrays."""

    @abstractmethod
    def restore(self, tensors: Tensors) -> None:
        """Take back what `tensors` returned, refusing what cannot be right."""

    def add_features(self, data: Any) -> None:
        """Give parameters to features that are new in these data, for models that can grow."""

    def next_stage(self, data: Any, kernel: Kernel, threads: int = 1) -> bool:
        """Begin the next stage, for models that are trained in stages; False if there is none."""
        return False

    def cross_fit(self, data: Any, kernel: Kernel, threads: int = 1) -> Iterator[tuple[Model, Any]]:
        """Yield models and data to train them with, before a stage begins that asks them.

        Each is trained as the stage before was, for as many epochs, before the next is asked for.
        """
        return iter(())

    @property
    @abstractmethod
    def density(self) -> float:
        """The share of parameters that are not zero."""


class Embedding(NamedTuple):
    """Vectors, padded to a multiple of 8 numbers, whose dot products are the scores.

    Attributes
    ----------
    queries, documents : float32 arrays
        One row an object.
    biases : float32 array
        What is added to the score of a document; or empty.
    """

    queries: NDArray[np.float32]
    documents: NDArray[np.float32]
    biases: NDArray[np.float32]


@dataclasses.dataclass
class MatchingModel(Model):
    """A model that scores queries against documents."""

    takes: ClassVar[Literal["judged", "matching"]] = "matching"

    @abstractmethod
    def scorer(
        self, data: MatchingData, kernel: Kernel, threads: int = 1
    ) -> Callable[[NDArray[np.int64]], NDArray[np.float64]]:
        """Return a function from positions of queries to their scores, a row a query.

        What is the same for all queries is done once; nobody needs all scores at a time.
        """

    def embedding(self, data: MatchingData, kernel: Kernel, threads: int = 1) -> Embedding | None:
        """Return vectors whose dot products are the scores, for models that have such."""
        return None

    def scores(self, data: MatchingData, kernel: Kernel, threads: int = 1) -> NDArray[np.float64]:
        """Return the scores of all queries and documents."""
        return self.scorer(data, kernel, threads)(np.arange(data.n_queries))
