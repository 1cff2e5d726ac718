"""The C library in src/, and how arrays of the contract become its structs.

Structs point into the arrays; the caller keeps these alive.
"""

from cpython.buffer cimport PyBUF_ANY_CONTIGUOUS, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memset

cdef extern from "lanes.h" nogil:
    # In C this is a vector of four doubles. To Cython it is a double, so that arithmetic reads
    # as arithmetic; mixing the two does not compile.
    ctypedef double lanes_t
    lanes_t lanes_load(const double *from_) noexcept
    lanes_t lanes_widen(const float *from_) noexcept
    void lanes_store(double *to, lanes_t v) noexcept
    lanes_t lanes_splat(double v) noexcept
    double lanes_sum(lanes_t v) noexcept
    lanes_t lanes_exp_short(lanes_t t) noexcept
    lanes_t lanes_exp_core(lanes_t r) noexcept
    lanes_t lanes_exp(lanes_t x) noexcept
    double lanes_exp_one(double x) noexcept
    const char *LANES_INSTRUCTIONS
    const char *LANES_THREADS

cdef extern from "csr.h" nogil:
    ctypedef struct csr_t:
        const void *indptr
        const void *indices
        const void *data
        int64_t n_rows
        int64_t n_entries
        bint identity
        bint index64
        bint data64

cdef extern from "pairwise.h" nogil:
    ctypedef double pairwise_slope_t(double margin, const void *context) noexcept
    ctypedef struct pairwise_loss_t:
        pairwise_slope_t *slope
        const void *context
    pairwise_slope_t *pairwise_slope(int form, pairwise_slope_t *native) noexcept

cdef extern from "listwise.h" nogil:
    ctypedef double list_value_t(
        const double *scores, const double *grades, int64_t n, const void *context) noexcept
    ctypedef void list_slopes_t(
        const double *scores, const double *grades, int64_t n, double *out,
        const void *context) noexcept
    ctypedef struct listwise_loss_t:
        int form
        list_value_t *value
        list_slopes_t *slopes
        const void *value_context
        const void *slopes_context
        double weight
        double margin
    ctypedef struct listwise_task_t:
        listwise_loss_t loss
        const double *margins
        int64_t n_lists
        int64_t n_negatives
        double *losses
        double *slopes
    bint listwise_slopes(const listwise_task_t *task, int n_threads) noexcept

cdef extern from "sampling.h" nogil:
    ctypedef struct positives_t:
        const int64_t *queries
        const int64_t *query_sums
        const int64_t *list_of
        const int64_t *member_ptr
        const int64_t *members
        const int64_t *member_sums
        const int64_t *own_document
        const float *member_weights
        int64_t n_queries
        int64_t n_documents
        int64_t n_lists
        bint any_negative
    void sample_triplet(
        const positives_t *positives, uint64_t seed, uint64_t step, int64_t n_positives,
        int64_t columns, int64_t *out,
    ) noexcept


cdef inline void *address(array) except? NULL:
    """Return where a contiguous array begins; NULL if it is empty."""
    cdef Py_buffer view
    PyObject_GetBuffer(array, &view, PyBUF_ANY_CONTIGUOUS)
    cdef void *start = view.buf if view.len else NULL
    PyBuffer_Release(&view)
    return start


cdef inline csr_t csr_of(matrix) except *:
    """Return a `Csr`."""
    cdef csr_t csr
    csr.indptr, csr.indices = address(matrix.indptr), address(matrix.indices)
    csr.data = address(matrix.data)
    csr.n_rows, csr.n_entries = len(matrix.indptr) - 1, len(matrix.indices)
    csr.identity = False
    csr.index64, csr.data64 = matrix.indices.itemsize == 8, matrix.data.itemsize == 8
    return csr


cdef inline pairwise_loss_t loss_of(loss) except *:
    """Return a `PairwiseLoss` as the loops call it."""
    cdef pairwise_loss_t out
    cdef size_t function = loss.slope.function, context = loss.slope.context
    out.slope = pairwise_slope(loss.form, <pairwise_slope_t *>function)
    out.context = <const void *>context
    return out


cdef inline listwise_loss_t list_loss_of(loss) except *:
    """Return a `ListwiseLoss` as the loops call it."""
    cdef listwise_loss_t out
    cdef size_t value = loss.value.function, value_context = loss.value.context
    cdef size_t slopes = loss.slopes.function, slopes_context = loss.slopes.context
    out.form, out.weight, out.margin = loss.form, loss.weight, loss.margin
    out.value, out.value_context = <list_value_t *>value, <const void *>value_context
    out.slopes, out.slopes_context = <list_slopes_t *>slopes, <const void *>slopes_context
    return out


cdef inline positives_t positives_of(positives) except *:
    """Return `Positives`."""
    cdef positives_t out
    memset(&out, 0, sizeof(out))
    out.queries, out.n_queries = <const int64_t *>address(positives.queries), len(positives.queries)
    out.query_sums = <const int64_t *>address(positives.query_sums)
    out.list_of = <const int64_t *>address(positives.list_of)
    out.member_ptr = <const int64_t *>address(positives.member_ptr)
    out.n_lists = len(positives.member_ptr) - 1
    out.members = <const int64_t *>address(positives.members)
    out.member_sums = <const int64_t *>address(positives.member_sums)
    out.own_document = <const int64_t *>address(positives.own_document)
    out.member_weights = <const float *>address(positives.member_weights)
    out.n_documents, out.any_negative = positives.n_documents, positives.any_negative
    return out


cdef inline int threads_for(int threads, int64_t pieces) noexcept nogil:
    """Return how many threads to use: no more than pieces of work, at least one."""
    return <int>max(<int64_t>1, min(<int64_t>threads, pieces))
