"""The alternating half-steps, in C by Cython.

The order of every floating-point operation is that of
:mod:`ranking.kernels.reference_alternating`, so the results have the same bits. The door
(:mod:`ranking.kernels.alternating`) has checked every array. The loops are in alternating.h.

This file is built once per instruction set; see meson.build.
"""

from cython.parallel cimport prange
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

import numpy as np

cdef extern from "alternating.h" nogil:
    ctypedef struct half_matrix_t:
        const void *indptr
        const void *indices
        const void *data
        bint wide_indices
        bint wide_data
        int64_t rows
        int64_t last
    ctypedef struct half_rule_t:
        float threshold
        float limit
        bint limited
    ctypedef struct half_dense_t:
        half_matrix_t matrix
        half_rule_t rule
        const float *vectors
        Py_ssize_t width
        float *out
        double *gains
    ctypedef struct half_sparse_t:
        half_matrix_t matrix
        half_rule_t rule
        const int64_t *pointers
        const int32_t *dimensions
        const float *values
        Py_ssize_t width
        int64_t *counts
        double *gains
    ctypedef struct half_made_t:
        int32_t *dimensions
        float *values
        int64_t count
        int64_t room
    int64_t half_chunk(const half_matrix_t *of_, int64_t chunk, int64_t chunks) noexcept
    void half_rows(const half_dense_t *job, int64_t first, int64_t last, float *omega) noexcept
    bint half_sparse_rows(
        const half_sparse_t *job, int64_t first, int64_t last, float *omega, float *soft,
        half_made_t *made,
    ) noexcept
    void half_free(half_made_t *made) noexcept

cdef enum:
    CHUNKS = 32  # of rows, a thread: the last ones to end should be short
    WIDE = 8


cdef half_matrix_t matrix_of(csr) except *:
    # The caller keeps the arrays alive.
    cdef half_matrix_t made
    indptr, indices, data = csr
    made.indptr = <const void *><size_t>indptr.ctypes.data
    made.indices = <const void *><size_t>indices.ctypes.data
    made.data = <const void *><size_t>data.ctypes.data
    made.wide_indices = indices.dtype == np.int64
    made.wide_data = data.dtype == np.float64
    made.rows, made.last = indptr.size - 1, indices.size - 1
    return made


cdef half_rule_t rule_of(double threshold, double limit) noexcept:
    cdef half_rule_t made
    made.threshold, made.limit, made.limited = <float>threshold, <float>limit, limit > 0.0
    return made


cdef int64_t chunks_for(int64_t rows, int threads) noexcept:
    return min(rows, <int64_t>threads * CHUNKS)


# --- dense ------------------------------------------------------------------------------------


cdef bint dense_chunk(const half_dense_t *job, int64_t chunk, int64_t chunks) noexcept nogil:
    # False if there is no memory.
    cdef float *omega = <float *>calloc(job.width, sizeof(float))
    if omega == NULL:
        return False
    half_rows(
        job, half_chunk(&job.matrix, chunk, chunks), half_chunk(&job.matrix, chunk + 1, chunks),
        omega,
    )
    free(omega)
    return True


def half_step(
    matrix, const float[:, ::1] vectors, double threshold, double limit, float[:, ::1] out,
    double[::1] gains, int threads,
):
    """Take a half-step, a row at a time."""
    cdef half_dense_t job
    cdef int64_t chunk, chunks = chunks_for(out.shape[0], threads)
    cdef int failures = 0
    if out.shape[0] == 0:
        return
    job.matrix, job.rule = matrix_of(matrix), rule_of(threshold, limit)
    job.vectors = &vectors[0, 0] if vectors.shape[0] else NULL
    job.width, job.out, job.gains = out.shape[1], &out[0, 0], &gains[0]
    for chunk in prange(chunks, schedule="dynamic", num_threads=threads, nogil=True):
        failures += not dense_chunk(&job, chunk, chunks)
    if failures:
        raise MemoryError("there is no memory for a row of the half-step.")


