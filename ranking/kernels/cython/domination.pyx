"""The domination loss and its coordinate descent; see :mod:`ranking.kernels.contract.domination`.

The order of every floating-point operation is that of :mod:`ranking.kernels.reference.domination`,
so the results have the same bits. This file is compiled once per instruction set; see meson.build.
"""

from cython.parallel cimport prange
from libc.math cimport INFINITY, fabs, log, log1p
from libc.stdint cimport int64_t, uint8_t

from c_library cimport (
    lanes_exp, lanes_exp_core, lanes_exp_one, lanes_exp_short, lanes_load, lanes_splat,
    lanes_store, lanes_sum, lanes_t, lanes_widen,
)

from ranking.kernels.cython.library cimport address, feature_t, index_t

import numpy as np

cdef double SHORT_LIMIT = 0.03125
cdef double CORE_LIMIT = 0.34
cdef double SPREAD = 300.0
cdef double ROUNDING = 2.0**-45
cdef double CURVATURE_FLOOR = 2.0**-40
cdef double RADIUS_FLOOR = 0.0625
cdef double RESUM = 2.0**-10


cdef struct Layout:
    const int64_t *list_ptr
    const int64_t *layer_ptr
    const int64_t *layer_size
    const int64_t *block_ptr
    const double *omega
    Py_ssize_t lists
    Py_ssize_t layers
    Py_ssize_t blocks


cdef struct Slopes:
    double g
    double h


cdef struct Moments:
    double mean
    double variance


cdef Layout layout_of(layout) except *:
    cdef Layout at
    at.list_ptr = <const int64_t *>address(layout.list_ptr)
    at.layer_ptr = <const int64_t *>address(layout.layer_ptr)
    at.layer_size = <const int64_t *>address(layout.layer_size)
    at.block_ptr = <const int64_t *>address(layout.block_ptr)
    at.omega = <const double *>address(layout.omega)
    at.lists, at.layers = len(layout.list_ptr) - 1, len(layout.layer_size)
    at.blocks = len(layout.block_ptr) - 1
    return at


# --- one list ---------------------------------------------------------------------------------


cdef inline Moments moments(double Z, double M, double N) noexcept nogil:
    # Mean and variance (raised by its own rounding) of a feature over the rows below.
    cdef Moments of
    cdef double square = N / Z
    of.mean = M / Z
    of.variance = square - of.mean * of.mean
    if of.variance < 0.0:
        of.variance = 0.0
    of.variance = of.variance + ROUNDING * square
    return of


cdef inline double highest(const double *values, Py_ssize_t start, Py_ssize_t stop) noexcept nogil:
    cdef double top = values[start]
    cdef Py_ssize_t i
    for i in range(start + 1, stop):
        if values[i] > top:
            top = values[i]
    return top


cdef inline double lowest(const double *values, Py_ssize_t start, Py_ssize_t stop) noexcept nogil:
    cdef double bottom = values[start]
    cdef Py_ssize_t i
    for i in range(start + 1, stop):
        if values[i] < bottom:
            bottom = values[i]
    return bottom


cdef inline double sum_rows(
    const double *values, Py_ssize_t start, Py_ssize_t stop
) noexcept nogil:
    cdef double total = 0.0
    cdef Py_ssize_t i
    for i in range(start, stop):
        total += values[i]
    return total


cdef inline Slopes wide_range_slopes(
    const Layout *at, Py_ssize_t q, const double *margins, const feature_t *x, Py_ssize_t base
) noexcept nogil:
    # Slopes of one list with one reference C per layer: exact for any margins. x starts at row
    # `base`.
    cdef double g = 0.0, h = 0.0, C = 0.0, Z = 0.0, M = 0.0, N = 0.0
    cdef double p, d, s, e, u, xi, top, scale
    cdef Moments of
    cdef Py_ssize_t layer, i, start, stop
    cdef Py_ssize_t first = at.list_ptr[q], last = at.list_ptr[q + 1] - 1
    for layer in range(first, last + 1):
        start = at.layer_ptr[layer]
        stop = start + at.layer_size[layer]
        if layer > first:
            of = moments(Z, M, N)
            for i in range(start, stop):
                p = Z / (Z + lanes_exp_one(margins[i] - C))
                d = <double>x[i - base] - of.mean
                s = at.omega[i] * p
                g -= s * d
                h += s * (of.variance + (1.0 - p) * (d * d))
        if layer < last:
            top = highest(margins, start, stop)
            if layer == first:
                C = top
            elif top > C:
                scale = lanes_exp_one(C - top)
                Z, M, N, C = Z * scale, M * scale, N * scale, top
            for i in range(start, stop):
                xi = <double>x[i - base]
                e = lanes_exp_one(margins[i] - C)
                u = e * xi
                Z += e
                M += u
                N += u * xi
    return Slopes(g, h)


