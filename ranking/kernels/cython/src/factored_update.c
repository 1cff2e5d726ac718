#include "factored_update.h"

#include <stdlib.h>

#define NO_SUM UINT32_MAX
#define END UINT32_MAX /* of a linked list */

/* --- memory --------------------------------------------------------------------------------- */

static int compare_rows(const void *one, const void *other)
{
    int64_t a = *(const int64_t *)one, b = *(const int64_t *)other;
    return (a > b) - (a < b);
}

/* Partition rows so that threads have similar work, estimated from a sample of entries. The only
 * entry of a row costs as much as four others, because the row has to be changed for it. */
static int64_t *partition_rows(
    arena_t *arena, const csr_t *one, const csr_t *other, int64_t n_rows, int n_threads)
{
    enum { SAMPLE = 4096, OFTEN = 4, SINGLE_COST = 4 };
    int64_t *bounds = ARENA_CALLOC(arena, n_threads + 1, int64_t);
    int64_t *sample = ARENA_ALLOC(arena, 2 * SAMPLE, int64_t), *costs = sample + SAMPLE;
    int64_t n_one = feature_start(one, one->n_rows), total = 0;
    int64_t n = n_one + (other ? feature_start(other, other->n_rows) : 0);
    if (!bounds || !sample)
        return NULL;
    bounds[n_threads] = n_rows;
    if (n_threads == 1 || n == 0)
        return bounds;
    for (int64_t i = 0; i < SAMPLE; i++) {
        int64_t at = random_below(0, (uint64_t)i, n < UINT32_MAX ? n : UINT32_MAX);
        sample[i] = at < n_one ? feature_column(one, at) : feature_column(other, at - n_one);
    }
    qsort(sample, SAMPLE, sizeof(int64_t), compare_rows);
    for (int64_t first = 0, last = 0; first < SAMPLE; first = last) {
        while (last < SAMPLE && sample[last] == sample[first])
            last++;
        for (int64_t i = first; i < last; i++)
            costs[i] = total += last - first < OFTEN ? SINGLE_COST : 1;
    }
    for (int64_t i = 0, next = 1; i < SAMPLE && next < n_threads; i++)
        for (; next < n_threads && costs[i] * n_threads >= total * next; next++)
            bounds[next] = sample[i];
    return bounds;
}

static void open_used(
    used_rows_t *used, arena_t *arena, int64_t *slots, int64_t n_rows, int64_t n_uses)
{
    int64_t most = n_uses < n_rows ? n_uses : n_rows;
    used->slots = slots;
    used->rows = ARENA_ALLOC(arena, most, int64_t);
    used->firsts = ARENA_ALLOC(arena, most, uint32_t);
    used->lasts = ARENA_ALLOC(arena, most, uint32_t);
    used->uses = ARENA_ALLOC(arena, n_uses + 1, use_t); /* one more is written, not read */
}

static feature_rows_t *open_feature_rows(arena_t *arena, int64_t n_features, int n_threads)
{
    feature_rows_t *rows = ARENA_CALLOC(arena, n_threads, feature_rows_t);
    int64_t *marks = ARENA_CALLOC(arena, n_features, int64_t);
    for (int i = 0; rows && i < n_threads; i++)
        rows[i].marks = marks;
    return rows;
}

static void close_feature_rows(feature_rows_t *rows, int n_threads)
{
    for (int i = 0; rows && i < n_threads; i++) {
        free(rows[i].entries);
        free(rows[i].features);
        free(rows[i].sums);
        free(rows[i].bias_sums);
    }
}

static void open_side(side_t *side, arena_t *arena, int64_t n_uses, int n_threads)
{
    int n_used = side->plain ? n_threads : 1;
    int64_t n_rows = side->features->n_rows;
    int64_t *slots = ARENA_CALLOC(arena, n_rows, int64_t);
    side->used = ARENA_CALLOC(arena, n_used, used_rows_t);
    for (int i = 0; side->used && i < n_used; i++)
        open_used(side->used + i, arena, slots, n_rows, n_uses);
    if (!side->plain) {
        side->bounds
            = partition_rows(arena, side->features, NULL, side->factor->n_rows, n_threads);
        side->rows = open_feature_rows(arena, side->factor->n_rows, n_threads);
    }
}

