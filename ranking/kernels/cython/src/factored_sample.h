/* Search of triplets for a negative that violates the margin (WARP), at the current parameters. */
#ifndef RANKING_FACTORED_SAMPLE_H
#define RANKING_FACTORED_SAMPLE_H

#include "factored_model.h"

/* A triplet that is searched. */
typedef struct {
    sample_t sample;
    const int64_t *row; /* its row of the array of triplets, or NULL */
    int64_t query, positive, negative, trial;
    int64_t member; /* index of the positive among the members of all lists */
    const float *query_embedding;
    float positive_score, margin, weight;
} search_t;

/* Triplets that are searched side by side: while one is scored, others' memory is fetched. */
typedef struct {
    search_t searches[SAMPLING_BATCH];
    search_t *open[SAMPLING_BATCH]; /* without a violation so far */
    int64_t n, n_open;
} search_batch_t;

/* Search `batch->n` triplets from `step` on; `scores` holds one float per positive. */
void search_batch(
    const factored_task_t *task, thread_caches_t *caches, int64_t step, search_batch_t *batch,
    float *scores);

/* Sample and score `batch->n` lists from `step` on: their documents, the positive first, and the
 * margins to all negatives. */
void score_lists(
    const factored_task_t *task, thread_caches_t *caches, int64_t step, search_batch_t *batch,
    int64_t *documents, double *margins);

#endif
