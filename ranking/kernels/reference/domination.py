"""Reference of the domination family.

Sums that are not "in lanes" run in the order of the rows, from 0.0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ranking.kernels.contract import (
    CORE_LIMIT,
    CURVATURE_FLOOR,
    LANES,
    RADIUS_FLOOR,
    RESUM,
    ROUNDING,
    SHORT_LIMIT,
    SPREAD,
    Columns,
    CoordinateState,
    Csc,
    EntryPenalty,
    Features,
    Floats,
    Ints,
    ListLayout,
)
from ranking.kernels.reference.random import (
    exp_core,
    exp_full,
    exp_one,
    exp_short,
    fold,
    lane_sum,
    running_sum,
)

Slopes = tuple[float, float]
"""Gradient and curvature, or mean and variance."""


# --- what dense and sparse features share -------------------------------------------------------


def layers_of(layout: ListLayout, q: int) -> list[slice]:
    """Return the real rows of each layer of list q, lowest grade first."""
    return [
        slice(int(layout.layer_ptr[k]), int(layout.layer_ptr[k] + layout.layer_size[k]))
        for k in range(layout.list_ptr[q], layout.list_ptr[q + 1])
    ]


def moments(Z: float, M: float, N: float) -> Slopes:
    """Return mean and variance (raised by its rounding error) of a feature over the rows below."""
    mean = M / Z
    square = N / Z
    variance = square - mean * mean
    if variance < 0.0:
        variance = 0.0
    return mean, variance + ROUNDING * square


def wide_range_slopes(margins: Floats, x: Floats, omega: Floats, layers: list[slice]) -> Slopes:
    """Return gradient and curvature of one list, with one reference C per layer."""
    g = h = 0.0
    C = Z = M = N = 0.0
    for k, rows in enumerate(layers):
        if k > 0:
            mean, variance = moments(Z, M, N)
            for m, xi, w in zip(margins[rows], x[rows], omega[rows], strict=True):
                p = Z / (Z + exp_one(m - C))
                d = xi - mean
                s = w * p
                g -= s * d
                h += s * (variance + (1.0 - p) * (d * d))
        if k + 1 < len(layers):
            top = float(margins[rows].max())
            if k == 0:
                C = top
            elif top > C:
                scale = exp_one(C - top)
                Z, M, N, C = Z * scale, M * scale, N * scale, top
            for m, xi in zip(margins[rows], x[rows], strict=True):
                e = exp_one(m - C)
                u = e * xi
                Z += e
                M += u
                N += u * xi
    return float(g), float(h)


def list_value(margins: Floats, omega: Floats, layers: list[slice]) -> float:
    """Return the loss of one list."""
    value = 0.0
    C = Z = 0.0
    for k, rows in enumerate(layers):
        if k > 0:
            below = math.log(Z) + C
            for m, w in zip(margins[rows], omega[rows], strict=True):
                u = below - m
                if u > 0.0:
                    value += w * (u + math.log1p(exp_one(-u)))
                else:
                    value += w * math.log1p(exp_one(u))
        if k + 1 < len(layers):
            top = float(margins[rows].max())
            if k == 0:
                C = top
            elif top > C:
                Z, C = Z * exp_one(C - top), top
            for m in margins[rows]:
                Z += exp_one(m - C)
    return float(value)


def domination_value(layout: ListLayout, margins: Floats, threads: int) -> float:
    """Sum the lists' losses within each block, then the blocks."""
    total = 0.0
    for b in range(layout.block_ptr.size - 1):
        block = 0.0
        for q in range(layout.block_ptr[b], layout.block_ptr[b + 1]):
            block += list_value(margins, layout.omega, layers_of(layout, q))
        total += block
    return total


