/* Scores of embeddings, and the k best documents of each query. */
#ifndef RANKING_TOP_K_H
#define RANKING_TOP_K_H

#include <stddef.h>
#include <stdint.h>

/* Embeddings with rows of `width` floats, and a bias per document (or NULL). */
typedef struct {
    const float *queries, *documents, *biases;
    int64_t n_queries, n_documents;
    ptrdiff_t width;
} embedding_pair_t;

typedef struct {
    embedding_pair_t pair;
    const int64_t *excluded_ptr, *excluded; /* per query, sorted */
    int64_t k;
    int64_t *documents; /* out, best first; -1 where there is none */
    float *scores; /* out */
} top_k_t;

/* Score all queries against all documents. */
void score_all(const embedding_pair_t *pair, float *out, int n_threads);

/* Select the best documents; NaN scores are never selected. Return 0 without memory. */
int select_top_k(const top_k_t *task, int n_threads);

#endif
