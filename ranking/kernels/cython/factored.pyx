"""Composing vectors, searching, stepping and scoring of the factored model, in C by Cython.

The order of every floating-point operation is that of :mod:`ranking.kernels.reference_factored`,
so the results have the same bits. The door (:mod:`ranking.kernels.factored`) has checked every
array. The loops are in the headers, an idea in each: wide.h has arithmetic on vectors, objects.h
composes them, crew.h has threads meet, pace.h finds out whether that pays, draw.h draws tuples,
factored_model.h keeps composed vectors, factored_search.h looks for violations, factored_update.h
takes the steps of a block, factored_steps.h does both by blocks, and factored_top.h finds the best
documents.

This file is built once per instruction set; see meson.build.
"""

from cython.parallel cimport prange
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc

import numpy as np

include "draw.pxi"

ctypedef double (*native_slope_t)(double margin, const void *context) noexcept nogil

cdef extern from "factored_steps.h" nogil:
    ctypedef struct objects_t:
        const void *indptr
        const void *indices
        const void *data
        int64_t n
        bint none
        bint wide_indices
        bint wide_data
    ctypedef struct part_t:
        float *rows
        float *squares
        int64_t n
    ctypedef struct model_t:
        objects_t queries
        objects_t documents
        objects_t contexts
        part_t U
        part_t V
        part_t S
        part_t biases
        Py_ssize_t width
        Py_ssize_t whole
        bint with_contexts
        bint with_biases
        bint adagrad
        bint plain_queries
        bint plain_documents
    ctypedef struct rooms_t:
        pass
    ctypedef struct search_t:
        const model_t *model
        const int64_t *tuples
        int64_t columns
        draw_lists_t *lists
        uint64_t seed
        uint64_t first
        int64_t positives
        int64_t place
        const float *rank_weights
        int64_t n_ranks
        int64_t n_documents
    ctypedef struct steps_t:
        int64_t n
        const int64_t *queries
        const int64_t *ptr
        const int64_t *documents
        const float *slopes
    ctypedef struct job_t:
        model_t model
        search_t search
        int64_t n
        int64_t block
        const float *rates
        int form
        native_slope_t native
        const void *context
        bint hogwild
        int crew
        float max_norm
        float l2
        int64_t *chosen
        float *margins
        float *weights
        rooms_t rooms
    ctypedef struct update_t:
        model_t model
        steps_t steps
        float rate
        rooms_t rooms
    void objects_compose(
        const objects_t *of, int64_t row, const float *matrix, Py_ssize_t n, float *out
    ) noexcept
    void wide_score_tile(
        const float *queries, int64_t first, int64_t last, const float *documents, int64_t count,
        Py_ssize_t n, const float *biases, float *out, int64_t stride,
    ) noexcept
    ctypedef void crew_work_t(void *job, int turn, int crew)
    crew_work_t job_work
    crew_work_t job_work_hogwild
    crew_work_t job_search_work
    void crew_run(crew_work_t *work, void *job, int crew) noexcept
    bint job_run(job_t *job, crew_work_t *work) noexcept
    bint update_run(update_t *update, float max_norm, float l2, int crew) noexcept
    void rooms_free(rooms_t *rooms) noexcept

cdef extern from "factored_top.h" nogil:
    ctypedef struct top_t:
        const float *queries
        const float *documents
        const float *biases
        const int64_t *barred_ptr
        const int64_t *barred
        int64_t *found
        float *scores
        int64_t n_queries
        int64_t n_documents
        int64_t k
        Py_ssize_t width
        float *tiles
    const int TOP_TILE
    const int TOP_STRIP
    crew_work_t top_work

cdef extern from "string.h" nogil:
    void clear "memset" (void *at, int value, size_t bytes) noexcept

cdef enum:
    TILE = 128  # documents that are scored at a time: their scores should fill some lines
    STRIP = 32768  # numbers of queries' vectors that are scored against a tile: 128 KiB


