/* The best documents of queries: a tile of scores at a time, and a heap a query. */
#ifndef RANKING_FACTORED_TOP_H
#define RANKING_FACTORED_TOP_H

#include "wide.h"

#define TOP_TILE 64 /* documents, at most */
#define TOP_NEAR 4096 /* numbers of documents' vectors: half of the nearest cache */
#define TOP_STRIP 128 /* queries: their vectors and scores stay in the caches behind it */

typedef struct {
    const float *queries, *documents, *biases;
    const int64_t *barred_ptr, *barred;
    int64_t *found;
    float *scores;
    int64_t n_queries, n_documents, k;
    ptrdiff_t width;
    float *tiles; /* one a thread */
} top_t;

/* The best so far of a query, as a heap with the worst at its root; equal scores are the worse
 * the later they stand. */
typedef struct {
    float *scores;
    int64_t *found;
    int64_t n;
    const int64_t *barred, *barred_end;
} top_heap_t;

LANES_INLINE int top_worse(float score, int64_t found, float than_score, int64_t than_found)
{
    return score < than_score || (score == than_score && found > than_found);
}

/* Let (score, found) sink from place `at` of a heap of n. */
static inline void top_sink(top_heap_t *heap, int64_t n, int64_t at, float score, int64_t found)
{
    for (;;) {
        int64_t child = 2 * at + 1;
        if (child >= n)
            break;
        if (child + 1 < n
            && top_worse(
                heap->scores[child + 1], heap->found[child + 1], heap->scores[child],
                heap->found[child]))
            child++;
        if (!top_worse(heap->scores[child], heap->found[child], score, found))
            break;
        heap->scores[at] = heap->scores[child];
        heap->found[at] = heap->found[child];
        at = child;
    }
    heap->scores[at] = score;
    heap->found[at] = found;
}

static inline void top_rise(top_heap_t *heap, float score, int64_t found)
{
    int64_t at = heap->n++;
    while (at > 0) {
        int64_t parent = (at - 1) / 2;
        if (!top_worse(score, found, heap->scores[parent], heap->found[parent]))
            break;
        heap->scores[at] = heap->scores[parent];
        heap->found[at] = heap->found[parent];
        at = parent;
    }
    heap->scores[at] = score;
    heap->found[at] = found;
}

/* Documents come in the order of their places, so the barred ones are passed in order. */
static inline void top_offer(top_heap_t *heap, int64_t k, float score, int64_t document)
{
    while (heap->barred < heap->barred_end && *heap->barred < document)
        heap->barred++;
    if (heap->barred < heap->barred_end && *heap->barred == document)
        return;
    if (heap->n < k)
        top_rise(heap, score, document);
    else if (score > heap->scores[0])
        top_sink(heap, k, 0, score, document);
}

/* Which of eight scores are above the bar; or, as long as there is room, which are numbers. */
LANES_INLINE int top_above(const float *scores, float bar, int room)
{
    wide_t v = wide_load(scores);
#ifdef __AVX2__
    return room ? _mm256_movemask_ps(_mm256_cmp_ps(v, v, _CMP_EQ_OQ))
                : _mm256_movemask_ps(_mm256_cmp_ps(v, wide_splat(bar), _CMP_GT_OQ));
#else
    int mask = 0;
    for (int i = 0; i < 8; i++)
        mask |= (room ? v[i] == v[i] : v[i] > bar) << i;
    return mask;
#endif
}

/* Offer the scores of `count` documents from `first` on. */
static inline void top_scan(
    top_heap_t *heap, int64_t k, const float *scores, int64_t first, int64_t count)
{
    int64_t j = 0;
    for (; j + 8 <= count; j += 8) {
        int room = heap->n < k;
        int mask = top_above(scores + j, room ? 0.0f : heap->scores[0], room);
        while (mask) {
            int at = __builtin_ctz((unsigned)mask);
            top_offer(heap, k, scores[j + at], first + j + at);
            mask &= mask - 1;
        }
    }
    for (; j < count; j++)
        if (scores[j] == scores[j])
            top_offer(heap, k, scores[j], first + j);
}

/* Best first; what is left has no document. */
static inline void top_finish(top_heap_t *heap, int64_t k)
{
    int64_t n = heap->n;
    while (n > 1) {
        float score = heap->scores[0];
        int64_t found = heap->found[0];
        n--;
        top_sink(heap, n, 0, heap->scores[n], heap->found[n]);
        heap->scores[n] = score;
        heap->found[n] = found;
    }
    for (n = heap->n; n < k; n++) {
        heap->scores[n] = -INFINITY;
        heap->found[n] = -1;
    }
}

/* Queries first to last, no more than a strip. */
static inline void top_strip(const top_t *top, float *tile, int64_t first, int64_t last)
{
    top_heap_t heaps[TOP_STRIP];
    int64_t near = TOP_NEAR / top->width / 8 * 8, most = near < TOP_TILE ? near : TOP_TILE;
    int64_t size = most > 8 ? most : 8;
    for (int64_t i = first; i < last; i++)
        heaps[i - first] = (top_heap_t){
            top->scores + i * top->k, top->found + i * top->k, 0,
            top->barred + top->barred_ptr[i], top->barred + top->barred_ptr[i + 1]};
    for (int64_t at = 0; at < top->n_documents; at += size) {
        int64_t rest = top->n_documents - at, count = rest < size ? rest : size;
        wide_score_tile(
            top->queries + first * top->width, 0, last - first, top->documents + at * top->width,
            count, top->width, top->biases ? top->biases + at : NULL, tile, TOP_TILE);
        for (int64_t i = 0; i < last - first; i++)
            top_scan(heaps + i, top->k, tile + i * TOP_TILE, at, count);
    }
    for (int64_t i = 0; i < last - first; i++)
        top_finish(heaps + i, top->k);
}

static inline void top_work(void *of, int turn, int crew)
{
    top_t *top = of;
    int64_t last = top->n_queries * (turn + 1) / crew;
    float *tile = top->tiles + (int64_t)turn * TOP_STRIP * TOP_TILE;
    for (int64_t first = top->n_queries * turn / crew; first < last; first += TOP_STRIP)
        top_strip(top, tile, first, first + TOP_STRIP < last ? first + TOP_STRIP : last);
}

#endif
