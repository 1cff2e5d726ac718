/* Pairwise losses over judged lists, against sums over all pairs. */
#include "pairwise_lists.h"

#include <math.h>

#include "check.h"

enum { ROWS = 40, COLUMNS = 3 };

static const int64_t LIST_PTR[] = {0, 3, 5}, LAYER_PTR[] = {0, 9, 20, 24, 26, ROWS};
static const int64_t BLOCK_PTR[] = {0, 2}, ALL[] = {0, 1, 2};
static double margins[ROWS], omega[ROWS], features[COLUMNS * ROWS];

static double cubic(double z, const void *context)
{
    (void)context;
    return z < 1.0 ? (1.0 - z) * (1.0 - z) * (1.0 - z) / 3.0 : 0.0;
}

static double cubic_slope(double z, const void *context)
{
    (void)context;
    return z < 1.0 ? -(1.0 - z) * (1.0 - z) : 0.0;
}

static double value_of(const pair_curve_t *curve, double z)
{
    double u = 1.0 - z;
    if (curve->form == PAIRWISE_LOGISTIC)
        return log1p(exp(-z));
    if (curve->form == PAIRWISE_NATIVE)
        return cubic(z, NULL);
    return u <= 0.0 ? 0.0
                    : (u <= curve->upper ? 0.5 * curve->bend * u * u : u - 0.5 * curve->upper);
}

/* The loss with a step of some length along a column. */
static double brute_force(const pair_curve_t *curve, int column, double step)
{
    double total = 0.0;
    for (int q = 0; q < 2; q++)
        for (int64_t k = LIST_PTR[q] + 1; k < LIST_PTR[q + 1]; k++)
            for (int64_t i = LAYER_PTR[k]; i < LAYER_PTR[k + 1]; i++)
                for (int64_t j = LAYER_PTR[LIST_PTR[q]]; j < LAYER_PTR[k]; j++) {
                    const double *x = features + column * ROWS;
                    double z = margins[i] - margins[j] + step * (x[i] - x[j]);
                    total += omega[i] * value_of(curve, z);
                }
    return total;
}

static void check_curve(const pair_curve_t *curve)
{
    const pair_lists_t lists = {LIST_PTR, LAYER_PTR, BLOCK_PTR, omega, 2, 1, ROWS};
    const columns_t x = {features, NULL, NULL, ROWS, 1, 0};
    const column_selection_t selection = {&x, ALL, COLUMNS};
    double slopes[ROWS], value[1], along[COLUMNS], gram[COLUMNS * COLUMNS], h = 1e-4;
    CHECK(pairwise_slopes(&lists, margins, curve, slopes, value, 2));
    CHECK(fabs(value[0] - brute_force(curve, 0, 0.0)) < 1e-9 * value[0]);
    CHECK(column_products(&selection, slopes, along, 2));
    CHECK(pairwise_gram(&selection, &lists, margins, curve, ALL, 2, gram, 2));
    for (int c = 0; c < COLUMNS; c++) {
        double up = brute_force(curve, c, h), down = brute_force(curve, c, -h);
        CHECK(fabs(along[c] - (up - down) / (2.0 * h)) < 1e-4 * (1.0 + fabs(along[c])));
        if (curve->form >= PAIRWISE_LOGISTIC) {
            double curvature = (up - 2.0 * value[0] + down) / (h * h);
            CHECK(fabs(gram[c * COLUMNS + c] - curvature) < 1e-2 * (1.0 + curvature));
        }
    }
}

static void check_descent(void)
{
    const double gram[] = {2.0, 1.0, 1.0, 3.0};
    double gradient[] = {1.0, -2.0}, weights[] = {0.0, 0.0};
    const quadratic_model_t model = {gram, gradient, weights, 2, 0.0, 0.0, 1e-30};
    CHECK(quadratic_descent(&model, 200) < 200);
    CHECK(fabs(weights[0] + 1.0) < 1e-12 && fabs(weights[1] - 1.0) < 1e-12);
}

int main(void)
{
    const pair_curve_t hinge = {PAIRWISE_HINGE, 0.0, 0.1, 10.0, NULL, NULL, NULL, NULL};
    const pair_curve_t squared = {PAIRWISE_SQUARED_HINGE, 0.0, INFINITY, 2.0, NULL, NULL, NULL,
                                  NULL};
    const pair_curve_t logistic = {PAIRWISE_LOGISTIC, 0.0, INFINITY, 0.25, NULL, NULL, NULL, NULL};
    const pair_curve_t native = {PAIRWISE_NATIVE, 0.0, INFINITY, 1e3, cubic, cubic_slope, NULL,
                                 NULL};
    for (int i = 0; i < ROWS; i++) {
        margins[i] = sin(3.7 * i);
        omega[i] = 0.5 + 0.25 * cos(1.3 * i);
        for (int c = 0; c < COLUMNS; c++)
            features[c * ROWS + i] = sin(1.0 + 2.3 * i * (c + 1));
    }
    check_curve(&hinge);
    check_curve(&squared);
    check_curve(&logistic);
    check_curve(&native);
    check_descent();
    return 0;
}
