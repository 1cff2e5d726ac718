"""The factored model: queries and documents have vectors, made of the vectors of their features."""

from __future__ import annotations

import dataclasses
import numbers
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ranking.contracts.model import Embedding, MatchingModel, Tensors
from ranking.data.ids import empty_ids, merge_ids, pack_ids, unpack_ids
from ranking.data.validation import Ids, take_columns
from ranking.errors import ModelFileError, PartError
from ranking.kernels.contract import WIDE, Factors, Floats, Ints, Singles
from ranking.kernels.factored import FactoredObjects, Rows, scores, vectors

if TYPE_CHECKING:
    from ranking.data.matching_data import MatchingData
    from ranking.kernels.kernel import Kernel

MOST_DIMENSIONS = 4096
SIDES = ("query", "document")
DRAWN_ROWS = 4096
"""Vectors that are drawn at a time; how many does not change them."""


@dataclasses.dataclass
class Factored(MatchingModel):
    """Scores a query and a document by (U q) . (V d), and the biases of the document.

    Without features (indicators), every query and every document has a vector of its own.

    Parameters
    ----------
    dimensions : int
        The length of a vector.
    biases : bool
        Whether a document feature has a bias, so that a document may be popular by itself.
    init_scale : float
        The first values of the vectors are normal, with standard deviation init_scale /
        sqrt(dimensions). 1 is the papers'; less lets training from clicks forget them sooner.

    Attributes
    ----------
    U, V : float32 arrays
        A row a feature, padded with zeros to a multiple of 8.
    document_biases : float32 array
        One a document feature, or empty.
    query_feature_ids, document_feature_ids : int64 or str arrays
    """

    name: ClassVar[str] = "factored"
    form: ClassVar[Any] = "factors"

    dimensions: int = 32
    biases: bool = True
    init_scale: float = 1.0

    query_feature_ids: Ids = dataclasses.field(
        init=False, repr=False, compare=False, default_factory=empty_ids
    )
    document_feature_ids: Ids = dataclasses.field(
        init=False, repr=False, compare=False, default_factory=empty_ids
    )

    def __post_init__(self) -> None:
        """Check the parameters."""
        given: object = self.dimensions
        if not isinstance(given, numbers.Integral) or not 1 <= int(given) <= MOST_DIMENSIONS:
            raise PartError(
                f"{self.name} has dimensions={given!r}; it must be a whole number from 1 to "
                f"{MOST_DIMENSIONS}."
            )
        if not isinstance(self.biases, bool):
            raise PartError(f"{self.name} has biases={self.biases!r}; it must be true or false.")
        init_scale: object = self.init_scale
        if not isinstance(init_scale, numbers.Real) or not 0.0 < float(init_scale) < np.inf:
            raise PartError(
                f"{self.name} has init_scale={init_scale!r}; it must be a number above 0."
            )
        self.U: Singles = np.zeros((0, self.width), np.float32)
        self.V: Singles = np.zeros((0, self.width), np.float32)
        self.S: Singles = np.zeros((0, self.width), np.float32)
        self.document_biases: Singles = np.zeros(0, np.float32)
        self._seed = 0

    @property
    def stage(self) -> int:
        """The stage in training, from 0; a model that has no others is always at its first."""
        return 0

    @property
    def factors(self) -> Factors:
        """All parameters in training."""
        return self.U, self.V, self.S, self.document_biases

    @factors.setter
    def factors(self, given: Factors) -> None:
        self.U, self.V, self.S, self.document_biases = given

    @property
    def width(self) -> int:
        """The length of a vector with its padding."""
        return -(-self.dimensions // WIDE) * WIDE

    def initialize(self, data: MatchingData, seed: int) -> None:
        """Draw the vectors: normal, with standard deviation init_scale / sqrt(dimensions)."""
        self._seed = seed
        self.query_feature_ids, self.document_feature_ids = empty_ids(), empty_ids()
        self.U, self.V = self.U[:0], self.V[:0]
        self.document_biases = self.document_biases[:0]
        self._grow(data.query_feature_ids.copy(), data.document_feature_ids.copy())

    def add_features(self, data: MatchingData) -> None:
        """Give vectors to features that are new in these data, as if they had been there."""
        self._grow(
            merge_ids(self.query_feature_ids, data.query_feature_ids),
            merge_ids(self.document_feature_ids, data.document_feature_ids),
        )

    def _grow(self, rows: Ids, columns: Ids) -> None:
        self.U = self._grown(self.U, rows.size, 0)
        self.V = self._grown(self.V, columns.size, 1)
        if self.biases:
            added = np.zeros(columns.size - self.document_biases.size, np.float32)
            self.document_biases = np.concatenate((self.document_biases, added))
        self.query_feature_ids, self.document_feature_ids = rows, columns

    def _stream_of(self, side: int) -> int:
        """Return the number of the stream from which a side is drawn."""
        return side

    def _grown(self, matrix: Singles, n_rows: int, side: int) -> Singles:
        """Return the matrix with as many rows; row i is drawn the same, whenever it comes."""
        from ranking.kernels.select import get_kernel

        start = matrix.shape[0]
        if start == n_rows:
            return matrix
        kernel = get_kernel()
        # Two uniforms make a normal number; the sides have streams of their own.
        stream = int(kernel.random_bits(self._seed, self._stream_of(side), 1)[0])
        grown = np.zeros((n_rows, self.width), np.float32)
        grown[:start] = matrix
        for at in range(start, n_rows, DRAWN_ROWS):
            rows = grown[at : at + DRAWN_ROWS, : self.dimensions]
            first = 2 * at * self.dimensions
            uniform = kernel.random_uniform(stream, first, 2 * rows.size).reshape(-1, 2)
            radius = np.sqrt(-2.0 * np.log1p(-uniform[:, 0]))
            normal = radius * np.cos(2.0 * np.pi * uniform[:, 1])
            normal *= self.init_scale / np.sqrt(self.dimensions)
            rows[:] = normal.reshape(rows.shape)
        return grown

    def objects(self, data: MatchingData, kernel: Kernel, threads: int = 1) -> FactoredObjects:
        """Return queries and documents with the features of this model."""
        return FactoredObjects(self._rows(data, 0), self._rows(data, 1))

    def _rows(self, data: MatchingData, side: int) -> Rows:
        """Return the features of a side; their number, if every object is its own feature."""
        given = (data.queries, data.documents)[side]
        have = (data.query_feature_ids, data.document_feature_ids)[side]
        want = (self.query_feature_ids, self.document_feature_ids)[side]
        if given is None and np.array_equal(have, want):
            return int(want.size)
        rows = (data.query_rows, data.document_rows)[side]
        return take_columns(rows, have, want)

    def embedding(self, data: MatchingData, kernel: Kernel, threads: int = 1) -> Embedding | None:
        """Return the vectors of all queries and documents."""
        return self._own(data, kernel, threads)

    def _own(self, data: MatchingData, kernel: Kernel, threads: int) -> Embedding:
        """Return the vectors that U and V give."""
        rows = self._rows(data, 1)
        biases = self.document_biases
        if biases.size and not isinstance(rows, int):
            biases = np.asarray(rows @ biases, dtype=np.float32)
        return Embedding(
            vectors(kernel, self._rows(data, 0), self.U, threads),
            vectors(kernel, rows, self.V, threads),
            biases,
        )

    def scorer(
        self, data: MatchingData, kernel: Kernel, threads: int = 1
    ) -> Callable[[Ints], Floats]:
        """Return a function from positions of queries to their scores, a row a query."""
        queries, documents, biases = self._own(data, kernel, threads)

        def block(chosen: Ints) -> Floats:
            found = scores(kernel, queries[chosen], documents, biases, threads)
            return found.astype(np.float64)

        return block

    def tensors(self) -> Tensors:
        """Return the vectors without their padding, the biases and the ids."""
        return {
            "U": np.ascontiguousarray(self.U[:, : self.dimensions]),
            "V": np.ascontiguousarray(self.V[:, : self.dimensions]),
            **self._beside_vectors(),
        }

    def _beside_vectors(self) -> Tensors:
        """Return all tensors but U and V."""
        return {
            "biases": self.document_biases,
            "seed": np.array([self._seed], dtype=np.uint64),
            **pack_ids("query_feature_ids", self.query_feature_ids),
            **pack_ids("document_feature_ids", self.document_feature_ids),
        }

    def restore(self, tensors: Tensors) -> None:
        """Take back what `tensors` returned."""
        rows = unpack_ids("query_feature_ids", tensors)
        columns = unpack_ids("document_feature_ids", tensors)
        U = self._checked("U", tensors, (rows.size, self.dimensions))
        V = self._checked("V", tensors, (columns.size, self.dimensions))
        self._restore_beside(tensors, rows, columns)
        self.U, self.V = self._padded(U), self._padded(V)

    def _restore_beside(self, tensors: Tensors, rows: Ids, columns: Ids) -> None:
        """Take back what `_beside_vectors` returned."""
        biases = self._checked("biases", tensors, (columns.size if self.biases else 0,))
        seed = tensors.get("seed")
        if seed is None or seed.dtype != np.uint64 or seed.shape != (1,):
            raise ModelFileError("a factored model needs `seed`, one uint64.")
        self._seed = int(seed[0])
        self.document_biases = np.array(biases)
        self.query_feature_ids, self.document_feature_ids = rows, columns

    def _checked(self, name: str, tensors: Tensors, shape: tuple[int, ...]) -> Singles:
        array = tensors.get(name)
        if array is None or array.dtype != np.float32 or array.shape != shape:
            raise ModelFileError(f"a {self.name} model needs `{name}`, float32 of shape {shape}.")
        if not np.isfinite(array).all():
            raise ModelFileError(f"`{name}` of a {self.name} model must be finite.")
        return array

    def _padded(self, matrix: Singles) -> Singles:
        padded = np.zeros((matrix.shape[0], self.width), np.float32)
        padded[:, : self.dimensions] = matrix
        return padded

    @property
    def density(self) -> float:
        """The share of the parameters that are not zero."""
        parts = (self.U[:, : self.dimensions], self.V[:, : self.dimensions], self.document_biases)
        filled = sum(int(np.count_nonzero(part)) for part in parts)
        return filled / max(sum(part.size for part in parts), 1)