cdef inline double add_exponentials(
    const double *margins, Py_ssize_t start, Py_ssize_t stop, double C, double Z
) noexcept nogil:
    # Z plus exp(m - C) of each margin, in order.
    cdef double e[4]
    cdef Py_ssize_t i, whole = start + (stop - start) // 4 * 4
    for i in range(start, whole, 4):
        lanes_store(e, lanes_exp(lanes_load(margins + i) - lanes_splat(C)))
        Z += e[0]
        Z += e[1]
        Z += e[2]
        Z += e[3]
    for i in range(whole, stop):
        Z += lanes_exp_one(margins[i] - C)
    return Z


cdef double list_value(const Layout *at, Py_ssize_t q, const double *margins) noexcept nogil:
    cdef double value = 0.0, C = 0.0, Z = 0.0, below, u, top
    cdef Py_ssize_t layer, i, start, stop
    cdef Py_ssize_t first = at.list_ptr[q], last = at.list_ptr[q + 1] - 1
    for layer in range(first, last + 1):
        start = at.layer_ptr[layer]
        stop = start + at.layer_size[layer]
        if layer > first:
            below = log(Z) + C
            for i in range(start, stop):
                u = below - margins[i]
                if u > 0.0:
                    value += at.omega[i] * (u + log1p(lanes_exp_one(-u)))
                else:
                    value += at.omega[i] * log1p(lanes_exp_one(u))
        if layer < last:
            top = highest(margins, start, stop)
            if layer == first:
                C = top
            elif top > C:
                Z, C = Z * lanes_exp_one(C - top), top
            Z = add_exponentials(margins, start, stop, C, Z)
    return value


cdef double block_value(const Layout *at, Py_ssize_t b, const double *margins) noexcept nogil:
    cdef double value = 0.0
    cdef Py_ssize_t q
    for q in range(at.block_ptr[b], at.block_ptr[b + 1]):
        value += list_value(at, q, margins)
    return value


def domination_value(layout, const double[::1] margins, int threads):
    """Return the loss at these margins."""
    cdef Layout at = layout_of(layout)
    cdef Py_ssize_t b
    cdef double[::1] values = np.empty(at.blocks)
    cdef double total = 0.0
    with nogil:
        for b in prange(at.blocks, schedule="static", num_threads=threads):
            values[b] = block_value(&at, b, &margins[0])
        for b in range(at.blocks):
            total += values[b]
    return total


# --- a coordinate descent step ----------------------------------------------------------------


cdef struct Coordinates:
    # Weights and bounds, by feature.
    double *weights
    double *radius
    const double *bound
    const double *range_
    const double *peak
    double l1
    double l2
    bint newton


cdef Coordinates coordinates_of(state, penalty, bint newton) except *:
    cdef Coordinates at
    cdef const double[:, ::1] bounds = state.bounds
    at.weights = <double *>address(state.weights)
    at.radius = <double *>address(state.radius)
    at.bound, at.range_, at.peak = &bounds[0, 0], &bounds[1, 0], &bounds[2, 0]
    at.l1, at.l2, at.newton = penalty.l1, penalty.l2, newton
    return at


cdef double take_step(const Coordinates *at, Py_ssize_t r, Slopes slopes) noexcept nogil:
    # Minimise the majoriser along feature r; return the change of its weight.
    cdef double bound = at.bound[r], c = bound, w = at.weights[r], radius = at.radius[r]
    cdef double u, kappa, pull, target, delta, size
    if at.newton:
        u = at.range_[r] * radius
        kappa = 2.0 * ((lanes_exp_one(u) - u) - 1.0) / (u * u)
        if slopes.h * kappa < bound:
            c = slopes.h * kappa
            if c < bound * CURVATURE_FLOOR:
                c = bound * CURVATURE_FLOOR
    pull = c * w - slopes.g
    if pull > at.l1:
        target = (pull - at.l1) / (c + at.l2)
    elif pull < -at.l1:
        target = (pull + at.l1) / (c + at.l2)
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
    size = fabs(delta)
    radius = radius * 0.5
    if radius < 2.0 * size:
        radius = 2.0 * size
    if radius < RADIUS_FLOOR / at.range_[r]:
        radius = RADIUS_FLOOR / at.range_[r]
    at.weights[r], at.radius[r] = target, radius
    return delta


# --- dense features ---------------------------------------------------------------------------


