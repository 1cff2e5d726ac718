"""How arrays of the contract become structs of the C library in src/.

Structs point into the arrays; the caller keeps these alive. ``c_library`` is translated from the
headers by tools/headers_to_pxd.py.
"""

from cpython.buffer cimport PyBUF_ANY_CONTIGUOUS, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset

from c_library cimport (
    csr_t, list_slopes_t, list_value_t, listwise_loss_t, pairwise_loss_t, pairwise_slope,
    pairwise_slope_t, positives_t,
)

ctypedef fused feature_t:
    float
    double

ctypedef fused index_t:
    int32_t
    int64_t


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
