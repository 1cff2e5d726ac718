"""Reference of the bilinear family: training and scores of W.

W is a dense array here, so this is for small problems; the compiled kernels store what is not
zero, and return the same bits.
"""

from __future__ import annotations

import math

import numpy as np

from ranking.kernels.contract import (
    REBASE_WINDOW,
    RESUM,
    SMALLEST_SCALE,
    BilinearFeatures,
    BilinearState,
    Csr,
    Execution,
    Floats,
    Ints,
    PairwiseForm,
    PairwiseLoss,
    PassiveResults,
    ShrinkageState,
    StepResults,
    UpdateRule,
    Violations,
)
from ranking.kernels.reference.pairwise import pairwise_slope
from ranking.kernels.reference.random import lane_sum, running_sum

STEP, SCALE, THRESHOLD, LEARNING_RATES = ShrinkageState

Vector = tuple[Ints, Floats]
"""A sparse vector: rising indices, and values."""


def row_of(matrix: Csr, row: int) -> Vector:
    """Return the columns and, widened, the values of a row."""
    entries = slice(int(matrix.indptr[row]), int(matrix.indptr[row + 1]))
    return matrix.indices[entries].astype(np.int64), matrix.data[entries].astype(np.float64)


def difference(one: Vector, other: Vector) -> Vector:
    """Return one - other, without entries that cancel."""
    columns = np.union1d(one[0], other[0])
    values = np.zeros(columns.size)
    values[np.searchsorted(columns, one[0])] = one[1]
    values[np.searchsorted(columns, other[0])] -= other[1]
    return columns[values != 0.0], values[values != 0.0]


