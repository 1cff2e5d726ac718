"""The door of the factored loops: U, V and the biases in training, and their scores."""

from __future__ import annotations

import dataclasses
import numbers
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ranking.kernels.bilinear import csr_parts
from ranking.kernels._old_contract import (
    WIDE,
    Csr,
    Factors,
    Ints,
    MatchFields,
    PairForm,
    Sides,
    Singles,
)
from ranking.kernels.door import (
    check_apart,
    check_array,
    check_below,
    check_compressed,
    check_pointer,
    checked_threads,
)
from ranking.kernels.match_lists import MatchLists
from ranking.kernels.native import checked_form
from ranking.native import PairFunctions

if TYPE_CHECKING:
    from ranking.kernels.kernel import Kernel

Rows: TypeAlias = sp.csr_array | int
"""The features of objects, or how many there are if each is its own feature."""

NAMES = ("U", "V", "S", "biases")


@dataclasses.dataclass(frozen=True)
class Draws:
    """Tuples that a kernel draws as it comes to them.

    Attributes
    ----------
    lists : MatchLists
    seed, first, count : int
        The steps `first` to `first + count - 1` of the seed.
    trials, positives : int
        How many negatives there are at most, and how many positives to choose from.
    """

    lists: MatchLists
    seed: int
    first: int
    count: int
    trials: int = 1
    positives: int = 1

    def __post_init__(self) -> None:
        """Refuse what cannot be drawn."""
        for name, value, least in (
            ("seed", self.seed, 0),
            ("first", self.first, 0),
            ("count", self.count, 0),
            ("trials", self.trials, 1),
            ("positives", self.positives, 1),
        ):
            if not least <= value < 2**64:
                raise ValueError(f"{name} is {value}; it must lie in {least}..2**64 - 1.")
        if self.count and not self.lists.queries.size:
            raise ValueError("there is no query to draw from.")
        if self.positives > 1 and self.lists.any_other:
            raise ValueError("with several positives, those that match must not be negatives.")


class FactoredObjects:
    """Queries and documents by sparse features, or by none, checked once.

    Parameters
    ----------
    queries, documents : csr_array or int
        Features, one row an object; or the number of objects that have none.
    contexts : csr_array, optional
        For each query, a sparse sum of document features.
    """

    def __init__(
        self, queries: Rows, documents: Rows, contexts: sp.csr_array | None = None
    ) -> None:
        query_features, self.n_queries, self.n_query_features = _side("queries", queries)
        document_features, self.n_documents, self.n_document_features = _side(
            "documents", documents
        )
        context_features = None
        if contexts is not None:
            context_features, *shape = _side("contexts", contexts)
            if tuple(shape) != (self.n_queries, self.n_document_features):
                raise ValueError(
                    f"contexts have shape {tuple(shape)}; wanted is a row a query and a column a "
                    f"document feature, {(self.n_queries, self.n_document_features)}."
                )
        self.sides: Sides = (query_features, document_features, context_features)


def _side(name: str, rows: Rows) -> tuple[Csr | None, int, int]:
    if isinstance(rows, numbers.Integral):
        if rows < 1:
            raise ValueError(f"there are {rows} {name}; give at least one.")
        return None, int(rows), int(rows)
    if not isinstance(rows, sp.csr_array):
        raise TypeError(f"{name} must be a csr_array or their number, not {type(rows).__name__}.")
    parts = csr_parts(name, rows)
    if not np.isfinite(parts[2]).all():
        raise ValueError(f"the features of {name} must be finite.")
    return parts, *rows.shape


