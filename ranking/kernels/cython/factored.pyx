"""Training and scores of the factored model; see :mod:`ranking.kernels.contract.factored`.

The loops are in src/factored_*.c and src/top_k.c. This file is compiled once per instruction set;
see meson.build.
"""

from cython.parallel cimport prange
from libc.math cimport copysignf, fabsf, sqrtf
from libc.stdint cimport int64_t
from libc.string cimport memset

from c_library cimport (
    DOCUMENTS, QUERIES, csr_t, embedding_pair_t, embeddings_t, factor_t, factored_model_t,
    factored_side_t, factored_steps_t, factored_task_t, listwise_loss_t, positives_t, row_penalty_t,
    score_all, select_top_k, top_k_t, triplet_source_t,
)
from c_library cimport factored_embeddings as c_embeddings
from c_library cimport factored_sample as c_sample
from c_library cimport factored_train as c_train
from c_library cimport factored_update as c_update

from ranking.kernels.cython.library cimport (
    address, csr_of, list_loss_of, loss_of, positives_of, threads_for,
)


# --- the model --------------------------------------------------------------------------------


cdef factor_t factor_of(str name, factors, squares) except *:
    cdef factor_t factor
    rows = getattr(factors, name)
    factor.rows, factor.n_rows, factor.squares = <float *>address(rows), len(rows), NULL
    if squares is not None:
        factor.squares = <float *>address(getattr(squares, name))
    return factor


cdef csr_t features_of(features, int64_t n_rows) except *:
    # Without features, each of n_rows is its own feature.
    cdef csr_t csr
    if features is not None:
        return csr_of(features)
    memset(&csr, 0, sizeof(csr))
    csr.identity, csr.n_rows = True, n_rows
    return csr


cdef factored_model_t model_of(features, factors, squares) except *:
    cdef factored_model_t model
    cdef factored_side_t *side
    cdef int s
    memset(&model, 0, sizeof(model))
    model.has_contexts = features.contexts is not None
    model.S = factor_of("contexts", factors, squares)
    model.sides[DOCUMENTS].biases = factor_of("biases", factors, squares)
    for s, name in ((QUERIES, "queries"), (DOCUMENTS, "documents")):
        side = &model.sides[s]
        side.factor = factor_of(name, factors, squares)
        side.features = features_of(getattr(features, name), side.factor.n_rows)
        side.plain = side.features.identity and not model.has_contexts
    model.sides[QUERIES].contexts = features_of(features.contexts, 0)
    model.sides[DOCUMENTS].contexts = model.sides[DOCUMENTS].features
    model.adagrad = model.sides[QUERIES].factor.squares != NULL
    model.width = factors.queries.shape[1]
    model.full_width = 2 * model.width if model.has_contexts else model.width
    return model


# --- training ---------------------------------------------------------------------------------


cdef int set_source(factored_task_t *task, source, positives_t *positives) except -1:
    # `positives` is filled if triplets are sampled.
    cdef triplet_source_t *to = &task.source
    to.columns = source.triplets.shape[1]
    if source.sampling is None:
        to.triplets = <const int64_t *>address(source.triplets)
    else:
        positives[0] = positives_of(source.sampling.positives)
        to.positives, to.seed = positives, source.sampling.seed
        to.first = source.sampling.first
    to.n_positives, to.positive_rank = source.n_positives, source.positive_rank
    return 0


cdef int set_loss(factored_task_t *task, loss) except -1:
    task.ranks.weights = <const float *>address(loss.rank_weights)
    task.ranks.n, task.ranks.n_documents = len(loss.rank_weights), loss.n_documents
    task.loss = loss_of(loss)
    return 0


def factored_sample(features, factors, source, loss, out, int threads):
    """Sample negatives until one violates the margin (WARP), at the current parameters."""
    cdef factored_task_t task
    cdef positives_t positives
    cdef bint ready
    memset(&task, 0, sizeof(task))
    task.n = task.batch_size = len(out.triplets)
    if task.n == 0:
        return
    task.model = model_of(features, factors, None)
    set_source(&task, source, &positives)
    set_loss(&task, loss)
    task.n_threads = threads_for(threads, task.n)
    task.triplets = <int64_t *>address(out.triplets)
    task.margins, task.weights = <float *>address(out.margins), <float *>address(out.weights)
    with nogil:
        ready = c_sample(&task)
    if not ready:
        raise MemoryError(f"out of memory for a block of {task.n} triplets.")


cdef int train(
    factored_task_t *task, features, state, source, const float[::1] learning_rates, penalty,
    execution,
) except -1:
    # The loss and the arrays of results are set.
    cdef positives_t positives
    cdef bint ready
    task.n = learning_rates.shape[0]
    if task.n == 0:
        return 0
    task.model = model_of(features, state.factors, state.squares)
    set_source(task, source, &positives)
    task.batch_size = min(<int64_t>execution.batch_size, task.n)
    task.learning_rates, task.hogwild = &learning_rates[0], execution.hogwild
    task.penalty = row_penalty_t(penalty.max_norm, penalty.rowwise)
    task.n_threads = threads_for(
        execution.threads, task.n if task.hogwild else task.batch_size
    )
    with nogil:
        ready = c_train(task)
    if not ready:
        raise MemoryError(f"out of memory for blocks of {task.batch_size} steps.")
    return 0