cdef struct Dense:
    # Exponentials of the margins, list by list (0 on padding), and the sums of the blocks.
    Layout at
    double *margins
    double *e
    uint8_t *wide_range
    Slopes *sums
    int threads


cdef enum Reach:
    # The length of a move: which exponential is accurate enough.
    SHORT
    CORE
    FULL


cdef struct Move:
    # A step along a column that the margins have not taken yet.
    Py_ssize_t column
    double delta
    Reach reach


cdef class DenseArrays:
    # Owns the arrays that a `Dense` points to.
    cdef Dense state
    cdef tuple arrays

    def __init__(self, layout, margins, int threads):
        cdef Dense *state = &self.state
        state.at, state.threads = layout_of(layout), threads
        e, wide_range = np.zeros(len(margins)), np.zeros(state.at.lists, dtype=np.uint8)
        sums = np.empty((state.at.blocks, 2))
        self.arrays = margins, e, wide_range, sums
        state.margins, state.e = <double *>address(margins), <double *>address(e)
        state.wide_range = <uint8_t *>address(wide_range)
        state.sums = <Slopes *>address(sums)
        with nogil:
            prepare_all(state)


cdef inline lanes_t load(const feature_t *values) noexcept nogil:
    if feature_t is float:
        return lanes_widen(values)
    else:
        return lanes_load(values)


cdef inline Move make_move(Py_ssize_t column, double delta, double peak) noexcept nogil:
    cdef double longest = fabs(delta) * peak
    if longest <= SHORT_LIMIT:
        return Move(column, delta, SHORT)
    if longest <= CORE_LIMIT:
        return Move(column, delta, CORE)
    return Move(column, delta, FULL)


cdef void prepare_list(const Dense *state, Py_ssize_t q) noexcept nogil:
    # Compute the exponentials of list q from its margins, unless their range is too wide.
    cdef const Layout *at = &state.at
    cdef Py_ssize_t layer, i, start, stop
    cdef Py_ssize_t first = at.list_ptr[q], end = at.list_ptr[q + 1]
    cdef double top = -INFINITY, bottom = INFINITY
    for layer in range(first, end):
        start = at.layer_ptr[layer]
        stop = start + at.layer_size[layer]
        top = max(top, highest(state.margins, start, stop))
        bottom = min(bottom, lowest(state.margins, start, stop))
    state.wide_range[q] = top - bottom > SPREAD
    if state.wide_range[q]:
        return
    for layer in range(first, end):
        start = at.layer_ptr[layer]
        for i in range(start, start + at.layer_size[layer]):
            state.e[i] = lanes_exp_one(state.margins[i] - top)


cdef void prepare_block(const Dense *state, Py_ssize_t b) noexcept nogil:
    cdef Py_ssize_t q
    for q in range(state.at.block_ptr[b], state.at.block_ptr[b + 1]):
        prepare_list(state, q)


cdef void prepare_all(const Dense *state) noexcept nogil:
    cdef Py_ssize_t b
    for b in prange(state.at.blocks, schedule="static", num_threads=state.threads):
        prepare_block(state, b)


cdef inline void move_list(
    const Dense *state, Py_ssize_t q, const feature_t *x, Move move
) noexcept nogil:
    # Add delta * x to the margins of list q, and multiply its exponentials accordingly.
    cdef double *m = state.margins
    cdef double *e = state.e
    cdef Py_ssize_t i
    cdef Py_ssize_t start = state.at.layer_ptr[state.at.list_ptr[q]]
    cdef Py_ssize_t stop = state.at.layer_ptr[state.at.list_ptr[q + 1]]
    cdef lanes_t delta = lanes_splat(move.delta), t
    if state.wide_range[q]:
        for i in range(start, stop, 4):
            lanes_store(m + i, lanes_load(m + i) + delta * load(x + i))
    elif move.reach == SHORT:
        for i in range(start, stop, 4):
            t = delta * load(x + i)
            lanes_store(m + i, lanes_load(m + i) + t)
            lanes_store(e + i, lanes_load(e + i) * lanes_exp_short(t))
    elif move.reach == CORE:
        for i in range(start, stop, 4):
            t = delta * load(x + i)
            lanes_store(m + i, lanes_load(m + i) + t)
            lanes_store(e + i, lanes_load(e + i) * lanes_exp_core(t))
    else:
        for i in range(start, stop, 4):
            t = delta * load(x + i)
            lanes_store(m + i, lanes_load(m + i) + t)
            lanes_store(e + i, lanes_load(e + i) * lanes_exp(t))


cdef void move_block(
    const Dense *state, Py_ssize_t b, const feature_t *x, Move move
) noexcept nogil:
    cdef Py_ssize_t q
    for q in range(state.at.block_ptr[b], state.at.block_ptr[b + 1]):
        move_list(state, q, x, move)