# --- the model --------------------------------------------------------------------------------


cdef objects_t objects_of(csr, int64_t n) except *:
    # The caller keeps the arrays alive.
    cdef objects_t made
    clear(&made, 0, sizeof(made))
    made.none, made.n = csr is None, n
    if csr is not None:
        indptr, indices, data = csr
        made.n = indptr.shape[0] - 1
        made.indptr = <const void *><size_t>indptr.ctypes.data
        made.indices = <const void *><size_t>indices.ctypes.data
        made.data = <const void *><size_t>data.ctypes.data
        made.wide_indices = indices.dtype == np.int64
        made.wide_data = data.dtype == np.float64
    return made


cdef float *singles_of(array) except? NULL:
    return <float *><size_t>array.ctypes.data if array.size else NULL


cdef part_t part_of(rows, squares) except *:
    cdef part_t made
    made.rows, made.squares = singles_of(rows), NULL
    if squares is not None:
        made.squares = singles_of(squares)
    made.n = rows.shape[0]
    return made


cdef model_t model_of(sides, factors, squares) except *:
    cdef model_t made
    U, V, S, biases = factors
    of_squares = (None,) * 4 if squares is None else squares
    made.U, made.V = part_of(U, of_squares[0]), part_of(V, of_squares[1])
    made.S, made.biases = part_of(S, of_squares[2]), part_of(biases, of_squares[3])
    made.queries = objects_of(sides[0], made.U.n)
    made.documents = objects_of(sides[1], made.V.n)
    made.contexts = objects_of(sides[2], 0)
    made.with_contexts, made.with_biases = sides[2] is not None, made.biases.rows != NULL
    made.adagrad = made.U.squares != NULL
    made.plain_queries = made.queries.none and not made.with_contexts
    made.plain_documents = made.documents.none and not made.with_contexts
    made.width = U.shape[1]
    made.whole = 2 * made.width if made.with_contexts else made.width
    return made


# --- search and steps -------------------------------------------------------------------------


cdef void set_search(
    job_t *job, draw_lists_t *lists, const int64_t[:, ::1] tuples, draws, int64_t positives,
    int64_t place, const float[::1] rank_weights, int64_t n_documents,
) except *:
    cdef search_t *search = &job.search
    search.model, search.columns = &job.model, tuples.shape[1]
    if draws is None:
        search.tuples = &tuples[0, 0]
    else:
        lists[0] = lists_of(draws[2])
        search.lists, search.seed, search.first = lists, draws[0], draws[1]
    search.positives, search.place = positives, place
    search.rank_weights, search.n_ranks = &rank_weights[0], rank_weights.shape[0]
    search.n_documents = n_documents


cdef void run(job_t *job, crew_work_t *work) except *:
    cdef bint ready
    with nogil:
        ready = job_run(job, work)
        rooms_free(&job.rooms)
    if not ready:
        raise MemoryError(f"there is no memory for blocks of {job.block} tuples.")


def factored_search(
    sides, factors, const int64_t[:, ::1] tuples, draws, int64_t positives, int64_t place,
    const float[::1] rank_weights, int64_t n_documents, int64_t[:, ::1] chosen,
    float[::1] margins, float[::1] weights, int threads,
):
    """Look for a violation of each tuple, at the parameters as they are."""
    cdef job_t job
    cdef draw_lists_t lists
    if chosen.shape[0] == 0:
        return
    clear(&job, 0, sizeof(job))
    job.model = model_of(sides, factors, None)
    set_search(&job, &lists, tuples, draws, positives, place, rank_weights, n_documents)
    job.n = job.block = chosen.shape[0]
    job.crew = <int>min(<int64_t>threads, job.n)
    job.chosen, job.margins, job.weights = &chosen[0, 0], &margins[0], &weights[0]
    run(&job, job_search_work)


