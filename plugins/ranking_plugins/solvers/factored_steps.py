"""The steps of SGD on the vectors of a factored model."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from ranking.contracts.regularizer import (
    Regularizer,
    RowPenalty,
    kernel_form,
    native_rows,
    of_side,
    target_density,
)
from ranking.contracts.solver import State, TrainingProblem
from ranking.data.matching_data import MatchingData
from ranking.errors import CombinationError
from ranking.kernels.contract import Execution, Factors, Singles
from ranking.kernels.contract import FactoredSteps as KernelSteps
from ranking.kernels.factored import NAMES, NO_PENALTY, FactoredWeights
from ranking.kernels.pairwise import TrainingLoss
from ranking.kernels.sampling import TripletSampler
from ranking.models.factored import Factored
from ranking.native import PairwiseFunctions
from ranking_plugins.solvers.list_steps import as_pairs, margin_slopes
from ranking_plugins.solvers.steps import Floats, Ints, Source, Steps, rank_weights

if TYPE_CHECKING:
    from ranking_plugins.solvers.sgd import SGD

BLOCK, BLOCKS = 2048, 192
"""The most tuples whose negatives are searched at the same vectors, if nobody says how many, and
the least number of such blocks in an epoch: with few matches, a block is small."""

FEATURE_BLOCK, FEATURE_BLOCKS = 16384, 48
"""The same if vectors are sums: those of a block are made once for all of its tuples."""


class FactoredSteps(Steps):
    """Steps on U, V, S and the biases, which the model holds and a kernel changes in place."""

    def __init__(self, solver: SGD, problem: TrainingProblem) -> None:
        super().__init__(solver, problem)
        if solver.refit:
            raise CombinationError("refit=true is not for factors; take model bilinear.")
        if target_density(problem.regularizer) is not None:
            raise CombinationError(
                "a wanted density is found for a sparse matrix, not for factors; give a strength, "
                f"such as {problem.regularizer.name}:strength=0.001."
            )
        if problem.loss.positives[0] > 1 and solver.negatives == "any":
            raise CombinationError(
                f"loss {problem.loss.name!r} draws several positives, none of which may be a "
                "negative; take negatives=unobserved."
            )
        if self.lists_loss is not None and solver.weighting != "uniform":
            raise CombinationError(
                f"weighting={solver.weighting} is for a loss of margins, and {problem.loss.name!r} is one "
                "of lists; take sampling=weighted."
            )
        self.model = cast(Factored, problem.model)
        self.inlined = cast(RowPenalty | None, kernel_form(problem.regularizer, "factors"))
        self.apart = self.inlined is None
        self._begin(None)

    def _begin(self, squares: Factors | None) -> None:
        """Let the kernel have the model's own arrays; what was kept sparse becomes dense."""
        self.model.densify()
        self.objects = self.model.objects(self.data, self.problem.kernel, self.problem.threads)
        self.weights = FactoredWeights(
            self.problem.kernel, self.model.factors, adagrad=self.plan.adagrad, squares=squares
        )
        self.rank_weights = np.ones(1, np.float32)
        if self.lists_loss is None:
            ranks = rank_weights(self.loss, self.data.n_documents)
            self.rank_weights = ranks.astype(np.float32)

    @property
    def block(self) -> int:
        """The tuples of a block."""
        if self.solver.batch_size != "auto":
            return int(self.solver.batch_size)
        plain = all(side is None for side in self.objects.features)
        most, blocks = (BLOCK, BLOCKS) if plain else (FEATURE_BLOCK, FEATURE_BLOCKS)
        return max(1, min(most, self.plan.steps_per_epoch // blocks))

    def skip(self, done: int) -> None:
        """Go on as after so many steps; Adagrad's sums begin anew."""
        self.done = done

    def feed(self, data: MatchingData) -> None:
        """Go on with other data; features that are new get their vectors."""
        before = self.weights.squares
        self.model.add_features(data, self.problem.kernel)
        self.data = data
        squares = None
        if self.plan.adagrad:
            grown = [_grown(old, new) for old, new in zip(before, self.model.factors, strict=True)]
            squares = Factors(*grown)
        self._begin(squares)

    def begin_refit(self) -> None:
        """Refuse: there is nothing to refit."""
        raise NotImplementedError

    def draw(self, count: int) -> Source:
        """Return the coming steps, for the kernel to draw."""
        positives, _ = self.problem.loss.positives
        if not count:
            return np.zeros((0, 1 + positives + self.trials), np.int64)
        first = self.model.stage * self.plan.max_steps + self.at
        return TripletSampler(self.lists(), self.problem.seed, first, count, self.trials, positives)

    def step(self, source: Source, eta: Floats) -> tuple[Floats, Floats]:
        """Take a step for each tuple; at each boundary, pay the penalty that is due."""
        shape = (eta.size, self.trials) if self.lists_loss else (eta.size,)
        margins, weights = np.empty(shape), np.empty(eta.size)
        for start, stop, due in self.parts(eta.size):
            margins[start:stop], weights[start:stop] = self._steps(
                _part(source, start, stop), eta[start:stop].astype(np.float32)
            )
            if due > 0.0:
                self._shrink(due)
        return margins, weights

    def _steps(self, source: Source, eta: Singles) -> tuple[Singles, Singles]:
        positives, place = self.problem.loss.positives
        common = {"n_positives": positives, "positive_rank": place}
        if self.lists_loss is not None:
            return self._step_by_lists(source, eta)
        if self.loss.form is None:
            return self._step_in_python(source, eta, common)
        functions = cast(PairwiseFunctions | None, self.problem.loss.native)
        hogwild = self.solver.mode == "hogwild"
        return self.weights.train(
            self.objects,
            source,
            eta,
            loss=TrainingLoss(self.loss.form, functions, self.rank_weights),
            penalty=self.inlined or NO_PENALTY,
            execution=Execution(self.block, hogwild, self.problem.threads),
            **common,
        )

    def _step_in_python(
        self, source: Source, eta: Singles, common: dict[str, int]
    ) -> tuple[Singles, Singles]:
        """Step by blocks, with slopes that Python computes."""
        margins, weights = np.empty(eta.size, np.float32), np.empty(eta.size, np.float32)
        for start in range(0, eta.size, self.block):
            part = slice(start, min(start + self.block, eta.size))
            chosen, margins[part], weights[part] = self.weights.sample(
                self.objects,
                _part(source, part.start, part.stop),
                rank_weights=self.rank_weights,
                threads=self.problem.threads,
                **common,
            )
            slopes = self.loss.pairwise_slope(margins[part].astype(np.float64)).astype(np.float32)
            slopes *= weights[part]
            self._update(chosen, np.column_stack((slopes, -slopes)), eta[part])
        return margins, weights

    def _step_by_lists(self, source: Source, eta: Singles) -> tuple[Singles, Singles]:
        """Step by blocks of lists: a match, and the documents that it is set against."""
        margins = np.empty((eta.size, self.trials), np.float32)
        for start in range(0, eta.size, self.block):
            part = slice(start, min(start + self.block, eta.size))
            tuples = _part(source, part.start, part.stop)
            if isinstance(tuples, TripletSampler):
                tuples = self.problem.kernel.sampling.sample_triplets(
                    tuples.lists, tuples.seed, tuples.first, tuples.count, tuples.max_trials
                )
            _, found, _ = self.weights.sample(
                self.objects, as_pairs(tuples), threads=self.problem.threads
            )
            margins[part] = found.reshape(-1, self.trials)
            slopes = margin_slopes(self.problem, margins[part].astype(np.float64))
            self._update(tuples, np.column_stack((slopes.sum(axis=1), -slopes)), eta[part])
        return margins, np.ones(eta.size, np.float32)

    def _update(self, tuples: Ints, slopes: NDArray[Any], eta: Singles) -> None:
        """Take a step for each row: a query, its documents, and the slopes of their scores."""
        given = slopes.astype(np.float32)
        if not self.plan.adagrad:
            given *= eta[:, None]
        self.weights.update(
            self.objects,
            KernelSteps(
                np.ascontiguousarray(tuples[:, 0]),
                slopes.shape[1] * np.arange(slopes.shape[0] + 1),
                np.ascontiguousarray(tuples[:, 1:]).ravel(),
                given.ravel(),
            ),
            learning_rate=float(eta[0]),
            penalty=self.inlined or NO_PENALTY,
            threads=self.problem.threads,
        )

    def _shrink(self, due: float) -> None:
        """Take the prox of each matrix, for the rates since the last boundary."""
        for matrix, shrunk in zip(self._matrices(), self._shrunk(due), strict=True):
            matrix[...] = shrunk

    def _shrunk(self, due: float) -> Iterator[Singles]:
        """With Adagrad, the rates are what they have come to, in the mean of a matrix."""
        inner = slice(None), slice(0, self.model.dimensions)
        for place in self._places():
            matrix, squares = self.weights.factors[place], self.weights.squares[place]
            step = due * float((1.0 / np.sqrt(squares[inner])).mean()) if squares.size else due
            regularizer = self._regularizer(place)
            functions = native_rows(regularizer)
            if functions is not None:
                shrunk = matrix.copy()
                width, threads = self.model.dimensions, self.problem.threads
                self.problem.kernel.native.prox_rows(functions, shrunk, step, width, threads)
            else:
                shrunk = np.zeros_like(matrix)
                shrunk[inner] = regularizer.prox(matrix[inner].astype(np.float64), step)
            yield shrunk

    def _places(self) -> list[int]:
        """Return which of U, V and S there are to be shrunk."""
        return [place for place in range(3) if self.weights.factors[place].shape[0]]

    def _regularizer(self, place: int) -> Regularizer:
        """Return that of U, which is for queries, or of V and S, which are for documents."""
        return of_side(self.problem.regularizer, min(place, 1))

    def _matrices(self) -> list[Singles]:
        return [self.weights.factors[place] for place in self._places()]

    def follow(self) -> None:
        """Do nothing: the model's arrays are the ones in training."""

    def penalty_value(self) -> float:
        """Return the penalty of all vectors, shrunk by what is due."""
        inner = slice(None), slice(0, self.model.dimensions)
        if self.inlined is not None:
            squares = [float((part.astype(np.float64) ** 2).sum()) for part in self._matrices()]
            return 0.5 * self.inlined.l2 * sum(squares)
        due = self.owed()
        matrices = self._matrices()
        if due or not self.at:  # before the first step, no constraint has been looked at
            matrices = list(self._shrunk(due))
        return sum(
            self._regularizer(place).penalty(part[inner].astype(np.float64))
            for place, part in zip(self._places(), matrices, strict=True)
        )

    def finite(self) -> bool:
        """Say whether all vectors are finite."""
        return all(bool(np.isfinite(part).all()) for part in self.weights.factors)

    def arrays(self) -> State:
        """Return the vectors, and Adagrad's sums."""
        return self.weights.state()

    def restore_arrays(self, arrays: State) -> None:
        """Go on with such vectors."""
        self.model.factors = Factors(*(arrays[name].copy() for name in NAMES))
        self._begin(Factors(*(arrays[f"squares_{name}"].copy() for name in NAMES)))


def _part(source: Source, start: int, stop: int) -> Source:
    if isinstance(source, TripletSampler):
        return dataclasses.replace(source, first=source.first + start, count=stop - start)
    part: Ints = source[start:stop]
    return part


def _grown(before: Singles, parameter: Singles) -> Singles:
    """Return Adagrad's sums of squares, 1 for every parameter that had none yet."""
    added = np.ones((parameter.shape[0] - before.shape[0], *parameter.shape[1:]), np.float32)
    return np.concatenate((before, added))