class BilinearStore:
    """W while it is trained; an entry that is 0.0 is not stored."""

    def __init__(self, n_columns: int, state: BilinearState) -> None:
        indptr, indices, data = state.weights
        self.v = np.zeros((indptr.size - 1, n_columns), data.dtype)
        self.v[np.repeat(np.arange(indptr.size - 1), np.diff(indptr)), indices] = data
        self.rows = state.row_state.copy()
        self.groups, self.group_weights = state.groups.copy(), state.group_weights.copy()
        self.group_state = state.group_state.copy()

    # --- reading ---

    def fraction(self, group: int, shrinkage: Floats) -> float:
        """Return what is left of a group's norm after the pending shrinkage."""
        _, square, _, since = self.group_state[group].tolist()
        norm = math.sqrt(square)
        loss = float(self.group_weights[group]) * (float(shrinkage[THRESHOLD]) - since)
        return (norm - loss) / norm if norm > loss else 0.0

    def shrinkage_of(self, row: int, shrinkage: Floats) -> tuple[float, float]:
        """Return k and s of a row: an entry stored as v is sign(v) k max(|v| - s, 0)."""
        if self.groups.size:
            group = int(self.groups[row])
            return float(self.group_state[group, 0]) * self.fraction(group, shrinkage), 0.0
        scale, threshold = float(self.rows[row, 0]), float(self.rows[row, 1])
        k = float(shrinkage[SCALE]) / scale
        return k, (float(shrinkage[THRESHOLD]) - threshold) * scale

    def weights(self, row: int, columns: Ints | slice, shrinkage: Floats) -> Floats:
        """Return the current weights of a row."""
        k, s = self.shrinkage_of(row, shrinkage)
        v = self.v[row, columns].astype(np.float64)
        left = np.abs(v) - s
        return np.where(left > 0.0, np.copysign(k * left, v), 0.0)

    def score(self, left: Vector, right: Vector, shrinkage: Floats) -> float:
        """Return left' W right."""
        total = 0.0
        for row, a in zip(left[0].tolist(), left[1].tolist(), strict=True):
            total += a * lane_sum(self.weights(row, right[0], shrinkage) * right[1])
        return total

    def squares(self, left: Vector, right: Vector, shrinkage: Floats, grow: bool) -> float:
        """Return the sum of (left right')**2; without `grow`, over stored entries."""
        a, b = left[1] * left[1], right[1] * right[1]
        if grow:
            return running_sum(a) * running_sum(b)
        total = 0.0
        for row, square in zip(left[0].tolist(), a.tolist(), strict=True):
            stored = (
                np.abs(self.v[row, right[0]].astype(np.float64))
                > self.shrinkage_of(row, shrinkage)[1]
            )
            total += square * running_sum(b[stored])
        return total

    # --- writing ---

    def rebase(self, row: int, shrinkage: Floats) -> None:
        """Store the weights of a row as they are now, with a new origin."""
        self.v[row] = self.weights(row, slice(None), shrinkage)
        self.rows[row, 0], self.rows[row, 1] = shrinkage[SCALE], shrinkage[THRESHOLD]

    def apply_pending(self, group: int, shrinkage: Floats) -> None:
        """Apply pending shrinkage to a group; a group that has shrunk to zero is cleared."""
        state = self.group_state[group]
        if state[3] == shrinkage[THRESHOLD]:
            return
        f = self.fraction(group, shrinkage)
        rows = np.flatnonzero(self.groups == group)
        if f == 0.0:
            self.v[rows] = 0.0
            state[:3] = 1.0, 0.0, 0.0
        else:
            state[:3] = state[0] * f, state[1] * (f * f), state[2] * (f * f)
            if state[0] < SMALLEST_SCALE:
                self.v[rows] = self.v[rows].astype(np.float64) * state[0]
                state[0] = 1.0
        state[3] = shrinkage[THRESHOLD]

    def square(self, group: int) -> float:
        """Return the sum of an up-to-date group's squares, by rows and then columns, one by one."""
        total, k = 0.0, float(self.group_state[group, 0])
        for row in np.flatnonzero(self.groups == group):
            for v in self.v[row][self.v[row] != 0.0].tolist():
                w = k * v
                total += w * w
        return total

    def add(
        self, left: Vector, right: Vector, factor: float, shrinkage: Floats, grow: bool
    ) -> None:
        """Take factor * left right' from W; without `grow`, only from stored entries."""
        for row, a in zip(left[0].tolist(), left[1].tolist(), strict=True):
            if self.groups.size:
                self.apply_pending(int(self.groups[row]), shrinkage)
            elif self.rows[row, 2] != shrinkage[STEP] // REBASE_WINDOW:
                self.rebase(row, shrinkage)
                self.rows[row, 2] = shrinkage[STEP] // REBASE_WINDOW
            k, s = (
                self.shrinkage_of(row, shrinkage)
                if not self.groups.size
                else self.group_shrinkage(row)
            )
            columns, b = right
            old = self.v[row, columns].astype(np.float64)
            there = np.abs(old) > s
            w = np.where(there, np.copysign(k * (np.abs(old) - s), old), 0.0)
            new = w - (factor * a) * b
            stored = np.where(new != 0.0, new / k + np.copysign(s, new), 0.0)
            moved = there | grow
            self.v[row, columns[moved]] = stored[moved]
            if self.groups.size:
                self.count_change(int(self.groups[row]), w[moved], new[moved])

    def group_shrinkage(self, row: int) -> tuple[float, float]:
        """Return k and s of a row whose group has no pending shrinkage."""
        return float(self.group_state[self.groups[row], 0]), 0.0

    def count_change(self, group: int, before: Floats, after: Floats) -> None:
        """Let a group's square follow its entries; sum it from scratch where it has lost digits."""
        state = self.group_state[group]
        change = 0.0
        for w, new in zip(before.tolist(), after.tolist(), strict=True):
            change += new * new - w * w
        state[1] += change
        state[2] = max(state[1], state[2])
        if state[1] < state[2] * RESUM:
            state[1] = state[2] = self.square(group)

    def end_step(self, learning_rate: float, rule: UpdateRule, shrinkage: Floats) -> None:
        """End a step; after every prox_interval steps, apply the penalty of those steps."""
        shrinkage[LEARNING_RATES] += learning_rate
        if shrinkage[STEP] % rule.prox_interval:
            return
        due = float(shrinkage[LEARNING_RATES])
        shrinkage[LEARNING_RATES] = 0.0
        shrinkage[THRESHOLD] += (rule.l1 * due) / shrinkage[SCALE]
        shrinkage[SCALE] /= 1.0 + rule.l2 * due
        if shrinkage[SCALE] < SMALLEST_SCALE:
            for row in range(self.v.shape[0]):
                self.rebase(row, shrinkage)
            shrinkage[SCALE], shrinkage[THRESHOLD] = 1.0, 0.0
            self.rows[:, 0], self.rows[:, 1] = 1.0, 0.0

    # --- what the contract lists ---

    def search(
        self,
        features: BilinearFeatures,
        triplet: Ints,
        rank_weights: Floats,
        n_documents: int,
        shrinkage: Floats,
    ) -> tuple[float, float, int]:
        """Return margin, weight and negative of a triplet."""
        query = row_of(features.queries, int(triplet[0]))
        positive = row_of(features.documents, int(triplet[1]))
        if triplet.size == 3:
            delta = difference(positive, row_of(features.documents, int(triplet[2])))
            margin = self.score(*sides(features, query, delta), shrinkage)
            rank = min(n_documents - 1, rank_weights.size - 1)
            return margin, float(rank_weights[rank]), int(triplet[2])
        high = self.score(*sides(features, query, positive), shrinkage)
        margin = 0.0
        for trial in range(1, triplet.size - 1):
            negative = row_of(features.documents, int(triplet[1 + trial]))
            margin = high - self.score(*sides(features, query, negative), shrinkage)
            if margin < 1.0:
                rank = min((n_documents - 1) // trial, rank_weights.size - 1)
                return margin, float(rank_weights[rank]), int(triplet[1 + trial])
        return margin, 0.0, int(triplet[-1])

    def margins(
        self,
        features: BilinearFeatures,
        triplets: Ints,
        loss: PairwiseLoss,
        shrinkage: Floats,
        out: Violations,
        threads: int,
    ) -> None:
        """Sample the negative of each triplet at the current W."""
        ranks = loss.rank_weights.astype(np.float64)
        for step, triplet in enumerate(triplets):
            out.margins[step], out.weights[step], out.negatives[step] = self.search(
                features, triplet, ranks, loss.n_documents, shrinkage
            )

    def update(
        self,
        features: BilinearFeatures,
        triplets: Ints,
        slopes: Floats,
        learning_rates: Floats,
        rule: UpdateRule,
        shrinkage: Floats,
        threads: int,
    ) -> None:
        """Take steps with known slopes, in order."""
        for step, (query, positive, negative) in enumerate(triplets.tolist()):
            shrinkage[STEP] += 1.0
            factor = float(learning_rates[step]) * float(slopes[step])
            if factor != 0.0:
                delta = difference(
                    row_of(features.documents, positive), row_of(features.documents, negative)
                )
                left, right = sides(features, row_of(features.queries, query), delta)
                self.add(left, right, factor, shrinkage, rule.grow)
            self.end_step(float(learning_rates[step]), rule, shrinkage)

    def train(
        self,
        features: BilinearFeatures,
        triplets: Ints,
        learning_rates: Floats,
        loss: PairwiseLoss,
        rule: UpdateRule,
        shrinkage: Floats,
        out: StepResults[Floats],
        execution: Execution,
    ) -> None:
        """Take the margins of a batch at its start, then its steps in order."""
        for start in range(0, triplets.shape[0], execution.batch_size):
            part = slice(start, min(start + execution.batch_size, triplets.shape[0]))
            results = Violations(
                np.empty(part.stop - start),
                np.empty(part.stop - start),
                np.empty(part.stop - start, np.int64),
            )
            self.margins(features, triplets[part], loss, shrinkage, results, execution.threads)
            out.margins[part], out.weights[part] = results.margins, results.weights
            slopes = np.array([pairwise_slope(loss, margin) for margin in results.margins])
            selected = np.column_stack((triplets[part, :2], results.negatives))
            self.update(
                features, selected, results.weights * slopes, learning_rates[part], rule, shrinkage,
                execution.threads,
            )  # fmt: skip

    def passive_aggressive(
        self,
        features: BilinearFeatures,
        triplets: Ints,
        list_sizes: Ints,
        loss: PairwiseLoss,
        aggressiveness: float,
        grow: bool,
        shrinkage: Floats,
        out: PassiveResults,
    ) -> None:
        """Take passive-aggressive steps one by one."""
        ranks = loss.rank_weights.astype(np.float64)
        for step, triplet in enumerate(triplets):
            out.margins[step], out.weights[step], negative = self.search(
                features, triplet, ranks, int(list_sizes[step]), shrinkage
            )
            delta = difference(
                row_of(features.documents, int(triplet[1])), row_of(features.documents, negative)
            )
            left, right = sides(features, row_of(features.queries, int(triplet[0])), delta)
            n = self.squares(left, right, shrinkage, grow)
            most = aggressiveness * out.weights[step]
            rate = passive_rate(loss.form, out.margins[step], n, most)
            out.learning_rates[step] = rate
            shrinkage[STEP] += 1.0
            if rate != 0.0:
                self.add(left, right, -rate, shrinkage, grow)
            self.end_step(rate, UpdateRule(1, 0.0, 0.0, grow), shrinkage)

    def counts(self, shrinkage: Floats, out: Ints) -> None:
        """Count the current non-zeros of each row."""
        for row in range(out.size):
            out[row] = np.count_nonzero(self.weights(row, slice(None), shrinkage))

    def export(self, shrinkage: Floats, out: Csr, current: bool) -> None:
        """Write the current non-zeros, by row and column."""
        for row in range(out.indptr.size - 1):
            weights = self.weights(row, slice(None), shrinkage)
            columns = np.flatnonzero(weights)
            part = slice(int(out.indptr[row]), int(out.indptr[row + 1]))
            out.indices[part] = columns
            out.data[part] = weights[columns] if current else self.v[row, columns]

    def state(self, row_state: Floats, group_state: Floats) -> None:
        """Write the states of rows and groups."""
        row_state[:] = self.rows
        group_state[:] = self.group_state

    def memory(self) -> int:
        """Return the bytes of W."""
        return self.v.nbytes


bilinear_store = BilinearStore


def sides(features: BilinearFeatures, query: Vector, document: Vector) -> tuple[Vector, Vector]:
    """Return what stands on the left and on the right of W."""
    return (document, query) if features.transposed else (query, document)


def passive_rate(form: int, margin: np.float64, n: float, most: np.float64) -> float:
    """Return the tau of least tau**2 n / 2 + most * loss(margin + tau n)."""
    if not margin < 1.0 or n == 0.0:
        return 0.0
    slack = np.float64(0.0)
    with np.errstate(over="ignore", divide="ignore"):
        if form == PairwiseForm.SQUARED_HINGE:
            slack, most = 1.0 / (2.0 * most), np.float64(np.inf)
        rate = (1.0 - margin) / (n + slack)
    return float(rate if rate < most else most)


def bilinear_scores(
    queries: Csr, weights: Csr, documents: Csr, n_columns: int, out: Floats, threads: int
) -> None:
    """Compute a query's image under W, then its product with each document, in stored order."""
    for query in range(out.shape[0]):
        image = np.zeros(n_columns)
        for row, a in zip(*(part.tolist() for part in row_of(queries, query)), strict=True):
            columns, values = row_of(weights, row)
            image[columns] += a * values
        for document in range(out.shape[1]):
            total = 0.0
            entries = (part.tolist() for part in row_of(documents, document))
            for j, d in zip(*entries, strict=True):
                total += d * float(image[j])
            out[query, document] = total


def dense_train(
    w: Floats,
    features: BilinearFeatures,
    triplets: Ints,
    learning_rates: Floats,
    loss: PairwiseLoss,
    rule: UpdateRule,
) -> None:
    """Run Algorithm 1 of the paper as it is written, on a dense W that changes in place.

    After every prox_interval steps all of W is shrunk by the penalty of those steps. The store
    must reach the same weights, up to rounding: tests compare them.
    """
    due = 0.0
    for step, (query, positive, negative) in enumerate(triplets.tolist(), start=1):
        rows, a = row_of(features.queries, query)
        columns, b = difference(
            row_of(features.documents, positive), row_of(features.documents, negative)
        )
        block = np.ix_(rows, columns)
        margin = np.float64(a @ w[block].astype(np.float64) @ b)
        rate = float(learning_rates[step - 1])
        w[block] -= (rate * float(pairwise_slope(loss, margin))) * np.outer(a, b)
        due += rate
        if step % rule.prox_interval == 0:
            shrunk = np.abs(w) - rule.l1 * due
            w[:] = np.where(shrunk > 0.0, np.copysign(shrunk / (1.0 + rule.l2 * due), w), 0.0)
            due = 0.0