static void close_side(side_t *side, int n_threads)
{
    free(side->sums);
    free(side->bias_sums);
    close_feature_rows(side->rows, n_threads);
}

static void open_caches(block_update_t *update, arena_t *arena, block_size_t size)
{
    const factored_model_t *model = update->model;
    update->caches = ARENA_CALLOC(arena, update->n_threads, thread_caches_t);
    for (int i = 0; update->caches && i < update->n_threads; i++) {
        thread_caches_t *caches = update->caches + i, *first = update->caches;
        if (first->queries.all)
            caches->queries = first->queries;
        else if (!model->plain_queries)
            cache_open(
                &caches->queries, arena, model->queries.n_rows, size.steps, size.steps,
                model->full_width);
        if (first->documents.all)
            caches->documents = first->documents;
        else if (!model->plain_documents)
            cache_open(
                &caches->documents, arena, model->documents.n_rows, size.documents, size.reads,
                model->full_width);
    }
}

void update_open(
    block_update_t *update, arena_t *arena, const factored_model_t *model, block_size_t size,
    int n_threads)
{
    const ptrdiff_t width = model->full_width;
    const factor_t *biases = model->has_biases ? &model->biases : NULL;
    *update = (block_update_t){.model = model, .n_threads = n_threads};
    update->queries = (side_t){
        .features = &model->queries, .factor = &model->U, .plain = model->plain_queries};
    update->documents = (side_t){
        .features = &model->documents, .factor = &model->V, .biases = biases,
        .plain = model->plain_documents, .is_documents = 1};
    open_side(&update->queries, arena, size.steps, n_threads);
    open_side(&update->documents, arena, size.documents, n_threads);
    open_caches(update, arena, size);
    if (model->plain_queries)
        update->query_copies = ARENA_ALLOC(arena, size.steps * width, float);
    if (model->plain_documents)
        update->query_gradients = ARENA_ALLOC(arena, size.steps * width, float);
    if (model->has_contexts) {
        update->context_bounds = partition_rows(
            arena, &model->contexts, &model->documents, model->S.n_rows, n_threads);
        update->context_rows = open_feature_rows(arena, model->S.n_rows, n_threads);
    }
    update->active_memory = ARENA_ALLOC(arena, size.steps, uint32_t);
    update->active = ARENA_CALLOC(arena, n_threads, active_steps_t);
    update->scratch = ARENA_ALLOC(arena, n_threads * 3 * width, float);
}

void update_close(block_update_t *update)
{
    close_side(&update->queries, update->n_threads);
    close_side(&update->documents, update->n_threads);
    close_feature_rows(update->context_rows, update->n_threads);
}

/* Replace a buffer by one of `count` elements; its content is lost. */
static void *replace(void *old, int64_t count, size_t size)
{
    free(old);
    return malloc((size_t)(count + 1) * size);
}

/* --- what a step reads ---------------------------------------------------------------------- */

LANES_INLINE int is_active(const factored_steps_t *steps, int64_t i)
{
    for (int64_t at = steps->ptr[i]; at < steps->ptr[i + 1]; at++)
        if (steps->slopes[at] != 0.0f)
            return 1;
    return 0;
}

/* Compute the gradient of a step's query: the sum of slope times document. */
LANES_INLINE void query_gradient(
    const factored_model_t *model, thread_caches_t *caches, const factored_steps_t *steps,
    int64_t i, float *out)
{
    int64_t at = steps->ptr[i], stop = steps->ptr[i + 1];
    const int64_t *documents = steps->documents;
    const float *slopes = steps->slopes;
    embedding_cache_t *cache = &caches->documents;
    const float *one = document_embedding(model, cache, documents[at]).embedding, *other;
    ptrdiff_t width = model->full_width;
    if (stop - at == 1) {
        memcpy(out, one, (size_t)width * sizeof(float));
        float8_scale(out, slopes[at], width);
        return;
    }
    other = document_embedding(model, cache, documents[at + 1]).embedding;
    float8_combine(out, one, slopes[at], other, slopes[at + 1], width);
    for (at += 2; at < stop; at++)
        float8_add(
            out, document_embedding(model, cache, documents[at]).embedding, slopes[at], width);
}

