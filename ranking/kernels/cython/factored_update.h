/* Taking the steps of a block: "Factored" in ranking/kernels/contract.py.
 *
 * A row has an owner, the one thread that changes it, so none waits for another. Rows change while
 * others still need them as they were: what a step reads of rows that objects have for themselves
 * is frozen after the search, when it is near. Such objects are listed, summed up and changed by
 * their owner at once. Where rows belong to features, one thread lists the objects of a side, all
 * sum them up, and then each shares the sums out among its own rows.
 *
 * What is mentioned once is changed at once, and needs no sums.
 */
#ifndef RANKING_FACTORED_UPDATE_H
#define RANKING_FACTORED_UPDATE_H

#include "crew.h"
#include "draw.h"
#include "factored_model.h"

#define PLACES 8 /* that a thread takes at a time */
#define NOWHERE UINT32_MAX

typedef struct {
    int64_t n;
    const int64_t *queries, *ptr, *documents;
    const float *slopes;
} steps_t;

/* Steps that a thread found not to be zero; each thread's is in a line of the cache of its own. */
typedef struct {
    uint32_t *steps;
    int64_t n, other[6];
} moving_t;

/* Where a step mentions an object; for a query that is the step itself. */
typedef struct {
    uint32_t at, step, next;
} mention_t;

/* Objects that a block mentions, in the order of their first mentions. */
typedef struct {
    int64_t *marks; /* by object: the time of its mention << 32 | its place here */
    int64_t *names;
    uint32_t *firsts, *lasts; /* mentions */
    mention_t *mentions;
    int64_t n, n_mentions;
} listed_t;

/* An entry of a row that a thread owns: the place of the object, and where its value is. */
typedef struct {
    uint32_t object, row;
    int64_t at;
} entry_t;

/* Rows of features that a thread owns and a block changes. */
typedef struct {
    int64_t *marks; /* by row: the time << 32 | its slot, or NOWHERE if it is mentioned once */
    entry_t *entries;
    int64_t n, room;
    int64_t *slots; /* who has the slot */
    float *sums, *bias_sums; /* by slot: of gradients, then of their squares */
    int64_t n_slots, slot_room;
} shared_rows_t;

/* Queries or documents. */
typedef struct {
    const objects_t *objects;
    const part_t *part, *biases; /* biases are NULL if there are none */
    int plain;
    listed_t *listed; /* one a thread if they are plain, else one */
    float *sums, *bias_sums; /* of composed objects, by place: of gradients, then of squares */
    int64_t room;
    int64_t *cuts; /* the rows of thread t are cuts[t] to cuts[t + 1] */
    shared_rows_t *rows; /* one a thread */
} side_t;

/* What threads that meet share while they take the steps of a block. */
typedef struct {
    const model_t *model;
    near_t *near; /* one a thread */
    side_t queries, documents;
    int64_t *context_cuts; /* of S */
    shared_rows_t *context_rows;
    uint32_t *moving_steps;
    moving_t *moving; /* one a thread */
    float *frozen_queries, *frozen_pulls; /* by step, of plain objects */
    float *scratch; /* three vectors a thread */
    float max_norm, l2;
    int crew;
    crew_meeting_t meeting;
    int failed; /* there was no memory */
} team_t;

/* --- room ----------------------------------------------------------------------------------- */

static inline int compare_rows(const void *one, const void *other)
{
    int64_t a = *(const int64_t *)one, b = *(const int64_t *)other;
    return (a > b) - (a < b);
}

/* Cut rows so that threads have about as much to do, judged by some entries. An entry that is the
 * only one of its row costs as much as four: the row has to be changed for it. */
