"""The door of the factored loops: U, V and the biases in training, and their scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ranking.kernels.bilinear import csr_parts
from ranking.kernels.contract import WIDE, Csr, Factors, Ints, PairForm, Singles
from ranking.kernels.door import check_apart, check_array, checked_threads

if TYPE_CHECKING:
    from ranking.kernels.kernel import Kernel

Rows: TypeAlias = sp.csr_array | int
"""The features of objects, or how many there are if each is its own feature."""


class FactoredObjects:
    """Queries and documents by sparse features, or by none, checked once.

    Parameters
    ----------
    queries, documents : csr_array or int
        Features, one row an object; or the number of objects that have none.
    """

    def __init__(self, queries: Rows, documents: Rows) -> None:
        self.queries, self.n_queries, self.n_query_features = _side("queries", queries)
        self.documents, self.n_documents, self.n_document_features = _side("documents", documents)


def _side(name: str, rows: Rows) -> tuple[Csr | None, int, int]:
    if not isinstance(rows, sp.csr_array):
        if rows < 1:
            raise ValueError(f"there are {rows} {name}; give at least one.")
        return None, rows, rows
    return csr_parts(name, rows), *rows.shape


class FactoredWeights:
    """U, V and the biases while a kernel trains them; see "Factored" in the contract.

    Parameters
    ----------
    kernel : Kernel
    U, V : float32 arrays (features, width)
        Changed in place; the width is a multiple of 8.
    biases : float32 array (document features), or empty
    squares : tuple of float32 arrays
        Adagrad's sums of squares, of the same shapes, or empty without it.
    """

    def __init__(
        self, kernel: Kernel, U: Singles, V: Singles, biases: Singles, squares: Factors
    ) -> None:
        check_array("U", U, ("float32",), (None, None), writeable=True)
        check_array("V", V, ("float32",), (None, U.shape[1]), writeable=True)
        if U.shape[1] % WIDE or not U.shape[1]:
            raise ValueError(
                f"vectors have {U.shape[1]} numbers; pad them to a multiple of {WIDE}."
            )
        size = V.shape[0] if biases.size else 0
        check_array("biases", biases, ("float32",), (size,), writeable=True)
        adagrad = bool(squares[0].size)
        shapes = [array.shape for array in (U, V, biases)]
        for name, array, shape in zip(("U", "V", "biases"), squares, shapes, strict=True):
            wanted = shape if adagrad else tuple(0 for _ in shape)
            check_array(f"squares of {name}", array, ("float32",), wanted, writeable=True)
            if not (array > 0.0).all():
                raise ValueError(f"squares of {name} must be positive.")
        every = {"U": U, "V": V, "biases": biases}
        every |= {f"squares {at}": array for at, array in enumerate(squares)}
        check_apart(every, {})
        if not all(np.isfinite(array).all() for array in every.values()):
            raise ValueError("U, V, biases and squares must be finite.")
        self.kernel, self.factors, self.squares = kernel, (U, V, biases), squares

    def steps(
        self,
        objects: FactoredObjects,
        tuples: Ints,
        rates: Singles,
        *,
        form: PairForm = PairForm.HINGE,
        rank_weights: Singles | None = None,
        max_norm: float = 0.0,
        l2: float = 0.0,
        block: int = 256,
        threads: int = 1,
    ) -> tuple[Singles, Singles]:
        """Take a step for each tuple, by blocks; return margins and violation weights."""
        ranks = np.ones(1, np.float32) if rank_weights is None else rank_weights
        features = (self.factors[0].shape[0], self.factors[1].shape[0])
        if (objects.n_query_features, objects.n_document_features) != features:
            raise ValueError(
                f"U and V have {features[0]} and {features[1]} rows, and queries "
                f"{objects.n_query_features}, documents {objects.n_document_features} features."
            )
        check_array("tuples", tuples, ("int64",), (None, None))
        if tuples.shape[1] < 3:
            raise ValueError("a tuple is a query, a positive and at least one negative.")
        for name, column, bound in (
            ("queries", tuples[:, 0], objects.n_queries),
            ("documents", tuples[:, 1:], objects.n_documents),
        ):
            if column.size and not 0 <= column.min() <= column.max() < bound:
                raise ValueError(f"tuples' {name} must lie in 0..{bound - 1}.")
        for name, array, size in (
            ("rates", rates, tuples.shape[0]),
            ("rank_weights", ranks, None),
        ):
            check_array(name, array, ("float32",), (size,))
            if not ((array >= 0.0) & (array < np.inf)).all():
                raise ValueError(f"{name} must be finite and not negative.")
        if not ranks.size or block < 1:
            raise ValueError(f"there are {ranks.size} rank_weights and block is {block}; give 1.")
        for name, value in (("max_norm", max_norm), ("l2", l2)):
            if not 0.0 <= value < np.inf:
                raise ValueError(f"{name} is {value}; it must be finite and not negative.")
        margins = np.empty(tuples.shape[0], np.float32)
        weights = np.empty(tuples.shape[0], np.float32)
        self.kernel.loops.factored_steps(
            objects.queries,
            objects.documents,
            tuples,
            rates,
            int(PairForm(form)),
            ranks,
            objects.n_documents,
            self.factors,
            self.squares,
            float(max_norm),
            float(l2),
            int(block),
            margins,
            weights,
            checked_threads(threads),
        )
        return margins, weights

    def state(self) -> dict[str, NDArray[Any]]:
        """Return copies of all arrays."""
        names = ("U", "V", "biases", "squares_U", "squares_V", "squares_biases")
        arrays = (*self.factors, *self.squares)
        return {name: array.copy() for name, array in zip(names, arrays, strict=True)}


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


def scores(
    kernel: Kernel, queries: Singles, documents: Singles, biases: Singles, threads: int = 1
) -> Singles:
    """Return the score of each query and document from their vectors."""
    check_array("queries", queries, ("float32",), (None, None))
    check_array("documents", documents, ("float32",), (None, queries.shape[1]))
    check_array("biases", biases, ("float32",), (documents.shape[0] if biases.size else 0,))
    if queries.shape[1] % WIDE:
        raise ValueError(f"vectors have {queries.shape[1]} numbers; pad them to {WIDE}.")
    out = np.empty((queries.shape[0], documents.shape[0]), np.float32)
    kernel.loops.factored_scores(queries, documents, biases, out, checked_threads(threads))
    return out
