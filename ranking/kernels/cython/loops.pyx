"""The loops of the contract, in C by Cython.

The order of every floating-point operation is that of :mod:`ranking.kernels.reference`, so the
results have the same bits. The door (:mod:`ranking.kernels.kernel`) has checked every array.

This file is built once per instruction set; see meson.build.
"""

from cython.parallel cimport prange
from libc.math cimport INFINITY, fabs, log, log1p
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

import numpy as np

cdef extern from "lanes.h" nogil:
    # In C this is a vector of four doubles. To Cython it is a double, so that arithmetic reads
    # as arithmetic; a slip between the two does not compile.
    ctypedef double lanes_t
    lanes_t lanes_load(const double *from_) noexcept
    lanes_t lanes_widen(const float *from_) noexcept
    void lanes_store(double *to, lanes_t v) noexcept
    lanes_t lanes_splat(double v) noexcept
    double lanes_fold(lanes_t v) noexcept
    lanes_t lanes_exp_short(lanes_t t) noexcept
    lanes_t lanes_exp_core(lanes_t r) noexcept
    lanes_t lanes_exp(lanes_t x) noexcept
    double lanes_exp_one(double x) noexcept
    const char *LANES_INSTRUCTIONS
    const char *LANES_THREADS

ctypedef fused feature_t:
    float
    double

ctypedef fused index_t:
    int32_t
    int64_t

cdef enum:
    LANES = 4  # loops say 4, as Cython compiles only a literal step to a plain C loop
    BLOCK = 4096

cdef uint64_t GAMMA = 0x9E3779B97F4A7C15
cdef double SHORT_LIMIT = 0.03125
cdef double CORE_LIMIT = 0.34
cdef double SPREAD = 300.0
cdef double ROUNDING = 2.0**-45
cdef double CURVATURE_FLOOR = 2.0**-40
cdef double RADIUS_FLOOR = 0.0625
cdef double RESUM = 2.0**-10


cdef struct Slopes:
    double g
    double h


cdef struct Moments:
    double mean
    double variance


cdef struct Layout:
    # Judged lists, as the contract has them.
    const int64_t *list_ptr
    const int64_t *layer_ptr
    const int64_t *layer_size
    const double *omega
    Py_ssize_t lists
    Py_ssize_t layers


def contract():
    """Return what these loops are."""
    return {
        "abi": 3,
        "lanes": LANES,
        "block": BLOCK,
        "rng": "splitmix64",
        "exp": "minimax-11",
        "threads": LANES_THREADS.decode("ascii"),
        "instructions": LANES_INSTRUCTIONS.decode("ascii"),
    }


# --- random numbers ---------------------------------------------------------------------------


cdef inline uint64_t draw(uint64_t seed, uint64_t k) noexcept nogil:
    cdef uint64_t z = seed + (k + 1) * GAMMA
    z = (z ^ (z >> 30)) * <uint64_t>0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * <uint64_t>0x94D049BB133111EB
    return z ^ (z >> 31)


def random_bits(uint64_t seed, uint64_t first, uint64_t[::1] out):
    """Fill `out` with the draws first, first + 1, ... of a seed."""
    cdef Py_ssize_t i
    with nogil:
        for i in range(out.shape[0]):
            out[i] = draw(seed, first + <uint64_t>i)


def random_uniform(uint64_t seed, uint64_t first, double[::1] out):
    """Fill `out` with uniforms in [0, 1)."""
    cdef Py_ssize_t i
    with nogil:
        for i in range(out.shape[0]):
            out[i] = <double>(draw(seed, first + <uint64_t>i) >> 11) * 2.0**-53


def random_below(uint64_t seed, uint64_t first, uint64_t bound, int64_t[::1] out):
    """Fill `out` with integers in [0, bound)."""
    cdef Py_ssize_t i
    with nogil:
        for i in range(out.shape[0]):
            out[i] = <int64_t>(((draw(seed, first + <uint64_t>i) >> 32) * bound) >> 32)


# --- sums and products ------------------------------------------------------------------------


cdef inline lanes_t load(const feature_t *values) noexcept nogil:
    if feature_t is float:
        return lanes_widen(values)
    else:
        return lanes_load(values)


cdef inline double fold_with_rest(
    lanes_t sums, const double *rest, Py_ssize_t count
) noexcept nogil:
    # Add what does not fill the lanes to the first of them, then the lanes.
    cdef double partial[LANES]
    cdef Py_ssize_t i
    lanes_store(partial, sums)
    for i in range(count):
        partial[i] += rest[i]
    return (partial[0] + partial[2]) + (partial[1] + partial[3])


