"""Drawing tuples, stepping W and scoring, in C by Cython.

The order of every floating-point operation is that of :mod:`ranking.kernels.reference_bilinear`,
so the results have the same bits; the words (lens, renew, settle, tick) are those of "Bilinear" in
:mod:`ranking.kernels.contract`. The door (:mod:`ranking.kernels.bilinear`) has checked every array.
How a row of W is kept is in sparse_row.h.

This file is built once per instruction set; see meson.build.
"""

from cython.parallel cimport prange
from libc.math cimport INFINITY, fabs, floor, fmod, sqrt
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

import threading

import numpy as np

include "draw.pxi"

ctypedef double (*native_slope_t)(double margin, const void *context) noexcept nogil

cdef extern from "sparse_row.h" nogil:
    ctypedef struct row_t:
        char *table
        int32_t used
        int32_t slots
    const int ROW_DENSE
    double lanes_exp_one(double x) noexcept
    uint32_t row_hash(int32_t column) noexcept
    size_t row_bytes(const row_t *row, int64_t n_columns, bint wide) noexcept
    void row_read(
        const row_t *row, const int32_t *columns, const uint32_t *hashes, int32_t n,
        int32_t *slots, double *v, bint wide,
    ) noexcept
    void row_recall(
        const row_t *row, const int32_t *columns, int32_t n, const int32_t *slots, double *v,
        bint wide,
    ) noexcept
    void row_ask(
        const row_t *row, const int32_t *columns, const uint32_t *hashes, int32_t n, bint wide
    ) noexcept
    void row_clear(row_t *row) noexcept
    bint row_open(row_t *row, int64_t columns, int64_t n_columns, bint wide) noexcept
    void row_insert(
        row_t *row, int32_t column, uint32_t hash, double value, bint wide
    ) noexcept
    bint row_write(
        row_t *row, int64_t n_columns, const int32_t *columns, const uint32_t *hashes, int32_t n,
        int32_t *slots, const double *stored, double s, bint wide,
    ) noexcept
    double row_dot(const double *v, const double *b, int32_t n, double k, double s) noexcept
    void row_move(
        double *v, const double *b, int32_t n, double k, double s, double factor, bint grow,
        double *w, double *moved,
    ) noexcept
    void row_renew(row_t *row, int64_t n_columns, double k, double s, bint wide) noexcept
    void row_tidy(row_t *row, int64_t n_columns, double s, bint wide) noexcept
    void row_scale(row_t *row, int64_t n_columns, double k, bint wide) noexcept
    int64_t row_count(
        const row_t *row, int64_t n_columns, double k, double s, bint wide
    ) noexcept
    int64_t row_export(
        const row_t *row, int64_t n_columns, double k, double s, bint current,
        int32_t *columns, char *values, bint wide,
    ) noexcept
    void row_lock(unsigned char *flag) noexcept
    void row_unlock(unsigned char *flag) noexcept

cdef enum:
    LANES = 4
    HINGE = 0  # PairForm
    LOGISTIC = 2
    NATIVE = 3
    HOGWILD_BLOCK = 1024
    REMEMBERED = 1 << 20  # slots of a tuple's entries that are kept from reading to writing
    TIDIED = 1  # rows a step, at least, that are searched for what has died
    TIDY_TURN = 8192  # steps in which all are
    ABREAST = 8  # queries that are scored at a time; their images' entries fill a line

cdef double RENEW = 4096.0
cdef double SMALLEST_SCALE = 2.0**-64
cdef double RESUM = 2.0**-10


cdef struct Clock:
    double step
    double scale
    double threshold
    double rates


cdef struct Lens:
    # An entry stored as v is the weight sign(v) k max(|v| - s, 0).
    double k
    double s


cdef struct Objects:
    # A CSR matrix of any dtypes.
    const void *indptr
    const void *indices
    const void *data
    bint wide_indices
    bint wide_data


cdef struct Side:
    # A sparse vector: rising indices, their hashes, values padded with zeros to whole lanes.
    int32_t n
    int32_t *at
    uint32_t *hashes
    double *values


cdef struct Scratch:
    # What a thread works with; the arrays are parts of one piece of memory.
    char *memory
    Side query
    Side better
    Side worse
    Side apart
    double *v
    double *before
    double *after
    int32_t *slots  # of one row
    int32_t *remembered  # of all entries of a tuple, by row
    int64_t room  # for so many


cdef struct State:
    # W, and what its rows' and groups' lenses are made of.
    int64_t n_rows
    int64_t n_columns
    int64_t n_groups  # 0: no group penalty
    bint wide
    bint failed  # there was no memory
    int64_t tidied  # the row that is to be tidied next
    row_t *rows
    double *row_state  # A_r, B_r, window
    int64_t *groups
    int64_t *group_ptr  # the rows of each group
    int64_t *group_rows
    double *group_weights
    double *group_state  # sigma, N, the largest N, B
    unsigned char *locks  # by row, or by group if there are groups


cdef struct Job:
    # One call of `margins`, `update`, `steps` or `passive`.
    State *w
    Objects queries
    Objects documents
    const int64_t *tuples
    Py_ssize_t width
    const double *rank_weights
    Py_ssize_t n_ranks
    int64_t n_documents
    const double *rates
    int form
    native_slope_t native  # the slope, if the form is native
    const void *context
    double every
    double l1
    double l2
    bint grow
    bint transposed
    double *margins
    double *weights
    int64_t *negatives
    double *slopes  # L times the loss's
    Scratch *scratch  # one a thread
    int crew


# --- random tuples ----------------------------------------------------------------------------


def draw_tuples(uint64_t seed, uint64_t first, lists, int64_t positives, int64_t[:, ::1] out):
    """Draw a query, one of its documents or more, and documents that are not its."""
    cdef draw_lists_t source = lists_of(lists)
    cdef int64_t step, columns = out.shape[1]
    with nogil:
        for step in range(out.shape[0]):
            draw_tuple(&source, seed, first + <uint64_t>step, positives, columns, &out[step, 0])