class FactoredWeights:
    """U, V, S and the biases while a kernel trains them; see "Factored" in the contract.

    Parameters
    ----------
    kernel : Kernel
    factors : tuple of float32 arrays
        U and V (features, width), S (document features, width) or with no rows if there are no
        contexts, and biases (document features) or none. Changed in place; the width is a
        multiple of 8.
    adagrad : bool
    squares : tuple of float32 arrays, optional
        Adagrad's sums of squares, of the same shapes; 1 everywhere unless given.
    """

    def __init__(
        self,
        kernel: Kernel,
        factors: Factors,
        *,
        adagrad: bool = False,
        squares: Factors | None = None,
    ) -> None:
        U, V, S, biases = factors
        check_array("U", U, ("float32",), (None, None), writeable=True)
        if U.shape[1] % WIDE or not U.shape[1]:
            raise ValueError(
                f"vectors have {U.shape[1]} numbers; pad them to a multiple of {WIDE}."
            )
        check_array("V", V, ("float32",), (None, U.shape[1]), writeable=True)
        rows = V.shape[0]
        check_array("S", S, ("float32",), (rows * (S.shape[0] > 0), U.shape[1]), writeable=True)
        check_array("biases", biases, ("float32",), (rows * (biases.size > 0),), writeable=True)
        if not adagrad:
            made = [np.zeros((0,) * array.ndim, np.float32) for array in factors]
        else:
            made = [np.ones_like(array) for array in factors] if squares is None else list(squares)
            for name, array, factor in zip(NAMES, made, factors, strict=True):
                check_array(f"squares of {name}", array, ("float32",), factor.shape, writeable=True)
                if not (array > 0.0).all():
                    raise ValueError(f"squares of {name} must be positive.")
        every = dict(zip(NAMES, factors, strict=True))
        every |= {f"squares of {name}": array for name, array in zip(NAMES, made, strict=True)}
        check_apart(every, {})
        for name, array in every.items():
            if not np.isfinite(array).all():
                raise ValueError(f"{name} must be finite.")
        self.kernel, self.factors = kernel, factors
        self.squares: Factors = (made[0], made[1], made[2], made[3])

    def steps(
        self,
        objects: FactoredObjects,
        tuples: Ints | Draws,
        rates: Singles,
        *,
        form: PairForm = PairForm.HINGE,
        functions: PairFunctions | None = None,
        rank_weights: Singles | None = None,
        positives: int = 1,
        place: int = 0,
        max_norm: float = 0.0,
        l2: float = 0.0,
        block: int = 256,
        hogwild: bool = False,
        threads: int = 1,
    ) -> tuple[Singles, Singles]:
        """Take a step for each tuple, by blocks; return margins and violation weights."""
        given, draws, ranks = self._source(objects, tuples, rank_weights, positives, place)
        count = _count_of(tuples)
        _check_numbers("rates", rates, count)
        self._check_penalty(max_norm, l2)
        if block < 1:
            raise ValueError(f"block is {block}; it must be at least 1.")
        margins, weights = np.empty(count, np.float32), np.empty(count, np.float32)
        self.kernel.loops.factored_steps(
            objects.sides,
            self.factors,
            self.squares,
            given,
            draws,
            int(positives),
            int(place),
            rates,
            *checked_form(form, functions),
            ranks,
            objects.n_documents,
            float(max_norm),
            float(l2),
            int(block),
            bool(hogwild),
            margins,
            weights,
            checked_threads(threads),
        )
        return margins, weights

    def search(
        self,
        objects: FactoredObjects,
        tuples: Ints | Draws,
        *,
        rank_weights: Singles | None = None,
        positives: int = 1,
        place: int = 0,
        threads: int = 1,
    ) -> tuple[Ints, Singles, Singles]:
        """Return query, better and worse of each tuple, the margins and the violation weights."""
        given, draws, ranks = self._source(objects, tuples, rank_weights, positives, place)
        count = _count_of(tuples)
        chosen = np.empty((count, 3), np.int64)
        margins, weights = np.empty(count, np.float32), np.empty(count, np.float32)
        self.kernel.loops.factored_search(
            objects.sides,
            self.factors,
            given,
            draws,
            int(positives),
            int(place),
            ranks,
            objects.n_documents,
            chosen,
            margins,
            weights,
            checked_threads(threads),
        )
        return chosen, margins, weights

    def update(
        self,
        objects: FactoredObjects,
        queries: Ints,
        step_ptr: Ints,
        documents: Ints,
        slopes: Singles,
        *,
        rate: float,
        max_norm: float = 0.0,
        l2: float = 0.0,
        threads: int = 1,
    ) -> None:
        """Take the steps of one block: step i is for queries[i] and documents by `step_ptr`.

        Without adagrad the slopes are already times the rate.
        """
        self._check_features(objects)
        check_array("queries", queries, ("int64",), (None,))
        check_array("documents", documents, ("int64",), (None,))
        check_pointer("step_ptr", step_ptr, ("int64",), queries.size, documents.size)
        check_below("queries", queries, objects.n_queries)
        check_below("documents", documents, objects.n_documents)
        check_array("slopes", slopes, ("float32",), (documents.size,))
        self._check_penalty(max_norm, l2)
        if not 0.0 <= rate < np.inf:
            raise ValueError(f"rate is {rate}; it must be finite and not negative.")
        self.kernel.loops.factored_update(
            objects.sides,
            self.factors,
            self.squares,
            queries,
            step_ptr,
            documents,
            slopes,
            float(rate),
            float(max_norm),
            float(l2),
            checked_threads(threads),
        )

    def _check_features(self, objects: FactoredObjects) -> None:
        have = (self.factors[0].shape[0], self.factors[1].shape[0])
        if (objects.n_query_features, objects.n_document_features) != have:
            raise ValueError(
                f"U and V have {have[0]} and {have[1]} rows, and queries "
                f"{objects.n_query_features}, documents {objects.n_document_features} features."
            )
        if (objects.sides[2] is None) != (self.factors[2].shape[0] == 0):
            raise ValueError("S is there if, and only if, queries have contexts.")

    def _source(
        self,
        objects: FactoredObjects,
        tuples: Ints | Draws,
        rank_weights: Singles | None,
        positives: int,
        place: int,
    ) -> tuple[Ints, tuple[int, int, MatchFields] | None, Singles]:
        """Return checked tuples, or none and what is drawn instead, and the rank weights."""
        self._check_features(objects)
        ranks = np.ones(1, np.float32) if rank_weights is None else rank_weights
        _check_numbers("rank_weights", ranks, None)
        if not ranks.size:
            raise ValueError("rank_weights are empty; give one, or None.")
        if not 0 <= place < positives:
            raise ValueError(f"place is {place}; it must lie in 0..{positives - 1}.")
        if isinstance(tuples, Draws):
            lists = tuples.lists
            if lists.n_documents != objects.n_documents or lists.list_of.size != objects.n_queries:
                raise ValueError(
                    f"lists are for {lists.list_of.size} queries and {lists.n_documents} "
                    f"documents, and there are {objects.n_queries} and {objects.n_documents}."
                )
            if tuples.positives != positives:
                raise ValueError(f"{tuples.positives} positives are drawn, not {positives}.")
            width = 1 + positives + tuples.trials
            draws = (tuples.seed, tuples.first, lists.fields)
            return np.zeros((0, width), np.int64), draws, ranks
        check_array("tuples", tuples, ("int64",), (None, None))
        if tuples.shape[1] < 2 + positives:
            raise ValueError("a tuple is a query, its positives and at least one negative.")
        check_below("tuples' queries", tuples[:, 0], objects.n_queries)
        check_below("tuples' documents", tuples[:, 1:], objects.n_documents)
        return tuples, None, ranks

    @staticmethod
    def _check_penalty(max_norm: float, l2: float) -> None:
        for name, value in (("max_norm", max_norm), ("l2", l2)):
            if not 0.0 <= value < np.inf:
                raise ValueError(f"{name} is {value}; it must be finite and not negative.")

    def state(self) -> dict[str, NDArray[Any]]:
        """Return copies of all arrays."""
        names = (*NAMES, *(f"squares_{name}" for name in NAMES))
        arrays = (*self.factors, *self.squares)
        return {name: array.copy() for name, array in zip(names, arrays, strict=True)}


