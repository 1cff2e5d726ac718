/* A sparse row behaves like a dense array; lazy shrinkage is the shrinkage that it stands for. */
#include "bilinear.h"
#include "check.h"
#include "random.h"
#include "sparse_row.h"

enum { COLUMNS = 600, TOUCHED = 24 };

typedef struct {
    int32_t indices[TOUCHED + 4], slots[TOUCHED + 4];
    uint32_t hashes[TOUCHED + 4];
    double values[TOUCHED + 4], v[TOUCHED + 4], before[TOUCHED + 4], after[TOUCHED + 4];
    sparse_vector_t vector;
} step_t;

/* Rising random columns below `most`. */
static void make_step(step_t *step, uint64_t seed, int32_t most)
{
    int32_t n = 0;
    for (int32_t column = 0; column < most && n < TOUCHED; column++)
        if (random_below(seed, (uint64_t)column, most) < TOUCHED) {
            step->indices[n] = column;
            step->hashes[n] = row_hash(column);
            step->values[n++] = random_uniform(seed + 1, (uint64_t)column) - 0.5;
        }
    for (int32_t i = n; i < n + 4; i++)
        step->values[i] = step->v[i] = 0.0;
    step->vector = (sparse_vector_t){n, step->indices, step->hashes, step->values};
}

static void take_step(sparse_row_t *row, step_t *step, shrinkage_t at, double factor, int is64)
{
    row_change_t change = {step->before, step->after};
    row_read(row, &step->vector, step->slots, step->v, is64);
    row_step(step->v, &step->vector, at, factor, 1, change);
    CHECK(row_write(row, COLUMNS, &step->vector, step->slots, step->v, at.threshold, is64));
}

/* The row goes from empty to a list, a table and a dense array; weights are those of an array. */
static void test_row_grows_like_an_array(int is64)
{
    sparse_row_t row = {NULL, 0, 0};
    double expected[COLUMNS] = {0.0};
    shrinkage_t none = {1.0, 0.0};
    int forms = 0;
    step_t step;
    for (uint64_t t = 0; t < 400; t++) {
        make_step(&step, 10 * t, t < 3 ? 5 : t < 100 ? 60 : COLUMNS);
        take_step(&row, &step, none, 0.25, is64);
        for (int32_t i = 0; i < step.vector.n; i++) {
            double *to = expected + step.indices[i];
            *to -= 0.25 * step.values[i];
            *to = is64 ? *to : (double)(float)*to;
        }
        forms |= row.slots == ROW_DENSE ? 4 : row.slots > ROW_BUCKET ? 2 : 1;
    }
    CHECK(forms == 7);
    for (int32_t column = 0; column < COLUMNS; column++) {
        int32_t index[1] = {column}, slot[1];
        uint32_t hash[1] = {row_hash(column)};
        double value[4] = {0.0}, v[4];
        sparse_vector_t one = {1, index, hash, value};
        row_read(&row, &one, slot, v, is64);
        CHECK(v[0] == expected[column]);
    }
    row_clear(&row);
}

static int64_t export_row(
    const sparse_row_t *row, shrinkage_t at, int32_t *columns, char *data, int is64)
{
    row_export_t to = {columns, data, 1};
    int64_t n = row_count(row, COLUMNS, at, is64);
    CHECK(row_export(row, COLUMNS, at, to, is64) == n);
    for (int64_t i = 1; i < n; i++)
        CHECK(columns[i - 1] < columns[i]);
    return n;
}

/* Rebasing, compacting and rebuilding do not change any weight. */
static void test_shrinkage_survives_maintenance(int is64, int32_t most)
{
    sparse_row_t row = {NULL, 0, 0};
    shrinkage_t at = {0.75, 0.125}, none = {1.0, 0.0};
    int32_t before[COLUMNS], after[COLUMNS];
    double old[COLUMNS], new[COLUMNS];
    int64_t n;
    step_t step;
    for (uint64_t t = 0; t < 60; t++) {
        make_step(&step, 10 * t, most);
        take_step(&row, &step, at, 0.5, is64);
    }
    n = export_row(&row, at, before, (char *)old, is64);
    CHECK(n > 10);
    row_compact(&row, COLUMNS, at.threshold, is64);
    CHECK(export_row(&row, at, after, (char *)new, is64) == n);
    CHECK(row_rebuild(&row, COLUMNS, at.threshold, 0, is64));
    CHECK(export_row(&row, at, after, (char *)new, is64) == n);
    CHECK(memcmp(old, new, (size_t)n * row_size(is64)) == 0);
    row_rebase(&row, COLUMNS, at, is64);
    CHECK(export_row(&row, none, after, (char *)new, is64) == n);
    CHECK(memcmp(before, after, (size_t)n * sizeof(int32_t)) == 0);
    CHECK(memcmp(old, new, (size_t)n * row_size(is64)) == 0);
    row_clear(&row);
}