static inline int64_t *cut_rows(
    rooms_t *rooms, const objects_t *one, const objects_t *other, int64_t n_rows, int crew)
{
    enum { SAMPLE = 4096, OFTEN = 4, ALONE = 4 };
    int64_t *cuts = rooms_take(rooms, crew + 1, sizeof(int64_t), 1);
    int64_t *sample = rooms_take(rooms, 2 * SAMPLE, sizeof(int64_t), 0), *costs = sample + SAMPLE;
    int64_t n_one = objects_start(one, one->n), total = 0;
    int64_t n = n_one + (other ? objects_start(other, other->n) : 0);
    if (!cuts || !sample)
        return NULL;
    cuts[crew] = n_rows;
    if (crew == 1 || n == 0)
        return cuts;
    for (int64_t i = 0; i < SAMPLE; i++) {
        int64_t at = draw_below(0, (uint64_t)i, n < UINT32_MAX ? n : UINT32_MAX);
        sample[i] = at < n_one ? objects_index(one, at) : objects_index(other, at - n_one);
    }
    qsort(sample, SAMPLE, sizeof(int64_t), compare_rows);
    for (int64_t first = 0, last = 0; first < SAMPLE; first = last) {
        while (last < SAMPLE && sample[last] == sample[first])
            last++;
        for (int64_t i = first; i < last; i++)
            costs[i] = total += last - first < OFTEN ? ALONE : 1;
    }
    for (int64_t i = 0, next = 1; i < SAMPLE && next < crew; i++)
        for (; next < crew && costs[i] * crew >= total * next; next++)
            cuts[next] = sample[i];
    return cuts;
}

static inline void listed_open(
    listed_t *listed, rooms_t *rooms, int64_t *marks, int64_t n, int64_t mentions)
{
    int64_t most = mentions < n ? mentions : n;
    listed->marks = marks;
    listed->names = rooms_take(rooms, most, sizeof(int64_t), 0);
    listed->firsts = rooms_take(rooms, most, sizeof(uint32_t), 0);
    listed->lasts = rooms_take(rooms, most, sizeof(uint32_t), 0);
    /* One more, which is written but does not count. */
    listed->mentions = rooms_take(rooms, mentions + 1, sizeof(mention_t), 0);
}

static inline shared_rows_t *shared_rows_open(rooms_t *rooms, int64_t n_rows, int crew)
{
    shared_rows_t *rows = rooms_take(rooms, crew, sizeof(shared_rows_t), 1);
    int64_t *marks = rooms_take(rooms, n_rows, sizeof(int64_t), 1);
    for (int i = 0; rows && i < crew; i++)
        rows[i].marks = marks;
    return rows;
}

static inline void shared_rows_close(shared_rows_t *rows, int crew)
{
    for (int i = 0; rows && i < crew; i++) {
        free(rows[i].entries);
        free(rows[i].slots);
        free(rows[i].sums);
        free(rows[i].bias_sums);
    }
}

static inline void side_open(
    side_t *side, rooms_t *rooms, const objects_t *objects, const part_t *part, int plain,
    int64_t mentions, int crew)
{
    int n_listed = plain ? crew : 1;
    int64_t *marks = rooms_take(rooms, objects->n, sizeof(int64_t), 1);
    side->objects = objects;
    side->part = part;
    side->plain = plain;
    side->listed = rooms_take(rooms, n_listed, sizeof(listed_t), 1);
    for (int i = 0; side->listed && i < n_listed; i++)
        listed_open(side->listed + i, rooms, marks, objects->n, mentions);
    if (!plain) {
        side->cuts = cut_rows(rooms, objects, NULL, part->n, crew);
        side->rows = shared_rows_open(rooms, part->n, crew);
    }
}

static inline void side_close(side_t *side, int crew)
{
    free(side->sums);
    free(side->bias_sums);
    shared_rows_close(side->rows, crew);
}

/* For blocks of so many steps, which mention so many documents, and compose so many vectors. */
static inline void team_open(
    team_t *team, rooms_t *rooms, const model_t *model, int64_t steps, int64_t mentions,
    int64_t looks, int crew)
{
    int64_t n_queries = model->queries.n, n_documents = model->documents.n;
    memset(team, 0, sizeof *team);
    team->model = model;
    team->crew = crew;
    side_open(
        &team->queries, rooms, &model->queries, &model->U, model->plain_queries, steps, crew);
    side_open(
        &team->documents, rooms, &model->documents, &model->V, model->plain_documents, mentions,
        crew);
    if (model->with_biases)
        team->documents.biases = &model->biases;
    if (model->plain_queries)
        team->frozen_queries = rooms_take(rooms, steps * model->whole, sizeof(float), 0);
    if (model->plain_documents)
        team->frozen_pulls = rooms_take(rooms, steps * model->whole, sizeof(float), 0);
    team->near = rooms_take(rooms, crew, sizeof(near_t), 1);
    for (int i = 0; team->near && i < crew; i++) {
        near_t *near = team->near + i, *first = team->near;
        if (first->queries.all)
            near->queries = first->queries;
        else if (!model->plain_queries)
            kept_open(&near->queries, rooms, n_queries, steps, steps, model->whole);
        if (first->documents.all)
            near->documents = first->documents;
        else if (!model->plain_documents)
            kept_open(&near->documents, rooms, n_documents, mentions, looks, model->whole);
    }
    if (model->with_contexts) {
        team->context_cuts = cut_rows(
            rooms, &model->contexts, &model->documents, model->S.n, crew);
        team->context_rows = shared_rows_open(rooms, model->S.n, crew);
    }
    team->moving_steps = rooms_take(rooms, steps, sizeof(uint32_t), 0);
    team->moving = rooms_take(rooms, crew, sizeof(moving_t), 1);
    team->scratch = rooms_take(rooms, crew * 3 * model->whole, sizeof(float), 0);
}

