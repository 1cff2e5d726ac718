"""Training and scores of the bilinear model; see :mod:`ranking.kernels.contract.bilinear`.

The loops are in src/bilinear_*.c. This file is compiled once per instruction set; see meson.build.
"""

from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy, memset

from c_library cimport (
    PAIRWISE_HINGE, bilinear_close, bilinear_counts, bilinear_export, bilinear_margins,
    bilinear_memory, bilinear_open, bilinear_passive_aggressive, bilinear_scores_t,
    bilinear_state_t, bilinear_store_t, bilinear_task_t, bilinear_train, bilinear_update,
    passive_aggressive_t, row_export_t, shrinkage_state_t,
)
from c_library cimport bilinear_scores as c_bilinear_scores

from ranking.kernels.cython.library cimport address, csr_of, loss_of

import threading

import numpy as np


cdef class BilinearStore:
    """W while it is trained; see :class:`ranking.kernels.contract.bilinear.BilinearStore`."""

    cdef bilinear_store_t store
    cdef object lock  # one call at a time: the loops release the GIL

    def __init__(self, int64_t n_columns, state):
        cdef bilinear_state_t c_state
        cdef bint ready
        if self.lock is not None:
            raise RuntimeError("a store is filled once.")
        self.lock = threading.Lock()
        weights = state.weights
        self.store.n_rows, self.store.n_columns = len(weights.indptr) - 1, n_columns
        self.store.is64 = weights.data.itemsize == 8
        c_state.indptr = <const int64_t *>address(weights.indptr)
        c_state.indices = <const int32_t *>address(weights.indices)
        c_state.data = <const char *>address(weights.data)
        c_state.row_state = <const double *>address(state.row_state)
        c_state.groups = <const int64_t *>address(state.groups)
        c_state.group_weights = <const double *>address(state.group_weights)
        c_state.group_state = <const double *>address(state.group_state)
        c_state.n_groups = len(state.group_weights)
        with nogil:
            ready = bilinear_open(&self.store, &c_state)
        if not ready:
            raise MemoryError(f"out of memory for the {self.store.n_rows} rows of W.")

    def __dealloc__(self):
        bilinear_close(&self.store)

    cdef bilinear_task_t task(self, features, const int64_t[:, ::1] triplets) except *:
        cdef bilinear_task_t task
        memset(&task, 0, sizeof(task))
        task.store, task.transposed = &self.store, features.transposed
        task.queries, task.documents = csr_of(features.queries), csr_of(features.documents)
        task.triplets, task.n = <const int64_t *>address(triplets), triplets.shape[0]
        task.columns, task.prox_interval, task.n_threads = triplets.shape[1], 1.0, 1
        return task

    cdef int check(self, bint ready) except -1:
        if not ready:
            raise MemoryError("out of memory for the buffers of a step.")
        if self.store.failed:
            self.store.failed = False
            raise MemoryError("out of memory while W grew; W has lost a part of a step.")
        return 0

    def margins(
        self, features, const int64_t[:, ::1] triplets, loss, const double[::1] shrinkage, out,
        int threads,
    ):
        """Fill margins, violation weights and negatives of triplets at the current W."""
        cdef bilinear_task_t task = self.task(features, triplets)
        cdef shrinkage_state_t now = shrinkage_of(shrinkage)
        cdef bint ready
        if task.n == 0:
            return
        task.shrinkage, task.n_threads = &now, threads
        set_loss(&task, loss)
        set_results(&task, out)
        task.negatives = <int64_t *>address(out.negatives)
        with self.lock, nogil:
            ready = bilinear_margins(&task)
        self.check(ready)

    def update(
        self, features, const int64_t[:, ::1] triplets, const double[::1] slopes,
        const double[::1] learning_rates, rule, double[::1] shrinkage, int threads,
    ):
        """Take steps with known slopes, in order."""
        cdef bilinear_task_t task = self.task(features, triplets)
        cdef shrinkage_state_t now = shrinkage_of(shrinkage)
        cdef bint ready
        if task.n == 0:
            return
        negatives = np.ascontiguousarray(np.asarray(triplets)[:, 2])
        task.negatives, task.slopes = <int64_t *>address(negatives), <double *>&slopes[0]
        task.learning_rates, task.shrinkage = &learning_rates[0], &now
        task.n_threads = threads
        set_rule(&task, rule)
        with self.lock, nogil:
            ready = bilinear_update(&task)
        store_shrinkage(&now, shrinkage)
        self.check(ready)

    def train(
        self, features, const int64_t[:, ::1] triplets, const double[::1] learning_rates, loss,
        rule, double[::1] shrinkage, out, execution,
    ):
        """Compute the margins of a batch at its start, then take its steps in order."""
        cdef bilinear_task_t task = self.task(features, triplets)
        cdef shrinkage_state_t now = shrinkage_of(shrinkage)
        cdef bint ready
        if task.n == 0:
            return
        negatives, slopes = np.empty(task.n, dtype=np.int64), np.empty(task.n)
        task.negatives, task.slopes = <int64_t *>address(negatives), <double *>address(slopes)
        task.learning_rates, task.shrinkage = &learning_rates[0], &now
        task.batch_size, task.hogwild = execution.batch_size, execution.hogwild
        task.n_threads = execution.threads
        set_loss(&task, loss)
        set_rule(&task, rule)
        set_results(&task, out)
        with self.lock, nogil:
            ready = bilinear_train(&task)
        store_shrinkage(&now, shrinkage)
        self.check(ready)

    def passive_aggressive(
        self, features, const int64_t[:, ::1] triplets, const int64_t[::1] list_sizes, loss,
        double aggressiveness, bint grow, double[::1] shrinkage, out,
    ):
        """Take passive-aggressive steps, one by one."""
        cdef bilinear_task_t task = self.task(features, triplets)
        cdef passive_aggressive_t rule
        cdef shrinkage_state_t now = shrinkage_of(shrinkage)
        cdef bint ready
        if task.n == 0:
            return
        negatives = np.empty(task.n, dtype=np.int64)
        task.negatives, task.shrinkage, task.grow = <int64_t *>address(negatives), &now, grow
        set_loss(&task, loss)
        set_results(&task, out)
        rule.list_sizes, rule.aggressiveness = &list_sizes[0], aggressiveness
        rule.squared = loss.form != PAIRWISE_HINGE
        rule.learning_rates = <double *>address(out.learning_rates)
        with self.lock, nogil:
            ready = bilinear_passive_aggressive(&task, &rule)
        store_shrinkage(&now, shrinkage)
        self.check(ready)

    def counts(self, const double[::1] shrinkage, int64_t[::1] out):
        """Fill `out` with the number of entries of each row that are not zero now."""
        cdef shrinkage_state_t now = shrinkage_of(shrinkage)
        if out.shape[0] == 0:
            return
        with self.lock, nogil:
            bilinear_counts(&self.store, &now, &out[0])

    def export(self, const double[::1] shrinkage, out, bint current):
        """Fill indices and data, sorted by row and column, where `indptr` follows `counts`."""
        cdef shrinkage_state_t now = shrinkage_of(shrinkage)
        cdef const int64_t *indptr = <const int64_t *>address(out.indptr)
        cdef row_export_t to
        to.columns, to.data = <int32_t *>address(out.indices), <char *>address(out.data)
        to.current = current
        with self.lock, nogil:
            bilinear_export(&self.store, &now, indptr, to)

    def state(self, double[:, ::1] row_state, double[:, ::1] group_state):
        """Fill the state with which training continues with the same bits."""
        with self.lock:
            if row_state.shape[0]:
                memcpy(&row_state[0, 0], self.store.row_state, row_state.nbytes)
            if group_state.shape[0]:
                memcpy(&group_state[0, 0], self.store.group_state, group_state.nbytes)

    def memory(self):
        """Return the bytes that the store has allocated."""
        with self.lock:
            return bilinear_memory(&self.store)


