"""Scores of the linear model; see :mod:`ranking.kernels.contract.linear`.

This file is compiled once per instruction set; see meson.build.
"""

from cython.parallel cimport prange
from libc.stdint cimport int64_t

from ranking.kernels.cython.library cimport feature_t, index_t

import numpy as np

cdef extern from "dense.h" nogil:
    double dot_double(const double *a, const double *b, int64_t n) noexcept
    double dot_float(const float *a, const double *b, int64_t n) noexcept


def linear_scores(features, const double[::1] weights, double[::1] out, int threads):
    """Fill out[i] with the dot product of row i and the weights."""
    if out.shape[0] == 0:
        return
    if isinstance(features, np.ndarray):
        score_dense(features, weights, out, threads)
    else:
        score_sparse(features.indptr, features.indices, features.data, weights, out, threads)


def score_dense(
    const feature_t[:, ::1] x, const double[::1] weights, double[::1] out, int threads
):
    """Fill `out` with sums in lanes."""
    cdef Py_ssize_t i, columns = x.shape[1]
    cdef const feature_t *rows = &x[0, 0]
    with nogil:
        for i in prange(x.shape[0], schedule="static", num_threads=threads):
            if feature_t is float:
                out[i] = dot_float(rows + i * columns, &weights[0], columns)
            else:
                out[i] = dot_double(rows + i * columns, &weights[0], columns)


cdef inline double sparse_dot(
    const index_t *indices, const feature_t *data, const double *weights,
    Py_ssize_t start, Py_ssize_t stop,
) noexcept nogil:
    cdef double total = 0.0
    cdef Py_ssize_t at
    for at in range(start, stop):
        total += <double>data[at] * weights[indices[at]]
    return total


def score_sparse(
    const index_t[::1] indptr, const index_t[::1] indices, const feature_t[::1] data,
    const double[::1] weights, double[::1] out, int threads,
):
    """Fill `out` with sums in stored order."""
    cdef Py_ssize_t i
    with nogil:
        for i in prange(out.shape[0], schedule="static", num_threads=threads):
            out[i] = sparse_dot(&indices[0], &data[0], &weights[0], indptr[i], indptr[i + 1])