static inline void team_close(team_t *team)
{
    side_close(&team->queries, team->crew);
    side_close(&team->documents, team->crew);
    shared_rows_close(team->context_rows, team->crew);
}

/* Room for so many; what was there is lost. */
static inline void *renew(void *old, int64_t count, size_t size)
{
    free(old);
    return malloc((size_t)(count + 1) * size);
}

/* --- what a step reads ---------------------------------------------------------------------- */

LANES_INLINE int steps_move(const steps_t *steps, int64_t i)
{
    for (int64_t at = steps->ptr[i]; at < steps->ptr[i + 1]; at++)
        if (steps->slopes[at] != 0.0f)
            return 1;
    return 0;
}


/* The gradient of a step's query: the sum of slope times document. */
LANES_INLINE void step_pull(
    const model_t *model, near_t *near, const steps_t *steps, int64_t i, float *out)
{
    int64_t at = steps->ptr[i], stop = steps->ptr[i + 1];
    const int64_t *documents = steps->documents;
    const float *slopes = steps->slopes;
    const float *one = model_document(model, &near->documents, documents[at]).vector;
    ptrdiff_t whole = model->whole;
    if (stop - at == 1) {
        memcpy(out, one, (size_t)whole * sizeof(float));
        wide_scale(out, slopes[at], whole);
        return;
    }
    wide_mix(
        out, one, slopes[at], model_document(model, &near->documents, documents[at + 1]).vector,
        slopes[at + 1], whole);
    for (at += 2; at < stop; at++)
        wide_add(
            out, model_document(model, &near->documents, documents[at]).vector, slopes[at], whole);
}

/* One thread's part of the vectors of all objects, some in turn. */
static inline void team_compose(const team_t *team, int turn, int crew)
{
    enum { SOME = 64 };
    const model_t *model = team->model;
    const kept_t *queries = &team->near->queries, *documents = &team->near->documents;
    int64_t n_queries = queries->all ? model->queries.n : 0;
    int64_t n_documents = documents->all ? model->documents.n : 0;
    for (int64_t from = turn * SOME; from < n_queries; from += crew * SOME)
        for (int64_t i = from; i < from + SOME && i < n_queries; i++)
            kept_query(model, queries, i, i);
    for (int64_t from = turn * SOME; from < n_documents; from += crew * SOME)
        for (int64_t i = from; i < from + SOME && i < n_documents; i++)
            kept_document(model, documents, i, i);
}

/* Begin with the steps from `first` on, those of one thread. */
static inline moving_t *team_begin(
    team_t *team, int64_t first, int64_t time, int turn, int crew)
{
    near_t *near = team->near + turn;
    moving_t *moving = team->moving + turn;
    kept_begin(&near->queries, time);
    kept_begin(&near->documents, time);
    moving->steps = team->moving_steps + first;
    moving->n = 0;
    if (near->queries.all || near->documents.all) {
        team_compose(team, turn, crew);
        crew_meet(&team->meeting, crew);
    }
    return moving;
}

/* Note step i if it is not zero, and keep what it reads of rows that the block changes. */
LANES_INLINE void team_freeze(
    const team_t *team, near_t *near, const steps_t *steps, int64_t i, moving_t *moving)
{
    const model_t *model = team->model;
    ptrdiff_t whole = model->whole;
    if (!steps_move(steps, i))
        return;
    moving->steps[moving->n++] = (uint32_t)i;
    if (model->plain_queries)
        memcpy(
            team->frozen_queries + i * whole, model->U.rows + steps->queries[i] * whole,
            (size_t)whole * sizeof(float));
    if (model->plain_documents)
        step_pull(model, near, steps, i, team->frozen_pulls + i * whole);
}

