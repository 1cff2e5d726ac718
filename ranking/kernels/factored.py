"""Training and scores of the factored model, with checked arguments."""

from __future__ import annotations

import numbers
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ranking.kernels.bilinear import HINGE, SERIAL, check_triplets
from ranking.kernels.contract import (
    WIDE,
    Csr,
    Embeddings,
    EntryPenalty,
    Exclusions,
    Execution,
    FactoredFamily,
    FactoredFeatures,
    FactoredState,
    FactoredSteps,
    Factors,
    Floats,
    Ints,
    PairwiseLoss,
    RowPenalty,
    SampledTriplets,
    Singles,
    StepResults,
    TopK,
    TripletSource,
)
from ranking.kernels.listwise import DOMINATION, ListTrainingLoss
from ranking.kernels.pairwise import TrainingLoss
from ranking.kernels.sampling import TripletSampler
from ranking.kernels.validation import (
    check_array,
    check_below,
    check_compressed,
    check_finite,
    check_no_overlap,
    check_not_negative,
    check_pointer,
    csr_arrays,
    validate_count,
    validate_execution,
    validate_integer,
    validate_threads,
)

if TYPE_CHECKING:
    from ranking.kernels.kernel import Kernel

FeatureRows: TypeAlias = sp.csr_array | int
"""Sparse features, one row per query or document; or how many there are if each has its own."""

NAMES = ("U", "V", "S", "biases")
NO_PENALTY = RowPenalty()
ALL_ROWS = slice(None)


class FactoredKernel:
    """Embeddings and scores of the factored model; `FactoredWeights` trains it."""

    def __init__(self, implementation: FactoredFamily) -> None:
        self.implementation = implementation

    def embeddings(self, rows: FeatureRows, matrix: Singles, threads: int = 1) -> Singles:
        """Return the embedding of each row; without features that is the matrix itself."""
        check_array("matrix", matrix, ("float32",), (None, None))
        features, n_rows, n_features = _features_of("rows", rows)
        if n_features != matrix.shape[0]:
            raise ValueError(
                f"rows have {n_features} features, and {matrix.shape[0]} have embeddings."
            )
        if features is None:
            return matrix
        out = np.empty((n_rows, matrix.shape[1]), np.float32)
        self.implementation.factored_embeddings(features, matrix, out, validate_threads(threads))
        return out

    def scores(
        self, queries: Singles, documents: Singles, biases: Singles, threads: int = 1
    ) -> Singles:
        """Return the score of each query and document from their embeddings."""
        embeddings = _check_embeddings(queries, documents, biases)
        out = np.empty((queries.shape[0], documents.shape[0]), np.float32)
        self.implementation.factored_scores(embeddings, out, validate_threads(threads))
        return out

    def top_k(
        self,
        queries: Singles,
        documents: Singles,
        biases: Singles,
        k: int,
        exclusions: tuple[Ints, Ints] | None = None,
        threads: int = 1,
    ) -> TopK:
        """Return the k best documents of each query, and their scores, best first.

        Parameters
        ----------
        exclusions : pair of int64 arrays, optional
            Pointers and documents, as in a CSR matrix: those that a query must not get.
        """
        embeddings = _check_embeddings(queries, documents, biases)
        n_queries, n_documents = queries.shape[0], documents.shape[0]
        if exclusions is None:
            exclusions = np.zeros(n_queries + 1, np.int64), np.zeros(0, np.int64)
        excluded = Exclusions(*exclusions)
        check_array("exclusions", excluded.documents, ("int64",), (None,))
        ones = np.ones(excluded.documents.size)
        check_compressed(*excluded, ones, n_queries, n_documents, sorted_once=True)
        shape = (n_queries, min(validate_count("k", k), n_documents))
        out = TopK(np.empty(shape, np.int64), np.empty(shape, np.float32))
        self.implementation.factored_top_k(embeddings, excluded, out, validate_threads(threads))
        return out


