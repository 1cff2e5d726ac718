/* Taking the steps of a block: "Factored" in ranking/kernels/contract.py.
 *
 * An object, or a row, that a block names once is changed at once, and needs no sums: nobody else
 * in the block reads it. Others have a slot with sums. Threads share the columns of the vectors,
 * so that none waits for another: who has a column sums it up, changes it, and reads no other.
 */
#ifndef RANKING_FACTORED_UPDATE_H
#define RANKING_FACTORED_UPDATE_H

#include "crew.h"
#include "factored_model.h"

#define NAMED_ONCE UINT32_MAX

/* Which objects, or rows, a block names. */
typedef struct {
    int64_t *marks; /* by object or row: the time at which it was named << 32 | its slot */
    int64_t *order; /* by first mention */
    int64_t n;
    int64_t *slots; /* who has the slot */
    int64_t n_slots;
    float *sums; /* by slot: of gradients, then of their squares */
    float *bias_sums;
    int64_t room; /* for so many slots */
    int always; /* even what is named once has a slot */
} names_t;

typedef struct {
    int64_t n;
    const int64_t *queries, *ptr, *documents;
    const float *slopes;
} steps_t;

/* What threads that meet share while they take the steps of a block. */
typedef struct {
    const model_t *model;
    kept_t kept_queries, kept_documents;
    names_t queries, documents, rows_U, rows_V, rows_S;
    float max_norm, l2;
    float *pulls; /* one vector a thread */
    crew_meeting_t meeting;
    int failed; /* there was no memory */
} team_t;

static inline void names_open(names_t *names, rooms_t *rooms, int64_t n, int always)
{
    names->marks = rooms_take(rooms, n, sizeof(int64_t), 1);
    names->order = rooms_take(rooms, n, sizeof(int64_t), 0);
    names->slots = rooms_take(rooms, n, sizeof(int64_t), 0);
    names->sums = names->bias_sums = NULL;
    names->room = 0;
    names->always = always;
}

static inline void names_close(names_t *names)
{
    free(names->sums);
    free(names->bias_sums);
}

LANES_INLINE void names_give_slot(names_t *names, int64_t name, int64_t time)
{
    names->slots[names->n_slots] = name;
    names->marks[name] = time << 32 | names->n_slots++;
}

LANES_INLINE void names_add(names_t *names, int64_t name, int64_t time)
{
    int64_t mark = names->marks[name];
    if (mark >> 32 != time) {
        names->order[names->n++] = name;
        if (names->always)
            names_give_slot(names, name, time);
        else
            names->marks[name] = time << 32 | NAMED_ONCE;
    } else if ((uint32_t)mark == NAMED_ONCE) {
        names_give_slot(names, name, time);
    }
}

/* Make room for the sums of all slots; 0 if there is none. */
static inline int names_reserve(names_t *names, ptrdiff_t whole)
{
    if (names->n_slots <= names->room)
        return 1;
    names_close(names);
    names->room = names->n_slots + names->n_slots / 2;
    names->sums = malloc((size_t)(names->room * 2 * whole) * sizeof(float));
    names->bias_sums = malloc((size_t)(names->room * 2) * sizeof(float));
    if (names->sums && names->bias_sums)
        return 1;
    names_close(names);
    names->sums = names->bias_sums = NULL;
    names->room = 0;
    return 0;
}

static inline void team_open(
    team_t *team, rooms_t *rooms, const model_t *model, int64_t queries_kept,
    int64_t documents_kept, int crew)
{
    memset(team, 0, sizeof *team);
    team->model = model;
    if (!model->plain_queries) {
        kept_open(&team->kept_queries, rooms, model->queries.n, queries_kept, model->whole);
        names_open(&team->rows_U, rooms, model->U.n, 0);
    }
    if (!model->plain_documents) {
        kept_open(
            &team->kept_documents, rooms, model->documents.n, documents_kept, model->whole);
        names_open(&team->rows_V, rooms, model->V.n, 0);
    }
    if (model->with_contexts)
        names_open(&team->rows_S, rooms, model->S.n, 0);
    names_open(&team->queries, rooms, model->queries.n, !model->plain_queries);
    names_open(&team->documents, rooms, model->documents.n, !model->plain_documents);
    team->pulls = rooms_take(rooms, crew * model->whole, sizeof(float), 0);
}

