"""The steps of SGD on the matrix W of a bilinear model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ranking.contracts.loss import Loss
from ranking.contracts.solver import State, TrainingProblem
from ranking.data.matching_data import MatchingData
from ranking.errors import CombinationError
from ranking.kernels.bilinear import BilinearInputs, BilinearWeights
from ranking.kernels.contract import Execution, PairwiseForm, ShrinkageState, UpdateRule
from ranking.kernels.pairwise import TrainingLoss
from ranking.models.bilinear import Bilinear
from ranking.native import PairwiseFunctions
from ranking_plugins.solvers.list_steps import as_pairs, margin_slopes
from ranking_plugins.solvers.penalty import Penalty
from ranking_plugins.solvers.schedules import rates
from ranking_plugins.solvers.steps import Floats, Ints, Source, Steps, rank_weights

if TYPE_CHECKING:
    from ranking_plugins.solvers.sgd import SGD

PYTHON_BATCH = 64
"""The batch of a loss that is asked in Python: large enough that the asking does not count."""


class BilinearSteps(Steps):
    """Steps on W, which a kernel keeps by its non-zeros."""

    def __init__(self, solver: SGD, problem: TrainingProblem) -> None:
        super().__init__(solver, problem)
        if self.plan.adagrad:
            raise CombinationError(
                f"schedule=adagrad is for factors, and model {problem.model.name!r} has a matrix; "
                "take sqrt, inverse or fixed."
            )
        if solver.weighting != "uniform":
            raise CombinationError(
                f"weighting={solver.weighting} is for factors; take sampling=weighted, which draws what "
                "counts more the more often."
            )
        self.model = cast(Bilinear, problem.model)
        self.objects = self._objects()
        self.penalty = Penalty(problem.regularizer, self.model)
        self.apart = self.penalty.apart
        self.weights = self.penalty.begin(problem.kernel, self.model)
        self.rank_weights = self._rank_weights()

    def _objects(self) -> BilinearInputs:
        return self.model.objects(self.data)

    def _rank_weights(self) -> Floats:
        if self.lists_loss is not None:
            return np.ones(1)
        return rank_weights(self.loss, self.data.n_documents)

    def skip(self, done: int) -> None:
        """Go on as after so many steps that led to the weights of the model."""
        self.done = done
        self.weights.shrinkage[ShrinkageState.STEP] = done * (self.trials if self.lists_loss else 1)
        since = done % self.plan.prox_interval
        due = rates(self.plan.schedule, self.plan.learning_rate, done - since + 1, since)
        self.weights.shrinkage[ShrinkageState.LEARNING_RATES] = due.sum()

    def feed(self, data: MatchingData) -> None:
        """Go on with other data; features that are new get their rows and columns."""
        if self.penalty.group is not None and not self.model.knows(data):
            raise CombinationError(
                f"regularizer {self.problem.regularizer.name!r} weighs groups by their size, so "
                "no feature can be new; use l1 or l2."
            )
        self.follow()
        self.model.synchronize()
        shape = self.model.weights.shape
        self.model.add_features(data, self.problem.kernel)
        if self.model.weights.shape != shape:
            self.weights = self.weights.expand(self.model.weights)
        self.data = data
        self.objects = self._objects()
        self.rank_weights = self._rank_weights()

    def begin_refit(self) -> None:
        """Begin again from the result, without a penalty, where nothing new comes into being."""
        self.follow()
        self.model.synchronize()
        weights = self.model.weights
        self.refitting = True
        self.penalty, self.apart = Penalty(None, self.model), False
        self.weights = BilinearWeights(self.problem.kernel, weights)

    def draw(self, count: int) -> Ints:
        """Return the tuples of the coming steps."""
        trials, (positives, _) = self.trials, self.problem.loss.positives
        if not count:
            return np.zeros((0, 1 + positives + trials), np.int64)
        return self.problem.kernel.sampling.sample_triplets(
            self.lists(), self.problem.seed, self.at, count, trials, positives
        )

    def step(self, source: Source, eta: Floats) -> tuple[Floats, Floats]:
        """Take a step for each tuple; at each boundary, pay a penalty that no loop has."""
        tuples = cast(Ints, source)
        shape = (eta.size, self.trials) if self.lists_loss else (eta.size,)
        margins, weights = np.empty(shape), np.empty(eta.size)
        for start, stop, due in self.parts(eta.size):
            part = slice(start, stop)
            margins[part], weights[part] = self._steps(tuples[part], eta[part])
            if due > 0.0:
                shrunk = self.penalty.shrunk(self.weights.weights(), due)
                self.weights = BilinearWeights(self.problem.kernel, shrunk)
        return margins, weights

    def _steps(self, tuples: Ints, eta: Floats) -> tuple[Floats, Floats]:
        rule = UpdateRule(
            prox_interval=self.plan.prox_interval,
            **self.penalty.strengths(),
            grow=self.model.grows and not self.refitting,
        )
        batch = self.solver.batch_size
        if self.lists_loss is not None:
            size = PYTHON_BATCH if batch == "auto" else int(batch)
            return self._step_by_lists(tuples, eta, size, rule)
        if self.in_python:
            size = PYTHON_BATCH if batch == "auto" else int(batch)
            return self._step_in_python(tuples, eta, size, rule)
        batch_size = 1 if batch == "auto" else int(batch)
        hogwild = self.solver.mode == "hogwild"
        return self.weights.train(
            self.objects,
            tuples,
            eta,
            loss=TrainingLoss(
                cast(PairwiseForm, self.loss.form),
                cast(PairwiseFunctions | None, self.problem.loss.native),
                self.rank_weights,
            ),
            rule=rule,
            transposed=self.penalty.transposed,
            execution=Execution(batch_size, hogwild, self.problem.threads),
        )

    def _options(self) -> dict[str, Any]:
        return {"transposed": self.penalty.transposed, "threads": self.problem.threads}

    @property
    def in_python(self) -> bool:
        """Whether no loop has the whole step, so that slopes are made here, by batches."""
        return self.loss.form is None or self.problem.loss.positives[0] > 1

    def _step_in_python(
        self, tuples: Ints, eta: Floats, size: int, rule: UpdateRule
    ) -> tuple[Floats, Floats]:
        """Step with slopes that Python computes, by batches."""
        options = self._options()
        margins, weights = np.empty(tuples.shape[0]), np.empty(tuples.shape[0])
        for start in range(0, tuples.shape[0], size):
            part = slice(start, start + size)
            single = one_positive(
                self.problem.loss, self.weights, self.objects, tuples[part], options
            )
            margins[part], weights[part], negatives = self.weights.violations(
                self.objects, single, rank_weights=self.rank_weights, **options
            )
            weights[part] = self._reweighted(single, negatives, weights[part])
            chosen = np.column_stack((single[:, :2], negatives))
            slopes = weights[part] * self.loss.pairwise_slope(margins[part])
            self.weights.update(self.objects, chosen, slopes, eta[part], rule=rule, **options)
        return margins, weights

    def _reweighted(self, tuples: Ints, negatives: Ints, weights: Floats) -> Floats:
        """Return the weights of violations; a kernel's are right if all documents are in play."""
        return weights

    def _step_by_lists(
        self, tuples: Ints, eta: Floats, size: int, rule: UpdateRule
    ) -> tuple[Floats, Floats]:
        """Step for lists, by batches: a pair for each document that a match is set against.

        A list of n pairs is one step, so a pair has an n-th of the rate, and n times the slope.
        """
        options = self._options()
        n = tuples.shape[1] - 2
        rule = rule._replace(prox_interval=rule.prox_interval * n)
        margins = np.empty((tuples.shape[0], n))
        for start in range(0, tuples.shape[0], size):
            part = slice(start, start + size)
            pairs = as_pairs(tuples[part])
            found, _, _ = self.weights.violations(
                self.objects, pairs, rank_weights=np.ones(1), **options
            )
            margins[part] = found.reshape(-1, n)
            slopes = n * margin_slopes(self.problem, margins[part]).ravel()
            etas = np.repeat(eta[part] / n, n)
            self.weights.update(self.objects, pairs, slopes, etas, rule=rule, **options)
        return margins, np.ones(tuples.shape[0])

    def follow(self) -> None:
        """Let the model have W when it asks for it."""
        self.model.follow(self.weights, self.penalty.transposed)

    def penalty_value(self) -> float:
        """Return the penalty of W, after what is due of an operator that no loop has."""
        due = self.owed() if self.apart else 0.0
        if due or (self.apart and not self.at):  # no constraint was looked at before the first step
            self.model.weights = self.penalty.shrunk(self.model.weights, due)
        return self.penalty.value(self.problem.regularizer, self.model)

    def finite(self) -> bool:
        """Say whether W is finite."""
        return bool(np.isfinite(self.model.weights.data).all())

    def arrays(self) -> State:
        """Return W as the kernel keeps it."""
        return self.weights.state()

    def restore_arrays(self, arrays: State) -> None:
        """Go on with such a W."""
        self.penalty = Penalty(None if self.refitting else self.problem.regularizer, self.model)
        self.apart = self.penalty.apart
        rows, columns = self.objects.n_query_features, self.objects.n_document_features
        width = rows if self.penalty.transposed else columns
        self.weights = BilinearWeights.restore(self.problem.kernel, width, arrays)


def one_positive(
    loss: Loss,
    weights: BilinearWeights,
    objects: BilinearInputs,
    tuples: Ints,
    options: dict[str, Any],
) -> Ints:
    """Return tuples of one positive: of several, the one in its place by score."""
    several, place = loss.positives
    if several == 1:
        return tuples
    query, positives, negatives = np.split(tuples, (1, 1 + several), axis=1)
    # Margins against the same negative order the positives as their scores do.
    against = np.column_stack(
        (
            np.repeat(tuples[:, 0], several),
            positives.ravel(),
            np.repeat(negatives[:, 0], several),
        )
    )
    margins = weights.margins(objects, against, **options).reshape(-1, several)
    chosen = np.argsort(-margins, axis=1, kind="stable")[:, place]
    return np.column_stack(
        (query, np.take_along_axis(positives, chosen[:, None], axis=1), negatives)
    )