def factored_steps(
    sides, factors, squares, const int64_t[:, ::1] tuples, draws, int64_t positives,
    int64_t place, const float[::1] rates, int form, slope, const float[::1] rank_weights,
    int64_t n_documents, float max_norm, float l2, int64_t block, bint hogwild,
    float[::1] margins, float[::1] weights, int threads,
):
    """Search a block at its start, then take its steps."""
    cdef job_t job
    cdef draw_lists_t lists
    if rates.shape[0] == 0:
        return
    clear(&job, 0, sizeof(job))
    job.model = model_of(sides, factors, squares)
    set_search(&job, &lists, tuples, draws, positives, place, rank_weights, n_documents)
    job.n, job.block = rates.shape[0], min(block, <int64_t>rates.shape[0])
    job.rates, job.form, job.hogwild = &rates[0], form, hogwild
    job.native, job.context = <native_slope_t><size_t>slope[0], <const void *><size_t>slope[1]
    job.max_norm, job.l2 = max_norm, l2
    job.crew = <int>min(<int64_t>threads, job.n if hogwild else job.block)
    job.margins, job.weights = &margins[0], &weights[0]
    run(&job, job_work_hogwild if hogwild else job_work)


def factored_update(
    sides, factors, squares, const int64_t[::1] queries, const int64_t[::1] step_ptr,
    const int64_t[::1] documents, const float[::1] slopes, float rate, float max_norm, float l2,
    int threads,
):
    """Take the steps of one block."""
    cdef update_t update
    cdef bint ready
    if documents.shape[0] == 0:
        return
    clear(&update, 0, sizeof(update))
    update.model, update.rate = model_of(sides, factors, squares), rate
    update.steps.n, update.steps.queries = queries.shape[0], &queries[0]
    update.steps.ptr, update.steps.documents = &step_ptr[0], &documents[0]
    update.steps.slopes = &slopes[0]
    with nogil:
        ready = update_run(&update, max_norm, l2, <int>min(<int64_t>threads, update.steps.n))
        rooms_free(&update.rooms)
    if not ready:
        raise MemoryError(f"there is no memory for a block of {update.steps.n} steps.")


def factored_top(
    const float[:, ::1] queries, const float[:, ::1] documents, const float[::1] biases,
    const int64_t[::1] barred_ptr, const int64_t[::1] barred, int64_t[:, ::1] found,
    float[:, ::1] scores, int threads,
):
    """Find the best documents of each query."""
    cdef top_t top
    cdef int crew = <int>max(1, min(<int64_t>threads, <int64_t>found.shape[0]))
    if found.shape[0] == 0 or found.shape[1] == 0:
        return
    clear(&top, 0, sizeof(top))
    top.queries, top.documents = &queries[0, 0], &documents[0, 0]
    top.biases = &biases[0] if biases.shape[0] else NULL
    top.barred_ptr, top.barred = &barred_ptr[0], ints_of(barred)
    top.found, top.scores = &found[0, 0], &scores[0, 0]
    top.n_queries, top.k = found.shape[0], found.shape[1]
    top.n_documents, top.width = documents.shape[0], documents.shape[1]
    top.tiles = <float *>malloc(<size_t>crew * TOP_TILE * TOP_STRIP * sizeof(float))
    if top.tiles == NULL:
        raise MemoryError("there is no memory for a tile of scores a thread.")
    with nogil:
        crew_run(top_work, &top, crew)
        free(top.tiles)


# --- vectors and scores -----------------------------------------------------------------------


def factored_vectors(features, const float[:, ::1] matrix, float[:, ::1] out, int threads):
    """Compose the vector of each object."""
    cdef objects_t objects = objects_of(features, 0)
    cdef Py_ssize_t row, width = matrix.shape[1], n = out.shape[0]
    cdef const float *rows
    cdef float *to
    if n == 0 or width == 0:
        return
    rows, to = &matrix[0, 0], &out[0, 0]
    with nogil:
        for row in prange(n, schedule="static", num_threads=threads):
            objects_compose(&objects, row, rows, width, to + row * width)


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
