"""The reference kernel: plain NumPy, slow, and the oracle for the others.

It is also the normative text for the order of operations (see :mod:`ranking.kernels.contract`):
where the contract says *what*, this file says *in which order*, and the compiled kernels return
the same bits. Sums that are not "in lanes" run in the order of the rows, from 0.0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranking.kernels import _old_contract as contract
from ranking.kernels._old_contract import (
    CORE_LIMIT,
    CURVATURE_FLOOR,
    EXP_LIMIT,
    EXP_Q,
    LANES,
    LN2_HIGH,
    LN2_LOW,
    LOG2E,
    MAGIC,
    RADIUS_FLOOR,
    RESUM,
    ROUNDING,
    SHORT_LIMIT,
    SPREAD,
    Features,
    Floats,
    Indices,
    Ints,
)

Pair = tuple[float, float]


# --- what the contract says ---------------------------------------------------------------------


def describe() -> dict[str, Any]:
    """Return what `Loops.contract` returns."""
    return {
        "abi": contract.ABI,
        "lanes": LANES,
        "block": contract.BLOCK,
        "rng": "splitmix64",
        "exp": "minimax-11",
        "threads": "none",
        "instructions": "numpy",
    }


# --- random numbers -----------------------------------------------------------------------------


def random_bits(seed: int, first: int, out: NDArray[np.uint64]) -> None:
    """SplitMix64 by counter."""
    with np.errstate(over="ignore"):
        counter = np.arange(out.size, dtype=np.uint64) + np.uint64((first + 1) % 2**64)
        z = counter * np.uint64(contract.GAMMA) + np.uint64(seed)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        out[:] = z ^ (z >> np.uint64(31))


def random_uniform(seed: int, first: int, out: Floats) -> None:
    """Uniforms in [0, 1) with 53 random bits."""
    bits = np.empty(out.size, dtype=np.uint64)
    random_bits(seed, first, bits)
    out[:] = (bits >> np.uint64(11)) * 2.0**-53


def random_below(seed: int, first: int, bound: int, out: Ints) -> None:
    """Integers in [0, bound)."""
    bits = np.empty(out.size, dtype=np.uint64)
    random_bits(seed, first, bits)
    out[:] = ((bits >> np.uint64(32)) * np.uint64(bound)) >> np.uint64(32)


# --- sums and products --------------------------------------------------------------------------


def fold(lanes: Floats) -> float:
    """Add the partial sums of the lanes."""
    return float((lanes[0] + lanes[2]) + (lanes[1] + lanes[3]))


def lane_sum(values: Floats) -> float:
    """Sum in lanes."""
    padded = np.zeros((-(-values.size // LANES), LANES))
    padded.ravel()[: values.size] = values
    return fold(np.add.accumulate(np.vstack([np.zeros(LANES), padded]), axis=0)[-1])


def running_sum(values: Floats) -> float:
    """Sum one after the other; the built-in sum of Python 3.12 would compensate."""
    total = 0.0
    for value in values:
        total += float(value)
    return total


def dot(a: Floats, b: Floats) -> float:
    """Sum in lanes of the products."""
    return lane_sum(a * b)


def block_sum(a: Floats, threads: int) -> float:
    """Sum of the blocks' sums, in order."""
    total = 0.0
    for start in range(0, a.size, contract.BLOCK):
        total += lane_sum(a[start : start + contract.BLOCK])
    return total


def scores_dense(x: Features, weights: Floats, out: Floats, threads: int) -> None:
    """One dot product a row."""
    for row in range(x.shape[0]):
        out[row] = dot(x[row].astype(np.float64), weights)


def scores_csr(
    indptr: Indices, indices: Indices, data: Features, weights: Floats, out: Floats, threads: int
) -> None:
    """One sparse dot product a row, in stored order."""
    for row in range(out.size):
        total = 0.0
        for at in range(indptr[row], indptr[row + 1]):
            total += float(data[at]) * float(weights[indices[at]])
        out[row] = total


