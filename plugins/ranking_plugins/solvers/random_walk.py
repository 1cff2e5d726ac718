"""Random walks on the click graph (Craswell and Szummer, 2007)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, ClassVar, cast

import numpy as np
from scipy import sparse

from ranking.contracts.loss import Loss
from ranking.contracts.model import Model
from ranking.contracts.parameters import integer, number
from ranking.contracts.regularizer import Regularizer
from ranking.contracts.solver import YES, Compatibility, EpochResult, Solver, TrainingProblem
from ranking.data.matching_data import MatchingData
from ranking.errors import DataError
from ranking.models.bilinear import Bilinear
from ranking_plugins.losses.alignment import Alignment
from ranking_plugins.regularizers.none import NoPenalty


@dataclasses.dataclass
class RandomWalk(Solver):
    """Set W to the probability that a walk from the document is at the query after `steps` steps.

    The backward walk on the graph of queries and documents. A step goes from a query to one of its
    documents, or from a document to one of its queries, in proportion to the clicks, or stays where
    it is. The objective is that of the loss, the negative mean score of what was clicked; the walk
    does not minimise it. The seed has no effect.

    Parameters
    ----------
    steps : int
        The length of the walk. The graph that it reaches is stored, so memory grows with it.
    stay : float
        The probability of staying (self-transition).
    """

    name: ClassVar[str] = "random-walk"

    steps: int = integer(5, minimum=1, maximum=10_000)
    stay: float = number(0.9, minimum=0.0, below=1.0)

    @classmethod
    def accepts(
        cls, model: type[Model], loss: type[Loss], regularizer: type[Regularizer]
    ) -> Compatibility:
        """Accept the bilinear model, alignment and no penalty."""
        if model is not Bilinear:
            return Compatibility(
                False, "a walk gives one number per query and document: a matrix W that may grow"
            )
        if not issubclass(loss, Alignment):
            return Compatibility(
                False, "the clicks alone decide where a walk goes, and no margin or error does"
            )
        if not issubclass(regularizer, NoPenalty):
            return Compatibility(False, "a penalty would not change the probabilities of a walk")
        return YES

    @property
    def by_id(self) -> bool:
        """Whether queries and documents are known by id only, so that features have no effect."""
        return True

    def run_epochs(self, problem: TrainingProblem) -> Iterator[EpochResult]:
        """Walk, in one epoch."""
        data, model = cast(MatchingData, problem.data), cast(Bilinear, problem.model)
        model.refuse_partial(self.name)
        clicks = _clicks(data)
        walked = walk(clicks, self.steps, self.stay)
        model.weights = walked.astype(model.dtype)
        responses = cast(Alignment, problem.loss).pair_weights(clicks.data)
        clicks.data = responses / _per_query(clicks, cast(Alignment, problem.loss))
        objective = -float((clicks * walked).sum())
        yield EpochResult(1, objective, True, dict)


def walk(clicks: Any, steps: int, stay: float) -> Any:
    """Return how probably a walk from each document (column) is at each query (row).

    Parameters
    ----------
    clicks : csr_array
        One row per query, one column per document.
    """
    # Rows of `onward` say where a query goes, rows of `back` where a document goes. Column q of
    # `at_queries` is the probability of being at query q, by the place where the walk began.
    onward, back = _stochastic(clicks), _stochastic(clicks.T.tocsr())
    n_queries, n_documents = clicks.shape
    at_queries = sparse.eye_array(n_queries, format="csr", dtype=np.float64)
    at_documents = sparse.csr_array((n_documents, n_queries), dtype=np.float64)
    for _ in range(steps):
        at_queries, at_documents = (
            stay * at_queries + (1.0 - stay) * (onward @ at_documents),
            stay * at_documents + (1.0 - stay) * (back @ at_queries),
        )
    walked = sparse.csr_array(at_documents.T)
    walked.sum_duplicates()
    walked.eliminate_zeros()
    return walked


def _clicks(data: MatchingData) -> Any:
    for side, features in (("queries", data.queries), ("documents", data.documents)):
        if features is not None:
            raise DataError(
                f"random-walk uses only the ids of {side}, and these have {features.shape[1]} "
                "features; pass MatchingData(None, None, clicks), or read a click log with "
                "--reader clicks:texts=false."
            )
    if data.relevance is None:
        raise DataError("random-walk needs clicks, and these data are labelled by class.")
    clicks = sparse.csr_array(data.relevance, dtype=np.float64, copy=True)
    if clicks.nnz and clicks.data.min() < 0.0:
        raise DataError(f"random-walk needs clicks from 0, and one is {clicks.data.min():g}.")
    clicks.eliminate_zeros()
    if not clicks.nnz:
        raise DataError("random-walk has no edge to walk along: all clicks are 0.")
    return clicks


def _per_query(clicks: Any, loss: Alignment) -> Any:
    """Return what each response is divided by, so that they are a mean over queries or pairs."""
    if not loss.per_query:
        return float(clicks.nnz)
    sizes = np.diff(clicks.indptr)
    return np.repeat(sizes * float(clicks.shape[0]), sizes)


def _stochastic(matrix: Any) -> Any:
    """Return rows that sum to 1; one of zeros stays."""
    rows = sparse.csr_array(matrix, dtype=np.float64, copy=True)
    sums = np.asarray(rows.sum(axis=1)).ravel()
    rows.data /= np.repeat(np.where(sums > 0.0, sums, 1.0), np.diff(rows.indptr))
    return rows
