"""Pairwise losses over judged lists; see :mod:`ranking.kernels.contract.pairwise_lists`.

The loops are in src/pairwise_lists.c. This file is compiled once per instruction set; see
meson.build.
"""

from libc.stdint cimport int64_t

from c_library cimport pairwise_slope_t

from ranking.kernels.cython.library cimport address

import numpy as np

cdef extern from "pairwise_lists.h" nogil:
    ctypedef struct pair_lists_t:
        const int64_t *list_ptr
        const int64_t *layer_ptr
        const int64_t *block_ptr
        const double *omega
        int64_t n_lists
        int64_t n_blocks
        int64_t n_rows
    ctypedef struct pair_curve_t:
        int form
        double lower
        double upper
        double bend
        pairwise_slope_t *value
        pairwise_slope_t *slope
        const void *value_context
        const void *slope_context
    ctypedef struct columns_t:
        const void *data
        const void *indptr
        const void *indices
        int64_t n_rows
        bint data64
        bint index64
    ctypedef struct column_selection_t:
        const columns_t *features
        const int64_t *columns
        int64_t n_columns
    ctypedef struct quadratic_model_t:
        const double *gram
        double *gradient
        double *weights
        int64_t n
        double l1
        double l2
        double tolerance
    bint c_pairwise_slopes "pairwise_slopes"(
        const pair_lists_t *lists, const double *margins, const pair_curve_t *curve, double *out,
        double *values, int n_threads) noexcept
    bint c_pairwise_gram "pairwise_gram"(
        const column_selection_t *x, const pair_lists_t *lists, const double *margins,
        const pair_curve_t *curve, const int64_t *selected, int64_t n_selected, double *out,
        int n_threads) noexcept
    bint c_column_products "column_products"(
        const column_selection_t *x, const double *values, double *out, int n_threads) noexcept
    void c_column_combination "column_combination"(
        const column_selection_t *x, const double *weights, double *out, int n_threads) noexcept
    int64_t c_quadratic_descent "quadratic_descent"(
        const quadratic_model_t *model, int64_t sweeps) noexcept


cdef pair_lists_t lists_of(layout) except *:
    cdef pair_lists_t out
    out.list_ptr = <const int64_t *>address(layout.list_ptr)
    out.layer_ptr = <const int64_t *>address(layout.layer_ptr)
    out.block_ptr = <const int64_t *>address(layout.block_ptr)
    out.omega = <const double *>address(layout.omega)
    out.n_lists, out.n_blocks = len(layout.list_ptr) - 1, len(layout.block_ptr) - 1
    out.n_rows = len(layout.omega)
    return out


cdef pair_curve_t curve_of(curve) except *:
    cdef pair_curve_t out
    cdef size_t value = curve.value.function, slope = curve.slope.function
    cdef size_t value_context = curve.value.context, slope_context = curve.slope.context
    out.form, out.lower, out.upper, out.bend = curve.form, curve.lower, curve.upper, curve.bend
    out.value, out.slope = <pairwise_slope_t *>value, <pairwise_slope_t *>slope
    out.value_context = <const void *>value_context
    out.slope_context = <const void *>slope_context
    return out


cdef columns_t columns_of(features) except *:
    cdef columns_t out
    out.indptr = out.indices = NULL
    out.index64 = False
    if isinstance(features, np.ndarray):
        out.data, out.n_rows = address(features), features.shape[0]
        out.data64 = features.itemsize == 8
        return out
    out.data, out.indices = address(features.data), address(features.indices)
    out.indptr, out.n_rows = address(features.indptr), 0
    out.data64, out.index64 = features.data.itemsize == 8, features.indices.itemsize == 8
    return out


cdef column_selection_t selection_of(const columns_t *features, columns) except *:
    return column_selection_t(features, <const int64_t *>address(columns), len(columns))


def pairwise_slopes(layout, margins, curve, out, int threads):
    """Fill `out` with the slope of the loss by each margin; return the loss."""
    cdef pair_lists_t lists = lists_of(layout)
    cdef pair_curve_t of = curve_of(curve)
    cdef const double *m = <const double *>address(margins)
    cdef double *slopes = <double *>address(out)
    cdef double[::1] values = np.zeros(lists.n_blocks + 1)
    cdef double total = 0.0
    cdef bint ready
    cdef Py_ssize_t b
    with nogil:
        ready = c_pairwise_slopes(&lists, m, &of, slopes, &values[0], threads)
    if not ready:
        raise MemoryError("out of memory for the slopes of a list.")
    for b in range(lists.n_blocks):
        total += values[b]
    return total


def pairwise_gram(features, layout, margins, curve, columns, lists, out, int threads):
    """Fill `out` with X'HX of some columns, summed over some lists."""
    cdef pair_lists_t of = lists_of(layout)
    cdef pair_curve_t shape = curve_of(curve)
    cdef columns_t x = columns_of(features)
    cdef column_selection_t selection = selection_of(&x, columns)
    cdef const double *m = <const double *>address(margins)
    cdef const int64_t *selected = <const int64_t *>address(lists)
    cdef int64_t n_selected = len(lists)
    cdef double *gram = <double *>address(out)
    cdef bint ready
    with nogil:
        ready = c_pairwise_gram(&selection, &of, m, &shape, selected, n_selected, gram, threads)
    if not ready:
        raise MemoryError("out of memory for the curvature of the pairs.")


def column_products(features, columns, values, out, int threads):
    """Fill `out` with the product of each column and the values."""
    cdef columns_t x = columns_of(features)
    cdef column_selection_t selection = selection_of(&x, columns)
    cdef const double *by = <const double *>address(values)
    cdef double *products = <double *>address(out)
    cdef bint ready
    with nogil:
        ready = c_column_products(&selection, by, products, threads)
    if not ready:
        raise MemoryError("out of memory for the products of columns.")


def column_combination(features, columns, weights, out, int threads):
    """Add each column times its weight to `out`."""
    cdef columns_t x = columns_of(features)
    cdef column_selection_t selection = selection_of(&x, columns)
    cdef const double *by = <const double *>address(weights)
    cdef double *sums = <double *>address(out)
    with nogil:
        c_column_combination(&selection, by, sums, threads)


def quadratic_descent(
    const double[:, ::1] gram, gradient, weights, penalty, int64_t sweeps, double tolerance
):
    """Minimise a quadratic model plus penalty; return the number of sweeps."""
    cdef quadratic_model_t model
    cdef int64_t done
    model.gram = <const double *>address(gram)
    model.gradient, model.weights = <double *>address(gradient), <double *>address(weights)
    model.n, model.tolerance = len(weights), tolerance
    model.l1, model.l2 = penalty.l1, penalty.l2
    with nogil:
        done = c_quadratic_descent(&model, sweeps)
    return done
