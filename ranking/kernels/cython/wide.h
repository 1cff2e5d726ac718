/* Eight floats that move together: the vectors of "Factored" in ranking/kernels/contract.py.
 *
 * As in lanes.h these are vector types of the compiler, and each float has the arithmetic of a
 * plain one. Vectors are padded to whole eights, so no loop has a rest.
 */
#ifndef RANKING_WIDE_H
#define RANKING_WIDE_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "lanes.h"
#ifdef __SSE2__
#include <emmintrin.h>
#endif

typedef float wide_t __attribute__((vector_size(32)));
typedef float wide_memory_t __attribute__((vector_size(32), aligned(4), may_alias));

LANES_INLINE wide_t wide_load(const float *from)
{
    return *(const wide_memory_t *)from;
}

LANES_INLINE void wide_store(float *to, wide_t v)
{
    *(wide_memory_t *)to = v;
}

/* Ask for a vector that will be read soon. */
LANES_INLINE void wide_ask(const float *from, ptrdiff_t n)
{
    for (ptrdiff_t i = 0; i < n; i += 16)
        __builtin_prefetch(from + i);
}

/* Ask for a vector that will be changed soon: others' copies of it end. */
LANES_INLINE void wide_ask_to_write(const float *from, ptrdiff_t n)
{
    for (ptrdiff_t i = 0; i < n; i += 16)
        __builtin_prefetch(from + i, 1);
}

LANES_INLINE wide_t wide_splat(float v)
{
    return (wide_t){v, v, v, v, v, v, v, v};
}

LANES_INLINE wide_t wide_sqrt(wide_t v)
{
#if defined(__AVX2__)
    return _mm256_sqrt_ps(v);
#elif defined(__SSE2__)
    float part[8];
    wide_store(part, v);
    _mm_storeu_ps(part, _mm_sqrt_ps(_mm_loadu_ps(part)));
    _mm_storeu_ps(part + 4, _mm_sqrt_ps(_mm_loadu_ps(part + 4)));
    return wide_load(part);
#else
    wide_t out;
    for (int i = 0; i < 8; i++)
        out[i] = sqrtf(v[i]);
    return out;
#endif
}

/* Add the partial sums. */
LANES_INLINE float wide_fold(wide_t v)
{
#ifdef __AVX2__
    __m128 half = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    half = _mm_add_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
#else
    return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
#endif
}

LANES_INLINE float wide_dot(const float *a, const float *b, ptrdiff_t n)
{
    wide_t sums = wide_splat(0.0f);
    for (ptrdiff_t i = 0; i < n; i += 8)
        sums += wide_load(a + i) * wide_load(b + i);
    return wide_fold(sums);
}

LANES_INLINE void wide_scale(float *a, float by, ptrdiff_t n)
{
    for (ptrdiff_t i = 0; i < n; i += 8)
        wide_store(a + i, wide_load(a + i) * wide_splat(by));
}

/* p -= c x */
LANES_INLINE void wide_step(float *p, const float *x, float c, ptrdiff_t n)
{
    for (ptrdiff_t i = 0; i < n; i += 8)
        wide_store(p + i, wide_load(p + i) - wide_splat(c) * wide_load(x + i));
}

/* y = c x; squares += y y; p -= rate y / sqrt(squares) */
LANES_INLINE void wide_adagrad(
    float *p, float *squares, const float *x, float c, float rate, ptrdiff_t n)
{
    for (ptrdiff_t i = 0; i < n; i += 8) {
        wide_t y = wide_splat(c) * wide_load(x + i);
        wide_t sums = wide_load(squares + i) + y * y;
        wide_store(squares + i, sums);
        wide_store(p + i, wide_load(p + i) - (wide_splat(rate) * y) / wide_sqrt(sums));
    }
}

/* p -= (rate x y) / sqrt(g), with g += (x x) q: how a row takes gradients that were summed up. */
LANES_INLINE void wide_take_adagrad(
    float *p, float *g, const float *y, const float *q, float x, float rate, ptrdiff_t n)
{
    for (ptrdiff_t i = 0; i < n; i += 8) {
        wide_t own = wide_splat(x) * wide_load(y + i);
        wide_t sums = wide_load(g + i) + wide_splat(x * x) * wide_load(q + i);
        wide_store(g + i, sums);
        wide_store(p + i, wide_load(p + i) - (wide_splat(rate) * own) / wide_sqrt(sums));
    }
}

