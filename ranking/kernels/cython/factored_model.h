/* U, V, S and the biases, and the vectors that are composed of them. */
#ifndef RANKING_FACTORED_MODEL_H
#define RANKING_FACTORED_MODEL_H

#include <stdlib.h>

#include "objects.h"

/* Rows of parameters, and adagrad's sums of squares (NULL without it). */
typedef struct {
    float *rows, *squares;
    int64_t n;
} part_t;

typedef struct {
    objects_t queries, documents, contexts;
    part_t U, V, S, biases;
    ptrdiff_t width; /* of a half */
    ptrdiff_t whole; /* of a vector: with contexts it has two halves */
    int with_contexts, with_biases, adagrad;
    int plain_queries, plain_documents; /* their vectors are rows of U, of V */
} model_t;

/* Vectors that are composed, while the parameters stay as they are: those of all objects at once,
 * some by each thread, in the objects' order, which is fast; or each when a thread first needs it.
 * Then threads do not share them: to compose one again is as fast as to ask the others for it. */
typedef struct {
    int64_t *places; /* by object: the time at which it was composed << 32 | where it is */
    float *vectors, *biases;
    int64_t used, time;
    int all;
} kept_t;

/* A thread's own; in lines of the cache of its own. */
typedef struct {
    kept_t queries, documents;
    int64_t other[4];
} near_t;

typedef struct {
    const float *vector;
    float bias;
} document_t;

/* Memory of a job, in parts that begin with a line of the cache. */
typedef struct room {
    struct room *before;
} room_t;

typedef struct {
    room_t *last;
    int failed;
} rooms_t;

/* Room for so many. */
static inline void *rooms_take(rooms_t *rooms, int64_t count, size_t size, int zero)
{
    size_t bytes = (size_t)count * size + 128;
    room_t *made = NULL;
    if (count >= 0 && (uint64_t)count < (UINT64_C(1) << 60) / size)
        made = zero ? calloc(bytes, 1) : malloc(bytes);
    if (!made) {
        rooms->failed = 1;
        return NULL;
    }
    made->before = rooms->last;
    rooms->last = made;
    return (void *)(((uintptr_t)(made + 1) + 63) / 64 * 64);
}

static inline void rooms_free(rooms_t *rooms)
{
    while (rooms->last) {
        room_t *before = rooms->last->before;
        free(rooms->last);
        rooms->last = before;
    }
}

/* For blocks that look at so many of the objects, some of them often: at least, and at most. */
static inline void kept_open(
    kept_t *kept, rooms_t *rooms, int64_t n_objects, int64_t least, int64_t most, ptrdiff_t whole)
{
    int64_t room = most < n_objects ? most : n_objects;
    kept->all = least >= n_objects;
    kept->places = rooms_take(rooms, n_objects, sizeof(int64_t), 1);
    kept->vectors = rooms_take(rooms, room * whole, sizeof(float), 0);
    kept->biases = rooms_take(rooms, room, sizeof(float), 0);
    if (kept->all && kept->places)
        for (int64_t object = 0; object < n_objects; object++)
            kept->places[object] = object; /* composed at time 0, which does not pass */
}

/* The parameters have changed: forget what was composed. */
LANES_INLINE void kept_begin(kept_t *kept, int64_t time)
{
    if (kept->all)
        return;
    kept->time = time;
    kept->used = 0;
}

/* Where an object's vector is, or -1. */
LANES_INLINE int64_t kept_place(const kept_t *kept, int64_t object)
{
    int64_t mark = kept->places[object];
    return mark >> 32 == kept->time ? (int64_t)(uint32_t)mark : -1;
}

/* Room for a vector. */
LANES_INLINE int64_t kept_take(kept_t *kept, int64_t object)
{
    kept->places[object] = kept->time << 32 | kept->used;
    return kept->used++;
}

static inline void kept_query(
    const model_t *model, const kept_t *kept, int64_t query, int64_t place)
{
    float *out = kept->vectors + place * model->whole;
    objects_compose(&model->queries, query, model->U.rows, model->width, out);
    if (model->with_contexts)
        objects_compose(
            &model->contexts, query, model->S.rows, model->width, out + model->width);
}

static inline void kept_document(
    const model_t *model, const kept_t *kept, int64_t document, int64_t place)
{
    float *out = kept->vectors + place * model->whole;
    objects_compose(&model->documents, document, model->V.rows, model->width, out);
    if (model->with_contexts)
        objects_compose(
            &model->documents, document, model->S.rows, model->width, out + model->width);
    if (model->with_biases)
        kept->biases[place] = objects_total(&model->documents, document, model->biases.rows);
}

LANES_INLINE const float *model_query(const model_t *model, kept_t *kept, int64_t query)
{
    int64_t place;
    if (model->plain_queries)
        return model->U.rows + query * model->width;
    place = kept_place(kept, query);
    if (place < 0) {
        place = kept_take(kept, query);
        kept_query(model, kept, query, place);
    }
    return kept->vectors + place * model->whole;
}

LANES_INLINE document_t model_document(const model_t *model, kept_t *kept, int64_t document)
{
    document_t made = {NULL, 0.0f};
    int64_t place;
    if (model->plain_documents) {
        made.vector = model->V.rows + document * model->width;
        if (model->with_biases)
            made.bias = model->biases.rows[document];
        return made;
    }
    place = kept_place(kept, document);
    if (place < 0) {
        place = kept_take(kept, document);
        kept_document(model, kept, document, place);
    }
    made.vector = kept->vectors + place * model->whole;
    if (model->with_biases)
        made.bias = kept->biases[place];
    return made;
}

LANES_INLINE float model_score(const model_t *model, const float *u, document_t document)
{
    float score = wide_dot(u, document.vector, model->whole);
    return model->with_biases ? score + document.bias : score;
}

#endif
