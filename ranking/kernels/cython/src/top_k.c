#include "top_k.h"

#include <stdlib.h>

#include "float8.h"
#include "thread_team.h"

enum {
    SCORE_TILE = 128, /* documents that are scored at a time: their scores fill some lines */
    SCORE_STRIP = 32768, /* floats of queries per tile: 128 KiB */
    TILE = 64, /* documents of a tile of the selection, at most */
    TILE_FLOATS = 4096, /* floats of a tile's documents: half of the first-level cache */
    STRIP = 128, /* queries whose embeddings and scores stay in the second-level cache */
};

/* --- scores --------------------------------------------------------------------------------- */

typedef struct {
    const embedding_pair_t *pair;
    float *out;
} score_task_t;

static void score_work(void *of, int thread, int n_threads)
{
    const score_task_t *task = of;
    const embedding_pair_t *pair = task->pair;
    int64_t n = pair->n_queries, last = n * (thread + 1) / n_threads;
    int64_t strip = SCORE_STRIP / (pair->width ? pair->width : 1) / 2 * 2;
    strip = strip < 2 ? 2 : strip;
    for (int64_t first = n * thread / n_threads; first < last; first += strip)
        for (int64_t at = 0; at < pair->n_documents; at += SCORE_TILE) {
            int64_t rest = pair->n_documents - at;
            float8_scores_t scores = {
                pair->queries, pair->documents + at * pair->width,
                pair->biases ? pair->biases + at : NULL, pair->width, task->out + at,
                pair->n_documents};
            float8_score_tile(
                &scores, first, first + strip < last ? first + strip : last,
                rest < SCORE_TILE ? rest : SCORE_TILE);
        }
}

void score_all(const embedding_pair_t *pair, float *out, int n_threads)
{
    score_task_t task = {pair, out};
    team_run(score_work, &task, n_threads);
}

/* --- selection ------------------------------------------------------------------------------ */

typedef struct {
    float score;
    int64_t document;
} scored_t;

/* The best documents so far: a heap with the worst at its root. Ties go to earlier documents. */
typedef struct {
    float *scores;
    int64_t *documents;
    int64_t n;
    const int64_t *excluded, *excluded_end;
} heap_t;

LANES_INLINE scored_t heap_at(const heap_t *heap, int64_t i)
{
    return (scored_t){heap->scores[i], heap->documents[i]};
}

LANES_INLINE void heap_set(heap_t *heap, int64_t i, scored_t item)
{
    heap->scores[i] = item.score;
    heap->documents[i] = item.document;
}

LANES_INLINE int is_worse(scored_t a, scored_t b)
{
    return a.score < b.score || (a.score == b.score && a.document > b.document);
}

/* Put an item at the root of a heap of n and let it sink. */
static void sift_down(heap_t *heap, int64_t n, scored_t item)
{
    int64_t at = 0, child;
    while ((child = 2 * at + 1) < n) {
        if (child + 1 < n && is_worse(heap_at(heap, child + 1), heap_at(heap, child)))
            child++;
        if (!is_worse(heap_at(heap, child), item))
            break;
        heap_set(heap, at, heap_at(heap, child));
        at = child;
    }
    heap_set(heap, at, item);
}

/* Append an item and let it rise. */
static void sift_up(heap_t *heap, scored_t item)
{
    int64_t at = heap->n++;
    while (at > 0 && is_worse(item, heap_at(heap, (at - 1) / 2))) {
        heap_set(heap, at, heap_at(heap, (at - 1) / 2));
        at = (at - 1) / 2;
    }
    heap_set(heap, at, item);
}

/* Offer a document. Documents come in order, so the excluded ones are skipped in order. */
static void offer(heap_t *heap, int64_t k, scored_t item)
{
    while (heap->excluded < heap->excluded_end && *heap->excluded < item.document)
        heap->excluded++;
    if (heap->excluded < heap->excluded_end && *heap->excluded == item.document)
        return;
    if (heap->n < k)
        sift_up(heap, item);
    else if (item.score > heap->scores[0])
        sift_down(heap, k, item);
}