class FactoredInputs:
    """Queries and documents by sparse features, or by none, checked once.

    Parameters
    ----------
    queries, documents : csr_array or int
        Features, one row per query or document; or the number of those that have none.
    contexts : csr_array, optional
        For each query, a sparse sum of document features.
    """

    def __init__(
        self, queries: FeatureRows, documents: FeatureRows, contexts: sp.csr_array | None = None
    ) -> None:
        query_features, self.n_queries, self.n_query_features = _features_of("queries", queries)
        document_features, self.n_documents, self.n_document_features = _features_of(
            "documents", documents
        )
        context_features = None
        if contexts is not None:
            context_features, *shape = _features_of("contexts", contexts)
            if tuple(shape) != (self.n_queries, self.n_document_features):
                raise ValueError(
                    "contexts: expected one row per query and one column per document feature, "
                    f"{(self.n_queries, self.n_document_features)}, got {tuple(shape)}."
                )
        self.features = FactoredFeatures(query_features, document_features, context_features)


def _features_of(name: str, rows: FeatureRows) -> tuple[Csr | None, int, int]:
    """Return the arrays of features, the number of rows and that of features."""
    if isinstance(rows, numbers.Integral):
        if rows < 1:
            raise ValueError(f"there are {rows} {name}; give at least one.")
        return None, int(rows), int(rows)
    if not isinstance(rows, sp.csr_array):
        raise TypeError(f"{name} must be a csr_array or their number, not {type(rows).__name__}.")
    arrays = csr_arrays(name, rows)
    check_finite(**{f"the features of {name}": arrays.data})
    return arrays, *rows.shape


