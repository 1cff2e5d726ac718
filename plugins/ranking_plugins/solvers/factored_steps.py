"""The steps of SGD on the vectors of a factored model."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from ranking.contracts.solver import State, Task
from ranking.data.matching import Matching
from ranking.errors import CombinationError
from ranking.kernels.contract import Factors
from ranking.kernels.factored import FactoredWeights
from ranking.models.factored import Factored
from ranking_plugins.solvers.steps import Floats, Ints, Steps, rank_weights

if TYPE_CHECKING:
    from ranking_plugins.solvers.sgd import SGD

BLOCK = 256
"""Tuples whose negatives are searched at the same vectors, if nobody says how many."""


class FactoredSteps(Steps):
    """Steps on U, V and the biases, which the model holds and a kernel changes in place."""

    def __init__(self, solver: SGD, task: Task) -> None:
        super().__init__(solver, task)
        for what, asked in (
            ("refit=true", solver.refit),
            ("mode=hogwild", solver.mode == "hogwild"),
            (f"loss {task.loss.name!r}, which is written in Python,", self.loss.form is None),
        ):
            if asked:
                raise CombinationError(f"{what} is not for factors; take model bilinear.")
        self.model = cast(Factored, task.model)
        penalty = task.regularizer.row_penalty()
        if penalty is None:
            raise CombinationError(
                f"regularizer {task.regularizer.name!r} has no form for vectors; take l2 or "
                "max-norm."
            )
        self.penalty = penalty
        none = np.zeros((0, self.model.width), np.float32)
        self.squares = self._first_squares((none, none, np.zeros(0, np.float32)))
        self._begin()

    def _begin(self) -> None:
        """Let the kernel have the model's own arrays."""
        model = self.model
        self.objects = model.objects(self.data)
        self.weights = FactoredWeights(
            self.task.kernel, model.U, model.V, model.document_biases, self.squares
        )
        self.rank_weights = rank_weights(self.loss, self.data.n_documents).astype(np.float32)

    def _first_squares(self, before: Factors) -> Factors:
        """Return Adagrad's sums of squares, 1 for every parameter that had none yet."""
        if not self.plan.adagrad:
            return (
                np.zeros((0, 0), np.float32),
                np.zeros((0, 0), np.float32),
                np.zeros(0, np.float32),
            )
        model = self.model
        parameters = (model.U, model.V, model.document_biases)
        U, V, biases = (
            np.concatenate(
                (old, np.ones((new.shape[0] - old.shape[0], *new.shape[1:]), np.float32))
            )
            for old, new in zip(before, parameters, strict=True)
        )
        return U, V, biases

    def skip(self, done: int) -> None:
        """Go on as after so many steps; Adagrad's sums begin anew."""
        self.done = done

    def feed(self, data: Matching) -> None:
        """Go on with other data; features that are new get their vectors."""
        self.model.widen(data)
        self.data = data
        self.squares = self._first_squares(self.squares)
        self._begin()

    def begin_refit(self) -> None:
        """Refuse: there is nothing to refit."""
        raise NotImplementedError

    def step(self, tuples: Ints, eta: Floats) -> tuple[Floats, Floats]:
        """Take a step for each tuple, by blocks."""
        assert self.loss.form is not None
        batch = self.solver.batch
        margins, weights = self.weights.steps(
            self.objects,
            tuples,
            eta.astype(np.float32),
            form=self.loss.form,
            rank_weights=self.rank_weights,
            max_norm=self.penalty.max_norm,
            l2=self.penalty.l2,
            block=BLOCK if batch == "auto" else int(batch),
            threads=self.task.threads,
        )
        return margins.astype(np.float64), weights.astype(np.float64)

    def follow(self) -> None:
        """Do nothing: the model's arrays are the ones in training."""

    def penalty_value(self) -> float:
        """Return the decay's penalty of all vectors."""
        squares = [float((part.astype(np.float64) ** 2).sum()) for part in self.weights.factors[:2]]
        return 0.5 * self.penalty.l2 * sum(squares)

    def finite(self) -> bool:
        """Say whether all vectors are finite."""
        return all(bool(np.isfinite(part).all()) for part in self.weights.factors)

    def arrays(self) -> State:
        """Return the vectors, and Adagrad's sums."""
        return self.weights.state()

    def restore_arrays(self, arrays: State) -> None:
        """Go on with such vectors."""
        model = self.model
        model.U, model.V = arrays["U"].copy(), arrays["V"].copy()
        model.document_biases = arrays["biases"].copy()
        self.squares = tuple(  # type: ignore[assignment]
            arrays[f"squares_{name}"].copy() for name in ("U", "V", "biases")
        )
        self._begin()
