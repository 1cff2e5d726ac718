"""One linear classifier a document, each trained without regard to the others."""

from __future__ import annotations

import dataclasses
import numbers
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
from ranking.contracts.regularizer import Regularizer
from ranking.contracts.solver import YES, Compatibility, EpochResult, Solver, State, TrainingProblem
from ranking.data.matching_data import MatchingData
from ranking.errors import DataError, DataWarning, PartError
from ranking.models.bilinear import Bilinear
from ranking_plugins.losses.pairwise import Hinge, Logistic
from ranking_plugins.regularizers.l2 import L2

Floats = NDArray[np.float64]

BLOCK = 1024
"""Queries that are scored at a time."""


@dataclasses.dataclass
class OneVsRest(Solver):
    """Tells the queries that each document matches from all others, each document by itself.

    Minimises, for every document, the mean over the queries of ``loss(y q'w)`` plus
    ``strength/2 |w|^2``, where y is 1 for a match and -1 for everything else. The logistic loss is
    minimised by L-BFGS. The hinge, of large-margin classifiers, has no gradient where it matters:
    it is minimised query by query, each step to the exact maximum over its dual variables (Hsieh et
    al., 2008), an epoch a pass. There is no intercept: give queries a constant feature for one.

    Parameters
    ----------
    max_iterations : int
        Of L-BFGS, for each document; or passes over the queries.
    tolerance : float
        Ends when no entry of the gradient is larger; of the hinge, of the dual's, where it may
        move.
    """

    name: ClassVar[str] = "one-vs-rest"

    max_iterations: int = 200
    tolerance: float = 1e-5

    def __post_init__(self) -> None:
        """Check the parameters."""
        most: object = self.max_iterations
        if not isinstance(most, numbers.Integral) or most < 1:
            raise PartError(
                f"one-vs-rest has max_iterations={most!r}; it must be a whole number from 1."
            )
        if not 0.0 < self.tolerance < 1.0:
            raise PartError(
                f"one-vs-rest has tolerance={self.tolerance!r}; it must lie between 0 and 1."
            )

    @classmethod
    def accepts(
        cls, model: type[Model], loss: type[Loss], regularizer: type[Regularizer]
    ) -> Compatibility:
        """Take the bilinear model, the hinge or the logistic loss, and L2."""
        if model.name != Bilinear.name:
            return Compatibility(
                False,
                "each document is a classifier by itself, with a weight a query feature: a full "
                "matrix",
            )
        if loss.name not in (Hinge.name, Logistic.name):
            return Compatibility(
                False,
                "each document is a classifier by itself, by the logistic loss or the hinge of its "
                "own scores, and what compares documents would tie them together",
            )
        if regularizer is not L2:  # what is derived from it may penalise otherwise
            return Compatibility(
                False,
                "L-BFGS needs a penalty with a gradient everywhere, the hinge's dual one that is a "
                "square, and separable queries need one for there to be a minimum: l2 is all of "
                "it",
            )
        return YES

    def run_epochs(self, problem: TrainingProblem) -> Iterator[EpochResult]:
        """Train all documents' classifiers: regressions in one turn, margins a pass a turn."""
        data = cast(MatchingData, problem.data)
        matches = _matches(data)
        features = data.query_rows.astype(np.float64)
        strength = cast(L2, problem.regularizer).strength
        if problem.loss.name == Hinge.name:
            yield from self._by_margins(problem, _Margins(features, matches, strength))
            return
        regression = _Regression(features, features.T.tocsr(), strength)
        weights = np.empty((data.n_query_features, data.n_documents))
        objective = 0.0
        columns = matches.tocsc()
        for document in range(data.n_documents):
            signs = np.full(data.n_queries, -1.0)
            signs[columns.indices[slice(*columns.indptr[document : document + 2])]] = 1.0
            found = minimize(
                regression.value_and_gradient,
                np.zeros(data.n_query_features),
                args=(signs,),
                jac=True,
                method="L-BFGS-B",
                options={"maxiter": self.max_iterations, "gtol": self.tolerance, "ftol": 0.0},
            )
            weights[:, document] = found.x
            objective += float(found.fun)
        _give(problem, weights)
        yield EpochResult(1, objective, True, dict)

    def _by_margins(self, problem: TrainingProblem, margins: _Margins) -> Iterator[EpochResult]:
        first = 0
        if problem.state is not None:
            margins.restore(problem.state)
            first = int(problem.state["epoch"][0])
        for epoch in range(first + 1, self.max_iterations + 1):
            n_queries = margins.duals.shape[0]
            drawn = problem.kernel.random.uniform(problem.seed, (epoch - 1) * n_queries, n_queries)
            slack = margins.go_through(np.argsort(drawn, kind="stable"))
            _give(problem, margins.weights)
            converged = slack <= self.tolerance
            yield EpochResult(epoch, margins.objective(), converged, partial(margins.state, epoch))
            if converged:
                return


