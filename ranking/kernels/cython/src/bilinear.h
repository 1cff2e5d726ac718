/* The bilinear model q' W d: training of W, and scores.
 *
 * "Bilinear" in the kernel contract defines what is computed, to the bit, and explains lazy
 * shrinkage. sparse_row.h stores a row of W.
 */
#ifndef RANKING_BILINEAR_H
#define RANKING_BILINEAR_H

#include "arena.h"
#include "csr.h"
#include "pairwise.h"
#include "sparse_row.h"

/* The lazy shrinkage state: scale (A) and threshold (B) that all steps so far add up to. */
typedef struct {
    double step, scale, threshold, learning_rates;
} shrinkage_state_t;

/* W, and the state from which the shrinkage of its rows and groups is computed. */
typedef struct {
    int64_t n_rows, n_columns;
    int64_t n_groups; /* 0: no group penalty */
    int is64;
    int failed; /* out of memory */
    int64_t next_compacted; /* row */
    sparse_row_t *rows;
    double *row_state; /* A_r, B_r, window */
    int64_t *groups, *group_ptr, *group_rows; /* group of each row; rows of each group */
    double *group_weights, *group_state; /* sigma, N, the largest N, B */
    unsigned char *locks; /* by group if there are any, else by row */
    arena_t arena;
} bilinear_store_t;

/* What a store starts from. Its dimensions and dtype are fields of the store. */
typedef struct {
    const int64_t *indptr;
    const int32_t *indices;
    const char *data;
    const double *row_state;
    const int64_t *groups; /* NULL: no groups */
    const double *group_weights, *group_state;
    int64_t n_groups;
} bilinear_state_t;

/* One call; arrays that a function does not use are NULL. */
typedef struct {
    bilinear_store_t *store;
    csr_t queries, documents;
    int transposed;
    const int64_t *triplets;
    int64_t n, columns;
    pairwise_loss_t loss;
    const double *rank_weights;
    int64_t n_ranks, n_documents;
    const double *learning_rates;
    double prox_interval, l1, l2;
    int grow;
    shrinkage_state_t *shrinkage;
    double *margins, *weights;
    int64_t *negatives;
    double *slopes; /* times the weight of the violation */
    int64_t batch_size;
    int hogwild, n_threads;
} bilinear_task_t;

/* Passive-aggressive steps. */
typedef struct {
    const int64_t *list_sizes;
    double aggressiveness;
    int squared; /* squared hinge */
    double *learning_rates; /* out */
} passive_aggressive_t;

/* Functions that return int return 0 without memory. If W could not grow, `failed` is set. */
int bilinear_open(bilinear_store_t *store, const bilinear_state_t *state);
void bilinear_close(bilinear_store_t *store);

/* Fill margins, weights and negatives at the current W. */
int bilinear_margins(const bilinear_task_t *task);

/* Take steps with known negatives and slopes. */
int bilinear_update(const bilinear_task_t *task);

/* Search and step by batches. */
int bilinear_train(const bilinear_task_t *task);

int bilinear_passive_aggressive(const bilinear_task_t *task, const passive_aggressive_t *rule);

void bilinear_counts(const bilinear_store_t *store, const shrinkage_state_t *state, int64_t *out);

/* Fill columns and data, where indptr is the cumulative sum of the counts. */
void bilinear_export(
    const bilinear_store_t *store, const shrinkage_state_t *state, const int64_t *indptr,
    row_export_t to);

size_t bilinear_memory(const bilinear_store_t *store);

typedef struct {
    csr_t queries, weights, documents;
    int64_t n_queries, n_columns, n_documents;
    double *out;
} bilinear_scores_t;

int bilinear_scores(const bilinear_scores_t *task, int n_threads);

#endif
