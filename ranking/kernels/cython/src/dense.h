/* Sums and dot products in lanes; what does not fill the lanes is added to the first of them. */
#ifndef RANKING_DENSE_H
#define RANKING_DENSE_H

#include "lanes.h"

/* Add n < 4 remaining numbers to the first lanes, then the lanes. */
LANES_INLINE double sum_with_rest(lanes_t sums, const double *rest, int64_t n)
{
    double partial[4];
    lanes_store(partial, sums);
    for (int64_t i = 0; i < n; i++)
        partial[i] += rest[i];
    return (partial[0] + partial[2]) + (partial[1] + partial[3]);
}

LANES_INLINE double sum_lanes(const double *a, int64_t n)
{
    int64_t whole = n - n % 4;
    lanes_t sums = lanes_splat(0.0);
    for (int64_t i = 0; i < whole; i += 4)
        sums = sums + lanes_load(a + i);
    return sum_with_rest(sums, a + whole, n - whole);
}

/* Define the dot product of T[n] and double[n]. */
#define DENSE_DEFINE(T, load)                                                                      \
    LANES_INLINE double dot_##T(const T *a, const double *b, int64_t n)                            \
    {                                                                                              \
        int64_t whole = n - n % 4;                                                                 \
        lanes_t sums = lanes_splat(0.0);                                                           \
        double rest[4];                                                                            \
        for (int64_t i = 0; i < whole; i += 4)                                                     \
            sums = sums + load(a + i) * lanes_load(b + i);                                         \
        for (int64_t i = whole; i < n; i++)                                                        \
            rest[i - whole] = (double)a[i] * b[i];                                                 \
        return sum_with_rest(sums, rest, n - whole);                                               \
    }

DENSE_DEFINE(double, lanes_load)
DENSE_DEFINE(float, lanes_widen)

#endif
