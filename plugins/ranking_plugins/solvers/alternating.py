"""Alternating maximization over M: the best vectors of one side for those of the other, in turn."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterator
from functools import partial
from typing import Any, ClassVar, cast

import numpy as np
from scipy import sparse

from ranking.contracts.loss import LinearLoss, Loss
from ranking.contracts.model import Model, StagedModel
from ranking.contracts.parameters import boolean, integer, number
from ranking.contracts.regularizer import (
    OrthogonalColumns,
    Regularizer,
    SupportsMaximize,
    SupportsRowMaximum,
    native_rows,
    of_side,
)
from ranking.contracts.solver import YES, Compatibility, EpochResult, Solver, State, TrainingProblem
from ranking.data.click_matrix import ClickMatrix, click_matrix
from ranking.data.matching_data import MatchingData
from ranking.errors import DataError
from ranking.kernels.contract import Singles
from ranking.models.factored import Factored
from ranking.models.sparse_factored import (
    SparseFactored,
    as_sparse,
    nonzero_share,
    stored_bytes,
)
from ranking_plugins.engines.local import Local
from ranking_plugins.regularizers.polar import Square, one_blas_thread
from ranking_plugins.solvers.directions import direction_turns
from ranking_plugins.solvers.margin_half_steps import margin_turns
from ranking_plugins.solvers.sgd import SGD
from ranking_plugins.solvers.shards import (
    Computing,
    Vectors,
    add_all,
    best_rows,
    cut,
    joined,
    pulled,
    pulled_grams,
    turned,
)

BLOCK = 1 << 18
"""Numbers whose penalty or gain is summed at a time: about what a cache holds."""


@dataclasses.dataclass
class Alternating(Solver):
    """Half-steps in closed form, queries first, until the objective stands still.

    With the vectors V of the document features, those of the query features are the maximum of
    ``<M V, U> - penalty(U)``; then the same for V. No half-step makes the objective worse. With
    l1l2-row it is RMLS, with orthonormal PLS (Wu, Lu and Li, 2013), whose half-steps go to
    singular vectors faster than by their own maximum (see `directions`): then the objective is
    that of the best directions found so far. A loss that has no closed
    half-step, such as hinge, WARP or domination, has a pass of SGD over the matches instead, with
    the other side frozen: large-margin RMLS. `scale`, `center` and `sparse_below` are not for it.

    Parameters
    ----------
    max_epochs : int
        Rounds of two half-steps at most. Few are best for RMLS: all vectors that are connected by
        clicks draw nearer with each.
    tolerance : float
        Stops when a round decreases the objective by less than this share of it.
    scale : float or "auto"
        What M is multiplied by, so that a strength means the same for few clicks and for many.
        With "auto" it counts in standard deviations: what random vectors of norm 1 on the other
        side pull at a coordinate of a feature's vector has a mean square of 1. 1 is the paper's.
    center : bool
        Whether M is taken less what popularity alone explains: the product of its row sums and
        column sums, over the sum of all. Else vectors that clicks connect, however weakly, all
        come to point in one direction, since M is not negative.
    sparse_below : float
        Vectors with a smaller share of non-zeros are kept as a sparse matrix.
    """

    name: ClassVar[str] = "alternating"

    max_epochs: int = integer(10, minimum=1)
    tolerance: float = number(1e-4, minimum=0.0, maximum=1.0)
    scale: float | str = number("auto", above=0.0, words=("auto",))
    center: bool = boolean(False)
    sparse_below: float = number(0.1, minimum=0.0, maximum=1.0)

    @classmethod
    def accepts(
        cls, model: type[Model], loss: type[Loss], regularizer: type[Regularizer]
    ) -> Compatibility:
        """Take factors of one stage, a linear interface and a penalty that bounds them."""
        if not issubclass(model, Factored) or issubclass(model, StagedModel):
            return Compatibility(
                False,
                "half-steps need a score that is linear in each of two blocks of parameters, and "
                "here there is only one, or one that both sides share",
            )
        if "linear" not in loss.interfaces:
            if not {"pairwise", "listwise"} & loss.interfaces:
                return Compatibility(False, loss.unsupported_reason("linear"))
            return SGD.accepts(model, loss, regularizer)
        if not issubclass(regularizer, SupportsMaximize):
            return Compatibility(
                False,
                "the loss falls without end as vectors grow, and the regularizer does not bound "
                "them",
            )
        return YES

    @classmethod
    def spreads(cls, loss: type[Loss]) -> bool:
        """Say yes for half-steps in closed form: they need M alone, row by row."""
        return "linear" in loss.interfaces

    def run_epochs(self, problem: TrainingProblem) -> Iterator[EpochResult]:
        """Take two half-steps, once a turn."""
        if "linear" not in problem.loss.interfaces:
            yield from margin_turns(self, problem)
            return
        sides = Sides(self, problem)
        directions = isinstance(problem.regularizer, OrthogonalColumns)
        with sides.shards:
            yield from direction_turns(self, sides) if directions else self._rounds(problem, sides)

    def _rounds(self, problem: TrainingProblem, sides: Sides) -> Iterator[EpochResult]:
        model = sides.model
        vectors = sides.form(1, sides.held(1))
        penalty = sides.penalty(1, vectors)
        done, before = 0, np.inf
        if problem.state is not None:
            done, before = int(problem.state["epoch"][0]), float(problem.state["objective"][0])
        for epoch in range(done + 1, self.max_epochs + 1):
            queries, gain = sides.half_step(0, vectors)
            half = penalty - gain
            penalty = sides.penalty(0, queries)
            vectors, gain = sides.half_step(1, queries)
            objective = penalty - gain
            penalty = sides.penalty(1, vectors)
            sides.put(queries, vectors)
            converged = before - objective <= self.tolerance * abs(objective)
            if not model.density:
                warnings.warn(
                    f"{problem.regularizer.spec()} cuts every vector to 0; give a smaller strength.",
                    stacklevel=2,
                )
                converged = True
            measures = {"megabytes": (stored_bytes(queries) + stored_bytes(vectors)) / 1e6}
            if np.isfinite(half):  # the first vectors are drawn, and may be out of bounds
                measures["half objective"] = half
            yield EpochResult(
                epoch, objective, converged, partial(_state, epoch, objective), measures
            )
            if converged:
                return
            before = objective


class Sides:
    """M of a problem by rows and by columns, and its half-steps."""

    def __init__(self, solver: Alternating, problem: TrainingProblem) -> None:
        self.problem = problem
        self.sparse_below = solver.sparse_below
        self.model = cast(Factored, problem.model)
        matrix = _matrix(problem)
        self.center = Center(matrix.rows) if solver.center else None
        factor = (
            _unit(matrix.rows, self.center, self.model.dimensions)
            if solver.scale == "auto"
            else float(solver.scale)
        )
        self.matrices = [
            _scaled(part, factor, self.center, side)
            for side, part in enumerate((matrix.rows, matrix.columns))
        ]
        self.regularizers = tuple(of_side(problem.regularizer, side) for side in (0, 1))
        self.by = Computing(problem.kernel, problem.threads)
        self.engine = problem.engine or Local()
        parts = cut(self.matrices, self.engine.n_parts())
        self.shards = self.engine.scatter(parts, problem.threads)
        self.rooms: list[Singles | None] = [None, None]

    def half_step(self, side: int, others: Vectors) -> tuple[Vectors, float]:
        """Return the best vectors of a side, and what they gain, less their penalty."""
        regularizer = self.regularizers[side]
        if isinstance(regularizer, SupportsRowMaximum):
            self.shards.checkpoint()
            given = self._beside(others, 1 - side)
            room = None if sparse.issparse(given) else self._here(self._room(side))
            found = self.shards.map(
                best_rows, side, given, self.by, regularizer.row_maximum(), room
            )
            gain = float(np.concatenate([gains for _, gains in found]).sum())
            return self.form(side, joined([made for made, _ in found], room)), gain
        pull = self.pull(side, _dense(others), self._room(side))
        width, functions = self.model.dimensions, native_rows(regularizer)
        if functions is not None:
            best = pull[:, :width].copy()
            self.problem.kernel.native.maximize_rows(
                functions, best, threads=self.problem.threads
            )
        else:
            gains = pull[:, :width].astype(np.float64)
            best = cast(SupportsMaximize, regularizer).maximize(gains).astype(np.float32)
        gain = sum(
            float((pull[rows, :width] * best[rows]).sum(dtype=np.float64)) for rows in _slices(pull)
        )
        pull[:, :width] = best
        made = self.form(side, pull)
        return made, gain - self.penalty(side, made)

    def pull(self, side: int, others: Singles, room: Singles) -> Singles:
        """Return M times the vectors of the other side, in `room` if that can be."""
        self.shards.checkpoint()
        given, here = self._beside(others, 1 - side), self._here(room)
        return _dense(joined(self.shards.map(pulled, side, given, self.by, here), here))

    def pull_gram(
        self, side: int, others: Singles, width: int, room: Singles, less: Singles | None = None
    ) -> Square:
        """Let workers keep M times the vectors of the other side; return their Gram matrix."""
        self.shards.checkpoint()
        given, total = self._beside(others, 1 - side), np.zeros((width, width))
        asked = (side, given, self.by, self._here(room), less)
        return self.shards.reduce(pulled_grams, add_all, total, *asked, width)

    def turned(self, square: Square | None, room: Singles) -> Singles:
        """Return what workers keep, times a small matrix, in `room` if that can be."""
        here = self._here(room)
        return _dense(joined(self.shards.map(turned, square), here))

    def _here(self, room: Singles) -> Singles | None:
        """Return memory that workers may write to, if they are in this process."""
        return room if self.engine.here else None

    def _beside(self, vectors: Vectors, side: int) -> Vectors:
        """Return the vectors of a side, with one more row if there is a center."""
        if self.center is None:
            return vectors
        last, room = self.center.mean(vectors, side), self.rooms[side]
        if sparse.issparse(vectors):
            return as_sparse(sparse.vstack([vectors, sparse.csr_array(last[None])], format="csr"))
        if room is None or not np.may_share_memory(vectors, room):
            return np.concatenate((vectors, last[None]))
        room[-1] = last
        return room

    def _room(self, side: int) -> Singles:
        """Return memory for dense vectors of a side: that of the round before, if it had such.

        With a center there is one more row, out of sight, for `_beside`.
        """
        rows = self.matrices[side].shape[0]
        room = self.rooms[side]
        if room is None:
            room = np.empty((rows + (self.center is not None), self.model.width), np.float32)
            self.rooms[side] = room
        return room[:rows]

    def form(self, side: int, vectors: Vectors) -> Vectors:
        """Return the same vectors, sparse if that is smaller and dense if not."""
        if nonzero_share(vectors, self.model.dimensions) >= self.sparse_below:
            return _dense(vectors)
        self.rooms[side] = None
        return as_sparse(vectors)

    def penalty(self, side: int, vectors: Vectors) -> float:
        """Return the penalty of some vectors; what is not tied together is summed by blocks."""
        width, regularizer = self.model.dimensions, self.regularizers[side]
        if regularizer.granularity == "matrix":
            with one_blas_thread():
                return regularizer.penalty(_dense(vectors)[:, :width].astype(np.float64))
        return sum(
            regularizer.penalty(_dense(vectors[rows])[:, :width].astype(np.float64))
            for rows in _slices(vectors)
        )

    def dense(self, side: int) -> Singles:
        """Return the vectors that the model has as a dense matrix."""
        return _dense(self.held(side))

    def held(self, side: int) -> Vectors:
        """Return the vectors that the model has."""
        if isinstance(self.model, SparseFactored):
            return self.model.matrix(side)
        return (self.model.U, self.model.V)[side]

    def put(self, queries: Vectors, documents: Vectors) -> None:
        """Let the model have the vectors."""
        if isinstance(self.model, SparseFactored):
            self.model.set_matrices(queries, documents)
        else:
            self.model.U, self.model.V = _dense(queries), _dense(documents)


class Center:
    """What popularity alone explains of M: a c' / t, of row sums a, column sums c and their sum t.

    It has rank 1, so M stays sparse: ``(M - a c'/t) V`` is M with one more column, -a, times V
    with one more row, c'V / t, their mean by popularity.
    """

    def __init__(self, matrix: Any) -> None:
        wide = matrix.astype(np.float64)
        self.sums = (np.asarray(wide.sum(axis=1)).ravel(), np.asarray(wide.sum(axis=0)).ravel())
        self.total = float(self.sums[0].sum())
        if not self.total > 0.0:
            raise DataError(
                f"M sums to {self.total:g}, and center=true needs a sum above 0; leave it out."
            )

    def explained(self, matrix: Any) -> float:
        """Return by how much the sum of squares of M is larger than that of the rest."""
        rows, columns = self.sums
        both = float(rows @ (matrix @ columns)) / self.total
        return 2.0 * both - float(rows @ rows) * float(columns @ columns) / self.total**2

    def mean(self, vectors: Vectors, side: int) -> Singles:
        """Return the mean of the vectors of a side by popularity."""
        sums, row = self.sums[side] / self.total, np.zeros(vectors.shape[1])
        for rows in _slices(vectors):
            weights = sums[rows, None]
            row += np.asarray((vectors[rows] * weights).sum(axis=0, dtype=np.float64)).ravel()
        return row.astype(np.float32)


def _matrix(problem: TrainingProblem) -> ClickMatrix:
    data, loss = cast(MatchingData, problem.data), cast(LinearLoss, problem.loss)
    model = cast(Factored, problem.model)
    made = click_matrix(data, loss.pair_weights, per_query=loss.per_query, threads=problem.threads)
    for side in ("query", "document"):
        name = f"{side}_feature_ids"
        if not np.array_equal(getattr(made, name), getattr(model, name)):
            raise DataError(
                f"the model was begun with other {side} features than these data have; start "
                "anew, since alternating needs all data at once."
            )
    if not made.rows.nnz:
        raise DataError("no query has a document with relevance above 0: nothing to learn from.")
    return made


def _unit(matrix: Any, center: Center | None, dimensions: int) -> float:
    """Return the factor for "auto"; a pull has the mean square ||row||^2 / dimensions."""
    square = float(np.square(matrix.data, dtype=np.float64).sum())
    if center is not None:
        square -= center.explained(matrix)
    features = np.sqrt(float(matrix.shape[0]) * matrix.shape[1])  # their mean over both sides
    if square <= 0.0:
        raise DataError(
            "popularity explains all clicks, so center=true leaves nothing to learn from; leave "
            "it out."
        )
    return float(np.sqrt(dimensions * features / square))


def _scaled(matrix: Any, factor: float, center: Center | None, side: int) -> Any:
    """Return M times a factor, and with a center one more column."""
    values = (matrix.data * factor).astype(np.float32)
    scaled = sparse.csr_array((values, matrix.indices, matrix.indptr), matrix.shape)
    if center is None:
        return scaled
    column = (-factor * center.sums[side]).astype(np.float32)[:, None]
    return sparse.csr_array(sparse.hstack([scaled, sparse.csr_array(column)]))


def _slices(vectors: Vectors) -> list[slice]:
    """Return blocks of rows."""
    rows = max(BLOCK // max(vectors.shape[1], 1), 1)
    return [slice(at, at + rows) for at in range(0, vectors.shape[0], rows)]


def _dense(vectors: Vectors) -> Singles:
    dense: Singles = vectors.toarray() if sparse.issparse(vectors) else vectors
    return dense


def _state(epoch: int, objective: float) -> State:
    return {"epoch": np.array([float(epoch)]), "objective": np.array([objective])}
