"""A plugin's C functions over arrays; see :mod:`ranking.kernels.contract.native`.

The functions are pure and may be called from any thread, as ranking/native.h demands.
"""

from cython.parallel cimport prange, threadid
from libc.stdint cimport int64_t

from ranking.kernels.cython.library cimport feature_t as real_t
from ranking.kernels.cython.library cimport threads_for

import numpy as np

ctypedef double (*pairwise_t)(double, const void *) noexcept nogil
ctypedef double (*list_value_t)(
    const double *, const double *, int64_t, const void *) noexcept nogil
ctypedef void (*list_slopes_t)(
    const double *, const double *, int64_t, double *, const void *) noexcept nogil
ctypedef double (*penalty_t)(const double *, int64_t, const void *) noexcept nogil
ctypedef void (*prox_t)(double *, int64_t, double, const void *) noexcept nogil
ctypedef void (*maximize_t)(double *, int64_t, const void *) noexcept nogil


cdef struct Call:
    # A function and its context.
    void *function
    const void *context


cdef Call call_of(call) except *:
    cdef size_t function = call.function, context = call.context
    return Call(<void *>function, <const void *>context)


# --- losses -----------------------------------------------------------------------------------


def native_pairwise(call, const double[::1] margins, double[::1] out, int threads):
    """Call the function for each margin."""
    cdef Call to = call_of(call)
    cdef Py_ssize_t i, n = margins.shape[0]
    for i in prange(n, schedule="static", num_threads=threads_for(threads, n), nogil=True):
        out[i] = (<pairwise_t>to.function)(margins[i], to.context)


def native_listwise_values(call, lists, double[::1] out, int threads):
    """Call the function for each list."""
    cdef Call to = call_of(call)
    cdef const int64_t[::1] ptr = lists.group_ptr
    cdef const double[::1] scores = lists.scores, grades = lists.grades
    cdef Py_ssize_t q, n = out.shape[0]
    if scores.shape[0] == 0:
        scores = grades = np.zeros(1)  # all lists are empty, and pointers must be valid
    for q in prange(
        n, schedule="dynamic", chunksize=8, num_threads=threads_for(threads, n), nogil=True
    ):
        out[q] = (<list_value_t>to.function)(
            &scores[0] + ptr[q], &grades[0] + ptr[q], ptr[q + 1] - ptr[q], to.context
        )


def native_listwise_slopes(call, lists, double[::1] out, int threads):
    """Call the function for each list."""
    cdef Call to = call_of(call)
    cdef const int64_t[::1] ptr = lists.group_ptr
    cdef const double[::1] scores = lists.scores, grades = lists.grades
    cdef Py_ssize_t q, n = ptr.shape[0] - 1
    if scores.shape[0] == 0:
        return
    for q in prange(
        n, schedule="dynamic", chunksize=8, num_threads=threads_for(threads, n), nogil=True
    ):
        (<list_slopes_t>to.function)(
            &scores[0] + ptr[q], &grades[0] + ptr[q], ptr[q + 1] - ptr[q], &out[0] + ptr[q],
            to.context,
        )


# --- rows -------------------------------------------------------------------------------------


cdef void widen(const real_t *row, Py_ssize_t width, double *wide) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(width):
        wide[i] = row[i]


cdef void narrow(const double *wide, Py_ssize_t width, real_t *row) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(width):
        row[i] = <real_t>wide[i]


def native_penalties(call, const real_t[:, ::1] matrix, double[::1] out, int threads):
    """Call the function for each row, widened to doubles."""
    cdef Call to = call_of(call)
    cdef Py_ssize_t row, rows = matrix.shape[0], width = matrix.shape[1]
    cdef int n_threads = threads_for(threads, rows)
    cdef double[:, ::1] wide = np.empty((n_threads, max(width, 1)))
    for row in prange(rows, schedule="static", num_threads=n_threads, nogil=True):
        widen(&matrix[row, 0], width, &wide[threadid(), 0])
        out[row] = (<penalty_t>to.function)(&wide[threadid(), 0], width, to.context)


cdef void change_row(
    const Call *to, real_t *row, Py_ssize_t width, const double *step, double *wide
) noexcept nogil:
    # A prox has a step; a maximiser has none.
    widen(row, width, wide)
    if step != NULL:
        (<prox_t>to.function)(wide, width, step[0], to.context)
    else:
        (<maximize_t>to.function)(wide, width, to.context)
    narrow(wide, width, row)


cdef change_rows(call, real_t[:, ::1] matrix, Py_ssize_t width, const double *step, int threads):
    cdef Call to = call_of(call)
    cdef Py_ssize_t row, rows = matrix.shape[0]
    cdef int n_threads = threads_for(threads, rows)
    cdef double[:, ::1] wide = np.empty((n_threads, max(width, 1)))
    for row in prange(rows, schedule="static", num_threads=n_threads, nogil=True):
        change_row(&to, &matrix[row, 0], width, step, &wide[threadid(), 0])


def native_prox(call, real_t[:, ::1] matrix, Py_ssize_t width, double step, int threads):
    """Call the function for each row, widened to doubles, and round the result."""
    change_rows(call, matrix, width, &step, threads)


def native_maximize(call, real_t[:, ::1] matrix, Py_ssize_t width, int threads):
    """Call the function for each row, widened to doubles, and round the result."""
    change_rows(call, matrix, width, NULL, threads)