# --- the exponential ----------------------------------------------------------------------------


def exp_short(t: Floats) -> Floats:
    """Exp for abs(t) <= SHORT_LIMIT."""
    t2 = t * t
    t4 = t2 * t2
    low = (1.0 + t) + (t * (1.0 / 6.0) + 0.5) * t2
    high = (t * (1.0 / 120.0) + 1.0 / 24.0) + (t * (1.0 / 5040.0) + 1.0 / 720.0) * t2
    return low + high * t4


def exp_core(r: Floats) -> Floats:
    """Exp for abs(r) <= 0.3467."""
    q = EXP_Q
    r2 = r * r
    r4 = r2 * r2
    r8 = r4 * r4
    low = (1.0 + r) + (r * q[1] + q[0]) * r2
    mid = (r * q[3] + q[2]) + (r * q[5] + q[4]) * r2
    high = (r * q[7] + q[6]) + (r * q[9] + q[8]) * r2
    return (low + mid * r4) + high * r8


def exp_full(x: Floats) -> Floats:
    """Exp for any x, saturating."""
    x = np.where(x < -EXP_LIMIT, -EXP_LIMIT, x)
    x = np.where(x > EXP_LIMIT, EXP_LIMIT, x)
    t = x * LOG2E + MAGIC
    k = t - MAGIC
    p = exp_core((x - k * LN2_HIGH) - k * LN2_LOW)
    with np.errstate(over="ignore"):
        bits = p.view(np.uint64) + (t.view(np.uint64) << np.uint64(52))
    return bits.view(np.float64)


def exp(x: Floats, out: Floats) -> None:
    """Fill `out` with the exponential of `x`."""
    out[:] = exp_full(x)


def exp_one(x: float) -> float:
    """Exp of one number."""
    return float(exp_full(np.array([x]))[0])


# --- domination: what dense and sparse features share -------------------------------------------


def layers_of(q: int, list_ptr: Ints, layer_ptr: Ints, layer_size: Ints) -> list[slice]:
    """Return the real rows of each layer of list q, worst layer first."""
    return [
        slice(int(layer_ptr[k]), int(layer_ptr[k] + layer_size[k]))
        for k in range(list_ptr[q], list_ptr[q + 1])
    ]


def moments(Z: float, M: float, N: float) -> Pair:
    """Mean and variance (raised by its own rounding) of a feature over the rows below."""
    mean = M / Z
    square = N / Z
    variance = square - mean * mean
    if variance < 0.0:
        variance = 0.0
    return mean, variance + ROUNDING * square


def far_slopes(margins: Floats, x: Floats, omega: Floats, layers: list[slice]) -> Pair:
    """Gradient and curvature of one list, with a reference C per layer: right for any margins."""
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
    """Loss of one list."""
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


def domination_value(
    list_ptr: Ints,
    layer_ptr: Ints,
    layer_size: Ints,
    block_ptr: Ints,
    omega: Floats,
    margins: Floats,
    threads: int,
) -> float:
    """Sum the lists' losses within a block, then the blocks."""
    total = 0.0
    for b in range(block_ptr.size - 1):
        block = 0.0
        for q in range(block_ptr[b], block_ptr[b + 1]):
            layers = layers_of(q, list_ptr, layer_ptr, layer_size)
            block += list_value(margins, omega, layers)
        total += block
    return total


def step(
    g: float,
    h: float,
    w: float,
    radius: float,
    bound: float,
    reach: float,
    l1: float,
    l2: float,
    newton: bool,
) -> tuple[float, float, float]:
    """Minimise the majoriser along one feature; return the new weight, the change, the radius."""
    c = bound
    if newton:
        u = reach * radius
        kappa = 2.0 * ((exp_one(u) - u) - 1.0) / (u * u)
        if h * kappa < bound:
            c = h * kappa
            if c < bound * CURVATURE_FLOOR:
                c = bound * CURVATURE_FLOOR
    pull = c * w - g
    if pull > l1:
        target = (pull - l1) / (c + l2)
    elif pull < -l1:
        target = (pull + l1) / (c + l2)
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
    return target, delta, radius


