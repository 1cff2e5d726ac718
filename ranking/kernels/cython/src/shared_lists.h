/* Lists of one positive that share their negatives: three matrix products and the slopes between.
 */
#ifndef RANKING_SHARED_LISTS_H
#define RANKING_SHARED_LISTS_H

#include <stdint.h>

enum { SHARED_SOFTMAX, SHARED_COSINE_CONTRASTIVE, SHARED_LOGISTIC };

typedef struct {
    int form;
    float scale, threshold, weight;
} shared_loss_t;

/* The fields of `SharedLists`, `SharedLoss` and `SharedGradients` of the contract. */
typedef struct {
    int64_t n_lists, n_negatives, width;
    const float *queries, *positives, *negatives;
    const float *positive_offsets, *negative_offsets, *weights;
    const int64_t *excluded_ptr, *excluded;
    shared_loss_t loss;
    float *query_gradients, *positive_gradients, *negative_gradients;
    float *positive_slopes, *negative_slopes, *scores, *tops, *totals;
} shared_lists_t;

/* Return 0 without memory. */
int shared_lists(const shared_lists_t *task, int n_threads);

#endif
