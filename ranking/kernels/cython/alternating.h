/* Half-steps over M, a row at a time: product, threshold, norm and gain while the row is in cache.
 *
 * "Alternating" in ranking/kernels/contract.py says what is computed. Rows of the other side's
 * vectors lie anywhere in memory, and fetching them is the cost; so they are asked for ahead.
 */
#ifndef RANKING_ALTERNATING_H
#define RANKING_ALTERNATING_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "wide.h"

typedef int32_t wide_mask_t __attribute__((vector_size(32)));

enum {
    HALF_AHEAD = 8,   /* non-zeros of M by which a vector is asked for ahead */
    HALF_TILE = 14,   /* eights that are summed in registers: 16, less the value and the product */
    HALF_STREAMS = 8, /* wide vectors that are added at a time */
    HALF_LINE = 16    /* floats of a line of memory */
};

/* M, by rows, of any dtypes. */
typedef struct {
    const void *indptr, *indices, *data;
    int wide_indices, wide_data;
    int64_t rows, last; /* last: the place of the last non-zero */
} half_matrix_t;

LANES_INLINE int64_t half_start(const half_matrix_t *of, int64_t row)
{
    return of->wide_indices ? ((const int64_t *)of->indptr)[row]
                            : ((const int32_t *)of->indptr)[row];
}

LANES_INLINE int64_t half_index(const half_matrix_t *of, int64_t at)
{
    return of->wide_indices ? ((const int64_t *)of->indices)[at]
                            : ((const int32_t *)of->indices)[at];
}

LANES_INLINE float half_value(const half_matrix_t *of, int64_t at)
{
    return of->wide_data ? (float)((const double *)of->data)[at] : ((const float *)of->data)[at];
}

/* The column of a non-zero that comes later, in this row or in one of the next. */
LANES_INLINE int64_t half_index_ahead(const half_matrix_t *of, int64_t at)
{
    return half_index(of, at < of->last ? at : of->last);
}

/* Rows are shared out by chunks of about as many non-zeros, as a few rows may have most of them.
 * A row counts for one more, so that those without any are shared out, too. */
