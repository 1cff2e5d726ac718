"""The contract of a model: parameters, scores, and the tensors of its file."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ranking.contracts.part import Part

if TYPE_CHECKING:
    from ranking.data.matching_data import MatchingData
    from ranking.kernels.kernel import Kernel

Tensors = dict[str, NDArray[Any]]


@dataclasses.dataclass
class Model(Part, ABC):
    """Parameters that score documents.

    Attributes
    ----------
    takes : {"judged", "matching"}
        The kind of data that the model scores.
    form : str
        The form of its parameters: one weight per feature ("vector"), one weight per pair of
        features ("matrix"), two thin matrices ("factors"), these plus a fixed identity
        ("factors-identity"), one weight per pair of items ("items"), one weight per trained model
        ("components"), one per query feature and training document ("expansion"), distributions of
        words ("probabilities"), or functions such as trees, which have no gradient ("functions").
    """

    takes: ClassVar[Literal["judged", "matching"]] = "judged"
    form: ClassVar[
        Literal[
            "vector",
            "matrix",
            "factors",
            "factors-identity",
            "items",
            "components",
            "expansion",
            "probabilities",
            "functions",
        ]
    ] = "vector"

    @property
    def by_id(self) -> bool:
        """Whether queries and documents are known by id only, so that features have no effect."""
        return False

    @abstractmethod
    def initialize(self, data: Any, seed: int, kernel: Kernel) -> None:
        """Size the parameters for these data and set their initial values."""

    def synchronize(self) -> None:
        """Copy the parameters that a solver still holds, if any, into the model."""

    @abstractmethod
    def scores(self, data: Any, kernel: Kernel, threads: int = 1) -> NDArray[np.float64]:
        """Return scores, higher is better.

        One per row for `JudgedLists`; one row per query and one column per document for
        `MatchingData`.
        """

    @abstractmethod
    def tensors(self) -> Tensors:
        """Return the parameters, and the ids that align them with data, as named arrays."""

    @abstractmethod
    def restore(self, tensors: Tensors) -> None:
        """Restore what `tensors` returned; refuse invalid tensors."""

    def adjusted(self, **values: Any) -> Model | None:
        """Return the trained model with other hyper-parameters, if they need no training.

        A search then trains once for several values. None if the model has to be trained again.
        """
        return None

    def add_features(self, data: Any, kernel: Kernel) -> None:
        """Add parameters for features that are new in these data, for models that can grow."""

    @property
    @abstractmethod
    def density(self) -> float:
        """The share of parameters that are not zero."""


@runtime_checkable
class StagedModel(Protocol):
    """A model that is trained in stages, such as a cascade."""

    def next_stage(self, data: Any, kernel: Kernel, threads: int = 1) -> bool:
        """Begin the next stage; return False if there is none."""

    def cross_fit(self, data: Any, kernel: Kernel, threads: int = 1) -> Iterator[tuple[Model, Any]]:
        """Yield models, and data to train each of them with, before a stage begins.

        Each is trained as the stage before was, for as many epochs, before the next is requested.
        """


class Embedding(NamedTuple):
    """Embeddings, padded to a multiple of 8 numbers, whose dot products are the scores.

    Attributes
    ----------
    queries, documents : float32 arrays
        One row per query or document.
    biases : float32 array
        Added to the scores of the documents; may be empty.
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
        """Return a function from positions of queries to their scores, one row per query.

        Work that is the same for all queries is done once; memory for all scores is not needed.
        """

    def embedding(self, data: MatchingData, kernel: Kernel, threads: int = 1) -> Embedding | None:
        """Return embeddings whose dot products are the scores, for models that have them."""
        return None

    def scores(self, data: MatchingData, kernel: Kernel, threads: int = 1) -> NDArray[np.float64]:
        """Return the scores of all queries and documents."""
        return self.scorer(data, kernel, threads)(np.arange(data.n_queries))
