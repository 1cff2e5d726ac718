"""Training and scores of the bilinear model, with checked arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ranking.kernels.contract import (
    BilinearFamily,
    BilinearFeatures,
    BilinearState,
    BilinearStore,
    Csr,
    Execution,
    Floats,
    Ints,
    PairwiseForm,
    PassiveResults,
    ShrinkageState,
    StepResults,
    UpdateRule,
    Violations,
)
from ranking.kernels.pairwise import TrainingLoss
from ranking.kernels.validation import (
    check_array,
    check_below,
    check_compressed,
    check_finite,
    check_no_overlap,
    check_not_negative,
    csr_arrays,
    validate_count,
    validate_execution,
    validate_threads,
)

if TYPE_CHECKING:
    from ranking.kernels.kernel import Kernel

MAX_COLUMNS = 2**31 - 1
HINGE = TrainingLoss()
RULE = UpdateRule()
SERIAL = Execution()


class BilinearKernel:
    """Scores of the bilinear model; `BilinearWeights` trains it."""

    def __init__(self, implementation: BilinearFamily) -> None:
        self.implementation = implementation

    def scores(
        self,
        queries: sp.csr_array,
        weights: sp.csr_array,
        documents: sp.csr_array,
        threads: int = 1,
    ) -> Floats:
        """Return q' W d for each query and document."""
        _check_shapes(weights.shape, queries.shape[1], documents.shape[1])
        out = np.empty((queries.shape[0], documents.shape[0]))
        self.implementation.bilinear_scores(
            csr_arrays("queries", queries),
            csr_arrays("weights", weights),
            csr_arrays("documents", documents),
            weights.shape[1],
            out,
            validate_threads(threads),
        )
        return out


class BilinearInputs:
    """Queries and documents by their sparse features, checked once.

    Parameters
    ----------
    queries, documents : csr_array
        One row per query or document, indices sorted, no duplicates.
    n_ranked : int, optional
        The number of documents that a rank is among; by default that of the documents.
    """

    def __init__(
        self, queries: sp.csr_array, documents: sp.csr_array, n_ranked: int | None = None
    ) -> None:
        self.queries = csr_arrays("queries", queries)
        self.documents = csr_arrays("documents", documents)
        self.n_queries, self.n_query_features = queries.shape
        self.n_documents, self.n_document_features = documents.shape
        self.n_ranked = self.n_documents if n_ranked is None else n_ranked
        check_finite(queries=queries.data, documents=documents.data)

    def features(
        self, triplets: Ints, shape: tuple[int, int], transposed: bool
    ) -> BilinearFeatures:
        """Return the features for a W of this shape; refuse triplets outside of these inputs."""
        widths = (self.n_query_features, self.n_document_features)
        _check_shapes(shape[::-1] if transposed else shape, *widths)
        check_triplets(triplets, self.n_queries, self.n_documents)
        return BilinearFeatures(self.queries, self.documents, bool(transposed))


