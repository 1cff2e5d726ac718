/* Threads do not change the bits of training. */
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
    test_threads_do_not_change_bits();
    return 0;
}