/* A gradient is c times a vector. */
typedef struct {
    const float *vector;
    float c;
} gradient_t;

/* That of a mention; a step's pull may need a vector of room. */
LANES_INLINE gradient_t team_gradient(
    const team_t *team, near_t *near, const side_t *side, const steps_t *steps,
    const mention_t *mention, float *room)
{
    const model_t *model = team->model;
    ptrdiff_t whole = model->whole;
    gradient_t made = {room, 1.0f};
    int64_t step = mention->step;
    if (side == &team->documents) {
        made.c = steps->slopes[mention->at];
        made.vector = model->plain_queries
            ? team->frozen_queries + step * whole
            : model_query(model, &near->queries, steps->queries[step]);
    } else if (model->plain_documents)
        made.vector = team->frozen_pulls + step * whole;
    else
        step_pull(model, near, steps, step, room);
    return made;
}

/* --- who is mentioned ----------------------------------------------------------------------- */

/* Who changes the row of a plain object: threads take turns, a line of biases each. */
LANES_INLINE int owner_of(int64_t object, int crew)
{
    uint32_t mixed = (uint32_t)(object >> 4) * UINT32_C(0x9E3779B1);
    return (int)(((uint64_t)mixed * (uint64_t)crew) >> 32);
}

/* Note a mention; it counts if the object's owner is asked for. The loop has no branch that
 * depends on that, as nobody could predict it. */
LANES_INLINE void listed_note(
    listed_t *listed, int64_t object, int64_t at, int64_t step, int turn, int crew)
{
    listed->mentions[listed->n_mentions] = (mention_t){(uint32_t)at, (uint32_t)step, NOWHERE};
    listed->n_mentions += crew == 1 || owner_of(object, crew) == turn;
}

/* Chain the mentions of each object, again without branches. */
static inline void listed_chain(listed_t *listed, const int64_t *objects, int64_t time)
{
    mention_t *mentions = listed->mentions;
    int64_t n = 0, none = listed->n_mentions;
    for (int64_t i = 0; i < none; i++) {
        int64_t object = objects[mentions[i].at], mark = listed->marks[object];
        int is_new = mark >> 32 != time;
        uint32_t place = is_new ? (uint32_t)n : (uint32_t)mark;
        uint32_t before = listed->lasts[place], first = listed->firsts[place];
        mentions[is_new ? (uint32_t)none : before].next = (uint32_t)i;
        listed->firsts[place] = is_new ? (uint32_t)i : first;
        listed->lasts[place] = (uint32_t)i;
        listed->names[place] = object;
        listed->marks[object] = time << 32 | place;
        n += is_new;
    }
    listed->n = n;
}

/* List the queries, or the documents, that a thread owns. */
static inline void team_list(
    const team_t *team, const side_t *side, const steps_t *steps, listed_t *listed, int64_t time,
    int turn, int crew)
{
    int of_documents = side == &team->documents;
    listed->n_mentions = 0;
    for (int by = 0; by < team->crew; by++)
        for (int64_t k = 0; k < team->moving[by].n; k++) {
            int64_t i = team->moving[by].steps[k];
            if (!of_documents) {
                listed_note(listed, steps->queries[i], i, i, turn, crew);
                continue;
            }
            for (int64_t at = steps->ptr[i]; at < steps->ptr[i + 1]; at++)
                listed_note(listed, steps->documents[at], at, i, turn, crew);
        }
    listed_chain(listed, of_documents ? steps->documents : steps->queries, time);
}

/* --- rows ----------------------------------------------------------------------------------- */

/* Shrink a row that has changed. */
LANES_INLINE void row_project(const team_t *team, float *row, float rate)
{
    ptrdiff_t width = team->model->width;
    float square;
    if (team->l2 > 0.0f)
        wide_scale(row, 1.0f / (1.0f + team->l2 * rate), width);
    if (!(team->max_norm > 0.0f))
        return;
    square = wide_dot(row, row, width);
    if (square > team->max_norm * team->max_norm)
        wide_scale(row, team->max_norm / sqrtf(square), width);
}