def factored_train(
    features, state, source, const float[::1] learning_rates, loss, penalty, out, execution
):
    """Sample a block at the parameters of its start, then take its steps."""
    cdef factored_task_t task
    memset(&task, 0, sizeof(task))
    set_loss(&task, loss)
    task.margins, task.weights = <float *>address(out.margins), <float *>address(out.weights)
    train(&task, features, state, source, learning_rates, penalty, execution)


def factored_train_lists(
    features, state, source, const float[::1] learning_rates, loss, penalty, losses, execution
):
    """Sample and score the lists of a block at the parameters of its start, then take its steps."""
    cdef factored_task_t task
    cdef listwise_loss_t lists = list_loss_of(loss)
    memset(&task, 0, sizeof(task))
    task.lists, task.losses = &lists, <double *>address(losses)
    train(&task, features, state, source, learning_rates, penalty, execution)


def factored_update(features, state, steps, float learning_rate, penalty, int threads):
    """Take the steps of one block."""
    cdef factored_model_t model
    cdef factored_steps_t known
    cdef row_penalty_t shrinkage = row_penalty_t(penalty.max_norm, penalty.rowwise)
    cdef bint ready
    if len(steps.documents) == 0:
        return
    model = model_of(features, state.factors, state.squares)
    known.n, known.queries = len(steps.queries), <const int64_t *>address(steps.queries)
    known.ptr = <const int64_t *>address(steps.step_ptr)
    known.documents = <const int64_t *>address(steps.documents)
    known.slopes = <const float *>address(steps.slopes)
    with nogil:
        ready = c_update(
            &model, &known, learning_rate, shrinkage, threads_for(threads, known.n)
        )
    if not ready:
        raise MemoryError(f"out of memory for a block of {known.n} steps.")


def factored_prox(
    const float[:, ::1] matrix, const float[:, ::1] squares, float rate, penalty,
    float[:, ::1] out, int threads,
):
    """Apply the prox of a penalty of entries."""
    cdef float l1 = penalty.l1, l2 = penalty.l2
    cdef Py_ssize_t row, width = matrix.shape[1]
    cdef bint adagrad = squares.shape[0] > 0
    if width == 0:
        return
    for row in prange(
        matrix.shape[0], nogil=True, schedule="static",
        num_threads=threads_for(threads, matrix.shape[0]),
    ):
        if adagrad:
            prox_adagrad(&matrix[row, 0], &squares[row, 0], rate, l1, l2, &out[row, 0], width)
        else:
            prox_row(&matrix[row, 0], rate, l1, l2, &out[row, 0], width)


cdef inline float prox_entry(float p, float step, float l1, float l2) noexcept nogil:
    cdef float size = fabsf(p) - step * l1
    return copysignf(size if size > 0.0 else 0.0, p) / (<float>1.0 + step * l2) + <float>0.0


cdef void prox_adagrad(
    const float *p, const float *squares, float rate, float l1, float l2, float *out,
    Py_ssize_t width,
) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(width):
        out[i] = prox_entry(p[i], rate / sqrtf(squares[i]), l1, l2)


cdef void prox_row(
    const float *p, float rate, float l1, float l2, float *out, Py_ssize_t width
) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(width):
        out[i] = prox_entry(p[i], rate, l1, l2)


# --- embeddings and scores --------------------------------------------------------------------


def factored_embeddings(features, const float[:, ::1] matrix, float[:, ::1] out, int threads):
    """Compose the embedding of each row."""
    cdef csr_t csr = csr_of(features)
    cdef embeddings_t task
    if out.shape[0] == 0 or out.shape[1] == 0:
        return
    task.features, task.rows = &csr, <const float *>address(matrix)
    task.width, task.out = matrix.shape[1], &out[0, 0]
    with nogil:
        c_embeddings(&task, threads)


cdef embedding_pair_t pair_of(embeddings) except *:
    cdef embedding_pair_t pair
    pair.queries = <const float *>address(embeddings.queries)
    pair.documents = <const float *>address(embeddings.documents)
    pair.biases = <const float *>address(embeddings.biases)
    pair.n_queries, pair.n_documents = len(embeddings.queries), len(embeddings.documents)
    pair.width = embeddings.queries.shape[1]
    return pair


def factored_scores(embeddings, float[:, ::1] out, int threads):
    """Score all queries against all documents."""
    cdef embedding_pair_t pair = pair_of(embeddings)
    if out.shape[0] == 0 or out.shape[1] == 0:
        return
    with nogil:
        score_all(&pair, &out[0, 0], threads_for(threads, pair.n_queries))


def factored_top_k(embeddings, exclusions, out, int threads):
    """Select the best documents of each query."""
    cdef top_k_t task
    cdef bint ready
    task.pair, task.k = pair_of(embeddings), out.documents.shape[1]
    if task.pair.n_queries == 0 or task.k == 0:
        return
    task.excluded_ptr = <const int64_t *>address(exclusions.indptr)
    task.excluded = <const int64_t *>address(exclusions.documents)
    task.documents = <int64_t *>address(out.documents)
    task.scores = <float *>address(out.scores)
    with nogil:
        ready = select_top_k(&task, threads_for(threads, task.pair.n_queries))
    if not ready:
        raise MemoryError("out of memory for a tile of scores per thread.")