def take_step(
    state: CoordinateState,
    column: int,
    slopes: Slopes,
    penalty: EntryPenalty,
    newton: bool,
) -> float:
    """Minimise the majoriser along one feature; weight and radius change; return the change."""
    g, h = slopes
    w, radius = float(state.weights[column]), float(state.radius[column])
    bound, reach = float(state.bounds[0, column]), float(state.bounds[1, column])
    c = bound
    if newton:
        u = reach * radius
        kappa = 2.0 * ((exp_one(u) - u) - 1.0) / (u * u)
        if h * kappa < bound:
            c = h * kappa
            if c < bound * CURVATURE_FLOOR:
                c = bound * CURVATURE_FLOOR
    pull = c * w - g
    if pull > penalty.l1:
        target = (pull - penalty.l1) / (c + penalty.l2)
    elif pull < -penalty.l1:
        target = (pull + penalty.l1) / (c + penalty.l2)
    else:
        target = 0.0
    delta = target - w
    if c < bound:
        if delta > radius:
            delta = radius
            target = w + delta
        elif delta < -radius:
            delta = -radius
            target = w + delta
    size = abs(delta)
    radius = radius * 0.5
    if radius < 2.0 * size:
        radius = 2.0 * size
    if radius < RADIUS_FLOOR / reach:
        radius = RADIUS_FLOOR / reach
    state.weights[column], state.radius[column] = target, radius
    return delta


# --- dense features -----------------------------------------------------------------------------


class DenseState:
    """Exponentials of the margins, list by list, always consistent with the margins."""

    def __init__(self, x: Features, layout: ListLayout, margins: Floats) -> None:
        self.x, self.layout, self.margins = x, layout, margins
        self.e = np.zeros(margins.size)
        self.wide_range = np.zeros(layout.list_ptr.size - 1, dtype=bool)
        self.prepare()

    def prepare(self) -> None:
        """Compute every list's exponentials from its margins; see which lists are wide-range."""
        for q in range(self.wide_range.size):
            layers = layers_of(self.layout, q)
            real = np.concatenate([self.margins[rows] for rows in layers])
            top = float(real.max())
            self.wide_range[q] = top - float(real.min()) > SPREAD
            if not self.wide_range[q]:
                for rows in layers:
                    self.e[rows] = exp_full(self.margins[rows] - top)

    def move(self, q: int, column: int, delta: float, peak: float) -> None:
        """Add delta * x to the margins of list q, and update its exponentials."""
        layer_ptr, list_ptr = self.layout.layer_ptr, self.layout.list_ptr
        rows = slice(int(layer_ptr[list_ptr[q]]), int(layer_ptr[list_ptr[q + 1]]))
        t = delta * self.x[rows, column].astype(np.float64)
        self.margins[rows] += t
        if not self.wide_range[q]:
            longest = abs(delta) * peak
            if longest <= SHORT_LIMIT:
                factor = exp_short(t)
            elif longest <= CORE_LIMIT:
                factor = exp_core(t)
            else:
                factor = exp_full(t)
            self.e[rows] = self.e[rows] * factor

    def move_all(self, column: int, delta: float, peak: float) -> None:
        """Move every list."""
        for q in range(self.wide_range.size):
            self.move(q, column, delta, peak)

    def list_slopes(self, q: int, column: int) -> Slopes:
        """Return gradient and curvature of list q along a feature."""
        layers = layers_of(self.layout, q)
        if self.wide_range[q]:
            x = self.x[:, column].astype(np.float64)
            return wide_range_slopes(self.margins, x, self.layout.omega, layers)
        G, H = np.zeros(LANES), np.zeros(LANES)
        Z = M = N = 0.0
        for k in range(len(layers)):
            layer = self.layout.list_ptr[q] + k
            rows = slice(int(self.layout.layer_ptr[layer]), int(self.layout.layer_ptr[layer + 1]))
            e, x = self.e[rows], self.x[rows, column].astype(np.float64)
            if k > 0:
                mean, variance = moments(Z, M, N)
                p = Z / (Z + e)
                d = x - mean
                s = self.layout.omega[rows] * p
                for lanes in (s * d).reshape(-1, LANES):
                    G += lanes
                for lanes in (s * (variance + (1.0 - p) * (d * d))).reshape(-1, LANES):
                    H += lanes
            if k + 1 < len(layers):
                u = e * x
                Z += lane_sum(e)
                M += lane_sum(u)
                N += lane_sum(u * x)
        return -fold(G), fold(H)

    def slopes(self, column: int, moved: int = 0, delta: float = 0.0, peak: float = 0.0) -> Slopes:
        """Return gradient and curvature along a feature, after a pending move along another."""
        g = h = 0.0
        block_ptr = self.layout.block_ptr
        for b in range(block_ptr.size - 1):
            block_g = block_h = 0.0
            for q in range(block_ptr[b], block_ptr[b + 1]):
                if delta != 0.0:
                    self.move(q, moved, delta, peak)
                list_g, list_h = self.list_slopes(q, column)
                block_g += list_g
                block_h += list_h
            g += block_g
            h += block_h
        return g, h


