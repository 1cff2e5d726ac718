"""The steps of SGD on the weights of a diagonal model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

import numpy as np
import scipy.sparse as sp

from ranking.contracts.solver import State, TrainingProblem
from ranking.data.matching_data import MatchingData
from ranking.errors import CombinationError
from ranking.kernels.bilinear import BilinearInputs, BilinearWeights
from ranking.models.bilinear import Diagonal
from ranking_plugins.solvers.bilinear_steps import PYTHON_BATCH, BilinearSteps
from ranking_plugins.solvers.penalty import Penalty
from ranking_plugins.solvers.steps import Floats, Ints, Source

if TYPE_CHECKING:
    from ranking_plugins.solvers.sgd import SGD

ROWS = 32768
"""Rows of products that are computed at a time."""


class DiagonalSteps(BilinearSteps):
    """Steps on w, where q' W d with the diagonal w is w . (q * d).

    So w is a W of one column, for documents q * d and a query whose only feature is 1. All its
    entries may change, also those that a penalty has set to 0. Products are computed for the
    queries and documents that were sampled, and the shared features alone.

    Attributes
    ----------
    at_row, at_column : int64 arrays
        The positions of the shared features among those of queries and of documents.
    """

    def __init__(self, solver: SGD, problem: TrainingProblem) -> None:
        self.at_row = self.at_column = np.zeros(0, np.int64)
        super().__init__(solver, problem)

    def _check_trainable(self) -> None:
        if self.is_partial:
            raise CombinationError(
                f"model {self.model.name!r} has weights of shared features only, and "
                f"trainable={self.model.trainable} keeps those; use trainable=all, or model "
                "bilinear."
            )

    @property
    def transposed(self) -> bool:
        """Whether W is trained with one row per document feature: always."""
        return True

    @property
    def grows(self) -> bool:
        """Whether steps may change weights that are 0."""
        return not self.refitting

    def _set_inputs(self) -> None:
        """Append the features that are shared now; the others keep their places."""
        at_row, at_column = cast(Diagonal, self.model).shared_features()
        new = ~np.isin(at_row, self.at_row)
        self.at_row = np.concatenate((self.at_row, at_row[new]))
        self.at_column = np.concatenate((self.at_column, at_column[new]))
        queries, documents = self.model.aligned(self.data)
        self._queries = sp.csr_array(queries[:, self.at_row])
        self._documents = sp.csr_array(documents[:, self.at_column])
        for rows in (self._queries, self._documents):
            rows.sort_indices()

    def _begin(self) -> BilinearWeights:
        column = self._column()
        group = self.penalty.group
        if group is None or self.refitting:
            return BilinearWeights(self.problem.kernel, column)
        groups = group.groups[self.at_column if group.columns else self.at_row]
        return BilinearWeights(
            self.problem.kernel, column, np.ascontiguousarray(groups), group.weights
        )

    def _column(self) -> sp.csr_array:
        """Return the weights of the model as a matrix of one column, without zeros."""
        values = self.model.weights[self.at_row, self.at_column]
        dense = np.asarray(values.todense() if sp.issparse(values) else values).reshape(-1, 1)
        return sp.csr_array(dense.astype(self.model.dtype))

    def set_data(self, data: MatchingData) -> None:
        """Continue with other data; add weights for features that are shared now."""
        self._refuse_groups(data)
        self.update_model()
        known = self.at_row.size
        self.model.add_features(data, self.problem.kernel)
        self.data = data
        self._set_inputs()
        if self.at_row.size > known:
            self.weights = self.weights.expand(self._column())
            if self.penalty.structure is not None:
                self.penalty = self._penalty(self.problem.regularizer)
        self.rank_weights = self._rank_weights()

    def begin_refit(self) -> None:
        """Restart from the result, without a penalty; zeros stay zero."""
        self.update_model()
        self.refitting = True
        self.penalty, self.prox_between_calls = Penalty(None, self.model), False
        self.weights = self._begin()

    def margins(self, source: Source) -> tuple[Floats, Floats]:
        """Return margins and violation weights at the current weights."""
        assert isinstance(source, np.ndarray)
        margins, weights = np.empty(source.shape[0]), np.empty(source.shape[0])
        for part in self._parts(source):
            margins[part], weights[part] = super().margins(self._with_products(source[part]))
        return margins, weights

    def with_one_positive(self, source: Source) -> Ints:
        """Return triplets of query, positive and all negatives; of several positives, one."""
        triplets = cast(Ints, source)
        if self.problem.loss.positives[0] == 1:
            return triplets
        selected = np.empty((triplets.shape[0], 2 + self.n_negatives), np.int64)
        for part in self._parts(triplets):
            local = self._with_products(triplets[part])
            columns = super().with_one_positive(local)[:, 1:] - local[:, 1:2]
            selected[part, 0] = triplets[part, 0]
            selected[part, 1:] = np.take_along_axis(triplets[part, 1:], columns, axis=1)
        return selected

    def all_margins(self, triplets: Ints) -> Floats:
        """Return the margins to the negatives of each triplet at the current weights."""
        margins = np.empty((triplets.shape[0], triplets.shape[1] - 2))
        for part in self._parts(triplets):
            margins[part] = super().all_margins(self._with_products(triplets[part]))
        return margins

    def _train(self, triplets: Ints, eta: Floats) -> tuple[Floats, Floats]:
        margins, weights = np.empty(eta.size), np.empty(eta.size)
        for part in self._parts(triplets):
            local = self._with_products(triplets[part])
            margins[part], weights[part] = super()._train(local, eta[part])
        return margins, weights

    def _parts(self, triplets: Ints) -> Iterator[slice]:
        """Yield parts of whole batches."""
        batch = PYTHON_BATCH if self.solver.batch_size == "auto" else int(self.solver.batch_size)
        size = max(ROWS // ((triplets.shape[1] - 1) * batch), 1) * batch
        for start in range(0, triplets.shape[0], size):
            yield slice(start, min(start + size, triplets.shape[0]))

    def _with_products(self, triplets: Ints) -> Ints:
        """Compute the products of some triplets; return the triplets of their positions."""
        count, width = triplets.shape[0], triplets.shape[1] - 1
        queries = self._queries[np.repeat(triplets[:, 0], width)]
        products = sp.csr_array(queries.multiply(self._documents[triplets[:, 1:].ravel()]))
        products.sort_indices()
        self.inputs = BilinearInputs(sp.csr_array(np.ones((1, 1))), products, self.data.n_documents)
        self.changed = self.inputs
        local: Ints = np.zeros((count, 1 + width), np.int64)
        local[:, 1:] = np.arange(count * width).reshape(count, width)
        return local

    def _shrink(self, rate: float) -> None:
        """Apply a penalty that no kernel has; one of features takes the matrix of the model."""
        if self.penalty.structure is None:
            super()._shrink(rate)
            return
        self.update_model()
        self.model.weights = self.penalty.prox(self.model.weights, rate)
        self.weights = BilinearWeights(self.problem.kernel, self._column())

    def update_model(self) -> None:
        """Copy the weights to the model."""
        column = self.weights.weights().tocoo()
        at = column.coords[0]
        entries = column.data, (self.at_row[at], self.at_column[at])
        shape = self.model.query_feature_ids.size, self.model.document_feature_ids.size
        self.model.weights = sp.csr_array(sp.coo_array(entries, shape=shape))

    def restore_arrays(self, arrays: State) -> None:
        """Restore what `arrays` returned."""
        self.penalty = Penalty(None if self.refitting else self.problem.regularizer, self.model)
        self.prox_between_calls = self.penalty.prox_between_calls
        self.weights = BilinearWeights.restore(self.problem.kernel, 1, arrays)
