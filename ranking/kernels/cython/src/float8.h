/* Vectors of eight floats: arithmetic on embeddings.
 *
 * As in lanes.h these are vector types of the compiler, and each float has the arithmetic of a
 * plain one. Embeddings are padded to a multiple of eight, so no loop has a remainder.
 */
#ifndef RANKING_FLOAT8_H
#define RANKING_FLOAT8_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "lanes.h"
#ifdef __SSE2__
#include <emmintrin.h>
#endif

typedef float float8_t __attribute__((vector_size(32)));
typedef float float8_memory_t __attribute__((vector_size(32), aligned(4), may_alias));

LANES_INLINE float8_t float8_load(const float *from)
{
    return *(const float8_memory_t *)from;
}

LANES_INLINE void float8_store(float *to, float8_t v)
{
    *(float8_memory_t *)to = v;
}

/* Prefetch an embedding for reading. */
LANES_INLINE void float8_prefetch(const float *from, ptrdiff_t n)
{
    for (ptrdiff_t i = 0; i < n; i += 16)
        __builtin_prefetch(from + i);
}

/* Prefetch an embedding for writing, which invalidates the copies of other caches. */
LANES_INLINE void float8_prefetch_write(const float *from, ptrdiff_t n)
{
    for (ptrdiff_t i = 0; i < n; i += 16)
        __builtin_prefetch(from + i, 1);
}

LANES_INLINE float8_t float8_splat(float v)
{
    return (float8_t){v, v, v, v, v, v, v, v};
}

LANES_INLINE float8_t float8_sqrt(float8_t v)
{
#if defined(__AVX2__)
    return _mm256_sqrt_ps(v);
#elif defined(__SSE2__)
    float part[8];
    float8_store(part, v);
    _mm_storeu_ps(part, _mm_sqrt_ps(_mm_loadu_ps(part)));
    _mm_storeu_ps(part + 4, _mm_sqrt_ps(_mm_loadu_ps(part + 4)));
    return float8_load(part);
#else
    float8_t out;
    for (int i = 0; i < 8; i++)
        out[i] = sqrtf(v[i]);
    return out;
#endif
}

/* Add the partial sums. */
LANES_INLINE float float8_sum(float8_t v)
{
#ifdef __AVX2__
    __m128 half = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    half = _mm_add_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
#else
    return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
#endif
}

LANES_INLINE float float8_dot(const float *a, const float *b, ptrdiff_t n)
{
    float8_t sums = float8_splat(0.0f);
    for (ptrdiff_t i = 0; i < n; i += 8)
        sums += float8_load(a + i) * float8_load(b + i);
    return float8_sum(sums);
}

LANES_INLINE void float8_scale(float *a, float by, ptrdiff_t n)
{
    for (ptrdiff_t i = 0; i < n; i += 8)
        float8_store(a + i, float8_load(a + i) * float8_splat(by));
}

/* p -= c x */
LANES_INLINE void float8_step(float *p, const float *x, float c, ptrdiff_t n)
{
    for (ptrdiff_t i = 0; i < n; i += 8)
        float8_store(p + i, float8_load(p + i) - float8_splat(c) * float8_load(x + i));
}

/* AdaGrad: y = c x; g += (c c) q, or y y if q is NULL; p -= rate y / sqrt(g) */
LANES_INLINE void float8_adagrad(
    float *p, float *g, const float *x, const float *q, float c, float rate, ptrdiff_t n)
{
    for (ptrdiff_t i = 0; i < n; i += 8) {
        float8_t y = float8_splat(c) * float8_load(x + i);
        float8_t sums = float8_load(g + i) + (q ? float8_splat(c * c) * float8_load(q + i) : y * y);
        float8_store(g + i, sums);
        float8_store(p + i, float8_load(p + i) - (float8_splat(rate) * y) / float8_sqrt(sums));
    }
}

/* The same with one rate for the row: g += the mean of (c c) q, or of y y. */
LANES_INLINE void float8_adagrad_row(
    float *p, float *g, const float *x, const float *q, float c, float rate, ptrdiff_t n)
{
    float8_t total = float8_splat(0.0f), mean;
    for (ptrdiff_t i = 0; i < n; i += 8) {
        float8_t y = float8_splat(c) * float8_load(x + i);
        total += q ? float8_splat(c * c) * float8_load(q + i) : y * y;
    }
    mean = float8_splat(float8_sum(total) / (float)n);
    for (ptrdiff_t i = 0; i < n; i += 8) {
        float8_t y = float8_splat(c) * float8_load(x + i), sums = float8_load(g + i) + mean;
        float8_store(g + i, sums);
        float8_store(p + i, float8_load(p + i) - (float8_splat(rate) * y) / float8_sqrt(sums));
    }
}

/* to += c x */
LANES_INLINE void float8_add(float *to, const float *x, float c, ptrdiff_t n)
{
    for (ptrdiff_t i = 0; i < n; i += 8)
        float8_store(to + i, float8_load(to + i) + float8_splat(c) * float8_load(x + i));
}

/* Start sums at -0, the neutral element: -0 + (+0) is +0, and -0 + (-0) is -0. */
LANES_INLINE void float8_clear(float *out, ptrdiff_t n)
{
    for (ptrdiff_t i = 0; i < n; i += 8)
        float8_store(out + i, float8_splat(-0.0f));
}

