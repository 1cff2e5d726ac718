"""Composing vectors, scoring and stepping U and V, in C by Cython.

The order of every floating-point operation is that of :mod:`ranking.kernels.reference_factored`,
so the results have the same bits. The door (:mod:`ranking.kernels.factored`) has checked every
array. Arithmetic on vectors, and how threads meet, is in wide.h.

A block has two phases, with a meeting of the threads after each. First they search, each its share
of the tuples, and keep the vectors of those that move. Then they move: a row of U or V belongs to
one thread, which goes through all tuples in order, changes its rows, and projects them.

This file is built once per instruction set; see meson.build.
"""

from cython.parallel cimport parallel, prange
from libc.math cimport sqrtf
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc

import numpy as np

cdef extern from "wide.h" nogil:
    ctypedef struct objects_t "wide_objects_t":
        const void *indptr
        const void *indices
        const void *data
        bint none
        bint wide_indices
        bint wide_data
    ctypedef struct meeting_t "crew_meeting_t":
        int waiting
        int round
        int asleep
    double lanes_exp_one(double x) noexcept
    float wide_dot(const float *a, const float *b, Py_ssize_t n) noexcept
    void wide_dot_two(
        const float *a, const float *b, const float *c, Py_ssize_t n, float *ab, float *ac
    ) noexcept
    void wide_copy "memcpy" (float *to, const float *from_, size_t bytes) noexcept
    void wide_subtract(const float *a, const float *b, Py_ssize_t n, float *out) noexcept
    void wide_scale(float *a, float by, Py_ssize_t n) noexcept
    void wide_step(float *p, const float *x, float c, Py_ssize_t n) noexcept
    void wide_adagrad(
        float *p, float *squares, const float *x, float c, float rate, Py_ssize_t n
    ) noexcept
    int64_t wide_start(const objects_t *of, int64_t row) noexcept
    int64_t wide_index(const objects_t *of, int64_t at) noexcept
    float wide_value(const objects_t *of, int64_t at) noexcept
    void wide_compose(
        const objects_t *of, int64_t row, const float *matrix, Py_ssize_t n, float *out
    ) noexcept
    void wide_score_tile(
        const float *queries, int64_t first, int64_t last, const float *documents, int64_t count,
        Py_ssize_t n, const float *biases, float *out, int64_t stride,
    ) noexcept
    int crew_turn() noexcept
    int crew_size() noexcept
    void crew_meet(meeting_t *at, int crew) noexcept

cdef enum:
    HINGE = 0  # PairForm
    LOGISTIC = 2
    KEPT = 4  # composed documents are kept if there are at most so many times what a block draws
    TILE = 128  # documents that are scored at a time: their scores should fill some lines
    STRIP = 32768  # numbers of queries' vectors that are scored against a tile: 128 KiB


cdef struct Side:
    # U or V, the sums of squares, and the rows that a thread's steps have changed.
    objects_t objects
    float *rows
    float *squares
    int64_t *seen  # by row: the last block that changed it
    int64_t n_rows


cdef struct Scratch:
    # What a thread works with.
    float *better
    float *worse
    int64_t *touched
    int64_t n_touched
    # Documents that it has composed in a block, if they are kept:
    float *kept
    float *kept_biases
    int64_t *places  # by document: the block, and where in it the document is kept
    int64_t n_kept


cdef struct Document:
    const float *vector
    float bias


cdef struct Job:
    # One call of `factored_steps`.
    Side queries
    Side documents
    float *biases
    float *bias_squares
    bint adagrad
    Py_ssize_t width
    int64_t n_documents
    const int64_t *tuples
    Py_ssize_t columns
    Py_ssize_t n
    const float *rates
    int form
    const float *rank_weights
    Py_ssize_t n_ranks
    float max_norm
    float l2
    Py_ssize_t block
    float *margins
    float *weights
    # Of a block's tuples:
    float *u
    float *apart
    float *g
    int64_t *negatives
    Scratch *scratch  # one a thread
    int crew
    meeting_t meeting


