/* Embeddings are sums of rows; an update is that of plain loops; threads do not change the bits. */
#include <math.h>
#include <string.h>

#include "check.h"
#include "factored.h"
#include "random.h"

enum { N_QUERIES = 20, N_DOCUMENTS = 40, WIDTH = 8, STEPS = 60 };

typedef struct {
    float U[N_QUERIES * WIDTH], V[N_DOCUMENTS * WIDTH], biases[N_DOCUMENTS];
} parameters_t;

static void fill(float *numbers, int64_t n, uint64_t seed)
{
    for (int64_t i = 0; i < n; i++)
        numbers[i] = (float)(random_uniform(seed, (uint64_t)i) - 0.5);
}

static void fill_parameters(parameters_t *p)
{
    fill(p->U, N_QUERIES * WIDTH, 1);
    fill(p->V, N_DOCUMENTS * WIDTH, 2);
    fill(p->biases, N_DOCUMENTS, 3);
}

static factored_model_t plain_model(parameters_t *p)
{
    factored_model_t model = {
        .sides = {
            {.features = {.n_rows = N_QUERIES, .identity = 1},
             .factor = {p->U, NULL, N_QUERIES}, .plain = 1},
            {.features = {.n_rows = N_DOCUMENTS, .identity = 1},
             .factor = {p->V, NULL, N_DOCUMENTS}, .biases = {p->biases, NULL, N_DOCUMENTS},
             .plain = 1}},
        .width = WIDTH, .full_width = WIDTH};
    return model;
}

/* Each query and document once, so that the order of sums does not matter. */
static void test_update_of_separate_rows(void)
{
    parameters_t p, old;
    int64_t queries[N_QUERIES], ptr[N_QUERIES + 1], documents[2 * N_QUERIES];
    float slopes[2 * N_QUERIES];
    factored_model_t model = plain_model(&p);
    factored_steps_t steps = {N_QUERIES, queries, ptr, documents, slopes};
    row_penalty_t penalty = {0.0f};
    fill_parameters(&p);
    old = p;
    for (int64_t i = 0; i < N_QUERIES; i++) {
        queries[i] = i;
        ptr[i] = 2 * i;
        documents[2 * i] = 2 * i;
        documents[2 * i + 1] = 2 * i + 1;
        slopes[2 * i] = 0.25f;
        slopes[2 * i + 1] = -0.25f;
    }
    ptr[N_QUERIES] = 2 * N_QUERIES;
    CHECK(factored_update(&model, &steps, 1.0f, penalty, 1));
    for (int64_t i = 0; i < N_QUERIES; i++) {
        for (int64_t k = 0; k < WIDTH; k++) {
            const float *u = old.U + i * WIDTH, *v = old.V + 2 * i * WIDTH;
            CHECK(p.U[i * WIDTH + k] == u[k] - (0.25f * v[k] + -0.25f * v[WIDTH + k]));
            CHECK(p.V[2 * i * WIDTH + k] == v[k] - 0.25f * u[k]);
        }
        CHECK(p.biases[2 * i] == old.biases[2 * i] - 0.25f);
    }
}

static void test_max_norm(void)
{
    parameters_t p;
    int64_t query = 3, ptr[2] = {0, 1}, document = 5;
    float slope = 100.0f, square = 0.0f;
    factored_model_t model = plain_model(&p);
    factored_steps_t steps = {1, &query, ptr, &document, &slope};
    row_penalty_t penalty = {0.5f};
    fill_parameters(&p);
    CHECK(factored_update(&model, &steps, 1.0f, penalty, 1));
    for (int64_t k = 0; k < WIDTH; k++)
        square += p.U[query * WIDTH + k] * p.U[query * WIDTH + k];
    CHECK(fabsf(square - 0.25f) < 1e-5f);
}

