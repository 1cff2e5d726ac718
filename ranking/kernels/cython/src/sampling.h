/* Sampling of triplets (query, positive, negative) by counter: see "Sampling" in the contract.
 *
 * A triplet is sampled piece by piece, because a search may need only its first negatives.
 */
#ifndef RANKING_SAMPLING_H
#define RANKING_SAMPLING_H

#include <stddef.h>
#include <stdint.h>

#include "arena.h"
#include "random.h"

enum { SAMPLING_BATCH = 32 }; /* triplets that are sampled together */

/* A guide table: finds how many sorted numbers are not above a random one. See below. */
typedef struct {
    uint32_t *sorted, *starts;
} guide_table_t;

/* The positives of each query; optional arrays may be NULL. */
typedef struct {
    const int64_t *queries, *query_sums, *list_of;
    const int64_t *member_ptr, *members, *member_sums, *own_document;
    const float *member_weights;
    int64_t n_queries, n_documents, n_lists;
    int any_negative; /* positives other than the sampled one may be negatives */
    guide_table_t member_guide, query_guide;
} positives_t;

/* A triplet that is being sampled. Do not move it once `sample_exclude` was called. */
typedef struct {
    uint64_t key;
    int64_t query, list, start, size, own_document;
    int64_t remainder; /* selects the first positive, or -1 if that is sampled */
    const int64_t *excluded; /* documents that are not negatives, sorted */
    int64_t n_excluded;
    int64_t few[2];
} sample_t;

/* Sample one triplet (with further positives and negatives, if there are more columns). */
void sample_triplet(
    const positives_t *positives, uint64_t seed, uint64_t step, int64_t n_positives,
    int64_t columns, int64_t *out);

/* Allocate the guide tables that pay off for so many steps. */
void sampling_allocate_guides(positives_t *positives, arena_t *arena, int64_t n_steps);

/* Fill one thread's part of the guide tables. */
void sampling_fill_guides(positives_t *positives, int thread, int n_threads);

/* Count the sorted numbers, each minus `less` times its index, that are not above the bound. The
 * loop has no branch that depends on them, as it could not be predicted. */
LANES_INLINE int64_t count_not_above(
    const int64_t *sorted, int64_t n, int64_t bound, const int less)
{
    int64_t base = 0;
    if (n == 0)
        return 0;
    while (n > 1) {
        int64_t half = n >> 1, at = base + half - 1;
        base = sorted[at] - less * at <= bound ? base + half : base;
        n -= half;
    }
    return base + (sorted[base] - less * base <= bound);
}

/* --- guide tables --------------------------------------------------------------------------- */

/* A random number below a bound is computed from 32 bits and grows with them. For equal ranges of
 * these bits the table holds between which numbers the count is; there is one range for every four
 * numbers. The numbers are copied as 32-bit integers. So a count reads two places in memory, and
 * both can be prefetched early. */
LANES_INLINE int64_t guide_ranges(int64_t n)
{
    return (n >> 2) + 1;
}

/* Where the starts of list l begin, if the lists before it have so many members. */
LANES_INLINE int64_t guide_offset(int64_t members_before, int64_t l)
{
    return (members_before >> 2) + 2 * l;
}

/* Count how many of eight numbers, of which the first n >= 0 are valid, are not above the bound. */
LANES_INLINE int64_t count_not_above_eight(const uint32_t *sorted, int64_t n, uint32_t bound)
{
#ifdef __AVX2__
    __m256i most = _mm256_set1_epi32((int)bound);
    __m256i own = _mm256_loadu_si256((const __m256i *)sorted);
    __m256i holds = _mm256_cmpeq_epi32(_mm256_max_epu32(own, most), most);
    unsigned mask = (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(holds));
    return __builtin_popcount(mask & ((1u << (n < 8 ? n : 8)) - 1));
#else
    int64_t count = 0;
    for (int64_t i = 0; i < 8; i++)
        count += (i < n) & (sorted[i] <= bound);
    return count;
#endif
}

/* Counts that are computed side by side, so that their cache misses overlap. */
typedef struct {
    const uint32_t *sorted[SAMPLING_BATCH], *starts[SAMPLING_BATCH];
    uint32_t numbers[SAMPLING_BATCH];
    int64_t counts[SAMPLING_BATCH]; /* how many are not above the number */
} guided_counts_t;

/* The sorted numbers of one count, and their part of a guide table. */
typedef struct {
    const uint32_t *sorted, *starts;
    int64_t n;
} guide_range_t;

/* Set number i, which 32 bits select below a bound. */
LANES_INLINE void guided_set(
    guided_counts_t *all, int64_t i, uint64_t bits, int64_t bound, guide_range_t among)
{
    all->numbers[i] = (uint32_t)((bits * (uint64_t)bound) >> 32);
    all->sorted[i] = among.sorted;
    all->starts[i]
        = among.starts + (int64_t)((bits * (uint64_t)guide_ranges(among.n)) >> 32);
    __builtin_prefetch(all->starts[i]);
}