cdef objects_t objects_of(csr) except *:
    # The caller keeps the arrays alive.
    cdef objects_t made
    made.none = csr is None
    made.indptr = made.indices = made.data = NULL
    made.wide_indices = made.wide_data = False
    if csr is not None:
        indptr, indices, data = csr
        made.indptr = <const void *><size_t>indptr.ctypes.data
        made.indices = <const void *><size_t>indices.ctypes.data
        made.data = <const void *><size_t>data.ctypes.data
        made.wide_indices = indices.dtype == np.int64
        made.wide_data = data.dtype == np.float64
    return made


# --- search -----------------------------------------------------------------------------------


cdef inline float pair_slope(int form, float margin) noexcept nogil:
    if form == LOGISTIC:
        return <float>(-1.0 / (1.0 + lanes_exp_one(margin)))
    if not margin < 1.0:
        return 0.0
    return -1.0 if form == HINGE else <float>-2.0 * (<float>1.0 - margin)


cdef float bias_of(const Job *job, int64_t row) noexcept nogil:
    cdef const objects_t *of = &job.documents.objects
    cdef float total = 0.0
    cdef int64_t at
    if job.biases == NULL:
        return 0.0
    for at in range(wide_start(of, row), wide_start(of, row + 1)):
        total += wide_value(of, at) * job.biases[wide_index(of, at)]
    return total


cdef inline Document composed(
    const Job *job, int64_t row, float *own, int64_t time, Scratch *scratch
) noexcept nogil:
    # A document's vector and bias. Once a block and thread, if they are kept; or else into `own`.
    cdef Document made
    cdef int64_t place
    if scratch.places != NULL:
        place = <uint32_t>scratch.places[row]
        if scratch.places[row] >> 32 == time:
            made.vector, made.bias = scratch.kept + place * job.width, scratch.kept_biases[place]
            return made
        place = scratch.n_kept
        scratch.n_kept += 1
        scratch.places[row] = time << 32 | place
        own = scratch.kept + place * job.width
    wide_compose(&job.documents.objects, row, job.documents.rows, job.width, own)
    made.vector, made.bias = own, bias_of(job, row)
    if scratch.places != NULL:
        scratch.kept_biases[place] = made.bias
    return made


cdef inline Document document_of(
    const Job *job, int64_t row, float *own, int64_t time, Scratch *scratch
) noexcept nogil:
    cdef Document made
    if not job.documents.objects.none:
        return composed(job, row, own, time, scratch)
    made.vector = job.documents.rows + row * job.width
    made.bias = job.biases[row] if job.biases != NULL else 0.0
    return made


cdef inline float with_bias(const Job *job, float score, float bias) noexcept nogil:
    return score + bias if job.biases != NULL else score


