"""The objective of a linear model on judged lists, with its gradient: what L-BFGS minimizes.

The weights are those of features scaled to a root mean square of 1 (within lists, where a shift of
a list changes nothing), so that L-BFGS takes as many iterations for features of any scale. The
objective itself is that of the weights of the model: a penalty has its strength divided by the
scale.
"""

from __future__ import annotations

import dataclasses
from typing import Protocol, Self, cast, runtime_checkable

import numpy as np
import scipy.sparse as sp

from ranking.contracts.loss import Array, ListwiseLoss
from ranking.contracts.regularizer import EntryPenalty
from ranking.contracts.solver import TrainingProblem
from ranking.data.judged_lists import JudgedLists
from ranking.kernels.contract import Floats, Ints, PairCurve
from ranking.kernels.domination import LayeredLists
from ranking.kernels.kernel import Kernel
from ranking_plugins.losses.pairwise_problem import pair_curve
from ranking_plugins.losses.row_columns import centered_columns, root_mean_squares
from ranking_plugins.losses.whole_lists import SupportsWholeLists, mean_and_slopes, whole_lists
from ranking_plugins.preference_pairs import LowerRows


class Terms(Protocol):
    """A loss at the scores of some rows."""

    @property
    def rows(self) -> Ints:
        """The rows of the data."""

    @property
    def list_ptr(self) -> Ints:
        """The start of each list, within which a shift of the scores changes nothing."""

    def slopes(self, scores: Floats) -> tuple[float, Floats]:
        """Return the mean loss, and its derivative with respect to the score of each row."""


@runtime_checkable
class Freezable(Protocol):
    """A loss with weights that depend on the scores, and can be kept at those of some scores."""

    def freeze(self, scores: Floats) -> Self:
        """Return the loss with the weights at these scores."""


@dataclasses.dataclass(frozen=True)
class PairTerms:
    """A pairwise loss: the mean over rows, each the mean of its pairs, in the kernel's loops."""

    kernel: Kernel
    lists: LayeredLists
    curve: PairCurve
    threads: int

    @property
    def rows(self) -> Ints:
        """The rows of the data."""
        return self.lists.source

    @property
    def list_ptr(self) -> Ints:
        """The start of each list."""
        return self.lists.layer_ptr[self.lists.list_ptr]

    def slopes(self, scores: Floats) -> tuple[float, Floats]:
        """Return the mean loss, and its derivative with respect to each score."""
        lists = self.kernel.pairwise_lists
        return lists.slopes(self.lists, scores, self.curve, self.threads)


@dataclasses.dataclass(frozen=True)
class ListTerms:
    """A loss of whole lists."""

    lists: object

    @property
    def rows(self) -> Ints:
        """The rows of the data."""
        rows: Ints = self.lists.rows  # type: ignore[attr-defined]
        return rows

    @property
    def list_ptr(self) -> Ints:
        """The start of each list."""
        list_ptr: Ints = self.lists.list_ptr  # type: ignore[attr-defined]
        return list_ptr

    def slopes(self, scores: Floats) -> tuple[float, Floats]:
        """Return the mean loss, and its derivative with respect to each score."""
        return mean_and_slopes(self.lists, scores)  # type: ignore[arg-type]

    def freeze(self, scores: Floats) -> Self:
        """Return the loss with its weights at these scores, or itself if it has none."""
        if isinstance(self.lists, Freezable):
            return dataclasses.replace(self, lists=self.lists.freeze(scores))
        return self


def terms_of(problem: TrainingProblem) -> Terms:
    """Prepare the loss of a problem on its lists."""
    data, loss = cast(JudgedLists, problem.data), problem.loss
    if "pairwise" not in loss.interfaces:
        if isinstance(loss, SupportsWholeLists):
            return ListTerms(loss.whole_lists(data, problem.kernel))
        return ListTerms(whole_lists(cast(ListwiseLoss, loss), data, problem.kernel))
    rows = LowerRows.of(data)
    above = rows.order[rows.better]
    omega = np.zeros(data.n_rows)
    omega[above] = 1.0 / (above.size * rows.below[rows.better])
    lists = LayeredLists.build(data.group_ptr, data.grades, omega, pad=1)
    return PairTerms(problem.kernel, lists, pair_curve(loss), problem.threads)


class SmoothObjective:
    """Loss plus L2 penalty of scaled weights; the L1 penalty is separate.

    Attributes
    ----------
    l1 : float64 array
        The strength of L1 for each scaled weight.
    """

    def __init__(
        self, problem: TrainingProblem, penalty: EntryPenalty, form: sp.csr_array | None = None
    ) -> None:
        """Prepare loss and penalties; `form` is the matrix Q of a penalty 1/2 w'Qw."""
        self.terms = terms_of(problem)
        data = cast(JudgedLists, problem.data)
        self.features = centered_columns(data, self.terms.rows, self.terms.list_ptr)
        scales = root_mean_squares(self.features)
        # A feature without effect on the loss still has a weight if Q links it to others.
        self.used = (scales > 0.0) | (form is not None)
        self.scales = np.where(scales > 0.0, scales, 1.0)
        self.l1 = penalty.l1 / self.scales
        self.l2 = penalty.l2 / self.scales**2
        self.form = form
        self.kernel, self.threads = problem.kernel.pairwise_lists, problem.threads
        self.everything = np.arange(scales.size)

    def to_scaled(self, weights: Array) -> Array:
        """Return the scaled weights of weights; 0 for features without effect."""
        return np.where(self.used, weights * self.scales, 0.0)

    def to_weights(self, scaled: Array) -> Array:
        """Return the weights of the model."""
        weights: Array = scaled / self.scales
        return weights

    def scores(self, scaled: Array) -> Array:
        """Return the score of each row, up to a shift of each list."""
        weights = self.to_weights(scaled)
        return self.kernel.combination(self.features, self.everything, weights, self.threads)

    def smooth(self, scaled: Array) -> tuple[float, Array]:
        """Return loss plus L2 penalty, and the gradient; infinite where scores are not finite."""
        scores = self.scores(scaled)
        if not np.isfinite(scores).all():
            return np.inf, np.zeros(scaled.size)
        value, slopes = self.terms.slopes(scores)
        products = self.kernel.products(self.features, self.everything, slopes, self.threads)
        gradient = products / self.scales + self.l2 * scaled
        penalty = 0.5 * float((self.l2 * scaled * scaled).sum())
        if self.form is not None:
            weights = self.to_weights(scaled)
            slopes_of_form = self.form @ weights
            penalty += 0.5 * float((weights * slopes_of_form).sum())
            gradient += slopes_of_form / self.scales
        return value + penalty, np.where(self.used, gradient, 0.0)

    def value(self, scaled: Array) -> float:
        """Return the objective: loss plus both penalties."""
        return self.smooth(scaled)[0] + self.l1_value(scaled)

    def l1_value(self, scaled: Array) -> float:
        """Return the L1 penalty."""
        return float((self.l1 * np.abs(scaled)).sum())

    def frozen(self, scaled: Array) -> SmoothObjective | None:
        """Return the objective with the weights of its pairs kept, or None if it has none."""
        if not isinstance(self.terms, Freezable):
            return None
        terms = cast(Terms, self.terms.freeze(self.scores(scaled)))
        if terms is self.terms:
            return None
        copy = object.__new__(SmoothObjective)
        copy.__dict__.update(self.__dict__, terms=terms)
        return copy
