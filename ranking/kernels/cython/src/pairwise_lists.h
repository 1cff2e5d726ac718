/* Pairwise losses over judged lists: "Pairwise lists" in the kernel contract. */
#ifndef RANKING_PAIRWISE_LISTS_H
#define RANKING_PAIRWISE_LISTS_H

#include <stdint.h>

#include "pairwise.h"

/* Judged lists in layers, without padding. */
typedef struct {
    const int64_t *list_ptr, *layer_ptr, *block_ptr;
    const double *omega;
    int64_t n_lists, n_blocks, n_rows;
} pair_lists_t;

typedef struct {
    int form;
    double lower, upper, bend;
    pairwise_slope_t *value, *slope; /* of a native loss */
    const void *value_context, *slope_context;
} pair_curve_t;

/* Features by column: dense if there is no `indptr`. */
typedef struct {
    const void *data, *indptr, *indices;
    int64_t n_rows;
    int data64, index64;
} columns_t;

typedef struct {
    const columns_t *features;
    const int64_t *columns;
    int64_t n_columns;
} column_selection_t;

/* Fill `out` with the slope by each margin and `values` with the loss of each block. Functions
 * return 0 without memory. */
int pairwise_slopes(const pair_lists_t *lists, const double *margins, const pair_curve_t *curve,
                    double *out, double *values, int n_threads);

/* Fill `out` with X'HX of the selected columns, summed over the selected lists. */
int pairwise_gram(const column_selection_t *x, const pair_lists_t *lists, const double *margins,
                  const pair_curve_t *curve, const int64_t *selected, int64_t n_selected,
                  double *out, int n_threads);

/* Fill `out` with the product of each column and `values`. */
int column_products(const column_selection_t *x, const double *values, double *out, int n_threads);

/* Add each column times its weight to `out`. */
void column_combination(const column_selection_t *x, const double *weights, double *out,
                        int n_threads);

typedef struct {
    const double *gram;
    double *gradient, *weights;
    int64_t n;
    double l1, l2, tolerance;
} quadratic_model_t;

/* Coordinate descent on a quadratic model; return the number of sweeps. */
int64_t quadratic_descent(const quadratic_model_t *model, int64_t sweeps);

#endif