cdef void move_all(
    const Dense *state, const feature_t *x, Py_ssize_t rows, Move move
) noexcept nogil:
    cdef Py_ssize_t b
    for b in prange(state.at.blocks, schedule="static", num_threads=state.threads):
        move_block(state, b, x + move.column * rows, move)


cdef inline Slopes list_slopes(
    const Dense *state, Py_ssize_t q, const feature_t *x
) noexcept nogil:
    # A layer is first compared with the sums below it, then added to them: in one pass, except
    # that the lowest layer has nothing below it and the sums of the highest are not needed.
    cdef const Layout *at = &state.at
    cdef const double *e = state.e
    cdef Moments of
    cdef double Z, M, N
    cdef lanes_t G = lanes_splat(0.0), H = lanes_splat(0.0)
    cdef lanes_t Zs = lanes_splat(0.0), Ms = lanes_splat(0.0), Ns = lanes_splat(0.0)
    cdef lanes_t ei, xi, u, p, d, s, below, mean, variance, one = lanes_splat(1.0)
    cdef Py_ssize_t i, layer, first = at.list_ptr[q], last = at.list_ptr[q + 1] - 1

    for i in range(at.layer_ptr[first], at.layer_ptr[first + 1], 4):
        ei, xi = lanes_load(e + i), load(x + i)
        u = ei * xi
        Zs, Ms, Ns = Zs + ei, Ms + u, Ns + u * xi
    # 0.0 + is the order of the contract, and turns a sum of -0.0 into 0.0.
    Z, M, N = 0.0 + lanes_sum(Zs), 0.0 + lanes_sum(Ms), 0.0 + lanes_sum(Ns)

    for layer in range(first + 1, last):
        of = moments(Z, M, N)
        below, mean = lanes_splat(Z), lanes_splat(of.mean)
        variance = lanes_splat(of.variance)
        Zs = Ms = Ns = lanes_splat(0.0)
        for i in range(at.layer_ptr[layer], at.layer_ptr[layer + 1], 4):
            ei, xi = lanes_load(e + i), load(x + i)
            u = ei * xi
            Zs, Ms, Ns = Zs + ei, Ms + u, Ns + u * xi
            p, d = below / (below + ei), xi - mean
            s = lanes_load(at.omega + i) * p
            G, H = G + s * d, H + s * (variance + (one - p) * (d * d))
        Z, M, N = Z + lanes_sum(Zs), M + lanes_sum(Ms), N + lanes_sum(Ns)

    of = moments(Z, M, N)
    below, mean, variance = lanes_splat(Z), lanes_splat(of.mean), lanes_splat(of.variance)
    for i in range(at.layer_ptr[last], at.layer_ptr[last + 1], 4):
        p, d = below / (below + lanes_load(e + i)), load(x + i) - mean
        s = lanes_load(at.omega + i) * p
        G, H = G + s * d, H + s * (variance + (one - p) * (d * d))
    return Slopes(-lanes_sum(G), lanes_sum(H))


cdef void block_slopes(
    const Dense *state, Py_ssize_t b, const feature_t *now, const feature_t *before, Move move
) noexcept nogil:
    cdef Slopes of, block = Slopes(0.0, 0.0)
    cdef Py_ssize_t q
    for q in range(state.at.block_ptr[b], state.at.block_ptr[b + 1]):
        if move.delta != 0.0:
            move_list(state, q, before, move)
        if state.wide_range[q]:
            of = wide_range_slopes(&state.at, q, state.margins, now, 0)
        else:
            of = list_slopes(state, q, now)
        block.g += of.g
        block.h += of.h
    state.sums[b] = block


cdef Slopes dense_slopes(
    const Dense *state, const feature_t *x, Py_ssize_t rows, Py_ssize_t column, Move move
) noexcept nogil:
    # Slopes along a column, after a pending move along another.
    cdef Slopes total = Slopes(0.0, 0.0)
    cdef Py_ssize_t b
    for b in prange(state.at.blocks, schedule="static", num_threads=state.threads):
        block_slopes(state, b, x + column * rows, x + move.column * rows, move)
    for b in range(state.at.blocks):
        total.g += state.sums[b].g
        total.h += state.sums[b].h
    return total


def slopes_dense(
    const feature_t[::1, :] x, DenseArrays arrays, const int64_t[::1] columns, double[:, ::1] out
):
    """Fill `out` with the slopes along dense columns."""
    cdef Dense *state = &arrays.state
    cdef Py_ssize_t c
    cdef Slopes of
    with nogil:
        for c in range(columns.shape[0]):
            of = dense_slopes(state, &x[0, 0], x.shape[0], columns[c], Move(0, 0.0, SHORT))
            out[0, c], out[1, c] = of.g, of.h


