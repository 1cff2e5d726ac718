"""Half-steps of the alternating solver.

M is sparse, with one row per feature of the side that is updated and one column per feature of the
other side. A half-step is for one side: with the embeddings P of the other,
``omega_i = sum_j M_ij P[j]``, in stored order, from 0, in float32, one rounding per written
operation. Then ``s = soft(omega_i, threshold)`` and, if `limit` > 0, the row is
``s * (limit / ||s||)``, zero if s is; the norm is the root of the dot product of the factored
family. The *gain* of a row is its dot product with omega_i less the threshold times the sum of its
absolute values, both with 8 partial sums as there, rounded to float32 and then computed in
float64. Sparse embeddings are CSR rows over the dimensions: zeros are left out, and the numbers
are the same as for dense ones. Rows are independent: threads change nothing.
"""

from __future__ import annotations

from typing import Protocol

from ranking.kernels.contract.arrays import Csr, Floats, Int32s, Ints, Singles


class AlternatingFamily(Protocol):
    """Half-steps of the alternating solver."""

    def half_step(
        self,
        matrix: Csr,
        embeddings: Singles,
        threshold: float,
        limit: float,
        out: Singles,
        gains: Floats,
        threads: int,
    ) -> None:
        """Fill `out` (float32 (rows, width)) and `gains` (float64 (rows)) with one half-step.

        matrix : Csr (rows, columns)
        embeddings : float32 (columns, width), padded to a multiple of `WIDE`
        """

    def half_step_sparse(
        self,
        matrix: Csr,
        embeddings: Csr,
        width: int,
        threshold: float,
        limit: float,
        gains: Floats,
        threads: int,
    ) -> tuple[Ints, Int32s, Singles]:
        """Fill `gains`, and return the new rows from sparse embeddings as a plain tuple.

        embeddings : Csr (columns, width) with int64 indptr, int32 indices and float32 data
        return : indptr, indices that rise strictly, data; in the same dtypes
        """