# --- sparse -----------------------------------------------------------------------------------


cdef bint sparse_chunk(
    const half_sparse_t *job, int64_t chunk, int64_t chunks, half_made_t *made,
) noexcept nogil:
    # False if there is no memory.
    cdef float *rows = <float *>calloc(2 * job.width, sizeof(float))
    cdef bint ready
    if rows == NULL:
        return False
    ready = half_sparse_rows(
        job, half_chunk(&job.matrix, chunk, chunks), half_chunk(&job.matrix, chunk + 1, chunks),
        rows, rows + job.width, made,
    )
    free(rows)
    return ready


cdef int make_chunks(
    const half_sparse_t *job, half_made_t *made, int64_t chunks, int threads,
) noexcept:
    # How many have no memory.
    cdef int64_t chunk
    cdef int failures = 0
    for chunk in prange(chunks, schedule="dynamic", num_threads=threads, nogil=True):
        failures += not sparse_chunk(job, chunk, chunks, made + chunk)
    return failures


cdef void join_chunks(
    half_made_t *made, int64_t chunks, const int64_t *starts, int32_t *dimensions, float *values,
    int threads,
) noexcept:
    # A chunk is given back as soon as it is copied, so that no two copies of all are held.
    cdef int64_t chunk
    for chunk in prange(chunks, schedule="dynamic", num_threads=threads, nogil=True):
        memcpy(
            dimensions + starts[chunk], made[chunk].dimensions,
            made[chunk].count * sizeof(int32_t),
        )
        memcpy(values + starts[chunk], made[chunk].values, made[chunk].count * sizeof(float))
        half_free(made + chunk)


cdef joined(half_made_t *made, int64_t chunks, int threads):
    # The dimensions and values of all rows.
    cdef int64_t[::1] starts = np.zeros(chunks + 1, np.int64)
    cdef int64_t chunk
    for chunk in range(chunks):
        starts[chunk + 1] = starts[chunk] + made[chunk].count
    dimensions, values = np.empty(starts[chunks], np.int32), np.empty(starts[chunks], np.float32)
    join_chunks(
        made, chunks, &starts[0], <int32_t *><size_t>dimensions.ctypes.data,
        <float *><size_t>values.ctypes.data, threads,
    )
    return dimensions, values


def half_step_sparse(
    matrix, vectors, Py_ssize_t width, double threshold, double limit, double[::1] gains,
    int threads,
):
    """Take the same half-step from sparse vectors."""
    cdef half_sparse_t job
    cdef const int64_t[::1] pointers = vectors[0]
    cdef int64_t rows = gains.shape[0], chunk, chunks = chunks_for(rows, threads)
    cdef int64_t[::1] indptr
    cdef half_made_t *made
    made_indptr = np.zeros(rows + 1, np.int64)
    if rows == 0 or width == 0:
        np.asarray(gains)[:] = 0.0
        return made_indptr, np.empty(0, np.int32), np.empty(0, np.float32)
    indptr = made_indptr
    job.matrix, job.rule = matrix_of(matrix), rule_of(threshold, limit)
    job.pointers = &pointers[0]
    job.dimensions = <const int32_t *><size_t>vectors[1].ctypes.data
    job.values = <const float *><size_t>vectors[2].ctypes.data
    job.width = (width + WIDE - 1) // WIDE * WIDE
    job.counts, job.gains = &indptr[1], &gains[0]
    made = <half_made_t *>calloc(chunks, sizeof(half_made_t))
    if made == NULL:
        raise MemoryError("there is no memory for the rows of the half-step.")
    try:
        if make_chunks(&job, made, chunks, threads):
            raise MemoryError("there is no memory for the rows of the half-step.")
        dimensions, values = joined(made, chunks, threads)
    finally:
        for chunk in range(chunks):
            half_free(made + chunk)
        free(made)
    np.cumsum(made_indptr, out=made_indptr)
    return made_indptr, dimensions, values
