"""Half-steps of the alternating solver, with checked arguments."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ranking.kernels.contract import WIDE, AlternatingFamily, Csr, Floats, Singles, SquaredRule
from ranking.kernels.validation import (
    check_array,
    check_finite,
    check_no_overlap,
    check_not_negative,
    csr_arrays,
    validate_threads,
)


class AlternatingMatrix:
    """M or its transpose, checked once.

    Parameters
    ----------
    matrix : csr_array
        One row per feature of the side that a half-step updates, one column per feature of the
        other side.
    """

    def __init__(self, matrix: sp.csr_array) -> None:
        self.arrays: Csr = csr_arrays("matrix", matrix)
        check_finite(matrix=self.arrays.data)
        self.shape: tuple[int, int] = matrix.shape


class AlternatingKernel:
    """Half-steps of the alternating solver; see :mod:`ranking.kernels.contract.alternating`."""

    def __init__(self, implementation: AlternatingFamily) -> None:
        self.implementation = implementation

    def half_step(
        self,
        matrix: AlternatingMatrix,
        embeddings: Singles | sp.csr_array,
        *,
        threshold: float = 0.0,
        limit: float = 0.0,
        threads: int = 1,
        out: Singles | None = None,
    ) -> tuple[Singles | sp.csr_array, Floats]:
        """Return the embeddings of one side from those of the other, and the gain of each row.

        Sparse embeddings give sparse ones; dense ones are written to `out`, if that is given, to
        reuse its memory.
        """
        check_not_negative(threshold=threshold, limit=limit)
        if embeddings.shape[0] != matrix.shape[1]:
            raise ValueError(
                f"there are embeddings for {embeddings.shape[0]} features, and M has "
                f"{matrix.shape[1]}."
            )
        gains, width = np.empty(matrix.shape[0]), embeddings.shape[1]
        rule = (float(threshold), float(limit))
        threads = validate_threads(threads)
        if isinstance(embeddings, sp.csr_array):
            indptr, indices, data = csr_arrays("embeddings", embeddings)
            sparse = Csr(
                indptr.astype(np.int64, copy=False),
                indices.astype(np.int32, copy=False),
                data.astype(np.float32, copy=False),
            )
            indptr, indices, data = self.implementation.half_step_sparse(
                matrix.arrays, sparse, width, *rule, gains, threads
            )
            return sp.csr_array((data, indices, indptr), shape=(matrix.shape[0], width)), gains
        check_array("embeddings", embeddings, ("float32",), (None, None))
        if width % WIDE or not width:
            raise ValueError(f"embeddings have {width} numbers; pad them to a multiple of {WIDE}.")
        if out is None:
            out = np.empty((matrix.shape[0], width), np.float32)
        check_array("out", out, ("float32",), (matrix.shape[0], width), writeable=True)
        check_no_overlap({"out": out}, {"embeddings": embeddings})
        self.implementation.half_step(matrix.arrays, embeddings, *rule, out, gains, threads)
        return out, gains

    def squared_half_step(
        self,
        matrix: AlternatingMatrix,
        embeddings: Singles,
        gram: Singles,
        rule: SquaredRule,
        ridges: Singles,
        out: Singles,
        threads: int = 1,
    ) -> Floats:
        """Decrease the squared error of all pairs over the rows of `out`; return their gains."""
        rows, width = matrix.shape[0], embeddings.shape[1]
        check_array("embeddings", embeddings, ("float32",), (matrix.shape[1], None))
        if width % WIDE or not width:
            raise ValueError(f"embeddings have {width} numbers; pad them to a multiple of {WIDE}.")
        check_array("gram", gram, ("float32",), (width, width))
        check_array("ridges", ridges, ("float32",), (rows,))
        check_array("out", out, ("float32",), (rows, width), writeable=True)
        check_no_overlap({"out": out}, {"embeddings": embeddings, "gram": gram, "ridges": ridges})
        check_not_negative(observed=rule.observed, unobserved=rule.unobserved, steps=rule.steps)
        gains = np.empty(rows)
        self.implementation.squared_half_step(
            matrix.arrays, embeddings, gram, rule, ridges, out, gains, validate_threads(threads)
        )
        return gains
