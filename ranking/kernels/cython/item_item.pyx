"""Columns of item-item weights; see :mod:`ranking.kernels.contract.item_item`.

The loops are in src/item_item.c. This file is compiled once per instruction set; see meson.build.
"""

from libc.stdint cimport int64_t

from c_library cimport item_columns as c_item_columns
from c_library cimport item_columns_t

from ranking.kernels.cython.library cimport address, csr_of


def item_columns(
    gram, const double[::1] diagonal, candidates, rule, double[::1] losses, int64_t[::1] sweeps,
    int threads,
):
    """Minimize over the weights of each column."""
    cdef item_columns_t task
    cdef bint ready
    if diagonal.shape[0] == 0:
        return
    task.gram, task.candidates = csr_of(gram), csr_of(candidates)
    task.diagonal, task.weights = &diagonal[0], <double *>address(candidates.data)
    task.rule.l1, task.rule.l2, task.rule.tolerance = rule.l1, rule.l2, rule.tolerance
    task.rule.sweeps, task.rule.nonnegative = rule.sweeps, rule.nonnegative
    task.losses, task.sweeps = &losses[0], &sweeps[0]
    with nogil:
        ready = c_item_columns(&task, threads)
    if not ready:
        raise MemoryError("out of memory for a column of item weights.")
