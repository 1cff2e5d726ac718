#include "top_k.h"

#include <math.h>
#include <string.h>

#include "arena.h"
#include "float8.h"
#include "thread_team.h"

enum {
    SCORE_TILE = 128, /* documents that are scored at a time: their scores fill some lines */
    SCORE_STRIP = 32768, /* floats of queries per tile: 128 KiB */
    TILE = 64, /* documents of a tile of the selection, at most */
    TILE_FLOATS = 4096, /* floats of a tile's documents: half of the first-level cache */
    STRIP = 128, /* queries whose embeddings and scores stay in the second-level cache */
    CANDIDATES = 1 << 17, /* of a strip: 1 MiB */
    FEW = 16, /* up to here insertion sort is faster */
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

/* A document and its score in one number: the better, the smaller; of equal scores the earlier
 * document. No score is -0.0, for partial sums start at 0; there are fewer than 2**32 documents. */
LANES_INLINE uint64_t candidate_of(float score, int64_t document)
{
    uint32_t bits;
    memcpy(&bits, &score, sizeof(bits));
    bits = bits >> 31 ? bits : ~bits & INT32_MAX;
    return (uint64_t)bits << 32 | (uint64_t)document;
}

LANES_INLINE float score_of(uint64_t candidate)
{
    uint32_t bits = (uint32_t)(candidate >> 32);
    float score;
    bits = bits >> 31 ? bits : ~bits & INT32_MAX;
    memcpy(&score, &bits, sizeof(score));
    return score;
}

/* Move those of n different numbers that are at most the median of three to the front; return how
 * many these are: not 0, and not n. */
static int64_t partition(uint64_t *a, int64_t n)
{
    uint64_t x = a[0], y = a[n / 2], z = a[n - 1];
    uint64_t low = x < y ? x : y, high = x < y ? y : x;
    uint64_t pivot = z < low ? low : z < high ? z : high;
    int64_t front = 0;
    for (int64_t i = 0; i < n; i++) { /* no branch: it could not be predicted */
        uint64_t item = a[i];
        a[i] = a[front];
        a[front] = item;
        front += item <= pivot;
    }
    return front;
}

/* Sort at least the numbers around place `at`: those before it are smaller, and it is in place. */
static void sort_around(uint64_t *a, int64_t n, int64_t at)
{
    while (n > FEW) {
        int64_t low = partition(a, n);
        if (at < low) {
            n = low;
        } else {
            a += low;
            n -= low;
            at -= low;
        }
    }
    for (int64_t i = 1; i < n; i++) {
        uint64_t item = a[i];
        int64_t j = i;
        for (; j > 0 && a[j - 1] > item; j--)
            a[j] = a[j - 1];
        a[j] = item;
    }
}

static void sort(uint64_t *a, int64_t n)
{
    while (n > FEW) {
        int64_t low = partition(a, n);
        sort(a, low);
        a += low;
        n -= low;
    }
    sort_around(a, n, 0);
}

/* Candidates for the best documents of a query: all that may be among them, and some more. */
typedef struct {
    uint64_t *candidates;
    int64_t n;
    float limit; /* lower scores are not candidates */
    const int64_t *excluded, *excluded_end;
} best_t;

/* Selections of a strip of queries, by one thread. */
typedef struct {
    const top_k_t *task;
    int64_t k, capacity; /* wanted, and held until the best are selected */
    float *tile;
    best_t best[STRIP];
} strip_t;

/* Add a candidate. Documents come in order, so the excluded ones are skipped in order, and later
 * ones are better only if their scores are better than that of the last one kept. */
static void add_candidate(const strip_t *strip, best_t *best, float score, int64_t document)
{
    while (best->excluded < best->excluded_end && *best->excluded < document)
        best->excluded++;
    if (best->excluded < best->excluded_end && *best->excluded == document)
        return;
    best->candidates[best->n++] = candidate_of(score, document);
    if (best->n == strip->capacity) {
        sort_around(best->candidates, best->n, strip->k - 1);
        best->n = strip->k;
        best->limit = nextafterf(score_of(best->candidates[strip->k - 1]), INFINITY);
    }
}

/* Mask of eight scores that are not below a limit, nor NaN. */
LANES_INLINE int candidates(const float *scores, float limit)
{
    float8_t v = float8_load(scores);
#ifdef __AVX2__
    return _mm256_movemask_ps(_mm256_cmp_ps(v, float8_splat(limit), _CMP_GE_OQ));
#else
    int mask = 0;
    for (int i = 0; i < 8; i++)
        mask |= (v[i] >= limit) << i;
    return mask;
#endif
}

/* Add those of `count` documents from `first` on that are candidates. */
static void add_tile(
    const strip_t *strip, best_t *best, const float *scores, int64_t first, int64_t count)
{
    int64_t j = 0;
    for (; j + 8 <= count; j += 8)
        for (int mask = candidates(scores + j, best->limit); mask; mask &= mask - 1) {
            int64_t at = j + __builtin_ctz((unsigned)mask);
            add_candidate(strip, best, scores[at], first + at);
        }
    for (; j < count; j++)
        if (scores[j] >= best->limit)
            add_candidate(strip, best, scores[j], first + j);
}

/* Write the best documents of a query, best first, and fill the rest with -1. */
static void write_best(const top_k_t *task, const best_t *best, int64_t query)
{
    int64_t *documents = task->documents + query * task->k;
    float *scores = task->scores + query * task->k;
    sort(best->candidates, best->n);
    for (int64_t i = 0; i < task->k; i++) {
        documents[i] = i < best->n ? (int64_t)(uint32_t)best->candidates[i] : -1;
        scores[i] = i < best->n ? score_of(best->candidates[i]) : -INFINITY;
    }
}

/* Select for at most STRIP queries. */
static void select_strip(strip_t *strip, int64_t first, int64_t last)
{
    const top_k_t *task = strip->task;
    const embedding_pair_t *pair = &task->pair;
    int64_t fits = TILE_FLOATS / pair->width / 8 * 8, most = fits < TILE ? fits : TILE;
    int64_t size = most > 8 ? most : 8;
    for (int64_t i = first; i < last; i++) {
        best_t *best = strip->best + i - first;
        best->n = 0;
        best->limit = -INFINITY;
        best->excluded = task->excluded + task->excluded_ptr[i];
        best->excluded_end = task->excluded + task->excluded_ptr[i + 1];
    }
    for (int64_t at = 0; at < pair->n_documents; at += size) {
        int64_t rest = pair->n_documents - at, count = rest < size ? rest : size;
        float8_scores_t scores = {
            pair->queries + first * pair->width, pair->documents + at * pair->width,
            pair->biases ? pair->biases + at : NULL, pair->width, strip->tile, TILE};
        float8_score_tile(&scores, 0, last - first, count);
        for (int64_t i = 0; i < last - first; i++)
            add_tile(strip, strip->best + i, strip->tile + i * TILE, at, count);
    }
    for (int64_t i = first; i < last; i++)
        write_best(task, strip->best + i - first, i);
}

typedef struct {
    strip_t *strips; /* one per thread */
    int64_t size; /* queries of a strip */
} selection_t;

static void select_work(void *of, int thread, int n_threads)
{
    const selection_t *selection = of;
    strip_t *strip = selection->strips + thread;
    int64_t n = strip->task->pair.n_queries, last = n * (thread + 1) / n_threads;
    for (int64_t first = n * thread / n_threads; first < last; first += selection->size)
        select_strip(strip, first, first + selection->size < last ? first + selection->size : last);
}

int select_top_k(const top_k_t *task, int n_threads)
{
    int64_t n = task->pair.n_documents, k = task->k < n ? task->k : n;
    int64_t capacity = k + (k > FEW ? k : FEW), fits = CANDIDATES / capacity;
    int64_t size = fits < 1 ? 1 : fits < STRIP ? fits : STRIP;
    arena_t arena = {0};
    selection_t selection = {ARENA_ALLOC(&arena, n_threads, strip_t), size};
    for (int i = 0; selection.strips && i < n_threads; i++) {
        strip_t *strip = selection.strips + i;
        uint64_t *memory = ARENA_ALLOC(&arena, size * capacity, uint64_t);
        *strip = (strip_t){task, k, capacity, ARENA_ALLOC(&arena, TILE * STRIP, float), {{0}}};
        for (int64_t j = 0; memory && j < size; j++)
            strip->best[j].candidates = memory + j * capacity;
    }
    if (!arena.failed)
        team_run(select_work, &selection, n_threads);
    arena_free(&arena);
    return !arena.failed;
}
