"""The steps of SGD on embeddings for losses whose negatives are shared by a block of positives.

A block has B positives and n negatives. All are composed from the features at the embeddings of the
block's start; with cosines they are divided by their norms. A kernel computes slopes and gradients
(`contract.shared_lists`). With g the gradient by a unit vector ``x = e / |e|``, that by e is
``(g - (g . x) x) / |e|``. Gradients go to the rows of the features, and each row takes one step.

With `factored:history`, the embedding of a query is the sum of its own and the mean of those of its
other positives, the one in the step left out: as if it were composed from features that it shares
with the documents. So its gradient goes to the rows of these documents too.

The gradient of the block is the sum of those of its positives; with Adam, whose steps do not depend
on the scale of gradients, their mean. Adagrad's sum of squares is that of the block's gradients.
"""

from __future__ import annotations

import copy
import dataclasses
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
import scipy.sparse as sp

from ranking._utils.tensors import section, under
from ranking.contracts.loss import SharedNegativesLoss, TopKWeightedLoss
from ranking.contracts.solver import State, TrainingProblem
from ranking.data.matching_data import MatchingData
from ranking.errors import CombinationError
from ranking.kernels.contract import Exclusions, Factors, SharedGradients, SharedLists, Singles
from ranking.kernels.factored import NAMES, FactoredWeights
from ranking.kernels.sampling import TripletSampler
from ranking.kernels.shared_lists import SharedTrainingLoss
from ranking.models.factored import row_dots, unit_rows
from ranking_plugins.solvers.factored_steps import FactoredSteps, _part
from ranking_plugins.solvers.query_histories import histories_of
from ranking_plugins.solvers.row_optimizers import Adam, adagrad_step
from ranking_plugins.solvers.settings import SHARED_BATCH
from ranking_plugins.solvers.shared_negatives import Excluder, Negatives, SharedSampler
from ranking_plugins.solvers.steps import EVALUATION_SEED, Floats, Ints, Source
from ranking_plugins.solvers.top_k_thresholds import TopKThresholds

if TYPE_CHECKING:
    from ranking_plugins.solvers.sgd import SGD

MAX_EVALUATED = 4096
EVALUATED_AT_A_TIME = 256
DENSE = 4
"""Occurrences are counted by feature, not sorted, if there are this many features for each."""


class Occurrences(NamedTuple):
    """Queries or documents of a block by their features: a sparse matrix, by row and by feature.

    Attributes
    ----------
    composed : csr_array
        One row per occurrence; the columns are features of the model.
    features : int64
        Those that occur, rising.
    scatter : csr_array
        One row for each of them, one column per occurrence.
    """

    composed: sp.csr_array
    features: Ints
    scatter: sp.csr_array

    @classmethod
    def of(cls, rows: sp.csr_array | None, ids: Ints, n_features: int) -> Occurrences:
        """Return the rows with these ids; without features each is its own."""
        if rows is None:
            pointers = np.arange(ids.size + 1)
            parts = (np.ones(ids.size, np.float32), ids, pointers)
            composed = sp.csr_array(parts, shape=(ids.size, n_features))
        else:
            composed = rows[ids]
        return cls.of_rows(composed)

    @classmethod
    def of_rows(cls, composed: sp.csr_array) -> Occurrences:
        """Return the occurrences whose features are given, one row each."""
        n_rows, n_columns = composed.shape
        if DENSE * composed.nnz >= n_columns:  # counting is faster than sorting
            by_column = composed.tocsc()
            features = np.flatnonzero(np.diff(by_column.indptr))
            pointers = np.append(by_column.indptr[features], composed.nnz).astype(np.int64)
            parts = (by_column.data, by_column.indices.astype(np.int64), pointers)
        else:
            order = np.argsort(composed.indices, kind="stable")
            occurrence = np.repeat(np.arange(n_rows), np.diff(composed.indptr))[order]
            features, starts = np.unique(composed.indices[order], return_index=True)
            pointers = np.append(starts, order.size).astype(np.int64)
            parts = (composed.data[order], occurrence.astype(np.int64), pointers)
        scatter = sp.csr_array(parts, shape=(features.size, n_rows))
        return cls(composed, features.astype(np.int64), scatter)