/* A row takes x times sums of gradients, and x x times those of squares. */
LANES_INLINE void row_take(
    const team_t *team, const part_t *part, int64_t row, const float *gradients,
    const float *squares, float x, float rate)
{
    ptrdiff_t width = team->model->width, at = row * width;
    if (part->squares)
        wide_take_adagrad(
            part->rows + at, part->squares + at, gradients, squares, x, rate, width);
    else
        wide_step(part->rows + at, gradients, x, width);
    row_project(team, part->rows + at, rate);
}

/* A row takes one gradient. */
LANES_INLINE void row_step(
    const team_t *team, const part_t *part, int64_t row, gradient_t gradient, float rate)
{
    ptrdiff_t width = team->model->width, at = row * width;
    if (part->squares)
        wide_adagrad(
            part->rows + at, part->squares + at, gradient.vector, gradient.c, rate, width);
    else
        wide_step(part->rows + at, gradient.vector, gradient.c, width);
    row_project(team, part->rows + at, rate);
}

LANES_INLINE void bias_take(const part_t *part, int64_t row, const float *sums, float rate)
{
    if (part->squares) {
        part->squares[row] += sums[1];
        part->rows[row] -= (rate * sums[0]) / sqrtf(part->squares[row]);
    } else {
        part->rows[row] -= sums[0];
    }
}

/* Add up the gradients of the object at a place. */
static inline void object_sum(
    const team_t *team, near_t *near, const side_t *side, const steps_t *steps,
    const listed_t *listed, int64_t place, float *sums, float *room)
{
    ptrdiff_t whole = team->model->whole;
    wide_empty(sums, 2 * whole);
    for (uint32_t i = listed->firsts[place]; i != NOWHERE; i = listed->mentions[i].next) {
        gradient_t y = team_gradient(team, near, side, steps, listed->mentions + i, room);
        if (side->part->squares)
            wide_gather(sums, sums + whole, y.vector, y.c, whole);
        else
            wide_add(sums, y.vector, y.c, whole);
    }
}

static inline void object_bias_sum(
    const steps_t *steps, const listed_t *listed, int64_t place, float *sums)
{
    sums[0] = sums[1] = -0.0f;
    for (uint32_t i = listed->firsts[place]; i != NOWHERE; i = listed->mentions[i].next) {
        float slope = steps->slopes[listed->mentions[i].at];
        sums[0] += slope;
        sums[1] += slope * slope;
    }
}

/* Change the rows of plain objects that a thread owns. */
static inline void team_change_plain(
    const team_t *team, near_t *near, const side_t *side, const steps_t *steps,
    const listed_t *listed, float rate, float *scratch)
{
    ptrdiff_t whole = team->model->whole;
    const part_t *part = side->part;
    float *room = scratch, *sums = scratch + whole, bias_sums[2];
    for (int64_t place = 0; place < listed->n; place++) {
        int64_t object = listed->names[place];
        const mention_t *first = listed->mentions + listed->firsts[place];
        if (place + 4 < listed->n) {
            wide_ask_to_write(part->rows + listed->names[place + 4] * whole, whole);
            if (part->squares)
                wide_ask_to_write(part->squares + listed->names[place + 4] * whole, whole);
        }
        if (first->next == NOWHERE) {
            row_step(
                team, part, object, team_gradient(team, near, side, steps, first, room), rate);
        } else {
            object_sum(team, near, side, steps, listed, place, sums, room);
            row_take(team, part, object, sums, sums + whole, 1.0f, rate);
        }
        if (side->biases) {
            object_bias_sum(steps, listed, place, bias_sums);
            bias_take(side->biases, object, bias_sums, rate);
        }
    }
}

/* --- rows of features ----------------------------------------------------------------------- */

/* One thread's part of the sums of composed objects: some places in turn, for those that are
 * mentioned first are mentioned often. */
static inline void side_sum(
    const team_t *team, const side_t *side, const steps_t *steps, int turn, int crew, float *room)
{
    const listed_t *listed = side->listed;
    for (int64_t place = 0; place < listed->n; place++) {
        if (place / PLACES % crew != turn) {
            place += PLACES - 1;
            continue;
        }
        object_sum(
            team, team->near + turn, side, steps, listed, place,
            side->sums + place * 2 * team->model->whole, room);
        if (side->biases)
            object_bias_sum(steps, listed, place, side->bias_sums + 2 * place);
    }
}

