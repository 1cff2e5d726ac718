"""Alternating optimization: the optimal embeddings of one side for those of the other."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import partial
from typing import Any, ClassVar, cast

import numpy as np
from scipy import sparse

from ranking.contracts.loss import LinearLoss, Loss, SharedNegativesLoss
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
from ranking.errors import CombinationError, DataError, PartError
from ranking.kernels.contract import Singles
from ranking.models.factored import Factored, require_dot_product
from ranking.models.sparse_factored import (
    SparseFactored,
    as_sparse,
    nonzero_share,
    stored_bytes,
)
from ranking_plugins.engines.local import Local
from ranking_plugins.losses.margin_lists import margin_list_reason
from ranking_plugins.losses.pairwise import WARP
from ranking_plugins.losses.squared import Squared
from ranking_plugins.regularizers.l2 import L2
from ranking_plugins.regularizers.none import NoPenalty
from ranking_plugins.regularizers.polar import Square, one_blas_thread
from ranking_plugins.solvers.directions import direction_epochs
from ranking_plugins.solvers.functions import FIXED_IDENTITY
from ranking_plugins.solvers.margin_half_steps import margin_epochs
from ranking_plugins.solvers.row_blocks import RowBlockSettings, row_block_epochs
from ranking_plugins.solvers.sgd import SGD
from ranking_plugins.solvers.shards import (
    Computing,
    Embeddings,
    add_all,
    best_rows,
    concatenated,
    product_grams,
    products,
    rotated,
    split,
)
from ranking_plugins.solvers.squared_half_steps import squared_epochs

INNER_STEPS = 10
"""Updates of all rows of one side in a half-step of a loss without a closed form, at most."""

BLOCK = 1 << 18
"""Numbers whose penalty or gain is summed at a time: about the size of a cache."""


@dataclasses.dataclass
class Alternating(Solver):
    """Half-steps in closed form, queries first, until the objective stops decreasing.

    For the embeddings V of the document features, those of the query features are the maximum of
    ``<M V, U> - penalty(U)``; then the same for V. No half-step increases the objective. With
    l1l2-row it is RMLS, with orthonormal PLS (Wu, Lu and Li, 2013), whose half-steps converge to
    singular vectors faster than alternating maxima (see `directions`): the objective is then that
    of the best directions so far. A loss without a closed half-step, such as hinge or domination,
    takes up to ten majorize-minimize steps on all rows of a side (see `row_blocks`), none of which
    increases the objective: large-margin RMLS. WARP, whose weights are sampled, takes one pass of
    SGD over the positives, with the other side frozen. The squared loss of all pairs (iALS) takes
    `steps` steps of conjugate gradients on each row (see `squared_half_steps`).
    `scale`, `center` and `sparse_below` have no effect on these losses.

    Parameters
    ----------
    max_epochs : int
        The maximal number of epochs of two half-steps. Few are best for RMLS: all embeddings that
        clicks connect become more similar in each.
    tolerance : float
        Stop when an epoch decreases the objective by less than this share of it.
    scale : float or "auto"
        The factor of M, so that a strength means the same for few and for many clicks. With "auto"
        the product of M and random embeddings of norm 1 has a mean square of 1 per entry. 1 is the
        value of the paper.
    center : bool
        Whether to subtract from M what popularity explains: the product of its row sums and column
        sums over the sum of all entries. Otherwise all embeddings that clicks connect converge to
        one direction, since M is not negative.
    center_features : bool
        Whether to subtract from M what the means of the features explain, as partial least squares
        does: M is then the covariance of the features of queries and of their documents, whose mean
        is weighted by clicks.
    sparse_below : float
        Embeddings with a smaller share of non-zeros are stored as a sparse matrix.
    n_negatives : int
        For a loss of margins: the negatives that are sampled for each positive, once for the whole
        run.
    singular_values : bool
        For orthonormal: whether to multiply the columns of V by the singular values of M, so that
        scores are those of its best approximation U S V', as LSI has them; else all directions
        count the same.
    steps : int
        For the squared loss: the steps of conjugate gradients in a half-step.
    """

    name: ClassVar[str] = "alternating"

    max_epochs: int = integer(10, minimum=1)
    tolerance: float = number(1e-4, minimum=0.0, maximum=1.0)
    scale: float | str = number("auto", above=0.0, words=("auto",))
    center: bool = boolean(False)
    center_features: bool = boolean(False)
    sparse_below: float = number(0.1, minimum=0.0, maximum=1.0)
    n_negatives: int = integer(10, minimum=1)
    singular_values: bool = boolean(False)
    steps: int = integer(3, minimum=1)

    def _setup(self) -> None:
        if self.center and self.center_features:
            raise PartError("alternating has center and center_features; set one of them.")
        self.used_scale: float | None = None

    def idle(self) -> set[str]:
        """Return `center_features` if it is false."""
        return set() if self.center_features else {"center_features"}

    def auto_values(self, problem: TrainingProblem) -> dict[str, Any]:
        """Return the scale; 1 for a loss that does not use it."""
        if self.scale != "auto":
            return {}
        if "linear" not in problem.loss.interfaces:
            return {"scale": 1.0}
        if self.used_scale is not None:
            return {"scale": self.used_scale}
        matrix = _matrix(problem)
        center = _center(self, problem, matrix)
        return {"scale": _unit(matrix.rows, center, cast(Factored, problem.model).dimensions)}

    @classmethod
    def accepts(
        cls, model: type[Model], loss: type[Loss], regularizer: type[Regularizer]
    ) -> Compatibility:
        """Accept factors of one stage, a linear loss and a penalty that bounds the factors."""
        if not issubclass(model, Factored) or issubclass(model, StagedModel):
            return Compatibility(
                False,
                "half-steps need a score that is linear in each of two blocks of parameters, and "
                "this model has only one, or one that both sides share",
            )
        if model.form == "factors-identity":
            return Compatibility(False, FIXED_IDENTITY)
        if issubclass(loss, Squared):
            return _accept_squared(model, regularizer)
        if "linear" not in loss.interfaces:
            if not {"pairwise", "listwise"} & loss.interfaces:
                return Compatibility(False, loss.unsupported_reason("linear"))
            if issubclass(loss, SharedNegativesLoss):
                return Compatibility(
                    False,
                    f"the positives of loss {loss.name!r} share their negatives, and half-steps "
                    "are computed list by list; use solver sgd",
                )
            return SGD.accepts(model, loss, regularizer)
        if not issubclass(regularizer, SupportsMaximize):
            return Compatibility(
                False,
                "the loss decreases without bound as embeddings grow, and the regularizer does not "
                "bound them",
            )
        return YES

    @classmethod
    def spreads(cls, loss: type[Loss]) -> bool:
        """Return True for half-steps that need only M, or the pairs, row by row."""
        return "linear" in loss.interfaces or issubclass(loss, Squared)

    def run_epochs(self, problem: TrainingProblem) -> Iterator[EpochResult]:
        """Yield one result per epoch of two half-steps."""
        directions = isinstance(problem.regularizer, OrthogonalColumns)
        closed = "linear" in problem.loss.interfaces
        if isinstance(problem.loss, Squared):
            yield from squared_epochs(self, problem)
            return
        if self.singular_values and not (directions and closed):
            raise CombinationError(
                f"singular_values=true is for loss alignment and regularizer orthonormal, not for "
                f"{problem.loss.name} and {problem.regularizer.name}; leave it out."
            )
        if not closed:
            yield from self._margin_epochs(problem)
            return
        sides = Sides(self, problem)
        self.used_scale = sides.scale
        with sides.shards:
            yield from direction_epochs(self, sides) if directions else self._rounds(problem, sides)

    def _margin_epochs(self, problem: TrainingProblem) -> Iterator[EpochResult]:
        """Yield epochs of half-steps that decrease the objective; of SGD if weights are sampled."""
        sampled = isinstance(problem.loss, WARP)
        if not sampled and not margin_list_reason(type(problem.loss)):
            settings = RowBlockSettings(
                self.max_epochs, self.tolerance, self.n_negatives, INNER_STEPS
            )
            return row_block_epochs(problem, settings)
        return margin_epochs(self, problem)

    def _rounds(self, problem: TrainingProblem, sides: Sides) -> Iterator[EpochResult]:
        model = sides.model
        embeddings = sides.compressed(1, sides.embeddings(1))
        penalty = sides.penalty(1, embeddings)
        done, before = 0, np.inf
        if problem.state is not None:
            done, before = int(problem.state["epoch"][0]), float(problem.state["objective"][0])
        for epoch in range(done + 1, self.max_epochs + 1):
            queries, gain = sides.half_step(0, embeddings)
            half = penalty - gain
            penalty = sides.penalty(0, queries)
            embeddings, gain = sides.half_step(1, queries)
            objective = penalty - gain
            penalty = sides.penalty(1, embeddings)
            sides.set_embeddings(queries, embeddings)
            converged = before - objective <= self.tolerance * abs(objective)
            converged = converged or not model.density
            measures = {"megabytes": (stored_bytes(queries) + stored_bytes(embeddings)) / 1e6}
            if np.isfinite(
                half
            ):  # the initial embeddings are random, and may violate the constraint
                measures["half objective"] = half
            yield EpochResult(
                epoch, objective, converged, partial(_state, epoch, objective), measures
            )
            if converged:
                return
            before = objective


class Sides:
    """The matrix M of a problem by rows and by columns, and its half-steps."""

    def __init__(self, solver: Alternating, problem: TrainingProblem) -> None:
        self.problem = problem
        self.sparse_below = solver.sparse_below
        self.model = cast(Factored, problem.model)
        require_dot_product(self.model, "solver alternating")
        matrix = _matrix(problem)
        self.center = _center(solver, problem, matrix)
        self.scale = (
            _unit(matrix.rows, self.center, self.model.dimensions)
            if solver.scale == "auto"
            else float(solver.scale)
        )
        self.matrices = [
            _scaled(part, self.scale, self.center, side)
            for side, part in enumerate((matrix.rows, matrix.columns))
        ]
        self.regularizers = tuple(of_side(problem.regularizer, side) for side in (0, 1))
        self.by = Computing(problem.kernel, problem.threads)
        self.engine = problem.engine or Local()
        parts = split(self.matrices, self.engine.n_parts())
        self.shards = self.engine.scatter(parts, problem.threads)
        self.buffers: list[Singles | None] = [None, None]

    def half_step(self, side: int, others: Embeddings) -> tuple[Embeddings, float]:
        """Return the optimal embeddings of a side, and their gain minus their penalty."""
        regularizer = self.regularizers[side]
        if isinstance(regularizer, SupportsRowMaximum):
            self.shards.checkpoint()
            others_centered = self._with_center(others, 1 - side)
            buffer = None if sparse.issparse(others_centered) else self._shared(self._buffer(side))
            parts = self.shards.map(
                best_rows, side, others_centered, self.by, regularizer.row_maximum(), buffer
            )
            gain = float(np.concatenate([gains for _, gains in parts]).sum())
            return self.compressed(
                side, concatenated([result for result, _ in parts], buffer)
            ), gain
        product = self.product(side, _dense(others), self._buffer(side))
        width, functions = self.model.dimensions, native_rows(regularizer)
        if functions is not None:
            best = product[:, :width].copy()
            self.problem.kernel.native.maximize_rows(functions, best, threads=self.problem.threads)
        else:
            gains = product[:, :width].astype(np.float64)
            best = cast(SupportsMaximize, regularizer).maximize(gains).astype(np.float32)
        gain = sum(
            float((product[rows, :width] * best[rows]).sum(dtype=np.float64))
            for rows in _slices(product)
        )
        product[:, :width] = best
        result = self.compressed(side, product)
        return result, gain - self.penalty(side, result)

    def product(self, side: int, others: Singles, buffer: Singles) -> Singles:
        """Return M times the embeddings of the other side, in `buffer` if possible."""
        self.shards.checkpoint()
        others_centered, out = self._with_center(others, 1 - side), self._shared(buffer)
        return _dense(
            concatenated(self.shards.map(products, side, others_centered, self.by, out), out)
        )

    def product_gram(
        self, side: int, others: Singles, width: int, buffer: Singles, less: Singles | None = None
    ) -> Square:
        """Let workers cache M times the embeddings of the other side; return the Gram matrix."""
        self.shards.checkpoint()
        others_centered, total = self._with_center(others, 1 - side), np.zeros((width, width))
        arguments = (side, others_centered, self.by, self._shared(buffer), less)
        return self.shards.reduce(product_grams, add_all, total, *arguments, width)

    def rotated(self, square: Square | None, buffer: Singles) -> Singles:
        """Return the cached products times a small matrix, in `buffer` if possible."""
        out = self._shared(buffer)
        return _dense(concatenated(self.shards.map(rotated, square), out))

    def _shared(self, buffer: Singles) -> Singles | None:
        """Return the buffer if workers are in this process and may write to it."""
        return buffer if self.engine.here else None

    def _with_center(self, embeddings: Embeddings, side: int) -> Embeddings:
        """Return the embeddings of a side, with one more row if M is centered."""
        if self.center is None:
            return embeddings
        last, buffer = self.center.mean(embeddings, side), self.buffers[side]
        if sparse.issparse(embeddings):
            return as_sparse(
                sparse.vstack([embeddings, sparse.csr_array(last[None])], format="csr")
            )
        if buffer is None or not np.may_share_memory(embeddings, buffer):
            return np.concatenate((embeddings, last[None]))
        buffer[-1] = last
        return buffer

    def _buffer(self, side: int) -> Singles:
        """Return a buffer for dense embeddings of a side; it is allocated once.

        If M is centered, it has one more row, for `_with_center`.
        """
        rows = self.matrices[side].shape[0]
        buffer = self.buffers[side]
        if buffer is None:
            buffer = np.empty((rows + (self.center is not None), self.model.width), np.float32)
            self.buffers[side] = buffer
        return buffer[:rows]

    def compressed(self, side: int, embeddings: Embeddings) -> Embeddings:
        """Return the embeddings as a sparse matrix if that is smaller, else as a dense one."""
        if nonzero_share(embeddings, self.model.dimensions) >= self.sparse_below:
            return _dense(embeddings)
        self.buffers[side] = None
        return as_sparse(embeddings)

    def penalty(self, side: int, embeddings: Embeddings) -> float:
        """Return the penalty of embeddings, by blocks of rows if they are independent."""
        width, regularizer = self.model.dimensions, self.regularizers[side]
        if regularizer.granularity == "matrix":
            with one_blas_thread():
                return regularizer.penalty(_dense(embeddings)[:, :width].astype(np.float64))
        return sum(
            regularizer.penalty(_dense(embeddings[rows])[:, :width].astype(np.float64))
            for rows in _slices(embeddings)
        )

    def dense(self, side: int) -> Singles:
        """Return the embeddings of the model as a dense matrix."""
        return _dense(self.embeddings(side))

    def embeddings(self, side: int) -> Embeddings:
        """Return the embeddings of the model."""
        if isinstance(self.model, SparseFactored):
            return self.model.matrix(side)
        return (self.model.U, self.model.V)[side]

    def set_embeddings(self, queries: Embeddings, documents: Embeddings) -> None:
        """Set the embeddings of the model."""
        if isinstance(self.model, SparseFactored):
            self.model.set_matrices(queries, documents)
        else:
            self.model.U, self.model.V = _dense(queries), _dense(documents)


class Center:
    """The part of M that popularity explains: a c' / t, of row sums a, column sums c, and total t.

    It has rank 1, so M stays sparse: ``(M - a c'/t) V`` is M with one more column, -a, times V
    with one more row, c'V / t, their mean by popularity.
    """

    def __init__(self, matrix: Any) -> None:
        wide = matrix.astype(np.float64)
        self.sums = (np.asarray(wide.sum(axis=1)).ravel(), np.asarray(wide.sum(axis=0)).ravel())
        self.total = float(self.sums[0].sum())
        if not self.total > 0.0:
            raise DataError(
                f"M sums to {self.total:g}, and center=true needs a positive sum; leave it out."
            )

    def explained(self, matrix: Any) -> float:
        """Return the sum of squares of M minus that of the centered M."""
        rows, columns = self.sums
        both = float(rows @ (matrix @ columns)) / self.total
        return 2.0 * both - float(rows @ rows) * float(columns @ columns) / self.total**2

    def mean(self, embeddings: Embeddings, side: int) -> Singles:
        """Return the mean of the embeddings of a side, weighted by popularity."""
        sums, row = self.sums[side] / self.total, np.zeros(embeddings.shape[1])
        for rows in _slices(embeddings):
            weights = sums[rows, None]
            row += np.asarray((embeddings[rows] * weights).sum(axis=0, dtype=np.float64)).ravel()
        return row.astype(np.float32)


class FeatureCenter(Center):
    """The part of M that the means of the features explain: x y', of rank 1.

    x is the mean of the features of the queries that have documents, and y the sum over queries
    of the features of their documents, weighted as in M, so that ``M - x y'`` sums
    ``(x_i - x)(y_i - y)'`` over the queries.
    """

    def __init__(self, problem: TrainingProblem) -> None:
        data, loss = cast(MatchingData, problem.data), cast(LinearLoss, problem.loss)
        if any(getattr(loss, "degrees", (0.0, 0.0))):
            raise CombinationError(
                "center_features is for responses as they are, and alignment normalizes them by "
                "degrees; leave one of them out."
            )
        filled = np.diff(data.relevance.indptr) > 0 if data.labels is None else data.n_relevant > 0
        mean = np.asarray(data.query_rows[np.flatnonzero(filled)].mean(axis=0)).ravel()
        one = sparse.csr_array(np.ones((data.n_queries, 1), np.float32))
        alone = data._replace(queries=one, query_feature_ids=np.array(["all"]))
        summed = click_matrix(
            alone, loss.pair_weights, per_query=loss.per_query, threads=problem.threads
        )
        self.sums = (mean.astype(np.float64), summed.rows.toarray().ravel().astype(np.float64))
        self.total = 1.0


def _center(solver: Alternating, problem: TrainingProblem, matrix: ClickMatrix) -> Center | None:
    if solver.center_features:
        return FeatureCenter(problem)
    return Center(matrix.rows) if solver.center else None


def _accept_squared(model: type[Model], regularizer: type[Regularizer]) -> Compatibility:
    """Accept embeddings and L2, or no penalty."""
    if model.name != Factored.name:
        return Compatibility(
            False, "each row of embeddings is the solution of a least-squares problem, and dense"
        )
    if regularizer is not L2 and regularizer is not NoPenalty:
        return Compatibility(
            False,
            "the half-step of the squared error is a linear system only with a penalty that is a "
            "sum of squares",
        )
    return YES


def _matrix(problem: TrainingProblem) -> ClickMatrix:
    data, loss = cast(MatchingData, problem.data), cast(LinearLoss, problem.loss)
    model = cast(Factored, problem.model)
    result = click_matrix(
        data,
        loss.pair_weights,
        per_query=loss.per_query,
        degrees=getattr(loss, "degrees", (0.0, 0.0)),
        threads=problem.threads,
    )
    for side in ("query", "document"):
        name = f"{side}_feature_ids"
        if not np.array_equal(getattr(result, name), getattr(model, name)):
            raise DataError(
                f"the model has other {side} features than these data; train a new model, since "
                "alternating needs all data at once."
            )
    if not result.rows.nnz:
        raise DataError("no query has a document with positive relevance: nothing to learn from.")
    return result


def _unit(matrix: Any, center: Center | None, dimensions: int) -> float:
    """Return the factor for "auto"; a product has the mean square ||row||^2 / dimensions."""
    square = float(np.square(matrix.data, dtype=np.float64).sum())
    if center is not None:
        square -= center.explained(matrix)
    features = np.sqrt(float(matrix.shape[0]) * matrix.shape[1])  # their mean over both sides
    if square <= 0.0:
        raise DataError(
            "popularity explains all clicks, so nothing to learn from remains with center=true; "
            "leave it out."
        )
    return float(np.sqrt(dimensions * features / square))


def _scaled(matrix: Any, factor: float, center: Center | None, side: int) -> Any:
    """Return M times a factor, with one more column if it is centered."""
    values = (matrix.data * factor).astype(np.float32)
    scaled = sparse.csr_array((values, matrix.indices, matrix.indptr), matrix.shape)
    if center is None:
        return scaled
    column = (-factor * center.sums[side]).astype(np.float32)[:, None]
    return sparse.csr_array(sparse.hstack([scaled, sparse.csr_array(column)]))


def _slices(embeddings: Embeddings) -> list[slice]:
    """Return blocks of rows."""
    rows = max(BLOCK // max(embeddings.shape[1], 1), 1)
    return [slice(at, at + rows) for at in range(0, embeddings.shape[0], rows)]


def _dense(embeddings: Embeddings) -> Singles:
    dense: Singles = embeddings.toarray() if sparse.issparse(embeddings) else embeddings
    return dense


def _state(epoch: int, objective: float) -> State:
    return {"epoch": np.array([float(epoch)]), "objective": np.array([objective])}