static inline void team_close(team_t *team)
{
    names_close(&team->queries);
    names_close(&team->documents);
    names_close(&team->rows_U);
    names_close(&team->rows_V);
    names_close(&team->rows_S);
}

/* --- who is named --------------------------------------------------------------------------- */

LANES_INLINE int steps_move(const steps_t *steps, int64_t i)
{
    for (int64_t at = steps->ptr[i]; at < steps->ptr[i + 1]; at++)
        if (steps->slopes[at] != 0.0f)
            return 1;
    return 0;
}

static inline void names_start(names_t *names)
{
    names->n = names->n_slots = 0;
}

static inline void name_rows(
    names_t *rows, const names_t *of, const objects_t *objects, int64_t time)
{
    for (int64_t i = 0; i < of->n; i++) {
        int64_t object = of->order[i], stop = objects_start(objects, object + 1);
        for (int64_t at = objects_start(objects, object); at < stop; at++)
            names_add(rows, objects_index(objects, at), time);
    }
}

static inline void team_name_queries(team_t *team, const steps_t *steps, int64_t time)
{
    const model_t *model = team->model;
    int ready;
    names_start(&team->queries);
    for (int64_t i = 0; i < steps->n; i++)
        if (steps_move(steps, i))
            names_add(&team->queries, steps->queries[i], time);
    ready = names_reserve(&team->queries, model->whole);
    if (!model->plain_queries) {
        names_start(&team->rows_U);
        name_rows(&team->rows_U, &team->queries, &model->queries, time);
        ready = ready && names_reserve(&team->rows_U, model->width);
    }
    if (!ready)
        __atomic_store_n(&team->failed, 1, __ATOMIC_RELAXED);
}

static inline void team_name_documents(team_t *team, const steps_t *steps, int64_t time)
{
    const model_t *model = team->model;
    int ready;
    names_start(&team->documents);
    for (int64_t i = 0; i < steps->n; i++)
        if (steps_move(steps, i))
            for (int64_t at = steps->ptr[i]; at < steps->ptr[i + 1]; at++)
                names_add(&team->documents, steps->documents[at], time);
    ready = names_reserve(&team->documents, model->whole);
    if (!model->plain_documents) {
        names_start(&team->rows_V);
        name_rows(&team->rows_V, &team->documents, &model->documents, time);
        ready = ready && names_reserve(&team->rows_V, model->width);
    }
    if (!ready)
        __atomic_store_n(&team->failed, 1, __ATOMIC_RELAXED);
}

static inline void team_name_contexts(team_t *team, int64_t time)
{
    const model_t *model = team->model;
    names_start(&team->rows_S);
    name_rows(&team->rows_S, &team->queries, &model->contexts, time);
    name_rows(&team->rows_S, &team->documents, &model->documents, time);
    if (!names_reserve(&team->rows_S, model->width))
        __atomic_store_n(&team->failed, 1, __ATOMIC_RELAXED);
}

/* One side a thread; S needs both sides. */
static inline void team_name(
    team_t *team, const steps_t *steps, int64_t time, int turn, int crew)
{
    if (turn == 0)
        team_name_queries(team, steps, time);
    if (turn == crew - 1)
        team_name_documents(team, steps, time);
    if (team->model->with_contexts) {
        crew_meet(&team->meeting, crew);
        if (turn == 0)
            team_name_contexts(team, time);
    }
    if (turn == 0)
        team->kept_queries.used = team->kept_documents.used = 0;
    crew_meet(&team->meeting, crew);
}

/* --- columns -------------------------------------------------------------------------------- */

/* Those of a thread, and the rate of its block. */
typedef struct {
    ptrdiff_t first, n;
    float rate;
} columns_t;

