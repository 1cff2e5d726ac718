"""The reference of the bilinear loops: drawing tuples, stepping, scoring.

It is the normative text for the order of operations (see "Bilinear" in
:mod:`ranking.kernels.contract`). It keeps W as a dense array, so it is for small problems; the
compiled kernels keep what is not zero, and return the same bits.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ranking.kernels._old_contract import (
    NO_CALL,
    RENEW,
    RESUM,
    SMALLEST_SCALE,
    Call,
    Clock,
    Features,
    Floats,
    Indices,
    Ints,
    MatchFields,
    PairForm,
)
from ranking.kernels.reference import exp_one, lane_sum, random_bits, running_sum
from ranking.kernels.reference_native import native_pair


class Csr(NamedTuple):
    """Three arrays of a CSR matrix."""

    indptr: Indices
    indices: Indices
    data: Features

    def row(self, row: int) -> tuple[Ints, Floats]:
        """Return the columns and, widened, the values of a row."""
        entries = slice(int(self.indptr[row]), int(self.indptr[row + 1]))
        return self.indices[entries].astype(np.int64), self.data[entries].astype(np.float64)


Vector = tuple[Ints, Floats]
"""A sparse vector: rising indices, and values."""


# --- tuples -------------------------------------------------------------------------------------


def _below(key: int, draw: int, bound: int) -> int:
    bits = np.empty(1, dtype=np.uint64)
    random_bits(key, draw, bits)
    return ((int(bits[0]) >> 32) * bound) >> 32


def _mixed(seed: int, number: int) -> int:
    bits = np.empty(1, dtype=np.uint64)
    random_bits(seed, number, bits)
    return int(bits[0])


def shuffled(seed: int, step: int, size: int) -> int:
    """Return the number that a step has: every pass over 0..size - 1 is an order of its own.

    A Feistel network of four rounds permutes the numbers of 2 h bits, h the smallest with
    2**(2 h) >= size; a number that is too large is sent through again.
    """
    key, number = _mixed(seed, step // size), step % size
    half = max(1, -(-(size - 1).bit_length() // 2))
    mask = (1 << half) - 1
    while True:
        high, low = number >> half, number & mask
        for turn in range(4):
            high, low = low, high ^ (_mixed(key, turn << 32 | low) >> 32 & mask)
        number = high << half | low
        if number < size:
            return number


def draw_tuples(seed: int, first: int, lists: MatchFields, positives: int, out: Ints) -> None:
    """Draw a query, one of its documents or more, and documents that are not its."""
    queries, query_sums, list_of, list_ptr, members, member_sums, itself, *_ = lists
    n_documents, any_other = lists[-2:]
    keys = np.empty(out.shape[0], dtype=np.uint64)
    random_bits(seed, first, keys)
    for step, key in enumerate(keys.tolist()):
        rest = -1
        if query_sums.size:
            number = shuffled(seed, first + step, int(query_sums[-1]))
            at = int(np.searchsorted(query_sums, number, side="right"))
            rest = number - (int(query_sums[at - 1]) if at else 0)
        else:
            at = _below(key, 0, queries.size)
        query = int(queries[at])
        part = slice(list_ptr[list_of[query]], list_ptr[list_of[query] + 1])
        own, me = members[part], int(itself[query])
        out[step, 0] = query
        for k in range(1, 1 + positives):
            bound = int(member_sums[part][-1]) if member_sums.size else own.size - (me >= 0)
            positive = rest if k == 1 and rest >= 0 else _below(key, k, bound)
            if member_sums.size:
                positive = int(np.searchsorted(member_sums[part], positive, side="right"))
            elif me >= 0 and positive >= int(np.searchsorted(own, me)):
                positive += 1
            out[step, k] = own[positive]
        # Never drawn: all that match, or, if any other document will do, the one that was drawn.
        barred = own if not any_other else np.unique([d for d in (me, out[step, 1]) if d >= 0])
        # barred[k] - k documents before barred[k] are free, so the u-th that is free is u + k.
        free_before = barred - np.arange(barred.size)
        for k in range(1 + positives, out.shape[1]):
            u = _below(key, k, n_documents - barred.size)
            out[step, k] = u + int(np.searchsorted(free_before, u, side="right"))


# --- the store ----------------------------------------------------------------------------------


def difference(one: Vector, other: Vector) -> Vector:
    """Return one - other, without entries that cancel."""
    columns = np.union1d(one[0], other[0])
    values = np.zeros(columns.size)
    values[np.searchsorted(columns, one[0])] = one[1]
    values[np.searchsorted(columns, other[0])] -= other[1]
    return columns[values != 0.0], values[values != 0.0]


def pair_slope(form: int, margin: float, slope: Call = NO_CALL) -> float:
    """Return the derivative of an inlined loss, or what a native one says."""
    if form == PairForm.NATIVE:
        return native_pair(slope, margin)
    if form == PairForm.LOGISTIC:
        return -1.0 / (1.0 + exp_one(margin))
    if not margin < 1.0:
        return 0.0
    return -1.0 if form == PairForm.HINGE else -2.0 * (1.0 - margin)


class BilinearStore:
    """W while it is trained; an entry that is 0.0 is not there."""

    def __init__(
        self,
        n_columns: int,
        indptr: Ints,
        indices: NDArray[np.int32],
        values: Features,
        row_state: Floats,
        groups: Ints,
        group_weights: Floats,
        group_state: Floats,
    ) -> None:
        self.v = np.zeros((indptr.size - 1, n_columns), values.dtype)
        self.v[np.repeat(np.arange(indptr.size - 1), np.diff(indptr)), indices] = values
        self.rows = row_state.copy()
        self.groups, self.group_weights = groups.copy(), group_weights.copy()
        self.group_state = group_state.copy()

    # --- reading ---

    def fraction(self, group: int, clock: Floats) -> float:
        """Return what is left of a group's norm after the shrinking since it was settled."""
        _, square, _, since = self.group_state[group].tolist()
        norm = math.sqrt(square)
        loss = float(self.group_weights[group]) * (float(clock[Clock.THRESHOLD]) - since)
        return (norm - loss) / norm if norm > loss else 0.0

    def lens(self, row: int, clock: Floats) -> tuple[float, float]:
        """Return k and s of a row: an entry stored as v is sign(v) k max(|v| - s, 0)."""
        if self.groups.size:
            group = int(self.groups[row])
            return float(self.group_state[group, 0]) * self.fraction(group, clock), 0.0
        scale, threshold = float(self.rows[row, 0]), float(self.rows[row, 1])
        k = float(clock[Clock.SCALE]) / scale
        return k, (float(clock[Clock.THRESHOLD]) - threshold) * scale

    def weights(self, row: int, columns: Ints | slice, clock: Floats) -> Floats:
        """Return the current weights of a row."""
        k, s = self.lens(row, clock)
        v = self.v[row, columns].astype(np.float64)
        left = np.abs(v) - s
        return np.where(left > 0.0, np.copysign(k * left, v), 0.0)

    def score(self, left: Vector, right: Vector, clock: Floats) -> float:
        """Return left' W right."""
        total = 0.0
        for row, a in zip(left[0].tolist(), left[1].tolist(), strict=True):
            total += a * lane_sum(self.weights(row, right[0], clock) * right[1])
        return total

    def squares(self, left: Vector, right: Vector, clock: Floats, grow: bool) -> float:
        """Return the sum of (left right')**2; without `grow`, over entries that are there."""
        a, b = left[1] * left[1], right[1] * right[1]
        if grow:
            return running_sum(a) * running_sum(b)
        total = 0.0
        for row, square in zip(left[0].tolist(), a.tolist(), strict=True):
            there = np.abs(self.v[row, right[0]].astype(np.float64)) > self.lens(row, clock)[1]
            total += square * running_sum(b[there])
        return total

    # --- writing ---

    def renew(self, row: int, clock: Floats) -> None:
        """Store the weights of a row as they are now."""
        self.v[row] = self.weights(row, slice(None), clock)
        self.rows[row, 0], self.rows[row, 1] = clock[Clock.SCALE], clock[Clock.THRESHOLD]

    def settle(self, group: int, clock: Floats) -> None:
        """Bring a group's scale and norm up to date; a group that has shrunk to zero is cleared."""
        state = self.group_state[group]
        if state[3] == clock[Clock.THRESHOLD]:
            return
        f = self.fraction(group, clock)
        rows = np.flatnonzero(self.groups == group)
        if f == 0.0:
            self.v[rows] = 0.0
            state[:3] = 1.0, 0.0, 0.0
        else:
            state[:3] = state[0] * f, state[1] * (f * f), state[2] * (f * f)
            if state[0] < SMALLEST_SCALE:
                self.v[rows] = self.v[rows].astype(np.float64) * state[0]
                state[0] = 1.0
        state[3] = clock[Clock.THRESHOLD]

    def square(self, group: int) -> float:
        """Return the sum of a settled group's squares, by rows and then columns, one by one."""
        total, k = 0.0, float(self.group_state[group, 0])
        for row in np.flatnonzero(self.groups == group):
            for v in self.v[row][self.v[row] != 0.0].tolist():
                w = k * v
                total += w * w
        return total

    def add(self, left: Vector, right: Vector, factor: float, clock: Floats, grow: bool) -> None:
        """Take factor * left right' from W; without `grow`, only from entries that are there."""
        for row, a in zip(left[0].tolist(), left[1].tolist(), strict=True):
            if self.groups.size:
                self.settle(int(self.groups[row]), clock)
            elif self.rows[row, 2] != clock[Clock.STEP] // RENEW:
                self.renew(row, clock)
                self.rows[row, 2] = clock[Clock.STEP] // RENEW
            k, s = self.lens(row, clock) if not self.groups.size else self.settled_lens(row)
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

    def settled_lens(self, row: int) -> tuple[float, float]:
        """Return the lens of a row whose group is settled."""
        return float(self.group_state[self.groups[row], 0]), 0.0

    def count_change(self, group: int, before: Floats, after: Floats) -> None:
        """Let a group's square follow its entries; sum it anew where it has lost its digits."""
        state = self.group_state[group]
        change = 0.0
        for w, new in zip(before.tolist(), after.tolist(), strict=True):
            change += new * new - w * w
        state[1] += change
        state[2] = max(state[1], state[2])
        if state[1] < state[2] * RESUM:
            state[1] = state[2] = self.square(group)

    def tick(self, rate: float, every: int, l1: float, l2: float, clock: Floats) -> None:
        """End a step; at every boundary the penalty of the steps since the last one is due."""
        clock[Clock.RATES] += rate
        if clock[Clock.STEP] % every:
            return
        due = float(clock[Clock.RATES])
        clock[Clock.RATES] = 0.0
        clock[Clock.THRESHOLD] += (l1 * due) / clock[Clock.SCALE]
        clock[Clock.SCALE] /= 1.0 + l2 * due
        if clock[Clock.SCALE] < SMALLEST_SCALE:
            for row in range(self.v.shape[0]):
                self.renew(row, clock)
            clock[Clock.SCALE], clock[Clock.THRESHOLD] = 1.0, 0.0
            self.rows[:, 0], self.rows[:, 1] = 1.0, 0.0

    # --- what the solver calls ---

    def sides(self, query: Vector, document: Vector, transposed: bool) -> tuple[Vector, Vector]:
        """Return what stands on the left and on the right of W."""
        return (document, query) if transposed else (query, document)

    def search(
        self,
        queries: Csr,
        documents: Csr,
        chosen: Ints,
        rank_weights: Floats,
        n_documents: int,
        transposed: bool,
        clock: Floats,
    ) -> tuple[float, float, int]:
        """Return margin, weight and the place of the negative in a tuple."""
        query, better = queries.row(int(chosen[0])), documents.row(int(chosen[1]))
        if chosen.size == 3:
            apart = difference(better, documents.row(int(chosen[2])))
            margin = self.score(*self.sides(query, apart, transposed), clock)
            return margin, float(rank_weights[min(n_documents - 1, rank_weights.size - 1)]), 2
        high = self.score(*self.sides(query, better, transposed), clock)
        margin = 0.0
        for trial in range(1, chosen.size - 1):
            worse = documents.row(int(chosen[1 + trial]))
            margin = high - self.score(*self.sides(query, worse, transposed), clock)
            if margin < 1.0:
                rank = (n_documents - 1) // trial
                return margin, float(rank_weights[min(rank, rank_weights.size - 1)]), 1 + trial
        return margin, 0.0, chosen.size - 1

    def margins(
        self,
        queries: tuple[Indices, Indices, Features],
        documents: tuple[Indices, Indices, Features],
        tuples: Ints,
        rank_weights: Floats,
        n_documents: int,
        transposed: bool,
        clock: Floats,
        margins: Floats,
        weights: Floats,
        negatives: Ints,
        threads: int,
    ) -> None:
        """Margins of tuples at the current W."""
        for step, chosen in enumerate(tuples):
            margins[step], weights[step], place = self.search(
                Csr(*queries),
                Csr(*documents),
                chosen,
                rank_weights,
                n_documents,
                transposed,
                clock,
            )
            negatives[step] = chosen[place]

    def update(
        self,
        queries: tuple[Indices, Indices, Features],
        documents: tuple[Indices, Indices, Features],
        tuples: Ints,
        negatives: Ints,
        slopes: Floats,
        rates: Floats,
        every: int,
        l1: float,
        l2: float,
        grow: bool,
        transposed: bool,
        clock: Floats,
        threads: int,
    ) -> None:
        """Take steps with given slopes, in order."""
        for step, chosen in enumerate(tuples):
            clock[Clock.STEP] += 1.0
            factor = float(rates[step]) * float(slopes[step])
            if factor != 0.0:
                query = Csr(*queries).row(int(chosen[0]))
                apart = difference(
                    Csr(*documents).row(int(chosen[1])), Csr(*documents).row(int(negatives[step]))
                )
                self.add(*self.sides(query, apart, transposed), factor, clock, grow)
            self.tick(float(rates[step]), every, l1, l2, clock)

    def steps(
        self,
        queries: tuple[Indices, Indices, Features],
        documents: tuple[Indices, Indices, Features],
        tuples: Ints,
        rates: Floats,
        form: int,
        slope: Call,
        rank_weights: Floats,
        n_documents: int,
        every: int,
        l1: float,
        l2: float,
        grow: bool,
        transposed: bool,
        batch: int,
        hogwild: bool,
        clock: Floats,
        margins: Floats,
        weights: Floats,
        threads: int,
    ) -> None:
        """Margins of a batch at its start, then its steps in order."""
        negatives = np.empty(tuples.shape[0], dtype=np.int64)
        for start in range(0, tuples.shape[0], batch):
            part = slice(start, start + batch)
            self.margins(
                queries,
                documents,
                tuples[part],
                rank_weights,
                n_documents,
                transposed,
                clock,
                margins[part],
                weights[part],
                negatives[part],
                threads,
            )
            slopes = np.array([pair_slope(form, z, slope) for z in margins[part].tolist()])
            self.update(
                queries,
                documents,
                tuples[part],
                negatives[part],
                weights[part] * slopes,
                rates[part],
                every,
                l1,
                l2,
                grow,
                transposed,
                clock,
                threads,
            )

    def passive(
        self,
        queries: tuple[Indices, Indices, Features],
        documents: tuple[Indices, Indices, Features],
        tuples: Ints,
        form: int,
        aggressiveness: float,
        rank_weights: Floats,
        n_documents: Ints,
        grow: bool,
        transposed: bool,
        clock: Floats,
        margins: Floats,
        weights: Floats,
        rates: Floats,
    ) -> None:
        """Passive-aggressive steps, one by one."""
        for step, chosen in enumerate(tuples):
            margins[step], weights[step], place = self.search(
                Csr(*queries),
                Csr(*documents),
                chosen,
                rank_weights,
                int(n_documents[step]),
                transposed,
                clock,
            )
            query = Csr(*queries).row(int(chosen[0]))
            apart = difference(
                Csr(*documents).row(int(chosen[1])), Csr(*documents).row(int(chosen[place]))
            )
            sides = self.sides(query, apart, transposed)
            n = self.squares(*sides, clock, grow)
            rates[step] = passive_rate(form, margins[step], n, aggressiveness * weights[step])
            clock[Clock.STEP] += 1.0
            if rates[step] != 0.0:
                self.add(*sides, -float(rates[step]), clock, grow)
            self.tick(float(rates[step]), 1, 0.0, 0.0, clock)

    # --- what leaves the store ---

    def counts(self, clock: Floats, out: Ints) -> None:
        """Entries by row that are not zero now."""
        for row in range(out.size):
            out[row] = np.count_nonzero(self.weights(row, slice(None), clock))

    def export(
        self,
        clock: Floats,
        indptr: Ints,
        indices: NDArray[np.int32],
        values: Features,
        current: bool,
    ) -> None:
        """Entries that are not zero now, by row and column."""
        for row in range(indptr.size - 1):
            weights = self.weights(row, slice(None), clock)
            columns = np.flatnonzero(weights)
            part = slice(int(indptr[row]), int(indptr[row + 1]))
            indices[part] = columns
            values[part] = weights[columns] if current else self.v[row, columns]

    def state(self, row_state: Floats, group_state: Floats) -> None:
        """Give away what the lenses are made of."""
        row_state[:] = self.rows
        group_state[:] = self.group_state

    def memory(self) -> int:
        """Bytes of W."""
        return self.v.nbytes