def sweep_dense(
    const feature_t[::1, :] x, DenseArrays arrays, const int64_t[::1] columns, state, penalty,
    bint newton,
):
    """Take one step along each column; a step's move is done in the pass of the next column."""
    cdef Dense *dense = &arrays.state
    cdef Coordinates at = coordinates_of(state, penalty, newton)
    cdef Py_ssize_t c, column, rows = x.shape[0]
    cdef Move move = Move(0, 0.0, SHORT)
    cdef double delta, drift = 0.0
    with nogil:
        for c in range(columns.shape[0]):
            column = columns[c]
            if at.bound[column] == 0.0:
                continue
            delta = take_step(&at, column, dense_slopes(dense, &x[0, 0], rows, column, move))
            move = make_move(column, delta, at.peak[column])
            drift += fabs(delta) * at.peak[column]
            if drift > SPREAD:
                move_all(dense, &x[0, 0], rows, move)
                prepare_all(dense)
                move.delta = drift = 0.0
        if move.delta != 0.0:
            move_all(dense, &x[0, 0], rows, move)


# --- sparse features --------------------------------------------------------------------------


cdef struct Sparse:
    # Margins, exponentials and the sums over layers that a sparse column does not touch: per
    # layer the `total` of its exponentials, `below` (Z) of all lower layers', and over its
    # dominating rows P1 = sum omega p, P2 = sum omega p**2.
    Layout at
    const int64_t *layer_of
    const int64_t *list_of
    double *margins
    double *e
    uint8_t *wide_range
    double *drift
    double *total
    double *below
    double *P1
    double *P2
    double *x


cdef class SparseArrays:
    # Owns the arrays that a `Sparse` points to.
    cdef Sparse state
    cdef tuple arrays

    def __init__(self, layout, margins):
        cdef Sparse *state = &self.state
        cdef Py_ssize_t q
        state.at = layout_of(layout)
        layer_of = np.repeat(np.arange(state.at.layers), layout.layer_size)
        list_of = np.repeat(np.arange(state.at.lists), np.diff(layout.list_ptr))
        e, x = np.empty(len(margins)), np.zeros(list_lengths(layout).max(initial=0))
        wide_range = np.zeros(state.at.lists, dtype=np.uint8)
        drift, sums = np.zeros(state.at.lists), np.zeros((4, state.at.layers))
        self.arrays = margins, layer_of, list_of, e, x, wide_range, drift, sums
        state.layer_of = <const int64_t *>address(layer_of)
        state.list_of = <const int64_t *>address(list_of)
        state.margins, state.e = <double *>address(margins), <double *>address(e)
        state.x, state.drift = <double *>address(x), <double *>address(drift)
        state.wide_range, state.total = <uint8_t *>address(wide_range), <double *>address(sums)
        state.below = state.total + state.at.layers
        state.P1, state.P2 = state.below + state.at.layers, state.below + 2 * state.at.layers
        with nogil:
            for q in range(state.at.lists):
                sparse_prepare(state, q)


def list_lengths(layout):
    """Return the number of rows of each list."""
    return np.diff(layout.layer_ptr[layout.list_ptr])


cdef void sparse_refresh(const Sparse *state, Py_ssize_t q, Py_ssize_t touched) noexcept nogil:
    # Bring the sums of list q up to date; layers under `touched` have not changed.
    cdef const Layout *at = &state.at
    cdef double Z = 0.0, P1, P2, p, s
    cdef Py_ssize_t layer, i, first = at.list_ptr[q]
    if touched > first:
        Z = state.below[touched]
    for layer in range(touched, at.list_ptr[q + 1]):
        state.below[layer] = Z
        if layer > first:
            P1 = P2 = 0.0
            for i in range(at.layer_ptr[layer], at.layer_ptr[layer + 1]):
                p = Z / (Z + state.e[i])
                s = at.omega[i] * p
                P1 += s
                P2 += s * p
            state.P1[layer], state.P2[layer] = P1, P2
        Z += state.total[layer]


