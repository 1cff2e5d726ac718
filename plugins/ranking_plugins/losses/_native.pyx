"""C functions of losses that run in the loops of every kernel: value and slope of a margin.

A loss is a pair of functions here, its line in `CAPSULES`, its class and its line in
``losses/__init__.py``.
"""

from cpython.pycapsule cimport PyCapsule_New
from libc.math cimport M_E
from libc.stdint cimport uint32_t

ctypedef double (*margin_function)(double, const void *) noexcept nogil

cdef extern from "ranking/native.h" nogil:
    const uint32_t RANKING_NATIVE_ABI
    const char *RANKING_PAIR_LOSS
    ctypedef struct ranking_pair_loss:
        uint32_t abi
        uint32_t size
        margin_function value
        margin_function slope
        const void *context

cdef extern from "lanes.h" nogil:
    double lanes_exp_one(double x) noexcept  # the exponential of the kernels; it saturates

cdef enum:
    MOST = 64

cdef ranking_pair_loss structs[MOST]
cdef int n_structs = 0


cdef object capsule_of(margin_function value, margin_function slope):
    # The struct is static, so the capsule frees nothing.
    global n_structs
    cdef ranking_pair_loss *one = &structs[n_structs]
    n_structs += 1
    one.abi, one.size, one.context = RANKING_NATIVE_ABI, sizeof(ranking_pair_loss), NULL
    one.value, one.slope = value, slope
    return PyCapsule_New(one, RANKING_PAIR_LOSS, NULL)


cdef double exponential_value(double z, const void *context) noexcept nogil:
    return lanes_exp_one(-z) if z >= -1.0 else -M_E * z  # its tangent at -1


cdef double exponential_slope(double z, const void *context) noexcept nogil:
    return -lanes_exp_one(-z) if z >= -1.0 else -M_E


CAPSULES = {
    "exponential": capsule_of(exponential_value, exponential_slope),
}


def pairwise(str name):
    """Return the capsule of a loss."""
    return CAPSULES[name]