class FactoredWeights:
    """U, V, S and the biases while a kernel trains them.

    See :mod:`ranking.kernels.contract.factored` for what is computed.

    Parameters
    ----------
    kernel : Kernel
    factors : tuple of float32 arrays
        U and V (features, width), S (document features, width) or with no rows if there are no
        contexts, and biases (document features) or none. Changed in place; the width is a
        multiple of 8.
    adagrad : bool
    squares : tuple of float32 arrays, optional
        Adagrad's sums of squares, of the same shapes; by default 1 everywhere.
    """

    def __init__(
        self,
        kernel: Kernel,
        factors: Factors | tuple[Singles, Singles, Singles, Singles],
        *,
        adagrad: bool = False,
        squares: Factors | tuple[Singles, Singles, Singles, Singles] | None = None,
    ) -> None:
        self.kernel, self.factors = kernel, Factors(*factors)
        _check_factors(self.factors)
        if not adagrad:
            self.squares = Factors(*(np.zeros((0,) * x.ndim, np.float32) for x in self.factors))
        elif squares is None:
            self.squares = Factors(*(np.ones_like(x) for x in self.factors))
        else:
            self.squares = Factors(*squares)
        for name, array, factor in zip(NAMES, self.squares, self.factors, strict=True):
            shape = factor.shape if adagrad else array.shape
            check_array(f"squares of {name}", array, ("float32",), shape, writeable=True)
            if not (array > 0.0).all():
                raise ValueError(f"squares of {name} must be positive.")
        arrays = dict(zip(NAMES, self.factors, strict=True))
        arrays |= {f"squares of {n}": x for n, x in zip(NAMES, self.squares, strict=True)}
        check_no_overlap(arrays, {})
        check_finite(**arrays)

    def train(
        self,
        inputs: FactoredInputs,
        triplets: Ints | TripletSampler,
        learning_rates: Singles,
        *,
        loss: TrainingLoss = HINGE,
        n_positives: int = 1,
        positive_rank: int = 0,
        penalty: RowPenalty = NO_PENALTY,
        execution: Execution = SERIAL,
    ) -> StepResults[Singles]:
        """Take one step per triplet, by batches; return margins and violation weights."""
        source = self._source(inputs, triplets, n_positives, positive_rank)
        count = self._check_rates(triplets, learning_rates)
        out = StepResults(np.empty(count, np.float32), np.empty(count, np.float32))
        self.kernel.factored.implementation.factored_train(
            inputs.features,
            FactoredState(self.factors, self.squares),
            source,
            learning_rates,
            _validate_loss(loss, inputs),
            _validate_penalty(penalty),
            out,
            validate_execution(execution),
        )
        return out

    def train_lists(
        self,
        inputs: FactoredInputs,
        triplets: Ints | TripletSampler,
        learning_rates: Singles,
        *,
        loss: ListTrainingLoss = DOMINATION,
        penalty: RowPenalty = NO_PENALTY,
        execution: Execution = SERIAL,
    ) -> Floats:
        """Take one step per list of a positive and its negatives; return the loss of each list."""
        source = self._source(inputs, triplets, 1, 0)
        count = self._check_rates(triplets, learning_rates)
        losses = np.empty(count)
        self.kernel.factored.implementation.factored_train_lists(
            inputs.features,
            FactoredState(self.factors, self.squares),
            source,
            learning_rates,
            loss.for_kernel(),
            _validate_penalty(penalty),
            losses,
            validate_execution(execution),
        )
        return losses

    def prox(
        self,
        at: int,
        rate: float,
        penalty: EntryPenalty,
        *,
        rows: slice = ALL_ROWS,
        row_weights: Singles | None = None,
        out: Singles | None = None,
        threads: int = 1,
    ) -> Singles:
        """Apply the prox of a penalty of entries to U, V or S; return the result.

        Parameters
        ----------
        at : {0, 1, 2}
        rate : float
            The sum of the learning rates that are due.
        row_weights : float32 array, optional
            A weight of the penalty for each of these rows.
        out : float32 array, optional
            For the result; by default the parameters change in place.
        """
        part, squares = self.factors[at][rows], self.squares[at]
        squares = squares[rows] if squares.size else squares
        if row_weights is not None:  # weight * rate / sqrt(G) is rate / sqrt(G / weight**2)
            with np.errstate(divide="ignore"):
                inverse = np.float32(1.0) / (row_weights * row_weights)[:, None]
            scale: Singles = np.repeat(inverse, part.shape[1], axis=1)
            squares = scale * squares if squares.size else scale
        out = part if out is None else out
        check_array("out", out, ("float32",), part.shape, writeable=True)
        check_not_negative(rate=rate, l1=penalty.l1, l2=penalty.l2)
        self.kernel.factored.implementation.factored_prox(
            part,
            squares,
            float(rate),
            EntryPenalty(float(penalty.l1), float(penalty.l2)),
            out,
            validate_threads(threads),
        )
        return out

    def sample(
        self,
        inputs: FactoredInputs,
        triplets: Ints | TripletSampler,
        *,
        rank_weights: Singles | None = None,
        n_positives: int = 1,
        positive_rank: int = 0,
        threads: int = 1,
    ) -> SampledTriplets:
        """Sample negatives until one violates the margin, for each triplet."""
        source = self._source(inputs, triplets, n_positives, positive_rank)
        count = _count_of(triplets)
        out = SampledTriplets(
            np.empty((count, 3), np.int64),
            np.empty(count, np.float32),
            np.empty(count, np.float32),
        )
        self.kernel.factored.implementation.factored_sample(
            inputs.features,
            self.factors,
            source,
            _validate_loss(TrainingLoss(rank_weights=rank_weights), inputs),
            out,
            validate_threads(threads),
        )
        return out

    def update(
        self,
        inputs: FactoredInputs,
        steps: FactoredSteps,
        *,
        learning_rate: float,
        penalty: RowPenalty = NO_PENALTY,
        threads: int = 1,
    ) -> None:
        """Take the steps of one batch.

        Without Adagrad the slopes are already multiplied by the learning rate.
        """
        self._check_features(inputs)
        check_array("queries", steps.queries, ("int64",), (None,))
        check_array("documents", steps.documents, ("int64",), (None,))
        size = steps.documents.size
        check_pointer("step_ptr", steps.step_ptr, ("int64",), steps.queries.size, size)
        check_below("queries", steps.queries, inputs.n_queries)
        check_below("documents", steps.documents, inputs.n_documents)
        check_array("slopes", steps.slopes, ("float32",), (size,))
        check_not_negative(learning_rate=learning_rate)
        self.kernel.factored.implementation.factored_update(
            inputs.features,
            FactoredState(self.factors, self.squares),
            steps,
            float(learning_rate),
            _validate_penalty(penalty),
            validate_threads(threads),
        )

    def _check_rates(self, triplets: Ints | TripletSampler, learning_rates: Singles) -> int:
        """Check one learning rate per step; return the number of steps."""
        count = _count_of(triplets)
        check_array("learning_rates", learning_rates, ("float32",), (count,))
        if not ((learning_rates >= 0.0) & (learning_rates < np.inf)).all():
            raise ValueError("learning_rates must be finite and not negative.")
        return count

    def _check_features(self, inputs: FactoredInputs) -> None:
        have = (self.factors.queries.shape[0], self.factors.documents.shape[0])
        if (inputs.n_query_features, inputs.n_document_features) != have:
            raise ValueError(
                f"U and V have {have[0]} and {have[1]} rows, and queries "
                f"{inputs.n_query_features}, documents {inputs.n_document_features} features."
            )
        if (inputs.features.contexts is None) != (self.factors.contexts.shape[0] == 0):
            raise ValueError("S has rows if, and only if, queries have contexts.")

    def _source(
        self,
        inputs: FactoredInputs,
        triplets: Ints | TripletSampler,
        n_positives: int,
        positive_rank: int,
    ) -> TripletSource:
        """Return checked triplets, or the sampling that replaces them."""
        self._check_features(inputs)
        n_positives = validate_count("n_positives", n_positives)
        rank = validate_integer("positive_rank", positive_rank, 0, n_positives - 1)
        if not isinstance(triplets, TripletSampler):
            check_triplets(triplets, inputs.n_queries, inputs.n_documents, n_positives)
            return TripletSource(triplets, None, n_positives, rank)
        lists = triplets.lists
        if lists.n_documents != inputs.n_documents or lists.list_of.size != inputs.n_queries:
            raise ValueError(
                f"lists are for {lists.list_of.size} queries and {lists.n_documents} "
                f"documents, and there are {inputs.n_queries} and {inputs.n_documents}."
            )
        if triplets.n_positives != n_positives:
            raise ValueError(f"{triplets.n_positives} positives are sampled, not {n_positives}.")
        empty = np.zeros((0, triplets.width), np.int64)
        return TripletSource(empty, triplets.sampling, n_positives, rank)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return copies of all arrays."""
        names = (*NAMES, *(f"squares_{name}" for name in NAMES))
        arrays = (*self.factors, *self.squares)
        return {name: array.copy() for name, array in zip(names, arrays, strict=True)}


def _check_factors(factors: Factors) -> None:
    U, V, S, biases = factors
    check_array("U", U, ("float32",), (None, None), writeable=True)
    _check_width(U.shape[1])
    check_array("V", V, ("float32",), (None, U.shape[1]), writeable=True)
    rows = V.shape[0]
    check_array("S", S, ("float32",), (rows * (S.shape[0] > 0), U.shape[1]), writeable=True)
    check_array("biases", biases, ("float32",), (rows * (biases.size > 0),), writeable=True)


def _check_embeddings(queries: Singles, documents: Singles, biases: Singles) -> Embeddings:
    check_array("queries", queries, ("float32",), (None, None))
    check_array("documents", documents, ("float32",), (None, queries.shape[1]))
    check_array("biases", biases, ("float32",), (documents.shape[0] if biases.size else 0,))
    _check_width(queries.shape[1])
    return Embeddings(queries, documents, biases)


def _check_width(width: int) -> None:
    if width % WIDE or not width:
        raise ValueError(f"embeddings have {width} numbers; pad them to a multiple of {WIDE}.")


def _count_of(triplets: Ints | TripletSampler) -> int:
    return triplets.count if isinstance(triplets, TripletSampler) else triplets.shape[0]


def _validate_loss(loss: TrainingLoss, inputs: FactoredInputs) -> PairwiseLoss:
    kernel_loss = loss.for_kernel("float32", inputs.n_documents)
    if (kernel_loss.rank_weights < 0.0).any():
        raise ValueError("rank_weights must be finite and not negative.")
    return kernel_loss


def _validate_penalty(penalty: RowPenalty) -> RowPenalty:
    check_not_negative(max_norm=penalty.max_norm)
    return RowPenalty(float(penalty.max_norm), bool(penalty.rowwise))