# --- objects ----------------------------------------------------------------------------------


cdef Objects objects_of(csr) except *:
    # The caller keeps the arrays alive.
    cdef Objects made
    indptr, indices, data = csr
    made.indptr = <const void *><size_t>indptr.ctypes.data
    made.indices = <const void *><size_t>indices.ctypes.data
    made.data = <const void *><size_t>data.ctypes.data
    made.wide_indices = indices.dtype == np.int64
    made.wide_data = data.dtype == np.float64
    return made


cdef inline int64_t start_of(const Objects *of, int64_t row) noexcept nogil:
    if of.wide_indices:
        return (<const int64_t *>of.indptr)[row]
    return (<const int32_t *>of.indptr)[row]


cdef inline int64_t index_at(const Objects *of, int64_t at) noexcept nogil:
    if of.wide_indices:
        return (<const int64_t *>of.indices)[at]
    return (<const int32_t *>of.indices)[at]


cdef inline double value_at(const Objects *of, int64_t at) noexcept nogil:
    if of.wide_data:
        return (<const double *>of.data)[at]
    return (<const float *>of.data)[at]


cdef inline void finish(Side *side) noexcept nogil:
    cdef int32_t i
    for i in range(side.n):
        side.hashes[i] = row_hash(side.at[i])
    for i in range(side.n, side.n + LANES):
        side.values[i] = 0.0


cdef void take(const Objects *of, int64_t row, Side *out) noexcept nogil:
    cdef int64_t start = start_of(of, row)
    cdef int32_t i
    out.n = <int32_t>(start_of(of, row + 1) - start)
    for i in range(out.n):
        out.at[i] = <int32_t>index_at(of, start + i)
        out.values[i] = value_at(of, start + i)
    finish(out)


cdef void take_difference(const Side *one, const Side *other, Side *out) noexcept nogil:
    # one - other, without entries that cancel.
    cdef int32_t i = 0, j = 0, n = 0
    cdef double value
    while i < one.n or j < other.n:
        if j == other.n or (i < one.n and one.at[i] < other.at[j]):
            out.at[n], value = one.at[i], one.values[i]
            i += 1
        elif i == one.n or other.at[j] < one.at[i]:
            out.at[n], value = other.at[j], 0.0 - other.values[j]
            j += 1
        else:
            out.at[n], value = one.at[i], one.values[i] - other.values[j]
            i += 1
            j += 1
        out.values[n] = value
        n += value != 0.0
    out.n = n
    finish(out)


# --- scratch ----------------------------------------------------------------------------------


cdef int64_t longest(const Objects *of, const Job *job, Py_ssize_t n, bint documents) noexcept:
    # The most features of an object that the tuples name.
    cdef int64_t most = 0, row, size
    cdef Py_ssize_t i, j
    for i in range(n):
        for j in range(1 if documents else 0, job.width if documents else 1):
            row = job.tuples[i * job.width + j]
            size = start_of(of, row + 1) - start_of(of, row)
            most = max(most, size)
    return most


cdef inline char *carve(char **memory, size_t bytes) noexcept nogil:
    cdef char *part = memory[0]
    memory[0] += (bytes + 63) // 64 * 64
    return part


cdef inline size_t side_bytes(int64_t n) noexcept nogil:
    return 3 * 64 + (<size_t>n + LANES) * (sizeof(int32_t) + sizeof(uint32_t) + sizeof(double))


cdef void carve_side(char **memory, Side *side, int64_t n) noexcept nogil:
    side.n = 0
    side.at = <int32_t *>carve(memory, (n + LANES) * sizeof(int32_t))
    side.hashes = <uint32_t *>carve(memory, (n + LANES) * sizeof(uint32_t))
    side.values = <double *>carve(memory, (n + LANES) * sizeof(double))


cdef bint prepare(Scratch *one, int64_t query, int64_t document, bint remember) noexcept nogil:
    # False if there is no memory.
    cdef int64_t right = max(query, 2 * document) + LANES
    cdef size_t bytes = side_bytes(query) + 2 * side_bytes(document) + side_bytes(2 * document)
    cdef char *at
    one.room = min(<int64_t>REMEMBERED, query * 2 * document) if remember else 0
    bytes += 3 * (64 + right * sizeof(double)) + 64 + right * sizeof(int32_t)
    bytes += 64 + one.room * sizeof(int32_t)
    one.memory = <char *>malloc(bytes)
    if one.memory == NULL:
        return False
    at = one.memory
    carve_side(&at, &one.query, query)
    carve_side(&at, &one.better, document)
    carve_side(&at, &one.worse, document)
    carve_side(&at, &one.apart, 2 * document)
    one.v = <double *>carve(&at, right * sizeof(double))
    one.before = <double *>carve(&at, right * sizeof(double))
    one.after = <double *>carve(&at, right * sizeof(double))
    one.slots = <int32_t *>carve(&at, right * sizeof(int32_t))
    one.remembered = <int32_t *>carve(&at, one.room * sizeof(int32_t))
    return True


cdef void open_scratch(Job *job, Py_ssize_t n, int crew, bint remember) except *:
    cdef int64_t query = longest(&job.queries, job, n, False)
    cdef int64_t document = longest(&job.documents, job, n, True)
    cdef int t
    job.crew = crew
    job.scratch = <Scratch *>calloc(crew, sizeof(Scratch))
    if job.scratch == NULL:
        raise MemoryError("there is no memory for a step.")
    for t in range(crew):
        if not prepare(job.scratch + t, query, document, remember):
            close_scratch(job)
            raise MemoryError(f"there is no memory for steps of {query} x {document} features.")


cdef void close_scratch(Job *job) noexcept:
    cdef int t
    if job.scratch != NULL:
        for t in range(job.crew):
            free(job.scratch[t].memory)
        free(job.scratch)
    job.scratch = NULL


# --- reading W --------------------------------------------------------------------------------