/* --- scores -------------------------------------------------------------------------------- */

/* Embeddings of queries and documents, each row `width` floats, and where their scores go. */
typedef struct {
    const float *queries, *documents, *biases; /* biases may be NULL */
    ptrdiff_t width;
    float *out;
    int64_t stride; /* columns of `out` */
} float8_scores_t;

#ifdef __AVX2__
/* Reduce eight vectors of eight partial sums to eight sums: add the halves of k and k + 4, then
 * quarters, then pairs. One of two operands stays in place, as blending is faster than moving. */
LANES_INLINE __m256 float8_sum_eight(const __m256 *s)
{
    __m256 t[4];
    for (int k = 0; k < 4; k++)
        t[k] = _mm256_add_ps(
            _mm256_blend_ps(s[k], s[k + 4], 0xF0), _mm256_permute2f128_ps(s[k], s[k + 4], 0x21));
    for (int k = 0; k < 4; k += 2)
        t[k] = _mm256_add_ps(
            _mm256_blend_ps(t[k], t[k + 1], 0xCC), _mm256_shuffle_ps(t[k], t[k + 1], 0x4E));
    return _mm256_add_ps(
        _mm256_shuffle_ps(t[0], t[2], 0x88), _mm256_shuffle_ps(t[0], t[2], 0xDD));
}

/* Reduce four vectors to four sums. */
LANES_INLINE __m128 float8_sum_four(const __m256 *s)
{
    __m128 t[4];
    for (int k = 0; k < 4; k++)
        t[k] = _mm_add_ps(_mm256_castps256_ps128(s[k]), _mm256_extractf128_ps(s[k], 1));
    for (int k = 0; k < 4; k += 2)
        t[k] = _mm_add_ps(
            _mm_blend_ps(t[k], t[k + 1], 0xC), _mm_shuffle_ps(t[k], t[k + 1], 0x4E));
    return _mm_add_ps(_mm_shuffle_ps(t[0], t[2], 0x88), _mm_shuffle_ps(t[0], t[2], 0xDD));
}
#endif

/* Score one query against one document; `at` has the pointers to both. */
LANES_INLINE void float8_score_one(const float8_scores_t *at, int query, int64_t document)
{
    float score = float8_dot(
        at->queries + query * at->width, at->documents + document * at->width, at->width);
    at->out[query * at->stride + document] = at->biases ? score + at->biases[document] : score;
}

/* Score one to three queries against four documents from `j` on. Three use all registers. */
LANES_INLINE void float8_score_four(const float8_scores_t *at, const int rows, int64_t j)
{
#ifdef __AVX2__
    const ptrdiff_t n = at->width;
    const float *queries = at->queries, *documents = at->documents + j * n;
    const float *biases = at->biases ? at->biases + j : NULL;
    float *out = at->out + j;
    __m256 s[12], first;
    __m128 own = biases ? _mm_loadu_ps(biases) : _mm_setzero_ps(), last;
    for (int k = 0; k < 4 * rows; k++)
        s[k] = _mm256_setzero_ps();
    for (ptrdiff_t i = 0; i < n; i += 8) {
        __m256 q[3];
        for (int r = 0; r < rows; r++)
            q[r] = _mm256_loadu_ps(queries + r * n + i);
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++) {
            __m256 document = _mm256_loadu_ps(documents + k * n + i);
            /* The compiler would load it again for each query. */
            __asm__("" : "+x"(document));
#pragma GCC unroll 3
            for (int r = 0; r < rows; r++)
                s[4 * r + k] = _mm256_add_ps(s[4 * r + k], _mm256_mul_ps(q[r], document));
        }
    }
    if (rows > 1) {
        first = float8_sum_eight(s);
        if (biases)
            first = _mm256_add_ps(first, _mm256_set_m128(own, own));
        _mm_storeu_ps(out, _mm256_castps256_ps128(first));
        _mm_storeu_ps(out + at->stride, _mm256_extractf128_ps(first, 1));
    }
    if (rows % 2) {
        last = float8_sum_four(s + 4 * (rows - 1));
        _mm_storeu_ps(out + (rows - 1) * at->stride, biases ? _mm_add_ps(last, own) : last);
    }
#else
    for (int r = 0; r < rows; r++)
        for (int k = 0; k < 4; k++)
            float8_score_one(at, r, j + k);
#endif
}

/* Score one to three queries against `count` documents. */
LANES_INLINE void float8_score_rows(
    float8_scores_t at, const int rows, int64_t query, int64_t count)
{
    int64_t j = 0;
    at.queries += query * at.width;
    at.out += query * at.stride;
    for (; j + 4 <= count; j += 4)
        float8_score_four(&at, rows, j);
    for (; j < count; j++)
        for (int r = 0; r < rows; r++)
            float8_score_one(&at, r, j);
}

/* Score queries first to last against the first `count` documents. */
static inline void float8_score_tile(
    const float8_scores_t *at, int64_t first, int64_t last, int64_t count)
{
    for (; first + 3 <= last; first += 3)
        float8_score_rows(*at, 3, first, count);
    if (last - first == 2)
        float8_score_rows(*at, 2, first, count);
    else if (last - first == 1)
        float8_score_rows(*at, 1, first, count);
}

#endif
