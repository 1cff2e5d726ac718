"""The steps of SGD on the matrix W of a bilinear model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ranking.contracts.solver import State, Task
from ranking.data.matching import Matching
from ranking.errors import CombinationError
from ranking.kernels.bilinear import BilinearWeights
from ranking.kernels.contract import Clock
from ranking.models.bilinear import Bilinear
from ranking.native import PairFunctions
from ranking_plugins.solvers.list_steps import as_pairs, margin_slopes
from ranking_plugins.solvers.penalty import Penalty
from ranking_plugins.solvers.rates import rates
from ranking_plugins.solvers.steps import Floats, Ints, Source, Steps, rank_weights

if TYPE_CHECKING:
    from ranking_plugins.solvers.sgd import SGD

PYTHON_BATCH = 64
"""The batch of a loss that is asked in Python: large enough that the asking does not count."""


class BilinearSteps(Steps):
    """Steps on W, which a kernel keeps by its non-zeros."""

    def __init__(self, solver: SGD, task: Task) -> None:
        super().__init__(solver, task)
        if self.plan.adagrad:
            raise CombinationError(
                f"schedule=adagrad is for factors, and model {task.model.name!r} has a matrix; "
                "take sqrt, inverse or fixed."
            )
        if solver.weights != "alike":
            raise CombinationError(
                f"weights={solver.weights} is for factors; take draw=relevance, which draws what "
                "counts more the more often."
            )
        self.model = cast(Bilinear, task.model)
        self.objects = self.model.objects(self.data)
        self.penalty = Penalty(task.regularizer, self.model)
        self.weights = self.penalty.begin(task.kernel, self.model)
        self.rank_weights = self._rank_weights()

    def _rank_weights(self) -> Floats:
        if self.lists_loss is not None:
            return np.ones(1)
        return rank_weights(self.loss, self.data.n_documents)

    def skip(self, done: int) -> None:
        """Go on as after so many steps that led to the weights of the model."""
        self.done = done
        self.weights.clock[Clock.STEP] = done * (self.trials if self.lists_loss else 1)
        since = done % self.plan.every
        due = rates(self.plan.schedule, self.plan.rate, done - since + 1, since)
        self.weights.clock[Clock.RATES] = due.sum()

    def feed(self, data: Matching) -> None:
        """Go on with other data; features that are new get their rows and columns."""
        if self.penalty.group is not None and not self.model.knows(data):
            raise CombinationError(
                f"regularizer {self.task.regularizer.name!r} weighs groups by their size, so "
                "no feature can be new; use l1 or l2."
            )
        self.follow()
        shape = self.model.weights.shape
        self.model.widen(data)
        if self.model.weights.shape != shape:
            self.weights = self.weights.grown(self.model.weights)
        self.data, self.objects = data, self.model.objects(data)
        self.rank_weights = self._rank_weights()

    def begin_refit(self) -> None:
        """Begin again from the result, without a penalty, where nothing new comes into being."""
        self.follow()
        weights = self.model.weights
        self.refitting = True
        self.penalty = Penalty(None, self.model)
        self.weights = BilinearWeights(self.task.kernel, weights)

    def draw(self, count: int) -> Ints:
        """Return the tuples of the coming steps."""
        trials = self.trials
        if not count:
            return np.zeros((0, 2 + trials), np.int64)
        return self.task.kernel.draw_tuples(self.lists(), self.task.seed, self.at, count, trials)

    def step(self, source: Source, eta: Floats) -> tuple[Floats, Floats]:
        """Take a step for each tuple."""
        tuples = cast(Ints, source)
        common: dict[str, Any] = {
            "every": self.plan.every,
            **self.penalty.strengths(),
            "grow": self.model.grows and not self.refitting,
            "transposed": self.penalty.transposed,
            "threads": self.task.threads,
        }
        batch = self.solver.batch
        if self.lists_loss is not None:
            size = PYTHON_BATCH if batch == "auto" else int(batch)
            return self._step_by_lists(tuples, eta, size, common)
        if self.loss.form is None:
            size = PYTHON_BATCH if batch == "auto" else int(batch)
            return self._step_in_python(tuples, eta, size, common)
        return self.weights.steps(
            self.objects,
            tuples,
            eta,
            form=self.loss.form,
            functions=cast(PairFunctions | None, self.task.loss.native),
            rank_weights=self.rank_weights,
            batch=1 if batch == "auto" else int(batch),
            hogwild=self.solver.mode == "hogwild",
            **common,
        )

    def _step_in_python(
        self, tuples: Ints, eta: Floats, size: int, common: dict[str, Any]
    ) -> tuple[Floats, Floats]:
        """Step with slopes that Python computes, by batches."""
        options = {"transposed": common["transposed"], "threads": common["threads"]}
        margins, weights = np.empty(tuples.shape[0]), np.empty(tuples.shape[0])
        for start in range(0, tuples.shape[0], size):
            part = slice(start, start + size)
            margins[part], weights[part], negatives = self.weights.violations(
                self.objects, tuples[part], rank_weights=self.rank_weights, **options
            )
            chosen = np.column_stack((tuples[part, :2], negatives))
            slopes = weights[part] * self.loss.pair_slope(margins[part])
            self.weights.update(self.objects, chosen, slopes, eta[part], **common)
        return margins, weights

    def _step_by_lists(
        self, tuples: Ints, eta: Floats, size: int, common: dict[str, Any]
    ) -> tuple[Floats, Floats]:
        """Step for lists, by batches: a pair for each document that a match is set against.

        A list of n pairs is one step, so a pair has an n-th of the rate, and n times the slope.
        """
        options = {"transposed": common["transposed"], "threads": common["threads"]}
        n = tuples.shape[1] - 2
        common = {**common, "every": common["every"] * n}
        margins = np.empty((tuples.shape[0], n))
        for start in range(0, tuples.shape[0], size):
            part = slice(start, start + size)
            pairs = as_pairs(tuples[part])
            found, _, _ = self.weights.violations(
                self.objects, pairs, rank_weights=np.ones(1), **options
            )
            margins[part] = found.reshape(-1, n)
            slopes = n * margin_slopes(self.task, margins[part]).ravel()
            self.weights.update(self.objects, pairs, slopes, np.repeat(eta[part] / n, n), **common)
        return margins, np.ones(tuples.shape[0])

    def follow(self) -> None:
        """Let the model have W when it asks for it."""
        self.model.follow(self.weights, self.penalty.transposed)

    def penalty_value(self) -> float:
        """Return the penalty of W."""
        return self.penalty.value(self.task.regularizer, self.model)

    def finite(self) -> bool:
        """Say whether W is finite."""
        return bool(np.isfinite(self.model.weights.data).all())

    def arrays(self) -> State:
        """Return W as the kernel keeps it."""
        return self.weights.state()

    def restore_arrays(self, arrays: State) -> None:
        """Go on with such a W."""
        self.penalty = Penalty(None if self.refitting else self.task.regularizer, self.model)
        rows, columns = self.objects.n_query_features, self.objects.n_document_features
        width = rows if self.penalty.transposed else columns
        self.weights = BilinearWeights.restore(self.task.kernel, width, arrays)