/* Compose one thread's part of the embeddings of all rows. */
static void compose_all(const block_update_t *update, int thread, int n_threads)
{
    enum { CHUNK = 64 };
    const factored_model_t *model = update->model;
    const embedding_cache_t *queries = &update->caches->queries;
    const embedding_cache_t *documents = &update->caches->documents;
    int64_t n_queries = queries->all ? model->queries.n_rows : 0;
    int64_t n_documents = documents->all ? model->documents.n_rows : 0;
    for (int64_t from = thread * CHUNK; from < n_queries; from += n_threads * CHUNK)
        for (int64_t i = from; i < from + CHUNK && i < n_queries; i++)
            compose_query(model, queries, i, i);
    for (int64_t from = thread * CHUNK; from < n_documents; from += n_threads * CHUNK)
        for (int64_t i = from; i < from + CHUNK && i < n_documents; i++)
            compose_document(model, documents, i, i);
}

void update_begin(const worker_t *worker, int64_t first)
{
    block_update_t *update = worker->shared;
    thread_caches_t *caches = update->caches + worker->thread;
    active_steps_t *active = update->active + worker->thread;
    cache_invalidate(&caches->queries, worker->stamp);
    cache_invalidate(&caches->documents, worker->stamp);
    active->steps = update->active_memory + first;
    active->n = 0;
    if (caches->queries.all || caches->documents.all) {
        compose_all(update, worker->thread, worker->n_threads);
        barrier_wait(&update->barrier, worker->n_threads);
    }
}

void update_copy(const worker_t *worker, int64_t first, int64_t last)
{
    const block_update_t *update = worker->shared;
    const factored_model_t *model = update->model;
    const factored_steps_t *steps = worker->steps;
    active_steps_t *active = update->active + worker->thread;
    ptrdiff_t width = model->full_width;
    for (int64_t i = first; i < last; i++) {
        if (!is_active(steps, i))
            continue;
        active->steps[active->n++] = (uint32_t)i;
        if (model->plain_queries)
            memcpy(
                update->query_copies + i * width, model->U.rows + steps->queries[i] * width,
                (size_t)width * sizeof(float));
        if (model->plain_documents)
            query_gradient(
                model, update->caches + worker->thread, steps, i,
                update->query_gradients + i * width);
    }
}

/* A gradient is c times a vector. */
typedef struct {
    const float *vector;
    float c;
} gradient_t;

/* Return the gradient of a use; that of a query may be computed in `buffer`. */
LANES_INLINE gradient_t use_gradient(
    const worker_t *worker, const side_t *side, const use_t *use, float *buffer)
{
    const block_update_t *update = worker->shared;
    const factored_model_t *model = update->model;
    thread_caches_t *caches = update->caches + worker->thread;
    ptrdiff_t width = model->full_width;
    gradient_t out = {buffer, 1.0f};
    int64_t step = use->step;
    if (side->is_documents) {
        out.c = worker->steps->slopes[use->at];
        out.vector = model->plain_queries
            ? update->query_copies + step * width
            : query_embedding(model, &caches->queries, worker->steps->queries[step]);
    } else if (model->plain_documents)
        out.vector = update->query_gradients + step * width;
    else
        query_gradient(model, caches, worker->steps, step, buffer);
    return out;
}

/* --- which rows a block uses ---------------------------------------------------------------- */

/* The thread that changes a plain row. Sixteen rows, whose biases share a cache line, have the
 * same owner. */
LANES_INLINE int owner_of(int64_t row, int n_threads)
{
    uint32_t mixed = (uint32_t)(row >> 4) * UINT32_C(0x9E3779B1);
    return (int)(((uint64_t)mixed * (uint64_t)n_threads) >> 32);
}

