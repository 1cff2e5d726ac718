"""The door of the alternating half-steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from ranking.kernels.bilinear import csr_parts
from ranking.kernels._old_contract import WIDE, Csr, Floats, Singles
from ranking.kernels.door import check_apart, check_array, checked_threads

if TYPE_CHECKING:
    from ranking.kernels.kernel import Kernel


class Matched:
    """One side of M, checked once.

    Parameters
    ----------
    matrix : csr_array
        A row a feature of the side that a half-step is for, a column a feature of the other.
    """

    def __init__(self, matrix: sp.csr_array) -> None:
        if not isinstance(matrix, sp.csr_array):
            raise TypeError(f"matrix must be a csr_array, not {type(matrix).__name__}.")
        self.parts: Csr = csr_parts("matrix", matrix)
        if not np.isfinite(self.parts[2]).all():
            raise ValueError("matrix must be finite.")
        self.shape: tuple[int, int] = matrix.shape


def half_step(
    kernel: Kernel,
    matched: Matched,
    vectors: Singles | sp.csr_array,
    *,
    threshold: float = 0.0,
    limit: float = 0.0,
    threads: int = 1,
    out: Singles | None = None,
) -> tuple[Singles | sp.csr_array, Floats]:
    """Return the vectors of one side from those of the other, and the gain of each row.

    Sparse vectors (float32, int32 dimensions, int64 pointers) give sparse ones; dense ones are
    written to `out`, if that is given: memory that was used before costs less than fresh one.
    """
    for name, value in (("threshold", threshold), ("limit", limit)):
        if not 0.0 <= value < np.inf:
            raise ValueError(f"{name} is {value}; it must be finite and not negative.")
    if vectors.shape[0] != matched.shape[1]:
        raise ValueError(
            f"there are vectors for {vectors.shape[0]} features, and M has {matched.shape[1]}."
        )
    rows, gains = matched.shape[0], np.empty(matched.shape[0])
    workers = checked_threads(threads)
    if isinstance(vectors, sp.csr_array):
        width = vectors.shape[1]
        indptr, indices, values = csr_parts("vectors", vectors)
        given = (
            indptr.astype(np.int64, copy=False),
            indices.astype(np.int32, copy=False),
            values.astype(np.float32, copy=False),
        )
        parts = kernel.loops.half_step_sparse(
            matched.parts, given, width, float(threshold), float(limit), gains, workers
        )
        made = sp.csr_array((parts[2], parts[1], parts[0]), shape=(rows, width))
        return made, gains
    check_array("vectors", vectors, ("float32",), (None, None))
    if vectors.shape[1] % WIDE or not vectors.shape[1]:
        raise ValueError(f"vectors have {vectors.shape[1]} numbers; pad them to {WIDE}.")
    if out is None:
        out = np.empty((rows, vectors.shape[1]), np.float32)
    else:
        check_array("out", out, ("float32",), (rows, vectors.shape[1]), writeable=True)
        check_apart({"out": out}, {"vectors": vectors})
    kernel.loops.half_step(
        matched.parts, vectors, float(threshold), float(limit), out, gains, workers
    )
    return out, gains