cdef inline double lane_sum(const double *a, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i, whole = n - n % LANES
    cdef lanes_t sums = lanes_splat(0.0)
    for i in range(0, whole, 4):
        sums = sums + lanes_load(a + i)
    return fold_with_rest(sums, a + whole, n - whole)


cdef inline double lane_dot(const feature_t *a, const double *b, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i, whole = n - n % LANES
    cdef lanes_t sums = lanes_splat(0.0)
    cdef double rest[LANES]
    for i in range(0, whole, 4):
        sums = sums + load(a + i) * lanes_load(b + i)
    for i in range(whole, n):
        rest[i - whole] = <double>a[i] * b[i]
    return fold_with_rest(sums, rest, n - whole)


def exp(const double[::1] x, double[::1] out):
    """Fill `out` with the contract's exponential of `x`."""
    cdef Py_ssize_t i, n = x.shape[0], whole = n - n % LANES
    with nogil:
        for i in range(0, whole, 4):
            lanes_store(&out[i], lanes_exp(lanes_load(&x[i])))
        for i in range(whole, n):
            out[i] = lanes_exp_one(x[i])


def dot(const double[::1] a, const double[::1] b):
    """Return the sum in lanes of a[i] * b[i]."""
    cdef double result
    with nogil:
        result = lane_dot(&a[0], &b[0], a.shape[0])
    return result


def block_sum(const double[::1] a, int threads):
    """Return the sum of the blocks' sums, in order."""
    cdef Py_ssize_t b, n = a.shape[0], blocks = (n + BLOCK - 1) // BLOCK
    cdef double[::1] sums = np.empty(blocks)
    cdef double total = 0.0
    with nogil:
        for b in prange(blocks, schedule="static", num_threads=threads):
            sums[b] = lane_sum(&a[b * BLOCK], min(BLOCK, n - b * BLOCK))
        for b in range(blocks):
            total += sums[b]
    return total


def scores_dense(
    const feature_t[:, ::1] x, const double[::1] weights, double[::1] out, int threads
):
    """Fill out[i] with the sum in lanes of x[i, r] * weights[r]."""
    cdef Py_ssize_t i, columns = x.shape[1]
    cdef const feature_t *rows = &x[0, 0]
    with nogil:
        for i in prange(x.shape[0], schedule="static", num_threads=threads):
            out[i] = lane_dot(rows + i * columns, &weights[0], columns)


cdef inline double sparse_dot(
    const index_t *indices, const feature_t *data, const double *weights,
    Py_ssize_t start, Py_ssize_t stop,
) noexcept nogil:
    cdef double total = 0.0
    cdef Py_ssize_t at
    for at in range(start, stop):
        total += <double>data[at] * weights[indices[at]]
    return total


def scores_csr(
    const index_t[::1] indptr, const index_t[::1] indices, const feature_t[::1] data,
    const double[::1] weights, double[::1] out, int threads,
):
    """Fill out[i] with the sum, in stored order, of data * weights[index]."""
    cdef Py_ssize_t i
    with nogil:
        for i in prange(out.shape[0], schedule="static", num_threads=threads):
            out[i] = sparse_dot(&indices[0], &data[0], &weights[0], indptr[i], indptr[i + 1])


# --- domination: what dense and sparse features share -----------------------------------------


cdef inline Layout layout_of(
    const int64_t[::1] list_ptr, const int64_t[::1] layer_ptr, const int64_t[::1] layer_size,
    const double[::1] omega,
) noexcept:
    cdef Layout at
    at.list_ptr, at.layer_ptr, at.layer_size = &list_ptr[0], &layer_ptr[0], &layer_size[0]
    at.omega = &omega[0]
    at.lists, at.layers = list_ptr.shape[0] - 1, layer_size.shape[0]
    return at


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


cdef inline Slopes far_slopes(
    const Layout *at, Py_ssize_t q, const double *margins, const feature_t *x, Py_ssize_t base
) noexcept nogil:
    # Slopes of one list, with a reference C per layer: right for any margins. x starts at row
    # `base`.
    cdef Slopes out
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
    out.g, out.h = g, h
    return out


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
            for i in range(start, stop):
                Z += lanes_exp_one(margins[i] - C)
    return value


cdef double block_value(
    const Layout *at, const double *margins, Py_ssize_t start, Py_ssize_t stop
) noexcept nogil:
    cdef double value = 0.0
    cdef Py_ssize_t q
    for q in range(start, stop):
        value += list_value(at, q, margins)
    return value


def domination_value(
    const int64_t[::1] list_ptr, const int64_t[::1] layer_ptr, const int64_t[::1] layer_size,
    const int64_t[::1] block_ptr, const double[::1] omega, const double[::1] margins, int threads,
):
    """Return the loss at these margins."""
    cdef Layout at = layout_of(list_ptr, layer_ptr, layer_size, omega)
    cdef Py_ssize_t b, blocks = block_ptr.shape[0] - 1
    cdef double[::1] values = np.empty(blocks)
    cdef double total = 0.0
    with nogil:
        for b in prange(blocks, schedule="static", num_threads=threads):
            values[b] = block_value(&at, &margins[0], block_ptr[b], block_ptr[b + 1])
        for b in range(blocks):
            total += values[b]
    return total


cdef double take_step(
    Slopes slopes, double *weight, double *radius, double bound, double reach,
    double l1, double l2, bint newton,
) noexcept nogil:
    # Minimise the majoriser along one feature; return the change of the weight.
    cdef double c = bound, w = weight[0], r = radius[0]
    cdef double u, kappa, pull, target, delta, size
    if newton:
        u = reach * r
        kappa = 2.0 * ((lanes_exp_one(u) - u) - 1.0) / (u * u)
        if slopes.h * kappa < bound:
            c = slopes.h * kappa
            if c < bound * CURVATURE_FLOOR:
                c = bound * CURVATURE_FLOOR
    pull = c * w - slopes.g
    if pull > l1:
        target = (pull - l1) / (c + l2)
    elif pull < -l1:
        target = (pull + l1) / (c + l2)
    else:
        target = 0.0
    delta = target - w
    if c < bound:
        if delta > r:
            delta = r
            target = w + delta
        elif delta < -r:
            delta = -r
            target = w + delta
    size = fabs(delta)
    r = r * 0.5
    if r < 2.0 * size:
        r = 2.0 * size
    if r < RADIUS_FLOOR / reach:
        r = RADIUS_FLOOR / reach
    weight[0], radius[0] = target, r
    return delta


# --- domination over dense features -----------------------------------------------------------


cdef struct Dense:
    # Exponentials of the margins, list by list (0 on padding), and where blocks leave their sums.
    Layout at
    const int64_t *block_ptr
    Py_ssize_t blocks
    double *margins
    double *e
    uint8_t *far
    Slopes *sums
    int threads


cdef enum Reach:
    # How far a move goes: which exponential is exact enough.
    SHORT
    CORE
    FULL


cdef struct Move:
    # A step along a column that the margins have not taken yet.
    Py_ssize_t column
    double delta
    Reach reach


cdef inline Move make_move(Py_ssize_t column, double delta, double peak) noexcept nogil:
    cdef Move move
    cdef double longest = fabs(delta) * peak
    move.column, move.delta = column, delta
    if longest <= SHORT_LIMIT:
        move.reach = SHORT
    elif longest <= CORE_LIMIT:
        move.reach = CORE
    else:
        move.reach = FULL
    return move


cdef void prepare_list(const Dense *state, Py_ssize_t q) noexcept nogil:
    # Renew the exponentials of list q from its margins; see whether it is far.
    cdef const Layout *at = &state.at
    cdef Py_ssize_t layer, i, start, stop
    cdef Py_ssize_t first = at.list_ptr[q], end = at.list_ptr[q + 1]
    cdef double top = -INFINITY, bottom = INFINITY
    for layer in range(first, end):
        start = at.layer_ptr[layer]
        stop = start + at.layer_size[layer]
        top = max(top, highest(state.margins, start, stop))
        bottom = min(bottom, lowest(state.margins, start, stop))
    state.far[q] = top - bottom > SPREAD
    if state.far[q]:
        return
    for layer in range(first, end):
        start = at.layer_ptr[layer]
        for i in range(start, start + at.layer_size[layer]):
            state.e[i] = lanes_exp_one(state.margins[i] - top)


cdef inline void move_list(
    const Dense *state, Py_ssize_t q, const feature_t *x, Move move
) noexcept nogil:
    # Add delta * x to the margins of list q, and carry its exponentials along.
    cdef double *m = state.margins
    cdef double *e = state.e
    cdef Py_ssize_t i
    cdef Py_ssize_t start = state.at.layer_ptr[state.at.list_ptr[q]]
    cdef Py_ssize_t stop = state.at.layer_ptr[state.at.list_ptr[q + 1]]
    cdef lanes_t delta = lanes_splat(move.delta), t
    if state.far[q]:
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


cdef inline Slopes list_slopes(
    const Dense *state, Py_ssize_t q, const feature_t *x
) noexcept nogil:
    # A layer is first judged by the sums below it, then added to them: in one pass, except that
    # the bottom layer has nothing below it and nothing needs the sums of the top layer.
    cdef const Layout *at = &state.at
    cdef const double *e = state.e
    cdef Slopes out
    cdef Moments of
    cdef double Z, M, N
    cdef lanes_t G = lanes_splat(0.0), H = lanes_splat(0.0)
    cdef lanes_t Zs = lanes_splat(0.0), Ms = lanes_splat(0.0), Ns = lanes_splat(0.0)
    cdef lanes_t ei, xi, u, p, d, s, below, mean, variance, one = lanes_splat(1.0)
    cdef Py_ssize_t i, layer, first = at.list_ptr[q], last = at.list_ptr[q + 1] - 1

    for i in range(at.layer_ptr[first], at.layer_ptr[first + 1], 4):
        ei = lanes_load(e + i)
        xi = load(x + i)
        u = ei * xi
        Zs = Zs + ei
        Ms = Ms + u
        Ns = Ns + u * xi
    # 0.0 + is the order of the contract, and turns a sum of -0.0 into 0.0.
    Z, M, N = 0.0 + lanes_fold(Zs), 0.0 + lanes_fold(Ms), 0.0 + lanes_fold(Ns)

    for layer in range(first + 1, last):
        of = moments(Z, M, N)
        below, mean = lanes_splat(Z), lanes_splat(of.mean)
        variance = lanes_splat(of.variance)
        Zs = Ms = Ns = lanes_splat(0.0)
        for i in range(at.layer_ptr[layer], at.layer_ptr[layer + 1], 4):
            ei = lanes_load(e + i)
            xi = load(x + i)
            u = ei * xi
            Zs = Zs + ei
            Ms = Ms + u
            Ns = Ns + u * xi
            p = below / (below + ei)
            d = xi - mean
            s = lanes_load(at.omega + i) * p
            G = G + s * d
            H = H + s * (variance + (one - p) * (d * d))
        Z, M, N = Z + lanes_fold(Zs), M + lanes_fold(Ms), N + lanes_fold(Ns)

    of = moments(Z, M, N)
    below, mean, variance = lanes_splat(Z), lanes_splat(of.mean), lanes_splat(of.variance)
    for i in range(at.layer_ptr[last], at.layer_ptr[last + 1], 4):
        xi = load(x + i)
        p = below / (below + lanes_load(e + i))
        d = xi - mean
        s = lanes_load(at.omega + i) * p
        G = G + s * d
        H = H + s * (variance + (one - p) * (d * d))

    out.g, out.h = -lanes_fold(G), lanes_fold(H)
    return out


cdef void prepare_block(const Dense *state, Py_ssize_t b) noexcept nogil:
    cdef Py_ssize_t q
    for q in range(state.block_ptr[b], state.block_ptr[b + 1]):
        prepare_list(state, q)


cdef void prepare(const Dense *state) noexcept nogil:
    cdef Py_ssize_t b
    for b in prange(state.blocks, schedule="static", num_threads=state.threads):
        prepare_block(state, b)


cdef void move_block(
    const Dense *state, Py_ssize_t b, const feature_t *x, Move move
) noexcept nogil:
    cdef Py_ssize_t q
    for q in range(state.block_ptr[b], state.block_ptr[b + 1]):
        move_list(state, q, x, move)


cdef void move_all(
    const Dense *state, const feature_t *x, Py_ssize_t rows, Move move
) noexcept nogil:
    cdef Py_ssize_t b
    for b in prange(state.blocks, schedule="static", num_threads=state.threads):
        move_block(state, b, x + move.column * rows, move)


cdef void block_slopes(
    const Dense *state, Py_ssize_t b, const feature_t *now, const feature_t *before, Move move
) noexcept nogil:
    cdef Slopes of, block
    cdef Py_ssize_t q
    block.g = block.h = 0.0
    for q in range(state.block_ptr[b], state.block_ptr[b + 1]):
        if move.delta != 0.0:
            move_list(state, q, before, move)
        if state.far[q]:
            of = far_slopes(&state.at, q, state.margins, now, 0)
        else:
            of = list_slopes(state, q, now)
        block.g += of.g
        block.h += of.h
    state.sums[b] = block


cdef Slopes dense_slopes(
    const Dense *state, const feature_t *x, Py_ssize_t rows, Py_ssize_t column, Move move
) noexcept nogil:
    # Slopes along a column, after a pending move along another.
    cdef Slopes total
    cdef Py_ssize_t b
    for b in prange(state.blocks, schedule="static", num_threads=state.threads):
        block_slopes(state, b, x + column * rows, x + move.column * rows, move)
    total.g = total.h = 0.0
    for b in range(state.blocks):
        total.g += state.sums[b].g
        total.h += state.sums[b].h
    return total


def domination_slopes_dense(
    const feature_t[::1, :] x, const int64_t[::1] list_ptr, const int64_t[::1] layer_ptr,
    const int64_t[::1] layer_size, const int64_t[::1] block_ptr, const double[::1] omega,
    const double[::1] margins, const int64_t[::1] columns, double[:, ::1] out, int threads,
):
    """Fill out[0, c] and out[1, c] with gradient and curvature along columns[c]."""
    cdef Py_ssize_t c, blocks = block_ptr.shape[0] - 1
    cdef double[::1] e = np.zeros(margins.shape[0])
    cdef uint8_t[::1] far = np.zeros(list_ptr.shape[0] - 1, dtype=np.uint8)
    cdef double[:, ::1] sums = np.empty((blocks, 2))
    cdef Dense state
    cdef Slopes of
    state.at = layout_of(list_ptr, layer_ptr, layer_size, omega)
    state.block_ptr, state.blocks, state.threads = &block_ptr[0], blocks, threads
    state.margins = <double *>&margins[0]  # nothing moves here, so they are only read
    state.e, state.far, state.sums = &e[0], &far[0], <Slopes *>&sums[0, 0]
    with nogil:
        prepare(&state)
        for c in range(columns.shape[0]):
            of = dense_slopes(&state, &x[0, 0], x.shape[0], columns[c], make_move(0, 0.0, 0.0))
            out[0, c], out[1, c] = of.g, of.h


def domination_sweep_dense(
    const feature_t[::1, :] x, const int64_t[::1] list_ptr, const int64_t[::1] layer_ptr,
    const int64_t[::1] layer_size, const int64_t[::1] block_ptr, const double[::1] omega,
    double[::1] margins, double[::1] weights, double[::1] radius, const double[:, ::1] bounds,
    const int64_t[::1] columns, double l1, double l2, bint newton, int threads,
):
    """Take one step along each column; a step's move is done in the next column's pass."""
    cdef Py_ssize_t c, column, rows = x.shape[0], blocks = block_ptr.shape[0] - 1
    cdef double[::1] e = np.zeros(margins.shape[0])
    cdef uint8_t[::1] far = np.zeros(list_ptr.shape[0] - 1, dtype=np.uint8)
    cdef double[:, ::1] sums = np.empty((blocks, 2))
    cdef Dense state
    cdef Move move = make_move(0, 0.0, 0.0)
    cdef Slopes of
    cdef double delta, drift = 0.0
    state.at = layout_of(list_ptr, layer_ptr, layer_size, omega)
    state.block_ptr, state.blocks, state.threads = &block_ptr[0], blocks, threads
    state.margins = &margins[0]
    state.e, state.far, state.sums = &e[0], &far[0], <Slopes *>&sums[0, 0]
    with nogil:
        prepare(&state)
        for c in range(columns.shape[0]):
            column = columns[c]
            if bounds[0, column] == 0.0:
                continue
            of = dense_slopes(&state, &x[0, 0], rows, column, move)
            delta = take_step(
                of, &weights[column], &radius[column], bounds[0, column], bounds[1, column],
                l1, l2, newton,
            )
            move = make_move(column, delta, bounds[2, column])
            drift += fabs(delta) * bounds[2, column]
            if drift > SPREAD:
                move_all(&state, &x[0, 0], rows, move)
                prepare(&state)
                move.delta = drift = 0.0
        if move.delta != 0.0:
            move_all(&state, &x[0, 0], rows, move)


cdef void column_bounds(
    const Layout *at, const feature_t *x, double *out, Py_ssize_t columns
) noexcept nogil:
    cdef double popoviciu = 0.0, paper = 0.0, reach = 0.0, peak = 0.0
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
                    popoviciu += at.omega[i] * (width * width)
                    paper += at.omega[i] * square
            for i in range(start, stop):
                xi = <double>x[i]
                low, high = min(low, xi), max(high, xi)
        reach = max(reach, high - low)
        peak = max(peak, max(fabs(low), fabs(high)))
    out[0], out[columns] = popoviciu * 0.25, paper
    out[2 * columns], out[3 * columns] = reach, peak


def domination_bounds_dense(
    const feature_t[::1, :] x, const int64_t[::1] list_ptr, const int64_t[::1] layer_ptr,
    const int64_t[::1] layer_size, const double[::1] omega, double[:, ::1] out, int threads,
):
    """Fill out[0..4, r] with bounds along each feature r."""
    cdef Layout at = layout_of(list_ptr, layer_ptr, layer_size, omega)
    cdef Py_ssize_t column, rows = x.shape[0], columns = x.shape[1]
    cdef const feature_t *values = &x[0, 0]
    with nogil:
        for column in prange(columns, schedule="static", num_threads=threads):
            column_bounds(&at, values + column * rows, &out[0, column], columns)


# --- domination over sparse features ----------------------------------------------------------


cdef struct Sparse:
    # Margins, exponentials and the sums over layers that a sparse column does not touch: per
    # layer the `total` of its exponentials, `below` (Z) of all lower layers', and over its
    # dominating rows P1 = sum omega p, P2 = sum omega p**2.
    Layout at
    const int64_t *layer_of
    const int64_t *list_of
    double *margins
    double *e
    uint8_t *far
    double *drift
    double *total
    double *below
    double *P1
    double *P2
    double *x


cdef class Scratch:
    # Owns the arrays that a `Sparse` points to.
    cdef Sparse state
    cdef const int64_t[::1] layer_of, list_of
    cdef double[::1] e, x
    cdef uint8_t[::1] far
    cdef double[::1] drift
    cdef double[:, ::1] sums

    def __init__(
        self, const int64_t[::1] list_ptr, const int64_t[::1] layer_ptr,
        const int64_t[::1] layer_size, const double[::1] omega, const double[::1] margins,
    ):
        cdef Sparse *state = &self.state
        lists, layers = list_ptr.shape[0] - 1, layer_size.shape[0]
        self.layer_of = np.repeat(np.arange(layers), layer_size)
        self.list_of = np.repeat(np.arange(lists), np.diff(list_ptr))
        self.e = np.empty(margins.shape[0])
        self.x = np.zeros(np.diff(np.asarray(layer_ptr)[list_ptr]).max(initial=0))
        self.far = np.zeros(lists, dtype=np.uint8)
        self.drift = np.zeros(lists)
        self.sums = np.zeros((4, layers))
        state.at = layout_of(list_ptr, layer_ptr, layer_size, omega)
        state.layer_of, state.list_of = &self.layer_of[0], &self.list_of[0]
        state.margins = <double *>&margins[0]  # written by `sparse_move` alone
        state.e, state.x = &self.e[0], &self.x[0]
        state.far, state.drift = &self.far[0], &self.drift[0]
        state.total, state.below = &self.sums[0, 0], &self.sums[1, 0]
        state.P1, state.P2 = &self.sums[2, 0], &self.sums[3, 0]


cdef inline double row_sum(const double *values, Py_ssize_t start, Py_ssize_t stop) noexcept nogil:
    cdef double total = 0.0
    cdef Py_ssize_t i
    for i in range(start, stop):
        total += values[i]
    return total


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
    # Renew list q from its margins.
    cdef const Layout *at = &state.at
    cdef Py_ssize_t layer, i, first = at.list_ptr[q], end = at.list_ptr[q + 1]
    cdef Py_ssize_t start = at.layer_ptr[first], stop = at.layer_ptr[end]
    cdef double top = highest(state.margins, start, stop)
    state.far[q] = top - lowest(state.margins, start, stop) > SPREAD
    state.drift[q] = 0.0
    if state.far[q]:
        return
    for i in range(start, stop):
        state.e[i] = lanes_exp_one(state.margins[i] - top)
    for layer in range(first, end):
        state.total[layer] = row_sum(state.e, at.layer_ptr[layer], at.layer_ptr[layer + 1])
    sparse_refresh(state, q, first)


cdef inline Py_ssize_t list_at(const Sparse *state, Py_ssize_t row) noexcept nogil:
    return state.list_of[state.layer_of[row]]


cdef inline Py_ssize_t seek(
    const index_t *indices, Py_ssize_t at, Py_ssize_t stop, Py_ssize_t row
) noexcept nogil:
    # The first entry from `at` on that is not above `row`.
    while at < stop and indices[at] < row:
        at += 1
    return at


cdef Slopes sparse_far_slopes(
    const Sparse *state, const index_t *indices, const feature_t *data,
    Py_ssize_t start, Py_ssize_t stop, Py_ssize_t q,
) noexcept nogil:
    cdef Slopes out
    cdef Py_ssize_t i, base = state.at.layer_ptr[state.at.list_ptr[q]]
    for i in range(start, stop):
        state.x[indices[i] - base] = <double>data[i]
    out = far_slopes(&state.at, q, state.margins, <const double *>state.x, base)
    for i in range(start, stop):
        state.x[indices[i] - base] = 0.0
    return out


cdef Slopes sparse_list_slopes(
    const Sparse *state, const index_t *indices, const feature_t *data,
    Py_ssize_t start, Py_ssize_t stop, Py_ssize_t q,
) noexcept nogil:
    # Layers under the first entry's have slopes of exactly 0, and are passed over.
    cdef const Layout *at = &state.at
    cdef Slopes out
    cdef Moments of
    cdef double M = 0.0, N = 0.0, Z, sum_x, sum_h, p, s, u, xi, P1, P2
    cdef Py_ssize_t layer, i, end
    cdef Py_ssize_t first = at.list_ptr[q], last = at.list_ptr[q + 1] - 1
    out.g = out.h = 0.0
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
    cdef Slopes of, total
    cdef Py_ssize_t q, end
    total.g = total.h = 0.0
    while start < stop:
        q = list_at(state, indices[start])
        end = seek(indices, start, stop, at.layer_ptr[at.list_ptr[q + 1]])
        if state.far[q]:
            of = sparse_far_slopes(state, indices, data, start, end, q)
        else:
            of = sparse_list_slopes(state, indices, data, start, end, q)
        total.g += of.g
        total.h += of.h
        start = end
    return total


cdef void sparse_move_list(
    const Sparse *state, const index_t *indices, const feature_t *data,
    Py_ssize_t start, Py_ssize_t stop, Py_ssize_t q, double delta, double peak,
) noexcept nogil:
    cdef const Layout *at = &state.at
    cdef double t, old, new, change, before, after
    cdef Py_ssize_t layer, i, end, touched = state.layer_of[indices[start]]
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
            after = row_sum(state.e, at.layer_ptr[layer], at.layer_ptr[layer + 1])
        state.total[layer] = after
        start = end
    state.drift[q] += fabs(delta) * peak
    if state.drift[q] > SPREAD:
        sparse_prepare(state, q)
    else:
        sparse_refresh(state, q, touched)


cdef void sparse_move(
    const Sparse *state, const index_t *indices, const feature_t *data,
    Py_ssize_t start, Py_ssize_t stop, double delta, double peak,
) noexcept nogil:
    # Add delta * x to the margins of the rows that a column touches.
    cdef const Layout *at = &state.at
    cdef Py_ssize_t i, q, end
    while start < stop:
        q = list_at(state, indices[start])
        end = seek(indices, start, stop, at.layer_ptr[at.list_ptr[q + 1]])
        if state.far[q]:
            for i in range(start, end):
                state.margins[indices[i]] += delta * <double>data[i]
        else:
            sparse_move_list(state, indices, data, start, end, q, delta, peak)
        start = end


def domination_slopes_csc(
    const index_t[::1] indptr, const index_t[::1] indices, const feature_t[::1] data,
    const int64_t[::1] list_ptr, const int64_t[::1] layer_ptr, const int64_t[::1] layer_size,
    const double[::1] omega, const double[::1] margins, const int64_t[::1] columns,
    double[:, ::1] out,
):
    """Fill out[0, c] and out[1, c] with gradient and curvature along columns[c]."""
    cdef Scratch scratch = Scratch(list_ptr, layer_ptr, layer_size, omega, margins)
    cdef Sparse *state = &scratch.state
    cdef Py_ssize_t q, c, column
    cdef Slopes of
    with nogil:
        for q in range(state.at.lists):
            sparse_prepare(state, q)
        for c in range(columns.shape[0]):
            column = columns[c]
            of = sparse_slopes(state, &indices[0], &data[0], indptr[column], indptr[column + 1])
            out[0, c], out[1, c] = of.g, of.h


def domination_sweep_csc(
    const index_t[::1] indptr, const index_t[::1] indices, const feature_t[::1] data,
    const int64_t[::1] list_ptr, const int64_t[::1] layer_ptr, const int64_t[::1] layer_size,
    const double[::1] omega, double[::1] margins, double[::1] weights, double[::1] radius,
    const double[:, ::1] bounds, const int64_t[::1] columns, double l1, double l2, bint newton,
):
    """Take one step along each column, in time that follows the non-zeros."""
    cdef Scratch scratch = Scratch(list_ptr, layer_ptr, layer_size, omega, margins)
    cdef Sparse *state = &scratch.state
    cdef Py_ssize_t q, c, column, start, stop
    cdef Slopes of
    cdef double delta
    with nogil:
        for q in range(state.at.lists):
            sparse_prepare(state, q)
        for c in range(columns.shape[0]):
            column = columns[c]
            if bounds[0, column] == 0.0:
                continue
            start, stop = indptr[column], indptr[column + 1]
            of = sparse_slopes(state, &indices[0], &data[0], start, stop)
            delta = take_step(
                of, &weights[column], &radius[column], bounds[0, column], bounds[1, column],
                l1, l2, newton,
            )
            if delta != 0.0:
                sparse_move(
                    state, &indices[0], &data[0], start, stop, delta, bounds[2, column]
                )


cdef void sparse_column_bounds(
    const Layout *at, const int64_t *layer_of, const int64_t *list_of, const double *layer_omega,
    const index_t *indices, const feature_t *data, Py_ssize_t start, Py_ssize_t stop,
    double *out, Py_ssize_t columns,
) noexcept nogil:
    cdef double popoviciu = 0.0, paper = 0.0, reach = 0.0, peak = 0.0
    cdef double low, high, square, weight, rest, width, xi, w
    cdef bint zeros
    cdef Py_ssize_t q, layer, i, end
    while start < stop:
        q = list_of[layer_of[indices[start]]]
        low, high, square, weight = INFINITY, -INFINITY, 0.0, 0.0
        for layer in range(at.list_ptr[q], at.list_ptr[q + 1]):
            end = seek(indices, start, stop, at.layer_ptr[layer + 1])
            zeros = end - start < at.layer_size[layer]
            if layer > at.list_ptr[q]:
                weight += layer_omega[layer]
                rest = layer_omega[layer]
                for i in range(start, end):
                    xi, w = <double>data[i], at.omega[indices[i]]
                    width = max(high, xi) - min(low, xi)
                    popoviciu += w * (width * width)
                    rest -= w
                if zeros and rest > 0.0:
                    width = max(high, 0.0) - min(low, 0.0)
                    popoviciu += rest * (width * width)
            for i in range(start, end):
                xi = <double>data[i]
                low, high, square = min(low, xi), max(high, xi), max(square, xi * xi)
            if zeros:
                low, high = min(low, 0.0), max(high, 0.0)
            start = end
        paper += weight * square
        reach = max(reach, high - low)
        peak = max(peak, max(fabs(low), fabs(high)))
    out[0], out[columns] = popoviciu * 0.25, paper
    out[2 * columns], out[3 * columns] = reach, peak


def domination_bounds_csc(
    const index_t[::1] indptr, const index_t[::1] indices, const feature_t[::1] data,
    const int64_t[::1] list_ptr, const int64_t[::1] layer_ptr, const int64_t[::1] layer_size,
    const double[::1] omega, double[:, ::1] out, int threads,
):
    """Fill out[0..4, r] with bounds along each feature r; absent entries are zeros."""
    cdef Layout at = layout_of(list_ptr, layer_ptr, layer_size, omega)
    cdef const int64_t[::1] layer_of = np.repeat(np.arange(at.layers), layer_size)
    cdef const int64_t[::1] list_of = np.repeat(np.arange(at.lists), np.diff(list_ptr))
    cdef double[::1] layer_omega = np.empty(at.layers)
    cdef Py_ssize_t layer, column, columns = indptr.shape[0] - 1
    with nogil:
        for layer in range(at.layers):
            layer_omega[layer] = row_sum(
                &omega[0], at.layer_ptr[layer], at.layer_ptr[layer + 1]
            )
        for column in prange(columns, schedule="static", num_threads=threads):
            sparse_column_bounds(
                &at, &layer_of[0], &list_of[0], &layer_omega[0], &indices[0], &data[0],
                indptr[column], indptr[column + 1], &out[0, column], columns,
            )
