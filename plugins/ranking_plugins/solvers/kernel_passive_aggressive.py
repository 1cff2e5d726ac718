"""PAMIR with a kernel (Grangier and Bengio, 2008): passive-aggressive steps in its feature space.

W is a sum over steps of tau q (phi(d+) - phi(d-))', so that scores and lengths are sums of kernel
values k(d, d') of documents: A, with a row per query feature and a column per document, replaces W.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, ClassVar, Final, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ranking.contracts.loss import Loss, PairwiseLoss
from ranking.contracts.model import Model
from ranking.contracts.parameters import integer, number
from ranking.contracts.regularizer import Regularizer
from ranking.contracts.solver import YES, Compatibility, EpochResult, Solver, State, TrainingProblem
from ranking.data.matching_data import MatchingData
from ranking.data.triplets import positive_lists
from ranking.kernels.contract import Floats, Ints, PairwiseForm
from ranking.models.kernel_expansion import KernelExpansion

LOSSES: Final = ("hinge", "squared-hinge")
BLOCK: Final = 128
"""Steps whose kernel values are computed at once; the result does not depend on it."""


@dataclasses.dataclass
class KernelPassiveAggressive(Solver):
    """Passive-aggressive steps on sampled triplets, in the feature space of a kernel.

    Parameters are those of `passive-aggressive`, and so are the triplets of a seed.

    Parameters
    ----------
    max_steps : int
        The total number of triplets.
    aggressiveness : float
        C, the weight of the loss against the length of a step.
    steps_per_epoch : int
        Steps per epoch.
    """

    name: ClassVar[str] = "kernel-passive-aggressive"

    max_steps: int = integer(100_000, minimum=1)
    aggressiveness: float = number(0.1, above=0.0)
    steps_per_epoch: int = integer(10_000, minimum=1)

    @classmethod
    def accepts(
        cls, model: type[Model], loss: type[Loss], regularizer: type[Regularizer]
    ) -> Compatibility:
        """Accept a kernel expansion, a hinge or squared hinge, and no penalty."""
        if model.form != "expansion":
            return Compatibility(
                False,
                "its steps are sums of kernel values of documents, and this model has weights of "
                "its own",
            )
        if loss.name not in LOSSES:
            return Compatibility(
                False,
                "a step has a closed form for the hinge and its square of one sampled pair only",
            )
        if regularizer.name != "none":
            return Compatibility(
                False,
                "a passive-aggressive step is the only minimum of distance plus C times loss; any "
                "change by a penalty moves the weights away from that minimum",
            )
        return YES

    def run_epochs(self, problem: TrainingProblem) -> Iterator[EpochResult]:
        """Yield one result per epoch."""
        steps = _Steps(problem, self.aggressiveness)
        done = 0
        if problem.state is not None:
            done = int(problem.state["done"][0])
            steps.restore(problem.state)
        epoch = -(-done // self.steps_per_epoch)
        loss = cast(PairwiseLoss, problem.loss)
        while done < self.max_steps:
            count = min(self.steps_per_epoch, self.max_steps - done)
            margins = steps.take(done, count)
            done, epoch = done + count, epoch + 1
            steps.follow()
            mean = float(loss.pairwise_value(margins).mean())
            measures = {"steps": float(done), "density": problem.model.density}
            yield EpochResult(epoch, mean, False, _State(steps, done), measures)


class _Steps:
    """The coefficients A of the documents, in rows that are created when they are needed."""

    def __init__(self, problem: TrainingProblem, aggressiveness: float) -> None:
        data = cast(MatchingData, problem.data)
        self.problem, self.aggressiveness = problem, aggressiveness
        self.model = cast(KernelExpansion, problem.model)
        self.queries, self.documents = self.model.queries(data), self.model.documents(data)
        self.lists = positive_lists(data)
        self.squared = getattr(problem.loss, "form", None) == PairwiseForm.SQUARED_HINGE
        self.rows: dict[int, NDArray[np.float64]] = {}

    def take(self, first: int, count: int) -> Floats:
        """Take steps; return the margins before each."""
        triplets = self.problem.kernel.sampling.sample_triplets(
            self.lists, self.problem.seed, first, count, 1, 1
        )
        margins = np.empty(count)
        for start in range(0, count, BLOCK):
            block = triplets[start : start + BLOCK]
            used, positions = np.unique(block[:, 1:], return_inverse=True)
            values = self.model.evaluate(self.documents[used], self.documents)
            pairs = positions.reshape(-1, 2)
            for step, (query, positive, negative) in enumerate(block.tolist()):
                at, other = pairs[step]
                margins[start + step] = self._step(
                    query, positive, negative, values[at] - values[other]
                )
        return margins

    def _step(self, query: int, positive: int, negative: int, difference: Floats) -> float:
        """Correct one pair; `difference` has k(d+, d) - k(d-, d) for each document d."""
        part = slice(*self.queries.indptr[query : query + 2])
        features = self.queries.indices[part].tolist()
        values = self.queries.data[part]
        margin = 0.0
        for feature, value in zip(features, values.tolist(), strict=True):
            row = self.rows.get(feature)
            if row is not None:
                margin += value * float(row @ difference)
        square = float(values @ values) * float(difference[positive] - difference[negative])
        rate = self._rate(margin, square)
        if rate > 0.0:
            for feature, value in zip(features, values.tolist(), strict=True):
                row = self.rows.setdefault(feature, np.zeros(self.documents.shape[0]))
                row[positive] += rate * value
                row[negative] -= rate * value
        return margin

    def _rate(self, margin: float, square: float) -> float:
        """Return the tau of least tau^2 square / 2 + C loss(margin + tau square)."""
        if not margin < 1.0 or square <= 0.0:
            return 0.0
        if self.squared:
            return (1.0 - margin) / (square + 0.5 / self.aggressiveness)
        return min((1.0 - margin) / square, self.aggressiveness)

    def coefficients(self) -> sp.csr_array:
        """Return A, with a column for each document of the data."""
        shape = (self.queries.shape[1], self.documents.shape[0])
        matrix = sp.lil_array(shape)
        for feature, row in self.rows.items():
            matrix[feature] = row
        return matrix.tocsr()

    def follow(self) -> None:
        """Copy the documents that have coefficients to the model."""
        whole = self.coefficients()
        used = np.unique(whole.indices)
        self.model.support = self.documents[used]
        self.model.coefficients = whole[:, used]

    def restore(self, state: State) -> None:
        """Restore stored coefficients."""
        parts = (state["values"], state["indices"], state["indptr"])
        whole = sp.csr_array(parts, shape=(self.queries.shape[1], self.documents.shape[0]))
        for feature in np.flatnonzero(np.diff(whole.indptr)).tolist():
            self.rows[feature] = whole[[feature]].toarray()[0]


@dataclasses.dataclass(frozen=True)
class _State:
    """The state for a resumed run, computed when it is requested."""

    steps: _Steps
    done: int

    def __call__(self) -> State:
        whole: Any = self.steps.coefficients()
        indptr: Ints = whole.indptr.astype(np.int64)
        return {
            "done": np.array([self.done]),
            "values": whole.data,
            "indices": whole.indices.astype(np.int64),
            "indptr": indptr,
        }