static inline void names_empty(names_t *names, ptrdiff_t whole, columns_t columns)
{
    for (int64_t slot = 0; slot < names->n_slots; slot++) {
        float *sums = names->sums + slot * 2 * whole + columns.first;
        wide_empty(sums, columns.n);
        wide_empty(sums + whole, columns.n);
    }
}

/* A gradient c x of a row that is named once. */
LANES_INLINE void row_step(
    const part_t *part, ptrdiff_t width, int64_t row, const float *x, float c, columns_t columns)
{
    ptrdiff_t at = row * width + columns.first;
    if (part->squares)
        wide_adagrad(part->rows + at, part->squares + at, x, c, columns.rate, columns.n);
    else
        wide_step(part->rows + at, x, c, columns.n);
}

/* Sums of an object's gradients, and the value x of its feature, the row. */
LANES_INLINE void row_take(
    const part_t *part, ptrdiff_t width, int64_t row, const float *gradients,
    const float *squares, float x, columns_t columns)
{
    ptrdiff_t at = row * width + columns.first;
    if (part->squares)
        wide_take_adagrad(
            part->rows + at, part->squares + at, gradients, squares, x, columns.rate, columns.n);
    else
        wide_step(part->rows + at, gradients, x, columns.n);
}

/* A gradient c x of an object. `part` is what its row is in, if it is plain. */
LANES_INLINE void object_step(
    const names_t *names, int64_t object, const part_t *part, const float *x, float c,
    ptrdiff_t whole, columns_t columns)
{
    uint32_t slot = (uint32_t)names->marks[object];
    float *sums;
    if (slot == NAMED_ONCE) {
        row_step(part, whole, object, x, c, columns);
        return;
    }
    sums = names->sums + (int64_t)slot * 2 * whole + columns.first;
    if (part->squares)
        wide_gather(sums, sums + whole, x, c, columns.n);
    else
        wide_add(sums, x, c, columns.n);
}

LANES_INLINE const float *team_query(const team_t *team, int64_t query)
{
    const model_t *model = team->model;
    if (model->plain_queries)
        return model->U.rows + query * model->width;
    return team->kept_queries.vectors
           + (int64_t)(uint32_t)team->kept_queries.places[query] * model->whole;
}

LANES_INLINE const float *team_document(const team_t *team, int64_t document)
{
    const model_t *model = team->model;
    if (model->plain_documents)
        return model->V.rows + document * model->width;
    return team->kept_documents.vectors
           + (int64_t)(uint32_t)team->kept_documents.places[document] * model->whole;
}

/* The gradient of a step's query: the sum of slope times document. */
LANES_INLINE void step_pull(
    const team_t *team, const steps_t *steps, int64_t i, float *out, columns_t columns)
{
    int64_t at = steps->ptr[i], stop = steps->ptr[i + 1];
    const int64_t *documents = steps->documents;
    const float *slopes = steps->slopes;
    const float *one = team_document(team, documents[at]) + columns.first;
    if (stop - at == 1) {
        memcpy(out, one, (size_t)columns.n * sizeof(float));
        wide_scale(out, slopes[at], columns.n);
        return;
    }
    wide_mix(
        out, one, slopes[at], team_document(team, documents[at + 1]) + columns.first,
        slopes[at + 1], columns.n);
    for (at += 2; at < stop; at++)
        wide_add(out, team_document(team, documents[at]) + columns.first, slopes[at], columns.n);
}

static inline void team_sum(
    const team_t *team, const steps_t *steps, float *pull, columns_t columns)
{
    const model_t *model = team->model;
    for (int64_t i = 0; i < steps->n; i++) {
        int64_t query = steps->queries[i];
        const float *u;
        if (!steps_move(steps, i))
            continue;
        /* All is read before anything changes. */
        step_pull(team, steps, i, pull, columns);
        u = team_query(team, query) + columns.first;
        for (int64_t at = steps->ptr[i]; at < steps->ptr[i + 1]; at++)
            object_step(
                &team->documents, steps->documents[at], &model->V, u, steps->slopes[at],
                model->whole, columns);
        object_step(&team->queries, query, &model->U, pull, 1.0f, model->whole, columns);
    }
}

