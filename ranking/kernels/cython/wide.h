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

#include "lanes.h"
#ifdef __SSE2__
#include <emmintrin.h>
#endif
#ifdef _OPENMP
#include <omp.h>
#endif
#if defined(__linux__)
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(_WIN32)
#include <windows.h>
#else
#include <sched.h>
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

LANES_INLINE void wide_subtract(const float *a, const float *b, ptrdiff_t n, float *out)
{
    for (ptrdiff_t i = 0; i < n; i += 8)
        wide_store(out + i, wide_load(a + i) - wide_load(b + i));
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

/* --- objects ------------------------------------------------------------------------------- */

/* A CSR matrix of any dtypes; without arrays, each object is its own feature. */
typedef struct {
    const void *indptr, *indices, *data;
    int none, wide_indices, wide_data;
} wide_objects_t;

LANES_INLINE int64_t wide_start(const wide_objects_t *of, int64_t row)
{
    return of->wide_indices ? ((const int64_t *)of->indptr)[row]
                            : ((const int32_t *)of->indptr)[row];
}

LANES_INLINE int64_t wide_index(const wide_objects_t *of, int64_t at)
{
    return of->wide_indices ? ((const int64_t *)of->indices)[at]
                            : ((const int32_t *)of->indices)[at];
}

LANES_INLINE float wide_value(const wide_objects_t *of, int64_t at)
{
    return of->wide_data ? (float)((const double *)of->data)[at] : ((const float *)of->data)[at];
}

/* A part of the sum of the features' rows, in registers: `parts` eights. */
LANES_INLINE void wide_sum(
    const wide_objects_t *of, int64_t start, int64_t stop, const float *matrix, ptrdiff_t n,
    float *out, const int parts)
{
    wide_t sums[8];
    for (int k = 0; k < parts; k++)
        sums[k] = wide_splat(0.0f);
    for (int64_t at = start; at < stop; at++) {
        const float *row = matrix + wide_index(of, at) * n;
        wide_t value = wide_splat(wide_value(of, at));
#pragma GCC unroll 8
        for (int k = 0; k < parts; k++)
            sums[k] += value * wide_load(row + 8 * k);
    }
    for (int k = 0; k < parts; k++)
        wide_store(out + 8 * k, sums[k]);
}

/* The sum, in stored order, of value * matrix[feature]. */
static inline void wide_compose(
    const wide_objects_t *of, int64_t row, const float *matrix, ptrdiff_t n, float *out)
{
    int64_t start = wide_start(of, row), stop = wide_start(of, row + 1);
    ptrdiff_t i = 0;
    for (; i + 64 <= n; i += 64)
        wide_sum(of, start, stop, matrix + i, n, out + i, 8);
    for (; i + 32 <= n; i += 32)
        wide_sum(of, start, stop, matrix + i, n, out + i, 4);
    for (; i < n; i += 8)
        wide_sum(of, start, stop, matrix + i, n, out + i, 1);
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

/* --- threads ------------------------------------------------------------------------------- */

LANES_INLINE int crew_turn(void)
{
#ifdef _OPENMP
    return omp_get_thread_num();
#else
    return 0;
#endif
}

/* How many threads there are: perhaps fewer than were asked for. */
LANES_INLINE int crew_size(void)
{
#ifdef _OPENMP
    return omp_get_num_threads();
#else
    return 1;
#endif
}

typedef struct {
    int waiting, round, asleep;
} crew_meeting_t;

/* Sleep until a round has ended; where that cannot be asked for, let others run. */
LANES_INLINE void crew_sleep(crew_meeting_t *at, int round)
{
#if defined(__linux__)
    __atomic_add_fetch(&at->asleep, 1, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, &at->round, FUTEX_WAIT_PRIVATE, round, NULL, NULL, 0);
    __atomic_sub_fetch(&at->asleep, 1, __ATOMIC_SEQ_CST);
#elif defined(_WIN32)
    (void)at, (void)round, SwitchToThread();
#else
    (void)at, (void)round, sched_yield();
#endif
}

LANES_INLINE void crew_wake(crew_meeting_t *at)
{
#if defined(__linux__)
    if (__atomic_load_n(&at->asleep, __ATOMIC_SEQ_CST))
        syscall(SYS_futex, &at->round, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
#else
    (void)at;
#endif
}

/* Wait for all of a crew. Blocks are so short that to sleep and wake may take as long as the work;
 * so threads look for a while first. They must sleep at last: beside other busy processes, the
 * one that is waited for may need this one's processor. */
static inline void crew_meet(crew_meeting_t *at, int crew)
{
    int round, looks = 0;
    if (crew == 1)
        return;
    round = __atomic_load_n(&at->round, __ATOMIC_ACQUIRE);
    if (__atomic_add_fetch(&at->waiting, 1, __ATOMIC_ACQ_REL) == crew) {
        __atomic_store_n(&at->waiting, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&at->round, round + 1, __ATOMIC_SEQ_CST);
        crew_wake(at);
        return;
    }
    while (__atomic_load_n(&at->round, __ATOMIC_ACQUIRE) == round) {
        if (++looks > 500)
            crew_sleep(at, round);
#ifdef __SSE2__
        else
            _mm_pause();
#endif
    }
}

#endif
