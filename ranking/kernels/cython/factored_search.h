/* Searching tuples for a violation, at the parameters as they are. */
#ifndef RANKING_FACTORED_SEARCH_H
#define RANKING_FACTORED_SEARCH_H

#include "draw.h"
#include "factored_model.h"

#define SEARCH_STRIP 32

typedef struct {
    const model_t *model;
    const int64_t *tuples; /* those given, or NULL: then they are drawn */
    int64_t columns;
    const draw_lists_t *lists;
    uint64_t seed, first;
    int64_t positives, place;
    const float *rank_weights;
    int64_t n_ranks, n_documents;
} search_t;

/* A tuple that is looked at. */
typedef struct {
    draw_t draw;
    const int64_t *given;
    int64_t query, better, worse;
    int64_t member; /* where the better is among the members of all lists */
} look_t;

typedef struct {
    int64_t query, better, worse;
    float margin, weight;
} found_t;

LANES_INLINE int64_t look_positive(const search_t *s, look_t *look, int64_t k)
{
    if (look->given)
        return look->given[1 + k];
    look->member = draw_positive(s->lists, &look->draw, (uint64_t)(1 + k));
    return s->lists->members[look->member];
}

LANES_INLINE int64_t look_negative(const search_t *s, const look_t *look, int64_t k)
{
    if (look->given)
        return look->given[1 + s->positives + k];
    return draw_negative(s->lists, &look->draw, (uint64_t)(1 + s->positives + k));
}

/* The query, the first positive, and the first negative: those will be looked at. */
LANES_INLINE void look_open(const search_t *s, int64_t step, look_t *look)
{
    look->given = s->tuples ? s->tuples + step * s->columns : NULL;
    look->member = -1;
    if (look->given) {
        look->query = look->given[0];
    } else {
        draw_open(s->lists, s->seed, s->first + (uint64_t)step, &look->draw);
        look->query = look->draw.query;
    }
    look->better = look_positive(s, look, 0);
    if (!look->given)
        draw_bar(s->lists, &look->draw, look->better);
    look->worse = look_negative(s, look, 0);
}

/* Choose the positive at the given place: best first, of equal ones the one drawn first. */
static inline float look_choose(
    const search_t *s, kept_t *documents, int64_t time, const float *u, look_t *look,
    float *highs)
{
    int64_t n = s->positives, chosen = 0;
    for (int64_t k = 0; k < n; k++)
        highs[k] = model_score(
            s->model, u, model_document(s->model, documents, look_positive(s, look, k), time));
    for (int64_t k = 0; k < n; k++) {
        int64_t before = 0;
        for (int64_t j = 0; j < n; j++)
            before += highs[j] > highs[k] || (highs[j] == highs[k] && j < k);
        if (before == s->place)
            chosen = k;
    }
    look->better = look_positive(s, look, chosen);
    return highs[chosen];
}

LANES_INLINE found_t look_search(
    const search_t *s, kept_t *queries, kept_t *documents, int64_t time, look_t *look,
    float *highs)
{
    const model_t *model = s->model;
    const float *u = model_query(model, queries, look->query, time);
    int64_t trials = s->columns - 1 - s->positives, trial = 1, rank;
    document_t worse = model_document(model, documents, look->worse, time);
    found_t found = {look->query, look->better, look->worse, 0.0f, 0.0f};
    float high, low;
    if (s->positives == 1) {
        document_t better = model_document(model, documents, look->better, time);
        wide_dot_two(u, better.vector, worse.vector, model->whole, &high, &low);
        if (model->with_biases) {
            high = high + better.bias;
            low = low + worse.bias;
        }
    } else {
        high = look_choose(s, documents, time, u, look, highs);
        found.better = look->better;
        low = model_score(model, u, worse);
    }
    found.margin = high - low;
    while (!(found.margin < 1.0f) && trial < trials) {
        found.worse = look_negative(s, look, trial++);
        low = model_score(model, u, model_document(model, documents, found.worse, time));
        found.margin = high - low;
    }
    if (trials == 1 || found.margin < 1.0f) {
        rank = (s->n_documents - 1) / trial;
        found.weight = s->rank_weights[rank < s->n_ranks ? rank : s->n_ranks - 1];
    }
    if (s->lists && s->lists->weights)
        found.weight = found.weight * s->lists->weights[look->member];
    return found;
}

/* Ask for what the search of a tuple will read first. */
LANES_INLINE void look_ask(const model_t *model, const look_t *look)
{
    if (model->plain_queries)
        wide_ask(model->U.rows + look->query * model->width, model->width);
    if (model->plain_documents) {
        wide_ask(model->V.rows + look->better * model->width, model->width);
        wide_ask(model->V.rows + look->worse * model->width, model->width);
    }
}

#endif