static inline int64_t half_chunk(const half_matrix_t *of, int64_t chunk, int64_t chunks)
{
    int64_t low = 0, high = of->rows;
    int64_t goal = (int64_t)((double)(half_start(of, high) + high) * (double)chunk / (double)chunks);
    if (chunk == chunks)
        return high;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (half_start(of, middle) + middle < goal)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* --- threshold and norm -------------------------------------------------------------------- */

typedef struct {
    float threshold, limit;
    int limited; /* a limit may be so small that it is 0 as a float */
} half_rule_t;

LANES_INLINE wide_t half_abs(wide_t v)
{
    return (wide_t)((wide_mask_t)v & 0x7fffffff);
}

LANES_INLINE wide_t half_soft(wide_t omega, wide_t cut)
{
    wide_t shrunk = half_abs(omega) - cut;
    wide_mask_t sign = (wide_mask_t)omega & (int32_t)0x80000000;
    return (wide_t)(((wide_mask_t)shrunk | sign) & (wide_mask_t)(shrunk > wide_splat(0.0f)));
}

/* Fill `soft` with the thresholded omega; return what it is to be scaled by. */
LANES_INLINE float half_shrink(
    const half_rule_t *rule, const float *omega, ptrdiff_t n, float *soft)
{
    wide_t squares = wide_splat(0.0f), cut = wide_splat(rule->threshold);
    for (ptrdiff_t i = 0; i < n; i += 8) {
        wide_t s = half_soft(wide_load(omega + i), cut);
        wide_store(soft + i, s);
        squares += s * s;
    }
    float square = wide_fold(squares);
    /* Times 1 is no change: there is one loop for rows that are scaled and rows that are not. */
    return rule->limited && square > 0.0f ? rule->limit / sqrtf(square) : 1.0f;
}

/* What a gain is made of. */
typedef struct {
    wide_t products, sizes;
} half_sums_t;

LANES_INLINE void half_add(half_sums_t *sums, wide_t row, wide_t omega)
{
    sums->products += row * omega;
    sums->sizes += half_abs(row);
}

LANES_INLINE double half_gain(const half_rule_t *rule, const half_sums_t *sums)
{
    return (double)wide_fold(sums->products)
           - (double)rule->threshold * (double)wide_fold(sums->sizes);
}

/* --- dense --------------------------------------------------------------------------------- */

typedef struct {
    half_matrix_t matrix;
    half_rule_t rule;
    const float *vectors;
    ptrdiff_t width;
    float *out;
    double *gains;
} half_dense_t;

#define HALF_CASE(n, call) \
    case n: \
        call(n); \
        break

/* The product of a row, in registers: vectors have `parts` eights. */
LANES_INLINE void half_narrow(
    const half_dense_t *job, int64_t start, int64_t stop, float *omega, const int parts)
{
    wide_t sums[HALF_TILE];
    for (int k = 0; k < parts; k++)
        sums[k] = wide_splat(0.0f);
    for (int64_t at = start; at < stop; at++) {
        const float *row = job->vectors + half_index(&job->matrix, at) * job->width;
        const float *later
            = job->vectors + half_index_ahead(&job->matrix, at + HALF_AHEAD) * job->width;
        wide_t value = wide_splat(half_value(&job->matrix, at));
        for (int line = 0; line < 8 * parts; line += HALF_LINE)
            __builtin_prefetch(later + line);
        __builtin_prefetch(later + 8 * parts - 1);
#pragma GCC unroll 14
        for (int k = 0; k < parts; k++)
            sums[k] += value * wide_load(row + 8 * k);
    }
    for (int k = 0; k < parts; k++)
        wide_store(omega + 8 * k, sums[k]);
}

static inline void half_narrow_product(
    const half_dense_t *job, int64_t start, int64_t stop, float *omega)
{
#define HALF_NARROW(n) half_narrow(job, start, stop, omega, n)
    switch (job->width / 8) {
        HALF_CASE(1, HALF_NARROW);
        HALF_CASE(2, HALF_NARROW);
        HALF_CASE(3, HALF_NARROW);
        HALF_CASE(4, HALF_NARROW);
        HALF_CASE(5, HALF_NARROW);
        HALF_CASE(6, HALF_NARROW);
        HALF_CASE(7, HALF_NARROW);
        HALF_CASE(8, HALF_NARROW);
        HALF_CASE(9, HALF_NARROW);
        HALF_CASE(10, HALF_NARROW);
        HALF_CASE(11, HALF_NARROW);
        HALF_CASE(12, HALF_NARROW);
        HALF_CASE(13, HALF_NARROW);
        HALF_CASE(14, HALF_NARROW);
    }
#undef HALF_NARROW
}

/* Add some vectors to omega, side by side, so that the processor sees as many streams, and fetches
 * each of them ahead. */
LANES_INLINE void half_streams(
    const half_dense_t *job, int64_t at, float *omega, const int streams)
{
    const float *rows[HALF_STREAMS];
    wide_t values[HALF_STREAMS];
    for (int k = 0; k < streams; k++) {
        rows[k] = job->vectors + half_index(&job->matrix, at + k) * job->width;
        values[k] = wide_splat(half_value(&job->matrix, at + k));
    }
    for (ptrdiff_t i = 0; i < job->width; i += 8) {
        wide_t sum = wide_load(omega + i);
#pragma GCC unroll 8
        for (int k = 0; k < streams; k++)
            sum += values[k] * wide_load(rows[k] + i);
        wide_store(omega + i, sum);
    }
}

/* The product of a row with vectors that are too wide for registers. */
static inline void half_wide_product(
    const half_dense_t *job, int64_t start, int64_t stop, float *omega)
{
    memset(omega, 0, (size_t)job->width * sizeof(float));
    for (; stop - start >= HALF_STREAMS; start += HALF_STREAMS)
        half_streams(job, start, omega, HALF_STREAMS);
#define HALF_WIDE(n) half_streams(job, start, omega, n)
    switch (stop - start) {
        HALF_CASE(1, HALF_WIDE);
        HALF_CASE(2, HALF_WIDE);
        HALF_CASE(3, HALF_WIDE);
        HALF_CASE(4, HALF_WIDE);
        HALF_CASE(5, HALF_WIDE);
        HALF_CASE(6, HALF_WIDE);
        HALF_CASE(7, HALF_WIDE);
    }
#undef HALF_WIDE
}

#undef HALF_CASE

LANES_INLINE void half_product(const half_dense_t *job, int64_t row, float *omega)
{
    int64_t start = half_start(&job->matrix, row), stop = half_start(&job->matrix, row + 1);
    if (job->width <= 8 * HALF_TILE)
        half_narrow_product(job, start, stop, omega);
    else
        half_wide_product(job, start, stop, omega);
}

/* Rows first to last; `omega` has room for one. */
static inline void half_rows(const half_dense_t *job, int64_t first, int64_t last, float *omega)
{
    for (int64_t row = first; row < last; row++) {
        float *out = job->out + row * job->width;
        half_sums_t sums = {wide_splat(0.0f), wide_splat(0.0f)};
        half_product(job, row, omega);
        wide_t scale = wide_splat(half_shrink(&job->rule, omega, job->width, out));
        for (ptrdiff_t i = 0; i < job->width; i += 8) {
            wide_t made = wide_load(out + i) * scale;
            wide_store(out + i, made);
            half_add(&sums, made, wide_load(omega + i));
        }
        job->gains[row] = half_gain(&job->rule, &sums);
    }
}

/* --- sparse -------------------------------------------------------------------------------- */

typedef struct {
    half_matrix_t matrix;
    half_rule_t rule;
    const int64_t *pointers;
    const int32_t *dimensions;
    const float *values;
    ptrdiff_t width; /* padded */
    int64_t *counts; /* by row: how many are not zero */
    double *gains;
} half_sparse_t;

/* What a chunk of rows has made. */
typedef struct {
    int32_t *dimensions;
    float *values;
    int64_t count, room;
} half_made_t;

LANES_INLINE void half_free(half_made_t *made)
{
    free(made->dimensions);
    free(made->values);
    made->dimensions = NULL;
    made->values = NULL;
}

/* Make room for so many more; 0 if there is no memory. */
static inline int half_reserve(half_made_t *made, int64_t more)
{
    int64_t room = made->count + more;
    void *dimensions, *values;
    if (room <= made->room)
        return 1;
    room += room / 2;
    if ((dimensions = realloc(made->dimensions, (size_t)room * sizeof(int32_t))) == NULL)
        return 0;
    made->dimensions = dimensions;
    if ((values = realloc(made->values, (size_t)room * sizeof(float))) == NULL)
        return 0;
    made->values = values;
    made->room = room;
    return 1;
}

/* Pointers are asked for first, as what they point to cannot be asked for without them. Both ends
 * of a vector are asked for without a look at its length: a short one should cost no branch. */
LANES_INLINE void half_ask(const half_sparse_t *job, int64_t at)
{
    int64_t later = half_index_ahead(&job->matrix, at + HALF_AHEAD);
    int64_t first = job->pointers[later], last = job->pointers[later + 1];
    __builtin_prefetch(job->pointers + half_index_ahead(&job->matrix, at + 2 * HALF_AHEAD));
    __builtin_prefetch(job->dimensions + first);
    __builtin_prefetch(job->values + first);
    __builtin_prefetch(job->dimensions + last);
    __builtin_prefetch(job->values + last);
    for (int64_t line = first + HALF_LINE; line < last; line += HALF_LINE) {
        __builtin_prefetch(job->dimensions + line);
        __builtin_prefetch(job->values + line);
    }
}

/* Add the product of a row to `omega`, which is zero. */
LANES_INLINE void half_scatter(const half_sparse_t *job, int64_t row, float *omega)
{
    int64_t stop = half_start(&job->matrix, row + 1);
    for (int64_t at = half_start(&job->matrix, row); at < stop; at++) {
        int64_t column = half_index(&job->matrix, at), end = job->pointers[column + 1];
        float value = half_value(&job->matrix, at);
        half_ask(job, at);
        for (int64_t i = job->pointers[column]; i < end; i++)
            omega[job->dimensions[i]] += value * job->values[i];
    }
}

LANES_INLINE int half_any(wide_t v)
{
    wide_mask_t there = (wide_mask_t)(v != wide_splat(0.0f));
#ifdef __AVX2__
    return _mm256_movemask_ps((__m256)there) != 0;
#else
    int any = 0;
    for (int i = 0; i < 8; i++)
        any |= there[i];
    return any != 0;
#endif
}

LANES_INLINE void half_append(half_made_t *made, wide_t v, ptrdiff_t first)
{
    for (int i = 0; i < 8; i++) {
        made->dimensions[made->count] = (int32_t)(first + i);
        made->values[made->count] = v[i];
        made->count += v[i] != 0.0f;
    }
}

/* Rows first to last; `omega` and `soft` have room for one, and omega is zero before and after.
 * Return 0 if there is no memory. */
static inline int half_sparse_rows(
    const half_sparse_t *job, int64_t first, int64_t last, float *omega, float *soft,
    half_made_t *made)
{
    for (int64_t row = first; row < last; row++) {
        int64_t before = made->count;
        half_sums_t sums = {wide_splat(0.0f), wide_splat(0.0f)};
        /* One more, as what is appended is written before it is known to count. */
        if (!half_reserve(made, job->width + 1))
            return 0;
        half_scatter(job, row, omega);
        wide_t scale = wide_splat(half_shrink(&job->rule, omega, job->width, soft));
        for (ptrdiff_t i = 0; i < job->width; i += 8) {
            wide_t v = wide_load(soft + i) * scale;
            half_add(&sums, v, wide_load(omega + i));
            wide_store(omega + i, wide_splat(0.0f));
            if (half_any(v))
                half_append(made, v, i);
        }
        job->gains[row] = half_gain(&job->rule, &sums);
        job->counts[row] = made->count - before;
    }
    return 1;
}

#endif