/* Make room for the sums of all that are listed. */
static inline int side_reserve(side_t *side, ptrdiff_t whole)
{
    int64_t n = side->listed->n;
    if (n <= side->room)
        return 1;
    side->room = n + n / 2;
    side->sums = renew(side->sums, side->room * 2 * whole, sizeof(float));
    side->bias_sums = renew(side->bias_sums, side->room * 2, sizeof(float));
    return side->sums && side->bias_sums;
}

/* List the entries of objects in rows first to last, and mark the rows; 0 if there is no room. */
static inline int rows_list(
    shared_rows_t *rows, const objects_t *objects, const listed_t *listed, int64_t first,
    int64_t last, int64_t time)
{
    int64_t most = rows->n + 1, from = rows->n;
    for (int64_t place = 0; place < listed->n; place++)
        most += objects_start(objects, listed->names[place] + 1)
                - objects_start(objects, listed->names[place]);
    if (most > rows->room) {
        entry_t *more = realloc(rows->entries, (size_t)(most + most / 2) * sizeof(entry_t));
        if (!more)
            return 0;
        rows->entries = more;
        rows->room = most + most / 2;
    }
    for (int64_t place = 0; place < listed->n; place++) {
        int64_t stop = objects_start(objects, listed->names[place] + 1);
        for (int64_t at = objects_start(objects, listed->names[place]); at < stop; at++) {
            int64_t row = objects_index(objects, at);
            rows->entries[rows->n] = (entry_t){(uint32_t)place, (uint32_t)row, at};
            rows->n += (row >= first) & (row < last);
        }
    }
    for (int64_t i = from; i < rows->n; i++) {
        int64_t *mark = rows->marks + rows->entries[i].row;
        if (*mark >> 32 != time)
            *mark = time << 32 | NOWHERE;
        else if ((uint32_t)*mark == NOWHERE)
            *mark = time << 32 | rows->n_slots++;
    }
    return 1;
}

/* Empty sums for all slots; 0 if there is no room. */
static inline int rows_reserve(shared_rows_t *rows, ptrdiff_t width)
{
    int64_t n = rows->n_slots;
    if (n > rows->slot_room) {
        rows->slot_room = n + n / 2;
        rows->slots = renew(rows->slots, rows->slot_room, sizeof(int64_t));
        rows->sums = renew(rows->sums, rows->slot_room * 2 * width, sizeof(float));
        rows->bias_sums = renew(rows->bias_sums, rows->slot_room * 2, sizeof(float));
        if (!rows->slots || !rows->sums || !rows->bias_sums)
            return 0;
    }
    wide_empty(rows->sums, n * 2 * width);
    for (int64_t i = 0; i < 2 * n; i++)
        rows->bias_sums[i] = -0.0f;
    return 1;
}

/* Share out the sums of objects, from entry `from` on, among the rows of their features. The
 * vectors' half begins at `half`. */
static inline void rows_share(
    const team_t *team, shared_rows_t *rows, const side_t *side, const objects_t *objects,
    int64_t from, ptrdiff_t half, const part_t *part, const part_t *biases, float rate)
{
    ptrdiff_t width = team->model->width, whole = team->model->whole;
    for (int64_t i = from; i < rows->n; i++) {
        entry_t entry = rows->entries[i];
        uint32_t slot = (uint32_t)rows->marks[entry.row];
        float x = objects_value(objects, entry.at), square = x * x;
        const float *sums = side->sums + (int64_t)entry.object * 2 * whole + half;
        const float *own = side->bias_sums + 2 * (int64_t)entry.object;
        float bias[2] = {x * own[0], square * own[1]};
        if (slot == NOWHERE) {
            row_take(team, part, entry.row, sums, sums + whole, x, rate);
            if (biases)
                bias_take(biases, entry.row, bias, rate);
            continue;
        }
        rows->slots[slot] = entry.row;
        wide_add(rows->sums + (int64_t)slot * 2 * width, sums, x, width);
        if (part->squares)
            wide_add(rows->sums + ((int64_t)slot * 2 + 1) * width, sums + whole, square, width);
        rows->bias_sums[2 * (int64_t)slot] += bias[0];
        rows->bias_sums[2 * (int64_t)slot + 1] += bias[1];
    }
}

