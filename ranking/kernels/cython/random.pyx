"""Random numbers, sums and the exponential; see :mod:`ranking.kernels.contract.random`.

This file is compiled once per instruction set; see meson.build.
"""

from cython.parallel cimport prange
from libc.stdint cimport int64_t, uint64_t

from c_library cimport lanes_exp, lanes_exp_one, lanes_load, lanes_store, sum_lanes
from c_library cimport random_below as splitmix_below
from c_library cimport random_bits as splitmix_bits
from c_library cimport random_uniform as splitmix_uniform

import numpy as np

cdef extern from "dense.h" nogil:
    const char *LANES_INSTRUCTIONS
    const char *LANES_THREADS
    double dot_double(const double *a, const double *b, int64_t n) noexcept

cdef enum:
    LANES = 4  # loops say 4, as Cython compiles only a literal step to a plain C loop
    BLOCK = 4096


def describe():
    """Return the self-description of the kernel."""
    return {
        "abi": 5,
        "lanes": LANES,
        "block": BLOCK,
        "rng": "splitmix64",
        "exp": "minimax-11",
        "threads": LANES_THREADS.decode("ascii"),
        "instructions": LANES_INSTRUCTIONS.decode("ascii"),
    }


def random_bits(uint64_t seed, uint64_t first, uint64_t[::1] out):
    """Fill `out` with the numbers first, first + 1, ... of a seed."""
    cdef Py_ssize_t i
    with nogil:
        for i in range(out.shape[0]):
            out[i] = splitmix_bits(seed, first + <uint64_t>i)


def random_uniform(uint64_t seed, uint64_t first, double[::1] out):
    """Fill `out` with uniforms in [0, 1)."""
    cdef Py_ssize_t i
    with nogil:
        for i in range(out.shape[0]):
            out[i] = splitmix_uniform(seed, first + <uint64_t>i)


def random_below(uint64_t seed, uint64_t first, uint64_t bound, int64_t[::1] out):
    """Fill `out` with integers in [0, bound)."""
    cdef Py_ssize_t i
    with nogil:
        for i in range(out.shape[0]):
            out[i] = splitmix_below(seed, first + <uint64_t>i, <int64_t>bound)


def exp(const double[::1] x, double[::1] out):
    """Fill `out` with the contract's exponential of `x`."""
    cdef Py_ssize_t i, n = x.shape[0], whole = n - n % LANES
    with nogil:
        for i in range(0, whole, 4):
            lanes_store(&out[i], lanes_exp(lanes_load(&x[i])))
        for i in range(whole, n):
            out[i] = lanes_exp_one(x[i])


def dot(const double[::1] a, const double[::1] b):
    """Return the sum in lanes of a[i] * b[i]."""
    cdef double result
    with nogil:
        result = dot_double(&a[0], &b[0], a.shape[0])
    return result


def block_sum(const double[::1] a, int threads):
    """Return the sum of the blocks' sums, added in order."""
    cdef Py_ssize_t b, n = a.shape[0], blocks = (n + BLOCK - 1) // BLOCK
    cdef double[::1] sums = np.empty(blocks)
    cdef double total = 0.0
    with nogil:
        for b in prange(blocks, schedule="static", num_threads=threads):
            sums[b] = sum_lanes(&a[b * BLOCK], min(BLOCK, n - b * BLOCK))
        for b in range(blocks):
            total += sums[b]
    return total
