"""PAMIR: passive-aggressive steps (Crammer et al., 2006; Grangier and Bengio, 2008).

A tuple is a query q, a document d+ that matches and one d- that does not. If its margin
z = f(q, d+) - f(q, d-) is at least 1, nothing happens. Else the weights go where half the square of
the way plus C times the loss is least: towards a margin of 1, as far as the aggressiveness C lets
them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import ClassVar, Final, Protocol, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ranking._utils.tensors import section, under
from ranking.contracts.loss import Loss, PairwiseLoss
from ranking.contracts.model import Model
from ranking.contracts.parameters import integer, number
from ranking.contracts.regularizer import Regularizer
from ranking.contracts.solver import YES, Compatibility, EpochResult, Solver, State, TrainingProblem
from ranking.data.judged_lists import JudgedLists
from ranking.data.matching_data import MatchingData
from ranking.data.triplets import positive_lists
from ranking.errors import DivergenceError
from ranking.kernels.bilinear import BilinearInputs, BilinearWeights
from ranking.kernels.contract import PairwiseForm
from ranking.kernels.pairwise import TrainingLoss
from ranking.models.bilinear import Bilinear
from ranking.models.linear import Linear
from ranking_plugins.preference_pairs import SEVERAL_GRADES, LowerRows
from ranking_plugins.solvers.bilinear_steps import PYTHON_BATCH, one_positive

Ints = NDArray[np.int64]

FORMS: Final = (PairwiseForm.HINGE, PairwiseForm.SQUARED_HINGE)
"""The losses of a margin that are 0 from 1 on, and whose steps have a closed form."""


@dataclasses.dataclass
class PassiveAggressive(Solver):
    """Passive-aggressive steps for drawn tuples.

    Parameters
    ----------
    max_steps : int
        Tuples that are drawn in all.
    aggressiveness : float
        C, how much the loss counts against the length of a step: of the hinge, the longest step in
        units of q delta'. Small values average over many tuples, large ones set every tuple right
        at once.
    steps_per_epoch : int
        Draws from one turn to the next.
    """

    name: ClassVar[str] = "passive-aggressive"

    max_steps: int = integer(100_000, minimum=1)
    aggressiveness: float = number(0.1, above=0.0)
    steps_per_epoch: int = integer(10_000, minimum=1)

    @classmethod
    def accepts(
        cls, model: type[Model], loss: type[Loss], regularizer: type[Regularizer]
    ) -> Compatibility:
        """Take a vector or a matrix of weights, the hinge or its square, weighted, no penalty."""
        if model.form not in ("vector", "matrix"):
            return Compatibility(
                False,
                "a passive-aggressive step goes towards the weights with a margin of 1 or more, "
                "which are a half-space only if the score is linear in all weights at once",
            )
        if "pairwise" not in loss.interfaces:
            return Compatibility(
                False,
                "a passive-aggressive step sets one pair right, and this loss is no function of "
                "one pair's margin",
            )
        form = getattr(loss, "form", None)
        if form == PairwiseForm.LOGISTIC:
            return Compatibility(
                False,
                "a passive-aggressive step leaves weights alone that set a pair right, and this "
                "loss is above 0 at every margin: no step would be passive",
            )
        if form not in FORMS:
            return Compatibility(
                False,
                "the margin y after a passive-aggressive step solves y = z - C n phi'(y): that is "
                "solved for the hinge and its square, and of this loss single slopes are known",
            )
        if loss.orders_positives and model.form == "vector":
            return Compatibility(False, SEVERAL_GRADES)
        if regularizer.name != "none":
            return Compatibility(
                False,
                "a passive-aggressive step is the only minimum of distance plus C times loss; "
                "whatever a penalty or a bound changes after it takes the weights off that minimum",
            )
        return YES

    def run_epochs(self, problem: TrainingProblem) -> Iterator[EpochResult]:
        """Take the draws of an epoch, once a turn."""
        steps: Pairs = (
            JudgedPairs(problem) if isinstance(problem.data, JudgedLists) else MatchedPairs(problem)
        )
        done = 0
        if problem.state is not None:
            done = int(problem.state["done"][0])
            steps.restore(section(problem.state, "weights"))
        loss = cast(PairwiseLoss, problem.loss)
        rank_weights = np.asarray(loss.rank_weight(np.arange(steps.most)), np.float64)
        # Which of several positives counts is chosen by blocks, as sgd does; steps see each other.
        block = self.steps_per_epoch if problem.loss.positives[0] == 1 else PYTHON_BATCH
        epoch = -(-done // self.steps_per_epoch)
        while done < self.max_steps:
            count = min(self.steps_per_epoch, self.max_steps - done)
            tuples, n_documents = steps.tuples(done, count)
            margins, weights = np.empty(count), np.empty(count)
            for start in range(0, count, block):
                part = slice(start, start + block)
                margins[part], weights[part], _ = steps.weights.passive_aggressive(
                    steps.objects,
                    one_positive(problem.loss, steps.weights, steps.objects, tuples[part], {}),
                    self.aggressiveness,
                    loss=TrainingLoss(cast(PairwiseForm, loss.form), rank_weights=rank_weights),
                    list_sizes=n_documents[part],
                    grow=steps.grows,
                )
            if not np.isfinite(margins).all():
                raise DivergenceError(
                    f"a margin is not finite after step {done}; scale the features to unit length."
                )
            done, epoch = done + count, epoch + 1
            steps.follow()
            mean = float((weights * loss.pairwise_value(margins)).mean())
            measures = {"steps": float(done), "density": problem.model.density}
            yield EpochResult(epoch, mean, False, _State(steps, done), measures)


class Pairs(Protocol):
    """What tuples are drawn from, and the weights that they move."""

    objects: BilinearInputs
    weights: BilinearWeights
    grows: bool
    most: int
    """Documents to be ranked in one list, at most."""

    def tuples(self, first: int, count: int) -> tuple[Ints, Ints]:
        """Return the tuples of the steps first, first + 1, ..., and how many each ranks."""

    def follow(self) -> None:
        """Give the model the current weights."""

    def restore(self, state: State) -> None:
        """Go back to weights as they were stored."""


class MatchedPairs:
    """Queries and documents; W is the model's."""

    def __init__(self, problem: TrainingProblem) -> None:
        data = cast(MatchingData, problem.data)
        self.problem, self.model = problem, cast(Bilinear, problem.model)
        self.objects, self.grows = self.model.objects(data), self.model.grows
        self.weights = BilinearWeights(problem.kernel, self.model.weights)
        self.lists, self.most = positive_lists(data), data.n_documents

    def tuples(self, first: int, count: int) -> tuple[Ints, Ints]:
        """Draw queries, one of their documents or more, and some that are not."""
        trials, (positives, _) = (
            cast(PairwiseLoss, self.problem.loss).trials,
            self.problem.loss.positives,
        )
        drawn = self.problem.kernel.sampling.sample_triplets(
            self.lists, self.problem.seed, first, count, trials, positives
        )
        return drawn, np.full(count, self.most)

    def follow(self) -> None:
        """Give the model the current weights."""
        self.model.follow(self.weights, False)

    def restore(self, state: State) -> None:
        """Go back to weights as they were stored."""
        width = self.objects.n_document_features
        self.weights = BilinearWeights.restore(self.problem.kernel, width, state)


