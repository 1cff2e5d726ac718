#include "sampling.h"

/* Numbers, and ranges of their guide table, to fill. */
typedef struct {
    const int64_t *sorted;
    int64_t n, bound;
    uint32_t *copy, *starts;
} guide_part_t;

/* Fill a guide table for numbers below the bound; each number loses `less` times its index. */
static void fill_guide(guide_part_t part, const int less)
{
    int64_t ranges = guide_ranges(part.n), count = 0;
    for (int64_t i = 0; i < part.n; i++)
        part.copy[i] = (uint32_t)(part.sorted[i] - less * i);
    for (int64_t range = 0; range < ranges; range++) {
        uint64_t bits = (((uint64_t)range << 32) + (uint64_t)ranges - 1) / (uint64_t)ranges;
        uint32_t number = (uint32_t)((bits * (uint64_t)part.bound) >> 32);
        while (count < part.n && part.copy[count] <= number)
            count++;
        part.starts[range] = (uint32_t)count;
    }
    part.starts[ranges] = (uint32_t)part.n;
}

void sampling_fill_guides(positives_t *positives, int thread, int n_threads)
{
    int64_t first = positives->n_lists * thread / n_threads;
    int64_t last = positives->n_lists * (thread + 1) / n_threads, n = positives->n_queries;
    const guide_table_t *members = &positives->member_guide, *queries = &positives->query_guide;
    for (int64_t l = first; members->starts && l < last; l++) {
        int64_t start = positives->member_ptr[l], size = positives->member_ptr[l + 1] - start;
        guide_part_t part = {
            positives->members + start, size, positives->n_documents - size,
            members->sorted + start, members->starts + guide_offset(start, l)};
        fill_guide(part, 1);
    }
    if (queries->starts && thread == n_threads - 1) {
        guide_part_t part = {
            positives->query_sums, n, positives->query_sums[n - 1], queries->sorted,
            queries->starts};
        fill_guide(part, 0);
    }
}

/* Eight numbers at the end are read but not counted. */
static void allocate_guide(guide_table_t *guide, arena_t *arena, int64_t n, int64_t n_starts)
{
    guide->sorted = ARENA_ALLOC(arena, n + 8, uint32_t);
    guide->starts = ARENA_ALLOC(arena, n_starts, uint32_t);
}

void sampling_allocate_guides(positives_t *positives, arena_t *arena, int64_t n_steps)
{
    int64_t n_members = positives->member_ptr[positives->n_lists], n = positives->n_queries;
    if (!positives->any_negative && n_steps >= n_members / 4)
        allocate_guide(
            &positives->member_guide, arena, n_members,
            guide_offset(n_members, positives->n_lists));
    if (positives->query_sums && n_steps >= n / 4)
        allocate_guide(&positives->query_guide, arena, n, guide_ranges(n) + 1);
}

void sample_triplet(
    const positives_t *positives, uint64_t seed, uint64_t step, int64_t n_positives,
    int64_t columns, int64_t *out)
{
    sample_t sample;
    sample_query(positives, seed, step, &sample);
    out[0] = sample.query;
    for (int64_t k = 1; k <= n_positives; k++)
        out[k] = positives->members[sample_positive(positives, &sample, (uint64_t)k)];
    sample_exclude(positives, &sample, out[1]);
    for (int64_t k = 1 + n_positives; k < columns; k++)
        out[k] = sample_negative(positives, &sample, (uint64_t)k);
}
