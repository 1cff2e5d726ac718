/* Queries or documents by sparse features, and their vectors. */
#ifndef RANKING_OBJECTS_H
#define RANKING_OBJECTS_H

#include "wide.h"

/* A CSR matrix of any dtypes; without arrays, each object is its own feature. */
typedef struct {
    const void *indptr, *indices, *data;
    int64_t n;
    int none, wide_indices, wide_data;
} objects_t;

/* The entries of object o are those from objects_start(o) to objects_start(o + 1). */
LANES_INLINE int64_t objects_start(const objects_t *of, int64_t row)
{
    if (of->none)
        return row;
    return of->wide_indices ? ((const int64_t *)of->indptr)[row]
                            : ((const int32_t *)of->indptr)[row];
}

LANES_INLINE int64_t objects_index(const objects_t *of, int64_t at)
{
    if (of->none)
        return at;
    return of->wide_indices ? ((const int64_t *)of->indices)[at]
                            : ((const int32_t *)of->indices)[at];
}

LANES_INLINE float objects_value(const objects_t *of, int64_t at)
{
    if (of->none)
        return 1.0f;
    return of->wide_data ? (float)((const double *)of->data)[at] : ((const float *)of->data)[at];
}

/* A part of the sum of the features' rows, in registers: `parts` eights. */
LANES_INLINE void objects_sum(
    const objects_t *of, int64_t start, int64_t stop, const float *matrix, ptrdiff_t n,
    float *out, const int parts)
{
    wide_t sums[8];
    for (int k = 0; k < parts; k++)
        sums[k] = wide_splat(0.0f);
    for (int64_t at = start; at < stop; at++) {
        const float *row = matrix + objects_index(of, at) * n;
        wide_t value = wide_splat(objects_value(of, at));
#pragma GCC unroll 8
        for (int k = 0; k < parts; k++)
            sums[k] += value * wide_load(row + 8 * k);
    }
    for (int k = 0; k < parts; k++)
        wide_store(out + 8 * k, sums[k]);
}

/* The sum, in stored order, of value * matrix[feature]; without features the row itself. */
static inline void objects_compose(
    const objects_t *of, int64_t row, const float *matrix, ptrdiff_t n, float *out)
{
    int64_t start = objects_start(of, row), stop = objects_start(of, row + 1);
    ptrdiff_t i = 0;
    if (of->none) {
        memcpy(out, matrix + row * n, (size_t)n * sizeof(float));
        return;
    }
    for (; i + 64 <= n; i += 64)
        objects_sum(of, start, stop, matrix + i, n, out + i, 8);
    for (; i + 32 <= n; i += 32)
        objects_sum(of, start, stop, matrix + i, n, out + i, 4);
    for (; i < n; i += 8)
        objects_sum(of, start, stop, matrix + i, n, out + i, 1);
}

/* The sum of the features' numbers. */
LANES_INLINE float objects_total(const objects_t *of, int64_t row, const float *numbers)
{
    int64_t start = objects_start(of, row), stop = objects_start(of, row + 1);
    float total = 0.0f;
    if (of->none)
        return numbers[row];
    for (int64_t at = start; at < stop; at++)
        total += objects_value(of, at) * numbers[objects_index(of, at)];
    return total;
}

#endif