cdef void sparse_prepare(const Sparse *state, Py_ssize_t q) noexcept nogil:
    # Compute the exponentials and sums of list q from its margins.
    cdef const Layout *at = &state.at
    cdef Py_ssize_t layer, i, first = at.list_ptr[q], end = at.list_ptr[q + 1]
    cdef Py_ssize_t start = at.layer_ptr[first], stop = at.layer_ptr[end]
    cdef double top = highest(state.margins, start, stop)
    state.wide_range[q] = top - lowest(state.margins, start, stop) > SPREAD
    state.drift[q] = 0.0
    if state.wide_range[q]:
        return
    for i in range(start, stop):
        state.e[i] = lanes_exp_one(state.margins[i] - top)
    for layer in range(first, end):
        state.total[layer] = sum_rows(state.e, at.layer_ptr[layer], at.layer_ptr[layer + 1])
    sparse_refresh(state, q, first)


cdef inline Py_ssize_t seek(
    const index_t *indices, Py_ssize_t at, Py_ssize_t stop, Py_ssize_t row
) noexcept nogil:
    # The first entry from `at` on whose row is not below `row`.
    while at < stop and indices[at] < row:
        at += 1
    return at


cdef Slopes sparse_wide_range_slopes(
    const Sparse *state, const index_t *indices, const feature_t *data,
    Py_ssize_t start, Py_ssize_t stop, Py_ssize_t q,
) noexcept nogil:
    cdef Slopes out
    cdef Py_ssize_t i, base = state.at.layer_ptr[state.at.list_ptr[q]]
    for i in range(start, stop):
        state.x[indices[i] - base] = <double>data[i]
    out = wide_range_slopes(&state.at, q, state.margins, <const double *>state.x, base)
    for i in range(start, stop):
        state.x[indices[i] - base] = 0.0
    return out


cdef Slopes sparse_list_slopes(
    const Sparse *state, const index_t *indices, const feature_t *data,
    Py_ssize_t start, Py_ssize_t stop, Py_ssize_t q,
) noexcept nogil:
    # Layers under that of the first entry have slopes of exactly 0 and are skipped.
    cdef const Layout *at = &state.at
    cdef Slopes out = Slopes(0.0, 0.0)
    cdef Moments of
    cdef double M = 0.0, N = 0.0, Z, sum_x, sum_h, p, s, u, xi, P1, P2
    cdef Py_ssize_t layer, i, end
    cdef Py_ssize_t first = at.list_ptr[q], last = at.list_ptr[q + 1] - 1
    for layer in range(state.layer_of[indices[start]], last + 1):
        end = seek(indices, start, stop, at.layer_ptr[layer + 1])
        if layer > first:
            Z = state.below[layer]
            of = moments(Z, M, N)
            sum_x = sum_h = 0.0
            for i in range(start, end):
                xi = <double>data[i]
                p = Z / (Z + state.e[indices[i]])
                s = at.omega[indices[i]] * p
                sum_x += s * xi
                sum_h += (s * (1.0 - p)) * (xi * (xi - 2.0 * of.mean))
            P1, P2 = state.P1[layer], state.P2[layer]
            out.g += P1 * of.mean - sum_x
            out.h += (P1 * of.variance + (P1 - P2) * (of.mean * of.mean)) + sum_h
        if layer < last:
            for i in range(start, end):
                xi = <double>data[i]
                u = state.e[indices[i]] * xi
                M += u
                N += u * xi
        start = end
    return out


cdef Slopes sparse_slopes(
    const Sparse *state, const index_t *indices, const feature_t *data,
    Py_ssize_t start, Py_ssize_t stop,
) noexcept nogil:
    # Slopes along a column's entries: only the lists that it touches have any.
    cdef const Layout *at = &state.at
    cdef Slopes of, total = Slopes(0.0, 0.0)
    cdef Py_ssize_t q, end
    while start < stop:
        q = state.list_of[state.layer_of[indices[start]]]
        end = seek(indices, start, stop, at.layer_ptr[at.list_ptr[q + 1]])
        if state.wide_range[q]:
            of = sparse_wide_range_slopes(state, indices, data, start, end, q)
        else:
            of = sparse_list_slopes(state, indices, data, start, end, q)
        total.g += of.g
        total.h += of.h
        start = end
    return total


cdef void sparse_move_list(
    const Sparse *state, const index_t *indices, const feature_t *data,
    Py_ssize_t start, Py_ssize_t stop, Py_ssize_t q, double delta,
) noexcept nogil:
    cdef const Layout *at = &state.at
    cdef double t, old, new, change, before, after
    cdef Py_ssize_t layer, i, end
    while start < stop:
        layer = state.layer_of[indices[start]]
        end = seek(indices, start, stop, at.layer_ptr[layer + 1])
        change = 0.0
        for i in range(start, end):
            t = delta * <double>data[i]
            state.margins[indices[i]] += t
            old = state.e[indices[i]]
            new = old * lanes_exp_one(t)
            state.e[indices[i]] = new
            change += new - old
        before = state.total[layer]
        after = before + change
        if after < before * RESUM:
            after = sum_rows(state.e, at.layer_ptr[layer], at.layer_ptr[layer + 1])
        state.total[layer] = after
        start = end