# --- domination over dense features -------------------------------------------------------------


class DenseState:
    """Exponentials of the margins, list by list; stale margins never meet fresh exponentials."""

    def __init__(
        self,
        x: Features,
        list_ptr: Ints,
        layer_ptr: Ints,
        layer_size: Ints,
        block_ptr: Ints,
        omega: Floats,
        margins: Floats,
    ) -> None:
        self.x, self.omega, self.margins, self.block_ptr = x, omega, margins, block_ptr
        self.list_ptr, self.layer_ptr, self.layer_size = list_ptr, layer_ptr, layer_size
        self.e = np.zeros(margins.size)
        self.far = np.zeros(list_ptr.size - 1, dtype=bool)

    def prepare(self) -> None:
        """Renew every list's exponentials from its margins; see which lists are far."""
        for q in range(self.far.size):
            layers = layers_of(q, self.list_ptr, self.layer_ptr, self.layer_size)
            real = np.concatenate([self.margins[rows] for rows in layers])
            top = float(real.max())
            self.far[q] = top - float(real.min()) > SPREAD
            if not self.far[q]:
                for rows in layers:
                    self.e[rows] = exp_full(self.margins[rows] - top)

    def move(self, q: int, column: int, delta: float, peak: float) -> None:
        """Add delta * x to the margins of list q, and carry its exponentials along."""
        first, last = self.list_ptr[q], self.list_ptr[q + 1]
        rows = slice(int(self.layer_ptr[first]), int(self.layer_ptr[last]))
        t = delta * self.x[rows, column].astype(np.float64)
        self.margins[rows] += t
        if not self.far[q]:
            longest = abs(delta) * peak
            if longest <= SHORT_LIMIT:
                factor = exp_short(t)
            elif longest <= CORE_LIMIT:
                factor = exp_core(t)
            else:
                factor = exp_full(t)
            self.e[rows] = self.e[rows] * factor

    def list_slopes(self, q: int, column: int) -> Pair:
        """Gradient and curvature of list q along a feature."""
        layers = layers_of(q, self.list_ptr, self.layer_ptr, self.layer_size)
        if self.far[q]:
            x = self.x[:, column].astype(np.float64)
            return far_slopes(self.margins, x, self.omega, layers)
        G, H = np.zeros(LANES), np.zeros(LANES)
        Z = M = N = 0.0
        for k in range(len(layers)):
            layer = self.list_ptr[q] + k
            rows = slice(int(self.layer_ptr[layer]), int(self.layer_ptr[layer + 1]))
            e, x = self.e[rows], self.x[rows, column].astype(np.float64)
            if k > 0:
                mean, variance = moments(Z, M, N)
                p = Z / (Z + e)
                d = x - mean
                s = self.omega[rows] * p
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

    def slopes(self, column: int, moved: int = 0, delta: float = 0.0, peak: float = 0.0) -> Pair:
        """Gradient and curvature along a feature, after a pending move along another."""
        g = h = 0.0
        for b in range(self.block_ptr.size - 1):
            block_g = block_h = 0.0
            for q in range(self.block_ptr[b], self.block_ptr[b + 1]):
                if delta != 0.0:
                    self.move(q, moved, delta, peak)
                list_g, list_h = self.list_slopes(q, column)
                block_g += list_g
                block_h += list_h
            g += block_g
            h += block_h
        return g, h


def domination_slopes_dense(
    x: Features,
    list_ptr: Ints,
    layer_ptr: Ints,
    layer_size: Ints,
    block_ptr: Ints,
    omega: Floats,
    margins: Floats,
    columns: Ints,
    out: Floats,
    threads: int,
) -> None:
    """Gradient and curvature along each column."""
    state = DenseState(x, list_ptr, layer_ptr, layer_size, block_ptr, omega, margins)
    state.prepare()
    for c, column in enumerate(columns):
        out[0, c], out[1, c] = state.slopes(int(column))


