"""PAMIR: passive-aggressive steps (Crammer et al., 2006; Grangier and Bengio, 2008).

A triplet is a query q, a positive d+ and a negative d-. If its margin z = f(q, d+) - f(q, d-) is at
least 1, nothing happens. Otherwise the weights move to the minimum of half the squared distance
plus C times the loss: towards a margin of 1, as far as the aggressiveness C allows.
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
"""The pairwise losses that are 0 from a margin of 1 on and whose steps have a closed form."""


@dataclasses.dataclass
class PassiveAggressive(Solver):
    """Passive-aggressive steps on sampled triplets.

    Parameters
    ----------
    max_steps : int
        The total number of triplets.
    aggressiveness : float
        C, the weight of the loss against the length of a step: for the hinge, the longest step in
        units of q delta'. Small values average over many triplets, large ones correct every
        triplet at once.
    steps_per_epoch : int
        Steps per epoch.
    """

    name: ClassVar[str] = "passive-aggressive"

    max_steps: int = integer(100_000, minimum=1)
    aggressiveness: float = number(0.1, above=0.0)
    steps_per_epoch: int = integer(10_000, minimum=1)

    @classmethod
    def accepts(
        cls, model: type[Model], loss: type[Loss], regularizer: type[Regularizer]
    ) -> Compatibility:
        """Accept a vector or a matrix of weights, a hinge or squared hinge, and no penalty."""
        if model.form not in ("vector", "matrix"):
            return Compatibility(
                False,
                "a passive-aggressive step goes towards the weights with a margin of 1 or more, "
                "which are a half-space only if the score is linear in all weights at once",
            )
        if "pairwise" not in loss.interfaces:
            return Compatibility(
                False,
                "a passive-aggressive step corrects one pair, and this loss is not a function of "
                "the margin of one pair",
            )
        form = getattr(loss, "form", None)
        if form == PairwiseForm.LOGISTIC:
            return Compatibility(
                False,
                "a passive-aggressive step does not change weights that rank a pair correctly, and "
                "this loss is positive at every margin: no step would be passive",
            )
        if form not in FORMS:
            return Compatibility(
                False,
                "the margin y after a passive-aggressive step solves y = z - C n phi'(y), which "
                "has a closed form for the hinge and its square, and not for an unknown slope",
            )
        if loss.orders_positives and model.form == "vector":
            return Compatibility(False, SEVERAL_GRADES)
        if regularizer.name != "none":
            return Compatibility(
                False,
                "a passive-aggressive step is the only minimum of distance plus C times loss; "
                "any change by a penalty or a constraint moves the weights away from that minimum",
            )
        return YES

    def run_epochs(self, problem: TrainingProblem) -> Iterator[EpochResult]:
        """Yield one result per epoch."""
        steps: Pairs = (
            JudgedPairs(problem) if isinstance(problem.data, JudgedLists) else MatchedPairs(problem)
        )
        done = 0
        if problem.state is not None:
            done = int(problem.state["done"][0])
            steps.restore(section(problem.state, "weights"))
        loss = cast(PairwiseLoss, problem.loss)
        rank_weights = np.asarray(loss.rank_weight(np.arange(steps.max_documents)), np.float64)
        # One of several positives is selected by blocks, as in sgd; steps see each other.
        block = self.steps_per_epoch if problem.loss.positives[0] == 1 else PYTHON_BATCH
        epoch = -(-done // self.steps_per_epoch)
        while done < self.max_steps:
            count = min(self.steps_per_epoch, self.max_steps - done)
            triplets, n_documents = steps.sample(done, count)
            margins, weights = np.empty(count), np.empty(count)
            for start in range(0, count, block):
                part = slice(start, start + block)
                margins[part], weights[part], _ = steps.weights.passive_aggressive(
                    steps.inputs,
                    one_positive(problem.loss, steps.weights, steps.inputs, triplets[part], {}),
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
    """The source of triplets and the weights that they change."""

    inputs: BilinearInputs
    weights: BilinearWeights
    grows: bool
    max_documents: int
    """The maximal number of documents in one list."""

    def sample(self, first: int, count: int) -> tuple[Ints, Ints]:
        """Return the triplets of the steps first, first + 1, ..., and their list lengths."""

    def follow(self) -> None:
        """Copy the current weights to the model."""

    def restore(self, state: State) -> None:
        """Restore stored weights."""


class MatchedPairs:
    """Queries and documents; W is that of the model."""

    def __init__(self, problem: TrainingProblem) -> None:
        data = cast(MatchingData, problem.data)
        self.problem, self.model = problem, cast(Bilinear, problem.model)
        self.model.refuse_partial("passive-aggressive")
        self.inputs, self.grows = self.model.inputs(data), self.model.grows
        self.weights = BilinearWeights(problem.kernel, self.model.weights)
        self.lists, self.max_documents = positive_lists(data), data.n_documents

    def sample(self, first: int, count: int) -> tuple[Ints, Ints]:
        """Sample queries, one or more of their positives, and negatives."""
        trials, (positives, _) = (
            cast(PairwiseLoss, self.problem.loss).trials,
            self.problem.loss.positives,
        )
        triplets = self.problem.kernel.sampling.sample_triplets(
            self.lists, self.problem.seed, first, count, trials, positives
        )
        return triplets, np.full(count, self.max_documents)

    def follow(self) -> None:
        """Copy the current weights to the model."""
        self.model.follow(self.weights, False)

    def restore(self, state: State) -> None:
        """Restore stored weights."""
        width = self.inputs.n_document_features
        self.weights = BilinearWeights.restore(self.problem.kernel, width, state)


class JudgedPairs:
    """Judged lists: w . x is q' W d with a W of one row and a query whose only feature is 1."""

    grows = True

    def __init__(self, problem: TrainingProblem) -> None:
        data = cast(JudgedLists, problem.data)
        self.problem, self.model = problem, cast(Linear, problem.model)
        rows = sp.csr_array(data.features)
        self.inputs = BilinearInputs(sp.csr_array(np.ones((1, 1))), rows)
        self.weights = BilinearWeights(problem.kernel, sp.csr_array(self.model.weights[None, :]))
        self.rows = LowerRows.of(data)
        self.max_documents = 1 + int(self.rows.below.max())

    def sample(self, first: int, count: int) -> tuple[Ints, Ints]:
        """Sample rows, and rows with lower grades of the same query."""
        trials = cast(PairwiseLoss, self.problem.loss).trials
        triplets, below = self.rows.sample(
            self.problem.kernel, self.problem.seed, first, count, trials
        )
        return triplets, below + 1

    def follow(self) -> None:
        """Copy the current weights to the model."""
        self.model.weights = self.weights.weights().toarray()[0]

    def restore(self, state: State) -> None:
        """Restore stored weights."""
        width = self.inputs.n_document_features
        self.weights = BilinearWeights.restore(self.problem.kernel, width, state)


@dataclasses.dataclass(frozen=True)
class _State:
    """The state for a resumed run, computed when it is requested."""

    steps: Pairs
    done: int

    def __call__(self) -> State:
        return {"done": np.array([self.done]), **under("weights", self.steps.weights.state())}
