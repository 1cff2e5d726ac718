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
    embedding_cache_t sides[2];
    int64_t padding[4];
} thread_caches_t;

typedef struct {
    const float *vector;
    float bias;
} embedding_t;

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

/* Compose a row's embedding and bias into a slot. */
static inline void compose_row(
    const factored_model_t *model, int side, const embedding_cache_t *cache, int64_t row,
    int64_t slot)
{
    const factored_side_t *of = model->sides + side;
    float *out = cache->embeddings + slot * model->full_width;
    embeddings_t own = {&of->features, of->factor.rows, model->width, NULL};
    embeddings_t context = {&of->contexts, model->S.rows, model->width, NULL};
    compose(&own, row, out);
    if (model->has_contexts)
        compose(&context, row, out + model->width);
    if (of->biases.n_rows)
        cache->biases[slot] = of->features.identity
            ? of->biases.rows[row]
            : compose_number(&of->features, row, of->biases.rows, 1);
}

LANES_INLINE embedding_t embedding_of(
    const factored_model_t *model, thread_caches_t *caches, const int side, int64_t row)
{
    const factored_side_t *of = model->sides + side;
    embedding_cache_t *cache = caches->sides + side;
    embedding_t out = {of->factor.rows + row * model->width, 0.0f};
    const float *biases = of->biases.rows;
    if (!of->plain) {
        int64_t mark = cache->slots[row], slot = (int64_t)(uint32_t)mark;
        if (mark >> 32 != cache->stamp) {
            slot = cache->used++;
            cache->slots[row] = cache->stamp << 32 | slot;
            compose_row(model, side, cache, row, slot);
        }
        out.vector = cache->embeddings + slot * model->full_width;
        biases = cache->biases;
        row = slot;
    }
    if (of->biases.n_rows)
        out.bias = biases[row];
    return out;
}

LANES_INLINE float score_document(
    const factored_model_t *model, const float *query, embedding_t document)
{
    float score = float8_dot(query, document.vector, model->full_width);
    return model->sides[DOCUMENTS].biases.n_rows ? score + document.bias : score;
}

#endif