def _sweep_dense(
    x: Features,
    layout: ListLayout,
    state: CoordinateState,
    columns: list[int],
    penalty: EntryPenalty,
    newton: bool,
) -> None:
    """Take one step along each column; a step's move is done in the next column's pass."""
    lists = DenseState(x, layout, state.margins)
    moved, delta, peak, drift = 0, 0.0, 0.0, 0.0
    for column in columns:
        slopes = lists.slopes(column, moved, delta, peak)
        delta = take_step(state, column, slopes, penalty, newton)
        moved, peak = column, float(state.bounds[2, column])
        drift += abs(delta) * peak
        if drift > SPREAD:
            lists.move_all(moved, delta, peak)
            lists.prepare()
            delta, drift = 0.0, 0.0
    if delta != 0.0:
        lists.move_all(moved, delta, peak)


def _bounds_dense(x: Features, layout: ListLayout, out: Floats) -> None:
    for column in range(x.shape[1]):
        values = x[:, column].astype(np.float64)
        popoviciu = paper = reach = peak = 0.0
        for q in range(layout.list_ptr.size - 1):
            layers = layers_of(layout, q)
            square = max(float((values[rows] * values[rows]).max()) for rows in layers)
            low, high = math.inf, -math.inf
            for k, rows in enumerate(layers):
                if k > 0:
                    for xi, w in zip(values[rows], layout.omega[rows], strict=True):
                        width = max(high, xi) - min(low, xi)
                        popoviciu += w * (width * width)
                        paper += w * square
                low = min(low, float(values[rows].min()))
                high = max(high, float(values[rows].max()))
            reach = max(reach, high - low)
            peak = max(peak, abs(low), abs(high))
        out[:, column] = popoviciu * 0.25, paper, reach, peak


# --- sparse features ----------------------------------------------------------------------------


