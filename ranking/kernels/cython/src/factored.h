/* The factored model: scores of embeddings that are sums of the rows of features.
 *
 * "Factored" in the kernel contract defines what is computed, to the bit.
 */
#ifndef RANKING_FACTORED_H
#define RANKING_FACTORED_H

#include "arena.h"
#include "csr.h"
#include "listwise.h"
#include "pairwise.h"
#include "sampling.h"

/* Rows of parameters, and the sums of squares of AdaGrad (NULL without it). */
typedef struct {
    float *rows, *squares;
    int64_t n_rows;
} factor_t;

/* Queries or documents. */
typedef struct {
    csr_t features, contexts; /* contexts are the features of the second half */
    factor_t factor, biases; /* biases may have no rows */
    int plain; /* embeddings are rows of the factor */
} factored_side_t;

enum { QUERIES, DOCUMENTS };

typedef struct {
    factored_side_t sides[2];
    factor_t S; /* rows of contexts */
    ptrdiff_t width; /* of a row */
    ptrdiff_t full_width; /* of an embedding: with contexts it has two halves */
    int has_contexts, adagrad;
} factored_model_t;

/* Triplets from an array, or sampled if `triplets` is NULL. */
typedef struct {
    const int64_t *triplets;
    int64_t columns;
    positives_t *positives;
    uint64_t seed, first;
    int64_t n_positives, positive_rank;
} triplet_source_t;

/* The weight of an estimated rank. */
typedef struct {
    const float *weights;
    int64_t n, n_documents;
} rank_weights_t;

typedef struct {
    float max_norm;
    int rowwise; /* AdaGrad has one learning rate per row */
} row_penalty_t;

/* The task of `factored_sample` (which fills `triplets`) and `factored_train`. With `lists`, each
 * row of the source is a list, and `losses` are filled. */
typedef struct {
    factored_model_t model;
    triplet_source_t source;
    rank_weights_t ranks;
    pairwise_loss_t loss;
    row_penalty_t penalty;
    int64_t n, batch_size;
    const float *learning_rates;
    int hogwild, n_threads;
    int64_t *triplets; /* out: query, positive, negative */
    float *margins, *weights; /* out */
    const listwise_loss_t *lists; /* NULL: triplets */
    double *losses; /* out, of lists */
} factored_task_t;

/* Steps with known slopes: documents[ptr[i]] to documents[ptr[i + 1]] belong to queries[i]. */
typedef struct {
    int64_t n;
    const int64_t *queries, *ptr, *documents;
    const float *slopes;
} factored_steps_t;

/* Return 0 if there is no memory. */
int factored_sample(const factored_task_t *task);
int factored_train(const factored_task_t *task);
int factored_update(
    const factored_model_t *model, const factored_steps_t *steps, float learning_rate,
    row_penalty_t penalty, int n_threads);

/* Compute embeddings: out[i] is the sum of value * rows[feature] over the features of row i. */
typedef struct {
    const csr_t *features;
    const float *rows;
    ptrdiff_t width;
    float *out;
} embeddings_t;

void factored_embeddings(const embeddings_t *task, int n_threads);

#endif