/* Embeddings by features, of a width that is not a multiple of eight. */
static void test_embeddings(void)
{
    enum { ROWS = 6, FEATURES = 9, ODD = 13 };
    int32_t indptr[ROWS + 1] = {0, 2, 2, 5, 6, 9, 10}, indices[10] = {0, 3, 1, 2, 8, 4, 0, 5, 7, 6};
    double data[10];
    float rows[FEATURES * ODD], out[ROWS * ODD];
    csr_t features = {indptr, indices, data, ROWS, 10, 0, 0, 1};
    embeddings_t task = {&features, rows, ODD, out};
    fill(rows, FEATURES * ODD, 5);
    for (int i = 0; i < 10; i++)
        data[i] = random_uniform(6, (uint64_t)i);
    factored_embeddings(&task, 2);
    for (int row = 0; row < ROWS; row++)
        for (int k = 0; k < ODD; k++) {
            float expected = 0.0f;
            for (int at = indptr[row]; at < indptr[row + 1]; at++)
                expected += (float)data[at] * rows[indices[at] * ODD + k];
            CHECK(out[row * ODD + k] == expected);
        }
}

/* Train by blocks; 0 features: plain rows, else one feature per three queries and documents. */
static void train(parameters_t *p, int with_features, int n_threads)
{
    int64_t triplets[STEPS * 4];
    int32_t q_ptr[N_QUERIES + 1], q_indices[N_QUERIES], d_ptr[N_DOCUMENTS + 1], d_indices[N_DOCUMENTS];
    float ones[N_DOCUMENTS], rates[STEPS], margins[STEPS], weights[STEPS], rank_weights[2] = {1, 2};
    factored_task_t task = {
        .model = plain_model(p), .n = STEPS, .batch_size = 16, .learning_rates = rates,
        .n_threads = n_threads, .margins = margins, .weights = weights,
        .ranks = {rank_weights, 2, N_DOCUMENTS}, .penalty = {1.0f},
        .source = {.triplets = triplets, .columns = 4, .n_positives = 1},
        .loss = {pairwise_slope(PAIRWISE_HINGE, NULL), NULL}};
    for (int64_t i = 0; i <= N_DOCUMENTS; i++)
        d_ptr[i] = (int32_t)i;
    for (int64_t i = 0; i <= N_QUERIES; i++)
        q_ptr[i] = (int32_t)i;
    for (int64_t i = 0; i < N_DOCUMENTS; i++) {
        d_indices[i] = (int32_t)(i / 3);
        ones[i] = 1.0f;
    }
    for (int64_t i = 0; i < N_QUERIES; i++)
        q_indices[i] = (int32_t)(i / 3);
    if (with_features) {
        factored_side_t *sides = task.model.sides;
        sides[QUERIES].features = (csr_t){q_ptr, q_indices, ones, N_QUERIES, N_QUERIES, 0, 0, 0};
        sides[DOCUMENTS].features
            = (csr_t){d_ptr, d_indices, ones, N_DOCUMENTS, N_DOCUMENTS, 0, 0, 0};
        sides[QUERIES].plain = sides[DOCUMENTS].plain = 0;
    }
    for (int64_t i = 0; i < STEPS; i++) {
        rates[i] = 0.1f;
        triplets[4 * i] = random_below(7, (uint64_t)i, N_QUERIES);
        for (int64_t k = 1; k < 4; k++)
            triplets[4 * i + k] = random_below(8, (uint64_t)(4 * i + k), N_DOCUMENTS);
    }
    fill_parameters(p);
    CHECK(factored_train(&task));
    for (int64_t i = 0; i < STEPS; i++)
        CHECK(weights[i] == (margins[i] < 1.0f ? 2.0f : 0.0f));
}

static void test_threads_do_not_change_bits(void)
{
    static parameters_t one, several;
    for (int with_features = 0; with_features < 2; with_features++) {
        train(&one, with_features, 1);
        for (int n_threads = 2; n_threads < 5; n_threads++) {
            train(&several, with_features, n_threads);
            CHECK(memcmp(&one, &several, sizeof(one)) == 0);
        }
    }
}

int main(void)
{
    test_update_of_separate_rows();
    test_max_norm();
    test_embeddings();
    test_threads_do_not_change_bits();
    return 0;
}