class JudgedPairs:
    """Judged rows: w . x is q' W d with a W of one row and a query whose one feature is 1."""

    grows = True

    def __init__(self, problem: TrainingProblem) -> None:
        data = cast(JudgedLists, problem.data)
        self.problem, self.model = problem, cast(Linear, problem.model)
        rows = sp.csr_array(data.features)
        self.objects = BilinearInputs(sp.csr_array(np.ones((1, 1))), rows)
        self.weights = BilinearWeights(problem.kernel, sp.csr_array(self.model.weights[None, :]))
        self.rows = LowerRows.of(data)
        self.most = 1 + int(self.rows.below.max())

    def tuples(self, first: int, count: int) -> tuple[Ints, Ints]:
        """Draw a row that dominates something, and some that it dominates: it ranks among those."""
        trials = cast(PairwiseLoss, self.problem.loss).trials
        drawn, below = self.rows.tuples(
            self.problem.kernel, self.problem.seed, first, count, trials
        )
        return drawn, below + 1

    def follow(self) -> None:
        """Give the model the current weights."""
        self.model.weights = self.weights.weights().toarray()[0]

    def restore(self, state: State) -> None:
        """Go back to weights as they were stored."""
        width = self.objects.n_document_features
        self.weights = BilinearWeights.restore(self.problem.kernel, width, state)


@dataclasses.dataclass(frozen=True)
class _State:
    """What a resumed run needs, made when it is asked for."""

    steps: Pairs
    done: int

    def __call__(self) -> State:
        return {"done": np.array([self.done]), **under("weights", self.steps.weights.state())}
