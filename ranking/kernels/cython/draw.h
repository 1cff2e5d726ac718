/* Tuples by counter: see "Random numbers" and "Bilinear" in ranking/kernels/contract.py.
 *
 * A tuple is drawn piece by piece, as whoever searches it may need only its first negatives.
 */
#ifndef RANKING_DRAW_H
#define RANKING_DRAW_H

#include <stddef.h>
#include <stdint.h>

#include "lanes.h"

#define DRAW_STRIP 32 /* tuples that are drawn at a time */

/* A guide to numbers that rise; see below. */
typedef struct {
    uint32_t *rising, *starts;
} draw_guide_t;

/* The fields of `MatchLists`; arrays that are not there are NULL. */
typedef struct {
    const int64_t *queries, *query_sums, *list_of, *list_ptr, *members, *member_sums, *itself;
    const float *weights;
    int64_t n_queries, n_documents, n_lists;
    int any_other;
    /* Guides to where a number stands among the members of a list, and among the queries' sums. */
    draw_guide_t member_guide, query_guide;
} draw_lists_t;

/* A tuple in the making. It must not be moved in memory once it has been barred. */
typedef struct {
    uint64_t key;
    int64_t query, list, start, size, itself;
    int64_t rest; /* what was dealt for the first positive, or -1 if it is to be drawn */
    const int64_t *barred; /* documents that are no negatives; they rise */
    int64_t n_barred;
    int64_t few[2];
} draw_t;

