"""Orthonormal half-steps: the directions of M with the largest singular values (PLS, LSI).

Alternating polar factors are the block power method, which is slow where singular values lie close
together. Two things make it fast, and leave it the loop over ``Y = M V`` and ``M'Y`` that it is:

- V has some columns more than the model has dimensions, and the best directions within its span
  (Rayleigh and Ritz: the singular vectors of M V) are the model's;
- ``M'M`` is replaced by the polynomial of Chebyshev that is small at the squared singular values
  that are not wanted: ``V <- (M'M - s/2) V - s**2/16 V_before``. s is the square of a singular
  value of M V beyond the dimensions, which is never above the true one, so nothing that is wanted
  is damped. It is the middle one of them: the last are still too small.
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

LEAST_MORE, MORE = 10, 0.1
"""Columns beyond the model's dimensions: at least so many, and this share of the dimensions."""

STEEP = 100.0
"""Singular values that differ by more leave rounding in the vectors of the smaller ones."""

NEAR = 0.1
"""The part of a column, orthogonal to those before, from which on one Cholesky factor is enough."""


def direction_turns(solver: Alternating, sides: Sides) -> Iterator[EpochResult]:
    """Yield a turn for a half-step of either side."""
    search = Directions(sides)
    done, before = 0, np.inf
    if sides.problem.state is not None:
        done, before = search.restore(sides.problem.state)
    for epoch in range(done + 1, solver.max_epochs + 1):
        with one_blas_thread():
            if epoch > 1:
                search.step_documents()
            search.step_queries()
            objective = search.put()
        converged = before - objective <= solver.tolerance * abs(objective)
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
        A row a feature of documents, or of queries; padded.
    values : float64 array
        Singular values of M within the span of V, the largest first.
    before, turn : float32 array, float64 array
        V of the round before, and by what it is to be turned as V was since.
    """

    def __init__(self, sides: Sides) -> None:
        self.sides, self.threads = sides, sides.problem.threads
        self.d = sides.model.dimensions
        rows, columns = (matrix.shape[0] for matrix in sides.matrices)
        self.lengths = [
            cast(OrthogonalColumns, regularizer).column_length((n, self.d))
            for regularizer, n in zip(sides.regularizers, (rows, columns), strict=True)
        ]
        more = max(LEAST_MORE, int(MORE * self.d))
        self.width = min(-(-(self.d + more) // WIDE) * WIDE, rows, columns)
        self.padded = -(-self.width // WIDE) * WIDE
        self.values: Floats = np.zeros(self.width)
        self.turn: Floats = np.zeros((self.width, self.width))
        self.Y = np.empty((rows, self.padded), np.float32)
        self.room = np.empty((columns, self.padded), np.float32)
        self.before = np.zeros_like(self.room)
        self.V = self._first()
        self.made = [np.zeros((n, sides.model.width), np.float32) for n in (rows, columns)]

    def _first(self) -> Singles:
        """Return the model's vectors and drawn ones; features without clicks have zeros."""
        columns, kernel = self.room.shape[0], self.sides.problem.kernel
        V = np.zeros_like(self.room)
        V[:, : self.d] = self.sides.dense(1)[:, : self.d]
        added = self.width - self.d
        stream = int(kernel.random.bits(self.sides.problem.seed, 2, 1)[0])
        drawn = kernel.random.uniform(stream, 0, columns * added).reshape(columns, added)
        V[:, self.d : self.width] = (drawn - 0.5) * np.sqrt(12.0 / self.d)
        V[np.diff(self.sides.matrices[1].indptr) == 0] = 0.0
        tall = V[:, : self.width]
        with one_blas_thread():
            turn = _orthonormal_turn(gram(tall, self.threads))
            if turn is None:
                tall[...] = polar_factor(tall, self.threads)
            else:
                times(tall, turn, self.threads, out=tall)
        return V

    def step_queries(self) -> None:
        """Take Y = M V, and turn both such that the columns of Y are orthogonal, longest first."""
        squares, turn = np.linalg.eigh(self.sides.pull_gram(0, self.V, self.width, self.Y))
        self.values, turn = np.sqrt(np.maximum(squares[::-1], 0.0)), turn[:, ::-1]
        self.Y = self.sides.turned(turn, self.Y)
        V = self.V[:, : self.width]
        times(V, turn, self.threads, out=V)
        self.turn = self.turn @ turn

    def step_documents(self) -> None:
        """Take V from M'Y, less what damps the directions that are not wanted."""
        V, damping = self.V[:, : self.width], self.before[:, : self.width]
        middle = min((self.d + self.width) // 2, self.width - 1)
        square = float(self.values[middle]) ** 2
        shift, back = np.float32(square / 2.0), (square**2 / 16.0 * self.turn).astype(np.float32)

        def damp(rows: slice) -> None:
            damping[rows] = damping[rows] @ back + shift * V[rows]

        in_blocks(damp, (0, V.shape[0]), self.threads)
        turn = _orthonormal_turn(
            self.sides.pull_gram(1, self.Y, self.width, self.room, self.before)
        )
        made = self.sides.turned(turn, self.room)
        if turn is None:  # V of the round before is then forgotten
            made[:, : self.width] = polar_factor(made[:, : self.width], self.threads)
        self.turn = np.zeros_like(self.turn) if turn is None else turn
        self.before, self.V, self.room = self.V, made, self.before

    def put(self) -> float:
        """Let the model have the best directions; return the objective."""
        values = self.values[: self.d]
        shown = np.maximum(values, np.finfo(np.float32).tiny)
        scales = ((self.lengths[0] / shown), np.full(self.d, self.lengths[1]))
        for made, tall, scale in zip(self.made, (self.Y, self.V), scales, strict=True):
            np.multiply(tall[:, : self.d], scale.astype(np.float32), out=made[:, : self.d])
        if values[0] > STEEP * values[-1]:
            queries = self.made[0][:, : self.d]
            queries[...] = self.lengths[0] * polar_factor(queries, self.threads)
        self.sides.put(*self.made)
        return -self.lengths[0] * self.lengths[1] * float(values.sum())

    @property
    def megabytes(self) -> float:
        """The memory of all vectors."""
        held = (self.V, self.Y, self.before, self.room, *self.made)
        return sum(array.nbytes for array in held) / 1e6

    def state(self, epoch: int, objective: float) -> State:
        """Return what `restore` takes."""
        return {
            "epoch": np.array([float(epoch)]),
            "objective": np.array([objective]),
            "V": self.V,
            "Y": self.Y,
            "before": self.before,
            "turn": self.turn,
            "values": self.values,
        }

    def restore(self, state: State) -> tuple[int, float]:
        """Take the place of a run that was interrupted; return its epoch and objective."""
        for name in ("V", "Y", "before", "turn", "values"):
            setattr(self, name, np.array(state[name]))
        return int(state["epoch"][0]), float(state["objective"][0])


def _orthonormal_turn(squares: Floats) -> Floats | None:
    """Return what makes columns of this Gram matrix orthonormal, or None if they nearly depend."""
    try:
        upper = np.linalg.cholesky(squares).T
    except np.linalg.LinAlgError:
        return None
    if not (np.diag(upper) >= NEAR * np.sqrt(np.diag(squares))).all():
        return None
    turn: Floats = solve_triangular(upper, np.eye(squares.shape[0]))
    return turn
