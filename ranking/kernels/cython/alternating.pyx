"""Half-steps of the alternating solver; see :mod:`ranking.kernels.contract.alternating`.

The loops are in src/alternating.c. This file is compiled once per instruction set; see meson.build.
"""

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport calloc, free

from c_library cimport (
    half_step_chunks, half_step_rule_t, half_step_sparse_t, half_step_t, sparse_rows_free,
    sparse_rows_join, sparse_rows_t, squared_step_t,
)
from c_library cimport half_step as c_half_step
from c_library cimport half_step_sparse as c_half_step_sparse
from c_library cimport squared_half_step as c_squared_half_step

from ranking.kernels.cython.library cimport address, csr_of

import numpy as np

cdef enum:
    WIDE = 8


cdef half_step_rule_t rule_of(double threshold, double limit) noexcept:
    return half_step_rule_t(<float>threshold, <float>limit, limit > 0.0)


def half_step(
    matrix, const float[:, ::1] embeddings, double threshold, double limit, float[:, ::1] out,
    double[::1] gains, int threads,
):
    """Take a half-step over dense embeddings."""
    cdef half_step_t task
    cdef bint ready
    if out.shape[0] == 0:
        return
    task.matrix, task.rule = csr_of(matrix), rule_of(threshold, limit)
    task.embeddings = <const float *>address(embeddings)
    task.width, task.out, task.gains = out.shape[1], &out[0, 0], &gains[0]
    with nogil:
        ready = c_half_step(&task, threads)
    if not ready:
        raise MemoryError("out of memory for a row of the half-step.")


cdef joined(sparse_rows_t *chunks, int64_t n_chunks, int threads):
    # The dimensions and values of all rows.
    cdef int64_t chunk, count = 0
    cdef int32_t *dimensions_out
    cdef float *values_out
    for chunk in range(n_chunks):
        count += chunks[chunk].count
    dimensions, values = np.empty(count, np.int32), np.empty(count, np.float32)
    dimensions_out, values_out = <int32_t *>address(dimensions), <float *>address(values)
    with nogil:
        sparse_rows_join(chunks, n_chunks, dimensions_out, values_out, threads)
    return dimensions, values


def half_step_sparse(
    matrix, embeddings, Py_ssize_t width, double threshold, double limit, double[::1] gains,
    int threads,
):
    """Take a half-step over sparse embeddings."""
    cdef half_step_sparse_t task
    cdef int64_t chunk, n_chunks = half_step_chunks(gains.shape[0], threads)
    cdef sparse_rows_t *chunks
    cdef bint ready
    indptr = np.zeros(gains.shape[0] + 1, np.int64)
    if gains.shape[0] == 0 or width == 0:
        np.asarray(gains)[:] = 0.0
        return indptr, np.empty(0, np.int32), np.empty(0, np.float32)
    task.matrix, task.rule = csr_of(matrix), rule_of(threshold, limit)
    task.indptr = <const int64_t *>address(embeddings.indptr)
    task.dimensions = <const int32_t *>address(embeddings.indices)
    task.values = <const float *>address(embeddings.data)
    task.width = (width + WIDE - 1) // WIDE * WIDE
    task.counts, task.gains = <int64_t *>address(indptr) + 1, &gains[0]
    chunks = <sparse_rows_t *>calloc(n_chunks, sizeof(sparse_rows_t))
    try:
        with nogil:
            ready = chunks != NULL and c_half_step_sparse(&task, chunks, threads)
        if not ready:
            raise MemoryError("out of memory for the rows of the half-step.")
        dimensions, values = joined(chunks, n_chunks, threads)
    finally:
        for chunk in range(n_chunks if chunks != NULL else 0):
            sparse_rows_free(chunks + chunk)
        free(chunks)
    np.cumsum(indptr, out=indptr)
    return indptr, dimensions, values


def squared_half_step(
    matrix, const float[:, ::1] embeddings, const float[:, ::1] gram, rule,
    const float[::1] ridges, float[:, ::1] out, double[::1] gains, int threads,
):
    """Decrease the squared error of all pairs over the rows of `out`."""
    cdef squared_step_t task
    cdef bint ready
    if out.shape[0] == 0:
        return
    task.matrix = csr_of(matrix)
    task.embeddings, task.gram = <const float *>address(embeddings), &gram[0, 0]
    task.ridges, task.width = &ridges[0], out.shape[1]
    task.observed, task.unobserved, task.steps = rule.observed, rule.unobserved, rule.steps
    task.out, task.gains = &out[0, 0], &gains[0]
    with nogil:
        ready = c_squared_half_step(&task, threads)
    if not ready:
        raise MemoryError("out of memory for a row of the half-step.")