class SparseState:
    """Margins, exponentials and the sums over layers that a sparse column does not touch.

    Per layer: `total` of its exponentials, `below` (Z) of all lower layers', and over its
    dominating rows P1 = sum omega p, P2 = sum omega p**2.
    """

    def __init__(self, x: Csc, layout: ListLayout, margins: Floats) -> None:
        self.indptr, self.indices, self.data = x
        self.margins, self.omega = margins, layout.omega
        self.list_ptr, self.layer_ptr = layout.list_ptr, layout.layer_ptr
        lists, layers = layout.list_ptr.size - 1, layout.layer_size.size
        self.layer_of = np.repeat(np.arange(layers), layout.layer_size)
        self.list_of = np.repeat(np.arange(lists), np.diff(layout.list_ptr))
        self.e = np.zeros(margins.size)
        self.wide_range = np.zeros(lists, dtype=bool)
        self.drift = np.zeros(lists)
        self.total, self.below = np.zeros(layers), np.zeros(layers)
        self.P1, self.P2 = np.zeros(layers), np.zeros(layers)

    def rows(self, layer: int) -> slice:
        """Return the rows of a layer."""
        return slice(int(self.layer_ptr[layer]), int(self.layer_ptr[layer + 1]))

    def prepare(self, q: int) -> None:
        """Compute the sums of list q from its margins."""
        layers = range(self.list_ptr[q], self.list_ptr[q + 1])
        rows = slice(self.rows(layers[0]).start, self.rows(layers[-1]).stop)
        top = float(self.margins[rows].max())
        self.wide_range[q] = top - float(self.margins[rows].min()) > SPREAD
        self.drift[q] = 0.0
        if not self.wide_range[q]:
            self.e[rows] = exp_full(self.margins[rows] - top)
            for layer in layers:
                self.total[layer] = running_sum(self.e[self.rows(layer)])
            self.refresh(q, layers[0])

    def refresh(self, q: int, touched: int) -> None:
        """Bring the sums of list q up to date; layers under `touched` have not changed."""
        Z = 0.0
        for layer in range(self.list_ptr[q], self.list_ptr[q + 1]):
            self.below[layer] = Z
            if layer > self.list_ptr[q] and layer >= touched:
                P1 = P2 = 0.0
                rows = self.rows(layer)
                for e, w in zip(self.e[rows], self.omega[rows], strict=True):
                    p = Z / (Z + e)
                    s = w * p
                    P1 += s
                    P2 += s * p
                self.P1[layer], self.P2[layer] = P1, P2
            Z += self.total[layer]

    def runs(self, column: int) -> Iterator[tuple[int, range]]:
        """Yield each list that a column touches, with the column's entries in that list."""
        at, stop = int(self.indptr[column]), int(self.indptr[column + 1])
        while at < stop:
            q = int(self.list_of[self.layer_of[self.indices[at]]])
            end = at
            while end < stop and self.list_of[self.layer_of[self.indices[end]]] == q:
                end += 1
            yield q, range(at, end)
            at = end

    def layer_entries(self, entries: range, layer: int) -> list[tuple[int, float]]:
        """Return (row, value) of a run's entries in one layer."""
        return [
            (int(self.indices[at]), float(self.data[at]))
            for at in entries
            if self.layer_of[self.indices[at]] == layer
        ]

    def list_slopes(self, q: int, entries: range) -> Slopes:
        """Return gradient and curvature of list q along a column's entries."""
        layers = range(self.list_ptr[q], self.list_ptr[q + 1])
        if self.wide_range[q]:
            x = np.zeros(self.margins.size)
            for at in entries:
                x[self.indices[at]] = self.data[at]
            return wide_range_slopes(
                self.margins, x, self.omega, [self.rows(layer) for layer in layers]
            )
        g = h = M = N = 0.0
        for layer in layers:
            here = self.layer_entries(entries, layer)
            if layer > layers[0]:
                Z = float(self.below[layer])
                mean, variance = moments(Z, M, N)
                sum_x = sum_h = 0.0
                for row, xi in here:
                    p = Z / (Z + float(self.e[row]))
                    s = float(self.omega[row]) * p
                    sum_x += s * xi
                    sum_h += (s * (1.0 - p)) * (xi * (xi - 2.0 * mean))
                P1, P2 = float(self.P1[layer]), float(self.P2[layer])
                g += P1 * mean - sum_x
                h += (P1 * variance + (P1 - P2) * (mean * mean)) + sum_h
            if layer < layers[-1]:
                for row, xi in here:
                    u = float(self.e[row]) * xi
                    M += u
                    N += u * xi
        return g, h

    def slopes(self, column: int) -> Slopes:
        """Return gradient and curvature along a column, from the lists that it touches."""
        g = h = 0.0
        for q, entries in self.runs(column):
            list_g, list_h = self.list_slopes(q, entries)
            g += list_g
            h += list_h
        return g, h

    def move(self, column: int, delta: float, peak: float) -> None:
        """Add delta * x to the margins of the rows that a column touches."""
        for q, entries in self.runs(column):
            if self.wide_range[q]:
                for at in entries:
                    self.margins[self.indices[at]] += delta * float(self.data[at])
                continue
            touched = int(self.layer_of[self.indices[entries[0]]])
            for layer in range(touched, self.list_ptr[q + 1]):
                here = self.layer_entries(entries, layer)
                if not here:
                    continue
                change = 0.0
                for row, xi in here:
                    t = delta * xi
                    self.margins[row] += t
                    old = float(self.e[row])
                    new = old * exp_one(t)
                    self.e[row] = new
                    change += new - old
                before = float(self.total[layer])
                after = before + change
                if after < before * RESUM:
                    after = running_sum(self.e[self.rows(layer)])
                self.total[layer] = after
            self.drift[q] += abs(delta) * peak
            if self.drift[q] > SPREAD:
                self.prepare(q)
            else:
                self.refresh(q, touched)


