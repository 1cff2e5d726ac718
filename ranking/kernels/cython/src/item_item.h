/* Columns of item-item weights: "item_item" in the kernel contract. */
#ifndef RANKING_ITEM_ITEM_H
#define RANKING_ITEM_ITEM_H

#include <stdint.h>

#include "csr.h"

typedef struct {
    double l1, l2, tolerance;
    int64_t sweeps;
    int nonnegative;
} item_rule_t;

typedef struct {
    csr_t gram, candidates; /* the data of candidates are `weights` */
    const double *diagonal;
    double *weights;
    item_rule_t rule;
    double *losses;
    int64_t *sweeps;
} item_columns_t;

/* Return 0 without memory. */
int item_columns(const item_columns_t *task, int n_threads);

#endif