def _give(problem: TrainingProblem, weights: Floats) -> None:
    model = cast(Bilinear, problem.model)
    model.weights = sparse.csr_array(weights.astype(model.dtype))


def _matches(data: MatchingData) -> Any:
    """Return which documents each query matches, by row, or refuse the data."""
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
    matches = sparse.csr_array(data.relevance > 0)
    matches.eliminate_zeros()
    without = np.bincount(matches.indices, minlength=data.n_documents) == 0
    if without.any():
        warnings.warn(
            f"{int(without.sum())} of {data.n_documents} documents match no query of the training "
            f"data (the first is {data.document_ids[np.argmax(without)]}); they learn to score "
            "low.",
            DataWarning,
            stacklevel=2,
        )
    return matches


@dataclasses.dataclass(frozen=True)
class _Regression:
    """The objective of one document; `transposed` is that of the features, laid out by rows."""

    features: Any
    transposed: Any
    strength: float

    def value_and_gradient(self, weights: Floats, signs: Floats) -> tuple[float, Floats]:
        margins = signs * (self.features @ weights)
        value = np.logaddexp(0.0, -margins).mean() + 0.5 * self.strength * (weights @ weights)
        slopes = -signs * expit(-margins) / signs.size
        return float(value), self.transposed @ slopes + self.strength * weights


class _Margins:
    """The hinge of all documents at once, which share the queries and nothing else.

    With C = 1 / (strength queries), ``w = sum_i y_i a_i q_i`` is the minimum if every a_i in [0, C]
    maximises the dual given the others: where its gradient 1 - y_i q_i'w is 0, or at the end of the
    interval to which the gradient points.
    """

    def __init__(self, features: Any, matches: Any, strength: float) -> None:
        self.features, self.matches, self.strength = features, matches, strength
        self.most = 1.0 / (strength * features.shape[0])
        self.squares: Floats = np.asarray(features.multiply(features).sum(axis=1)).ravel()
        self.duals: Floats = np.zeros(matches.shape)
        self.weights: Floats = np.zeros((features.shape[1], matches.shape[1]))

    def go_through(self, order: NDArray[np.intp]) -> float:
        """Bring one query's variables after the other to their maximum.

        Returns the largest entry of the gradient, of those that were free to move.
        """
        slack = 0.0
        signs = np.empty(self.duals.shape[1])
        for query in order[self.squares[order] > 0.0].tolist():
            entries = slice(*self.features.indptr[query : query + 2])
            at, values = self.features.indices[entries], self.features.data[entries]
            signs.fill(-1.0)
            signs[self.matches.indices[slice(*self.matches.indptr[query : query + 2])]] = 1.0
            rows = self.weights[at]
            gradient = 1.0 - signs * (values @ rows)
            before = self.duals[query]
            after = np.clip(before + gradient / self.squares[query], 0.0, self.most)
            moved = after != before
            slack = max(slack, float(np.abs(gradient[moved]).max(initial=0.0)))
            self.weights[at] = rows + np.outer(values, signs * (after - before))
            self.duals[query] = after
        return slack

    def objective(self) -> float:
        """Return the sum over the documents of the mean hinge and the penalty."""
        total = 0.0
        for start in range(0, self.features.shape[0], BLOCK):
            scores = self.features[start : start + BLOCK] @ self.weights
            rows, columns = self.matches[start : start + BLOCK].nonzero()
            losses = np.maximum(0.0, 1.0 + scores)
            losses[rows, columns] = np.maximum(0.0, 1.0 - scores[rows, columns])
            total += float(losses.sum())
        penalty = 0.5 * self.strength * float((self.weights**2).sum())
        return total / float(self.features.shape[0]) + penalty

    def state(self, epoch: int) -> State:
        """Return what another pass needs."""
        return {
            "duals": self.duals.copy(),
            "weights": self.weights.copy(),
            "epoch": np.array([epoch]),
        }

    def restore(self, state: State) -> None:
        """Take back what `state` returned."""
        self.duals, self.weights = state["duals"].copy(), state["weights"].copy()
