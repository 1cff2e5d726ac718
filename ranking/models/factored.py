"""The factored model: embeddings of queries and documents, sums of those of their features."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ranking.contracts.model import Embedding, MatchingModel, Tensors
from ranking.contracts.parameters import boolean, choice, integer, number
from ranking.data.ids import empty_ids, merge_ids, pack_ids, unpack_ids
from ranking.data.validation import Ids, take_columns
from ranking.errors import CombinationError, ModelFileError
from ranking.kernels.contract import WIDE, Factors, Floats, Ints, Singles
from ranking.kernels.factored import FactoredInputs, FeatureRows

if TYPE_CHECKING:
    from ranking.data.matching_data import MatchingData
    from ranking.kernels.kernel import Kernel

MAX_DIMENSIONS = 4096
SIDES = ("query", "document")
SAMPLED_ROWS = 4096
"""Embeddings that are sampled at a time; the values do not depend on it."""


def require_dot_product(model: Factored, what: str) -> None:
    """Refuse cosines and histories, for training that knows dot products of own embeddings only."""
    for name, plain in (("score", "dot"), ("history", "ignored")):
        value = getattr(model, name)
        if value != plain:
            raise CombinationError(
                f"{what} trains dot products of own embeddings, and the model has {name}={value}; "
                f"use {name}={plain}, or solver sgd with loss softmax, ccl or bce."
            )


def row_dots(a: Singles, b: Singles) -> Singles:
    """Return the dot product of each row of a with that of b, in the kernels' order of sums."""
    products = (a * b).reshape(a.shape[0], a.shape[1] // WIDE, WIDE)
    s = np.zeros((a.shape[0], WIDE), np.float32)
    for at in range(products.shape[1]):
        s += products[:, at]
    low = (s[:, 0] + s[:, 4]) + (s[:, 2] + s[:, 6])
    sums: Singles = low + ((s[:, 1] + s[:, 5]) + (s[:, 3] + s[:, 7]))
    return sums


def unit_rows(matrix: Singles) -> tuple[Singles, Singles]:
    """Return the rows, each divided by its norm, and the norms, 1 for a row of zeros."""
    total = row_dots(matrix, matrix)
    norms: Singles = np.where(total > 0.0, np.sqrt(total), np.float32(1.0)).astype(np.float32)
    unit: Singles = matrix / norms[:, None]
    return unit, norms


@dataclasses.dataclass
class Factored(MatchingModel):
    """Score a query and a document by (U q) . (V d), plus the biases of the document.

    Without features (indicators), every query and every document has its own embedding.

    Parameters
    ----------
    dimensions : int
        The length of an embedding (number of latent factors).
    biases : bool
        Whether a document feature has a bias, which models popularity.
    init_scale : float
        Initial embeddings are normal, with standard deviation init_scale / sqrt(dimensions). 1 is
        the value of the papers; smaller ones suit training from clicks, where large embeddings of
        rare items rank them by chance.
    score : {"dot", "cosine"}
        Score by the dot product of the two embeddings, or by their cosine, which suits losses with
        many negatives and a temperature.
    history : {"ignored", "mean", "mean-only"}
        Add to the embedding of a query the mean of those of its positives, which the documents
        share; or use that mean alone. For queries without features, and losses whose positives
        share negatives. In training a positive is left out of the mean that scores it. A new query
        then needs no training: see `Ranker.fold_in`.

    Attributes
    ----------
    U, V : float32 arrays
        One row per feature, padded with zeros to a multiple of 8. With a history, U has the sums.
    document_biases : float32 array
        One per document feature, or empty.
    query_feature_ids, document_feature_ids : int64 or str arrays
    """

    name: ClassVar[str] = "factored"
    form: ClassVar[Any] = "factors"

    dimensions: int = integer(32, minimum=1, maximum=MAX_DIMENSIONS)
    biases: bool = boolean(True)
    init_scale: float = number(0.1, above=0.0)
    score: str = choice("dot", "dot", "cosine")
    history: str = choice("ignored", "ignored", "mean", "mean-only")

    query_feature_ids: Ids = dataclasses.field(
        init=False, repr=False, compare=False, default_factory=empty_ids
    )
    document_feature_ids: Ids = dataclasses.field(
        init=False, repr=False, compare=False, default_factory=empty_ids
    )

    def idle(self) -> set[str]:
        """Return `score` if it is the dot product, and `history` if there is none."""
        plain = {"score": "dot", "history": "ignored"}
        return {name for name, value in plain.items() if getattr(self, name) == value}

    def _setup(self) -> None:
        self.U: Singles = np.zeros((0, self.width), np.float32)
        self.V: Singles = np.zeros((0, self.width), np.float32)
        self.S: Singles = np.zeros((0, self.width), np.float32)
        self.document_biases: Singles = np.zeros(0, np.float32)
        self._seed = 0

    @property
    def stage(self) -> int:
        """The stage in training, from 0; a model without stages is always at stage 0."""
        return 0

    @property
    def factors(self) -> Factors:
        """All parameters in training."""
        return Factors(self.U, self.V, self.S, self.document_biases)

    @factors.setter
    def factors(self, factors: Factors) -> None:
        self.U, self.V, self.S, self.document_biases = factors

    def densify(self) -> None:
        """Store U and V as dense arrays, for a solver that changes them in place."""

    @property
    def width(self) -> int:
        """The length of an embedding with its padding."""
        return -(-self.dimensions // WIDE) * WIDE

    def initialize(self, data: MatchingData, seed: int, kernel: Kernel) -> None:
        """Sample the embeddings: normal, with deviation init_scale / sqrt(dimensions)."""
        self._seed = seed
        self.query_feature_ids, self.document_feature_ids = empty_ids(), empty_ids()
        self.U, self.V = self.U[:0], self.V[:0]
        self.document_biases = self.document_biases[:0]
        self._grow(data.query_feature_ids.copy(), data.document_feature_ids.copy(), kernel)

    def add_features(self, data: MatchingData, kernel: Kernel) -> None:
        """Add embeddings of features that are new, as if they had been there from the start."""
        self._grow(
            merge_ids(self.query_feature_ids, data.query_feature_ids),
            merge_ids(self.document_feature_ids, data.document_feature_ids),
            kernel,
        )

    def _grow(self, rows: Ids, columns: Ids, kernel: Kernel) -> None:
        self.U = self.grown_queries(self.U, rows.size, kernel)
        self.V = self._add_rows(self.V, columns.size, 1, kernel)
        if self.biases:
            added = np.zeros(columns.size - self.document_biases.size, np.float32)
            self.document_biases = np.concatenate((self.document_biases, added))
        self.query_feature_ids, self.document_feature_ids = rows, columns

    def grown_queries(self, U: Singles, n_rows: int, kernel: Kernel) -> Singles:
        """Return U with new rows: sampled, or 0 if only the history counts."""
        if self.history != "mean-only":
            return self._add_rows(U, n_rows, 0, kernel)
        return np.concatenate((U, np.zeros((n_rows - U.shape[0], self.width), np.float32)))

    def _stream_of(self, side: int) -> int:
        """Return the number of the random stream of a side."""
        return side

    def _add_rows(self, matrix: Singles, n_rows: int, side: int, kernel: Kernel) -> Singles:
        """Return the matrix with `n_rows` rows; row i does not depend on when it is added."""
        start = matrix.shape[0]
        if start == n_rows:
            return matrix
        # Two uniforms make a normal number; each side has its own stream.
        stream = int(kernel.random.bits(self._seed, self._stream_of(side), 1)[0])
        grown = np.zeros((n_rows, self.width), np.float32)
        grown[:start] = matrix
        for at in range(start, n_rows, SAMPLED_ROWS):
            rows = grown[at : at + SAMPLED_ROWS, : self.dimensions]
            first = 2 * at * self.dimensions
            uniform = kernel.random.uniform(stream, first, 2 * rows.size).reshape(-1, 2)
            radius = np.sqrt(-2.0 * np.log1p(-uniform[:, 0]))
            normal = radius * np.cos(2.0 * np.pi * uniform[:, 1])
            normal *= self.init_scale / np.sqrt(self.dimensions)
            rows[:] = normal.reshape(rows.shape)
        return grown

    def inputs(self, data: MatchingData, kernel: Kernel, threads: int = 1) -> FactoredInputs:
        """Return the features of queries and documents, aligned with the model."""
        return FactoredInputs(self.feature_rows(data, 0), self.feature_rows(data, 1))

    def feature_rows(self, data: MatchingData, side: int) -> FeatureRows:
        """Return the features of a side; their number, if every row is its own feature."""
        features = (data.queries, data.documents)[side]
        have = (data.query_feature_ids, data.document_feature_ids)[side]
        want = (self.query_feature_ids, self.document_feature_ids)[side]
        if features is None and np.array_equal(have, want):
            return int(want.size)
        rows = (data.query_rows, data.document_rows)[side]
        return take_columns(rows, have, want)

    def embedding(self, data: MatchingData, kernel: Kernel, threads: int = 1) -> Embedding | None:
        """Return the embeddings of all queries and documents."""
        return self._own(data, kernel, threads)

    def _own(self, data: MatchingData, kernel: Kernel, threads: int) -> Embedding:
        """Return the embeddings by U and V."""
        rows = self.feature_rows(data, 1)
        biases = self.document_biases
        if biases.size and not isinstance(rows, int):
            biases = np.asarray(rows @ biases, dtype=np.float32)
        queries = kernel.factored.embeddings(self.feature_rows(data, 0), self.U, threads)
        documents = kernel.factored.embeddings(rows, self.V, threads)
        if self.score == "cosine":
            queries, documents = unit_rows(queries)[0], unit_rows(documents)[0]
        return Embedding(queries, documents, biases)

    def scorer(
        self, data: MatchingData, kernel: Kernel, threads: int = 1
    ) -> Callable[[Ints], Floats]:
        """Return a function from positions of queries to their scores, one row per query."""
        queries, documents, biases = self._own(data, kernel, threads)

        def block(positions: Ints) -> Floats:
            singles = kernel.factored.scores(queries[positions], documents, biases, threads)
            return singles.astype(np.float64)

        return block

    def tensors(self) -> Tensors:
        """Return the embeddings without their padding, the biases and the ids."""
        return {
            "U": np.ascontiguousarray(self.U[:, : self.dimensions]),
            "V": np.ascontiguousarray(self.V[:, : self.dimensions]),
            **self._other_tensors(),
        }

    def _other_tensors(self) -> Tensors:
        """Return all tensors but U and V."""
        return {
            "biases": self.document_biases,
            "seed": np.array([self._seed], dtype=np.uint64),
            **pack_ids("query_feature_ids", self.query_feature_ids),
            **pack_ids("document_feature_ids", self.document_feature_ids),
        }

    def restore(self, tensors: Tensors) -> None:
        """Restore what `tensors` returned."""
        rows = unpack_ids("query_feature_ids", tensors)
        columns = unpack_ids("document_feature_ids", tensors)
        U = self._check_tensor("U", tensors, (rows.size, self.dimensions))
        V = self._check_tensor("V", tensors, (columns.size, self.dimensions))
        self._restore_others(tensors, rows, columns)
        self.U, self.V = self._pad(U), self._pad(V)

    def _restore_others(self, tensors: Tensors, rows: Ids, columns: Ids) -> None:
        """Restore what `_other_tensors` returned."""
        biases = self._check_tensor("biases", tensors, (columns.size if self.biases else 0,))
        seed = tensors.get("seed")
        if seed is None or seed.dtype != np.uint64 or seed.shape != (1,):
            raise ModelFileError("a factored model needs `seed`, one uint64.")
        self._seed = int(seed[0])
        self.document_biases = np.array(biases)
        self.query_feature_ids, self.document_feature_ids = rows, columns

    def _check_tensor(self, name: str, tensors: Tensors, shape: tuple[int, ...]) -> Singles:
        array = tensors.get(name)
        if array is None or array.dtype != np.float32 or array.shape != shape:
            raise ModelFileError(f"a {self.name} model needs `{name}`, float32 of shape {shape}.")
        if not np.isfinite(array).all():
            raise ModelFileError(f"`{name}` of a {self.name} model must be finite.")
        return array

    def _pad(self, matrix: Singles) -> Singles:
        padded = np.zeros((matrix.shape[0], self.width), np.float32)
        padded[:, : self.dimensions] = matrix
        return padded

    @property
    def has_embeddings(self) -> bool:
        """Whether any number of U or V is not zero; else scores are the biases alone."""
        return bool(self.U.any() or self.V.any())

    @property
    def density(self) -> float:
        """The share of the parameters that are not zero."""
        parts = (self.U[:, : self.dimensions], self.V[:, : self.dimensions], self.document_biases)
        filled = sum(int(np.count_nonzero(part)) for part in parts)
        return filled / max(sum(part.size for part in parts), 1)