cdef inline double fraction(const State *w, int64_t group, const Clock *clock) noexcept nogil:
    # What is left of a group's norm after the shrinking since it was settled.
    cdef const double *state = w.group_state + 4 * group
    cdef double norm = sqrt(state[1])
    cdef double loss = w.group_weights[group] * (clock.threshold - state[3])
    return (norm - loss) / norm if norm > loss else 0.0


cdef inline Lens lens(const State *w, int64_t row, const Clock *clock) noexcept nogil:
    cdef Lens out
    cdef const double *state = w.row_state + 3 * row
    if w.n_groups:
        out.k = w.group_state[4 * w.groups[row]] * fraction(w, w.groups[row], clock)
        out.s = 0.0
    else:
        out.k = clock.scale / state[0]
        out.s = (clock.threshold - state[1]) * state[0]
    return out


cdef inline unsigned char *lock_of(const State *w, int64_t row) noexcept nogil:
    return w.locks + (w.groups[row] if w.n_groups else row)


cdef inline double score_as(
    const State *w, const Side *left, const Side *right, const Clock *clock, Scratch *scratch,
    bint remember, bint shared, bint wide,
) noexcept nogil:
    # left' W right. The slots that are found are remembered; rows that are `shared` are locked.
    cdef double total = 0.0
    cdef int32_t i, n = right.n
    cdef int64_t row
    cdef int32_t *slots = scratch.slots
    cdef Lens at
    memset(scratch.v + n, 0, LANES * sizeof(double))
    for i in range(left.n):
        row = left.at[i]
        if shared:
            row_lock(lock_of(w, row))
        at = lens(w, row, clock)
        if remember:
            slots = scratch.remembered + <int64_t>i * n
        if not shared and i + 1 < left.n:
            row_ask(w.rows + left.at[i + 1], right.at, right.hashes, n, wide)
        if w.rows[row].slots or remember:
            row_read(w.rows + row, right.at, right.hashes, n, slots, scratch.v, wide)
        if w.rows[row].slots:
            total += left.values[i] * row_dot(scratch.v, right.values, n, at.k, at.s)
        if shared:
            row_unlock(lock_of(w, row))
    return total


cdef double score(
    const State *w, const Side *left, const Side *right, const Clock *clock, Scratch *scratch,
    bint remember, bint shared,
) noexcept nogil:
    if w.wide:
        return score_as(w, left, right, clock, scratch, remember, shared, True)
    return score_as(w, left, right, clock, scratch, remember, shared, False)


# --- writing W --------------------------------------------------------------------------------


cdef void renew(State *w, int64_t row, const Clock *clock) noexcept nogil:
    cdef Lens at = lens(w, row, clock)
    if at.k != 1.0 or at.s != 0.0:
        if w.wide:
            row_renew(w.rows + row, w.n_columns, at.k, at.s, True)
        else:
            row_renew(w.rows + row, w.n_columns, at.k, at.s, False)
    w.row_state[3 * row] = clock.scale
    w.row_state[3 * row + 1] = clock.threshold


cdef void settle(State *w, int64_t group, const Clock *clock) noexcept nogil:
    # Bring a group up to date; one that has shrunk to zero is cleared.
    cdef double *state = w.group_state + 4 * group
    cdef double f
    cdef int64_t i
    if state[3] == clock.threshold:
        return
    f = fraction(w, group, clock)
    if f == 0.0:
        for i in range(w.group_ptr[group], w.group_ptr[group + 1]):
            row_clear(w.rows + w.group_rows[i])
        state[0], state[1], state[2] = 1.0, 0.0, 0.0
    else:
        state[0], state[1], state[2] = state[0] * f, state[1] * (f * f), state[2] * (f * f)
        if state[0] < SMALLEST_SCALE:
            for i in range(w.group_ptr[group], w.group_ptr[group + 1]):
                row_scale(w.rows + w.group_rows[i], w.n_columns, state[0], w.wide)
            state[0] = 1.0
    state[3] = clock.threshold


cdef double square(State *w, int64_t group) noexcept nogil:
    # The sum of a settled group's squares, by rows and then columns, one by one.
    cdef double total = 0.0, weight, k = w.group_state[4 * group]
    cdef int64_t i, j, n
    cdef row_t *row
    cdef int32_t *columns
    cdef char *values
    for i in range(w.group_ptr[group], w.group_ptr[group + 1]):
        row = w.rows + w.group_rows[i]
        n = row_count(row, w.n_columns, 1.0, 0.0, w.wide)
        columns = <int32_t *>malloc((n + 1) * sizeof(int32_t))
        values = <char *>malloc((n + 1) * sizeof(double))
        if columns == NULL or values == NULL:
            w.failed = True
        else:
            row_export(row, w.n_columns, 1.0, 0.0, False, columns, values, w.wide)
            for j in range(n):
                weight = (<double *>values)[j] if w.wide else (<float *>values)[j]
                weight = k * weight
                total += weight * weight
        free(columns)
        free(values)
    return total


cdef void count_change(
    State *w, int64_t group, const double *before, const double *after, int32_t n
) noexcept nogil:
    # Let a group's square follow its entries; sum it anew where it has lost its digits.
    cdef double *state = w.group_state + 4 * group
    cdef double change = 0.0
    cdef int32_t i
    for i in range(n):
        change += after[i] * after[i] - before[i] * before[i]
    state[1] += change
    if state[1] > state[2]:
        state[2] = state[1]
    if state[1] < state[2] * RESUM:
        state[1] = square(w, group)
        state[2] = state[1]