/* Append a use; it counts if `thread` owns the row. This has no unpredictable branch. */
LANES_INLINE void add_use(used_rows_t *used, int64_t row, use_t use, int thread, int n_threads)
{
    used->uses[used->n_uses] = use;
    used->n_uses += n_threads == 1 || owner_of(row, n_threads) == thread;
}

/* Link the uses of each row, again without branches. */
static void link_uses(used_rows_t *used, const int64_t *rows, int64_t stamp)
{
    use_t *uses = used->uses;
    int64_t n = 0, end = used->n_uses;
    for (int64_t i = 0; i < end; i++) {
        int64_t row = rows[uses[i].at], mark = used->slots[row];
        int is_new = mark >> 32 != stamp;
        uint32_t slot = is_new ? (uint32_t)n : (uint32_t)mark;
        uint32_t last = used->lasts[slot], first = used->firsts[slot];
        uses[is_new ? (uint32_t)end : last].next = (uint32_t)i;
        used->firsts[slot] = is_new ? (uint32_t)i : first;
        used->lasts[slot] = (uint32_t)i;
        used->rows[slot] = row;
        used->slots[row] = stamp << 32 | slot;
        n += is_new;
    }
    used->n = n;
}

/* List the queries, or the documents, that one of `n_threads` threads owns. */
static void list_used(
    const worker_t *worker, const side_t *side, used_rows_t *used, int thread, int n_threads)
{
    const factored_steps_t *steps = worker->steps;
    const block_update_t *update = worker->shared;
    used->n_uses = 0;
    for (int t = 0; t < update->n_threads; t++)
        for (int64_t k = 0; k < update->active[t].n; k++) {
            uint32_t i = update->active[t].steps[k];
            if (!side->is_documents) {
                add_use(used, steps->queries[i], (use_t){i, i, END}, thread, n_threads);
                continue;
            }
            for (int64_t at = steps->ptr[i]; at < steps->ptr[i + 1]; at++)
                add_use(
                    used, steps->documents[at], (use_t){(uint32_t)at, i, END}, thread, n_threads);
        }
    link_uses(used, side->is_documents ? steps->documents : steps->queries, worker->stamp);
}

/* --- changes of rows ------------------------------------------------------------------------ */

/* Apply the penalty to a row that has changed. */
LANES_INLINE void shrink_row(const worker_t *worker, float *row)
{
    const row_penalty_t *penalty = &worker->shared->penalty;
    ptrdiff_t width = worker->shared->model->width;
    float square;
    if (penalty->l2 > 0.0f)
        float8_scale(row, 1.0f / (1.0f + penalty->l2 * worker->learning_rate), width);
    if (!(penalty->max_norm > 0.0f))
        return;
    square = float8_dot(row, row, width);
    if (square > penalty->max_norm * penalty->max_norm)
        float8_scale(row, penalty->max_norm / sqrtf(square), width);
}

/* Change a row by x times summed gradients, and x x times the sums of their squares. */
LANES_INLINE void change_row(
    const worker_t *worker, const factor_t *factor, int64_t row, const float *gradients,
    const float *squares, float x)
{
    ptrdiff_t width = worker->shared->model->width, at = row * width;
    if (factor->squares)
        float8_adagrad_summed(
            factor->rows + at, factor->squares + at, gradients, squares, x,
            worker->learning_rate, width);
    else
        float8_step(factor->rows + at, gradients, x, width);
    shrink_row(worker, factor->rows + at);
}

/* Change a row by one gradient. */
LANES_INLINE void change_row_once(
    const worker_t *worker, const factor_t *factor, int64_t row, gradient_t gradient)
{
    ptrdiff_t width = worker->shared->model->width, at = row * width;
    if (factor->squares)
        float8_adagrad(
            factor->rows + at, factor->squares + at, gradient.vector, gradient.c,
            worker->learning_rate, width);
    else
        float8_step(factor->rows + at, gradient.vector, gradient.c, width);
    shrink_row(worker, factor->rows + at);
}

LANES_INLINE void change_bias(
    const worker_t *worker, const factor_t *factor, int64_t row, const float *sums)
{
    if (factor->squares) {
        factor->squares[row] += sums[1];
        factor->rows[row] -= (worker->learning_rate * sums[0]) / sqrtf(factor->squares[row]);
    } else {
        factor->rows[row] -= sums[0];
    }
}

