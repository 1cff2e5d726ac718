/* Sampled triplets are valid; a pass is a permutation; guide tables count like binary search. */
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

static int is_member(int64_t query, int64_t document)
{
    for (int64_t i = member_ptr[query]; i < member_ptr[query + 1]; i++)
        if (members[i] == document)
            return 1;
    return 0;
}

static void test_triplets_are_valid(void)
{
    for (int with_sums = 0; with_sums < 2; with_sums++) {
        positives_t positives = make_positives(with_sums);
        for (uint64_t step = 0; step < 3000; step++) {
            int64_t out[4];
            sample_triplet(&positives, 7, step, 1, 4, out);
            CHECK(out[0] >= 0 && out[0] < QUERIES);
            CHECK(is_member(out[0], out[1]));
            for (int k = 2; k < 4; k++)
                CHECK(out[k] >= 0 && out[k] < DOCUMENTS && !is_member(out[0], out[k]));
        }
    }
}

static void test_a_pass_samples_each_positive_once(void)
{
    positives_t positives = make_positives(1);
    for (uint64_t pass = 0; pass < 4; pass++) {
        int times[QUERIES][DOCUMENTS] = {{0}};
        for (uint64_t step = 0; step < MEMBERS; step++) {
            int64_t out[3];
            sample_triplet(&positives, 3, pass * MEMBERS + step, 1, 3, out);
            times[out[0]][out[1]]++;
        }
        for (int64_t q = 0; q < QUERIES; q++)
            for (int64_t i = member_ptr[q]; i < member_ptr[q + 1]; i++)
                CHECK(times[q][members[i]] == 1);
    }
}

static void test_own_document_is_never_sampled(void)
{
    int64_t own[QUERIES] = {4, 29, 3, -1, 6}, out[3];
    positives_t positives = make_positives(0);
    positives.own_document = own;
    positives.any_negative = 1;
    for (uint64_t step = 0; step < 3000; step++) {
        sample_triplet(&positives, 5, step, 1, 3, out);
        CHECK(out[1] != own[out[0]] && out[2] != own[out[0]] && out[2] != out[1]);
    }
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
    test_triplets_are_valid();
    test_a_pass_samples_each_positive_once();
    test_own_document_is_never_sampled();
    test_permutation();
    test_guides_count_like_binary_search();
    return 0;
}
