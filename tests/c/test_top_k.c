/* The selection equals sorting all scores; excluded documents and NaN are never selected. */
#include <math.h>

#include "check.h"
#include "float8.h"
#include "random.h"
#include "top_k.h"

enum { QUERIES = 150, DOCUMENTS = 203, UNSCORED = 201, WIDTH = 16, MOST = 210 };

static float queries[QUERIES * WIDTH], documents[DOCUMENTS * WIDTH], biases[DOCUMENTS];
static float scores[QUERIES * DOCUMENTS], top_scores[QUERIES * MOST];
static int64_t top_documents[QUERIES * MOST], excluded[2 * QUERIES], excluded_ptr[QUERIES + 1];

static void prepare(void)
{
    for (int i = 0; i < QUERIES * WIDTH; i++)
        queries[i] = (float)(random_below(1, (uint64_t)i, 5) - 2); /* few values: many ties */
    for (int i = 0; i < DOCUMENTS * WIDTH; i++)
        documents[i] = (float)(random_below(2, (uint64_t)i, 3) - 1);
    for (int i = 0; i < DOCUMENTS; i++)
        biases[i] = (float)random_below(3, (uint64_t)i, 2);
    documents[UNSCORED * WIDTH] = NAN;
    for (int i = 0; i < QUERIES; i++) {
        excluded_ptr[i + 1] = 2 * (i + 1);
        excluded[2 * i] = i % 100;
        excluded[2 * i + 1] = 100 + i % 100;
    }
}

/* Count the documents that may be selected and are better. */
static int rank_of(int query, int document)
{
    const float *row = scores + query * DOCUMENTS;
    int rank = 0;
    for (int other = 0; other < DOCUMENTS; other++) {
        int is_excluded = other == query % 100 || other == 100 + query % 100;
        rank += !is_excluded && (row[other] > row[document]
                                 || (row[other] == row[document] && other < document));
    }
    return rank;
}

static void test_selection(int64_t k, int n_threads)
{
    embedding_pair_t pair = {queries, documents, biases, QUERIES, DOCUMENTS, WIDTH};
    top_k_t task = {pair, excluded_ptr, excluded, k, top_documents, top_scores};
    CHECK(select_top_k(&task, n_threads));
    for (int q = 0; q < QUERIES; q++)
        for (int64_t i = 0; i < k; i++) {
            int64_t document = top_documents[q * k + i];
            float score = top_scores[q * k + i];
            if (i >= DOCUMENTS - 3) { /* two are excluded, and one has no score */
                CHECK(document == -1 && score == -INFINITY);
                continue;
            }
            CHECK(document != q % 100 && document != 100 + q % 100 && document != UNSCORED);
            CHECK(score == scores[q * DOCUMENTS + document]);
            CHECK(rank_of(q, (int)document) == i);
        }
}

static void test_scores(void)
{
    embedding_pair_t pair = {queries, documents, biases, QUERIES, DOCUMENTS, WIDTH};
    score_all(&pair, scores, 2);
    for (int q = 0; q < QUERIES; q++)
        for (int d = 0; d < DOCUMENTS; d++) {
            float expected = float8_dot(queries + q * WIDTH, documents + d * WIDTH, WIDTH);
            if (d != UNSCORED)
                CHECK(scores[q * DOCUMENTS + d] == expected + biases[d]);
        }
}

int main(void)
{
    prepare();
    test_scores();
    test_selection(1, 1);
    test_selection(10, 2);
    test_selection(100, 3);
    test_selection(MOST, 2);
    return 0;
}