def _prepared(x: Csc, layout: ListLayout, margins: Floats) -> SparseState:
    lists = SparseState(x, layout, margins)
    for q in range(layout.list_ptr.size - 1):
        lists.prepare(q)
    return lists


def _sweep_sparse(
    x: Csc,
    layout: ListLayout,
    state: CoordinateState,
    columns: list[int],
    penalty: EntryPenalty,
    newton: bool,
) -> None:
    lists = _prepared(x, layout, state.margins)
    for column in columns:
        delta = take_step(state, column, lists.slopes(column), penalty, newton)
        if delta != 0.0:
            lists.move(column, delta, float(state.bounds[2, column]))


def _bounds_sparse(x: Csc, layout: ListLayout, out: Floats) -> None:
    lists, omega = SparseState(x, layout, layout.omega), layout.omega
    layer_omega = [running_sum(omega[lists.rows(k)]) for k in range(layout.layer_size.size)]
    for column in range(x.indptr.size - 1):
        popoviciu = paper = reach = peak = 0.0
        for q, entries in lists.runs(column):
            low, high, square, weight = math.inf, -math.inf, 0.0, 0.0
            layers = range(layout.list_ptr[q], layout.list_ptr[q + 1])
            for layer in layers:
                here = lists.layer_entries(entries, layer)
                zeros = len(here) < layout.layer_size[layer]
                if layer > layers[0]:
                    weight += layer_omega[layer]
                    rest = layer_omega[layer]
                    for row, xi in here:
                        width = max(high, xi) - min(low, xi)
                        popoviciu += omega[row] * (width * width)
                        rest -= omega[row]
                    if zeros and rest > 0.0:
                        width = max(high, 0.0) - min(low, 0.0)
                        popoviciu += rest * (width * width)
                for _, xi in here:
                    low, high, square = min(low, xi), max(high, xi), max(square, xi * xi)
                if zeros:
                    low, high = min(low, 0.0), max(high, 0.0)
            paper += weight * square
            reach = max(reach, high - low)
            peak = max(peak, abs(low), abs(high))
        out[:, column] = popoviciu * 0.25, paper, reach, peak


# --- the family ---------------------------------------------------------------------------------


def domination_bounds(features: Columns, layout: ListLayout, out: Floats, threads: int) -> None:
    """Compute curvature bounds, range and peak of each feature."""
    if isinstance(features, np.ndarray):
        _bounds_dense(features, layout, out)
    else:
        _bounds_sparse(features, layout, out)


def domination_slopes(
    features: Columns,
    layout: ListLayout,
    margins: Floats,
    columns: Ints,
    out: Floats,
    threads: int,
) -> None:
    """Compute gradient and curvature along each column."""
    lists: DenseState | SparseState
    if isinstance(features, np.ndarray):
        lists = DenseState(features, layout, margins)
    else:
        lists = _prepared(features, layout, margins)
    for c, column in enumerate(columns.tolist()):
        out[0, c], out[1, c] = lists.slopes(column)


def domination_sweep(
    features: Columns,
    layout: ListLayout,
    state: CoordinateState,
    columns: Ints,
    penalty: EntryPenalty,
    newton: bool,
    threads: int,
) -> None:
    """Take one step along each column that varies."""
    varying = [column for column in columns.tolist() if state.bounds[0, column] != 0.0]
    if isinstance(features, np.ndarray):
        _sweep_dense(features, layout, state, varying, penalty, newton)
    else:
        _sweep_sparse(features, layout, state, varying, penalty, newton)