cdef inline void search(
    const Job *job, Py_ssize_t step, Py_ssize_t place, int64_t time, Scratch *scratch
) noexcept nogil:
    # Fill margin, weight and what the step will need, at the parameters of the block's start.
    cdef const int64_t *chosen = job.tuples + step * job.columns
    cdef Py_ssize_t width = job.width, trials = job.columns - 2, trial = 1
    cdef float *kept = job.u + place * width
    cdef const float *u = kept
    cdef Document better, worse
    cdef float high, low, margin, g, weight = 0.0
    if job.queries.objects.none:
        u = job.queries.rows + chosen[0] * width
    else:
        wide_compose(&job.queries.objects, chosen[0], job.queries.rows, width, kept)
    better = document_of(job, chosen[1], scratch.better, time, scratch)
    worse = document_of(job, chosen[2], scratch.worse, time, scratch)
    wide_dot_two(u, better.vector, worse.vector, width, &high, &low)
    high = with_bias(job, high, better.bias)
    margin = high - with_bias(job, low, worse.bias)
    if trials > 1:
        while not margin < 1.0 and trial < trials:
            trial += 1
            worse = document_of(job, chosen[1 + trial], scratch.worse, time, scratch)
            low = wide_dot(u, worse.vector, width)
            margin = high - with_bias(job, low, worse.bias)
    if trials == 1 or margin < 1.0:
        weight = job.rank_weights[min((job.n_documents - 1) // trial, job.n_ranks - 1)]
    g = weight * pair_slope(job.form, margin)
    if not job.adagrad:
        g = job.rates[step] * g
    job.margins[step], job.weights[step], job.g[place] = margin, weight, g
    job.negatives[place] = chosen[1 + trial]
    if g == 0.0:
        return
    if job.queries.objects.none:
        wide_copy(kept, u, width * sizeof(float))
    wide_subtract(better.vector, worse.vector, width, job.apart + place * width)


# --- move -------------------------------------------------------------------------------------


cdef inline bint is_mine(int64_t row, int turn, int crew) noexcept nogil:
    # Rows are dealt out by a hash, as popular ones may follow a pattern.
    if crew == 1:
        return True
    cdef uint32_t hashed = <uint32_t>row * <uint32_t>2654435769
    return <int>((<uint64_t>hashed * <uint64_t>crew) >> 32) == turn


cdef inline void change(
    const Job *job, const Side *side, int64_t row, float c, const float *x, float rate,
    int64_t time, Scratch *scratch, int64_t mark,
) noexcept nogil:
    cdef Py_ssize_t width = job.width
    if job.adagrad:
        wide_adagrad(side.rows + row * width, side.squares + row * width, x, c, rate, width)
    else:
        wide_step(side.rows + row * width, x, c, width)
    if side.seen != NULL and side.seen[row] != time:
        side.seen[row] = time
        scratch.touched[scratch.n_touched] = mark + row
        scratch.n_touched += 1


cdef inline void change_bias(const Job *job, int64_t row, float y, float rate) noexcept nogil:
    if job.biases == NULL:
        return
    if job.adagrad:
        job.bias_squares[row] += y * y
        job.biases[row] -= (rate * y) / sqrtf(job.bias_squares[row])
    else:
        job.biases[row] -= y


cdef inline void move_query(
    const Job *job, int64_t query, float g, const float *apart, float rate, int64_t time,
    Scratch *scratch, int turn, int crew,
) noexcept nogil:
    cdef const objects_t *of = &job.queries.objects
    cdef int64_t at, row
    if of.none:
        if is_mine(query, turn, crew):
            change(job, &job.queries, query, g, apart, rate, time, scratch, 0)
        return
    for at in range(wide_start(of, query), wide_start(of, query + 1)):
        row = wide_index(of, at)
        if is_mine(row, turn, crew):
            change(
                job, &job.queries, row, g * wide_value(of, at), apart, rate, time, scratch, 0
            )


cdef inline void move_document(
    const Job *job, int64_t document, float g, const float *u, float rate, int64_t time,
    Scratch *scratch, int turn, int crew,
) noexcept nogil:
    cdef const objects_t *of = &job.documents.objects
    cdef int64_t at, row, mark = job.queries.n_rows
    cdef float c
    if of.none:
        if is_mine(document, turn, crew):
            change(job, &job.documents, document, g, u, rate, time, scratch, mark)
            change_bias(job, document, g, rate)
        return
    for at in range(wide_start(of, document), wide_start(of, document + 1)):
        row = wide_index(of, at)
        if is_mine(row, turn, crew):
            c = g * wide_value(of, at)
            change(job, &job.documents, row, c, u, rate, time, scratch, mark)
            change_bias(job, row, c, rate)


cdef void project(const Job *job, float rate, Scratch *scratch) noexcept nogil:
    # Each row that this thread has changed, once.
    cdef Py_ssize_t width = job.width
    cdef float shrink = <float>1.0 / (<float>1.0 + job.l2 * rate)
    cdef float most = job.max_norm * job.max_norm, square
    cdef float *vector
    cdef int64_t i, row
    for i in range(scratch.n_touched):
        row = scratch.touched[i]
        if row < job.queries.n_rows:
            vector = job.queries.rows + row * width
        else:
            vector = job.documents.rows + (row - job.queries.n_rows) * width
        if job.l2 > 0.0:
            wide_scale(vector, shrink, width)
        if job.max_norm > 0.0:
            square = wide_dot(vector, vector, width)
            if square > most:
                wide_scale(vector, job.max_norm / sqrtf(square), width)
    scratch.n_touched = 0


cdef void move(
    const Job *job, Py_ssize_t start, Py_ssize_t count, int64_t time, Scratch *scratch, int turn,
    int crew,
) noexcept nogil:
    # One thread's rows, through all steps of a block.
    cdef Py_ssize_t place, width = job.width
    cdef const int64_t *chosen
    cdef float g, rate
    cdef const float *u
    for place in range(count):
        g = job.g[place]
        if g == 0.0:
            continue
        chosen, rate = job.tuples + (start + place) * job.columns, job.rates[start + place]
        u = job.u + place * width
        move_query(
            job, chosen[0], g, job.apart + place * width, rate, time, scratch, turn, crew
        )
        move_document(job, chosen[1], g, u, rate, time, scratch, turn, crew)
        move_document(job, job.negatives[place], -g, u, rate, time, scratch, turn, crew)
    project(job, job.rates[start], scratch)


# --- steps ------------------------------------------------------------------------------------


cdef void work(Job *job, int turn, int crew) noexcept nogil:
    # One thread's part of all blocks.
    cdef Py_ssize_t start = 0, count, place
    cdef int64_t time = 0
    cdef Scratch *scratch = job.scratch + turn
    while start < job.n:
        count, time = min(job.block, job.n - start), time + 1
        scratch.n_kept = 0
        for place in range(count * turn // crew, count * (turn + 1) // crew):
            search(job, start + place, place, time, scratch)
        crew_meet(&job.meeting, crew)
        move(job, start, count, time, scratch, turn, crew)
        crew_meet(&job.meeting, crew)
        start += count


cdef void work_in_parallel(Job *job) noexcept nogil:
    with parallel(num_threads=job.crew):
        work(job, crew_turn(), crew_size())


cdef void *room(Py_ssize_t count, size_t size, bint *failed) noexcept nogil:
    # Memory that is not filled. One more, as none of 0 may be NULL.
    cdef void *made = NULL
    if <size_t>count < (<size_t>1 << 62) // size:
        made = malloc((<size_t>count + 1) * size)
    if made == NULL:
        failed[0] = True
    return made


cdef bint open_job(Job *job) noexcept nogil:
    # False if there is no memory.
    cdef bint failed = False, projects = job.l2 > 0.0 or job.max_norm > 0.0
    cdef Py_ssize_t vectors = job.block * job.width
    cdef int64_t rows = job.queries.n_rows + job.documents.n_rows
    cdef int64_t draws = job.block * (job.columns - 1), kept = min(draws, job.n_documents)
    cdef bint keeps = not job.documents.objects.none and job.n_documents // KEPT <= draws
    cdef int t
    job.u = <float *>room(vectors, sizeof(float), &failed)
    job.apart = <float *>room(vectors, sizeof(float), &failed)
    job.g = <float *>room(job.block, sizeof(float), &failed)
    job.negatives = <int64_t *>room(job.block, sizeof(int64_t), &failed)
    if projects:
        job.queries.seen = <int64_t *>calloc(job.queries.n_rows + 1, sizeof(int64_t))
        job.documents.seen = <int64_t *>calloc(job.documents.n_rows + 1, sizeof(int64_t))
        failed = failed or job.queries.seen == NULL or job.documents.seen == NULL
    job.scratch = <Scratch *>calloc(job.crew, sizeof(Scratch))
    if job.scratch == NULL:
        return False
    for t in range(job.crew):
        job.scratch[t].better = <float *>room(job.width, sizeof(float), &failed)
        job.scratch[t].worse = <float *>room(job.width, sizeof(float), &failed)
        if projects:
            job.scratch[t].touched = <int64_t *>room(rows, sizeof(int64_t), &failed)
        if keeps:
            job.scratch[t].kept = <float *>room(kept * job.width, sizeof(float), &failed)
            job.scratch[t].kept_biases = <float *>room(kept, sizeof(float), &failed)
            job.scratch[t].places = <int64_t *>calloc(job.n_documents + 1, sizeof(int64_t))
            failed = failed or job.scratch[t].places == NULL
    return not failed


cdef void close_job(Job *job) noexcept nogil:
    cdef int t
    if job.scratch != NULL:
        for t in range(job.crew):
            free(job.scratch[t].better)
            free(job.scratch[t].worse)
            free(job.scratch[t].touched)
            free(job.scratch[t].kept)
            free(job.scratch[t].kept_biases)
            free(job.scratch[t].places)
    free(job.scratch)
    free(job.documents.seen)
    free(job.queries.seen)
    free(job.negatives)
    free(job.g)
    free(job.apart)
    free(job.u)


cdef Side side_of(csr, float[:, ::1] rows, float[:, ::1] squares) except *:
    cdef Side made
    made.objects = objects_of(csr)
    made.n_rows, made.rows = rows.shape[0], &rows[0, 0]
    made.squares = &squares[0, 0] if squares.shape[0] else NULL
    made.seen = NULL
    return made


def factored_steps(
    queries, documents, const int64_t[:, ::1] tuples, const float[::1] rates, int form,
    const float[::1] rank_weights, int64_t n_documents, factors, squares, float max_norm,
    float l2, Py_ssize_t block, float[::1] margins, float[::1] weights, int threads,
):
    """Search the negatives of a block at its start, take its steps in order, project."""
    cdef Job job
    cdef float[::1] biases = factors[2], bias_squares = squares[2]
    cdef bint ready
    if tuples.shape[0] == 0:
        return
    job.queries = side_of(queries, factors[0], squares[0])
    job.documents = side_of(documents, factors[1], squares[1])
    job.biases = &biases[0] if biases.shape[0] else NULL
    job.bias_squares = &bias_squares[0] if bias_squares.shape[0] else NULL
    job.adagrad, job.width = job.queries.squares != NULL, factors[0].shape[1]
    job.tuples, job.n, job.columns = &tuples[0, 0], tuples.shape[0], tuples.shape[1]
    job.n_documents, job.rates, job.form = n_documents, &rates[0], form
    job.rank_weights, job.n_ranks = &rank_weights[0], rank_weights.shape[0]
    job.max_norm, job.l2, job.block = max_norm, l2, min(block, job.n)
    job.margins, job.weights = &margins[0], &weights[0]
    job.u = job.apart = job.g = NULL
    job.negatives = NULL
    job.crew = <int>min(<Py_ssize_t>threads, job.block)
    job.meeting.waiting = job.meeting.round = job.meeting.asleep = 0
    with nogil:
        ready = open_job(&job)
        if ready and job.crew == 1:
            work(&job, 0, 1)
        elif ready:
            work_in_parallel(&job)
        close_job(&job)
    if not ready:
        raise MemoryError(f"there is no memory for blocks of {job.block} tuples.")


# --- vectors and scores -----------------------------------------------------------------------


def factored_vectors(features, const float[:, ::1] matrix, float[:, ::1] out, int threads):
    """Compose the vector of each object."""
    cdef objects_t objects = objects_of(features)
    cdef Py_ssize_t row, width = matrix.shape[1], n = out.shape[0]
    cdef const float *rows
    cdef float *to
    if n == 0 or width == 0:
        return
    rows, to = &matrix[0, 0], &out[0, 0]
    with nogil:
        for row in prange(n, schedule="static", num_threads=threads):
            wide_compose(&objects, row, rows, width, to + row * width)


cdef void score_share(
    const float *queries, const float *documents, const float *biases, float *out,
    int64_t first, int64_t last, int64_t n_documents, Py_ssize_t width,
) noexcept nogil:
    # Some queries against all documents: a strip against a tile at a time.
    cdef int64_t strip = max(2, STRIP // max(width, 1) // 2 * 2)
    cdef int64_t at, count, stop
    while first < last:
        stop, at = min(first + strip, last), 0
        while at < n_documents:
            count = min(<int64_t>TILE, n_documents - at)
            wide_score_tile(
                queries, first, stop, documents + at * width, count, width,
                biases + at if biases != NULL else NULL, out + at, n_documents,
            )
            at += count
        first = stop


def factored_scores(
    const float[:, ::1] queries, const float[:, ::1] documents, const float[::1] biases,
    float[:, ::1] out, int threads,
):
    """Score composed queries against composed documents."""
    cdef int64_t n = out.shape[0], n_documents = out.shape[1]
    cdef Py_ssize_t width = queries.shape[1]
    cdef const float *left
    cdef const float *right
    cdef const float *added = NULL
    cdef float *to
    cdef int turn, crew = <int>max(1, min(<int64_t>threads, n))
    if n == 0 or n_documents == 0:
        return
    left, right, to = <const float *>&queries[0, 0], &documents[0, 0], &out[0, 0]
    if biases.shape[0]:
        added = &biases[0]
    with nogil:
        for turn in prange(crew, schedule="static", chunksize=1, num_threads=crew):
            score_share(
                left, right, added, to, n * turn // crew, n * (turn + 1) // crew, n_documents,
                width,
            )