LANES_INLINE uint64_t draw_bits(uint64_t seed, uint64_t k)
{
    uint64_t z = seed + (k + 1) * UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

LANES_INLINE int64_t draw_below(uint64_t key, uint64_t k, int64_t bound)
{
    return (int64_t)(((draw_bits(key, k) >> 32) * (uint64_t)bound) >> 32);
}

/* How many of rising numbers, each less `less` times its place, are not above the bound. The
 * loop has no branch that depends on them, as nobody could predict it. */
LANES_INLINE int64_t draw_count(const int64_t *rising, int64_t n, int64_t bound, const int less)
{
    int64_t base = 0;
    if (n == 0)
        return 0;
    while (n > 1) {
        int64_t half = n >> 1, at = base + half - 1;
        base = rising[at] - less * at <= bound ? base + half : base;
        n -= half;
    }
    return base + (rising[base] - less * base <= bound);
}

/* --- guides --------------------------------------------------------------------------------- */

/* A number below a bound is made of 32 bits, and rises with them. So all numbers whose bits fall
 * into one of some equal parts have their counts between two numbers, which a guide holds: a part
 * for every four of what is counted, which is copied as short as it can be. So a count looks at
 * two places in memory, and both can be asked for long before. */
LANES_INLINE int64_t draw_parts(int64_t n)
{
    return (n >> 2) + 1;
}

/* Where the starts are for list l, if so many numbers are in the lists before. */
LANES_INLINE int64_t draw_guide_start(int64_t before, int64_t l)
{
    return (before >> 2) + 2 * l;
}

LANES_INLINE int64_t draw_part(uint64_t bits, int64_t parts)
{
    return (int64_t)((bits * (uint64_t)parts) >> 32);
}

/* Fill a guide to counts of numbers below the bound, among numbers that rise, each less `less`
 * times its place. */
static inline void draw_fill_guide(
    const int64_t *rising, int64_t n, int64_t bound, const int less, uint32_t *to,
    uint32_t *starts)
{
    int64_t parts = draw_parts(n), count = 0;
    for (int64_t i = 0; i < n; i++)
        to[i] = (uint32_t)(rising[i] - less * i);
    for (int64_t part = 0; part < parts; part++) {
        uint64_t bits = (((uint64_t)part << 32) + (uint64_t)parts - 1) / (uint64_t)parts;
        uint32_t number = (uint32_t)((bits * (uint64_t)bound) >> 32);
        while (count < n && to[count] <= number)
            count++;
        starts[part] = (uint32_t)count;
    }
    starts[parts] = (uint32_t)n;
}

/* One thread's part of the guides. */
static inline void draw_fill_guides(draw_lists_t *lists, int turn, int crew)
{
    int64_t first = lists->n_lists * turn / crew, last = lists->n_lists * (turn + 1) / crew;
    const draw_guide_t *members = &lists->member_guide, *queries = &lists->query_guide;
    for (int64_t l = first; members->starts && l < last; l++) {
        int64_t start = lists->list_ptr[l], n = lists->list_ptr[l + 1] - start;
        draw_fill_guide(
            lists->members + start, n, lists->n_documents - n, 1, members->rising + start,
            members->starts + draw_guide_start(start, l));
    }
    if (queries->starts && turn == crew - 1)
        draw_fill_guide(
            lists->query_sums, lists->n_queries, lists->query_sums[lists->n_queries - 1], 0,
            queries->rising, queries->starts);
}

/* How many of eight numbers, of which the first n count, are not above the bound. */
LANES_INLINE int64_t draw_count_eight(const uint32_t *rising, int64_t n, uint32_t bound)
{
#ifdef __AVX2__
    __m256i most = _mm256_set1_epi32((int)bound);
    __m256i own = _mm256_loadu_si256((const __m256i *)rising);
    __m256i holds = _mm256_cmpeq_epi32(_mm256_max_epu32(own, most), most);
    unsigned mask = (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(holds));
    return __builtin_popcount(n < 8 ? mask & ((1u << n) - 1) : mask);
#else
    int64_t count = 0;
    for (int64_t i = 0; i < 8; i++)
        count += (i < n) & (rising[i] <= bound);
    return count;
#endif
}

/* Numbers that are counted side by side: each waits for memory, but not for another. */
typedef struct {
    const uint32_t *rising[DRAW_STRIP], *starts[DRAW_STRIP];
    uint32_t numbers[DRAW_STRIP];
    int64_t counts[DRAW_STRIP]; /* how many are not above the number */
} draw_counts_t;

/* Number i, from 32 bits, below a bound, among n numbers. */
LANES_INLINE void draw_set_count(
    draw_counts_t *all, int64_t i, uint64_t bits, int64_t bound, const uint32_t *rising,
    const uint32_t *starts, int64_t n)
{
    all->numbers[i] = (uint32_t)((bits * (uint64_t)bound) >> 32);
    all->rising[i] = rising;
    all->starts[i] = starts + draw_part(bits, draw_parts(n));
    __builtin_prefetch(all->starts[i]);
}

LANES_INLINE void draw_count_all(draw_counts_t *all, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        __builtin_prefetch(all->rising[i] + all->starts[i][0]);
    for (int64_t i = 0; i < n; i++) {
        int64_t count = all->starts[i][0], left = all->starts[i][1] - count;
        const uint32_t *rising = all->rising[i] + count;
        for (; left > 0; left -= 8, rising += 8)
            count += draw_count_eight(rising, left, all->numbers[i]);
        all->counts[i] = count;
    }
}

/* --- tuples --------------------------------------------------------------------------------- */

/* The number that a step is dealt: every pass over 0 .. size - 1 is a permutation of its own. */
LANES_INLINE int64_t draw_shuffled(uint64_t seed, uint64_t step, int64_t size)
{
    uint64_t key = draw_bits(seed, step / (uint64_t)size), number = step % (uint64_t)size;
    /* Half the bits of size - 1, rounded up; at least one. */
    uint64_t half = (uint64_t)(65 - __builtin_clzll((uint64_t)(size - 1) | 1)) / 2, mask;
    mask = (UINT64_C(1) << half) - 1;
    do {
        uint64_t high = number >> half, low = number & mask;
        for (uint64_t turn = 0; turn < 4; turn++) {
            uint64_t next = high ^ (draw_bits(key, turn << 32 | low) >> 32 & mask);
            high = low;
            low = next;
        }
        number = high << half | low;
    } while (number >= (uint64_t)size);
    return (int64_t)number;
}

/* 32 bits that would have been drawn for a number below a bound: what a guide is asked by. */
LANES_INLINE uint64_t draw_bits_of(int64_t number, int64_t bound)
{
    return (((uint64_t)number << 32) + (uint64_t)bound - 1) / (uint64_t)bound;
}

/* What is left of a dealt number for the positive of the query at a place. */
LANES_INLINE int64_t draw_rest(const draw_lists_t *lists, int64_t number, int64_t at)
{
    return number - (at ? lists->query_sums[at - 1] : 0);
}

/* The query at a place of `queries`. */
LANES_INLINE void draw_take(const draw_lists_t *lists, draw_t *t, int64_t at)
{
    t->query = lists->queries[at];
    t->list = lists->list_of[t->query];
    t->start = lists->list_ptr[t->list];
    t->size = lists->list_ptr[t->list + 1] - t->start;
    t->itself = lists->itself[t->query];
    t->barred = lists->members + t->start;
    t->n_barred = t->size;
}

LANES_INLINE void draw_open(const draw_lists_t *lists, uint64_t seed, uint64_t step, draw_t *t)
{
    int64_t n = lists->n_queries;
    t->key = draw_bits(seed, step);
    t->rest = -1;
    if (lists->query_sums) {
        int64_t number = draw_shuffled(seed, step, lists->query_sums[n - 1]);
        n = draw_count(lists->query_sums, n, number, 0);
        t->rest = draw_rest(lists, number, n);
    } else
        n = draw_below(t->key, 0, n);
    draw_take(lists, t, n);
}

/* The place among all members of positive k, from 1. */
LANES_INLINE int64_t draw_positive(const draw_lists_t *lists, const draw_t *t, uint64_t k)
{
    const int64_t *sums = lists->member_sums ? lists->member_sums + t->start : NULL;
    int64_t bound = sums ? sums[t->size - 1] : t->size - (t->itself >= 0);
    int64_t at = k == 1 && t->rest >= 0 ? t->rest : draw_below(t->key, k, bound);
    if (sums) {
        at = draw_count(sums, t->size, at, 0);
    } else {
        if (t->itself >= 0) {
            const int64_t *own = lists->members + t->start;
            at += at >= draw_count(own, t->size, t->itself - 1, 0);
        }
    }
    return t->start + at;
}

/* If any other document will do, only the positive is barred, and the query itself. */
LANES_INLINE void draw_bar(const draw_lists_t *lists, draw_t *t, int64_t positive)
{
    int64_t itself = t->itself;
    if (!lists->any_other)
        return;
    t->barred = t->few;
    t->n_barred = itself >= 0 && itself != positive ? 2 : 1;
    t->few[0] = t->n_barred == 2 && itself < positive ? itself : positive;
    t->few[1] = t->n_barred == 2 && itself > positive ? itself : positive;
}

/* Negative k. barred[j] - j documents before barred[j] are free: the u-th of them is u + j. */
LANES_INLINE int64_t draw_negative(const draw_lists_t *lists, const draw_t *t, uint64_t k)
{
    int64_t u = draw_below(t->key, k, lists->n_documents - t->n_barred);
    return u + draw_count(t->barred, t->n_barred, u, 1);
}

/* All of a tuple. */
static inline void draw_tuple(
    const draw_lists_t *lists, uint64_t seed, uint64_t step, int64_t positives, int64_t columns,
    int64_t *out)
{
    draw_t t;
    draw_open(lists, seed, step, &t);
    out[0] = t.query;
    for (int64_t k = 1; k <= positives; k++)
        out[k] = lists->members[draw_positive(lists, &t, (uint64_t)k)];
    draw_bar(lists, &t, out[1]);
    for (int64_t k = 1 + positives; k < columns; k++)
        out[k] = draw_negative(lists, &t, (uint64_t)k);
}

#endif