/* Add up the gradients of the row in a slot. */
static void sum_gradients(
    const worker_t *worker, const side_t *side, const used_rows_t *used, int64_t slot, float *sums,
    float *buffer)
{
    ptrdiff_t width = worker->shared->model->full_width;
    float8_clear(sums, 2 * width);
    for (uint32_t i = used->firsts[slot]; i != END; i = used->uses[i].next) {
        gradient_t y = use_gradient(worker, side, used->uses + i, buffer);
        if (side->factor->squares)
            float8_add_squares(sums, sums + width, y.vector, y.c, width);
        else
            float8_add(sums, y.vector, y.c, width);
    }
}

static void sum_bias_gradients(
    const worker_t *worker, const used_rows_t *used, int64_t slot, float *sums)
{
    sums[0] = sums[1] = -0.0f;
    for (uint32_t i = used->firsts[slot]; i != END; i = used->uses[i].next) {
        float slope = worker->steps->slopes[used->uses[i].at];
        sums[0] += slope;
        sums[1] += slope * slope;
    }
}

/* Change the plain rows that this thread owns. */
static void change_plain(const worker_t *worker, const side_t *side, const used_rows_t *used)
{
    enum { AHEAD = 4 };
    ptrdiff_t width = worker->shared->model->full_width;
    const factor_t *factor = side->factor;
    float *buffer = worker->shared->scratch + worker->thread * 3 * width;
    float *sums = buffer + width, bias_sums[2];
    for (int64_t slot = 0; slot < used->n; slot++) {
        int64_t row = used->rows[slot];
        const use_t *first = used->uses + used->firsts[slot];
        if (slot + AHEAD < used->n) {
            int64_t next = used->rows[slot + AHEAD] * width;
            float8_prefetch_write(factor->rows + next, width);
            if (factor->squares)
                float8_prefetch_write(factor->squares + next, width);
        }
        if (first->next == END) {
            change_row_once(worker, factor, row, use_gradient(worker, side, first, buffer));
        } else {
            sum_gradients(worker, side, used, slot, sums, buffer);
            change_row(worker, factor, row, sums, sums + width, 1.0f);
        }
        if (side->biases) {
            sum_bias_gradients(worker, used, slot, bias_sums);
            change_bias(worker, side->biases, row, bias_sums);
        }
    }
}

/* --- rows of features ----------------------------------------------------------------------- */

/* Sum the gradients of this thread's slots. Chunks of slots are interleaved, because rows that are
 * used first are used often. */
static void sum_side(const worker_t *worker, const side_t *side)
{
    enum { CHUNK = 8 };
    const used_rows_t *used = side->used;
    ptrdiff_t width = worker->shared->model->full_width;
    float *buffer = worker->shared->scratch + worker->thread * 3 * width;
    for (int64_t slot = 0; slot < used->n; slot++) {
        if (slot / CHUNK % worker->n_threads != worker->thread) {
            slot += CHUNK - 1;
            continue;
        }
        sum_gradients(worker, side, used, slot, side->sums + slot * 2 * width, buffer);
        if (side->biases)
            sum_bias_gradients(worker, used, slot, side->bias_sums + 2 * slot);
    }
}

/* Reserve the sums of all slots; 0 without memory. */
static int reserve_side(side_t *side, ptrdiff_t width)
{
    int64_t n = side->used->n;
    if (n <= side->capacity)
        return 1;
    side->capacity = n + n / 2;
    side->sums = replace(side->sums, side->capacity * 2 * width, sizeof(float));
    side->bias_sums = replace(side->bias_sums, side->capacity * 2, sizeof(float));
    return side->sums && side->bias_sums;
}