cdef void sparse_move(
    const Sparse *state, const index_t *indices, const feature_t *data,
    Py_ssize_t start, Py_ssize_t stop, double delta, double peak,
) noexcept nogil:
    # Add delta * x to the margins of the rows that a column touches.
    cdef const Layout *at = &state.at
    cdef Py_ssize_t i, q, end
    while start < stop:
        q = state.list_of[state.layer_of[indices[start]]]
        end = seek(indices, start, stop, at.layer_ptr[at.list_ptr[q + 1]])
        if state.wide_range[q]:
            for i in range(start, end):
                state.margins[indices[i]] += delta * <double>data[i]
        else:
            sparse_move_list(state, indices, data, start, end, q, delta)
            state.drift[q] += fabs(delta) * peak
            if state.drift[q] > SPREAD:
                sparse_prepare(state, q)
            else:
                sparse_refresh(state, q, state.layer_of[indices[start]])
        start = end


def slopes_sparse(
    const index_t[::1] indptr, const index_t[::1] indices, const feature_t[::1] data,
    SparseArrays arrays, const int64_t[::1] columns, double[:, ::1] out,
):
    """Fill `out` with the slopes along sparse columns."""
    cdef Sparse *state = &arrays.state
    cdef Py_ssize_t c
    cdef Slopes of
    with nogil:
        for c in range(columns.shape[0]):
            of = sparse_slopes(
                state, &indices[0], &data[0], indptr[columns[c]], indptr[columns[c] + 1]
            )
            out[0, c], out[1, c] = of.g, of.h


def sweep_sparse(
    const index_t[::1] indptr, const index_t[::1] indices, const feature_t[::1] data,
    SparseArrays arrays, const int64_t[::1] columns, state, penalty, bint newton,
):
    """Take one step along each column, in time proportional to its entries."""
    cdef Sparse *sparse = &arrays.state
    cdef Coordinates at = coordinates_of(state, penalty, newton)
    cdef Py_ssize_t c, column, start, stop
    cdef double delta
    with nogil:
        for c in range(columns.shape[0]):
            column = columns[c]
            if at.bound[column] == 0.0:
                continue
            start, stop = indptr[column], indptr[column + 1]
            delta = take_step(
                &at, column, sparse_slopes(sparse, &indices[0], &data[0], start, stop)
            )
            if delta != 0.0:
                sparse_move(
                    sparse, &indices[0], &data[0], start, stop, delta, at.peak[column]
                )


# --- bounds -----------------------------------------------------------------------------------


cdef struct Bounds:
    # Of one feature.
    double popoviciu
    double paper
    double range_
    double peak


cdef inline void add_list(Bounds *to, double low, double high) noexcept nogil:
    to.range_ = max(to.range_, high - low)
    to.peak = max(to.peak, max(fabs(low), fabs(high)))


cdef inline void store_bounds(const Bounds *of, double *out, Py_ssize_t columns) noexcept nogil:
    out[0], out[columns] = of.popoviciu * 0.25, of.paper
    out[2 * columns], out[3 * columns] = of.range_, of.peak


cdef Bounds dense_bounds(const Layout *at, const feature_t *x) noexcept nogil:
    cdef Bounds of = Bounds(0.0, 0.0, 0.0, 0.0)
    cdef double low, high, square, xi, width
    cdef Py_ssize_t q, layer, i, start, stop
    for q in range(at.lists):
        square = 0.0
        for layer in range(at.list_ptr[q], at.list_ptr[q + 1]):
            start = at.layer_ptr[layer]
            for i in range(start, start + at.layer_size[layer]):
                xi = <double>x[i]
                square = max(square, xi * xi)
        low, high = INFINITY, -INFINITY
        for layer in range(at.list_ptr[q], at.list_ptr[q + 1]):
            start = at.layer_ptr[layer]
            stop = start + at.layer_size[layer]
            if layer > at.list_ptr[q]:
                for i in range(start, stop):
                    xi = <double>x[i]
                    width = max(high, xi) - min(low, xi)
                    of.popoviciu += at.omega[i] * (width * width)
                    of.paper += at.omega[i] * square
            for i in range(start, stop):
                xi = <double>x[i]
                low, high = min(low, xi), max(high, xi)
        add_list(&of, low, high)
    return of