class Block(NamedTuple):
    """What a block of steps is computed of.

    Documents are positives, then negatives, then the histories of the queries, if they count.
    """

    queries: Occurrences
    documents: Occurrences
    log_weights: Floats
    excluded: Exclusions
    query_ids: Ints


class SharedSteps(FactoredSteps):
    """Steps on U, V and the biases of the model, a block of positives at a time."""

    shift_invariant = False
    shares_negatives = True

    def __init__(self, solver: SGD, problem: TrainingProblem) -> None:
        self.shared_loss = cast(SharedNegativesLoss, problem.loss)
        self.adam: dict[str, Adam] = {}
        loss = problem.loss
        self.thresholds = (
            TopKThresholds(loss, problem) if isinstance(loss, TopKWeightedLoss) else None
        )
        self.own: Singles | None = None
        super().__init__(solver, problem)
        self._check_settings()

    def _check_settings(self) -> None:
        if self.solver.mode == "hogwild":
            raise CombinationError(
                f"mode=hogwild is not for loss {self.problem.loss.name!r}, whose positives share "
                "negatives; use mode=deterministic, whose threads share the matrix products."
            )
        if self.solver.negative_sampling != "uniform" and self.problem.loss.name not in (
            "softmax",
            "softmax-at-k",
        ):
            raise CombinationError(
                f"negative_sampling={self.solver.negative_sampling} weights negatives, which loss "
                f"{self.problem.loss.name!r} does not; use negative_sampling=uniform."
            )

    def _begin(self, squares: Factors | None) -> None:
        self.histories = histories_of(self.model, self.data)
        super()._begin(squares)
        if self.histories is not None:
            self._use_own(squares)
        lists = self.positive_lists()
        how, n = self.solver.negative_sampling, self.n_negatives
        self.sampler = SharedSampler(self.problem.kernel, lists, how, n, self.problem.seed)
        seed = (self.problem.seed + EVALUATION_SEED) % 2**64
        self.evaluation_sampler = SharedSampler(self.problem.kernel, lists, how, n, seed)
        self.excluder = Excluder(lists)
        self.rows = self._feature_rows()
        if self.settings.adam:
            for name, factor in self._trained().items():
                if name in self.adam:
                    self.adam[name].grow(factor)
                else:
                    self.adam[name] = Adam(factor)

    def _feature_rows(self) -> tuple[sp.csr_array | None, sp.csr_array | None]:
        """Return the features of queries and documents in float32; None for those without."""
        rows = (self.model.feature_rows(self.data, side) for side in (0, 1))
        queries, documents = (
            None if isinstance(side, int) else sp.csr_array(side, dtype=np.float32) for side in rows
        )
        return queries, documents

    def _use_own(self, squares: Factors | None) -> None:
        """Train the queries' own embeddings; the model has their sums with the histories."""
        self.own = self.model.U.copy() if self.own is None else self.own
        self.weights = FactoredWeights(
            self.problem.kernel,
            Factors(self.own, *self.model.factors[1:]),
            adagrad=self.settings.adagrad,
            squares=squares,
        )

    def resume_after(self, done: int) -> None:
        """Continue a training whose model has sums of own embeddings and histories."""
        super().resume_after(done)
        if self.histories is not None and self.own is not None and done:
            self.own -= self._means()

    def update_model(self) -> None:
        """Set the embeddings of the queries to the sums of their own and their histories'."""
        if self.histories is None or self.own is None:
            return
        rows = self.rows[0]
        known = slice(None) if rows is None else np.unique(rows.indices)
        self.model.U[known] = self.own[known] + self._means()[known]

    def _means(self) -> Singles:
        """Return the mean embedding of the history of each row of U."""
        compose, threads = self.problem.kernel.factored.embeddings, self.problem.threads
        assert self.histories is not None
        means = compose(self.histories.means(self.rows[1]), self.model.V, threads)
        if self.rows[0] is None:
            return means
        return compose(sp.csr_array(self.rows[0].T), means, threads)

    def _trained(self) -> dict[str, Singles]:
        """Return the parameters by name, without those that do not exist or are not trained."""
        every = zip(NAMES, self.weights.factors, strict=True)
        alone = self.model.history == "mean-only"
        return {
            name: factor
            for name, factor in every
            if factor.shape[0] and not (alone and name == "U")
        }

    @property
    def batch_size(self) -> int:
        """The number of positives of a block."""
        return SHARED_BATCH if self.solver.batch_size == "auto" else int(self.solver.batch_size)

    @property
    def evaluation_count(self) -> int:
        """The number of positives at which the loss is reported."""
        return min(self.settings.evaluation_count, MAX_EVALUATED)

    def set_data(self, data: MatchingData) -> None:
        """Continue with other data; add embeddings for new features."""
        self._lists = None
        if self.own is not None:
            self.own = self._grown(data)
        super().set_data(data)

    def _grown(self, data: MatchingData) -> Singles:
        """Return the own embeddings with rows for queries that are new in the data."""
        assert self.own is not None
        model = copy.copy(self.model)
        model.add_features(data, self.problem.kernel)
        return model.grown_queries(self.own, model.U.shape[0], self.problem.kernel)

    # --- blocks ---

    def _triplets(self, source: Source) -> Ints:
        """Return queries and positives; their own negatives are not used, so one is enough."""
        if isinstance(source, TripletSampler):
            source = dataclasses.replace(source, max_trials=1)
        return super()._triplets(source)

    def _block(self, triplets: Ints, sampler: SharedSampler, first: int) -> Block:
        queries, positives = triplets[:, 0], triplets[:, 1]
        negatives: Negatives = sampler.sample(first, positives)
        excluded = self.excluder.find(queries, positives, negatives.documents)
        documents = np.concatenate((positives, negatives.documents))
        U, V = self.model.U, self.model.V
        composed = Occurrences.of(self.rows[1], documents, V.shape[0])
        if self.histories is not None:
            means = self.histories.without(queries, positives, self.rows[1])
            composed = Occurrences.of_rows(sp.vstack([composed.composed, means], format="csr"))
        return Block(
            Occurrences.of(self.rows[0], queries, U.shape[0]),
            composed,
            negatives.log_weights,
            excluded,
            queries,
        )

    def _compose(self, block: Block) -> tuple[Singles, Singles, Singles]:
        """Return the embeddings of queries and documents, and the biases of documents."""
        compose, threads = self.problem.kernel.factored.embeddings, self.problem.threads
        documents = block.documents.composed
        biases = np.zeros(documents.shape[0], np.float32)
        if self.model.document_biases.size:
            column = np.ascontiguousarray(self.model.document_biases[:, None])
            biases = compose(documents, column, threads)[:, 0]
        queries = compose(block.queries.composed, self.weights.factors[0], threads)
        every = compose(documents, self.model.V, threads)
        if self.histories is None:
            return queries, every, biases
        own = every.shape[0] - queries.shape[0]
        queries += every[own:]
        return queries, every[:own], biases[:own]

    def _take_steps(self, source: Source, eta: Floats) -> tuple[Floats, Floats]:
        """Take the steps of one block after the other; return the loss of each positive."""
        if not isinstance(source, TripletSampler):
            if not eta.size:
                return eta, eta
            raise CombinationError(
                f"loss {self.problem.loss.name!r} samples the negatives of a block; give "
                "partial_fit steps, not triplets."
            )
        losses = np.empty(eta.size)
        for start, stop, rate in self.segments(eta.size):
            for at in range(start, stop, self.batch_size):
                end = min(at + self.batch_size, stop)
                triplets = self._triplets(_part(source, at, end))
                block = self._block(triplets, self.sampler, source.first + at)
                self._update_thresholds((source.first + at) // self.settings.steps_per_epoch)
                losses[at:end] = self._step(block, eta[at:end])
            if rate > 0.0:
                self._apply_prox(rate)
        return losses, np.ones(eta.size)

    def _update_thresholds(self, epoch: int) -> None:
        """Compute the k-th largest scores again if it is time."""
        if self.thresholds is not None and self.thresholds.due(self.data, epoch):
            self.update_model()
            self.thresholds.update(self.model, self.data, epoch)

    def _step(self, block: Block, eta: Floats) -> Floats:
        """Take one step for each row of a block; return something finite if the slopes are."""
        count = eta.size
        weights: Singles = np.ones(count, np.float32)
        if self.settings.adam:
            weights /= np.float32(count)
        elif not self.settings.adagrad:
            weights *= eta.astype(np.float32)
        queries, documents, biases = self._compose(block)
        if self.model.score == "cosine":
            queries, query_norms = unit_rows(queries)
            documents, document_norms = unit_rows(documents)
        if self.thresholds is not None:
            own = row_dots(queries, documents[:count]) + biases[:count]
            weights = weights * self.thresholds.weights(block.query_ids, own)
        lists, loss = self._lists_of(block, (queries, documents, biases), weights)
        gradients = self.problem.kernel.shared_lists.gradients(lists, loss, self.problem.threads)
        by_document = np.concatenate((gradients.positives, gradients.negatives))
        by_query = gradients.queries
        if self.model.score == "cosine":
            by_query = _through_norm(by_query, queries, query_norms)
            by_document = _through_norm(by_document, documents, document_norms)
        if "U" in self._trained():
            self._step_rows("U", block.queries, by_query, eta)
        slopes = np.concatenate((gradients.positive_slopes, gradients.negative_slopes))
        if self.histories is not None:
            by_document = np.concatenate((by_document, by_query))
            slopes = np.concatenate((slopes, np.zeros(count, np.float32)))
        self._step_rows("V", block.documents, by_document, eta)
        if biases.size and self.model.document_biases.size:
            self._step_rows("biases", block.documents, slopes[:, None], eta)
        return _losses(gradients)

    def _lists_of(
        self, block: Block, composed: tuple[Singles, Singles, Singles], weights: Singles
    ) -> tuple[SharedLists, SharedTrainingLoss]:
        """Return the arguments of the kernel."""
        (queries, documents, biases), count = composed, weights.size
        loss = SharedTrainingLoss(*self.shared_loss.shared_list_form(block.log_weights.size))
        offsets = np.float32(loss.scale) * biases
        others = offsets[count:] + block.log_weights.astype(np.float32)
        lists = SharedLists(
            queries,
            documents[:count],
            documents[count:],
            offsets[:count],
            others,
            weights,
            block.excluded,
        )
        return lists, loss

    def _step_rows(self, name: str, at: Occurrences, gradients: Singles, eta: Floats) -> None:
        """Add the gradients up by feature, and take a step on each of these rows."""
        parameter = self._trained()[name]
        rows, add = at.features, self.problem.kernel.factored.embeddings
        total = add(at.scatter, np.ascontiguousarray(gradients), self.problem.threads)
        total = total.reshape(rows.size, *parameter.shape[1:])
        if self.settings.adam:
            self.adam[name].step(parameter, rows, total, float(eta[0]))
        elif self.settings.adagrad:
            squares = dict(zip(NAMES, self.weights.squares, strict=True))[name]
            adagrad_step(parameter, squares, rows, total, float(eta[0]))
        else:
            parameter[rows] -= total
        limit = 0.0 if self.row_penalty is None else self.row_penalty.max_norm
        if limit > 0.0 and parameter.ndim == 2:
            part = parameter[rows]
            unit, norms = unit_rows(part)
            long = norms > np.float32(limit)
            parameter[rows[long]] = unit[long] * np.float32(limit)

    def _apply_prox(self, rate: float) -> None:
        """Apply the prox; Adam's steps are those of blocks, in the metric of its moments."""
        if self.settings.adam:
            self._set_metric()
            rate = self._by_block(rate)
        super()._apply_prox(rate)

    def pending_rate(self) -> float:
        """Return the sum of the learning rates since the last boundary, with Adam of blocks."""
        rate = super().pending_rate()
        if not self.settings.adam:
            return rate
        self._set_metric()
        return self._by_block(rate)

    def _by_block(self, rate: float) -> float:
        """Return the sum of the learning rates of blocks from that of their positives."""
        positives = round(rate / self.settings.learning_rate)
        return self.settings.learning_rate * -(-positives // self.batch_size)

    def _set_metric(self) -> None:
        """Give the prox the squared divisors of Adam's steps, unless it has one step for all."""
        if all(self._regularizer(side).granularity == "matrix" for side in (0, 1)):
            return
        squares = [
            self.adam[name].metric() if name in self.adam else factor
            for name, factor in zip(NAMES, self.model.factors, strict=True)
        ]
        self.weights.squares = Factors(*squares)

    # --- the loss that is reported ---

    def margins(self, source: Source) -> tuple[Floats, Floats]:
        """Return the loss of each positive, with one sample of negatives for all, and 1."""
        triplets = self._triplets(source)
        losses = np.empty(triplets.shape[0])
        for start in range(0, losses.size, EVALUATED_AT_A_TIME):
            part = slice(start, start + EVALUATED_AT_A_TIME)
            block = self._block(triplets[part], self.evaluation_sampler, 0)
            losses[part] = self._values(block)
        return losses, np.ones(losses.size)

    def _values(self, block: Block) -> Floats:
        """Return the loss of each positive of a block."""
        queries, documents, biases = self._compose(block)
        if self.model.score == "cosine":
            queries, documents = unit_rows(queries)[0], unit_rows(documents)[0]
        count = queries.shape[0]
        scale = self.shared_loss.shared_list_form(block.log_weights.size).scale
        score, threads = self.problem.kernel.factored.scores, self.problem.threads
        every = score(queries, documents[count:], biases[count:], threads)
        others = scale * every.astype(np.float64) + block.log_weights
        own = np.einsum("ij,ij->i", queries.astype(np.float64), documents[:count])
        own += biases[:count]
        rows = np.repeat(np.arange(count), np.diff(block.excluded.indptr))
        others[rows, block.excluded.documents] = -np.inf
        values = self.shared_loss.shared_values(scale * own, others)
        return (
            values
            if self.thresholds is None
            else values * self.thresholds.weights(block.query_ids, own)
        )

    # --- checkpoints ---

    def arrays(self) -> State:
        """Return the embeddings, and the sums of Adagrad or the moments of Adam."""
        state = super().arrays()
        for name, adam in self.adam.items():
            state |= under(f"adam_{name}", adam.state())
        if self.thresholds is not None:
            state |= under("thresholds", self.thresholds.state())
        return state

    def restore_arrays(self, arrays: State) -> None:
        """Restore what `arrays` returned."""
        if self.own is not None:
            self.own = arrays["U"].copy()
        super().restore_arrays(arrays)
        self.update_model()
        for name, adam in self.adam.items():
            adam.restore(section(arrays, f"adam_{name}"))
        if self.thresholds is not None:
            self.thresholds.restore(section(arrays, "thresholds"))


def _through_norm(gradient: Singles, unit: Singles, norms: Singles) -> Singles:
    """Return the gradients by vectors from those by the vectors over their norms."""
    along = row_dots(gradient, unit)
    through = (gradient - along[:, None] * unit) / norms[:, None]
    return through.astype(np.float32, copy=False)


def _losses(gradients: SharedGradients) -> Floats:
    """Return numbers that are finite if, and only if, scores and slopes are."""
    return (gradients.scores + gradients.positive_slopes + gradients.totals).astype(np.float64)
