"""Expectation maximization for the bilingual topic model (Gao, Toutanova and Yih, 2011)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, ClassVar, cast

import numpy as np
import scipy.sparse as sp

from ranking.contracts.loss import Loss
from ranking.contracts.model import Model
from ranking.contracts.parameters import choice, integer, number
from ranking.contracts.regularizer import Regularizer
from ranking.contracts.solver import YES, Compatibility, EpochResult, Solver, TrainingProblem
from ranking.data.matching_data import MatchingData
from ranking.errors import DataError
from ranking.kernels.contract import Floats
from ranking.models.topics import Topics, counts, ratios
from ranking_plugins.losses.likelihood import Likelihood
from ranking_plugins.regularizers.none import NoPenalty


@dataclasses.dataclass
class EM(Solver):
    """Alternate the expected topics of words and the words of topics, until little changes.

    A clicked pair of a query and a document is one text with two vocabularies and one mixture of
    topics. The objective is the negative log-posterior per word: that of the likelihood and of
    Dirichlet priors on topics (`topics:topic_prior`) and words. No epoch increases it.

    Parameters
    ----------
    max_epochs : int
        The maximal number of iterations.
    tolerance : float
        Training has converged when the objective falls by less than this share of it.
    word_prior : float
        Added to the expected count of each word of a topic (beta - 1).
    weighting : {"uniform", "clicks"}
        Whether each pair counts once, or as often as it was clicked.
    """

    name: ClassVar[str] = "em"

    max_epochs: int = integer(50, minimum=1)
    tolerance: float = number(1e-4, minimum=0.0)
    word_prior: float = number(0.01, minimum=0.0)
    weighting: str = choice("uniform", "uniform", "clicks")

    @property
    def expects_convergence(self) -> bool:
        """Whether training without convergence deserves a warning: few iterations are meant."""
        return False

    @classmethod
    def accepts(
        cls, model: type[Model], loss: type[Loss], regularizer: type[Regularizer]
    ) -> Compatibility:
        """Accept the topic model, its likelihood and no penalty."""
        if model is not Topics:
            return Compatibility(False, "its steps are expected counts of topics")
        if not issubclass(loss, Likelihood):
            return Compatibility(
                False, "expected counts maximize a likelihood, and neither a margin nor an error"
            )
        if not issubclass(regularizer, NoPenalty):
            return Compatibility(
                False,
                "the priors of its closed form are Dirichlet, which word_prior and topic_prior set",
            )
        return YES

    def run_epochs(self, problem: TrainingProblem) -> Iterator[EpochResult]:
        """Yield one result per iteration."""
        model = cast(Topics, problem.model)
        queries, documents = self._pairs(cast(MatchingData, problem.data))
        pairs = queries.shape[0]
        theta: Floats = np.full((pairs, model.dimensions), 1.0 / model.dimensions)
        first, previous = 0, np.inf
        if problem.state is not None:
            theta = problem.state["theta"].copy()
            first, previous = int(problem.state["epoch"][0]), float(problem.state["objective"][0])
        for epoch in range(first + 1, self.max_epochs + 1):
            theta = self._iterate(model, theta, queries, documents)
            objective = self._objective(model, theta, queries, documents)
            converged = previous - objective < self.tolerance * abs(objective)
            previous = objective
            state = {
                "theta": theta,
                "epoch": np.array([epoch]),
                "objective": np.array([objective]),
            }
            yield EpochResult(epoch, objective, converged, state.copy)
            if converged:
                return

    def _pairs(self, data: MatchingData) -> tuple[Any, Any]:
        """Return the words of the query and of the document of each clicked pair."""
        if data.relevance is None:
            raise DataError("em needs clicks, and these data are labelled by class.")
        clicked = sp.csr_array(data.relevance, dtype=np.float64).tocoo()
        positive = clicked.data > 0.0
        rows, columns = (one[positive] for one in clicked.coords)
        if not rows.size:
            raise DataError("em has nothing to learn from: no pair has clicks.")
        weights = clicked.data[positive] if self.weighting == "clicks" else np.ones(rows.size)
        queries = counts(data.query_rows, "queries")[rows] * weights[:, None]
        documents = counts(data.document_rows)[columns] * weights[:, None]
        return sp.csr_array(queries), sp.csr_array(documents)

    def _iterate(self, model: Topics, theta: Floats, queries: Any, documents: Any) -> Floats:
        """Set the words of topics, and return the topics of pairs, from expected counts."""
        expected = np.full_like(theta, model.topic_prior)
        tables = []
        for words, table in ((queries, model.query_words), (documents, model.document_words)):
            divided = ratios(words, theta, table)
            expected += theta * (divided @ table)
            by_word = table * (divided.T @ theta) + self.word_prior
            sums = by_word.sum(axis=0)
            tables.append(by_word / np.where(sums > 0.0, sums, 1.0))
        model.query_words, model.document_words = tables
        sums = expected.sum(axis=1, keepdims=True)
        mixture: Floats = np.where(sums > 0.0, expected / np.where(sums > 0.0, sums, 1.0), theta)
        return mixture

    def _objective(self, model: Topics, theta: Floats, queries: Any, documents: Any) -> float:
        total, n_words = 0.0, 0.0
        for words, table in ((queries, model.query_words), (documents, model.document_words)):
            # count / probability, so that the probability need not be kept.
            divided = ratios(words, theta, table).data
            total += float((words.data * np.log(words.data / divided)).sum())
            n_words += float(words.data.sum())
            if self.word_prior:
                total += self.word_prior * float(np.log(table).sum())
        if model.topic_prior:
            total += model.topic_prior * float(np.log(theta).sum())
        return -total / max(n_words, 1.0)