def bounds_dense(const feature_t[::1, :] x, layout, double[:, ::1] out, int threads):
    """Fill `out` with bounds along dense columns."""
    cdef Layout at = layout_of(layout)
    cdef Py_ssize_t column, rows = x.shape[0], columns = x.shape[1]
    cdef const feature_t *values = &x[0, 0]
    cdef Bounds of
    with nogil:
        for column in prange(columns, schedule="static", num_threads=threads):
            of = dense_bounds(&at, values + column * rows)
            store_bounds(&of, &out[0, column], columns)


cdef struct SparseLayout:
    # The lists, and the sum of omega over each layer.
    Layout at
    const int64_t *layer_of
    const int64_t *list_of
    const double *layer_omega


cdef Bounds sparse_bounds(
    const SparseLayout *to, const index_t *indices, const feature_t *data, Py_ssize_t start,
    Py_ssize_t stop,
) noexcept nogil:
    cdef const Layout *at = &to.at
    cdef Bounds of = Bounds(0.0, 0.0, 0.0, 0.0)
    cdef double low, high, square, weight, rest, width, xi, w
    cdef bint zeros
    cdef Py_ssize_t q, layer, i, end
    while start < stop:
        q = to.list_of[to.layer_of[indices[start]]]
        low, high, square, weight = INFINITY, -INFINITY, 0.0, 0.0
        for layer in range(at.list_ptr[q], at.list_ptr[q + 1]):
            end = seek(indices, start, stop, at.layer_ptr[layer + 1])
            zeros = end - start < at.layer_size[layer]
            if layer > at.list_ptr[q]:
                weight += to.layer_omega[layer]
                rest = to.layer_omega[layer]
                for i in range(start, end):
                    xi, w = <double>data[i], at.omega[indices[i]]
                    width = max(high, xi) - min(low, xi)
                    of.popoviciu += w * (width * width)
                    rest -= w
                if zeros and rest > 0.0:
                    width = max(high, 0.0) - min(low, 0.0)
                    of.popoviciu += rest * (width * width)
            for i in range(start, end):
                xi = <double>data[i]
                low, high, square = min(low, xi), max(high, xi), max(square, xi * xi)
            if zeros:
                low, high = min(low, 0.0), max(high, 0.0)
            start = end
        of.paper += weight * square
        add_list(&of, low, high)
    return of


def bounds_sparse(
    const index_t[::1] indptr, const index_t[::1] indices, const feature_t[::1] data, layout,
    double[:, ::1] out, int threads,
):
    """Fill `out` with bounds along sparse columns; absent entries are zeros."""
    cdef SparseLayout to
    cdef Py_ssize_t layer, column, columns = indptr.shape[0] - 1
    cdef double[::1] layer_omega = np.empty(len(layout.layer_size))
    cdef Bounds of
    to.at = layout_of(layout)
    layer_of = np.repeat(np.arange(to.at.layers), layout.layer_size)
    list_of = np.repeat(np.arange(to.at.lists), np.diff(layout.list_ptr))
    to.layer_of = <const int64_t *>address(layer_of)
    to.list_of, to.layer_omega = <const int64_t *>address(list_of), &layer_omega[0]
    with nogil:
        for layer in range(to.at.layers):
            layer_omega[layer] = sum_rows(
                to.at.omega, to.at.layer_ptr[layer], to.at.layer_ptr[layer + 1]
            )
        for column in prange(columns, schedule="static", num_threads=threads):
            of = sparse_bounds(
                &to, &indices[0], &data[0], indptr[column], indptr[column + 1]
            )
            store_bounds(&of, &out[0, column], columns)


# --- the contract -----------------------------------------------------------------------------


def domination_bounds(features, layout, out, int threads):
    """Fill `out` with bounds along each feature."""
    if isinstance(features, np.ndarray):
        bounds_dense(features, layout, out, threads)
    else:
        bounds_sparse(features.indptr, features.indices, features.data, layout, out, threads)


def domination_slopes(features, layout, margins, columns, out, int threads):
    """Fill out[0, c] and out[1, c] with gradient and curvature along columns[c]."""
    if isinstance(features, np.ndarray):
        slopes_dense(features, DenseArrays(layout, margins, threads), columns, out)
    else:
        slopes_sparse(
            features.indptr, features.indices, features.data, SparseArrays(layout, margins),
            columns, out,
        )


def domination_sweep(features, layout, state, columns, penalty, bint newton, int threads):
    """Take one coordinate descent step along each of `columns`, in order."""
    if isinstance(features, np.ndarray):
        sweep_dense(
            features, DenseArrays(layout, state.margins, threads), columns, state, penalty, newton
        )
    else:
        sweep_sparse(
            features.indptr, features.indices, features.data, SparseArrays(layout, state.margins),
            columns, state, penalty, newton,
        )
