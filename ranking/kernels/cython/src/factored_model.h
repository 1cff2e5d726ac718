/* Embeddings of the factored model, and caches of them. */
#ifndef RANKING_FACTORED_MODEL_H
#define RANKING_FACTORED_MODEL_H

#include "factored.h"
#include "float8.h"

/* --- composition ---------------------------------------------------------------------------- */

/* Sum the features' rows in registers: `parts` vectors of eight from column `at` on. */
LANES_INLINE void compose_part(
    const embeddings_t *of, int64_t row, ptrdiff_t at, float *out, const int parts)
{
    int64_t stop = csr_start(of->features, row + 1);
    float8_t sums[8];
    for (int k = 0; k < parts; k++)
        sums[k] = float8_splat(0.0f);
    for (int64_t entry = csr_start(of->features, row); entry < stop; entry++) {
        const float *from = of->rows + csr_column(of->features, entry) * of->width + at;
        float8_t value = float8_splat(csr_value_float(of->features, entry));
#pragma GCC unroll 8
        for (int k = 0; k < parts; k++)
            sums[k] += value * float8_load(from + 8 * k);
    }
    for (int k = 0; k < parts; k++)
        float8_store(out + at + 8 * k, sums[k]);
}

/* Sum value * numbers[feature * stride] over the features of a row. */
LANES_INLINE float compose_number(
    const csr_t *features, int64_t row, const float *numbers, ptrdiff_t stride)
{
    int64_t stop = csr_start(features, row + 1);
    float total = 0.0f;
    for (int64_t entry = csr_start(features, row); entry < stop; entry++)
        total += csr_value_float(features, entry) * numbers[csr_column(features, entry) * stride];
    return total;
}

/* Compute the embedding of a row, in stored order; without features it is the row itself. */
static inline void compose(const embeddings_t *of, int64_t row, float *out)
{
    ptrdiff_t at = 0, n = of->width;
    if (of->features->identity) {
        memcpy(out, of->rows + row * n, (size_t)n * sizeof(float));
        return;
    }
    for (; at + 64 <= n; at += 64)
        compose_part(of, row, at, out, 8);
    for (; at + 32 <= n; at += 32)
        compose_part(of, row, at, out, 4);
    for (; at + 8 <= n; at += 8)
        compose_part(of, row, at, out, 1);
    for (; at < n; at++)
        out[at] = compose_number(of->features, row, of->rows + at, n);
}

/* --- caches --------------------------------------------------------------------------------- */

/* Embeddings that were composed while the parameters do not change: either those of all rows, which
 * the threads compose together, or each one when a thread first needs it. In the second case
 * threads do not share them: composing one again is as fast as fetching it from another core. */
typedef struct {
    int64_t *slots; /* by row: stamp of its composition << 32 | its slot */
    float *embeddings, *biases;
    int64_t used, stamp;
    int all;
} embedding_cache_t;

/* The caches of a thread, in cache lines of their own. */
typedef struct {
    embedding_cache_t queries, documents;
    int64_t padding[4];
} thread_caches_t;

typedef struct {
    const float *embedding;
    float bias;
} document_t;

/* Allocate a cache for blocks that read `most` rows at most, and probably all if `least` is not
 * below their number. */
static inline void cache_open(
    embedding_cache_t *cache, arena_t *arena, int64_t n_rows, int64_t least, int64_t most,
    ptrdiff_t width)
{
    int64_t capacity = most < n_rows ? most : n_rows;
    cache->all = least >= n_rows;
    cache->slots = ARENA_CALLOC(arena, n_rows, int64_t);
    cache->embeddings = ARENA_ALLOC(arena, capacity * width, float);
    cache->biases = ARENA_ALLOC(arena, capacity, float);
    if (cache->all && cache->slots)
        for (int64_t row = 0; row < n_rows; row++)
            cache->slots[row] = row; /* stamp 0, which stays valid */
}

/* Forget all embeddings, because the parameters have changed. */
LANES_INLINE void cache_invalidate(embedding_cache_t *cache, int64_t stamp)
{
    if (cache->all)
        return;
    cache->stamp = stamp;
    cache->used = 0;
}

/* Find the slot of a row; `is_new` says that its embedding has to be composed. */
LANES_INLINE int64_t cache_slot(embedding_cache_t *cache, int64_t row, int *is_new)
{
    int64_t mark = cache->slots[row];
    *is_new = mark >> 32 != cache->stamp;
    if (!*is_new)
        return (int64_t)(uint32_t)mark;
    cache->slots[row] = cache->stamp << 32 | cache->used;
    return cache->used++;
}

static inline void compose_query(
    const factored_model_t *model, const embedding_cache_t *cache, int64_t query, int64_t slot)
{
    float *out = cache->embeddings + slot * model->full_width;
    embeddings_t own = {&model->queries, model->U.rows, model->width, NULL};
    embeddings_t context = {&model->contexts, model->S.rows, model->width, NULL};
    compose(&own, query, out);
    if (model->has_contexts)
        compose(&context, query, out + model->width);
}

static inline void compose_document(
    const factored_model_t *model, const embedding_cache_t *cache, int64_t document, int64_t slot)
{
    float *out = cache->embeddings + slot * model->full_width;
    embeddings_t own = {&model->documents, model->V.rows, model->width, NULL};
    embeddings_t context = {&model->documents, model->S.rows, model->width, NULL};
    compose(&own, document, out);
    if (model->has_contexts)
        compose(&context, document, out + model->width);
    if (model->has_biases)
        cache->biases[slot] = model->documents.identity
            ? model->biases.rows[document]
            : compose_number(&model->documents, document, model->biases.rows, 1);
}

LANES_INLINE const float *query_embedding(
    const factored_model_t *model, embedding_cache_t *cache, int64_t query)
{
    int64_t slot;
    int is_new;
    if (model->plain_queries)
        return model->U.rows + query * model->width;
    slot = cache_slot(cache, query, &is_new);
    if (is_new)
        compose_query(model, cache, query, slot);
    return cache->embeddings + slot * model->full_width;
}

LANES_INLINE document_t document_embedding(
    const factored_model_t *model, embedding_cache_t *cache, int64_t document)
{
    document_t out = {NULL, 0.0f};
    int64_t slot;
    int is_new;
    if (model->plain_documents) {
        out.embedding = model->V.rows + document * model->width;
        if (model->has_biases)
            out.bias = model->biases.rows[document];
        return out;
    }
    slot = cache_slot(cache, document, &is_new);
    if (is_new)
        compose_document(model, cache, document, slot);
    out.embedding = cache->embeddings + slot * model->full_width;
    if (model->has_biases)
        out.bias = cache->biases[slot];
    return out;
}

LANES_INLINE float score_document(
    const factored_model_t *model, const float *query, document_t document)
{
    float score = float8_dot(query, document.embedding, model->full_width);
    return model->has_biases ? score + document.bias : score;
}

#endif
