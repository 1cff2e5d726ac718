/* Listwise losses of sampled lists: one positive against n negatives, given by their margins.
 *
 * "Listwise" in the kernel contract defines what is computed, to the bit.
 */
#ifndef RANKING_LISTWISE_H
#define RANKING_LISTWISE_H

#include <stdint.h>

/* The values of ListwiseForm of the kernel contract. */
enum {
    LISTWISE_DOMINATION = 0,
    LISTWISE_NATIVE = 1,
};

typedef double list_value_t(
    const double *scores, const double *grades, int64_t n, const void *context);
typedef void list_slopes_t(
    const double *scores, const double *grades, int64_t n, double *out, const void *context);

typedef struct {
    int form;
    list_value_t *value; /* of a plugin, for LISTWISE_NATIVE */
    list_slopes_t *slopes;
    const void *value_context, *slopes_context;
    double weight, margin; /* of the domination loss */
} listwise_loss_t;

/* The number of doubles that `listwise_loss` needs for lists of n negatives. */
int64_t listwise_scratch(int64_t n);

/* Fill the slopes of the scores of the positive and the n negatives; return the loss, which is NaN
 * if a slope is not finite. */
double listwise_loss(
    const listwise_loss_t *loss, const double *margins, int64_t n, double *slopes,
    double *scratch);

/* Lists with the same number of negatives, one per row of margins. */
typedef struct {
    listwise_loss_t loss;
    const double *margins;
    int64_t n_lists, n_negatives;
    double *losses, *slopes; /* out */
} listwise_task_t;

/* Compute all lists; return 0 if there is no memory. */
int listwise_slopes(const listwise_task_t *task, int n_threads);

#endif
