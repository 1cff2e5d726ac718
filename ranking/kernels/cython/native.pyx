"""A plugin's C functions over arrays, in C by Cython; see :mod:`ranking.kernels.reference_native`.

The door (:mod:`ranking.kernels.native`) has checked every array. The functions are pure and may be
called from any thread, as ranking/native.h demands of them.
"""

from cython.parallel cimport prange, threadid
from libc.stdint cimport int64_t

import numpy as np

ctypedef fused Real:
    float
    double

ctypedef double (*pair_t)(double, const void *) noexcept nogil
ctypedef double (*list_value_t)(
    const double *, const double *, int64_t, const void *) noexcept nogil
ctypedef void (*list_slopes_t)(
    const double *, const double *, int64_t, double *, const void *) noexcept nogil
ctypedef double (*penalty_t)(const double *, int64_t, const void *) noexcept nogil
ctypedef void (*prox_t)(double *, int64_t, double, const void *) noexcept nogil
ctypedef void (*maximize_t)(double *, int64_t, const void *) noexcept nogil


cdef int crew_of(int threads, Py_ssize_t pieces) noexcept nogil:
    return <int>max(min(<Py_ssize_t>threads, pieces), 1)


# --- losses -----------------------------------------------------------------------------------


def native_pairs(call, const double[::1] margins, double[::1] out, int threads):
    """Call the function for each margin."""
    cdef pair_t function = <pair_t><size_t>call[0]
    cdef const void *context = <const void *><size_t>call[1]
    cdef Py_ssize_t i, n = margins.shape[0]
    for i in prange(n, schedule="static", num_threads=crew_of(threads, n), nogil=True):
        out[i] = function(margins[i], context)


def native_list_values(
    call, const int64_t[::1] list_ptr, const double[::1] scores, const double[::1] grades,
    double[::1] out, int threads,
):
    """Call the function for each list."""
    cdef list_value_t function = <list_value_t><size_t>call[0]
    cdef const void *context = <const void *><size_t>call[1]
    cdef Py_ssize_t q, lists = out.shape[0]
    if scores.shape[0] == 0:
        scores = grades = np.zeros(1)  # all lists are empty, and there must be a place to point to
    for q in prange(
        lists, schedule="dynamic", chunksize=8, num_threads=crew_of(threads, lists), nogil=True
    ):
        out[q] = function(
            &scores[0] + list_ptr[q], &grades[0] + list_ptr[q], list_ptr[q + 1] - list_ptr[q],
            context,
        )


def native_list_slopes(
    call, const int64_t[::1] list_ptr, const double[::1] scores, const double[::1] grades,
    double[::1] out, int threads,
):
    """Call the function for each list."""
    cdef list_slopes_t function = <list_slopes_t><size_t>call[0]
    cdef const void *context = <const void *><size_t>call[1]
    cdef Py_ssize_t q, lists = list_ptr.shape[0] - 1
    if scores.shape[0] == 0:
        return
    for q in prange(
        lists, schedule="dynamic", chunksize=8, num_threads=crew_of(threads, lists), nogil=True
    ):
        function(
            &scores[0] + list_ptr[q], &grades[0] + list_ptr[q], list_ptr[q + 1] - list_ptr[q],
            &out[0] + list_ptr[q], context,
        )


# --- rows -------------------------------------------------------------------------------------


cdef void widen(const Real *row, Py_ssize_t width, double *wide) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(width):
        wide[i] = row[i]


cdef void narrow(const double *wide, Py_ssize_t width, Real *row) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(width):
        row[i] = <Real>wide[i]


def native_penalties(call, const Real[:, ::1] matrix, double[::1] out, int threads):
    """Call the function for each row, widened."""
    cdef penalty_t function = <penalty_t><size_t>call[0]
    cdef const void *context = <const void *><size_t>call[1]
    cdef Py_ssize_t row, rows = matrix.shape[0], width = matrix.shape[1]
    cdef int crew = crew_of(threads, rows)
    cdef double[:, ::1] wide = np.empty((crew, max(width, 1)))
    for row in prange(rows, schedule="static", num_threads=crew, nogil=True):
        widen(&matrix[row, 0], width, &wide[threadid(), 0])
        out[row] = function(&wide[threadid(), 0], width, context)


def native_prox(call, Real[:, ::1] matrix, Py_ssize_t width, double step, int threads):
    """Call the function for each row, widened, and round what it leaves."""
    cdef prox_t function = <prox_t><size_t>call[0]
    cdef const void *context = <const void *><size_t>call[1]
    cdef Py_ssize_t row, rows = matrix.shape[0]
    cdef int crew = crew_of(threads, rows)
    cdef double[:, ::1] wide = np.empty((crew, max(width, 1)))
    for row in prange(rows, schedule="static", num_threads=crew, nogil=True):
        widen(&matrix[row, 0], width, &wide[threadid(), 0])
        function(&wide[threadid(), 0], width, step, context)
        narrow(&wide[threadid(), 0], width, &matrix[row, 0])


def native_maximize(call, Real[:, ::1] matrix, Py_ssize_t width, int threads):
    """Call the function for each row, widened, and round what it leaves."""
    cdef maximize_t function = <maximize_t><size_t>call[0]
    cdef const void *context = <const void *><size_t>call[1]
    cdef Py_ssize_t row, rows = matrix.shape[0]
    cdef int crew = crew_of(threads, rows)
    cdef double[:, ::1] wide = np.empty((crew, max(width, 1)))
    for row in prange(rows, schedule="static", num_threads=crew, nogil=True):
        widen(&matrix[row, 0], width, &wide[threadid(), 0])
        function(&wide[threadid(), 0], width, context)
        narrow(&wide[threadid(), 0], width, &matrix[row, 0])
