"""One logistic regression a document, each trained without regard to the others."""

from __future__ import annotations

import dataclasses
import numbers
import warnings
from collections.abc import Iterator
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import expit

from ranking.contracts.loss import Loss
from ranking.contracts.model import Model
from ranking.contracts.regularizer import Regularizer
from ranking.contracts.solver import YES, Solver, Task, Turn, Verdict
from ranking.data.matching import Matching
from ranking.errors import DataError, DataWarning, PartError
from ranking.models.bilinear import Bilinear
from ranking_plugins.losses.pairs import Logistic
from ranking_plugins.regularizers.l2 import L2

Floats = NDArray[np.float64]


@dataclasses.dataclass
class OneVsRest(Solver):
    """Tells the queries that each document matches from all others, each document by itself.

    Minimises, for every document, the mean over the queries of ``log(1 + exp(-y q'w))`` plus
    ``strength/2 |w|^2``, where y is 1 for a match and -1 for everything else, by L-BFGS. There is
    no intercept: give queries a constant feature for one.

    Parameters
    ----------
    max_iterations : int
        Of L-BFGS, for each document.
    tolerance : float
        Ends when no entry of the gradient is larger.
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
    ) -> Verdict:
        """Take the bilinear model, the logistic loss and L2."""
        if model.name != Bilinear.name:
            return Verdict(
                False,
                "each document is a regression by itself, with a weight a query feature: a full "
                "matrix",
            )
        if loss.name != Logistic.name:
            return Verdict(
                False,
                "each document is a logistic regression by itself, and what compares documents "
                "would tie them together",
            )
        if not issubclass(regularizer, L2):
            return Verdict(
                False,
                "L-BFGS needs a penalty with a gradient everywhere, and separable queries need one "
                "for there to be a minimum: l2 is both",
            )
        return YES

    def turns(self, task: Task) -> Iterator[Turn]:
        """Train all documents' regressions, in one turn."""
        data = cast(Matching, task.data)
        matches = _matches(data)
        features = data.query_rows.astype(np.float64)
        problem = _Problem(features, features.T.tocsr(), cast(L2, task.regularizer).strength)
        weights = np.empty((data.n_query_features, data.n_documents))
        objective = 0.0
        for document in range(data.n_documents):
            signs = np.full(data.n_queries, -1.0)
            signs[matches.indices[slice(*matches.indptr[document : document + 2])]] = 1.0
            found = minimize(
                problem.value_and_gradient,
                np.zeros(data.n_query_features),
                args=(signs,),
                jac=True,
                method="L-BFGS-B",
                options={"maxiter": self.max_iterations, "gtol": self.tolerance, "ftol": 0.0},
            )
            weights[:, document] = found.x
            objective += float(found.fun)
        model = cast(Bilinear, task.model)
        model.weights = sparse.csr_array(weights.astype(model.dtype))
        yield Turn(1, objective, True, dict)


def _matches(data: Matching) -> Any:
    """Return which queries each document matches, by column, or refuse the data."""
    if data.documents is not None:
        raise DataError(
            "one-vs-rest has weights for each document, and these documents have "
            f"{data.documents.shape[1]} features that would share them; give Matching(queries, "
            "None, relevance), or use solver sgd."
        )
    if data.relevance is None:
        raise DataError(
            "one-vs-rest takes a relevance matrix, and these data are labelled by class; give "
            "relevance, or use solver sgd."
        )
    matches = sparse.csc_array(data.relevance > 0)
    matches.eliminate_zeros()
    without = np.diff(matches.indptr) == 0
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
class _Problem:
    """The objective of one document; `transposed` is that of the features, laid out by rows."""

    features: Any
    transposed: Any
    strength: float

    def value_and_gradient(self, weights: Floats, signs: Floats) -> tuple[float, Floats]:
        margins = signs * (self.features @ weights)
        value = np.logaddexp(0.0, -margins).mean() + 0.5 * self.strength * (weights @ weights)
        slopes = -signs * expit(-margins) / signs.size
        return float(value), self.transposed @ slopes + self.strength * weights
