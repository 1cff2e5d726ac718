"""Half-steps for the squared error of all pairs: implicit alternating least squares (iALS).

The loss is ``observed (r - f)^2``, summed over the observed pairs, plus ``unobserved f^2``, summed
over the others. With the embeddings V of one side fixed, that of a row of the other is a quadratic,
whose matrix is ``unobserved V'V`` plus a sum over its observed pairs (Hu, Koren, Volinsky, 2008).
V'V is computed once per half-step, and each row takes some steps of conjugate gradients from where
it is (Takacs, Pilaszy and Tikk, 2011): the objective never increases, up to rounding.

With features, an embedding is a sum of rows of U, so that all rows of U are coupled: the same steps
are then taken on U as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from scipy import sparse

from ranking.contracts.solver import EpochResult, State, TrainingProblem
from ranking.data.matching_data import MatchingData
from ranking.errors import CombinationError, DataError
from ranking.kernels.contract import Floats, Singles
from ranking.models.factored import Factored
from ranking_plugins.engines.local import Local
from ranking_plugins.losses.squared import Squared
from ranking_plugins.regularizers.l2 import L2
from ranking_plugins.regularizers.polar import gram, one_blas_thread
from ranking_plugins.solvers.shards import Computing, Quadratic, least_squares, split

if TYPE_CHECKING:
    from ranking_plugins.solvers.alternating import Alternating

BLOCK = 1 << 16
"""Observed pairs that are scored at a time."""

LEAST = 1e-30
"""A squared residual up to this counts as 0."""


def squared_epochs(solver: Alternating, problem: TrainingProblem) -> Iterator[EpochResult]:
    """Yield one result per epoch of two half-steps."""
    pairs = AllPairs(problem, solver.steps)
    with pairs.shards:
        yield from _epochs(solver, problem, pairs)


def _epochs(
    solver: Alternating, problem: TrainingProblem, pairs: AllPairs
) -> Iterator[EpochResult]:
    done, before = 0, np.inf
    if problem.state is not None:
        done, before = int(problem.state["epoch"][0]), float(problem.state["objective"][0])
    for epoch in range(done + 1, solver.max_epochs + 1):
        with one_blas_thread():
            half = pairs.half_step(0)
            objective = pairs.half_step(1)
        converged = before - objective <= solver.tolerance * abs(objective)
        state = partial(_state, epoch, objective)
        yield EpochResult(epoch, objective, converged, state, {"half objective": half})
        if converged:
            return
        before = objective


class Side(NamedTuple):
    """One side of the pairs.

    Attributes
    ----------
    pairs : csr_array
        The responses, one row per query or document of this side.
    features : csr_array or None
        None if every row is its own feature.
    ridges : float64 array
        Half the strength of each row of parameters.
    """

    pairs: Any
    features: Any
    ridges: Floats


class AllPairs:
    """The quadratic of each side, and its half-step."""

    def __init__(self, problem: TrainingProblem, steps: int) -> None:
        self.problem, self.steps = problem, steps
        self.model, self.loss = cast(Factored, problem.model), cast(Squared, problem.loss)
        relevance = _responses(cast(MatchingData, problem.data))
        self.constant = self.loss.observed * float((relevance.data.astype(np.float64) ** 2).sum())
        both = (relevance, sparse.csr_array(relevance.T))
        self.sides = [self._side(side, pairs) for side, pairs in enumerate(both)]
        self.engine = problem.engine or Local()
        if not self.engine.here and any(side.features is not None for side in self.sides):
            raise CombinationError(
                f"engine {self.engine.name!r} spreads rows, and with features the squared loss "
                "takes its steps on all rows together; use engine local, or leave the features out."
            )
        parts = split(both, self.engine.n_parts())
        self.shards = self.engine.scatter(parts, problem.threads)

    def _side(self, side: int, pairs: Any) -> Side:
        features = self.model.feature_rows(cast(MatchingData, self.problem.data), side)
        rows = None if isinstance(features, int) else sparse.csr_array(features)
        counts = np.diff(pairs.indptr).astype(np.float64)
        if rows is not None:
            counts = np.asarray(rows.multiply(rows).T @ counts, dtype=np.float64).ravel()
        regularizer = self.problem.regularizer
        strengths = np.zeros(counts.size)
        if isinstance(regularizer, L2):
            strengths = regularizer.row_strengths(counts)
        return Side(pairs, rows, strengths / 2.0)

    def parameters(self, side: int) -> Singles:
        """Return U or V."""
        return (self.model.U, self.model.V)[side]

    def embeddings(self, side: int) -> Singles:
        """Return the embeddings of a side."""
        features = self.sides[side].features
        if features is None:
            return self.parameters(side)
        return self.problem.kernel.factored.embeddings(
            features, self.parameters(side), self.problem.threads
        )

    def half_step(self, side: int) -> float:
        """Decrease the objective over the parameters of a side; return it."""
        others = self.embeddings(1 - side)
        square = gram(others, self.problem.threads)
        ridges = self.sides[1 - side].ridges
        penalty = float(ridges @ _squares(self.parameters(1 - side)))
        if self.sides[side].features is None:
            gain = self._by_rows(side, others, square)
        else:
            gain = self._by_features(side, others.astype(np.float64), square)
        return self.constant - gain + penalty

    def _by_rows(self, side: int, others: Singles, square: Floats) -> float:
        here, parameters = self.engine.here, self.parameters(side)
        quadratic = Quadratic(
            square.astype(np.float32),
            self.loss.rule(self.steps),
            self.sides[side].ridges.astype(np.float32),
            parameters,
        )
        by = Computing(self.problem.kernel, self.problem.threads)
        self.shards.checkpoint()
        parts = self.shards.map(least_squares, side, others, by, quadratic, here)
        if not here:
            parameters[...] = np.concatenate([rows for rows, _ in parts])
        gains = np.concatenate([values for _, values in parts])
        return float(gains.sum())

    def _by_features(self, side: int, others: Floats, square: Floats) -> float:
        """Take the steps on all rows of the parameters together; return their gain."""
        quadratic = FeatureQuadratic(self.loss, self.sides[side], others, square)
        parameters = self.parameters(side)
        x = parameters.astype(np.float64)
        target = quadratic.target()
        residual = target - quadratic.product(x)
        direction, norm = residual.copy(), float((residual * residual).sum())
        for _ in range(self.steps):
            product = quadratic.product(direction)
            curvature = float((direction * product).sum())
            if norm <= LEAST or curvature <= 0.0:
                break
            x += norm / curvature * direction
            residual -= norm / curvature * product
            before, norm = norm, float((residual * residual).sum())
            direction = residual + norm / before * direction
        parameters[...] = x
        return float((x * target).sum() + (x * residual).sum())


class FeatureQuadratic:
    """The quadratic in the parameters U of a side whose embeddings are F U."""

    def __init__(self, loss: Squared, side: Side, others: Floats, square: Floats) -> None:
        self.loss, self.side, self.others, self.square = loss, side, others, square
        self.rows = np.repeat(np.arange(side.pairs.shape[0]), np.diff(side.pairs.indptr))

    def target(self) -> Floats:
        """Return the gradient at 0, negative and halved."""
        pulls = self.loss.observed * (self.side.pairs.astype(np.float64) @ self.others)
        result: Floats = self.side.features.T @ pulls
        return result

    def product(self, x: Floats) -> Floats:
        """Return the matrix of the quadratic times x."""
        embeddings = self.side.features @ x
        columns, values = self.side.pairs.indices, np.empty(self.rows.size)
        for at in range(0, values.size, BLOCK):
            part = slice(at, at + BLOCK)
            left, right = embeddings[self.rows[part]], self.others[columns[part]]
            values[part] = np.einsum("ij,ij->i", left, right)
        values *= self.loss.observed - float(self.loss.unobserved)
        scores = sparse.csr_array((values, columns, self.side.pairs.indptr), self.side.pairs.shape)
        inner = float(self.loss.unobserved) * (embeddings @ self.square) + scores @ self.others
        result: Floats = self.side.features.T @ inner + self.side.ridges[:, None] * x
        return result


def _responses(data: MatchingData) -> Any:
    """Return the relevance as float32; refuse labels."""
    if data.relevance is None:
        raise DataError(
            "the squared error of all pairs needs the documents of each query, and these data are "
            "labelled by class; pass relevance, or use solver sgd."
        )
    relevance = sparse.csr_array(data.relevance, dtype=np.float32, copy=True)
    relevance.eliminate_zeros()
    relevance.sort_indices()
    if not relevance.nnz:
        raise DataError("no query has a document with relevance: nothing to learn from.")
    return relevance


def _squares(parameters: Singles) -> Floats:
    """Return the sum of squares of each row."""
    squares: Floats = np.einsum("ij,ij->i", parameters, parameters, dtype=np.float64)
    return squares


def _state(epoch: int, objective: float) -> State:
    return {"epoch": np.array([float(epoch)]), "objective": np.array([objective])}