def domination_sweep_dense(
    x: Features,
    list_ptr: Ints,
    layer_ptr: Ints,
    layer_size: Ints,
    block_ptr: Ints,
    omega: Floats,
    margins: Floats,
    weights: Floats,
    radius: Floats,
    bounds: Floats,
    columns: Ints,
    l1: float,
    l2: float,
    newton: bool,
    threads: int,
) -> None:
    """One step along each column; a step's move is done in the next column's pass."""
    state = DenseState(x, list_ptr, layer_ptr, layer_size, block_ptr, omega, margins)
    state.prepare()
    moved, delta, peak, drift = 0, 0.0, 0.0, 0.0
    for column in (int(column) for column in columns):
        if bounds[0, column] == 0.0:
            continue
        g, h = state.slopes(column, moved, delta, peak)
        weights[column], delta, radius[column] = step(
            g,
            h,
            float(weights[column]),
            float(radius[column]),
            float(bounds[0, column]),
            float(bounds[1, column]),
            l1,
            l2,
            newton,
        )
        moved, peak = column, float(bounds[2, column])
        drift += abs(delta) * peak
        if drift > SPREAD:
            for q in range(state.far.size):
                state.move(q, moved, delta, peak)
            state.prepare()
            delta, drift = 0.0, 0.0
    if delta != 0.0:
        for q in range(state.far.size):
            state.move(q, moved, delta, peak)


def domination_bounds_dense(
    x: Features,
    list_ptr: Ints,
    layer_ptr: Ints,
    layer_size: Ints,
    omega: Floats,
    out: Floats,
    threads: int,
) -> None:
    """Curvature bounds, range and peak of each feature."""
    for column in range(x.shape[1]):
        values = x[:, column].astype(np.float64)
        popoviciu = paper = reach = peak = 0.0
        for q in range(list_ptr.size - 1):
            layers = layers_of(q, list_ptr, layer_ptr, layer_size)
            square = max(float((values[rows] * values[rows]).max()) for rows in layers)
            low, high = math.inf, -math.inf
            for k, rows in enumerate(layers):
                if k > 0:
                    for xi, w in zip(values[rows], omega[rows], strict=True):
                        width = max(high, xi) - min(low, xi)
                        popoviciu += w * (width * width)
                        paper += w * square
                low = min(low, float(values[rows].min()))
                high = max(high, float(values[rows].max()))
            reach = max(reach, high - low)
            peak = max(peak, abs(low), abs(high))
        out[:, column] = popoviciu * 0.25, paper, reach, peak


# --- domination over sparse features ------------------------------------------------------------