/* Mask of eight scores that exceed the worst of the heap; while it is not full, of all numbers. */
LANES_INLINE int candidates(const float *scores, float worst, int is_full)
{
    float8_t v = float8_load(scores);
#ifdef __AVX2__
    return is_full ? _mm256_movemask_ps(_mm256_cmp_ps(v, float8_splat(worst), _CMP_GT_OQ))
                   : _mm256_movemask_ps(_mm256_cmp_ps(v, v, _CMP_EQ_OQ));
#else
    int mask = 0;
    for (int i = 0; i < 8; i++)
        mask |= (is_full ? v[i] > worst : v[i] == v[i]) << i;
    return mask;
#endif
}

/* Offer `count` documents from `first` on. */
static void offer_tile(
    heap_t *heap, int64_t k, const float *scores, int64_t first, int64_t count)
{
    int64_t j = 0;
    for (; j + 8 <= count; j += 8) {
        int is_full = heap->n >= k;
        int mask = candidates(scores + j, is_full ? heap->scores[0] : 0.0f, is_full);
        for (; mask; mask &= mask - 1) {
            int at = __builtin_ctz((unsigned)mask);
            offer(heap, k, (scored_t){scores[j + at], first + j + at});
        }
    }
    for (; j < count; j++)
        if (scores[j] == scores[j])
            offer(heap, k, (scored_t){scores[j], first + j});
}

/* Sort the heap, best first, and fill the rest with -1. */
static void sort_heap(heap_t *heap, int64_t k)
{
    for (int64_t n = heap->n; n > 1;) {
        scored_t worst = heap_at(heap, 0);
        n--;
        sift_down(heap, n, heap_at(heap, n));
        heap_set(heap, n, worst);
    }
    for (int64_t n = heap->n; n < k; n++)
        heap_set(heap, n, (scored_t){-INFINITY, -1});
}

/* Select for at most STRIP queries. */
static void select_strip(const top_k_t *task, float *tile, int64_t first, int64_t last)
{
    const embedding_pair_t *pair = &task->pair;
    heap_t heaps[STRIP];
    int64_t fits = TILE_FLOATS / pair->width / 8 * 8, most = fits < TILE ? fits : TILE;
    int64_t size = most > 8 ? most : 8;
    for (int64_t i = first; i < last; i++)
        heaps[i - first] = (heap_t){
            task->scores + i * task->k, task->documents + i * task->k, 0,
            task->excluded + task->excluded_ptr[i], task->excluded + task->excluded_ptr[i + 1]};
    for (int64_t at = 0; at < pair->n_documents; at += size) {
        int64_t rest = pair->n_documents - at, count = rest < size ? rest : size;
        float8_scores_t scores = {
            pair->queries + first * pair->width, pair->documents + at * pair->width,
            pair->biases ? pair->biases + at : NULL, pair->width, tile, TILE};
        float8_score_tile(&scores, 0, last - first, count);
        for (int64_t i = 0; i < last - first; i++)
            offer_tile(heaps + i, task->k, tile + i * TILE, at, count);
    }
    for (int64_t i = 0; i < last - first; i++)
        sort_heap(heaps + i, task->k);
}

typedef struct {
    const top_k_t *task;
    float *tiles; /* one per thread */
} selection_t;

static void select_work(void *of, int thread, int n_threads)
{
    const selection_t *selection = of;
    int64_t n = selection->task->pair.n_queries, last = n * (thread + 1) / n_threads;
    float *tile = selection->tiles + (int64_t)thread * STRIP * TILE;
    for (int64_t first = n * thread / n_threads; first < last; first += STRIP)
        select_strip(selection->task, tile, first, first + STRIP < last ? first + STRIP : last);
}

int select_top_k(const top_k_t *task, int n_threads)
{
    selection_t selection = {task, malloc((size_t)n_threads * TILE * STRIP * sizeof(float))};
    if (!selection.tiles)
        return 0;
    team_run(select_work, &selection, n_threads);
    free(selection.tiles);
    return 1;
}
