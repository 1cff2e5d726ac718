"""Orthonormal half-steps: the directions of M with the largest singular values (PLS, LSI).

Alternating polar factors are the block power method, which is slow for close singular values. Two
changes make it fast, and keep the loop over ``Y = M V`` and ``M'Y``:

- V has some more columns than the model has dimensions, and the model gets the best directions
  within its span (Rayleigh-Ritz: the singular vectors of M V);
- ``M'M`` is replaced by the Chebyshev polynomial that is small at the unwanted squared singular
  values: ``V <- (M'M - s/2) V - s**2/16 V_previous``. s is the square of a singular value of M V
  beyond the dimensions, which never exceeds the true one, so no wanted direction is damped. It is
  the middle one of them: the last ones are still too small.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, cast

import numpy as np
from scipy.linalg import solve_triangular

from ranking.contracts.regularizer import OrthogonalColumns
from ranking.contracts.solver import EpochResult, State
from ranking.kernels.contract import WIDE, Floats, Singles
from ranking_plugins.regularizers.polar import (
    gram,
    in_blocks,
    one_blas_thread,
    polar_factor,
    times,
)

if TYPE_CHECKING:
    from ranking_plugins.solvers.alternating import Alternating, Sides

MIN_EXTRA, EXTRA = 10, 0.1
"""Columns beyond the dimensions of the model: the minimal number, and the share."""

STEEP = 100.0
"""The ratio of singular values above which the smaller singular vectors have rounding errors."""

NEAR = 0.1
"""The orthogonal part of a column from which on one Cholesky factorization is accurate."""


def direction_epochs(solver: Alternating, sides: Sides) -> Iterator[EpochResult]:
    """Yield one result per epoch of two half-steps."""
    search = Directions(sides, solver.singular_values)
    done, before = 0, np.inf
    if sides.problem.state is not None:
        done, before = search.restore(sides.problem.state)
    for epoch in range(done + 1, solver.max_epochs + 1):
        with one_blas_thread():
            if epoch > 1:
                search.step_documents()
            search.step_queries()
            objective = search.update_model()
        # The polynomial may lose a little in an early epoch, which is not the end.
        converged = abs(before - objective) <= solver.tolerance * abs(objective)
        state = partial(search.state, epoch, objective)
        yield EpochResult(epoch, objective, converged, state, {"megabytes": search.megabytes})
        if converged:
            return
        before = objective


class Directions:
    """Orthonormal V, ``Y = M V`` with orthogonal columns, and their lengths, the values.

    Attributes
    ----------
    V, Y : float32 arrays
        One row per feature of documents, or of queries; padded.
    values : float64 array
        Singular values of M within the span of V, the largest first.
    previous, rotation : float32 array, float64 array
        V of the previous epoch, and the rotation that was applied to V since.
    """

    def __init__(self, sides: Sides, singular_values: bool = False) -> None:
        self.sides, self.threads = sides, sides.problem.threads
        self.singular_values = singular_values
        self.d = sides.model.dimensions
        rows, columns = (matrix.shape[0] for matrix in sides.matrices)
        self.lengths = [
            cast(OrthogonalColumns, regularizer).column_length((n, self.d))
            for regularizer, n in zip(sides.regularizers, (rows, columns), strict=True)
        ]
        extra = max(MIN_EXTRA, int(EXTRA * self.d))
        self.width = min(-(-(self.d + extra) // WIDE) * WIDE, rows, columns)
        self.padded = -(-self.width // WIDE) * WIDE
        self.values: Floats = np.zeros(self.width)
        self.rotation: Floats = np.zeros((self.width, self.width))
        self.Y = np.empty((rows, self.padded), np.float32)
        self.buffer = np.empty((columns, self.padded), np.float32)
        self.previous = np.zeros_like(self.buffer)
        self.V = self._first()
        self.embeddings = [np.zeros((n, sides.model.width), np.float32) for n in (rows, columns)]

    def _first(self) -> Singles:
        """Return the embeddings of the model and random columns; 0 for features without clicks."""
        columns, kernel = self.buffer.shape[0], self.sides.problem.kernel
        V = np.zeros_like(self.buffer)
        V[:, : self.d] = self.sides.dense(1)[:, : self.d]
        added = self.width - self.d
        stream = int(kernel.random.bits(self.sides.problem.seed, 2, 1)[0])
        random = kernel.random.uniform(stream, 0, columns * added).reshape(columns, added)
        V[:, self.d : self.width] = (random - 0.5) * np.sqrt(12.0 / self.d)
        V[np.diff(self.sides.matrices[1].indptr) == 0] = 0.0
        tall = V[:, : self.width]
        with one_blas_thread():
            rotation = _orthonormalizer(gram(tall, self.threads))
            if rotation is None:
                tall[...] = polar_factor(tall, self.threads)
            else:
                times(tall, rotation, self.threads, out=tall)
        return V

    def step_queries(self) -> None:
        """Set Y = M V, and rotate both so that the columns of Y are orthogonal, longest first."""
        squares, rotation = np.linalg.eigh(self.sides.product_gram(0, self.V, self.width, self.Y))
        self.values, rotation = np.sqrt(np.maximum(squares[::-1], 0.0)), rotation[:, ::-1]
        self.Y = self.sides.rotated(rotation, self.Y)
        V = self.V[:, : self.width]
        times(V, rotation, self.threads, out=V)
        self.rotation = self.rotation @ rotation

    def step_documents(self) -> None:
        """Set V to M'Y minus the damping of the unwanted directions."""
        V, damping = self.V[:, : self.width], self.previous[:, : self.width]
        middle = min((self.d + self.width) // 2, self.width - 1)
        square = float(self.values[middle]) ** 2
        shift, back = (
            np.float32(square / 2.0),
            (square**2 / 16.0 * self.rotation).astype(np.float32),
        )

        def damp(rows: slice) -> None:
            damping[rows] = damping[rows] @ back + shift * V[rows]

        in_blocks(damp, (0, V.shape[0]), self.threads)
        rotation = _orthonormalizer(
            self.sides.product_gram(1, self.Y, self.width, self.buffer, self.previous)
        )
        result = self.sides.rotated(rotation, self.buffer)
        if rotation is None:  # the previous V is then discarded
            result[:, : self.width] = polar_factor(result[:, : self.width], self.threads)
        self.rotation = np.zeros_like(self.rotation) if rotation is None else rotation
        self.previous, self.V, self.buffer = self.V, result, self.previous

    def update_model(self) -> float:
        """Set the best directions in the model; return the objective."""
        values = self.values[: self.d]
        positive = np.maximum(values, np.finfo(np.float32).tiny)
        scales = ((self.lengths[0] / positive), np.full(self.d, self.lengths[1]))
        for result, tall, scale in zip(self.embeddings, (self.Y, self.V), scales, strict=True):
            np.multiply(tall[:, : self.d], scale.astype(np.float32), out=result[:, : self.d])
        if values[0] > STEEP * values[-1]:
            queries = self.embeddings[0][:, : self.d]
            queries[...] = self.lengths[0] * polar_factor(queries, self.threads)
        if self.singular_values:  # of M itself, without its factor
            self.embeddings[1][:, : self.d] *= (values / self.sides.scale).astype(np.float32)
        self.sides.set_embeddings(*self.embeddings)
        return -self.lengths[0] * self.lengths[1] * float(values.sum())

    @property
    def megabytes(self) -> float:
        """The memory of all embeddings."""
        arrays = (self.V, self.Y, self.previous, self.buffer, *self.embeddings)
        return sum(array.nbytes for array in arrays) / 1e6

    def state(self, epoch: int, objective: float) -> State:
        """Return the state for `restore`."""
        return {
            "epoch": np.array([float(epoch)]),
            "objective": np.array([objective]),
            "V": self.V,
            "Y": self.Y,
            "previous": self.previous,
            "rotation": self.rotation,
            "values": self.values,
        }

    def restore(self, state: State) -> tuple[int, float]:
        """Restore the state of an interrupted run; return its epoch and objective."""
        for name in ("V", "Y", "previous", "rotation", "values"):
            setattr(self, name, np.array(state[name]))
        return int(state["epoch"][0]), float(state["objective"][0])


def _orthonormalizer(squares: Floats) -> Floats | None:
    """Return the factor that makes columns with this Gram matrix orthonormal.

    None if the columns are nearly linearly dependent.
    """
    try:
        upper = np.linalg.cholesky(squares).T
    except np.linalg.LinAlgError:
        return None
    if not (np.diag(upper) >= NEAR * np.sqrt(np.diag(squares))).all():
        return None
    rotation: Floats = solve_triangular(upper, np.eye(squares.shape[0]))
    return rotation
