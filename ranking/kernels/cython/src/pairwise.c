#include "pairwise.h"

#include "lanes.h"

static double hinge_slope(double margin, const void *context)
{
    (void)context;
    return margin < 1.0 ? -1.0 : 0.0;
}

static double squared_hinge_slope(double margin, const void *context)
{
    (void)context;
    return margin < 1.0 ? -2.0 * (1.0 - margin) : 0.0;
}

static double logistic_slope(double margin, const void *context)
{
    (void)context;
    return -1.0 / (1.0 + lanes_exp_one(margin));
}

pairwise_slope_t *pairwise_slope(int form, pairwise_slope_t *native)
{
    switch (form) {
    case PAIRWISE_HINGE:
        return hinge_slope;
    case PAIRWISE_SQUARED_HINGE:
        return squared_hinge_slope;
    case PAIRWISE_LOGISTIC:
        return logistic_slope;
    default:
        return native;
    }
}
