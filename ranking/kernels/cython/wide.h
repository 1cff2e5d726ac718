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

/* Two dot products at a time, as one alone waits for its own additions. */
LANES_INLINE void wide_dot_two(
    const float *a, const float *b, const float *c, ptrdiff_t n, float *ab, float *ac)
{
    wide_t first = wide_splat(0.0f), second = wide_splat(0.0f);
    for (ptrdiff_t i = 0; i < n; i += 8) {
        wide_t own = wide_load(a + i);
        first += own * wide_load(b + i);
        second += own * wide_load(c + i);
    }
    *ab = wide_fold(first);
    *ac = wide_fold(second);
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

/* Two queries against four documents, which lie one after the other. */
LANES_INLINE void wide_score_eight(
    const float *one, const float *other, const float *documents, ptrdiff_t n,
    const float *biases, float *to_one, float *to_other)
{
#ifdef __AVX2__
    __m256 s[8];
    for (int k = 0; k < 8; k++)
        s[k] = _mm256_setzero_ps();
    for (ptrdiff_t i = 0; i < n; i += 8) {
        __m256 a = _mm256_loadu_ps(one + i), b = _mm256_loadu_ps(other + i);
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++) {
            __m256 document = _mm256_loadu_ps(documents + k * n + i);
            /* The compiler would load it twice, and loads are what there are most of. */
            __asm__("" : "+x"(document));
            s[k] = _mm256_add_ps(s[k], _mm256_mul_ps(a, document));
            s[k + 4] = _mm256_add_ps(s[k + 4], _mm256_mul_ps(b, document));
        }
    }
    /* Halves of k and k + 4 are added side by side; then fours become twos, and twos ones. */
    for (int k = 0; k < 4; k++)
        s[k] = _mm256_add_ps(
            _mm256_permute2f128_ps(s[k], s[k + 4], 0x20),
            _mm256_permute2f128_ps(s[k], s[k + 4], 0x31));
    for (int k = 0; k < 4; k += 2)
        s[k] = _mm256_add_ps(
            _mm256_shuffle_ps(s[k], s[k + 1], 0x44), _mm256_shuffle_ps(s[k], s[k + 1], 0xEE));
    s[0] = _mm256_add_ps(
        _mm256_shuffle_ps(s[0], s[2], 0x88), _mm256_shuffle_ps(s[0], s[2], 0xDD));
    if (biases)
        s[0] = _mm256_add_ps(s[0], _mm256_broadcast_ps((const __m128 *)biases));
    _mm_storeu_ps(to_one, _mm256_castps256_ps128(s[0]));
    _mm_storeu_ps(to_other, _mm256_extractf128_ps(s[0], 1));
#else
    for (int k = 0; k < 4; k++) {
        float a, b;
        wide_dot_two(documents + k * n, one, other, n, &a, &b);
        to_one[k] = biases ? a + biases[k] : a;
        to_other[k] = biases ? b + biases[k] : b;
    }
#endif
}

/* Queries first to last against `count` documents; out has `stride` columns. */
static inline void wide_score_tile(
    const float *queries, int64_t first, int64_t last, const float *documents, int64_t count,
    ptrdiff_t n, const float *biases, float *out, int64_t stride)
{
    for (int64_t i = first; i < last; i += 2) {
        /* A last one without another is scored twice. */
        int64_t next = i + 1 < last ? i + 1 : i;
        const float *one = queries + i * n, *other = queries + next * n;
        float *to_one = out + i * stride, *to_other = out + next * stride;
        int64_t j = 0;
        for (; j + 4 <= count; j += 4)
            wide_score_eight(
                one, other, documents + j * n, n, biases ? biases + j : NULL, to_one + j,
                to_other + j);
        for (; j < count; j++) {
            float a, b;
            wide_dot_two(documents + j * n, one, other, n, &a, &b);
            to_one[j] = biases ? a + biases[j] : a;
            to_other[j] = biases ? b + biases[j] : b;
        }
    }
}

#endif