/* Reserve entries for all used rows; 0 without memory. */
static int reserve_entries(feature_rows_t *rows, const csr_t *features, const used_rows_t *used)
{
    int64_t most = rows->n + 1;
    entry_t *entries;
    for (int64_t slot = 0; slot < used->n; slot++)
        most += feature_start(features, used->rows[slot] + 1)
                - feature_start(features, used->rows[slot]);
    if (most <= rows->capacity)
        return 1;
    entries = realloc(rows->entries, (size_t)(most + most / 2) * sizeof(entry_t));
    if (!entries)
        return 0;
    rows->entries = entries;
    rows->capacity = most + most / 2;
    return 1;
}

/* List the entries of used rows whose features are in `bounds`, and mark these features; 0 without
 * memory. */
static int list_entries(
    feature_rows_t *rows, const csr_t *features, const used_rows_t *used, const int64_t *bounds,
    int64_t stamp)
{
    int64_t first = bounds[0], last = bounds[1], from = rows->n;
    if (!reserve_entries(rows, features, used))
        return 0;
    for (int64_t slot = 0; slot < used->n; slot++) {
        int64_t stop = feature_start(features, used->rows[slot] + 1);
        for (int64_t at = feature_start(features, used->rows[slot]); at < stop; at++) {
            int64_t feature = feature_column(features, at);
            rows->entries[rows->n] = (entry_t){(uint32_t)slot, (uint32_t)feature, at};
            rows->n += (feature >= first) & (feature < last);
        }
    }
    for (int64_t i = from; i < rows->n; i++) {
        int64_t *mark = rows->marks + rows->entries[i].feature;
        if (*mark >> 32 != stamp)
            *mark = stamp << 32 | NO_SUM;
        else if ((uint32_t)*mark == NO_SUM)
            *mark = stamp << 32 | rows->n_sums++;
    }
    return 1;
}

/* Clear the sums of features that are used more than once; 0 without memory. */
static int clear_sums(feature_rows_t *rows, ptrdiff_t width)
{
    int64_t n = rows->n_sums;
    if (n > rows->sum_capacity) {
        rows->sum_capacity = n + n / 2;
        rows->features = replace(rows->features, rows->sum_capacity, sizeof(int64_t));
        rows->sums = replace(rows->sums, rows->sum_capacity * 2 * width, sizeof(float));
        rows->bias_sums = replace(rows->bias_sums, rows->sum_capacity * 2, sizeof(float));
        if (!rows->features || !rows->sums || !rows->bias_sums)
            return 0;
    }
    float8_clear(rows->sums, n * 2 * width);
    for (int64_t i = 0; i < 2 * n; i++)
        rows->bias_sums[i] = -0.0f;
    return 1;
}

/* Which factor the sums of a side change: its biases too, or none; which half of the sums. */
typedef struct {
    const side_t *side;
    const csr_t *features;
    const factor_t *factor, *biases;
    ptrdiff_t half;
} target_t;

/* Distribute the sums of used rows, for entries first to last, to the rows of their features. */
static void distribute(
    const worker_t *worker, feature_rows_t *rows, const target_t *to, int64_t first, int64_t last)
{
    const factored_model_t *model = worker->shared->model;
    const ptrdiff_t width = model->width, full = model->full_width;
    for (int64_t i = first; i < last; i++) {
        entry_t entry = rows->entries[i];
        uint32_t sum = (uint32_t)rows->marks[entry.feature];
        float x = feature_value(to->features, entry.at), square = x * x;
        const float *sums = to->side->sums + (int64_t)entry.slot * 2 * full + to->half;
        const float *own = to->side->bias_sums + 2 * (int64_t)entry.slot;
        float bias[2] = {x * own[0], square * own[1]};
        if (sum == NO_SUM) {
            change_row(worker, to->factor, entry.feature, sums, sums + full, x);
            if (to->biases)
                change_bias(worker, to->biases, entry.feature, bias);
            continue;
        }
        rows->features[sum] = entry.feature;
        float8_add(rows->sums + (int64_t)sum * 2 * width, sums, x, width);
        if (to->factor->squares)
            float8_add(rows->sums + ((int64_t)sum * 2 + 1) * width, sums + full, square, width);
        rows->bias_sums[2 * (int64_t)sum] += bias[0];
        rows->bias_sums[2 * (int64_t)sum + 1] += bias[1];
    }
}

