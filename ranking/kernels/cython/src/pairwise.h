/* Pairwise losses: the derivative of a loss of the margin z = f(q, d+) - f(q, d-). */
#ifndef RANKING_PAIRWISE_H
#define RANKING_PAIRWISE_H

/* The values of PairwiseForm of the kernel contract. */
enum {
    PAIRWISE_HINGE = 0,
    PAIRWISE_SQUARED_HINGE = 1,
    PAIRWISE_LOGISTIC = 2,
    PAIRWISE_NATIVE = 3,
};

typedef double pairwise_slope_t(double margin, const void *context);

/* Loops call `slope(margin, context)`; built-in losses and those of plugins do not differ. */
typedef struct {
    pairwise_slope_t *slope;
    const void *context;
} pairwise_loss_t;

/* Return the slope of a form; `native` is the function of a plugin, for PAIRWISE_NATIVE. */
pairwise_slope_t *pairwise_slope(int form, pairwise_slope_t *native);

#endif
