/* Searching tuples for a violation, at the parameters as they are. */
#ifndef RANKING_FACTORED_SEARCH_H
#define RANKING_FACTORED_SEARCH_H

#include "draw.h"
#include "factored_model.h"

typedef struct {
    const model_t *model;
    const int64_t *tuples; /* those given, or NULL: then they are drawn */
    int64_t columns;
    draw_lists_t *lists;
    uint64_t seed, first;
    int64_t positives, place;
    const float *rank_weights;
    int64_t n_ranks, n_documents;
} search_t;

/* A tuple that is looked at. */
typedef struct {
    draw_t draw;
    const int64_t *given;
    int64_t query, better, worse, trial;
    int64_t member; /* where the better is among the members of all lists */
    const float *u;
    float high, margin, weight;
} look_t;

/* Tuples that are searched side by side: what one reads is on its way while others are scored. */
typedef struct {
    look_t looks[DRAW_STRIP];
    look_t *open[DRAW_STRIP]; /* those that have found no violation yet */
    int64_t n, n_open;
} strip_t;

LANES_INLINE int64_t look_positive(const search_t *s, look_t *look, int64_t k)
{
    if (look->given)
        return look->given[1 + k];
    look->member = draw_positive(s->lists, &look->draw, (uint64_t)(1 + k));
    return s->lists->members[look->member];
}

/* Draw the queries, and ask for what their lists are read for first. */
static inline void strip_draw_queries(const search_t *s, int64_t step, strip_t *strip)
{
    const draw_lists_t *lists = s->lists;
    const draw_guide_t *guide = &lists->query_guide;
    int64_t n = lists->n_queries, total = guide->starts ? lists->query_sums[n - 1] : 0;
    draw_counts_t all;
    for (int64_t i = 0; i < strip->n; i++) {
        uint64_t at = s->first + (uint64_t)(step + i);
        draw_t *t = &strip->looks[i].draw;
        if (!guide->starts) {
            draw_open(lists, s->seed, at, t);
            continue;
        }
        t->key = draw_bits(s->seed, at);
        draw_set_count(
            &all, i, draw_bits_of(draw_shuffled(s->seed, at, total), total), total, guide->rising,
            guide->starts, n);
    }
    if (guide->starts)
        draw_count_all(&all, strip->n);
    for (int64_t i = 0; i < strip->n; i++) {
        draw_t *t = &strip->looks[i].draw;
        if (guide->starts) {
            draw_take(lists, t, all.counts[i]);
            t->rest = draw_rest(lists, all.numbers[i], all.counts[i]);
        }
        if (!lists->member_sums) {
            int64_t spare = t->size - (t->itself >= 0);
            int64_t positive = t->rest >= 0 ? t->rest : draw_below(t->key, 1, spare);
            __builtin_prefetch(t->barred + positive);
        }
        strip->looks[i].query = t->query;
    }
}

/* The negatives k of all tuples that are open. */
static inline void strip_draw_negatives(const search_t *s, int64_t k, strip_t *strip)
{
    const draw_lists_t *lists = s->lists;
    const draw_guide_t *guide = lists ? &lists->member_guide : NULL;
    uint64_t number = (uint64_t)(1 + s->positives + k);
    draw_counts_t all;
    if (s->tuples) {
        for (int64_t i = 0; i < strip->n_open; i++)
            strip->open[i]->worse = strip->open[i]->given[1 + s->positives + k];
        return;
    }
    if (!guide->starts) {
        for (int64_t i = 0; i < strip->n_open; i++)
            strip->open[i]->worse = draw_negative(lists, &strip->open[i]->draw, number);
        return;
    }
    for (int64_t i = 0; i < strip->n_open; i++) {
        const draw_t *t = &strip->open[i]->draw;
        draw_set_count(
            &all, i, draw_bits(t->key, number) >> 32, lists->n_documents - t->size,
            guide->rising + t->start, guide->starts + draw_guide_start(t->start, t->list),
            t->size);
    }
    draw_count_all(&all, strip->n_open);
    for (int64_t i = 0; i < strip->n_open; i++)
        strip->open[i]->worse = all.numbers[i] + all.counts[i];
}

