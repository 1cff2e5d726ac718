"""Losses of sampled lists; see :mod:`ranking.kernels.contract.listwise`.

The loops are in src/listwise.c. This file is compiled once per instruction set; see meson.build.
"""

from c_library cimport listwise_slopes as c_slopes
from c_library cimport listwise_task_t

from ranking.kernels.cython.library cimport address, list_loss_of, threads_for


def listwise_slopes(loss, margins, out, int threads):
    """Fill losses and slopes of lists with the same number of negatives."""
    cdef listwise_task_t task
    cdef bint ready
    task.loss = list_loss_of(loss)
    task.n_lists, task.n_negatives = margins.shape
    if task.n_lists == 0:
        return
    task.margins = <const double *>address(margins)
    task.losses, task.slopes = <double *>address(out.losses), <double *>address(out.slopes)
    with nogil:
        ready = c_slopes(&task, threads_for(threads, task.n_lists))
    if not ready:
        raise MemoryError(f"out of memory for lists of {task.n_negatives} negatives.")