/* to += c x, and squares += (c x) (c x) */
LANES_INLINE void wide_gather(float *to, float *squares, const float *x, float c, ptrdiff_t n)
{
    for (ptrdiff_t i = 0; i < n; i += 8) {
        wide_t y = wide_splat(c) * wide_load(x + i);
        wide_store(to + i, wide_load(to + i) + y);
        wide_store(squares + i, wide_load(squares + i) + y * y);
    }
}

/* to += c x */
LANES_INLINE void wide_add(float *to, const float *x, float c, ptrdiff_t n)
{
    for (ptrdiff_t i = 0; i < n; i += 8)
        wide_store(to + i, wide_load(to + i) + wide_splat(c) * wide_load(x + i));
}

/* out = a x + b y */
LANES_INLINE void wide_mix(
    float *out, const float *x, float a, const float *y, float b, ptrdiff_t n)
{
    for (ptrdiff_t i = 0; i < n; i += 8)
        wide_store(
            out + i,
            wide_splat(a) * wide_load(x + i) + wide_splat(b) * wide_load(y + i));
}

/* Start sums: -0 is what changes nothing that is added to it, not even the sign of a zero. */
LANES_INLINE void wide_empty(float *out, ptrdiff_t n)
{
    for (ptrdiff_t i = 0; i < n; i += 8)
        wide_store(out + i, wide_splat(-0.0f));
}

/* --- scores -------------------------------------------------------------------------------- */

#ifdef __AVX2__
/* Eight times eight partial sums become eight scores: halves of k and k + 4 are added side by
 * side; then fours become twos, and twos ones. One of two that are added stays where it is, as
 * processors blend faster than they move. */
LANES_INLINE __m256 wide_fold_eight(const __m256 *s)
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

/* The same of four. */
LANES_INLINE __m128 wide_fold_four(const __m256 *s)
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

/* One to three queries against four documents; queries, and documents, lie one after the other.
 * Three take all registers there are. */
LANES_INLINE void wide_score_four(
    const float *queries, const int rows, const float *documents, ptrdiff_t n,
    const float *biases, float *out, int64_t stride)
{
#ifdef __AVX2__
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
        first = wide_fold_eight(s);
        if (biases)
            first = _mm256_add_ps(first, _mm256_set_m128(own, own));
        _mm_storeu_ps(out, _mm256_castps256_ps128(first));
        _mm_storeu_ps(out + stride, _mm256_extractf128_ps(first, 1));
    }
    if (rows % 2) {
        last = wide_fold_four(s + 4 * (rows - 1));
        _mm_storeu_ps(out + (rows - 1) * stride, biases ? _mm_add_ps(last, own) : last);
    }
#else
    for (int r = 0; r < rows; r++)
        for (int k = 0; k < 4; k++) {
            float score = wide_dot(queries + r * n, documents + k * n, n);
            out[r * stride + k] = biases ? score + biases[k] : score;
        }
#endif
}

/* One to three queries against `count` documents. */
LANES_INLINE void wide_score_rows(
    const float *queries, const int rows, const float *documents, int64_t count, ptrdiff_t n,
    const float *biases, float *out, int64_t stride)
{
    int64_t j = 0;
    for (; j + 4 <= count; j += 4)
        wide_score_four(
            queries, rows, documents + j * n, n, biases ? biases + j : NULL, out + j, stride);
    for (; j < count; j++)
        for (int r = 0; r < rows; r++) {
            float score = wide_dot(queries + r * n, documents + j * n, n);
            out[r * stride + j] = biases ? score + biases[j] : score;
        }
}

/* Queries first to last against `count` documents; out has `stride` columns. */
static inline void wide_score_tile(
    const float *queries, int64_t first, int64_t last, const float *documents, int64_t count,
    ptrdiff_t n, const float *biases, float *out, int64_t stride)
{
    int64_t i = first;
    for (; i + 3 <= last; i += 3)
        wide_score_rows(
            queries + i * n, 3, documents, count, n, biases, out + i * stride, stride);
    if (last - i == 2)
        wide_score_rows(
            queries + i * n, 2, documents, count, n, biases, out + i * stride, stride);
    else if (last - i == 1)
        wide_score_rows(
            queries + i * n, 1, documents, count, n, biases, out + i * stride, stride);
}

#endif
