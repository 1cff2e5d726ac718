"""The steps of SGD on the weights of a linear model, for judged lists."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, cast

import numpy as np
import scipy.sparse as sp

from ranking.contracts.loss import ListwiseLoss, PairwiseLoss
from ranking.contracts.regularizer import Regularizer
from ranking.contracts.solver import TrainingProblem
from ranking.data.judged_lists import JudgedLists
from ranking.errors import CombinationError
from ranking.kernels.bilinear import BilinearInputs
from ranking.kernels.contract import UpdateRule
from ranking.models.bilinear import Bilinear
from ranking.models.linear import Linear
from ranking_plugins.losses.whole_lists import WholeLists, whole_lists
from ranking_plugins.preference_pairs import LowerRows
from ranking_plugins.solvers.bilinear_steps import BilinearSteps
from ranking_plugins.solvers.penalty import Penalty
from ranking_plugins.solvers.steps import Floats, Ints, Source, evaluation_seed

if TYPE_CHECKING:
    from ranking_plugins.solvers.sgd import SGD

RATE_SAMPLE = 1000
"""Triplets from which the learning rate is estimated."""


class LinearSteps(BilinearSteps):
    """Steps on w: w . x is q' W x with a W of one row and a query whose only feature is 1.

    A triplet has a row and one or several rows of the same query with lower grades. The rank of a
    row, on which the weight of a violation depends, is its rank among the rows below it.

    A step of a listwise loss takes one whole list, so that the objective is that of other solvers.
    Its gradient, the sum of slope times row, is that of pairs of each row and the first row of the
    list, because the slopes of a list add up to 0.
    """

    def __init__(self, solver: SGD, problem: TrainingProblem) -> None:
        for name, word in (("sampling", "weighted"), ("negatives", "any")):
            if getattr(solver, name) == word:
                raise CombinationError(
                    f"{name}={word} is for queries and documents with positives, and judged lists "
                    "have grades; leave it out."
                )
        self.rows = cast(JudgedLists, problem.data)
        self.lower = LowerRows.of(self.rows)
        self.linear = cast(Linear, problem.model)
        self.lists: WholeLists | None = None
        if "pairwise" not in problem.loss.interfaces:
            loss = cast(ListwiseLoss, problem.loss)
            self.lists = whole_lists(loss, self.rows, problem.kernel)
        model = Bilinear(initial="zero", dtype="float64")
        model.query_feature_ids = np.zeros(1, np.int64)
        model.document_feature_ids = self.linear.feature_ids
        model.weights = sp.csr_array(self.linear.weights[None, :])
        super().__init__(solver, dataclasses.replace(problem, model=model))
        if solver.learning_rate == "auto":
            rate = estimate_rate(self.rows, self.lower, problem)
            self.settings = dataclasses.replace(
                self.settings,
                learning_rate=rate,
                refit_learning_rate=solver.refit_learning_rate or rate,
            )

    def _penalty(self, regularizer: Regularizer | None) -> Penalty:
        return Penalty(regularizer, self.model, one_row=True)

    def _inputs(self) -> BilinearInputs:
        return BilinearInputs(sp.csr_array(np.ones((1, 1))), sp.csr_array(self.rows.features))

    def _rank_weights(self) -> Floats:
        """Compute L(rank) for every rank; the kernel gets 1, so that its weights are 0 or 1."""
        self.below = np.empty(self.rows.n_rows, np.int64)
        self.below[self.lower.order] = self.lower.below
        self.by_rank = np.ones(1)
        if self.listwise is None:
            ranks = np.arange(int(self.lower.below.max()) + 1)
            self.by_rank = np.asarray(self.loss.rank_weight(ranks), np.float64)
        return np.ones(1)

    @property
    def in_python(self) -> bool:
        """Whether slopes are computed here, also if the weights of violations differ."""
        return super().in_python or not (self.by_rank == 1.0).all()

    def sample(self, count: int) -> Ints:
        """Return the triplets, or lists, of the next steps."""
        if self.lists is not None:
            return self._sample_lists(count)
        return self._sampled(self.problem.seed, self.position, count)

    def evaluation_sample(self, count: int) -> Ints:
        """Return the triplets at which the loss is reported; all lists."""
        if self.lists is not None:
            return np.arange(self.lists.shares.size)[:, None]
        return self._sampled(evaluation_seed(self.problem), 0, count)

    def _sampled(self, seed: int, first: int, count: int) -> Ints:
        return self.lower.sample(
            self.problem.kernel,
            seed,
            first,
            count,
            self.n_negatives,
            by_query=self.solver.sampling == "queries",
        )[0]

    def _sample_lists(self, count: int) -> Ints:
        """Sample lists in proportion to their shares, or uniformly with sampling=queries."""
        shares = cast(WholeLists, self.lists).shares
        ends = np.cumsum(shares > 0.0 if self._by_query else shares)
        numbers = self.problem.kernel.random.uniform(self.problem.seed, self.position, count)
        selected = np.searchsorted(ends, numbers * ends[-1], side="right")
        lists: Ints = np.minimum(selected, np.flatnonzero(shares)[-1])[:, None]
        return lists

    @property
    def _by_query(self) -> bool:
        return self.solver.sampling == "queries"

    def _list_pairs(self, selected: Ints) -> tuple[Ints, Ints]:
        """Return pairs of each row of the lists and the first of its list, and their bounds."""
        lists = cast(WholeLists, self.lists)
        starts, sizes = lists.list_ptr[selected], np.diff(lists.list_ptr)[selected]
        bounds = np.concatenate(([0], np.cumsum(sizes)))
        at = np.arange(bounds[-1]) - np.repeat(bounds[:-1] - starts, sizes)
        first = np.repeat(lists.rows[starts], sizes)
        return np.column_stack((np.zeros_like(first), lists.rows[at], first)), bounds

    def mean_loss(self, source: Source) -> float:
        """Return the mean loss of triplets, or that of all lists."""
        if self.lists is None:
            return super().mean_loss(source)
        pairs, _ = self._list_pairs(np.arange(self.lists.shares.size))
        scores = self.weights.violations(self.inputs, pairs, **self._options()).margins
        with np.errstate(over="ignore", invalid="ignore"):
            return self.lists.value(scores, self.problem.threads)

    def _train_listwise(
        self, triplets: Ints, eta: Floats, size: int, rule: UpdateRule
    ) -> tuple[Floats, Floats]:
        """Take one step per list, by batches; a list of n pairs is a step, as of sampled lists."""
        lists, options = cast(WholeLists, self.lists), self._options()
        size = 1 if self.solver.batch_size == "auto" else size
        mean_size = lists.rows.size / lists.shares.size
        rule = rule._replace(prox_interval=round(rule.prox_interval * mean_size))
        scale = 1.0 / (np.count_nonzero(lists.shares) * lists.shares)
        losses = np.empty(eta.size)
        for start in range(0, eta.size, size):
            part = slice(start, start + size)
            selected = triplets[part, 0]
            pairs, bounds = self._list_pairs(selected)
            scores = self.weights.violations(self.inputs, pairs, **options).margins
            slopes = np.empty(scores.size)
            for at, which in enumerate(selected.tolist()):
                own = slice(int(bounds[at]), int(bounds[at + 1]))
                losses[start + at], slopes[own] = lists.list_slopes(which, scores[own])
                if not np.isfinite(slopes[own]).all():
                    losses[start + at] = np.nan
                if self._by_query:
                    slopes[own] /= scale[which]
            sizes = np.diff(bounds)
            n = np.repeat(sizes, sizes)
            etas = np.repeat(eta[part], sizes) / n
            self.weights.update(self.inputs, pairs, n * slopes, etas, rule=rule, **options)
        return losses, np.ones(losses.size)

    def _reweighted(self, triplets: Ints, negatives: Ints, weights: Floats) -> Floats:
        """Return L(below // N) for a violation at the N-th trial."""
        trial = np.argmax(triplets[:, 2:] == negatives[:, None], axis=1) + 1
        return np.where(weights > 0.0, self.by_rank[self.below[triplets[:, 1]] // trial], 0.0)

    def n_ranked(self, triplets: Ints) -> int | Ints:
        """Return the number of rows below each row."""
        below: Ints = self.below[triplets[:, 1]]
        return below

    def update_model(self) -> None:
        """Copy the weights to the model."""
        super().update_model()
        self.linear.weights = self.model.weights.toarray()[0]

    def apply_pending_penalty(self) -> None:
        """Apply a penalty that no kernel has to the weights of the model."""
        super().apply_pending_penalty()
        self.linear.weights = self.model.weights.toarray()[0]


def estimate_rate(rows: JudgedLists, lower: LowerRows, problem: TrainingProblem) -> float:
    """Return 1 over the mean squared difference of a pair, and over its mean weight at the start.

    So features may have any scale, and so may the weights of ranks: where all rows below violate
    the margin, the first trial finds one, and the rank is their number.
    """
    triplets, below = lower.sample(problem.kernel, problem.seed, 0, RATE_SAMPLE)
    difference = rows.features[triplets[:, 1]] - rows.features[triplets[:, 2]]
    values = np.asarray(difference.data if sp.issparse(difference) else difference, np.float64)
    square = float((values * values).sum()) / RATE_SAMPLE
    if "pairwise" in problem.loss.interfaces:
        square *= abs(float(np.mean(cast(PairwiseLoss, problem.loss).rank_weight(below))))
    return 1.0 / square if square > 0.0 else 1.0