LANES_INLINE void guided_count(guided_counts_t *all, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        __builtin_prefetch(all->sorted[i] + all->starts[i][0]);
    for (int64_t i = 0; i < n; i++) {
        int64_t count = all->starts[i][0], left = all->starts[i][1] - count;
        const uint32_t *sorted = all->sorted[i] + count;
        /* Eight are mostly enough. Whether there are any could not be predicted. */
        do {
            count += count_not_above_eight(sorted, left, all->numbers[i]);
            sorted += 8;
            left -= 8;
        } while (left > 0);
        all->counts[i] = count;
    }
}

/* --- pieces of a triplet -------------------------------------------------------------------- */

/* The number of a step in a random permutation of 0 .. size - 1: a Feistel network with cycle
 * walking. Each pass of `size` steps has its own permutation. */
LANES_INLINE int64_t sample_permuted(uint64_t seed, uint64_t step, int64_t size)
{
    uint64_t key = random_bits(seed, step / (uint64_t)size), number = step % (uint64_t)size;
    /* Half the bits of size - 1, rounded up; at least one. */
    uint64_t half = (uint64_t)(65 - __builtin_clzll((uint64_t)(size - 1) | 1)) / 2, mask;
    mask = (UINT64_C(1) << half) - 1;
    do {
        uint64_t high = number >> half, low = number & mask;
        for (uint64_t round = 0; round < 4; round++) {
            uint64_t next = high ^ (random_bits(key, round << 32 | low) >> 32 & mask);
            high = low;
            low = next;
        }
        number = high << half | low;
    } while (number >= (uint64_t)size);
    return (int64_t)number;
}

/* The smallest 32 bits that select a number below a bound. */
LANES_INLINE uint64_t sample_bits_of(int64_t number, int64_t bound)
{
    return (((uint64_t)number << 32) + (uint64_t)bound - 1) / (uint64_t)bound;
}

/* What is left of a permuted number to select the positive of the query at `index`. */
LANES_INLINE int64_t sample_remainder(const positives_t *positives, int64_t number, int64_t index)
{
    return number - (index ? positives->query_sums[index - 1] : 0);
}

/* Set the query, by its index in `queries`. */
LANES_INLINE void sample_set_query(const positives_t *positives, sample_t *sample, int64_t index)
{
    sample->query = positives->queries[index];
    sample->list = positives->list_of[sample->query];
    sample->start = positives->member_ptr[sample->list];
    sample->size = positives->member_ptr[sample->list + 1] - sample->start;
    sample->own_document = positives->own_document[sample->query];
    sample->excluded = positives->members + sample->start;
    sample->n_excluded = sample->size;
}

/* Sample the query. */
LANES_INLINE void sample_query(
    const positives_t *positives, uint64_t seed, uint64_t step, sample_t *sample)
{
    int64_t n = positives->n_queries;
    sample->key = random_bits(seed, step);
    sample->remainder = -1;
    if (positives->query_sums) {
        int64_t number = sample_permuted(seed, step, positives->query_sums[n - 1]);
        n = count_not_above(positives->query_sums, n, number, 0);
        sample->remainder = sample_remainder(positives, number, n);
    } else
        n = random_below(sample->key, 0, n);
    sample_set_query(positives, sample, n);
}

/* Sample positive k (from 1); return its index among the members of all lists. */
LANES_INLINE int64_t sample_positive(
    const positives_t *positives, const sample_t *sample, uint64_t k)
{
    const int64_t *sums = positives->member_sums ? positives->member_sums + sample->start : NULL;
    int64_t bound = sums ? sums[sample->size - 1] : sample->size - (sample->own_document >= 0);
    int64_t at = k == 1 && sample->remainder >= 0 ? sample->remainder
                                                  : random_below(sample->key, k, bound);
    if (sums) {
        at = count_not_above(sums, sample->size, at, 0);
    } else if (sample->own_document >= 0) {
        const int64_t *own = positives->members + sample->start;
        at += at >= count_not_above(own, sample->size, sample->own_document - 1, 0);
    }
    return sample->start + at;
}

/* If any other document may be a negative, exclude only the positive and the own document. */
LANES_INLINE void sample_exclude(const positives_t *positives, sample_t *sample, int64_t positive)
{
    int64_t own = sample->own_document;
    if (!positives->any_negative)
        return;
    sample->excluded = sample->few;
    sample->n_excluded = own >= 0 && own != positive ? 2 : 1;
    sample->few[0] = sample->n_excluded == 2 && own < positive ? own : positive;
    sample->few[1] = sample->n_excluded == 2 && own > positive ? own : positive;
}

/* Sample negative k. Before excluded[j] there are excluded[j] - j candidates: the u-th candidate is
 * document u + j. */
LANES_INLINE int64_t sample_negative(
    const positives_t *positives, const sample_t *sample, uint64_t k)
{
    int64_t u = random_below(sample->key, k, positives->n_documents - sample->n_excluded);
    return u + count_not_above(sample->excluded, sample->n_excluded, u, 1);
}

#endif
