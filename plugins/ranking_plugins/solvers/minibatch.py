"""Mini-batches of Adagrad on embeddings: single pairs (SVDFeature) or preferences (SSI)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import partial
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np

from ranking.contracts.loss import Loss, PairwiseLoss
from ranking.contracts.model import Model
from ranking.contracts.parameters import choice, integer, number
from ranking.contracts.regularizer import Regularizer
from ranking.contracts.solver import YES, Compatibility, EpochResult, Solver, State, TrainingProblem
from ranking.data.matching_data import MatchingData
from ranking.models.factored import Factored, require_dot_product
from ranking.models.factored_identity import FactoredIdentity
from ranking_plugins.losses.pairwise import AUC, BPR, Hinge, Logistic, SquaredHinge
from ranking_plugins.losses.pointwise import Pointwise
from ranking_plugins.regularizers.l2 import L2
from ranking_plugins.regularizers.none import NoPenalty
from ranking_plugins.solvers.pair_samples import Floats, Ints, PairSampler, PreferenceSampler

MARGINS = (Hinge, AUC, SquaredHinge, Logistic, BPR)
EVALUATED = 20_000
"""Pairs, at most, on which the loss is reported."""


@dataclasses.dataclass
class MiniBatch(Solver):
    """Mini-batches of Adagrad on the embeddings of features.

    With a pointwise loss, an epoch is one pass over the observed pairs, each with `n_negatives`
    unobserved pairs of response 0 that are sampled uniformly. A constant and a bias for each query
    feature are trained too and then left out: they change no ranking. With a pairwise loss and the
    model `factored-identity`, a step is a query, a document and one that is less preferred.

    Parameters
    ----------
    epochs : int
        Passes over the observed pairs.
    learning_rate : float
        Of Adagrad, whose sums are by number.
    batch_size : int
        Pairs or preferences per step; the gradient is their mean.
    n_negatives : int
        Unobserved pairs per observed one, for a pointwise loss; 0 fits the observed ones only.
    preferences : {"auto", "shown", "unobserved"}
        The less preferred document of a pairwise loss: one with fewer clicks that was shown for
        the query (a stored entry of the relevance, such as 0), or one without a stored entry.
        "auto" is shown, and unobserved for queries where all shown documents have equal clicks.
    """

    name: ClassVar[str] = "minibatch"

    epochs: int = integer(20, minimum=0)
    learning_rate: float = number(0.05, above=0.0)
    batch_size: int = integer(256, minimum=1)
    n_negatives: int = integer(1, minimum=0)
    preferences: str = choice("auto", "auto", "shown", "unobserved")

    @classmethod
    def accepts(
        cls, model: type[Model], loss: type[Loss], regularizer: type[Regularizer]
    ) -> Compatibility:
        """Accept pointwise losses of the factored model, and margins of factored-identity."""
        if model not in (Factored, FactoredIdentity):
            return Compatibility(False, "the steps are those of dense embeddings of features")
        if model is Factored and not issubclass(loss, Pointwise):
            return Compatibility(
                False,
                "its steps on embeddings alone are for losses of single scores; margins have "
                "solver sgd, which is compiled",
                first_choice=False,
            )
        if model is FactoredIdentity and loss not in MARGINS:
            return Compatibility(
                False,
                "the identity is fixed, so scores have a level and a scale of their own, and a "
                "smooth or hinged margin of two documents leaves them there",
            )
        if regularizer not in (NoPenalty, L2):
            return Compatibility(
                False, "a penalty has to be a sum of squares, whose operator acts number by number"
            )
        return YES

    def run_epochs(self, problem: TrainingProblem) -> Iterator[EpochResult]:
        """Yield one result per epoch."""
        training = _Training(self, problem)
        first = 0
        if problem.state is not None:
            first = int(problem.state["epoch"][0])
            training.restore(problem.state)
        if not self.epochs:
            yield EpochResult(0, training.objective(), True, dict)
        for epoch in range(first + 1, self.epochs + 1):
            training.epoch(epoch)
            yield EpochResult(epoch, training.objective(), False, partial(training.state, epoch))


class _Pairs(NamedTuple):
    """Pairs of a query and a document, and the slope of the loss by their score."""

    queries: Ints
    documents: Ints
    slopes: Floats


class _Training:
    """Embeddings, biases, and their sums of squared gradients."""

    def __init__(self, solver: MiniBatch, problem: TrainingProblem) -> None:
        self.solver, self.problem = solver, problem
        self.data, self.model = cast(MatchingData, problem.data), cast(Factored, problem.model)
        require_dot_product(self.model, "solver minibatch")
        self.queries = self.data.query_rows.astype(np.float32)
        self.documents = self.data.document_rows.astype(np.float32)
        # Constant, biases of query features: not part of the model, as they change no ranking.
        self.level = np.zeros(1 + self.queries.shape[1], np.float32)
        self.pointwise = isinstance(problem.loss, Pointwise)
        self.sampler: Any
        if self.pointwise:
            self.sampler = PairSampler(self.data, solver.n_negatives, problem)
        else:
            self.sampler = PreferenceSampler(self.data, solver.preferences, problem)
            model = cast(FactoredIdentity, self.model)
            self.raw = (self.data.query_rows.astype(np.float64), model.raw_documents(self.data))
        names = ("U", "V", "biases", "level") if self.pointwise else ("U", "V", "biases")
        self.squares = {name: np.full_like(self.arrays[name], 1e-8) for name in names}

    @property
    def arrays(self) -> dict[str, Any]:
        """What is trained, by name."""
        model = self.model
        named = {"U": model.U, "V": model.V, "biases": model.document_biases}
        return {**named, "level": self.level}

    def epoch(self, number: int) -> None:
        """Take the steps of one epoch, then apply the penalty for all of them."""
        # A snapshot of the epoch before may hold these arrays.
        self.model.U, self.model.V = self.model.U.copy(), self.model.V.copy()
        self.model.document_biases = self.model.document_biases.copy()
        batches = 0
        for batch in self.sampler.batches(number, self.solver.batch_size):
            self._step(self._pairs(batch), len(batch[0]))
            batches += 1
        self._shrink(batches * self.solver.learning_rate)

    def _pairs(self, batch: Any) -> _Pairs:
        """Return the pairs of a batch with their slopes; a preference is two pairs."""
        if self.pointwise:
            queries, documents, responses = batch
            scores = self._scores(queries, documents)
            loss = cast(Pointwise, self.problem.loss)
            return _Pairs(queries, documents, loss.slope(scores, responses))
        queries, preferred, other = batch
        margins = self._scores(queries, preferred) - self._scores(queries, other)
        slopes = cast(PairwiseLoss, self.problem.loss).pairwise_slope(margins)
        return _Pairs(
            np.concatenate((queries, queries)),
            np.concatenate((preferred, other)),
            np.concatenate((slopes, -slopes)),
        )

    def _scores(self, queries: Ints, documents: Ints) -> Floats:
        model = self.model
        left, right = self.queries[queries] @ model.U, self.documents[documents] @ model.V
        scores = (left * right).sum(axis=1, dtype=np.float64)
        if model.document_biases.size:
            scores += self.documents[documents] @ model.document_biases
        if self.pointwise:
            return cast(Floats, scores + self.level[0] + self.queries[queries] @ self.level[1:])
        raw = self.raw[0][queries].multiply(self.raw[1][documents]).sum(axis=1)
        return cast(Floats, scores + np.asarray(raw).ravel())

    def _step(self, pairs: _Pairs, size: int) -> None:
        """Take a step of Adagrad along the mean gradient of `size` pairs or preferences."""
        slopes = (pairs.slopes / size).astype(np.float32)
        left, right = self.queries[pairs.queries], self.documents[pairs.documents]
        embedded = (left @ self.model.U, right @ self.model.V)
        self._adagrad("U", left, slopes[:, None] * embedded[1])
        self._adagrad("V", right, slopes[:, None] * embedded[0])
        if self.model.document_biases.size:
            self._adagrad("biases", right, slopes)
        if self.pointwise:
            gradient = np.concatenate(([slopes.sum()], left.T @ slopes)).astype(np.float32)
            self._move("level", np.flatnonzero(gradient), gradient[gradient != 0.0])

    def _adagrad(self, name: str, rows: Any, gradients: Any) -> None:
        """Move the features of some rows along the gradients by the rows' embeddings."""
        features = np.unique(rows.indices)
        columns = rows.T.tocsr()[features]
        self._move(name, features, (columns @ gradients).astype(np.float32))

    def _move(self, name: str, features: Ints, gradient: Any) -> None:
        squares = self.squares[name]
        squares[features] += gradient * gradient
        rate = np.float32(self.solver.learning_rate)
        self.arrays[name][features] -= rate * gradient / np.sqrt(squares[features])

    def _shrink(self, step: float) -> None:
        """Apply L2 number by number: the operator in the metric of Adagrad."""
        strength = self._strength()
        for name in ("U", "V", "biases") if strength else ():
            array, squares = self.arrays[name], self.squares[name]
            array /= np.float32(1.0) + np.float32(step * strength) / np.sqrt(squares)

    def _strength(self) -> float:
        regularizer = self.problem.regularizer
        return 2.0 * regularizer.penalty(np.ones((1, 1))) if isinstance(regularizer, L2) else 0.0

    def objective(self) -> float:
        """Return the mean loss of a fixed sample, plus the penalty."""
        batch = next(self.sampler.batches(0, EVALUATED))
        if self.pointwise:
            queries, documents, responses = batch
            loss = cast(Pointwise, self.problem.loss)
            losses = loss.value(self._scores(queries, documents), responses)
        else:
            queries, preferred, other = batch
            margins = self._scores(queries, preferred) - self._scores(queries, other)
            losses = cast(PairwiseLoss, self.problem.loss).pairwise_value(margins)
        penalties = [
            self.problem.regularizer.penalty(self.arrays[name].astype(np.float64).reshape(-1, 1))
            for name in ("U", "V", "biases")
            if self.arrays[name].size
        ]
        return float(losses.mean()) + sum(penalties)

    def state(self, epoch: int) -> State:
        """Return what the next epoch needs besides the model."""
        squares = {f"squares.{name}": array.copy() for name, array in self.squares.items()}
        return {"epoch": np.array([epoch]), "level": self.level.copy(), **squares}

    def restore(self, state: State) -> None:
        """Restore what `state` returned."""
        self.level[:] = state["level"]
        for name in self.squares:
            self.squares[name][:] = state[f"squares.{name}"]
