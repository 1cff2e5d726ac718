/* Half-steps of the alternating solver: "Alternating" in the kernel contract. */
#ifndef RANKING_ALTERNATING_H
#define RANKING_ALTERNATING_H

#include <stddef.h>

#include "csr.h"

typedef struct {
    float threshold, limit;
    int limited; /* a limit may be so small that it is 0 as a float */
} half_step_rule_t;

/* A half-step over dense embeddings, padded to a multiple of eight. */
typedef struct {
    csr_t matrix; /* M */
    half_step_rule_t rule;
    const float *embeddings;
    ptrdiff_t width;
    float *out;
    double *gains;
} half_step_t;

/* A half-step over sparse embeddings. */
typedef struct {
    csr_t matrix;
    half_step_rule_t rule;
    const int64_t *indptr;
    const int32_t *dimensions;
    const float *values;
    ptrdiff_t width; /* padded */
    int64_t *counts; /* by row: how many are not zero */
    double *gains;
} half_step_sparse_t;

/* Rows that were computed together. */
typedef struct {
    int32_t *dimensions;
    float *values;
    int64_t count, capacity;
} sparse_rows_t;

/* Return 0 without memory. */
int half_step(const half_step_t *task, int n_threads);

/* The number of chunks in which `half_step_sparse` computes the rows. */
int64_t half_step_chunks(int64_t n_rows, int n_threads);

/* Fill `chunks`, which are zeros before; free each with `sparse_rows_free`. */
int half_step_sparse(const half_step_sparse_t *task, sparse_rows_t *chunks, int n_threads);

/* Copy the chunks one after the other, and free each. */
void sparse_rows_join(
    sparse_rows_t *chunks, int64_t n_chunks, int32_t *dimensions, float *values, int n_threads);

void sparse_rows_free(sparse_rows_t *rows);

/* The squared error of all pairs: steps of conjugate gradients on each row. */
typedef struct {
    csr_t matrix;
    const float *embeddings, *gram, *ridges;
    ptrdiff_t width;
    float observed, unobserved;
    int64_t steps;
    float *out; /* read and written */
    double *gains;
} squared_step_t;

/* Return 0 without memory. */
int squared_half_step(const squared_step_t *task, int n_threads);

#endif
