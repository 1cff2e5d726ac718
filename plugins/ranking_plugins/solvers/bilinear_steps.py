"""The steps of SGD on the matrix W of a bilinear model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ranking.contracts.loss import Loss
from ranking.contracts.regularizer import Regularizer
from ranking.contracts.solver import State, TrainingProblem
from ranking.data.matching_data import MatchingData
from ranking.errors import CombinationError, DataError
from ranking.kernels.bilinear import BilinearInputs, BilinearWeights
from ranking.kernels.contract import Execution, PairwiseForm, ShrinkageState, UpdateRule
from ranking.kernels.pairwise import TrainingLoss
from ranking.models.bilinear import Bilinear
from ranking.native import PairwiseFunctions
from ranking_plugins.solvers.listwise_steps import list_slopes, split_negatives
from ranking_plugins.solvers.penalty import Penalty
from ranking_plugins.solvers.schedules import learning_rates
from ranking_plugins.solvers.steps import (
    Floats,
    Ints,
    Source,
    Steps,
    evaluation_seed,
    rank_weights,
)

if TYPE_CHECKING:
    from ranking_plugins.solvers.sgd import SGD

PYTHON_BATCH = 64
"""Batch size of a loss in Python: large enough that the calls do not dominate."""


class BilinearSteps(Steps):
    """Steps on W, of which a kernel stores the non-zeros."""

    def __init__(self, solver: SGD, problem: TrainingProblem) -> None:
        super().__init__(solver, problem)
        if self.settings.adagrad:
            raise CombinationError(
                f"schedule=adagrad is for embeddings, and {problem.model.name!r} has a matrix; use "
                "inverse-sqrt, inverse or constant."
            )
        if solver.weighting != "uniform":
            raise CombinationError(
                f"weighting={solver.weighting} is for embeddings; use sampling=weighted, which "
                "samples positives in proportion to their relevance."
            )
        self.model = cast(Bilinear, problem.model)
        self._check_trainable()
        self._set_inputs()
        self.penalty = self._penalty(problem.regularizer)
        self.prox_between_calls = self.penalty.prox_between_calls
        self.weights = self._begin()
        self.rank_weights = self._rank_weights()

    def _penalty(self, regularizer: Regularizer | None) -> Penalty:
        return Penalty(regularizer, self.model)

    def _begin(self) -> BilinearWeights:
        """Return the weights of the model in the form in which they are trained."""
        return self.penalty.begin(self.problem.kernel, self.model)

    @property
    def transposed(self) -> bool:
        """Whether W is trained with one row per document feature."""
        return self.penalty.transposed

    @property
    def grows(self) -> bool:
        """Whether steps may change weights that are 0."""
        return self.model.grows and not self.refitting

    def _check_trainable(self) -> None:
        if not self.is_partial:
            return
        if self.problem.regularizer.name != "none":
            raise CombinationError(
                f"regularizer {self.problem.regularizer.name!r} would shrink the entries of W that "
                "trainable=unshared keeps; use regularizer none, or trainable=all."
            )
        if self.listwise is not None:
            raise CombinationError(
                f"trainable=unshared is for pairwise losses, and {self.problem.loss.name!r} is "
                "listwise; use hinge or warp."
            )
        if self.solver.mode == "hogwild":
            raise CombinationError("trainable=unshared is for mode=deterministic.")

    @property
    def is_partial(self) -> bool:
        """Whether only some entries of W are trained."""
        return self.model.trainable != "all"

    def _set_inputs(self) -> None:
        self.inputs = self._inputs()
        # The features by which W changes.
        partial = self.is_partial
        self.changed = self.model.trainable_inputs(self.data) if partial else self.inputs
        if partial and not (self.changed.queries.data.size and self.changed.documents.data.size):
            raise DataError(
                "trainable=unshared trains features that only queries have against those that only "
                "documents have, and there are none; use features with "
                "query_ngrams=2,document_ids=true, or trainable=all."
            )

    def _inputs(self) -> BilinearInputs:
        return self.model.inputs(self.data)

    def _rank_weights(self) -> Floats:
        if self.listwise is not None:
            return np.ones(1)
        return rank_weights(self.loss, self.data.n_documents)

    def resume_after(self, done: int) -> None:
        """Continue as if the weights of the model were the result of `done` steps."""
        self.steps_taken = done
        self.weights.shrinkage[ShrinkageState.STEP] = done * (
            self.n_negatives if self.listwise else 1
        )
        since = done % self.settings.prox_interval
        pending = learning_rates(
            self.settings.schedule, self.settings.learning_rate, done - since + 1, since
        )
        self.weights.shrinkage[ShrinkageState.LEARNING_RATES] = pending.sum()

    def set_data(self, data: MatchingData) -> None:
        """Continue with other data; add rows and columns for new features."""
        self._refuse_groups(data)
        self.update_model()
        self.model.synchronize()
        shape = self.model.weights.shape
        self.model.add_features(data, self.problem.kernel)
        if self.model.weights.shape != shape:
            self.weights = self.weights.expand(self.model.weights)
            if self.penalty.structure is not None:
                self.penalty = self._penalty(self.problem.regularizer)
        self.data = data
        self._set_inputs()
        self.rank_weights = self._rank_weights()

    def _refuse_groups(self, data: MatchingData) -> None:
        if self.penalty.group is not None and not self.model.knows(data):
            raise CombinationError(
                f"regularizer {self.problem.regularizer.name!r} weights groups by their size, so "
                "features cannot be added; use l1 or l2."
            )

    def begin_refit(self) -> None:
        """Restart from the result, without a penalty; zeros stay zero."""
        self.update_model()
        self.model.synchronize()
        weights = self.model.weights
        self.refitting = True
        self.penalty, self.prox_between_calls = self._penalty(None), False
        self.weights = BilinearWeights(self.problem.kernel, weights)

    def sample(self, count: int) -> Ints:
        """Return the triplets of the next steps."""
        trials, (positives, _) = self.n_negatives, self.problem.loss.positives
        if not count:
            return np.zeros((0, 1 + positives + trials), np.int64)
        return self.problem.kernel.sampling.sample_triplets(
            self.positive_lists(), self.problem.seed, self.position, count, trials, positives
        )

    def evaluation_sample(self, count: int) -> Ints:
        """Return the triplets at which the loss is reported."""
        trials, (positives, _) = self.n_negatives, self.problem.loss.positives
        if not count:
            return np.zeros((0, 1 + positives + trials), np.int64)
        return self.problem.kernel.sampling.sample_triplets(
            self.positive_lists(), evaluation_seed(self.problem), 0, count, trials, positives
        )

    def margins(self, source: Source) -> tuple[Floats, Floats]:
        """Return margins and violation weights at the current weights."""
        triplets, options = cast(Ints, source), self._options()
        if self.listwise is not None:
            pairs = split_negatives(triplets)
            margins = self.weights.violations(self.inputs, pairs, **options).margins
            losses = list_slopes(self.problem, margins.reshape(-1, self.n_negatives)).losses
            return losses, np.ones(losses.size)
        single = one_positive(self.problem.loss, self.weights, self.inputs, triplets, options)
        margins, weights, negatives = self.weights.violations(
            self.inputs, single, rank_weights=self.rank_weights, **options
        )
        return margins, self._reweighted(single, negatives, weights)

    def with_one_positive(self, source: Source) -> Ints:
        """Return triplets of query, positive and all negatives; of several positives, one."""
        triplets, options = cast(Ints, source), self._options()
        return one_positive(self.problem.loss, self.weights, self.inputs, triplets, options)

    def all_margins(self, triplets: Ints) -> Floats:
        """Return the margins to the negatives of each triplet at the current weights."""
        margins = self.weights.margins(self.inputs, split_negatives(triplets), **self._options())
        return margins.reshape(triplets.shape[0], -1)

    def _take_steps(self, source: Source, eta: Floats) -> tuple[Floats, Floats]:
        """Take a step for each triplet; apply a penalty that no kernel has at the boundaries."""
        triplets = cast(Ints, source)
        margins, weights = np.empty(eta.size), np.empty(eta.size)
        for start, stop, rate in self.segments(eta.size):
            part = slice(start, stop)
            margins[part], weights[part] = self._train(triplets[part], eta[part])
            if rate > 0.0:
                self._shrink(rate)
        return margins, weights

    def _shrink(self, rate: float) -> None:
        """Apply a penalty that no kernel has, for the sum of the learning rates of some steps."""
        shrunk = self.penalty.prox(self.weights.weights(), rate)
        self.weights = BilinearWeights(self.problem.kernel, shrunk)

    def _train(self, triplets: Ints, eta: Floats) -> tuple[Floats, Floats]:
        rule = UpdateRule(
            prox_interval=self.settings.prox_interval,
            **self.penalty.strengths(),
            grow=self.grows,
        )
        batch = self.solver.batch_size
        if self.listwise is not None:
            size = PYTHON_BATCH if batch == "auto" else int(batch)
            return self._train_listwise(triplets, eta, size, rule)
        if self.in_python:
            size = PYTHON_BATCH if batch == "auto" else int(batch)
            return self._train_in_python(triplets, eta, size, rule)
        batch_size = 1 if batch == "auto" else int(batch)
        hogwild = self.solver.mode == "hogwild"
        return self.weights.train(
            self.inputs,
            triplets,
            eta,
            loss=TrainingLoss(
                cast(PairwiseForm, self.loss.form),
                cast(PairwiseFunctions | None, self.problem.loss.native),
                self.rank_weights,
            ),
            rule=rule,
            transposed=self.transposed,
            execution=Execution(batch_size, hogwild, self.problem.threads),
        )

    def _options(self) -> dict[str, Any]:
        return {"transposed": self.transposed, "threads": self.problem.threads}

    @property
    def in_python(self) -> bool:
        """Whether slopes are computed here by batches, since no kernel has the whole step."""
        return self.is_partial or self.loss.form is None or self.problem.loss.positives[0] > 1

    def _train_in_python(
        self, triplets: Ints, eta: Floats, size: int, rule: UpdateRule
    ) -> tuple[Floats, Floats]:
        """Take steps with slopes that are computed in Python, by batches."""
        options = self._options()
        margins, weights = np.empty(triplets.shape[0]), np.empty(triplets.shape[0])
        for start in range(0, triplets.shape[0], size):
            part = slice(start, start + size)
            single = one_positive(
                self.problem.loss, self.weights, self.inputs, triplets[part], options
            )
            margins[part], weights[part], negatives = self.weights.violations(
                self.inputs, single, rank_weights=self.rank_weights, **options
            )
            weights[part] = self._reweighted(single, negatives, weights[part])
            selected = np.column_stack((single[:, :2], negatives))
            slopes = weights[part] * self.loss.pairwise_slope(margins[part])
            self.weights.update(self.changed, selected, slopes, eta[part], rule=rule, **options)
        return margins, weights

    def _reweighted(self, triplets: Ints, negatives: Ints, weights: Floats) -> Floats:
        """Return the weights of violations; those of the kernel if all documents are ranked."""
        return weights

    def _train_listwise(
        self, triplets: Ints, eta: Floats, size: int, rule: UpdateRule
    ) -> tuple[Floats, Floats]:
        """Take steps for lists, by batches: one triplet per negative.

        A list of n triplets is one step, so a triplet has 1/n of the learning rate and n times the
        slope.
        """
        options = self._options()
        n = triplets.shape[1] - 2
        rule = rule._replace(prox_interval=rule.prox_interval * n)
        losses = np.empty(triplets.shape[0])
        for start in range(0, triplets.shape[0], size):
            part = slice(start, start + size)
            pairs = split_negatives(triplets[part])
            margins = self.weights.violations(self.inputs, pairs, **options).margins
            losses[part], slopes = list_slopes(self.problem, margins.reshape(-1, n))
            etas = np.repeat(eta[part] / n, n)
            by_margin = -n * slopes[:, 1:].ravel()
            self.weights.update(self.inputs, pairs, by_margin, etas, rule=rule, **options)
        return losses, np.ones(losses.size)

    def update_model(self) -> None:
        """Let the model copy W when it is needed."""
        self.model.follow(self.weights, self.transposed)

    def apply_pending_penalty(self) -> None:
        """Apply a penalty that no kernel has to W of the model, also before the first step."""
        rate = self.pending_rate() if self.prox_between_calls else 0.0
        if rate or (self.prox_between_calls and not self.position):
            self.model.weights = self.penalty.prox(self.model.weights, rate)

    def penalty_value(self) -> float:
        """Return the penalty of W of the model."""
        return self.penalty.value(self.problem.regularizer, self.model)

    def finite(self) -> bool:
        """Return whether W is finite."""
        return bool(np.isfinite(self.model.weights.data).all())

    def arrays(self) -> State:
        """Return W as the kernel stores it."""
        return self.weights.state()

    def restore_arrays(self, arrays: State) -> None:
        """Restore what `arrays` returned."""
        self.penalty = self._penalty(None if self.refitting else self.problem.regularizer)
        self.prox_between_calls = self.penalty.prox_between_calls
        rows, columns = self.inputs.n_query_features, self.inputs.n_document_features
        width = rows if self.transposed else columns
        self.weights = BilinearWeights.restore(self.problem.kernel, width, arrays)


def one_positive(
    loss: Loss,
    weights: BilinearWeights,
    inputs: BilinearInputs,
    triplets: Ints,
    options: dict[str, Any],
) -> Ints:
    """Return triplets with one positive each: of several, the one at a rank by score."""
    several, rank = loss.positives
    if several == 1:
        return triplets
    query, positives, negatives = np.split(triplets, (1, 1 + several), axis=1)
    # Margins to the same negative have the order of the scores of the positives.
    pairs_of_all = np.column_stack(
        (
            np.repeat(triplets[:, 0], several),
            positives.ravel(),
            np.repeat(negatives[:, 0], several),
        )
    )
    margins = weights.margins(inputs, pairs_of_all, **options).reshape(-1, several)
    selected = np.argsort(-margins, axis=1, kind="stable")[:, rank]
    return np.column_stack(
        (query, np.take_along_axis(positives, selected[:, None], axis=1), negatives)
    )