/* A store that is trained with lazy shrinkage equals an array that is shrunk after every step. */
static void test_lazy_equals_eager(void)
{
    enum { N = 500, FEATURES = 12 };
    int64_t triplets[3 * N], negatives[N], empty[FEATURES + 1] = {0};
    int64_t indptr[FEATURES + 1], columns64[FEATURES];
    double data[FEATURES], rates[N], slopes[N], row_state[3 * FEATURES], W[FEATURES][FEATURES];
    shrinkage_state_t shrinkage = {0.0, 1.0, 0.0, 0.0};
    bilinear_store_t store = {.n_rows = FEATURES, .n_columns = FEATURES, .is64 = 1};
    bilinear_state_t state = {.indptr = empty, .row_state = row_state};
    csr_t identity = {indptr, columns64, data, FEATURES, FEATURES, 0, 1, 1};
    bilinear_task_t task = {
        .store = &store, .triplets = triplets, .n = N, .columns = 3, .learning_rates = rates,
        .prox_interval = 1.0, .l1 = 0.003, .l2 = 0.05, .grow = 1, .shrinkage = &shrinkage,
        .negatives = negatives, .slopes = slopes, .n_threads = 2};
    memset(W, 0, sizeof(W));
    for (int64_t i = 0; i < FEATURES; i++) {
        indptr[i] = columns64[i] = i;
        data[i] = row_state[3 * i] = 1.0;
        row_state[3 * i + 1] = 0.0;
        row_state[3 * i + 2] = -1.0;
    }
    indptr[FEATURES] = FEATURES;
    task.queries = task.documents = identity;
    CHECK(bilinear_open(&store, &state));
    for (int64_t t = 0; t < N; t++) {
        int64_t q = random_below(1, (uint64_t)t, FEATURES), p = random_below(2, (uint64_t)t, 6);
        triplets[3 * t] = q;
        triplets[3 * t + 1] = p;
        triplets[3 * t + 2] = negatives[t] = 6 + random_below(3, (uint64_t)t, 6);
        rates[t] = 0.1;
        slopes[t] = -random_uniform(4, (uint64_t)t);
        W[q][p] -= rates[t] * slopes[t];
        W[q][negatives[t]] += rates[t] * slopes[t];
        for (int64_t i = 0; i < FEATURES * FEATURES; i++) {
            double *w = &W[0][0] + i, left = fabs(*w) - 0.003 * 0.1;
            *w = left > 0.0 ? copysign(left / (1.0 + 0.05 * 0.1), *w) : 0.0;
        }
    }
    CHECK(bilinear_update(&task) && !store.failed);
    CHECK(shrinkage.step == N);
    for (int64_t row = 0; row < FEATURES; row++) {
        int64_t counts[FEATURES], ptr[FEATURES + 1] = {0};
        int32_t columns[FEATURES * FEATURES];
        double weights[FEATURES * FEATURES];
        row_export_t to = {columns, (char *)weights, 1};
        bilinear_counts(&store, &shrinkage, counts);
        for (int64_t i = 0; i < FEATURES; i++)
            ptr[i + 1] = ptr[i] + counts[i];
        bilinear_export(&store, &shrinkage, ptr, to);
        for (int64_t i = ptr[row]; i < ptr[row + 1]; i++)
            CHECK(fabs(weights[i] - W[row][columns[i]]) < 1e-12);
    }
    bilinear_close(&store);
}

int main(void)
{
    for (int is64 = 0; is64 < 2; is64++) {
        test_row_grows_like_an_array(is64);
        test_shrinkage_survives_maintenance(is64, 20);
        test_shrinkage_survives_maintenance(is64, 100);
        test_shrinkage_survives_maintenance(is64, COLUMNS);
    }
    test_lazy_equals_eager();
    return 0;
}