/* Change the rows that have slots. */
static inline void rows_change(
    const team_t *team, const shared_rows_t *rows, const part_t *part, const part_t *biases,
    float rate)
{
    ptrdiff_t width = team->model->width;
    for (int64_t slot = 0; slot < rows->n_slots; slot++) {
        const float *sums = rows->sums + slot * 2 * width;
        row_take(team, part, rows->slots[slot], sums, sums + width, 1.0f, rate);
        if (biases)
            bias_take(biases, rows->slots[slot], rows->bias_sums + 2 * slot, rate);
    }
}

/* Change the rows of a side's features that a thread owns; 0 if there is no room. */
static inline int side_change(
    const team_t *team, const side_t *side, float rate, int64_t time, int turn)
{
    shared_rows_t *rows = side->rows + turn;
    rows->n = rows->n_slots = 0;
    if (!rows_list(
            rows, side->objects, side->listed, side->cuts[turn], side->cuts[turn + 1], time)
        || !rows_reserve(rows, team->model->width))
        return 0;
    rows_share(team, rows, side, side->objects, 0, 0, side->part, side->biases, rate);
    rows_change(team, rows, side->part, side->biases, rate);
    return 1;
}

/* The same of S, which has the queries' contexts first. */
static inline int team_change_contexts(team_t *team, float rate, int64_t time, int turn)
{
    const model_t *model = team->model;
    const objects_t *contexts = &model->contexts, *documents = &model->documents;
    shared_rows_t *rows = team->context_rows + turn;
    int64_t first = team->context_cuts[turn], last = team->context_cuts[turn + 1], middle, all;
    rows->n = rows->n_slots = 0;
    if (!rows_list(rows, contexts, team->queries.listed, first, last, time))
        return 0;
    middle = rows->n;
    if (!rows_list(rows, documents, team->documents.listed, first, last, time)
        || !rows_reserve(rows, model->width))
        return 0;
    all = rows->n;
    rows->n = middle;
    rows_share(team, rows, &team->queries, contexts, 0, model->width, &model->S, NULL, rate);
    rows->n = all;
    rows_share(
        team, rows, &team->documents, documents, middle, model->width, &model->S, NULL, rate);
    rows_change(team, rows, &model->S, NULL, rate);
    return 1;
}

/* --- a block -------------------------------------------------------------------------------- */

static inline void team_fail(team_t *team)
{
    __atomic_store_n(&team->failed, 1, __ATOMIC_RELAXED);
}

/* Composed objects: list a side, unless it is another thread's turn. */
static inline void team_list_composed(
    team_t *team, side_t *side, const steps_t *steps, int64_t time, int here)
{
    if (side->plain || !here)
        return;
    team_list(team, side, steps, side->listed, time, 0, 1);
    if (!side_reserve(side, team->model->whole))
        team_fail(team);
}

static inline void team_update_composed(
    team_t *team, const steps_t *steps, float rate, int64_t time, int turn, int crew)
{
    side_t *sides[2] = {&team->queries, &team->documents};
    float *room = team->scratch + turn * 3 * team->model->whole;
    team_list_composed(team, sides[0], steps, time, turn == 0);
    team_list_composed(team, sides[1], steps, time, turn == crew - 1);
    crew_meet(&team->meeting, crew);
    if (team->failed)
        return;
    for (int i = 0; i < 2; i++)
        if (!sides[i]->plain)
            side_sum(team, sides[i], steps, turn, crew, room);
    crew_meet(&team->meeting, crew);
    for (int i = 0; i < 2; i++)
        if (!sides[i]->plain && !side_change(team, sides[i], rate, time, turn))
            team_fail(team);
    if (team->model->with_contexts && !team_change_contexts(team, rate, time, turn))
        team_fail(team);
}

/* One thread's part of the steps of a block, which are frozen, or whose vectors are composed. All
 * have met before, and have to meet after. */
static inline void team_update(
    team_t *team, const steps_t *steps, float rate, int64_t time, int turn, int crew)
{
    side_t *sides[2] = {&team->queries, &team->documents};
    float *scratch = team->scratch + turn * 3 * team->model->whole;
    for (int i = 0; i < 2; i++)
        if (sides[i]->plain) {
            listed_t *listed = sides[i]->listed + turn;
            team_list(team, sides[i], steps, listed, time, turn, crew);
            team_change_plain(
                team, team->near + turn, sides[i], steps, listed, rate, scratch);
        }
    if (!sides[0]->plain || !sides[1]->plain)
        team_update_composed(team, steps, rate, time, turn, crew);
}

#endif