/* Change the rows that have sums. */
static void change_summed(
    const worker_t *worker, const feature_rows_t *rows, const factor_t *factor,
    const factor_t *biases)
{
    ptrdiff_t width = worker->shared->model->width;
    for (int64_t i = 0; i < rows->n_sums; i++) {
        const float *sums = rows->sums + i * 2 * width;
        change_row(worker, factor, rows->features[i], sums, sums + width, 1.0f);
        if (biases)
            change_bias(worker, biases, rows->features[i], rows->bias_sums + 2 * i);
    }
}

/* Change the rows of a side's features that this thread owns; 0 without memory. */
static int change_side(const worker_t *worker, const side_t *side)
{
    feature_rows_t *rows = side->rows + worker->thread;
    target_t to = {side, side->features, side->factor, side->biases, 0};
    rows->n = rows->n_sums = 0;
    if (!list_entries(
            rows, side->features, side->used, side->bounds + worker->thread, worker->stamp)
        || !clear_sums(rows, worker->shared->model->width))
        return 0;
    distribute(worker, rows, &to, 0, rows->n);
    change_summed(worker, rows, side->factor, side->biases);
    return 1;
}

/* Change the rows of S that this thread owns: first by the queries' contexts, then by documents. */
static int change_contexts(const worker_t *worker)
{
    const block_update_t *update = worker->shared;
    const factored_model_t *model = update->model;
    const side_t *queries = &update->queries, *documents = &update->documents;
    const int64_t *bounds = update->context_bounds + worker->thread;
    feature_rows_t *rows = update->context_rows + worker->thread;
    target_t to_queries = {queries, &model->contexts, &model->S, NULL, model->width};
    target_t to_documents = {documents, &model->documents, &model->S, NULL, model->width};
    int64_t middle;
    rows->n = rows->n_sums = 0;
    if (!list_entries(rows, &model->contexts, queries->used, bounds, worker->stamp))
        return 0;
    middle = rows->n;
    if (!list_entries(rows, &model->documents, documents->used, bounds, worker->stamp)
        || !clear_sums(rows, model->width))
        return 0;
    distribute(worker, rows, &to_queries, 0, middle);
    distribute(worker, rows, &to_documents, middle, rows->n);
    change_summed(worker, rows, &model->S, NULL);
    return 1;
}

/* --- a block -------------------------------------------------------------------------------- */

static void fail(block_update_t *update)
{
    __atomic_store_n(&update->failed, 1, __ATOMIC_RELAXED);
}

/* List the rows of a side that is not plain. */
static void list_side(const worker_t *worker, side_t *side)
{
    if (side->plain)
        return;
    list_used(worker, side, side->used, 0, 1);
    if (!reserve_side(side, worker->shared->model->full_width))
        fail(worker->shared);
}

static void apply_composed(const worker_t *worker)
{
    block_update_t *update = worker->shared;
    side_t *sides[2] = {&update->queries, &update->documents};
    if (worker->thread == 0)
        list_side(worker, sides[0]);
    if (worker->thread == worker->n_threads - 1)
        list_side(worker, sides[1]);
    barrier_wait(&update->barrier, worker->n_threads);
    if (update->failed)
        return;
    for (int i = 0; i < 2; i++)
        if (!sides[i]->plain)
            sum_side(worker, sides[i]);
    barrier_wait(&update->barrier, worker->n_threads);
    for (int i = 0; i < 2; i++)
        if (!sides[i]->plain && !change_side(worker, sides[i]))
            fail(update);
    if (update->model->has_contexts && !change_contexts(worker))
        fail(update);
}

void update_apply(const worker_t *worker)
{
    block_update_t *update = worker->shared;
    side_t *sides[2] = {&update->queries, &update->documents};
    for (int i = 0; i < 2; i++)
        if (sides[i]->plain) {
            used_rows_t *used = sides[i]->used + worker->thread;
            list_used(worker, sides[i], used, worker->thread, worker->n_threads);
            change_plain(worker, sides[i], used);
        }
    if (!sides[0]->plain || !sides[1]->plain)
        apply_composed(worker);
}
