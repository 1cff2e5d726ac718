"""One-vs-rest: one linear classifier per document."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterator
from functools import partial
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import expit

from ranking.contracts.loss import Loss
from ranking.contracts.model import Model
from ranking.contracts.parameters import integer, number
from ranking.contracts.regularizer import Regularizer
from ranking.contracts.solver import YES, Compatibility, EpochResult, Solver, State, TrainingProblem
from ranking.data.matching_data import MatchingData
from ranking.errors import DataError, DataWarning
from ranking.models.bilinear import Bilinear
from ranking_plugins.losses.pairwise import Hinge, Logistic
from ranking_plugins.regularizers.l2 import L2

Floats = NDArray[np.float64]

BLOCK = 1024
"""Queries that are scored at a time."""


@dataclasses.dataclass
class OneVsRest(Solver):
    """Train one binary classifier per document: its queries against all others.

    Minimises, for every document, the mean over the queries of ``loss(y q'w)`` plus
    ``strength/2 |w|^2``, where y is 1 for a positive and -1 for everything else. The logistic loss
    is minimised by L-BFGS, the hinge loss by dual coordinate ascent (Hsieh et al., 2008), query by
    query, one pass per epoch; one pass serves all documents, because they share the queries. There
    is no intercept: give queries a constant feature for one.

    Parameters
    ----------
    max_iterations : int
        Iterations of L-BFGS for each document (logistic), or passes over the queries (hinge).
    tolerance : float
        Stop when no entry of the gradient is larger; with the hinge, of the projected gradient of
        the dual.
    """

    name: ClassVar[str] = "one-vs-rest"

    max_iterations: int = integer(200, minimum=1)
    tolerance: float = number(1e-5, above=0.0, below=1.0)

    @classmethod
    def accepts(
        cls, model: type[Model], loss: type[Loss], regularizer: type[Regularizer]
    ) -> Compatibility:
        """Accept the bilinear model, the hinge or the logistic loss, and L2."""
        if model.name != Bilinear.name:
            return Compatibility(
                False,
                "each document is a classifier with one weight per query feature, which is a full "
                "matrix",
            )
        if loss.name not in (Hinge.name, Logistic.name):
            return Compatibility(
                False,
                "each document is a classifier with the logistic loss or the hinge of its own "
                "scores; a loss that compares documents would couple them",
            )
        if regularizer is not L2:  # a subclass may have another penalty
            return Compatibility(
                False,
                "L-BFGS needs a differentiable penalty, the dual of the hinge a squared norm, and "
                "separable queries need a penalty for a minimum to exist; l2 satisfies all three",
            )
        return YES

    def run_epochs(self, problem: TrainingProblem) -> Iterator[EpochResult]:
        """Train all classifiers: logistic in one epoch, hinge in one pass per epoch."""
        data = cast(MatchingData, problem.data)
        positives = _positives(data)
        features = data.query_rows.astype(np.float64)
        strength = float(cast(L2, problem.regularizer).strength)
        if problem.loss.name == Hinge.name:
            yield from self._hinge_epochs(problem, _DualHinge(features, positives, strength))
            return
        regression = _LogisticRegression(features, features.T.tocsr(), strength)
        weights = np.empty((data.n_query_features, data.n_documents))
        objective = 0.0
        columns = positives.tocsc()
        for document in range(data.n_documents):
            signs = np.full(data.n_queries, -1.0)
            signs[columns.indices[slice(*columns.indptr[document : document + 2])]] = 1.0
            solution = minimize(
                regression.value_and_gradient,
                np.zeros(data.n_query_features),
                args=(signs,),
                jac=True,
                method="L-BFGS-B",
                options={"maxiter": self.max_iterations, "gtol": self.tolerance, "ftol": 0.0},
            )
            weights[:, document] = solution.x
            objective += float(solution.fun)
        _set_weights(problem, weights)
        yield EpochResult(1, objective, True, dict)

    def _hinge_epochs(self, problem: TrainingProblem, dual: _DualHinge) -> Iterator[EpochResult]:
        first = 0
        if problem.state is not None:
            dual.restore(problem.state)
            first = int(problem.state["epoch"][0])
        for epoch in range(first + 1, self.max_iterations + 1):
            n_queries = dual.variables.shape[0]
            keys = problem.kernel.random.uniform(problem.seed, (epoch - 1) * n_queries, n_queries)
            largest = dual.ascend(np.argsort(keys, kind="stable"))
            _set_weights(problem, dual.weights)
            converged = largest <= self.tolerance
            yield EpochResult(epoch, dual.objective(), converged, partial(dual.state, epoch))
            if converged:
                return


def _set_weights(problem: TrainingProblem, weights: Floats) -> None:
    model = cast(Bilinear, problem.model)
    model.refuse_partial("one-vs-rest")
    model.weights = sparse.csr_array(weights.astype(model.dtype))


def _positives(data: MatchingData) -> Any:
    """Return the positive documents of each query as a CSR matrix, or refuse the data."""
    if data.documents is not None:
        raise DataError(
            "one-vs-rest has weights for each document, and these documents have "
            f"{data.documents.shape[1]} features that would share them; give MatchingData(queries, "
            "None, relevance), or use solver sgd."
        )
    if data.relevance is None:
        raise DataError(
            "one-vs-rest takes a relevance matrix, and these data are labelled by class; give "
            "relevance, or use solver sgd."
        )
    positives = sparse.csr_array(data.relevance > 0)
    positives.eliminate_zeros()
    without = np.bincount(positives.indices, minlength=data.n_documents) == 0
    if without.any():
        warnings.warn(
            f"{int(without.sum())} of {data.n_documents} documents match no query of the training "
            f"data (the first is {data.document_ids[np.argmax(without)]}); they learn to score "
            "low.",
            DataWarning,
            stacklevel=2,
        )
    return positives


@dataclasses.dataclass(frozen=True)
class _LogisticRegression:
    """The objective of one document; `transposed` holds the features by columns."""

    features: Any
    transposed: Any
    strength: float

    def value_and_gradient(self, weights: Floats, signs: Floats) -> tuple[float, Floats]:
        margins = signs * (self.features @ weights)
        value = np.logaddexp(0.0, -margins).mean() + 0.5 * self.strength * (weights @ weights)
        slopes = -signs * expit(-margins) / signs.size
        return float(value), self.transposed @ slopes + self.strength * weights


class _DualHinge:
    """The dual of the hinge loss for all documents at once, which share only the queries.

    With C = 1 / (strength queries), ``w = sum_i y_i a_i q_i`` is the minimum if every a_i in [0, C]
    maximises the dual given the others: where its gradient 1 - y_i q_i'w is 0, or at the end of
    the interval in the direction of the gradient.
    """

    def __init__(self, features: Any, positives: Any, strength: float) -> None:
        self.features, self.positives, self.strength = features, positives, strength
        self.bound = 1.0 / (strength * features.shape[0])
        self.squares: Floats = np.asarray(features.multiply(features).sum(axis=1)).ravel()
        self.variables: Floats = np.zeros(positives.shape)
        self.weights: Floats = np.zeros((features.shape[1], positives.shape[1]))

    def ascend(self, order: NDArray[np.intp]) -> float:
        """Maximise over the variables of one query after the other.

        Returns the largest entry of the projected gradient.
        """
        largest = 0.0
        signs = np.empty(self.variables.shape[1])
        for query in order[self.squares[order] > 0.0].tolist():
            entries = slice(*self.features.indptr[query : query + 2])
            at, values = self.features.indices[entries], self.features.data[entries]
            signs.fill(-1.0)
            signs[self.positives.indices[slice(*self.positives.indptr[query : query + 2])]] = 1.0
            rows = self.weights[at]
            gradient = 1.0 - signs * (values @ rows)
            before = self.variables[query]
            after = np.clip(before + gradient / self.squares[query], 0.0, self.bound)
            moved = after != before
            largest = max(largest, float(np.abs(gradient[moved]).max(initial=0.0)))
            self.weights[at] = rows + np.outer(values, signs * (after - before))
            self.variables[query] = after
        return largest

    def objective(self) -> float:
        """Return the sum over the documents of the mean hinge and the penalty."""
        total = 0.0
        for start in range(0, self.features.shape[0], BLOCK):
            scores = self.features[start : start + BLOCK] @ self.weights
            rows, columns = self.positives[start : start + BLOCK].nonzero()
            losses = np.maximum(0.0, 1.0 + scores)
            losses[rows, columns] = np.maximum(0.0, 1.0 - scores[rows, columns])
            total += float(losses.sum())
        penalty = 0.5 * self.strength * float((self.weights**2).sum())
        return total / float(self.features.shape[0]) + penalty

    def state(self, epoch: int) -> State:
        """Return what the next pass needs."""
        return {
            "duals": self.variables.copy(),
            "weights": self.weights.copy(),
            "epoch": np.array([epoch]),
        }

    def restore(self, state: State) -> None:
        """Restore what `state` returned."""
        self.variables, self.weights = state["duals"].copy(), state["weights"].copy()