/* Ask for a document that will be scored. */
LANES_INLINE void search_ask(const search_t *s, int64_t document)
{
    const model_t *model = s->model;
    if (model->plain_documents)
        wide_ask(model->V.rows + document * model->width, model->width);
}

/* The queries, and their first positives. */
static inline void strip_open(const search_t *s, int64_t step, strip_t *strip)
{
    const model_t *model = s->model;
    if (!s->tuples)
        strip_draw_queries(s, step, strip);
    for (int64_t i = 0; i < strip->n; i++) {
        look_t *look = strip->looks + i;
        look->given = s->tuples ? s->tuples + (step + i) * s->columns : NULL;
        if (look->given)
            look->query = look->given[0];
        if (model->plain_queries)
            wide_ask(model->U.rows + look->query * model->width, model->width);
        look->better = look_positive(s, look, 0);
        if (!look->given)
            draw_bar(s->lists, &look->draw, look->better);
        search_ask(s, look->better);
        strip->open[i] = look;
    }
    strip->n_open = strip->n;
}

/* Choose the positive at the given place: best first, of equal ones the one drawn first. If scores
   are not numbers, several may be at that place, or none: then the first. */
static inline float look_choose(
    const search_t *s, near_t *near, look_t *look, float *highs)
{
    int64_t n = s->positives, chosen = 0;
    for (int64_t k = 0; k < n; k++)
        highs[k] = model_score(
            s->model, look->u,
            model_document(s->model, &near->documents, look_positive(s, look, k)));
    for (int64_t k = 0; k < n; k++) {
        int64_t before = 0;
        for (int64_t j = 0; j < n; j++)
            before += highs[j] > highs[k] || (highs[j] == highs[k] && j < k);
        if (before == s->place) {
            chosen = k;
            break;
        }
    }
    look->better = look_positive(s, look, chosen);
    return highs[chosen];
}

/* Score the queries' positives. */
static inline void strip_score_positives(
    const search_t *s, near_t *near, strip_t *strip, float *highs)
{
    for (int64_t i = 0; i < strip->n; i++) {
        look_t *look = strip->looks + i;
        look->u = model_query(s->model, &near->queries, look->query);
        if (s->positives == 1)
            look->high = model_score(
                s->model, look->u, model_document(s->model, &near->documents, look->better));
        else
            look->high = look_choose(s, near, look, highs);
    }
}

/* Score the negatives of a trial; those that do not violate stay open. */
static inline void strip_score_negatives(
    const search_t *s, near_t *near, int64_t trial, strip_t *strip)
{
    int64_t n = strip->n_open;
    strip->n_open = 0;
    for (int64_t i = 0; i < n; i++) {
        look_t *look = strip->open[i];
        document_t worse = model_document(s->model, &near->documents, look->worse);
        look->margin = look->high - model_score(s->model, look->u, worse);
        look->trial = trial;
        strip->open[strip->n_open] = look;
        strip->n_open += !(look->margin < 1.0f);
    }
}

static inline void strip_weigh(const search_t *s, strip_t *strip)
{
    int64_t trials = s->columns - 1 - s->positives;
    for (int64_t i = 0; i < strip->n; i++) {
        look_t *look = strip->looks + i;
        look->weight = 0.0f;
        if (trials == 1 || look->margin < 1.0f) {
            int64_t rank = (s->n_documents - 1) / look->trial;
            look->weight = s->rank_weights[rank < s->n_ranks ? rank : s->n_ranks - 1];
        }
        if (s->lists && s->lists->weights)
            look->weight = look->weight * s->lists->weights[look->member];
    }
}

/* Search the strip's tuples, from `step` on. */
static inline void strip_search(
    const search_t *s, near_t *near, int64_t step, strip_t *strip, float *highs)
{
    int64_t trials = s->columns - 1 - s->positives;
    strip_open(s, step, strip);
    for (int64_t trial = 1; trial <= trials && strip->n_open; trial++) {
        strip_draw_negatives(s, trial - 1, strip);
        for (int64_t i = 0; i < strip->n_open; i++)
            search_ask(s, strip->open[i]->worse);
        if (trial == 1)
            strip_score_positives(s, near, strip, highs);
        strip_score_negatives(s, near, trial, strip);
    }
    strip_weigh(s, strip);
}

#endif
