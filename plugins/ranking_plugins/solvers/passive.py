"""PAMIR: passive-aggressive steps (Grangier and Bengio, 2008).

A tuple is a query q, a document d+ that matches and one d- that does not. If its margin
z = f(q, d+) - f(q, d-) is at least 1, nothing happens. Else the weights take the shortest step
that brings it to 1, but no longer than the aggressiveness C allows.
"""

from __future__ import annotations

import dataclasses
import numbers
from collections.abc import Iterator
from typing import ClassVar, Protocol, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ranking.contracts.loss import Loss
from ranking.contracts.model import Model
from ranking.contracts.regularizer import Regularizer
from ranking.contracts.solver import YES, Solver, State, Task, Turn, Verdict
from ranking.data.judged import Judged
from ranking.data.matching import Matching
from ranking.data.tuples import match_lists
from ranking.errors import DivergenceError, PartError
from ranking.kernels.bilinear import BilinearWeights, Objects
from ranking.kernels.contract import PairForm
from ranking.models.bilinear import Bilinear
from ranking.models.linear import Linear
from ranking.run import section, under
from ranking_plugins.lower_rows import LowerRows

Ints = NDArray[np.int64]


@dataclasses.dataclass
class PassiveAggressive(Solver):
    """Passive-aggressive steps for drawn tuples.

    Parameters
    ----------
    draws : int
        Tuples that are drawn in all.
    aggressiveness : float
        C, the longest step, in units of q delta'. Small values average over many tuples, large
        ones set every tuple right at once.
    epoch : int
        Draws from one turn to the next.
    """

    name: ClassVar[str] = "passive-aggressive"

    draws: int = 100_000
    aggressiveness: float = 0.1
    epoch: int = 10_000

    def __post_init__(self) -> None:
        """Check the parameters."""
        for name in ("draws", "epoch"):
            value: object = getattr(self, name)
            if not isinstance(value, numbers.Integral) or value < 1:
                raise PartError(
                    f"passive-aggressive has {name}={value!r}; it must be a whole number from 1."
                )
        most: object = self.aggressiveness
        if not isinstance(most, numbers.Real) or not 0.0 < float(most) < np.inf:
            raise PartError(
                f"passive-aggressive has aggressiveness={most!r}; it must be a finite number "
                "above 0."
            )

    @classmethod
    def accepts(
        cls, model: type[Model], loss: type[Loss], regularizer: type[Regularizer]
    ) -> Verdict:
        """Take a vector or a matrix of weights, the hinge, and no penalty."""
        if model.form not in ("vector", "matrix"):
            return Verdict(
                False,
                "a passive-aggressive step projects onto the weights with a margin of 1, which are "
                "a half-space only if the score is linear in all weights at once",
            )
        if loss.name not in ("hinge", "auc") or getattr(loss, "form", None) != PairForm.HINGE:
            return Verdict(
                False,
                "a passive-aggressive step projects onto the weights that set one pair right: only "
                "the hinge is 0 on such a half-space, and no weight of a violation moves it",
            )
        if regularizer.name != "none":
            return Verdict(
                False,
                "a passive-aggressive step is the shortest that brings a margin to 1; a penalty "
                "after it would take the margin below 1 again, so that no step were passive",
            )
        return YES

    def turns(self, task: Task) -> Iterator[Turn]:
        """Take the draws of an epoch, once a turn."""
        steps: Pairs = JudgedPairs(task) if isinstance(task.data, Judged) else MatchedPairs(task)
        done = 0
        if task.state is not None:
            done = int(task.state["done"][0])
            steps.restore(section(task.state, "weights"))
        epoch = -(-done // self.epoch)
        while done < self.draws:
            count = min(self.epoch, self.draws - done)
            tuples = steps.tuples(done, count)
            margins, _, _ = steps.weights.passive(
                steps.objects, tuples, self.aggressiveness, grow=steps.grows
            )
            if not np.isfinite(margins).all():
                raise DivergenceError(
                    f"a margin is not finite after step {done}; scale the features to unit length."
                )
            done, epoch = done + count, epoch + 1
            steps.follow()
            loss = float(np.maximum(0.0, 1.0 - margins).mean())
            measures = {"draws": float(done), "density": task.model.density}
            yield Turn(epoch, loss, False, _State(steps, done), measures)


class Pairs(Protocol):
    """What tuples are drawn from, and the weights that they move."""

    objects: Objects
    weights: BilinearWeights
    grows: bool

    def tuples(self, first: int, count: int) -> Ints:
        """Return the tuples of the steps first, first + 1, ..."""

    def follow(self) -> None:
        """Give the model the current weights."""

    def restore(self, state: State) -> None:
        """Go back to weights as they were stored."""


class MatchedPairs:
    """Queries and documents; W is the model's."""

    def __init__(self, task: Task) -> None:
        data = cast(Matching, task.data)
        self.task, self.model = task, cast(Bilinear, task.model)
        self.objects, self.grows = self.model.objects(data), self.model.grows
        self.weights = BilinearWeights(task.kernel, self.model.weights)
        self.lists = match_lists(data)

    def tuples(self, first: int, count: int) -> Ints:
        """Draw queries, one of their documents and one that is not."""
        return self.task.kernel.draw_tuples(self.lists, self.task.seed, first, count)

    def follow(self) -> None:
        """Give the model the current weights."""
        self.model.follow(self.weights, False)

    def restore(self, state: State) -> None:
        """Go back to weights as they were stored."""
        width = self.objects.n_document_features
        self.weights = BilinearWeights.restore(self.task.kernel, width, state)


class JudgedPairs:
    """Judged rows: w . x is q' W d with a W of one row and a query whose one feature is 1."""

    grows = True

    def __init__(self, task: Task) -> None:
        data = cast(Judged, task.data)
        self.task, self.model = task, cast(Linear, task.model)
        rows = sp.csr_array(data.features)
        self.objects = Objects(sp.csr_array(np.ones((1, 1))), rows)
        self.weights = BilinearWeights(task.kernel, sp.csr_array(self.model.weights[None, :]))
        self.rows = LowerRows.of(data)

    def tuples(self, first: int, count: int) -> Ints:
        """Draw a row that dominates something, and a row that it dominates."""
        return self.rows.tuples(self.task.kernel, self.task.seed, first, count)[0]

    def follow(self) -> None:
        """Give the model the current weights."""
        self.model.weights = self.weights.weights().toarray()[0]

    def restore(self, state: State) -> None:
        """Go back to weights as they were stored."""
        width = self.objects.n_document_features
        self.weights = BilinearWeights.restore(self.task.kernel, width, state)


@dataclasses.dataclass(frozen=True)
class _State:
    """What a resumed run needs, made when it is asked for."""

    steps: Pairs
    done: int

    def __call__(self) -> State:
        return {"done": np.array([self.done]), **under("weights", self.steps.weights.state())}