cdef inline void add_as(
    State *w, const Side *left, const Side *right, double factor, const Clock *clock, bint grow,
    Scratch *scratch, bint remembered, bint shared, int turn, int crew, bint wide,
) noexcept nogil:
    # Take factor * left right' from W, of its rows only those that are this thread's turn.
    cdef int32_t i, n = right.n
    cdef int64_t row, unit
    cdef double window = floor(clock.step / RENEW)
    cdef int32_t *slots = scratch.slots
    cdef bint known
    cdef char *table
    cdef Lens at
    memset(scratch.v + n, 0, LANES * sizeof(double))
    for i in range(left.n):
        row = left.at[i]
        unit = w.groups[row] if w.n_groups else row
        if crew > 1 and unit % crew != turn:
            continue
        if shared:
            row_lock(lock_of(w, row))
        known = remembered
        if w.n_groups:
            settle(w, unit, clock)
            at.k, at.s = w.group_state[4 * unit], 0.0
        else:
            if w.row_state[3 * row + 2] != window:
                table = w.rows[row].table
                renew(w, row, clock)
                w.row_state[3 * row + 2] = window
                known = known and table == w.rows[row].table
            at = lens(w, row, clock)
        if known:
            slots = scratch.remembered + <int64_t>i * n
            row_recall(w.rows + row, right.at, n, slots, scratch.v, wide)
        else:
            slots = scratch.slots
            row_read(w.rows + row, right.at, right.hashes, n, slots, scratch.v, wide)
        row_move(
            scratch.v, right.values, n, at.k, at.s, factor * left.values[i], grow,
            scratch.before, scratch.after,
        )
        if not row_write(
            w.rows + row, w.n_columns, right.at, right.hashes, n, slots, scratch.v, at.s, wide
        ):
            w.failed = True
        if w.n_groups:
            count_change(w, unit, scratch.before, scratch.after, n)
        if shared:
            row_unlock(lock_of(w, row))


cdef void add(
    State *w, const Side *left, const Side *right, double factor, const Clock *clock, bint grow,
    Scratch *scratch, bint remembered, bint shared, int turn, int crew,
) noexcept nogil:
    if w.wide:
        add_as(
            w, left, right, factor, clock, grow, scratch, remembered, shared, turn, crew, True
        )
    else:
        add_as(
            w, left, right, factor, clock, grow, scratch, remembered, shared, turn, crew, False
        )


cdef void restart(State *w, Clock *clock, int turn, int crew) noexcept nogil:
    # Renew this thread's rows, so that scale and threshold can start anew.
    cdef int64_t row
    for row in range(w.n_rows):
        if (w.groups[row] if w.n_groups else row) % crew == turn:
            renew(w, row, clock)
            w.row_state[3 * row], w.row_state[3 * row + 1] = 1.0, 0.0
    clock.scale, clock.threshold = 1.0, 0.0


cdef void tick(const Job *job, double rate, Clock *clock, int turn, int crew) noexcept nogil:
    # End a step; at every boundary the penalty of the steps since the last one is due.
    cdef double due
    clock.rates += rate
    if fmod(clock.step, job.every) != 0.0:
        return
    due = clock.rates
    clock.rates = 0.0
    clock.threshold += (job.l1 * due) / clock.scale
    clock.scale /= 1.0 + job.l2 * due
    if clock.scale < SMALLEST_SCALE:
        restart(job.w, clock, turn, crew)


