/* Sums and dot products have the order of operations of the kernel contract. */
#include <math.h>

#include "check.h"
#include "dense.h"
#include "float8.h"
#include "pairwise.h"
#include "random.h"

enum { MOST = 37 };

static double lane_sum(const double *products, int n)
{
    double s[4] = {0.0, 0.0, 0.0, 0.0};
    for (int i = 0; i < n; i++)
        s[i % 4] += products[i];
    return (s[0] + s[2]) + (s[1] + s[3]);
}

static void test_lanes(void)
{
    double a[MOST], b[MOST], products[MOST];
    float f[MOST];
    for (int n = 0; n <= MOST; n++) {
        for (int i = 0; i < n; i++) {
            a[i] = random_uniform(1, (uint64_t)i) - 0.5;
            b[i] = random_uniform(2, (uint64_t)i) - 0.5;
            f[i] = (float)a[i];
            products[i] = a[i] * b[i];
        }
        CHECK(sum_lanes(a, n) == lane_sum(a, n));
        CHECK(dot_double(a, b, n) == lane_sum(products, n));
        for (int i = 0; i < n; i++)
            products[i] = (double)f[i] * b[i];
        CHECK(dot_float(f, b, n) == lane_sum(products, n));
    }
}

static void test_float8_dot(void)
{
    float a[40], b[40], s[8];
    for (int n = 0; n <= 40; n += 8) {
        for (int k = 0; k < 8; k++)
            s[k] = 0.0f;
        for (int i = 0; i < n; i++) {
            a[i] = (float)random_uniform(3, (uint64_t)i);
            b[i] = (float)random_uniform(4, (uint64_t)i);
            s[i % 8] += a[i] * b[i];
        }
        CHECK(float8_dot(a, b, n)
              == ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7])));
    }
}

static void test_exp(void)
{
    for (int i = -7000; i <= 7000; i++) {
        double x = 0.1 * i, exact = exp(x);
        CHECK(fabs(lanes_exp_one(x) - exact) <= 5e-16 * exact);
    }
    CHECK(lanes_exp_one(-1e300) > 0.0 && isfinite(lanes_exp_one(1e300)));
    CHECK(isnan(lanes_exp_one(NAN)));
}

static void test_random_numbers(void)
{
    CHECK(random_bits(0, 0) == UINT64_C(0xE220A8397B1DCDAF)); /* SplitMix64's first number */
    for (uint64_t k = 0; k < 1000; k++) {
        int64_t below = random_below(7, k, 10);
        CHECK(below >= 0 && below < 10);
        CHECK(random_uniform(7, k) >= 0.0 && random_uniform(7, k) < 1.0);
    }
}

static double native(double margin, const void *context)
{
    return margin * *(const double *)context;
}

static void test_slopes(void)
{
    pairwise_slope_t *hinge = pairwise_slope(PAIRWISE_HINGE, NULL);
    pairwise_slope_t *squared = pairwise_slope(PAIRWISE_SQUARED_HINGE, NULL);
    pairwise_slope_t *logistic = pairwise_slope(PAIRWISE_LOGISTIC, NULL);
    double two = 2.0;
    CHECK(hinge(0.5, NULL) == -1.0 && hinge(1.0, NULL) == 0.0 && hinge(NAN, NULL) == 0.0);
    CHECK(squared(0.5, NULL) == -1.0 && squared(2.0, NULL) == 0.0);
    CHECK(logistic(0.0, NULL) == -0.5);
    CHECK(pairwise_slope(PAIRWISE_NATIVE, native)(3.0, &two) == 6.0);
}

int main(void)
{
    test_lanes();
    test_float8_dot();
    test_exp();
    test_random_numbers();
    test_slopes();
    return 0;
}