class SparseState:
    """Margins, exponentials and the sums over layers that a sparse column does not touch.

    Per layer: `total` of its exponentials, `below` (Z) of all lower layers', and over its
    dominating rows P1 = sum omega p, P2 = sum omega p**2.
    """

    def __init__(
        self,
        indptr: Indices,
        indices: Indices,
        data: Features,
        list_ptr: Ints,
        layer_ptr: Ints,
        layer_size: Ints,
        omega: Floats,
        margins: Floats,
    ) -> None:
        self.indptr, self.indices, self.data = indptr, indices, data
        self.omega, self.margins = omega, margins
        self.list_ptr, self.layer_ptr, self.layer_size = list_ptr, layer_ptr, layer_size
        lists, layers = list_ptr.size - 1, layer_size.size
        self.layer_of = np.repeat(np.arange(layers), layer_size)
        self.list_of = np.repeat(np.arange(lists), np.diff(list_ptr))
        self.e = np.zeros(margins.size)
        self.far = np.zeros(lists, dtype=bool)
        self.drift = np.zeros(lists)
        self.total, self.below = np.zeros(layers), np.zeros(layers)
        self.P1, self.P2 = np.zeros(layers), np.zeros(layers)

    def rows(self, layer: int) -> slice:
        """Return the rows of a layer."""
        return slice(int(self.layer_ptr[layer]), int(self.layer_ptr[layer + 1]))

    def prepare(self, q: int) -> None:
        """Renew list q from its margins."""
        layers = range(self.list_ptr[q], self.list_ptr[q + 1])
        every = slice(self.rows(layers[0]).start, self.rows(layers[-1]).stop)
        top = float(self.margins[every].max())
        self.far[q] = top - float(self.margins[every].min()) > SPREAD
        self.drift[q] = 0.0
        if not self.far[q]:
            self.e[every] = exp_full(self.margins[every] - top)
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

    def list_slopes(self, q: int, entries: range) -> Pair:
        """Gradient and curvature of list q along a column's entries."""
        layers = range(self.list_ptr[q], self.list_ptr[q + 1])
        if self.far[q]:
            x = np.zeros(self.margins.size)
            for at in entries:
                x[self.indices[at]] = self.data[at]
            return far_slopes(self.margins, x, self.omega, [self.rows(layer) for layer in layers])
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

    def slopes(self, column: int) -> Pair:
        """Gradient and curvature along a column: only the lists that it touches have any."""
        g = h = 0.0
        for q, entries in self.runs(column):
            list_g, list_h = self.list_slopes(q, entries)
            g += list_g
            h += list_h
        return g, h

    def move(self, column: int, delta: float, peak: float) -> None:
        """Add delta * x to the margins of the rows that a column touches."""
        for q, entries in self.runs(column):
            if self.far[q]:
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


def domination_slopes_csc(
    indptr: Indices,
    indices: Indices,
    data: Features,
    list_ptr: Ints,
    layer_ptr: Ints,
    layer_size: Ints,
    omega: Floats,
    margins: Floats,
    columns: Ints,
    out: Floats,
) -> None:
    """Gradient and curvature along each column."""
    state = SparseState(indptr, indices, data, list_ptr, layer_ptr, layer_size, omega, margins)
    for q in range(list_ptr.size - 1):
        state.prepare(q)
    for c, column in enumerate(columns):
        out[0, c], out[1, c] = state.slopes(int(column))


def domination_sweep_csc(
    indptr: Indices,
    indices: Indices,
    data: Features,
    list_ptr: Ints,
    layer_ptr: Ints,
    layer_size: Ints,
    omega: Floats,
    margins: Floats,
    weights: Floats,
    radius: Floats,
    bounds: Floats,
    columns: Ints,
    l1: float,
    l2: float,
    newton: bool,
) -> None:
    """One step along each column."""
    state = SparseState(indptr, indices, data, list_ptr, layer_ptr, layer_size, omega, margins)
    for q in range(list_ptr.size - 1):
        state.prepare(q)
    for column in (int(column) for column in columns):
        if bounds[0, column] == 0.0:
            continue
        g, h = state.slopes(column)
        weights[column], delta, radius[column] = step(
            g,
            h,
            float(weights[column]),
            float(radius[column]),
            float(bounds[0, column]),
            float(bounds[1, column]),
            l1,
            l2,
            newton,
        )
        if delta != 0.0:
            state.move(column, delta, float(bounds[2, column]))


def domination_bounds_csc(
    indptr: Indices,
    indices: Indices,
    data: Features,
    list_ptr: Ints,
    layer_ptr: Ints,
    layer_size: Ints,
    omega: Floats,
    out: Floats,
    threads: int,
) -> None:
    """Curvature bounds, range and peak of each feature."""
    state = SparseState(indptr, indices, data, list_ptr, layer_ptr, layer_size, omega, omega)
    layer_omega = [running_sum(omega[state.rows(layer)]) for layer in range(layer_size.size)]
    for column in range(indptr.size - 1):
        popoviciu = paper = reach = peak = 0.0
        for q, entries in state.runs(column):
            low, high, square, weight = math.inf, -math.inf, 0.0, 0.0
            layers = range(list_ptr[q], list_ptr[q + 1])
            for layer in layers:
                here = state.layer_entries(entries, layer)
                zeros = len(here) < layer_size[layer]
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