bilinear_store = BilinearStore


cdef shrinkage_state_t shrinkage_of(const double[::1] state) noexcept:
    return shrinkage_state_t(state[0], state[1], state[2], state[3])


cdef void store_shrinkage(const shrinkage_state_t *now, double[::1] state) noexcept:
    state[0], state[1] = now.step, now.scale
    state[2], state[3] = now.threshold, now.learning_rates


cdef int set_loss(bilinear_task_t *task, loss) except -1:
    task.loss = loss_of(loss)
    task.rank_weights = <const double *>address(loss.rank_weights)
    task.n_ranks, task.n_documents = len(loss.rank_weights), loss.n_documents
    return 0


cdef int set_rule(bilinear_task_t *task, rule) except -1:
    task.prox_interval, task.l1, task.l2 = rule.prox_interval, rule.l1, rule.l2
    task.grow = rule.grow
    return 0


cdef int set_results(bilinear_task_t *task, out) except -1:
    task.margins = <double *>address(out.margins)
    task.weights = <double *>address(out.weights)
    return 0


def bilinear_scores(
    queries, weights, documents, int64_t n_columns, double[:, ::1] out, int threads
):
    """Score all queries against all documents."""
    cdef bilinear_scores_t task
    cdef bint ready
    if out.shape[0] == 0 or out.shape[1] == 0:
        return
    task.queries, task.weights = csr_of(queries), csr_of(weights)
    task.documents, task.n_columns = csr_of(documents), n_columns
    task.n_queries, task.n_documents, task.out = out.shape[0], out.shape[1], &out[0, 0]
    with nogil:
        ready = c_bilinear_scores(&task, threads)
    if not ready:
        raise MemoryError(f"out of memory for {n_columns} columns of W per thread.")
