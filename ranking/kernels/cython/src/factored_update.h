/* The steps of one block. All steps of a block read the parameters at its start.
 *
 * Each row has an owner, the one thread that changes it, so threads do not wait for each other.
 * Rows change while other steps still need their old values, so what a step reads of plain rows
 * (rows that are embeddings) is copied after the search, while it is in the cache. Plain rows are
 * listed, summed and changed by their owner. Where rows belong to features, one thread lists the
 * queries (or documents), all threads sum their gradients, and then each owner distributes the
 * sums to its rows. A row with one gradient is changed directly, without a sum.
 */
#ifndef RANKING_FACTORED_UPDATE_H
#define RANKING_FACTORED_UPDATE_H

#include "factored_model.h"
#include "thread_team.h"

/* Steps with a gradient that is not zero, in a cache line of their own. */
typedef struct {
    uint32_t *steps;
    int64_t n, padding[6];
} active_steps_t;

/* A step that uses a row; for a query `at` is the step, else the index of the document. */
typedef struct {
    uint32_t at, step, next;
} use_t;

/* Rows that a block uses, in order of first use, and the uses of each as a linked list. */
typedef struct {
    int64_t *slots; /* by row: stamp of its use << 32 | its slot here */
    int64_t *rows;
    uint32_t *firsts, *lasts; /* uses */
    use_t *uses;
    int64_t n, n_uses;
} used_rows_t;

/* An entry of the feature matrix: the slot of its row (query or document), and its feature. */
typedef struct {
    uint32_t slot, feature;
    int64_t at;
} entry_t;

/* Sums of gradients, then of their squares: of rows, and of biases. */
typedef struct {
    buffer_t rows, biases; /* of floats */
} sums_t;

/* Features whose rows a thread owns and a block changes. */
typedef struct {
    int64_t *marks; /* by feature: stamp << 32 | its sum, or NO_SUM if it is used once */
    buffer_t entries; /* entry_t */
    buffer_t features; /* int64_t, by sum */
    sums_t sums;
    int64_t n, n_sums;
} feature_rows_t;

/* Queries or documents. */
typedef struct {
    const factored_side_t *of;
    int is_documents;
    used_rows_t *used; /* one per thread if plain, else one */
    sums_t sums; /* by slot, if not plain */
    int64_t *bounds; /* thread t owns the features bounds[t] to bounds[t + 1] */
    feature_rows_t *rows; /* one per thread */
} side_t;

/* What the threads share. */
typedef struct {
    const factored_model_t *model;
    row_penalty_t penalty;
    int n_threads;
    thread_caches_t *caches; /* one per thread */
    side_t sides[2];
    int64_t *context_bounds; /* of the rows of S */
    feature_rows_t *context_rows;
    uint32_t *active_memory;
    active_steps_t *active; /* one per thread */
    float *query_copies, *query_gradients; /* by step, of plain rows */
    float *scratch; /* three embeddings per thread */
    barrier_t barrier;
    int failed; /* out of memory */
} block_update_t;

/* The sizes of a block. */
typedef struct {
    int64_t steps, documents; /* `documents` counts repetitions */
    int64_t reads; /* embeddings that are composed, at most */
} block_size_t;

/* What one thread works with. */
typedef struct {
    block_update_t *shared;
    const factored_steps_t *steps;
    float learning_rate;
    int64_t stamp; /* of the block: they grow */
    int thread, n_threads;
} worker_t;

void update_open(
    block_update_t *update, arena_t *arena, const factored_model_t *model, block_size_t size,
    int n_threads);

/* Begin a block with the steps of this thread, from `first` on. */
void update_begin(const worker_t *worker, int64_t first);

/* List steps first to last if they are not zero, and copy what they read of plain rows. */
void update_copy(const worker_t *worker, int64_t first, int64_t last);

/* Take this thread's part of a block's steps. A barrier is needed before and after. */
void update_apply(const worker_t *worker);

#endif
