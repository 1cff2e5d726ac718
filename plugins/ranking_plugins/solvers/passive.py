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
from ranking.errors import DataError, DivergenceError, PartError
from ranking.kernels.bilinear import BilinearWeights, Objects
from ranking.kernels.contract import PairForm
from ranking.kernels.kernel import Kernel
from ranking.models.bilinear import Bilinear
from ranking.models.linear import Linear
from ranking.run import section, under

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
                "passive-aggressive steps have a closed form for weights of which the score is a "
                f"linear function, and model {model.name!r} has {model.form} parameters",
                "model linear or bilinear",
            )
        if loss.name not in ("hinge", "auc") or getattr(loss, "form", None) != PairForm.HINGE:
            return Verdict(
                False,
                f"passive-aggressive steps are for the hinge of one pair, not {loss.name!r}",
                "loss hinge",
            )
        if regularizer.name != "none":
            return Verdict(
                False,
                "its aggressiveness is what keeps the weights small, and there is no place for "
                f"{regularizer.name!r}",
                "regularizer none",
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
            margins, _ = steps.weights.passive(
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
        self.order, self.first, self.below = lower_rows(data)

    def tuples(self, first: int, count: int) -> Ints:
        """Draw a row that dominates something, and a row that it dominates."""
        return judged_tuples(
            self.task.kernel, self.task.seed, first, count, self.order, self.first, self.below
        )

    def follow(self) -> None:
        """Give the model the current weights."""
        self.model.weights = self.weights.weights().toarray()[0]

    def restore(self, state: State) -> None:
        """Go back to weights as they were stored."""
        width = self.objects.n_document_features
        self.weights = BilinearWeights.restore(self.task.kernel, width, state)


def lower_rows(data: Judged) -> tuple[Ints, Ints, Ints]:
    """Return rows by query and grade, and where those below each begin and how many they are."""
    order = np.lexsort((data.grades, data.row_groups))
    group, grade = data.row_groups[order], data.grades[order]
    new = np.ones(order.size, dtype=bool)
    new[1:] = (np.diff(group) != 0) | (np.diff(grade) != 0)
    layer = np.maximum.accumulate(np.where(new, np.arange(order.size), 0))
    first = data.group_ptr[group]
    if not np.any(layer > first):
        raise DataError(
            f"no query has two different grades ({data.n_queries} queries, {data.n_rows} rows), "
            "so there is nothing to rank; check the grades."
        )
    return order, first, layer - first


def judged_tuples(
    kernel: Kernel, seed: int, start: int, count: int, order: Ints, first: Ints, below: Ints
) -> Ints:
    """Return tuples (0, better row, worse row): any row with rows below it, any of those."""
    better = np.flatnonzero(below)
    draws = kernel.random_uniform(seed, 2 * start, 2 * count).reshape(count, 2)
    above = better[(draws[:, 0] * better.size).astype(np.int64)]
    under_it = first[above] + (draws[:, 1] * below[above]).astype(np.int64)
    return np.column_stack((np.zeros(count, np.int64), order[above], order[under_it]))


@dataclasses.dataclass(frozen=True)
class _State:
    """What a resumed run needs, made when it is asked for."""

    steps: Pairs
    done: int

    def __call__(self) -> State:
        return {"done": np.array([self.done]), **under("weights", self.steps.weights.state())}