cdef void tidy(State *w, int64_t n_steps, const Clock *clock) noexcept nogil:
    # Give back the room of dead entries of the next rows, in turn: else rows that are not touched
    # again would keep theirs. No weight changes.
    cdef int64_t row, group, _i
    cdef Lens at
    for _i in range(min(n_steps * (TIDIED + w.n_rows // TIDY_TURN), w.n_rows)):
        row = w.tidied
        w.tidied = row + 1 if row + 1 < w.n_rows else 0
        if w.rows[row].slots == 0:
            continue
        if w.n_groups:
            group = w.groups[row]
            if (
                w.group_state[4 * group + 3] != clock.threshold
                and fraction(w, group, clock) == 0.0
            ):
                row_clear(w.rows + row)
        else:
            at = lens(w, row, clock)
            if at.s > 0.0:
                row_tidy(w.rows + row, w.n_columns, at.s, w.wide)


# --- steps ------------------------------------------------------------------------------------


cdef inline double pair_slope(const Job *job, double margin) noexcept nogil:
    if job.form == NATIVE:
        return job.native(margin, job.context)
    if job.form == LOGISTIC:
        return -1.0 / (1.0 + lanes_exp_one(margin))
    if not margin < 1.0:
        return 0.0
    return -1.0 if job.form == HINGE else -2.0 * (1.0 - margin)


cdef inline double score_sides(
    const Job *job, const Side *query, const Side *document, const Clock *clock,
    Scratch *scratch, bint remember, bint shared,
) noexcept nogil:
    if job.transposed:
        return score(job.w, document, query, clock, scratch, remember, shared)
    return score(job.w, query, document, clock, scratch, remember, shared)


cdef inline bint remembers(const Job *job, const Scratch *scratch) noexcept nogil:
    # A tuple that is too large is searched twice; so are groups, as settling clears rows.
    if job.w.n_groups or job.width != 3:
        return False
    return <int64_t>scratch.query.n * scratch.apart.n <= scratch.room


cdef void search(
    const Job *job, Py_ssize_t step, const Clock *clock, Scratch *scratch, bint shared
) noexcept nogil:
    # Fill margin, weight and negative of a tuple; scratch holds what the step needs.
    cdef const int64_t *chosen = job.tuples + step * job.width
    cdef Py_ssize_t trial
    cdef double high, margin = 0.0, weight = 0.0
    take(&job.queries, chosen[0], &scratch.query)
    take(&job.documents, chosen[1], &scratch.better)
    if job.width == 3:
        take(&job.documents, chosen[2], &scratch.worse)
        take_difference(&scratch.better, &scratch.worse, &scratch.apart)
        job.margins[step] = score_sides(
            job, &scratch.query, &scratch.apart, clock, scratch, remembers(job, scratch), shared
        )
        job.weights[step] = job.rank_weights[min(job.n_documents - 1, job.n_ranks - 1)]
        job.negatives[step] = chosen[2]
        return
    high = score_sides(job, &scratch.query, &scratch.better, clock, scratch, False, shared)
    for trial in range(1, job.width - 1):
        take(&job.documents, chosen[1 + trial], &scratch.worse)
        margin = high - score_sides(
            job, &scratch.query, &scratch.worse, clock, scratch, False, shared
        )
        job.negatives[step] = chosen[1 + trial]
        if margin < 1.0:
            weight = job.rank_weights[min((job.n_documents - 1) // trial, job.n_ranks - 1)]
            break
    job.margins[step], job.weights[step] = margin, weight


cdef void move(
    const Job *job, Py_ssize_t step, double slope, const Clock *clock, Scratch *scratch,
    bint searched, bint shared, int turn, int crew,
) noexcept nogil:
    # Take a step. If its tuple was the last that `find` searched, scratch holds its vectors.
    cdef double factor = job.rates[step] * slope
    cdef const int64_t *chosen = job.tuples + step * job.width
    cdef Side *left = &scratch.query
    cdef Side *right = &scratch.apart
    if not factor != 0.0:
        return
    if not searched:
        take(&job.queries, chosen[0], &scratch.query)
        take(&job.documents, chosen[1], &scratch.better)
        take(&job.documents, job.negatives[step], &scratch.worse)
        take_difference(&scratch.better, &scratch.worse, &scratch.apart)
    if job.transposed:
        left, right = right, left
    add(
        job.w, left, right, factor, clock, job.grow, scratch,
        searched and remembers(job, scratch), shared, turn, crew,
    )


cdef void find(const Job *job, Py_ssize_t step, const Clock *clock) noexcept nogil:
    # Search a tuple, and hold what a step needs if there is one.
    search(job, step, clock, job.scratch, False)
    if job.width != 3 and job.margins[step] < 1.0:
        take_difference(&job.scratch.better, &job.scratch.worse, &job.scratch.apart)


cdef void search_share(
    const Job *job, Py_ssize_t start, Py_ssize_t stop, Clock clock, int turn
) noexcept nogil:
    # One thread's tuples.
    cdef Py_ssize_t step = start + turn
    while step < stop:
        search(job, step, &clock, job.scratch + turn, False)
        step += job.crew


cdef Clock move_share(
    const Job *job, Py_ssize_t start, Py_ssize_t stop, Clock clock, int turn
) noexcept nogil:
    # One thread's rows, through all steps: it has a clock of its own.
    cdef Py_ssize_t step
    for step in range(start, stop):
        clock.step += 1.0
        move(
            job, step, job.slopes[step], &clock, job.scratch + turn, False, False, turn, job.crew
        )
        tick(job, job.rates[step], &clock, turn, job.crew)
    return clock


cdef void share_search(
    const Job *job, Py_ssize_t start, Py_ssize_t stop, const Clock *clock
) noexcept nogil:
    cdef int turn
    if job.crew == 1:
        search_share(job, start, stop, clock[0], 0)
        return
    for turn in prange(job.crew, schedule="static", chunksize=1, num_threads=job.crew):
        search_share(job, start, stop, clock[0], turn)


cdef void share_move(
    const Job *job, Py_ssize_t start, Py_ssize_t stop, Clock *clock
) noexcept nogil:
    # Every thread comes to the same clock.
    cdef int turn
    cdef Clock before = clock[0]
    if job.crew == 1:
        clock[0] = move_share(job, start, stop, before, 0)
        return
    for turn in prange(job.crew, schedule="static", chunksize=1, num_threads=job.crew):
        keep_first(job, start, stop, before, turn, clock)


cdef void keep_first(
    const Job *job, Py_ssize_t start, Py_ssize_t stop, Clock before, int turn, Clock *clock
) noexcept nogil:
    cdef Clock after = move_share(job, start, stop, before, turn)
    if turn == 0:
        clock[0] = after


cdef void step_alone(const Job *job, Py_ssize_t step, Clock *clock) noexcept nogil:
    # Search and move at once, in batches of one.
    find(job, step, clock)
    clock.step += 1.0
    move(
        job, step, job.weights[step] * pair_slope(job, job.margins[step]), clock,
        job.scratch, True, False, 0, 1,
    )
    tick(job, job.rates[step], clock, 0, 1)


cdef inline double squares(const Side *side) noexcept nogil:
    cdef double total = 0.0
    cdef int32_t i
    for i in range(side.n):
        total += side.values[i] * side.values[i]
    return total


cdef double squares_there(const Job *job, const Clock *clock) noexcept nogil:
    # The sum of (left right')**2 over entries that are there.
    cdef Scratch *scratch = job.scratch
    cdef Side *left = &scratch.query
    cdef Side *right = &scratch.apart
    cdef double s, in_row, total = 0.0
    cdef int32_t i, j
    if job.transposed:
        left, right = right, left
    for i in range(left.n):
        row_read(
            job.w.rows + left.at[i], right.at, right.hashes, right.n, scratch.slots, scratch.v,
            job.w.wide,
        )
        s, in_row = lens(job.w, left.at[i], clock).s, 0.0
        for j in range(right.n):
            if fabs(scratch.v[j]) > s:
                in_row += right.values[j] * right.values[j]
        total += left.values[i] * left.values[i] * in_row
    return total


cdef inline double passive_rate(int form, double margin, double n, double most) noexcept nogil:
    cdef double rate, slack = 0.0
    if n == 0.0:
        return 0.0
    if form != HINGE:
        slack, most = 1.0 / (2.0 * most), INFINITY
    rate = (1.0 - margin) / (n + slack)
    return rate if rate < most else most


cdef void step_passive(
    const Job *job, Py_ssize_t step, double aggressiveness, double *rates, Clock *clock
) noexcept nogil:
    cdef double n, rate = 0.0
    find(job, step, clock)
    if job.margins[step] < 1.0:
        if job.grow:
            n = squares(&job.scratch.query) * squares(&job.scratch.apart)
        else:
            n = squares_there(job, clock)
        rate = passive_rate(job.form, job.margins[step], n, aggressiveness * job.weights[step])
    rates[step] = rate
    clock.step += 1.0
    move(job, step, -1.0, clock, job.scratch, True, False, 0, 1)
    tick(job, rate, clock, 0, 1)


cdef void step_batch(
    const Job *job, Py_ssize_t start, Py_ssize_t stop, Clock *clock
) noexcept nogil:
    cdef Py_ssize_t step
    share_search(job, start, stop, clock)
    for step in range(start, stop):
        job.slopes[step] = job.weights[step] * pair_slope(job, job.margins[step])
    share_move(job, start, stop, clock)


cdef void run_wild(
    const Job *job, Py_ssize_t start, Py_ssize_t stop, Clock clock, int turn
) noexcept nogil:
    cdef Py_ssize_t step = start + turn
    cdef double base = clock.step
    while step < stop:
        clock.step = base + <double>(step - start + 1)
        search(job, step, &clock, job.scratch + turn, True)
        move(
            job, step, job.weights[step] * pair_slope(job, job.margins[step]), &clock,
            job.scratch + turn, False, True, 0, 1,
        )
        step += job.crew


cdef void step_wild(
    const Job *job, Py_ssize_t start, Py_ssize_t stop, Clock *clock
) noexcept nogil:
    # Threads take the steps up to a boundary in no order, and meet there.
    cdef Py_ssize_t step
    cdef int turn
    for turn in prange(job.crew, schedule="static", chunksize=1, num_threads=job.crew):
        run_wild(job, start, stop, clock[0], turn)
    for step in range(start, stop):
        clock.step += 1.0
        tick(job, job.rates[step], clock, 0, 1)


cdef inline Py_ssize_t wild_stop(
    const Job *job, Py_ssize_t start, Py_ssize_t n, const Clock *clock
) noexcept nogil:
    cdef double most = HOGWILD_BLOCK
    if job.l1 != 0.0 or job.l2 != 0.0:
        most = job.every - fmod(clock.step, job.every)
    return start + <Py_ssize_t>min(most, <double>(n - start))


# --- the store --------------------------------------------------------------------------------


cdef class BilinearStore:
    """W while it is trained; see :class:`ranking.kernels.contract.BilinearStore`."""

    cdef State w
    cdef object turn  # one call at a time: the loops release the GIL

    def __init__(
        self, int64_t n_columns, const int64_t[::1] indptr, const int32_t[::1] indices, values,
        const double[:, ::1] row_state, const int64_t[::1] groups,
        const double[::1] group_weights, const double[:, ::1] group_state,
    ):
        if self.w.rows != NULL:
            raise RuntimeError("a store is filled once.")
        self.turn = threading.Lock()
        self.w.n_rows, self.w.n_columns = indptr.shape[0] - 1, n_columns
        self.w.n_groups = group_weights.shape[0] if groups.shape[0] else 0
        self.w.wide = values.dtype == np.float64
        self._open(groups.shape[0], group_weights.shape[0])
        self._fill(indptr, indices, values)
        memcpy(self.w.row_state, &row_state[0, 0], 3 * self.w.n_rows * sizeof(double))
        if group_weights.shape[0]:
            memcpy(
                self.w.group_weights, &group_weights[0], group_weights.shape[0] * sizeof(double)
            )
            memcpy(
                self.w.group_state, &group_state[0, 0],
                4 * group_weights.shape[0] * sizeof(double),
            )
        self._gather_groups(groups)

    cdef int _open(self, Py_ssize_t grouped, Py_ssize_t n_groups) except -1:
        cdef State *w = &self.w
        w.rows = <row_t *>calloc(w.n_rows, sizeof(row_t))
        w.row_state = <double *>malloc(3 * w.n_rows * sizeof(double))
        w.groups = <int64_t *>malloc((grouped + 1) * sizeof(int64_t))
        w.group_rows = <int64_t *>malloc((grouped + 1) * sizeof(int64_t))
        w.group_ptr = <int64_t *>calloc(n_groups + 2, sizeof(int64_t))
        w.group_weights = <double *>malloc((n_groups + 1) * sizeof(double))
        w.group_state = <double *>malloc((4 * n_groups + 1) * sizeof(double))
        w.locks = <unsigned char *>calloc(max(w.n_rows, n_groups), 1)
        if (
            w.rows == NULL or w.row_state == NULL or w.groups == NULL or w.group_rows == NULL
            or w.group_ptr == NULL or w.group_weights == NULL or w.group_state == NULL
            or w.locks == NULL
        ):
            raise MemoryError(f"there is no memory for the {w.n_rows} rows of W.")
        return 0

    cdef int _fill(self, const int64_t[::1] indptr, const int32_t[::1] indices, values) except -1:
        cdef State *w = &self.w
        cdef const char *data = <const char *><size_t>values.ctypes.data
        cdef const int32_t *columns = &indices[0] if indices.shape[0] else NULL
        cdef int64_t row, at
        cdef double value
        with nogil:
            for row in range(w.n_rows):
                if indptr[row] == indptr[row + 1]:
                    continue
                if not row_open(
                    w.rows + row, indptr[row + 1] - indptr[row], w.n_columns, w.wide
                ):
                    w.rows[row].slots = 0
                    w.failed = True
                    break
                for at in range(indptr[row], indptr[row + 1]):
                    if w.wide:
                        value = (<const double *>data)[at]
                    else:
                        value = (<const float *>data)[at]
                    row_insert(w.rows + row, columns[at], row_hash(columns[at]), value, w.wide)
        self._check()
        return 0

    cdef void _gather_groups(self, const int64_t[::1] groups) noexcept:
        # The rows of each group, in order, by counting.
        cdef State *w = &self.w
        cdef int64_t row, group, n_groups = w.n_groups
        if not n_groups:
            return
        memcpy(w.groups, &groups[0], w.n_rows * sizeof(int64_t))
        for row in range(w.n_rows):
            w.group_ptr[groups[row] + 2] += 1
        for group in range(n_groups):
            w.group_ptr[group + 2] += w.group_ptr[group + 1]
        for row in range(w.n_rows):
            w.group_rows[w.group_ptr[groups[row] + 1]] = row
            w.group_ptr[groups[row] + 1] += 1

    def __dealloc__(self):
        cdef int64_t row
        if self.w.rows != NULL:
            for row in range(self.w.n_rows):
                row_clear(self.w.rows + row)
        free(self.w.rows)
        free(self.w.row_state)
        free(self.w.groups)
        free(self.w.group_rows)
        free(self.w.group_ptr)
        free(self.w.group_weights)
        free(self.w.group_state)
        free(self.w.locks)

    cdef int _check(self) except -1:
        if self.w.failed:
            self.w.failed = False
            raise MemoryError("there is no memory for W to grow; W has lost a part of a step.")
        return 0

    def margins(
        self, queries, documents, const int64_t[:, ::1] tuples, const double[::1] rank_weights,
        int64_t n_documents, bint transposed, const double[::1] clock, double[::1] margins,
        double[::1] weights, int64_t[::1] negatives, int threads,
    ):
        """Fill margins, violation weights and chosen negatives of tuples at the current W."""
        cdef Job job
        cdef Clock now = clock_of(clock)
        cdef Py_ssize_t n = tuples.shape[0]
        if n == 0:
            return
        memset(&job, 0, sizeof(job))
        job.w, job.queries, job.documents = &self.w, objects_of(queries), objects_of(documents)
        job.tuples, job.width, job.transposed = &tuples[0, 0], tuples.shape[1], transposed
        job.rank_weights, job.n_ranks = &rank_weights[0], rank_weights.shape[0]
        job.n_documents = n_documents
        job.margins, job.weights, job.negatives = &margins[0], &weights[0], &negatives[0]
        open_scratch(&job, n, crew_of(threads, n), False)
        try:
            with self.turn, nogil:
                share_search(&job, 0, n, &now)
        finally:
            close_scratch(&job)

    def update(
        self, queries, documents, const int64_t[:, ::1] tuples, const int64_t[::1] negatives,
        const double[::1] slopes, const double[::1] rates, double every, double l1, double l2,
        bint grow, bint transposed, double[::1] clock, int threads,
    ):
        """Take steps with given slopes, in order."""
        cdef Job job
        cdef Clock now = clock_of(clock)
        cdef Py_ssize_t n = tuples.shape[0]
        if n == 0:
            return
        memset(&job, 0, sizeof(job))
        job.w, job.queries, job.documents = &self.w, objects_of(queries), objects_of(documents)
        job.tuples, job.width, job.transposed = &tuples[0, 0], tuples.shape[1], transposed
        job.negatives, job.slopes = <int64_t *>&negatives[0], <double *>&slopes[0]  # only read
        job.rates = &rates[0]
        job.every, job.l1, job.l2, job.grow = every, l1, l2, grow
        open_scratch(&job, n, crew_of(threads, n), False)
        try:
            with self.turn, nogil:
                share_move(&job, 0, n, &now)
                if l1 != 0.0:
                    tidy(&self.w, n, &now)
        finally:
            close_scratch(&job)
        put_clock(&now, clock)
        self._check()

    def steps(
        self, queries, documents, const int64_t[:, ::1] tuples, const double[::1] rates, int form,
        slope, const double[::1] rank_weights, int64_t n_documents, double every, double l1,
        double l2, bint grow, bint transposed, Py_ssize_t batch, bint hogwild, double[::1] clock,
        double[::1] margins, double[::1] weights, int threads,
    ):
        """Margins of a batch at its start, then its steps in order."""
        cdef Job job
        cdef Clock now = clock_of(clock)
        cdef Py_ssize_t n = tuples.shape[0], start = 0, stop
        cdef int64_t[::1] negatives = np.empty(max(n, 1), dtype=np.int64)
        cdef double[::1] slopes = np.empty(max(n, 1))
        cdef int crew = crew_of(threads, n)
        cdef bint wild = hogwild and crew > 1
        if n == 0:
            return
        if batch == 1 and not wild:
            crew = 1
        memset(&job, 0, sizeof(job))
        job.w, job.queries, job.documents = &self.w, objects_of(queries), objects_of(documents)
        job.tuples, job.width, job.transposed = &tuples[0, 0], tuples.shape[1], transposed
        job.rank_weights, job.n_ranks = &rank_weights[0], rank_weights.shape[0]
        job.n_documents, job.rates, job.form = n_documents, &rates[0], form
        job.native, job.context = <native_slope_t><size_t>slope[0], <const void *><size_t>slope[1]
        job.every, job.l1, job.l2, job.grow = every, l1, l2, grow
        job.margins, job.weights = &margins[0], &weights[0]
        job.negatives, job.slopes = &negatives[0], &slopes[0]
        open_scratch(&job, n, crew, batch == 1)
        try:
            with self.turn, nogil:
                while start < n and not self.w.failed:
                    if wild:
                        stop = wild_stop(&job, start, n, &now)
                        step_wild(&job, start, stop, &now)
                    elif batch == 1:
                        stop = start + 1
                        step_alone(&job, start, &now)
                    else:
                        stop = start + min(batch, n - start)
                        step_batch(&job, start, stop, &now)
                    if l1 != 0.0:
                        tidy(&self.w, stop - start, &now)
                    start = stop
        finally:
            close_scratch(&job)
        put_clock(&now, clock)
        self._check()

    def passive(
        self, queries, documents, const int64_t[:, ::1] tuples, int form, double aggressiveness,
        const double[::1] rank_weights, const int64_t[::1] n_documents, bint grow,
        bint transposed, double[::1] clock, double[::1] margins, double[::1] weights,
        double[::1] rates,
    ):
        """Passive-aggressive steps, one by one."""
        cdef Job job
        cdef Clock now = clock_of(clock)
        cdef Py_ssize_t n = tuples.shape[0], step
        cdef int64_t[::1] negatives = np.empty(max(n, 1), dtype=np.int64)
        if n == 0:
            return
        memset(&job, 0, sizeof(job))
        job.w, job.queries, job.documents = &self.w, objects_of(queries), objects_of(documents)
        job.tuples, job.width, job.transposed = &tuples[0, 0], tuples.shape[1], transposed
        job.rank_weights, job.n_ranks = &rank_weights[0], rank_weights.shape[0]
        job.form, job.every, job.grow, job.rates = form, 1.0, grow, &rates[0]
        job.margins, job.weights, job.negatives = &margins[0], &weights[0], &negatives[0]
        open_scratch(&job, n, 1, True)
        try:
            with self.turn, nogil:
                for step in range(n):
                    if self.w.failed:
                        break
                    job.n_documents = n_documents[step]
                    step_passive(&job, step, aggressiveness, &rates[0], &now)
        finally:
            close_scratch(&job)
        put_clock(&now, clock)
        self._check()

    def counts(self, const double[::1] clock, int64_t[::1] out):
        """Fill `out` with the number of entries of each row that are not zero now."""
        cdef Clock now = clock_of(clock)
        cdef int64_t row
        cdef Lens at
        with self.turn, nogil:
            for row in range(self.w.n_rows):
                at = lens(&self.w, row, &now)
                out[row] = row_count(
                    self.w.rows + row, self.w.n_columns, at.k, at.s, self.w.wide
                )

    def export(
        self, const double[::1] clock, const int64_t[::1] indptr, int32_t[::1] indices, values,
        bint current,
    ):
        """Fill indices and values, sorted by row and column, where `indptr` follows `counts`."""
        cdef Clock now = clock_of(clock)
        cdef char *data = <char *><size_t>values.ctypes.data
        cdef size_t size = values.itemsize
        cdef int64_t row
        cdef Lens at
        with self.turn, nogil:
            for row in range(self.w.n_rows):
                if indptr[row] == indptr[row + 1]:
                    continue
                at = lens(&self.w, row, &now)
                row_export(
                    self.w.rows + row, self.w.n_columns, at.k, at.s, current,
                    &indices[indptr[row]], data + indptr[row] * size, self.w.wide,
                )

    def state(self, double[:, ::1] row_state, double[:, ::1] group_state):
        """Fill what `Loops.bilinear` takes to go on with the same bits."""
        with self.turn:
            memcpy(&row_state[0, 0], self.w.row_state, 3 * self.w.n_rows * sizeof(double))
            if group_state.shape[0]:
                memcpy(
                    &group_state[0, 0], self.w.group_state,
                    4 * group_state.shape[0] * sizeof(double),
                )

    def memory(self):
        """Return the bytes that the store has taken."""
        cdef int64_t row
        cdef size_t bytes = self.w.n_rows * (sizeof(row_t) + 3 * sizeof(double) + 1)
        with self.turn:
            for row in range(self.w.n_rows):
                bytes += row_bytes(self.w.rows + row, self.w.n_columns, self.w.wide)
        return bytes


cdef Clock clock_of(const double[::1] clock) noexcept:
    cdef Clock now
    now.step, now.scale, now.threshold, now.rates = clock[0], clock[1], clock[2], clock[3]
    return now


cdef void put_clock(const Clock *now, double[::1] clock) noexcept:
    clock[0], clock[1], clock[2], clock[3] = now.step, now.scale, now.threshold, now.rates


cdef int crew_of(int threads, Py_ssize_t n) noexcept:
    # Each thread has scratch, so there are no more of them than steps.
    return <int>max(1, min(<Py_ssize_t>threads, n))


bilinear = BilinearStore


# --- scores -----------------------------------------------------------------------------------


cdef void fill_images(
    const Objects *queries, const Objects *weights, int64_t first, int64_t count, double *images
) noexcept nogil:
    # images[column][query]: the sum, in stored order of the query, of q * w.
    cdef int64_t i, at, j, row
    cdef double a
    for i in range(count):
        for at in range(start_of(queries, first + i), start_of(queries, first + i + 1)):
            a, row = value_at(queries, at), index_at(queries, at)
            for j in range(start_of(weights, row), start_of(weights, row + 1)):
                images[index_at(weights, j) * ABREAST + i] += a * value_at(weights, j)


cdef void score_block(
    const Objects *queries, const Objects *weights, const Objects *documents, int64_t first,
    int64_t count, int64_t n_columns, double *images, double *out, int64_t n_documents,
) noexcept nogil:
    # A few queries against all documents.
    cdef int64_t document, at, i
    cdef double totals[ABREAST]
    cdef double d
    cdef const double *image
    memset(images, 0, n_columns * ABREAST * sizeof(double))
    fill_images(queries, weights, first, count, images)
    for document in range(n_documents):
        memset(totals, 0, sizeof(totals))
        for at in range(start_of(documents, document), start_of(documents, document + 1)):
            d, image = value_at(documents, at), images + index_at(documents, at) * ABREAST
            for i in range(ABREAST):
                totals[i] += d * image[i]
        for i in range(count):
            out[(first + i) * n_documents + document] = totals[i]


cdef void score_share(
    const Objects *queries, const Objects *weights, const Objects *documents, int64_t n_queries,
    int64_t n_columns, double *images, double *out, int64_t n_documents, int turn, int crew,
) noexcept nogil:
    cdef int64_t first = turn * ABREAST
    while first < n_queries:
        score_block(
            queries, weights, documents, first, min(<int64_t>ABREAST, n_queries - first),
            n_columns, images, out, n_documents,
        )
        first += crew * ABREAST


def bilinear_scores(
    queries, weights, documents, int64_t n_columns, double[:, ::1] out, int threads
):
    """Take the images of a few queries under W, then their products with each document."""
    cdef Objects left = objects_of(queries), middle = objects_of(weights)
    cdef Objects right = objects_of(documents)
    cdef int64_t n_queries = out.shape[0], n_documents = out.shape[1]
    cdef int turn, crew = crew_of(threads, (n_queries + ABREAST - 1) // ABREAST)
    cdef double[:, ::1] images
    if n_queries == 0 or n_documents == 0:
        return
    images = np.empty((crew, n_columns * ABREAST))
    with nogil:
        for turn in prange(crew, schedule="static", chunksize=1, num_threads=crew):
            score_share(
                &left, &middle, &right, n_queries, n_columns, &images[turn, 0], &out[0, 0],
                n_documents, turn, crew,
            )
