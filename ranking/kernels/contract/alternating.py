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

Squared error of all pairs
--------------------------
For row i, the entries j of M are the observed pairs, with responses M_ij; all other columns are
pairs that were not observed, with response 0. Given P and its Gram matrix ``G = P'P``, the part of
the objective that depends on the row x is the quadratic ``x'Ax - 2 b'x`` of ::

    A = unobserved G + (observed - unobserved) sum_j P[j] P[j]' + ridge_i I
    b = observed sum_j M_ij P[j]

It is decreased by `steps` steps of conjugate gradients from the present row: no step increases it,
and as many steps as there are dimensions reach the minimum. All arithmetic is float32; dot products
are those of the factored family, products ``x'G`` add ``x_j G[j]`` to 0 in order of j, and sums over
entries follow the stored order. It ends early when the squared residual is not above 1e-30 or the
curvature along the direction is not positive. The *gain* of a row is ``x'(b + r)``, with the residual
r, which is minus the quadratic: two dot products, added in float64.
"""

from __future__ import annotations

from typing import Protocol

from ranking.kernels.contract.arrays import (
    Csr,
    Floats,
    Int32s,
    Ints,
    Singles,
    SquaredRule,
)


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

    def squared_half_step(
        self,
        matrix: Csr,
        embeddings: Singles,
        gram: Singles,
        rule: SquaredRule,
        ridges: Singles,
        out: Singles,
        gains: Floats,
        threads: int,
    ) -> None:
        """Decrease the squared error of all pairs over the rows of `out`; fill `gains`.

        matrix : Csr (rows, columns)
        embeddings : float32 (columns, width), padded to a multiple of `WIDE`
        gram : float32 (width, width)
        ridges : float32 (rows)
        out : float32 (rows, width); read and written
        gains : float64 (rows)
        """