bilinear = BilinearStore


def passive_rate(form: int, margin: np.float64, n: float, most: np.float64) -> float:
    """Return the tau of least tau**2 n / 2 + most * loss(margin + tau n)."""
    if not margin < 1.0 or n == 0.0:
        return 0.0
    slack = np.float64(0.0)
    with np.errstate(over="ignore", divide="ignore"):
        if form == PairForm.SQUARED_HINGE:
            slack, most = 1.0 / (2.0 * most), np.float64(np.inf)
        rate = (1.0 - margin) / (n + slack)
    return float(rate if rate < most else most)


# --- scores -------------------------------------------------------------------------------------


def bilinear_scores(
    queries: tuple[Indices, Indices, Features],
    weights: tuple[Indices, Indices, Features],
    documents: tuple[Indices, Indices, Features],
    n_columns: int,
    out: Floats,
    threads: int,
) -> None:
    """Take a query's image under W, then its product with each document, in stored order."""
    for query in range(out.shape[0]):
        image = np.zeros(n_columns)
        for row, a in zip(*(part.tolist() for part in Csr(*queries).row(query)), strict=True):
            columns, values = Csr(*weights).row(row)
            image[columns] += a * values
        for document in range(out.shape[1]):
            total = 0.0
            for j, d in zip(
                *(part.tolist() for part in Csr(*documents).row(document)), strict=True
            ):
                total += d * float(image[j])
            out[query, document] = total


# --- the dense algorithm ------------------------------------------------------------------------


def dense_sweep(
    w: Floats,
    queries: tuple[Indices, Indices, Features],
    documents: tuple[Indices, Indices, Features],
    tuples: Ints,
    rates: Floats,
    form: int,
    every: int,
    l1: float,
    l2: float = 0.0,
) -> None:
    """Algorithm 1 of the paper as it stands, on a dense W that changes in place.

    Every `every` steps all of W is shrunk by the penalty of those steps. The store must come to
    the same weights, up to rounding: tests hold it to this.
    """
    due = 0.0
    for step, (query, better, worse) in enumerate(tuples.tolist(), start=1):
        rows, a = Csr(*queries).row(query)
        columns, b = difference(Csr(*documents).row(better), Csr(*documents).row(worse))
        block = np.ix_(rows, columns)
        margin = float(a @ w[block].astype(np.float64) @ b)
        rate = float(rates[step - 1])
        w[block] -= (rate * pair_slope(form, margin)) * np.outer(a, b)
        due += rate
        if step % every == 0:
            shrunk = np.abs(w) - l1 * due
            w[:] = np.where(shrunk > 0.0, np.copysign(shrunk / (1.0 + l2 * due), w), 0.0)
            due = 0.0
