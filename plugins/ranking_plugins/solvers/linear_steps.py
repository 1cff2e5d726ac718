"""The steps of SGD on the weights of a linear model, from judged rows."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, cast

import numpy as np
import scipy.sparse as sp

from ranking.contracts.solver import TrainingProblem
from ranking.data.judged_lists import JudgedLists
from ranking.errors import CombinationError
from ranking.kernels.bilinear import BilinearInputs
from ranking.models.bilinear import Bilinear
from ranking.models.linear import Linear
from ranking_plugins.preference_pairs import LowerRows
from ranking_plugins.solvers.bilinear_steps import BilinearSteps
from ranking_plugins.solvers.steps import Floats, Ints

if TYPE_CHECKING:
    from ranking_plugins.solvers.sgd import SGD

LOOKED_AT = 1000
"""Tuples whose lengths tell the rate."""


class LinearSteps(BilinearSteps):
    """Steps on w: w . x is q' W x with a W of one row, and a query whose one feature is 1.

    A tuple is a row and a worse one of its query, or some worse ones. The rank of a row, which
    weighs a violation, is one among those that are worse than it.
    """

    def __init__(self, solver: SGD, problem: TrainingProblem) -> None:
        for name, word, asked in (
            ("sampling", "weighted", solver.sampling),
            ("negatives", "any", solver.negatives),
        ):
            if asked == word:
                raise CombinationError(
                    f"{name}={word} is for queries and documents that match, and judged rows have "
                    "grades; leave it out."
                )
        self.rows = cast(JudgedLists, problem.data)
        self.lower = LowerRows.of(self.rows)
        self.linear = cast(Linear, problem.model)
        model = Bilinear(initial="zero", dtype="float64")
        model.query_feature_ids = np.zeros(1, np.int64)
        model.document_feature_ids = self.linear.feature_ids
        model.weights = sp.csr_array(self.linear.weights[None, :])
        super().__init__(solver, dataclasses.replace(problem, model=model))
        if solver.learning_rate == "auto":
            rate = self._rate()
            self.plan = dataclasses.replace(
                self.plan,
                learning_rate=rate,
                refit_learning_rate=solver.refit_learning_rate or rate,
            )

    def _rate(self) -> float:
        """Return 1 over the mean square of what steps add: features may have any scale."""
        tuples, _ = self.lower.tuples(self.problem.kernel, self.problem.seed, 0, LOOKED_AT)
        rows = self.rows.features
        apart = rows[tuples[:, 1]] - rows[tuples[:, 2]]
        values = np.asarray(apart.data if sp.issparse(apart) else apart, np.float64)
        square = float((values * values).sum()) / LOOKED_AT
        return 1.0 / square if square > 0.0 else 1.0

    def _objects(self) -> BilinearInputs:
        return BilinearInputs(sp.csr_array(np.ones((1, 1))), sp.csr_array(self.rows.features))

    def _rank_weights(self) -> Floats:
        """Return L(rank) for every rank; a kernel gets a 1, so that its weights say yes or no."""
        self.below = np.empty(self.rows.n_rows, np.int64)
        self.below[self.lower.order] = self.lower.below
        self.by_rank = np.ones(1)
        if self.lists_loss is None:
            ranks = np.arange(int(self.lower.below.max()) + 1)
            self.by_rank = np.asarray(self.loss.rank_weight(ranks), np.float64)
        return np.ones(1)

    @property
    def in_python(self) -> bool:
        """Whether steps are taken by batches: also where violations have weights."""
        return super().in_python or not (self.by_rank == 1.0).all()

    def draw(self, count: int) -> Ints:
        """Return the tuples of the coming steps."""
        return self.lower.tuples(
            self.problem.kernel,
            self.problem.seed,
            self.at,
            count,
            self.trials,
            by_query=self.solver.sampling == "queries",
        )[0]

    def _reweighted(self, tuples: Ints, negatives: Ints, weights: Floats) -> Floats:
        """Return L(below // N) for the violation that was found at the N-th trial."""
        found = np.argmax(tuples[:, 2:] == negatives[:, None], axis=1) + 1
        return np.where(weights > 0.0, self.by_rank[self.below[tuples[:, 1]] // found], 0.0)

    def follow(self) -> None:
        """Let the model have the weights."""
        super().follow()
        self.linear.weights = self.model.weights.toarray()[0]

    def penalty_value(self) -> float:
        """Return the penalty of w, after what is due."""
        value = super().penalty_value()
        self.linear.weights = self.model.weights.toarray()[0]
        return value