/* Share out the sums of objects among the rows of their features. */
static inline void team_share(
    const model_t *model, const names_t *names, const objects_t *objects, ptrdiff_t half,
    names_t *rows, const part_t *part, columns_t columns)
{
    ptrdiff_t width = model->width, whole = model->whole;
    for (int64_t i = 0; i < names->n; i++) {
        int64_t object = names->order[i], stop = objects_start(objects, object + 1);
        const float *sums = names->sums + i * 2 * whole + half + columns.first;
        for (int64_t at = objects_start(objects, object); at < stop; at++) {
            int64_t row = objects_index(objects, at);
            uint32_t slot = (uint32_t)rows->marks[row];
            float x = objects_value(objects, at);
            float *to;
            if (slot == NAMED_ONCE) {
                row_take(part, width, row, sums, sums + whole, x, columns);
                continue;
            }
            to = rows->sums + (int64_t)slot * 2 * width + columns.first;
            wide_add(to, sums, x, columns.n);
            if (part->squares)
                wide_add(to + width, sums + whole, x * x, columns.n);
        }
    }
}

/* Change the rows that have sums. */
static inline void rows_change(
    const names_t *rows, const part_t *part, ptrdiff_t width, columns_t columns)
{
    for (int64_t slot = 0; slot < rows->n_slots; slot++) {
        const float *sums = rows->sums + slot * 2 * width + columns.first;
        row_take(part, width, rows->slots[slot], sums, sums + width, 1.0f, columns);
    }
}

static inline void team_change_side(
    const model_t *model, names_t *names, const objects_t *objects, int plain, names_t *rows,
    const part_t *part, columns_t columns)
{
    if (plain) {
        rows_change(names, part, model->width, columns);
        return;
    }
    names_empty(rows, model->width, columns);
    team_share(model, names, objects, 0, rows, part, columns);
    rows_change(rows, part, model->width, columns);
}

static inline void team_change_contexts(team_t *team, columns_t columns)
{
    const model_t *model = team->model;
    ptrdiff_t half = model->width;
    names_empty(&team->rows_S, model->width, columns);
    team_share(
        model, &team->queries, &model->contexts, half, &team->rows_S, &model->S, columns);
    team_share(
        model, &team->documents, &model->documents, half, &team->rows_S, &model->S, columns);
    rows_change(&team->rows_S, &model->S, model->width, columns);
}

/* The part of a thread's columns that lies in one half. */
static inline columns_t columns_within(columns_t columns, ptrdiff_t from, ptrdiff_t to)
{
    ptrdiff_t first = columns.first > from ? columns.first : from;
    ptrdiff_t last = columns.first + columns.n < to ? columns.first + columns.n : to;
    return (columns_t){first - from, last > first ? last - first : 0, columns.rate};
}

/* --- biases --------------------------------------------------------------------------------- */

LANES_INLINE void bias_take(const part_t *part, int64_t row, float y, float q, float rate)
{
    if (part->squares) {
        part->squares[row] += q;
        part->rows[row] -= (rate * y) / sqrtf(part->squares[row]);
    } else {
        part->rows[row] -= y;
    }
}

/* Gradients, or sums of them, of an object or a row. */
LANES_INLINE void bias_add(
    const names_t *names, int64_t name, const part_t *part, float y, float q, float rate)
{
    uint32_t slot = (uint32_t)names->marks[name];
    if (slot == NAMED_ONCE) {
        bias_take(part, name, y, q, rate);
        return;
    }
    names->bias_sums[2 * (int64_t)slot] += y;
    names->bias_sums[2 * (int64_t)slot + 1] += q;
}

static inline void bias_empty(names_t *names)
{
    for (int64_t i = 0; i < 2 * names->n_slots; i++)
        names->bias_sums[i] = -0.0f;
}