class BilinearWeights:
    """W while a kernel trains it; see :mod:`ranking.kernels.contract.bilinear`.

    With `transposed`, W has one row per document feature instead of one per query feature.

    Parameters
    ----------
    kernel : Kernel
    weights : csr_array of float32 or float64
        The first values; their dtype is that in which W is stored.
    groups : int64 array, optional
        The group of each row, from 0, for a group penalty.
    group_weights : float64 array, optional
        One per group.

    Attributes
    ----------
    shrinkage : float64 array
        Steps, running scale and threshold, learning rates since the penalty was last applied.
    """

    def __init__(
        self,
        kernel: Kernel,
        weights: sp.csr_array,
        groups: Ints | None = None,
        group_weights: Floats | None = None,
    ) -> None:
        indptr, indices, data = csr_arrays("weights", weights)
        rows = weights.shape[0]
        groups = np.zeros(0, np.int64) if groups is None else groups
        group_weights = np.zeros(0) if group_weights is None else group_weights
        group_state = np.zeros((group_weights.size, 4))
        if groups.size:
            check_array("groups", groups, ("int64",), (rows,))
            check_below("groups", groups, group_weights.size)
            square = np.zeros(group_weights.size)
            np.add.at(square, np.repeat(groups, np.diff(indptr)), data.astype(np.float64) ** 2)
            group_state[:, 0], group_state[:, 1], group_state[:, 2] = 1.0, square, square
        row_state = np.tile([1.0, 0.0, 0.0], (rows, 1))
        state = BilinearState(
            Csr(indptr, indices, data), row_state, groups, group_weights, group_state
        )
        self._start(kernel, weights.shape[1], state, np.array([0.0, 1.0, 0.0, 0.0]))

    def _start(
        self, kernel: Kernel, n_columns: int, state: BilinearState, shrinkage: Floats
    ) -> None:
        _check_state(state, n_columns, shrinkage)
        indptr, indices, data = state.weights
        self.kernel, self.shrinkage = kernel, shrinkage
        self.shape, self.dtype = (indptr.size - 1, n_columns), data.dtype
        self.groups, self.group_weights = state.groups, state.group_weights
        stored = Csr(
            indptr.astype(np.int64, copy=False), indices.astype(np.int32, copy=False), data
        )
        self.store: BilinearStore = kernel.bilinear.implementation.bilinear_store(
            n_columns, state._replace(weights=stored)
        )

    def train(
        self,
        inputs: BilinearInputs,
        triplets: Ints,
        learning_rates: Floats,
        *,
        loss: TrainingLoss = HINGE,
        rule: UpdateRule = RULE,
        transposed: bool = False,
        execution: Execution = SERIAL,
    ) -> StepResults[Floats]:
        """Take one step per triplet; return margins and violation weights."""
        features = inputs.features(triplets, self.shape, transposed)
        rule = self._validate_rule(triplets, learning_rates, rule)
        out = StepResults(np.empty(triplets.shape[0]), np.empty(triplets.shape[0]))
        self.store.train(
            features,
            triplets,
            learning_rates,
            loss.for_kernel("float64", inputs.n_ranked),
            rule,
            self.shrinkage,
            out,
            validate_execution(execution),
        )
        return out

    def passive_aggressive(
        self,
        inputs: BilinearInputs,
        triplets: Ints,
        aggressiveness: float,
        *,
        loss: TrainingLoss = HINGE,
        list_sizes: Ints | None = None,
        grow: bool = True,
        transposed: bool = False,
    ) -> PassiveResults:
        """Take one passive-aggressive step per triplet, in order.

        Parameters
        ----------
        list_sizes : int64 array, optional
            Number of documents that are ranked, for each triplet; by default all.
        """
        features = inputs.features(triplets, self.shape, transposed)
        form = PairwiseForm(loss.form)
        if form not in (PairwiseForm.HINGE, PairwiseForm.SQUARED_HINGE):
            raise ValueError(
                f"form {form.name} has no passive-aggressive step; the hinge and its square have."
            )
        steps = triplets.shape[0]
        kernel_loss = loss.for_kernel("float64", inputs.n_ranked)
        if (kernel_loss.rank_weights < 0.0).any():
            raise ValueError("rank_weights must not be negative: a step would go the wrong way.")
        if list_sizes is None:
            list_sizes = np.full(steps, inputs.n_ranked, np.int64)
        check_array("list_sizes", list_sizes, ("int64",), (steps,))
        if (list_sizes < 1).any():
            raise ValueError("list_sizes must be at least 1.")
        if not 0.0 < aggressiveness < np.inf:
            raise ValueError(
                f"aggressiveness is {aggressiveness}; it must be a finite number above 0."
            )
        if self.groups.size:
            raise ValueError("passive-aggressive steps have no penalty; leave the groups out.")
        out = PassiveResults(np.empty(steps), np.empty(steps), np.empty(steps))
        self.store.passive_aggressive(
            features,
            triplets,
            list_sizes,
            kernel_loss,
            float(aggressiveness),
            bool(grow),
            self.shrinkage,
            out,
        )
        return out

    def margins(
        self, inputs: BilinearInputs, triplets: Ints, *, transposed: bool = False, threads: int = 1
    ) -> Floats:
        """Return the margin of each triplet with its first negative, at this W."""
        inputs.features(triplets, self.shape, transposed)
        first = np.ascontiguousarray(triplets[:, :3])
        return self.violations(inputs, first, transposed=transposed, threads=threads).margins

    def violations(
        self,
        inputs: BilinearInputs,
        triplets: Ints,
        *,
        rank_weights: Floats | None = None,
        transposed: bool = False,
        threads: int = 1,
    ) -> Violations:
        """Sample negatives until one violates the margin, at this W."""
        features = inputs.features(triplets, self.shape, transposed)
        steps = triplets.shape[0]
        out = Violations(np.empty(steps), np.empty(steps), np.empty(steps, np.int64))
        loss = TrainingLoss(rank_weights=rank_weights).for_kernel("float64", inputs.n_ranked)
        self.store.margins(features, triplets, loss, self.shrinkage, out, validate_threads(threads))
        return out

    def update(
        self,
        inputs: BilinearInputs,
        triplets: Ints,
        slopes: Floats,
        learning_rates: Floats,
        *,
        rule: UpdateRule = RULE,
        transposed: bool = False,
        threads: int = 1,
    ) -> None:
        """Take one step per triplet, with its first negative and a known slope."""
        features = inputs.features(triplets, self.shape, transposed)
        rule = self._validate_rule(triplets, learning_rates, rule)
        check_array("slopes", slopes, ("float64",), (triplets.shape[0],))
        self.store.update(
            features,
            np.ascontiguousarray(triplets[:, :3]),
            slopes,
            learning_rates,
            rule,
            self.shrinkage,
            validate_threads(threads),
        )

    def _validate_rule(
        self, triplets: Ints, learning_rates: Floats, rule: UpdateRule
    ) -> UpdateRule:
        check_array("learning_rates", learning_rates, ("float64",), (triplets.shape[0],))
        if not ((learning_rates >= 0.0) & (learning_rates < np.inf)).all():
            raise ValueError("learning_rates must be finite and not negative.")
        interval = validate_count("prox_interval", rule.prox_interval)
        check_not_negative(l1=rule.l1, l2=rule.l2)
        if self.groups.size and rule.l2:
            raise ValueError(f"l2 is {rule.l2}; it must be 0 together with a group penalty.")
        check_no_overlap({"shrinkage": self.shrinkage}, {"learning_rates": learning_rates})
        return UpdateRule(interval, float(rule.l1), float(rule.l2), bool(rule.grow))

    def weights(self) -> sp.csr_array:
        """Return the current weights, without zeros."""
        return self._csr(current=True)

    def _csr(self, current: bool) -> sp.csr_array:
        indptr = np.concatenate(([0], np.cumsum(self._counts())))
        indices = np.empty(indptr[-1], dtype=np.int32)
        data = np.empty(indptr[-1], dtype=self.dtype)
        self.store.export(self.shrinkage, Csr(indptr, indices, data), current)
        if indptr[-1] < 2**31:
            return sp.csr_array((data, indices, indptr.astype(np.int32)), shape=self.shape)
        return sp.csr_array((data, indices.astype(np.int64), indptr), shape=self.shape)

    def _counts(self) -> Ints:
        counts = np.empty(self.shape[0], dtype=np.int64)
        self.store.counts(self.shrinkage, counts)
        return counts

    @property
    def n_nonzero(self) -> int:
        """The number of weights that are not zero."""
        return int(self._counts().sum())

    def state(self) -> dict[str, NDArray[Any]]:
        """Return arrays from which `restore` continues with the same bits."""
        stored = self._csr(current=False)
        row_state = np.empty((self.shape[0], 3))
        group_state = np.empty((self.group_weights.size, 4))
        self.store.state(row_state, group_state)
        return {
            "indptr": stored.indptr,
            "indices": stored.indices,
            "values": stored.data,
            "row_state": row_state,
            "groups": self.groups,
            "group_weights": self.group_weights,
            "group_state": group_state,
            "shrinkage": self.shrinkage.copy(),
        }

    def expand(self, weights: sp.csr_array) -> BilinearWeights:
        """Return W with more rows and columns at its ends, and these weights in the new places.

        New rows start at the current shrinkage; the others continue unchanged.
        """
        if self.groups.size:
            raise ValueError("a group penalty weighs groups by their size, so W cannot grow.")
        state = self.state()
        shape = self.shape
        old = sp.csr_array(
            (state["values"], state["indices"], state["indptr"]), shape=shape
        ).tocoo()
        rows, columns = weights.tocoo().coords
        new = (rows >= shape[0]) | (columns >= shape[1])
        rows, columns, added = rows[new], columns[new], weights.tocoo().data[new].astype(np.float64)
        scale = self.shrinkage[ShrinkageState.SCALE]
        threshold = self.shrinkage[ShrinkageState.THRESHOLD]
        fresh = np.tile([scale, threshold, 0.0], (weights.shape[0] - shape[0], 1))
        row_state = np.concatenate((state["row_state"], fresh))
        k = scale / row_state[rows, 0]
        s = (threshold - row_state[rows, 1]) * row_state[rows, 0]
        stored = (added / k + np.copysign(s, added)).astype(self.dtype)
        coords = [np.concatenate(pair) for pair in zip(old.coords, (rows, columns), strict=True)]
        data = np.concatenate((old.data, stored))
        joined = sp.coo_array((data, tuple(coords)), shape=weights.shape).tocsr()
        state |= {"indptr": joined.indptr, "indices": joined.indices, "values": joined.data}
        return self.restore(self.kernel, weights.shape[1], {**state, "row_state": row_state})

    @classmethod
    def restore(cls, kernel: Kernel, n_columns: int, state: dict[str, NDArray[Any]]) -> Self:
        """Return W as it was when `state` was called."""
        arrays = dict(state)
        weights = Csr(arrays.pop("indptr"), arrays.pop("indices"), arrays.pop("values"))
        shrinkage = arrays.pop("shrinkage").copy()
        restored = cls.__new__(cls)
        restored._start(kernel, n_columns, BilinearState(weights, **arrays), shrinkage)
        return restored


