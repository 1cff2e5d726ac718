/* A pass is a permutation; guide tables count like binary search. */
#include "check.h"
#include "sampling.h"

enum { QUERIES = 5, DOCUMENTS = 30, MEMBERS = 15 };

static const int64_t queries[QUERIES] = {0, 1, 2, 3, 4}, list_of[QUERIES] = {0, 1, 2, 3, 4};
static const int64_t member_ptr[QUERIES + 1] = {0, 3, 5, 9, 10, 15};
static const int64_t members[MEMBERS] = {1, 4, 9, 0, 29, 3, 5, 6, 28, 12, 2, 3, 4, 5, 6};
static const int64_t query_sums[QUERIES] = {3, 5, 9, 10, 15};
static const int64_t no_document[QUERIES] = {-1, -1, -1, -1, -1};

static positives_t make_positives(int with_sums)
{
    positives_t positives = {
        .queries = queries, .query_sums = with_sums ? query_sums : NULL, .list_of = list_of,
        .member_ptr = member_ptr, .members = members, .own_document = no_document,
        .n_queries = QUERIES, .n_documents = DOCUMENTS, .n_lists = QUERIES};
    return positives;
}

static void test_permutation(void)
{
    for (int64_t size = 1; size < 70; size++) {
        int seen[70] = {0};
        for (uint64_t step = 0; step < (uint64_t)size; step++)
            seen[sample_permuted(11, step, size)]++;
        for (int64_t i = 0; i < size; i++)
            CHECK(seen[i] == 1);
    }
}

static void test_guides_count_like_binary_search(void)
{
    positives_t positives = make_positives(1);
    arena_t arena = {0};
    guided_counts_t all;
    sampling_allocate_guides(&positives, &arena, 1000);
    CHECK(!arena.failed && positives.member_guide.starts && positives.query_guide.starts);
    for (int thread = 0; thread < 3; thread++)
        sampling_fill_guides(&positives, thread, 3);
    for (int64_t l = 0; l < QUERIES; l++) {
        int64_t start = member_ptr[l], n = member_ptr[l + 1] - start;
        guide_range_t among = {
            positives.member_guide.sorted + start,
            positives.member_guide.starts + guide_offset(start, l), n};
        for (uint64_t k = 0; k < 500; k++) {
            guided_set(&all, 0, random_bits(1, k) >> 32, DOCUMENTS - n, among);
            guided_count(&all, 1);
            CHECK(all.counts[0] == count_not_above(members + start, n, all.numbers[0], 1));
        }
    }
    arena_free(&arena);
}

int main(void)
{
    test_permutation();
    test_guides_count_like_binary_search();
    return 0;
}
