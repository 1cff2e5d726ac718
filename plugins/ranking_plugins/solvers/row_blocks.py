"""Block coordinate descent on embeddings: the rows of one side at a time.

The loss is the mean over lists of one positive and n sampled negatives, which stay the same for
the whole run, of a function of the margins z_j = f(q, d+) - f(q, d_j). At the current margins
the loss has a quadratic majorizer ``l + sum_j s_j dz_j + 1/2 sum_j c_j dz_j**2``, with the slopes s
and curvatures c of `MarginListLoss`. With V fixed a margin is linear in the embedding of one query,
so ``dz_j**2 <= ||du||**2 ||v+ - v_j||**2 <= ||du||**2 (2 ||v+||**2 + 2 ||v_j||**2)``; with U fixed
it is linear in two documents, so ``dz_j**2 <= 2 ||u||**2 (||dv+||**2 + ||dv_j||**2)``. Either way
the majorizer separates into one term ``g . d + L/2 ||d||**2`` per row, whose minimum with the
penalty is ``prox(row - g / L)`` with step 1 / L. A row of features that are shared by many adds
``x**2`` times the number of features of each query or document.

All rows of a side are updated at the same time, so the result does not depend on the number of
threads. The majorizer is multiplied by a factor that shrinks after each success and doubles
whenever the objective would rise; then the step is taken back. No step increases the objective.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import cached_property, partial
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ranking.contracts.regularizer import (
    SupportsRowWeights,
    of_side,
    prox_by_row,
    weighs_rows,
)
from ranking.contracts.solver import EpochResult, State, TrainingProblem
from ranking.data.matching_data import MatchingData
from ranking.errors import DataError
from ranking.kernels.alternating import AlternatingMatrix
from ranking.kernels.contract import Floats, Ints, Singles
from ranking.kernels.factored import NAMES, FactoredWeights, FeatureRows
from ranking.models.factored import Factored, require_dot_product
from ranking_plugins.losses.margin_lists import margin_list_loss
from ranking_plugins.solvers.factored_steps import PROX_ROWS
from ranking_plugins.solvers.frequencies import row_frequencies
from ranking_plugins.solvers.settings import sampling_lists
from ranking_plugins.solvers.sgd import SGD

SHRINK, GROW = 0.8, 2.0
"""Factors of the majorizer after a success, and after a step that is taken back."""

SMALLEST, LARGEST = 2.0**-10, 2.0**40
"""Bounds of that factor; at the largest one a step changes nothing that float32 can show."""

ENOUGH = 0.1
"""The share of its first decrease below which a half-step ends."""

ISOLATED = 2.0**-60
"""The curvature of a row that is in no list: its minimum is that of the penalty."""


@dataclasses.dataclass(frozen=True)
class SampledLists:
    """One list per positive: query, positive and negatives, sampled once."""

    triplets: Ints
    n_queries: int
    n_documents: int

    @property
    def n_negatives(self) -> int:
        """The number of negatives of a list."""
        return int(self.triplets.shape[1]) - 2

    @cached_property
    def pairs(self) -> Ints:
        """One triplet per negative, whose margin kernels compute."""
        n = self.n_negatives
        pairs: Ints = np.empty((self.triplets.shape[0] * n, 3), np.int64)
        pairs[:, :2] = np.repeat(self.triplets[:, :2], n, axis=0)
        pairs[:, 2] = self.triplets[:, 2:].ravel()
        return pairs

    @cached_property
    def pattern(self) -> tuple[Any, Ints]:
        """The pairs of queries and documents that occur, and the pair of each entry."""
        queries = np.repeat(self.triplets[:, :1], self.n_negatives + 1, axis=1)
        keys = queries * self.n_documents + self.triplets[:, 1:]
        pairs, position = np.unique(keys, return_inverse=True)
        rows, columns = np.divmod(pairs, self.n_documents)
        pointer = np.searchsorted(rows, np.arange(self.n_queries + 1))
        shape = (self.n_queries, self.n_documents)
        empty = sp.csr_array((np.zeros(pairs.size), columns, pointer), shape)
        return empty, position.reshape(keys.shape)

    def matrix(self, of_margins: Floats, sign: float) -> Any:
        """Sum numbers of margins by query and document; `sign` is that of the negatives."""
        pattern, position = self.pattern
        entries = np.concatenate((of_margins.sum(axis=1)[:, None], sign * of_margins), axis=1)
        sums = np.bincount(position.ravel(), entries.ravel(), minlength=pattern.nnz)
        return sp.csr_array((sums, pattern.indices, pattern.indptr), pattern.shape)


def sample_lists(problem: TrainingProblem, n_negatives: int) -> SampledLists:
    """Sample the negatives of every positive of the data: the lists of one epoch of SGD."""
    data = cast(MatchingData, problem.data)
    lists = sampling_lists(data, SGD(), "positives")
    if not lists.queries.size:
        raise DataError("no query has a positive and a negative document: nothing to learn from.")
    count = int(lists.query_sums[-1])
    triplets = problem.kernel.sampling.sample_triplets(lists, problem.seed, 0, count, n_negatives)
    return SampledLists(triplets, data.n_queries, data.n_documents)


class Side:
    """The features of queries or of documents, by row and by column."""

    def __init__(self, rows: FeatureRows, problem: TrainingProblem) -> None:
        self.rows, self.problem = rows, problem
        if isinstance(rows, int):
            return
        self.columns = sp.csr_array(rows.T.astype(np.float32))
        # (sum of n terms)**2 <= n * (sum of their squares)
        count = np.repeat(np.diff(rows.indptr), np.diff(rows.indptr))
        squares = rows.data.astype(np.float64) ** 2 * count
        self.squares = sp.csr_array(
            sp.csr_array((squares, rows.indices, rows.indptr), rows.shape).T
        )

    def embeddings(self, matrix: Singles) -> Singles:
        """Compose the embeddings of all queries or documents."""
        return self.problem.kernel.factored.embeddings(self.rows, matrix, self.problem.threads)

    def gradient(self, composed: Singles) -> Singles:
        """Return the gradient by feature from that by query or document."""
        return composed if isinstance(self.rows, int) else self._product(self.columns, composed)

    def curvature(self, composed: Floats) -> Floats:
        """Return the curvature by feature from that by query or document."""
        return composed if isinstance(self.rows, int) else self.squares @ composed

    def times(self, matrix: Any, embeddings: Singles) -> Singles:
        """Return the gradient by query (document) from slopes of scores, in the kernel."""
        return self._product(matrix, embeddings)

    def _product(self, matrix: Any, embeddings: Singles) -> Singles:
        matched = AlternatingMatrix(sp.csr_array(matrix.astype(np.float32)))
        kernel, threads = self.problem.kernel.alternating, self.problem.threads
        return cast(Singles, kernel.half_step(matched, embeddings, threads=threads)[0])


class RowBlocks:
    """The embeddings in training, the lists, and the objective at the current embeddings."""

    def __init__(self, problem: TrainingProblem, n_negatives: int) -> None:
        self.problem = problem
        self.model = cast(Factored, problem.model)
        require_dot_product(self.model, "block coordinate descent")
        self.model.densify()
        data = cast(MatchingData, problem.data)
        self.inputs = self.model.inputs(data, problem.kernel, problem.threads)
        self.sides = tuple(Side(self.model.feature_rows(data, side), problem) for side in (0, 1))
        self.lists = sample_lists(problem, n_negatives)
        self.loss = margin_list_loss(problem.loss, problem.kernel, problem.threads)
        self.weights = FactoredWeights(problem.kernel, self.model.factors)
        self.regularizers = tuple(of_side(problem.regularizer, side) for side in (0, 1))
        self.row_weights: tuple[Floats, ...] | None = None
        if weighs_rows(problem.regularizer):
            frequencies = row_frequencies(self.model, data, self.inputs)
            self.row_weights = tuple(part.astype(np.float64) for part in frequencies)
        self.factor = 1.0
        if problem.state is not None:
            self._restore(problem.state)
        else:
            for side in (0, 1):  # the initial embeddings may violate a constraint
                matrix = self._matrix(side)
                for rows in self._chunks(side):
                    matrix[rows] = self.regularizers[side].prox(self._wide(side, matrix[rows]), 0.0)
        self.margins = self._margins()
        self.objective = self._objective(self.margins)

    def state(self) -> State:
        """Return copies of the parameters, which change in place, and the factor."""
        factors = zip(NAMES, self.model.factors, strict=True)
        return {"factor": np.array([self.factor]), **{name: part.copy() for name, part in factors}}

    def _restore(self, state: State) -> None:
        self.factor = float(state["factor"][0])
        for name, part in zip(NAMES, self.model.factors, strict=True):
            part[...] = state[name]

    def half_step(self, side: int, most: int) -> None:
        """Update the rows of one side, several times if that still pays."""
        first = 0.0
        for _ in range(most):
            before = self.objective
            if not self.step(side):
                return
            decrease = before - self.objective
            if decrease < ENOUGH * first:
                return
            first = first or decrease

    def step(self, side: int) -> bool:
        """Update the rows of one side; return whether the objective decreased."""
        gradient, curvature, slopes = self._majorizer(side)
        matrix, biases = self._matrix(side).copy(), self.model.document_biases.copy()
        while self.factor <= LARGEST:
            steps = self._steps(side, curvature)
            self._move(side, matrix, gradient, steps)
            if side and biases.size:
                self.model.document_biases[:] = biases - steps * slopes
            margins = self._margins()
            objective = self._objective(margins)
            if objective < self.objective:
                self.margins, self.objective = margins, objective
                self.factor = max(SHRINK * self.factor, SMALLEST)
                return True
            self.factor *= GROW
        self.factor = 1.0
        self._matrix(side)[:] = matrix
        self.model.document_biases[:] = biases
        return False

    def _move(self, side: int, matrix: Singles, gradient: Singles, steps: Floats) -> None:
        """Set the rows of one side to the prox of ``matrix - steps * gradient``."""
        moved = self._matrix(side)
        for rows in self._chunks(side):
            own = self._wide(side, matrix[rows])
            sizes = steps[rows, None].astype(own.dtype)  # powers of 2
            moved[rows] = self._prox(side, rows, own - sizes * gradient[rows], steps[rows])

    def _majorizer(self, side: int) -> tuple[Singles, Floats, Floats]:
        """Return gradient and curvature of each row, and the slopes of the biases."""
        count = self.margins.shape[0]
        slopes = self.lists.matrix(self.loss.margin_slopes(self.margins) / count, -1.0)
        bends = self.lists.matrix(2.0 * self.loss.margin_curvatures(self.margins) / count, 1.0)
        if side:
            slopes, bends = sp.csr_array(slopes.T), sp.csr_array(bends.T)
        own, other = self.sides[side], self.sides[1 - side]
        others = other.embeddings(self._whole(1 - side))
        norms = np.square(others, dtype=np.float64).sum(axis=1)
        norms += 1.0 if side and self.model.document_biases.size else 0.0
        gradient = own.gradient(own.times(slopes, others))
        curvature = own.curvature(bends @ norms)
        return (
            gradient[:, : self.model.dimensions],
            curvature,
            self._bias_slopes(slopes) if side else np.zeros(0),
        )

    def _bias_slopes(self, slopes: Any) -> Floats:
        totals = np.asarray(slopes.sum(axis=1)).ravel()
        side = self.sides[1]
        return totals if isinstance(side.rows, int) else side.rows.T @ totals

    def _steps(self, side: int, curvature: Floats) -> Floats:
        """Return the step of each row: powers of 2, so that few calls of `prox` serve all rows."""
        if self.regularizers[side].granularity == "matrix":
            curvature = np.full(curvature.shape, curvature.max(initial=ISOLATED))
        bound = np.maximum(self.factor * curvature, ISOLATED)
        steps: Floats = np.exp2(-np.ceil(np.log2(bound)))
        return steps

    def _margins(self) -> Floats:
        _, margins, _ = self.weights.sample(
            self.inputs, self.lists.pairs, threads=self.problem.threads
        )
        return margins.astype(np.float64).reshape(-1, self.lists.n_negatives)

    def _objective(self, margins: Floats) -> float:
        with np.errstate(over="ignore"):
            loss = float(self.loss.margin_values(margins).mean())
        return loss + sum(self._penalty(side, self._matrix(side)) for side in (0, 1))

    def _penalty(self, side: int, matrix: Singles) -> float:
        regularizer = self.regularizers[side]
        total = 0.0
        for rows in self._chunks(side):
            part = self._wide(side, matrix[rows])
            if self.row_weights is None:
                total += regularizer.penalty(part)
            else:
                weighted = cast(SupportsRowWeights, regularizer)
                total += weighted.weighted_penalty(part, self.row_weights[side][rows])
        return total

    def _chunks(self, side: int) -> Iterator[slice]:
        """Yield the rows by chunks, if a penalty acts on them independently."""
        n_rows = self._whole(side).shape[0]
        size = n_rows if self.regularizers[side].granularity == "matrix" else PROX_ROWS
        for start in range(0, n_rows, size):
            yield slice(start, start + size)

    def _wide(self, side: int, rows: Singles) -> NDArray[Any]:
        """Return rows in double precision, but a whole matrix as it is: without a copy."""
        matrix = self.regularizers[side].granularity == "matrix"
        return rows if matrix else rows.astype(np.float64)

    def _prox(self, side: int, rows: slice, moved: NDArray[Any], steps: Floats) -> NDArray[Any]:
        """Return the prox of each of these rows with its own step."""
        regularizer = self.regularizers[side]
        if regularizer.granularity == "matrix":  # whose rows have one step
            return regularizer.prox(moved, float(steps.max(initial=0.0)))
        if self.row_weights is not None:
            steps = steps * self.row_weights[side][rows]
        return prox_by_row(regularizer, moved, steps)

    def _whole(self, side: int) -> Singles:
        return (self.model.U, self.model.V)[side]

    def _matrix(self, side: int) -> Singles:
        """Return the embeddings in training, without the padding."""
        return self._whole(side)[:, : self.model.dimensions]


@dataclasses.dataclass(frozen=True)
class RowBlockSettings:
    """When to stop, and how often the rows of one side are updated before those of the other."""

    max_epochs: int
    tolerance: float
    n_negatives: int
    inner_steps: int = 1


def row_block_epochs(problem: TrainingProblem, settings: RowBlockSettings) -> Iterator[EpochResult]:
    """Yield one epoch per update of the rows of queries and of those of documents."""
    blocks = RowBlocks(problem, settings.n_negatives)
    done = 0
    if problem.state is not None:
        done = int(problem.state["epoch"][0])
    for epoch in range(done + 1, settings.max_epochs + 1):
        before = blocks.objective
        for side in (0, 1):
            blocks.half_step(side, settings.inner_steps)
        decrease = before - blocks.objective
        converged = decrease <= settings.tolerance * abs(blocks.objective)
        measures = {
            "decrease": decrease,
            "factor": blocks.factor,
            "density": problem.model.density,
        }
        state = partial(_state, blocks, epoch)
        yield EpochResult(epoch, blocks.objective, converged, state, measures)
        if converged:
            return


def _state(blocks: RowBlocks, epoch: int) -> State:
    return {"epoch": np.array([float(epoch)]), **blocks.state()}