def _check_state(state: BilinearState, n_columns: int, shrinkage: Floats) -> None:
    """Refuse the state of a W that training could not continue from."""
    rows = state.weights.indptr.size - 1
    if not 1 <= n_columns <= MAX_COLUMNS or not 1 <= rows <= MAX_COLUMNS:
        raise ValueError(f"W is {rows} x {n_columns}; it must be 1 x 1 to 2**31 - 1 each.")
    check_compressed(*state.weights, rows, n_columns, sorted_once=True)
    n_groups = state.group_weights.size
    check_array("row_state", state.row_state, ("float64",), (rows, 3))
    check_array("groups", state.groups, ("int64",), (rows if state.groups.size else 0,))
    check_array("group_weights", state.group_weights, ("float64",), (None,))
    check_array("group_state", state.group_state, ("float64",), (n_groups, 4))
    check_array("shrinkage", shrinkage, ("float64",), (4,))
    check_below("groups", state.groups, n_groups)
    check_finite(
        weights=state.weights.data,
        row_state=state.row_state,
        group_weights=state.group_weights,
        group_state=state.group_state,
        shrinkage=shrinkage,
    )
    scales = (state.row_state[:, 0], state.group_state[:, 0], shrinkage[1:2])
    if any(np.any(scale <= 0.0) for scale in scales) or np.any(state.group_state[:, 1:3] < 0.0):
        raise ValueError("the scales of W must be positive, its squares not negative.")
    if np.any(state.row_state[:, 1] > shrinkage[ShrinkageState.THRESHOLD]):
        raise ValueError(
            "a row of W was rebased later than its shrinkage state says; the state is damaged."
        )
    step = shrinkage[ShrinkageState.STEP]
    if step != np.floor(step) or step < 0.0:
        raise ValueError(f"the step of the shrinkage state is {step}; it must be a count.")


def _check_shapes(shape: tuple[int, int], n_query: int, n_document: int) -> None:
    if (n_query, n_document) != tuple(shape):
        raise ValueError(
            f"W is for {shape[0]} query and {shape[1]} document features, and queries have "
            f"{n_query}, documents {n_document}."
        )


def check_triplets(triplets: Ints, n_queries: int, n_documents: int, n_positives: int = 1) -> None:
    """Refuse triplets that are too narrow, or outside of the data."""
    check_array("triplets", triplets, ("int64",), (None, None))
    if triplets.shape[1] < 2 + n_positives:
        raise ValueError(
            f"triplets: expected shape (*, {2 + n_positives} or more), got {triplets.shape}: a "
            "query, its positives and at least one negative."
        )
    check_below("triplets' queries", triplets[:, 0], n_queries)
    check_below("triplets' documents", triplets[:, 1:], n_documents)
