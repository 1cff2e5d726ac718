/* Half-steps over dense and sparse embeddings agree with plain loops. */
#include <math.h>
#include <stdlib.h>

#include "alternating.h"
#include "check.h"
#include "random.h"

enum { ROWS = 12, COLUMNS = 10, MOST = 136 };

typedef struct {
    int32_t indptr[ROWS + 1], indices[ROWS * COLUMNS];
    float data[ROWS * COLUMNS];
    csr_t csr;
} matrix_t;

static void make_matrix(matrix_t *matrix)
{
    int32_t n = 0;
    matrix->indptr[0] = 0;
    for (int row = 0; row < ROWS; row++) {
        for (int column = 0; column < COLUMNS; column++)
            if (random_below(1, (uint64_t)(row * COLUMNS + column), ROWS) < row) {
                matrix->indices[n] = column;
                matrix->data[n] = (float)random_uniform(2, (uint64_t)n);
                n++;
            }
        matrix->indptr[row + 1] = n;
    }
    matrix->csr = (csr_t){matrix->indptr, matrix->indices, matrix->data, ROWS, n, 0, 0, 0};
}

static float soft(float omega, float threshold)
{
    float left = fabsf(omega) - threshold;
    return left > 0.0f ? copysignf(left, omega) : 0.0f;
}

static void test_half_step(int width)
{
    static matrix_t matrix;
    static float embeddings[COLUMNS * MOST], out[ROWS * MOST], values[COLUMNS * MOST];
    int64_t indptr[COLUMNS + 1] = {0}, counts[ROWS], n_chunks = half_step_chunks(ROWS, 2), n = 0;
    static int32_t dimensions[COLUMNS * MOST], joined[ROWS * MOST];
    static float joined_values[ROWS * MOST];
    double gains[ROWS], sparse_gains[ROWS];
    half_step_rule_t rule = {0.25f, 0.0f, 0};
    half_step_t dense;
    half_step_sparse_t sparse;
    sparse_rows_t *chunks = calloc((size_t)n_chunks, sizeof(sparse_rows_t));
    make_matrix(&matrix);
    for (int i = 0; i < COLUMNS * width; i++) {
        embeddings[i] = (float)random_uniform(3, (uint64_t)i) - 0.5f;
        if (embeddings[i] != 0.0f) {
            dimensions[n] = i % width;
            values[n++] = embeddings[i];
        }
        indptr[i / width + 1] = n;
    }
    dense = (half_step_t){matrix.csr, rule, embeddings, width, out, gains};
    sparse = (half_step_sparse_t){
        matrix.csr, rule, indptr, dimensions, values, width, counts, sparse_gains};
    CHECK(half_step(&dense, 2));
    CHECK(chunks && half_step_sparse(&sparse, chunks, 2));
    sparse_rows_join(chunks, n_chunks, joined, joined_values, 2);
    n = 0;
    for (int row = 0; row < ROWS; row++) {
        CHECK(gains[row] == sparse_gains[row]);
        for (int k = 0; k < width; k++) {
            float omega = 0.0f;
            for (int at = matrix.indptr[row]; at < matrix.indptr[row + 1]; at++)
                omega += matrix.data[at] * embeddings[matrix.indices[at] * width + k];
            CHECK(out[row * width + k] == soft(omega, 0.25f));
            if (out[row * width + k] != 0.0f) {
                CHECK(joined[n] == k && joined_values[n] == out[row * width + k]);
                n++;
            }
        }
    }
    for (int64_t i = 0; i < n_chunks; i++)
        sparse_rows_free(chunks + i);
    free(chunks);
}

int main(void)
{
    test_half_step(8);
    test_half_step(40);
    test_half_step(112);
    test_half_step(136);
    return 0;
}
