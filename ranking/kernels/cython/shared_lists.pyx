"""Lists that share their negatives; see :mod:`ranking.kernels.contract.shared_lists`.

The loops are in src/shared_lists.c. This file is compiled once per instruction set; see
meson.build.
"""

from libc.stdint cimport int64_t
from libc.string cimport memset

from c_library cimport shared_lists as c_shared_lists
from c_library cimport shared_lists_t, shared_loss_t

from ranking.kernels.cython.library cimport address, threads_for


def shared_lists(lists, loss, out, int threads):
    """Fill the gradients of all embeddings."""
    cdef shared_lists_t task
    cdef bint ready
    memset(&task, 0, sizeof(task))
    task.n_lists, task.width = lists.queries.shape
    task.n_negatives = len(lists.negatives)
    task.queries = <const float *>address(lists.queries)
    task.positives = <const float *>address(lists.positives)
    task.negatives = <const float *>address(lists.negatives)
    task.positive_offsets = <const float *>address(lists.positive_offsets)
    task.negative_offsets = <const float *>address(lists.negative_offsets)
    task.weights = <const float *>address(lists.weights)
    task.excluded_ptr = <const int64_t *>address(lists.excluded.indptr)
    task.excluded = <const int64_t *>address(lists.excluded.documents)
    task.loss = shared_loss_t(loss.form, loss.scale, loss.threshold, loss.weight)
    task.query_gradients = <float *>address(out.queries)
    task.positive_gradients = <float *>address(out.positives)
    task.negative_gradients = <float *>address(out.negatives)
    task.positive_slopes = <float *>address(out.positive_slopes)
    task.negative_slopes = <float *>address(out.negative_slopes)
    task.scores, task.tops = <float *>address(out.scores), <float *>address(out.tops)
    task.totals = <float *>address(out.totals)
    with nogil:
        ready = c_shared_lists(&task, threads_for(threads, task.n_lists))
    if not ready:
        raise MemoryError(f"out of memory for lists of {task.n_negatives} negatives.")
