"""A loss of a margin and a regularizer of rows, each in a capsule that owns its struct."""

from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from libc.math cimport INFINITY, copysign, fabs
from libc.stdint cimport int64_t, uint32_t

cdef extern from "ranking/native.h" nogil:
    const uint32_t RANKING_NATIVE_ABI
    const char *RANKING_PAIR_LOSS
    const char *RANKING_ROW_REGULARIZER
    ctypedef struct ranking_pair_loss:
        uint32_t abi
        uint32_t size
        double (*value)(double, const void *) noexcept
        double (*slope)(double, const void *) noexcept
        const void *context
    ctypedef struct ranking_row_regularizer:
        uint32_t abi
        uint32_t size
        double (*penalty)(const double *, int64_t, const void *) noexcept
        void (*prox)(double *, int64_t, double, const void *) noexcept
        void (*maximize)(double *, int64_t, const void *) noexcept
        const void *context


# A struct and its parameter in one piece of memory, which the capsule frees.
cdef struct Loss:
    ranking_pair_loss head
    double width

cdef struct Regularizer:
    ranking_row_regularizer head
    double limit


# --- the loss ---------------------------------------------------------------------------------


cdef double value(double z, const void *context) noexcept nogil:
    cdef double width = (<const double *>context)[0]
    if z >= 1.0:
        return 0.0
    if z <= 1.0 - width:
        return 1.0 - z - 0.5 * width
    return (1.0 - z) * (1.0 - z) / (2.0 * width)


cdef double slope(double z, const void *context) noexcept nogil:
    cdef double width = (<const double *>context)[0]
    if z >= 1.0:
        return 0.0
    if z <= 1.0 - width:
        return -1.0
    return (z - 1.0) / width


def smooth_hinge(double width):
    """Return the capsule of the smooth hinge."""
    cdef Loss *made = <Loss *>PyMem_Malloc(sizeof(Loss))
    if made == NULL:
        raise MemoryError
    made.width = width
    made.head.abi, made.head.size = RANKING_NATIVE_ABI, sizeof(ranking_pair_loss)
    made.head.value, made.head.slope, made.head.context = value, slope, &made.width
    return PyCapsule_New(made, RANKING_PAIR_LOSS, free_loss)


cdef void free_loss(object capsule) noexcept:
    PyMem_Free(PyCapsule_GetPointer(capsule, RANKING_PAIR_LOSS))


# --- the regularizer --------------------------------------------------------------------------


cdef double penalty(const double *row, int64_t n, const void *context) noexcept nogil:
    cdef double limit = (<const double *>context)[0]
    cdef int64_t i
    for i in range(n):
        if fabs(row[i]) > limit * (1.0 + 1e-5):  # float32 rounds
            return INFINITY
    return 0.0


cdef void prox(double *row, int64_t n, double step, const void *context) noexcept nogil:
    cdef double limit = (<const double *>context)[0]
    cdef int64_t i
    for i in range(n):
        if fabs(row[i]) > limit:
            row[i] = copysign(limit, row[i])


cdef void maximize(double *row, int64_t n, const void *context) noexcept nogil:
    cdef double limit = (<const double *>context)[0]
    cdef int64_t i
    for i in range(n):
        row[i] = copysign(limit, row[i]) if row[i] != 0.0 else 0.0


def box(double limit):
    """Return the capsule of the box."""
    cdef Regularizer *made = <Regularizer *>PyMem_Malloc(sizeof(Regularizer))
    if made == NULL:
        raise MemoryError
    made.limit = limit
    made.head.abi, made.head.size = RANKING_NATIVE_ABI, sizeof(ranking_row_regularizer)
    made.head.penalty, made.head.prox, made.head.maximize = penalty, prox, maximize
    made.head.context = &made.limit
    return PyCapsule_New(made, RANKING_ROW_REGULARIZER, free_regularizer)


cdef void free_regularizer(object capsule) noexcept:
    PyMem_Free(PyCapsule_GetPointer(capsule, RANKING_ROW_REGULARIZER))
