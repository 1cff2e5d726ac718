"""The steps of SGD on the embeddings of a factored model."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from ranking.contracts.regularizer import (
    EntryPenalty,
    OrthogonalColumns,
    Regularizer,
    RowPenalty,
    SupportsRowWeights,
    kernel_form,
    kernel_forms,
    native_rows,
    of_side,
    prox_by_row,
    weighs_rows,
)
from ranking.contracts.solver import State, TrainingProblem
from ranking.data.matching_data import MatchingData
from ranking.errors import CombinationError
from ranking.kernels.contract import Execution, Factors, Singles
from ranking.kernels.contract import FactoredSteps as KernelSteps
from ranking.kernels.factored import NAMES, NO_PENALTY, FactoredWeights
from ranking.kernels.pairwise import TrainingLoss
from ranking.kernels.sampling import TripletSampler
from ranking.models.factored import Factored, require_dot_product
from ranking.native import PairwiseFunctions, RowFunctions
from ranking_plugins.regularizers.polar import polar_factor
from ranking_plugins.solvers.frequencies import row_frequencies
from ranking_plugins.solvers.listwise_steps import (
    list_slopes,
    list_training_loss,
    split_negatives,
)
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

BLOCK, BLOCKS = 2048, 192
"""The default maximal batch size (triplets whose negatives are sampled at the same embeddings), and
the minimal number of batches per epoch: with few positives, a batch is small."""

FEATURE_BLOCK, FEATURE_BLOCKS = 16384, 48
"""The same if embeddings are sums over features, which are computed once per batch."""

LIST_BLOCKS = 48
"""The minimal number of batches per epoch for listwise losses, whose steps change many rows."""

PROX_ROWS = 4096
"""Rows to which a prox is applied at a time, in double precision."""


class FactoredSteps(Steps):
    """Steps on U, V, S and the biases of the model, which a kernel changes in place."""

    shares_negatives: ClassVar[bool] = False

    def __init__(self, solver: SGD, problem: TrainingProblem) -> None:
        super().__init__(solver, problem)
        if solver.refit:
            raise CombinationError("refit=true is not for embeddings; use model bilinear.")
        if problem.loss.positives[0] > 1 and solver.negatives == "any":
            raise CombinationError(
                f"loss {problem.loss.name!r} samples several positives, none of which may be a "
                "negative; use negatives=unobserved."
            )
        if self.listwise is not None and solver.weighting != "uniform":
            raise CombinationError(
                f"weighting={solver.weighting} is for a pairwise loss, and {problem.loss.name!r} "
                "is listwise; use sampling=weighted."
            )
        self.model = cast(Factored, problem.model)
        if self.settings.adam and not self.shares_negatives:
            raise CombinationError(
                f"schedule=adam is for losses softmax, ccl and bce; with {problem.loss.name!r} use "
                "schedule=adagrad."
            )
        if not self.shares_negatives:
            require_dot_product(self.model, f"loss {problem.loss.name!r}")
        self.row_penalty = cast(RowPenalty | None, kernel_form(problem.regularizer, "factors"))
        self.prox_between_calls = self.row_penalty is None
        rowwise = all(_has_rate_per_row(self._regularizer(side)) for side in (0, 1))
        self.kernel_penalty = (self.row_penalty or NO_PENALTY)._replace(rowwise=rowwise)
        self._begin(None)

    def _begin(self, squares: Factors | None) -> None:
        """Start from the arrays of the model, which become dense if they were sparse."""
        self.model.densify()
        self.inputs = self.model.inputs(self.data, self.problem.kernel, self.problem.threads)
        self.weights = FactoredWeights(
            self.problem.kernel, self.model.factors, adagrad=self.settings.adagrad, squares=squares
        )
        self.row_weights: tuple[Singles, ...] | None = None
        if weighs_rows(self.problem.regularizer):
            self.row_weights = row_frequencies(self.model, self.data, self.inputs)
        self.rank_weights = np.ones(1, np.float32)
        if self.listwise is None:
            ranks = rank_weights(self.loss, self.data.n_documents)
            self.rank_weights = ranks.astype(np.float32)

    @property
    def batch_size(self) -> int:
        """The batch size."""
        if self.solver.batch_size != "auto":
            return int(self.solver.batch_size)
        plain = all(side is None for side in self.inputs.features)
        listwise = self.listwise is not None
        return factored_batch_size(plain, listwise, self.settings.steps_per_epoch)

    def resume_after(self, done: int) -> None:
        """Continue after `done` steps; the sums of Adagrad start again."""
        self.steps_taken = done

    def set_data(self, data: MatchingData) -> None:
        """Continue with other data; add embeddings for new features."""
        previous = self.weights.squares
        self.model.add_features(data, self.problem.kernel)
        self.data = data
        squares = None
        if self.settings.adagrad:
            expanded = [
                _expanded(old, new) for old, new in zip(previous, self.model.factors, strict=True)
            ]
            squares = Factors(*expanded)
        self._begin(squares)

    def begin_refit(self) -> None:
        """Do nothing: `__init__` refuses to refit."""
        raise NotImplementedError

    def sample(self, count: int) -> Source:
        """Return the sampler of the next steps, which the kernel samples itself."""
        positives, _ = self.problem.loss.positives
        if not count:
            return np.zeros((0, 1 + positives + self.n_negatives), np.int64)
        first = self.model.stage * self.settings.max_steps + self.position
        return TripletSampler(
            self.positive_lists(), self.problem.seed, first, count, self.n_negatives, positives
        )

    def evaluation_sample(self, count: int) -> Source:
        """Return the sampler of the triplets at which the loss is reported."""
        positives, _ = self.problem.loss.positives
        if not count:
            return np.zeros((0, 1 + positives + self.n_negatives), np.int64)
        seed = evaluation_seed(self.problem)
        return TripletSampler(self.positive_lists(), seed, 0, count, self.n_negatives, positives)

    def margins(self, source: Source) -> tuple[Floats, Floats]:
        """Return margins and violation weights at the current embeddings."""
        if self.listwise is not None:
            lists = self._listwise_margins(self._triplets(source))
            return list_slopes(self.problem, lists).losses, np.ones(lists.shape[0])
        positives, rank = self.problem.loss.positives
        _, margins, weights = self.weights.sample(
            self.inputs,
            source,
            rank_weights=self.rank_weights,
            n_positives=positives,
            positive_rank=rank,
            threads=self.problem.threads,
        )
        return margins.astype(np.float64), weights.astype(np.float64)

    def with_one_positive(self, source: Source) -> Ints:
        """Return triplets of query, positive and all negatives; of several positives, one."""
        positives, rank = self.problem.loss.positives
        triplets = self._triplets(source)
        if positives == 1:
            return triplets
        selected, _, _ = self.weights.sample(
            self.inputs,
            triplets,
            rank_weights=self.rank_weights,
            n_positives=positives,
            positive_rank=rank,
            threads=self.problem.threads,
        )
        return np.concatenate((selected[:, :2], triplets[:, 1 + positives :]), axis=1)

    def all_margins(self, triplets: Ints) -> Floats:
        """Return the margins to the negatives of each triplet at the current embeddings."""
        return self._listwise_margins(triplets)

    def _triplets(self, source: Source) -> Ints:
        """Return the triplets, sampled here if they are not given."""
        if not isinstance(source, TripletSampler):
            return source
        return self.problem.kernel.sampling.sample_triplets(
            source.lists,
            source.seed,
            source.first,
            source.count,
            source.max_trials,
            source.n_positives,
        )

    def _listwise_margins(self, triplets: Ints) -> Floats:
        """Return one row of margins per list."""
        _, values, _ = self.weights.sample(
            self.inputs, split_negatives(triplets), threads=self.problem.threads
        )
        return values.reshape(-1, self.n_negatives).astype(np.float64)

    def _take_steps(self, source: Source, eta: Floats) -> tuple[Floats, Floats]:
        """Take a step for each triplet; apply the penalty at the boundaries."""
        margins, weights = np.empty(eta.size), np.empty(eta.size)
        for start, stop, rate in self.segments(eta.size):
            margins[start:stop], weights[start:stop] = self._train(
                _part(source, start, stop), eta[start:stop].astype(np.float32)
            )
            if rate > 0.0:
                self._apply_prox(rate)
        return margins, weights

    def _train(self, source: Source, eta: Singles) -> tuple[Floats | Singles, Floats | Singles]:
        positives, rank = self.problem.loss.positives
        common = {"n_positives": positives, "positive_rank": rank}
        if self.listwise is not None:
            return self._train_listwise(source, eta)
        if self.loss.form is None:
            return self._train_in_python(source, eta, common)
        functions = cast(PairwiseFunctions | None, self.problem.loss.native)
        hogwild = self.solver.mode == "hogwild"
        return self.weights.train(
            self.inputs,
            source,
            eta,
            loss=TrainingLoss(self.loss.form, functions, self.rank_weights),
            penalty=self.kernel_penalty,
            execution=Execution(self.batch_size, hogwild, self.problem.threads),
            **common,
        )

    def _train_in_python(
        self, source: Source, eta: Singles, common: dict[str, int]
    ) -> tuple[Singles, Singles]:
        """Take steps by batches, with slopes that are computed in Python."""
        margins, weights = np.empty(eta.size, np.float32), np.empty(eta.size, np.float32)
        for start in range(0, eta.size, self.batch_size):
            part = slice(start, min(start + self.batch_size, eta.size))
            triplets, margins[part], weights[part] = self.weights.sample(
                self.inputs,
                _part(source, part.start, part.stop),
                rank_weights=self.rank_weights,
                threads=self.problem.threads,
                **common,
            )
            slopes = self.loss.pairwise_slope(margins[part].astype(np.float64)).astype(np.float32)
            slopes *= weights[part]
            self._update(triplets, np.column_stack((slopes, -slopes)), eta[part])
        return margins, weights

    def _train_listwise(self, source: Source, eta: Singles) -> tuple[Floats, Floats]:
        """Take a step for each list of one positive and its negatives."""
        loss = list_training_loss(self.problem.loss)
        if loss is None:
            return self._lists_in_python(source, eta), np.ones(eta.size)
        losses = self.weights.train_lists(
            self.inputs,
            source,
            eta,
            loss=loss,
            penalty=self.kernel_penalty,
            execution=Execution(
                self.batch_size, self.solver.mode == "hogwild", self.problem.threads
            ),
        )
        return losses, np.ones(eta.size)

    def _lists_in_python(self, source: Source, eta: Singles) -> Floats:
        """Take steps by batches of lists; call the loss once per list; return their losses."""
        losses = np.empty(eta.size)
        for start in range(0, eta.size, self.batch_size):
            part = slice(start, min(start + self.batch_size, eta.size))
            triplets = self._triplets(_part(source, part.start, part.stop))
            losses[part], slopes = list_slopes(self.problem, self._listwise_margins(triplets))
            self._update(triplets, slopes, eta[part])
        return losses

    def _update(self, triplets: Ints, slopes: NDArray[Any], eta: Singles) -> None:
        """Take a step for each row: a query, its documents and the slopes of their scores."""
        scaled = slopes.astype(np.float32)
        if not self.settings.adagrad:
            scaled *= eta[:, None]
        self.weights.update(
            self.inputs,
            KernelSteps(
                np.ascontiguousarray(triplets[:, 0]),
                slopes.shape[1] * np.arange(slopes.shape[0] + 1),
                np.ascontiguousarray(triplets[:, 1:]).ravel(),
                scaled.ravel(),
            ),
            learning_rate=float(eta[0]),
            penalty=self.kernel_penalty,
            threads=self.problem.threads,
        )

    def _apply_prox(self, rate: float) -> None:
        """Apply the prox to each matrix, for the learning rates since the last boundary.

        With Adagrad, an entry with the sum of squares G has the step rate / sqrt(G), and so has its
        penalty: this is composite mirror descent. If a penalty acts on rows, G is the same for all
        entries of a row.
        """
        for at in self._positions():
            entry = self._entry_penalty(at)
            if entry is not None and self.row_weights is None:
                self.weights.prox(at, rate, entry, threads=self.problem.threads)
                continue
            for rows, shrunk in self._chunks_after_prox(at, rate):
                self.weights.factors[at][rows] = shrunk

    def _entry_penalty(self, at: int) -> EntryPenalty | None:
        """Return l1 and l2 of a penalty that acts on each entry independently, or None."""
        regularizer = self._regularizer(at)
        if regularizer.granularity != "entry" or native_rows(regularizer) is not None:
            return None
        form = kernel_form(regularizer, "vector")
        return form if isinstance(form, EntryPenalty) else None

    def _chunks(self, at: int) -> Iterator[slice]:
        """Yield the rows of a matrix by chunks, if a penalty acts on them independently."""
        n_rows = self.weights.factors[at].shape[0]
        size = n_rows if self._regularizer(at).granularity == "matrix" else PROX_ROWS
        for start in range(0, n_rows, size):
            yield slice(start, min(start + size, n_rows))

    def _chunks_after_prox(self, at: int, rate: float) -> Iterator[tuple[slice, Singles]]:
        """Yield the rows of a matrix as they are after the prox."""
        entry = self._entry_penalty(at)
        for rows in self._chunks(at):
            part = self.weights.factors[at][rows]
            if entry is not None:
                yield (
                    rows,
                    self.weights.prox(
                        at,
                        rate,
                        entry,
                        rows=rows,
                        row_weights=None
                        if self.row_weights is None
                        else self.row_weights[at][rows],
                        out=np.empty_like(part),
                        threads=self.problem.threads,
                    ),
                )
            else:
                yield rows, self._prox_of_rows(at, rows, rate)

    def _row_steps(self, at: int, rows: slice, rate: float) -> Floats:
        """Return the step of each row, in which all entries have the same sum of squares."""
        squares = self.weights.squares[at]
        if squares.size:
            return rate / np.sqrt(squares[rows, 0].astype(np.float64))
        return np.full(self.weights.factors[at][rows].shape[0], rate)

    def _prox_of_rows(self, at: int, rows: slice, rate: float) -> Singles:
        """Return the prox of some rows, or of all, by the operator of the regularizer."""
        inner = slice(None), slice(0, self.model.dimensions)
        regularizer, part = self._regularizer(at), self.weights.factors[at][rows]
        functions = native_rows(regularizer)
        if isinstance(regularizer, OrthogonalColumns):  # in float32, by blocks
            length = np.float32(regularizer.column_length(part[inner].shape))
            shrunk = polar_factor(part[inner], self.problem.threads)
            shrunk *= length
            padding = part.shape[1] - self.model.dimensions
            return np.pad(shrunk, ((0, 0), (0, padding))) if padding else shrunk
        if functions is not None:
            shrunk = part.copy()
            self._native_prox(functions, shrunk, self._row_steps(at, rows, rate))
            return shrunk
        shrunk = np.zeros_like(part)
        numbers = part[inner].astype(np.float64)
        if regularizer.granularity == "matrix":
            shrunk[inner] = regularizer.prox(numbers, rate)
        else:
            shrunk[inner] = prox_by_row(regularizer, numbers, self._row_steps(at, rows, rate))
        return shrunk

    def _native_prox(self, functions: RowFunctions, matrix: Singles, steps: Floats) -> None:
        """Apply C functions to each row, in one call for all rows with the same step."""
        kernel, width, threads = self.problem.kernel, self.model.dimensions, self.problem.threads
        for step in np.unique(steps).tolist():
            rows = np.flatnonzero(steps == step)
            part = matrix if rows.size == matrix.shape[0] else matrix[rows]
            kernel.native.prox_rows(functions, part, step, width, threads)
            matrix[rows] = part

    def _positions(self) -> list[int]:
        """Return the positions of those of U, V and S that are regularized."""
        return [at for at in range(3) if self.weights.factors[at].shape[0]]

    def _regularizer(self, at: int) -> Regularizer:
        """Return the regularizer of U, which is for queries, or of V and S, for documents."""
        return of_side(self.problem.regularizer, min(at, 1))

    def update_model(self) -> None:
        """Do nothing: the arrays of the model are the ones in training."""

    def penalty_value(self) -> float:
        """Return the penalty of all embeddings, after the pending prox."""
        inner = slice(None), slice(0, self.model.dimensions)
        if self.row_penalty is not None:  # a maximal norm, which holds
            return 0.0
        rate = self.pending_rate()
        # Before the first step, no constraint has been applied.
        pending = rate > 0.0 or not self.position
        total = 0.0
        for at in self._positions():
            parts = (
                self._chunks_after_prox(at, rate)
                if pending
                else ((rows, self.weights.factors[at][rows]) for rows in self._chunks(at))
            )
            wide = not isinstance(self._regularizer(at), OrthogonalColumns)  # needs no float64
            total += sum(
                self._penalty_of_rows(
                    at, rows, part[inner].astype(np.float64 if wide else np.float32, copy=False)
                )
                for rows, part in parts
            )
        return total

    def _penalty_of_rows(self, at: int, rows: slice, part: NDArray[Any]) -> float:
        """Return the penalty of some rows of a matrix."""
        regularizer = self._regularizer(at)
        if self.row_weights is not None:
            weighted = cast(SupportsRowWeights, regularizer)
            return weighted.weighted_penalty(part, self.row_weights[at][rows].astype(np.float64))
        return regularizer.penalty(part)

    def finite(self) -> bool:
        """Return whether all embeddings are finite."""
        return all(bool(np.isfinite(part).all()) for part in self.weights.factors)

    def arrays(self) -> State:
        """Return the embeddings and the sums of Adagrad."""
        return self.weights.state()

    def restore_arrays(self, arrays: State) -> None:
        """Restore what `arrays` returned."""
        self.model.factors = Factors(*(arrays[name].copy() for name in NAMES))
        self._begin(Factors(*(arrays[f"squares_{name}"].copy() for name in NAMES)))


def _has_rate_per_row(regularizer: Regularizer) -> bool:
    """Return whether Adagrad needs one learning rate per row for the prox to be in its metric."""
    if regularizer.granularity == "entry":
        return not kernel_forms(regularizer) & {"vector", "factors"}  # has a prox for one step only
    return regularizer.granularity == "row"


def _part(source: Source, start: int, stop: int) -> Source:
    if isinstance(source, TripletSampler):
        return dataclasses.replace(source, first=source.first + start, count=stop - start)
    part: Ints = source[start:stop]
    return part


def _expanded(squares: Singles, parameter: Singles) -> Singles:
    """Return the sums of squares of Adagrad, 1 for new parameters."""
    added = np.ones((parameter.shape[0] - squares.shape[0], *parameter.shape[1:]), np.float32)
    return np.concatenate((squares, added))


def factored_batch_size(plain: bool, listwise: bool, steps_per_epoch: int) -> int:
    """Return the batch size for "auto"; `plain` means that no row has features."""
    largest, blocks = (BLOCK, BLOCKS) if plain else (FEATURE_BLOCK, FEATURE_BLOCKS)
    if plain and listwise:
        blocks = LIST_BLOCKS
    return max(1, min(largest, steps_per_epoch // blocks))