static inline void team_change_biases(team_t *team, const steps_t *steps, float rate)
{
    const model_t *model = team->model;
    const objects_t *objects = &model->documents;
    names_t *documents = &team->documents, *rows = documents;
    bias_empty(documents);
    for (int64_t i = 0; i < steps->n; i++)
        if (steps_move(steps, i))
            for (int64_t at = steps->ptr[i]; at < steps->ptr[i + 1]; at++) {
                float s = steps->slopes[at];
                bias_add(documents, steps->documents[at], &model->biases, s, s * s, rate);
            }
    if (!model->plain_documents) {
        rows = &team->rows_V;
        bias_empty(rows);
        for (int64_t i = 0; i < documents->n; i++) {
            int64_t object = documents->order[i], stop = objects_start(objects, object + 1);
            const float *sums = documents->bias_sums + 2 * i;
            for (int64_t at = objects_start(objects, object); at < stop; at++) {
                float x = objects_value(objects, at);
                bias_add(
                    rows, objects_index(objects, at), &model->biases, x * sums[0],
                    (x * x) * sums[1], rate);
            }
        }
    }
    for (int64_t slot = 0; slot < rows->n_slots; slot++)
        bias_take(
            &model->biases, rows->slots[slot], rows->bias_sums[2 * slot],
            rows->bias_sums[2 * slot + 1], rate);
}

/* --- a block -------------------------------------------------------------------------------- */

/* Shrink a thread's share of the rows that were named. */
static inline void rows_project(
    const team_t *team, const names_t *rows, const part_t *part, float rate, int turn, int crew)
{
    ptrdiff_t width = team->model->width;
    float shrink = 1.0f / (1.0f + team->l2 * rate), most = team->max_norm * team->max_norm;
    for (int64_t i = rows->n * turn / crew; i < rows->n * (turn + 1) / crew; i++) {
        float *vector = part->rows + rows->order[i] * width, square;
        if (team->l2 > 0.0f)
            wide_scale(vector, shrink, width);
        if (!(team->max_norm > 0.0f))
            continue;
        square = wide_dot(vector, vector, width);
        if (square > most)
            wide_scale(vector, team->max_norm / sqrtf(square), width);
    }
}

static inline void team_project(team_t *team, float rate, int turn, int crew)
{
    const model_t *model = team->model;
    const names_t *U = model->plain_queries ? &team->queries : &team->rows_U;
    const names_t *V = model->plain_documents ? &team->documents : &team->rows_V;
    crew_meet(&team->meeting, crew);
    rows_project(team, U, &model->U, rate, turn, crew);
    rows_project(team, V, &model->V, rate, turn, crew);
    if (model->with_contexts)
        rows_project(team, &team->rows_S, &model->S, rate, turn, crew);
}

/* One thread's part of the steps of a block, whose vectors are composed. All have met before, and
 * have to meet after. */
static inline void team_update(
    team_t *team, const steps_t *steps, float rate, int64_t time, int turn, int crew)
{
    const model_t *model = team->model;
    ptrdiff_t parts = model->whole / 8, width = model->width;
    columns_t columns = {8 * (parts * turn / crew), 0, rate};
    columns.n = 8 * (parts * (turn + 1) / crew) - columns.first;
    team_name(team, steps, time, turn, crew);
    if (team->failed)
        return;
    names_empty(&team->queries, model->whole, columns);
    names_empty(&team->documents, model->whole, columns);
    team_sum(team, steps, team->pulls + turn * model->whole, columns);
    team_change_side(
        model, &team->queries, &model->queries, model->plain_queries, &team->rows_U, &model->U,
        columns_within(columns, 0, width));
    team_change_side(
        model, &team->documents, &model->documents, model->plain_documents, &team->rows_V,
        &model->V, columns_within(columns, 0, width));
    if (model->with_contexts)
        team_change_contexts(team, columns_within(columns, width, 2 * width));
    if (model->with_biases && turn == crew - 1)
        team_change_biases(team, steps, rate);
    if (team->l2 > 0.0f || team->max_norm > 0.0f)
        team_project(team, rate, turn, crew);
}

#endif