def _count_of(tuples: Ints | Draws) -> int:
    return tuples.count if isinstance(tuples, Draws) else tuples.shape[0]


def _check_numbers(name: str, array: Singles, size: int | None) -> None:
    check_array(name, array, ("float32",), (size,))
    if not ((array >= 0.0) & (array < np.inf)).all():
        raise ValueError(f"{name} must be finite and not negative.")


def vectors(kernel: Kernel, rows: Rows, matrix: Singles, threads: int = 1) -> Singles:
    """Return the vector of each object; without features that is the matrix itself."""
    check_array("matrix", matrix, ("float32",), (None, None))
    features, n_objects, n_features = _side("objects", rows)
    if n_features != matrix.shape[0]:
        raise ValueError(f"objects have {n_features} features, and {matrix.shape[0]} have vectors.")
    if features is None:
        return matrix
    out = np.empty((n_objects, matrix.shape[1]), np.float32)
    kernel.loops.factored_vectors(features, matrix, out, checked_threads(threads))
    return out


def _check_vectors(queries: Singles, documents: Singles, biases: Singles) -> None:
    check_array("queries", queries, ("float32",), (None, None))
    check_array("documents", documents, ("float32",), (None, queries.shape[1]))
    check_array("biases", biases, ("float32",), (documents.shape[0] if biases.size else 0,))
    if queries.shape[1] % WIDE or not queries.shape[1]:
        raise ValueError(f"vectors have {queries.shape[1]} numbers; pad them to {WIDE}.")


def top(
    kernel: Kernel,
    queries: Singles,
    documents: Singles,
    biases: Singles,
    k: int,
    barred: tuple[Ints, Ints] | None = None,
    threads: int = 1,
) -> tuple[Ints, Singles]:
    """Return the k best documents of each query, and their scores, best first.

    Parameters
    ----------
    barred : pair of int64 arrays, optional
        Pointers and documents, as in a CSR matrix: those that a query is not to have.
    """
    _check_vectors(queries, documents, biases)
    if k < 1:
        raise ValueError(f"k is {k}; it must be at least 1.")
    pointers = np.zeros(queries.shape[0] + 1, np.int64)
    barred_ptr, without = (pointers, np.zeros(0, np.int64)) if barred is None else barred
    check_array("barred", without, ("int64",), (None,))
    check_compressed(
        barred_ptr,
        without,
        np.ones(without.size),
        queries.shape[0],
        documents.shape[0],
        sorted_once=True,
    )
    shape = (queries.shape[0], min(int(k), documents.shape[0]))
    found, best = np.empty(shape, np.int64), np.empty(shape, np.float32)
    kernel.loops.factored_top(
        queries, documents, biases, barred_ptr, without, found, best, checked_threads(threads)
    )
    return found, best


def scores(
    kernel: Kernel, queries: Singles, documents: Singles, biases: Singles, threads: int = 1
) -> Singles:
    """Return the score of each query and document from their vectors."""
    _check_vectors(queries, documents, biases)
    out = np.empty((queries.shape[0], documents.shape[0]), np.float32)
    kernel.loops.factored_scores(queries, documents, biases, out, checked_threads(threads))
    return out
