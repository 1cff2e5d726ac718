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

static void own_sums(sums_t *sums, arena_t *arena)
{
    arena_own(arena, &sums->rows);
    arena_own(arena, &sums->biases);
}

/* Make sure that n sums fit; 0 without memory. */
static int reserve_sums(sums_t *sums, int64_t n, ptrdiff_t width)
{
    return buffer_reserve(&sums->rows, n, 2 * (size_t)width * sizeof(float))
           && buffer_reserve(&sums->biases, n, 2 * sizeof(float));
}

static feature_rows_t *open_feature_rows(arena_t *arena, int64_t n_features, int n_threads)
{
    feature_rows_t *rows = ARENA_CALLOC(arena, n_threads, feature_rows_t);
    int64_t *marks = ARENA_CALLOC(arena, n_features, int64_t);
    for (int i = 0; rows && i < n_threads; i++) {
        rows[i].marks = marks;
        arena_own(arena, &rows[i].entries);
        arena_own(arena, &rows[i].features);
        own_sums(&rows[i].sums, arena);
    }
    return rows;
}

static void open_side(side_t *side, arena_t *arena, int64_t n_uses, int n_threads)
{
    const factored_side_t *of = side->of;
    int n_used = of->plain ? n_threads : 1;
    int64_t n_rows = of->features.n_rows;
    int64_t *slots = ARENA_CALLOC(arena, n_rows, int64_t);
    side->used = ARENA_CALLOC(arena, n_used, used_rows_t);
    for (int i = 0; side->used && i < n_used; i++)
        open_used(side->used + i, arena, slots, n_rows, n_uses);
    if (!of->plain) {
        own_sums(&side->sums, arena);
        side->bounds = partition_rows(arena, &of->features, NULL, of->factor.n_rows, n_threads);
        side->rows = open_feature_rows(arena, of->factor.n_rows, n_threads);
    }
}

/* Open the caches of a side; that of all rows is shared. */
static void open_caches(
    block_update_t *update, arena_t *arena, int s, int64_t least, int64_t most)
{
    const factored_side_t *of = update->model->sides + s;
    for (int i = 0; update->caches && !of->plain && i < update->n_threads; i++) {
        embedding_cache_t *cache = update->caches[i].sides + s, *first = update->caches->sides + s;
        if (first->all)
            *cache = *first;
        else
            cache_open(
                cache, arena, of->features.n_rows, least, most, update->model->full_width);
    }
}

void update_open(
    block_update_t *update, arena_t *arena, const factored_model_t *model, block_size_t size,
    int n_threads)
{
    const ptrdiff_t width = model->full_width;
    const factored_side_t *queries = model->sides + QUERIES, *documents = model->sides + DOCUMENTS;
    *update = (block_update_t){
        .model = model, .n_threads = n_threads,
        .sides = {{.of = queries}, {.of = documents, .is_documents = 1}}};
    open_side(update->sides + QUERIES, arena, size.steps, n_threads);
    open_side(update->sides + DOCUMENTS, arena, size.documents, n_threads);
    update->caches = ARENA_CALLOC(arena, n_threads, thread_caches_t);
    open_caches(update, arena, QUERIES, size.steps, size.steps);
    open_caches(update, arena, DOCUMENTS, size.documents, size.reads);
    if (queries->plain)
        update->query_copies = ARENA_ALLOC(arena, size.steps * width, float);
    if (documents->plain)
        update->query_gradients = ARENA_ALLOC(arena, size.steps * width, float);
    if (model->has_contexts) {
        update->context_bounds = partition_rows(
            arena, &queries->contexts, &documents->contexts, model->S.n_rows, n_threads);
        update->context_rows = open_feature_rows(arena, model->S.n_rows, n_threads);
    }
    update->active_memory = ARENA_ALLOC(arena, size.steps, uint32_t);
    update->active = ARENA_CALLOC(arena, n_threads, active_steps_t);
    update->scratch = ARENA_ALLOC(arena, n_threads * 3 * width, float);
}

/* --- what a step reads ---------------------------------------------------------------------- */

LANES_INLINE int is_active(const factored_steps_t *steps, int64_t i)
{
    for (int64_t at = steps->ptr[i]; at < steps->ptr[i + 1]; at++)
        if (steps->slopes[at] != 0.0f)
            return 1;
    return 0;
}

/* Compute `chunks` vectors, from number `first` on, of the gradient of a step's query: the sum of
 * slope times document. */
LANES_INLINE void query_gradient_part(
    const factored_model_t *model, thread_caches_t *caches, const factored_steps_t *steps,
    int64_t i, ptrdiff_t first, float *out, const int chunks)
{
    const int64_t *documents = steps->documents;
    const float *slopes = steps->slopes;
    int64_t at = steps->ptr[i], stop = steps->ptr[i + 1];
    const float *v = embedding_of(model, caches, DOCUMENTS, documents[at]).vector + first;
    float8_t sums[4];
    for (int k = 0; k < chunks; k++)
        sums[k] = float8_splat(slopes[at]) * float8_load(v + 8 * k);
    for (at++; at < stop; at++) {
        v = embedding_of(model, caches, DOCUMENTS, documents[at]).vector + first;
        for (int k = 0; k < chunks; k++)
            sums[k] += float8_splat(slopes[at]) * float8_load(v + 8 * k);
    }
    for (int k = 0; k < chunks; k++)
        float8_store(out + first + 8 * k, sums[k]);
}

LANES_INLINE void query_gradient(
    const factored_model_t *model, thread_caches_t *caches, const factored_steps_t *steps,
    int64_t i, float *out)
{
    ptrdiff_t width = model->full_width, first = 0;
    for (; first + 32 <= width; first += 32)
        query_gradient_part(model, caches, steps, i, first, out, 4);
    for (; first + 16 <= width; first += 16)
        query_gradient_part(model, caches, steps, i, first, out, 2);
    for (; first < width; first += 8)
        query_gradient_part(model, caches, steps, i, first, out, 1);
}

/* Compose one thread's part of the embeddings of all rows. */
static void compose_all(const block_update_t *update, int thread, int n_threads)
{
    enum { CHUNK = 64 };
    for (int s = 0; s < 2; s++) {
        const embedding_cache_t *cache = update->caches->sides + s;
        int64_t n = cache->all ? update->model->sides[s].features.n_rows : 0;
        for (int64_t from = thread * CHUNK; from < n; from += n_threads * CHUNK)
            for (int64_t i = from; i < from + CHUNK && i < n; i++)
                compose_row(update->model, s, cache, i, i);
    }
}

void update_begin(const worker_t *worker, int64_t first)
{
    block_update_t *update = worker->shared;
    thread_caches_t *caches = update->caches + worker->thread;
    active_steps_t *active = update->active + worker->thread;
    for (int s = 0; s < 2; s++)
        cache_invalidate(caches->sides + s, worker->stamp);
    active->steps = update->active_memory + first;
    active->n = 0;
    if (caches->sides[QUERIES].all || caches->sides[DOCUMENTS].all) {
        compose_all(update, worker->thread, worker->n_threads);
        barrier_wait(&update->barrier, worker->n_threads);
    }
}

void update_copy(const worker_t *worker, int64_t first, int64_t last)
{
    const block_update_t *update = worker->shared;
    const factored_model_t *model = update->model;
    const factored_steps_t *steps = worker->steps;
    const factored_side_t *queries = model->sides + QUERIES;
    active_steps_t *active = update->active + worker->thread;
    ptrdiff_t width = model->full_width;
    for (int64_t i = first; i < last; i++) {
        if (!is_active(steps, i))
            continue;
        active->steps[active->n++] = (uint32_t)i;
        if (queries->plain)
            memcpy(
                update->query_copies + i * width,
                queries->factor.rows + steps->queries[i] * width, (size_t)width * sizeof(float));
        if (model->sides[DOCUMENTS].plain)
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

/* Return the gradient of a use. That of a query may be computed in `buffer`: `chunks` vectors from
 * number `first` on, or all if `chunks` is 0. */
LANES_INLINE gradient_t use_gradient(
    const worker_t *worker, const side_t *side, const use_t *use, float *buffer, ptrdiff_t first,
    const int chunks)
{
    const block_update_t *update = worker->shared;
    const factored_model_t *model = update->model;
    thread_caches_t *caches = update->caches + worker->thread;
    ptrdiff_t width = model->full_width;
    gradient_t out = {buffer, 1.0f};
    int64_t step = use->step;
    if (side->is_documents) {
        out.c = worker->steps->slopes[use->at];
        out.vector = model->sides[QUERIES].plain
            ? update->query_copies + step * width
            : embedding_of(model, caches, QUERIES, worker->steps->queries[step]).vector;
    } else if (model->sides[DOCUMENTS].plain)
        out.vector = update->query_gradients + step * width;
    else if (chunks)
        query_gradient_part(model, caches, worker->steps, step, first, buffer, chunks);
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
    if (!(penalty->max_norm > 0.0f))
        return;
    square = float8_dot(row, row, width);
    if (square > penalty->max_norm * penalty->max_norm)
        float8_scale(row, penalty->max_norm / sqrtf(square), width);
}

/* Change a row by x times a gradient; AdaGrad takes x x times the sum of its squares or, if that is
 * NULL, the square of what changes the row. */
LANES_INLINE void change_row(
    const worker_t *worker, const factor_t *factor, int64_t row, gradient_t by,
    const float *squares)
{
    ptrdiff_t width = worker->shared->model->width, at = row * width;
    if (factor->squares && worker->shared->penalty.rowwise)
        float8_adagrad_row(
            factor->rows + at, factor->squares + at, by.vector, squares, by.c,
            worker->learning_rate, width);
    else if (factor->squares)
        float8_adagrad(
            factor->rows + at, factor->squares + at, by.vector, squares, by.c,
            worker->learning_rate, width);
    else
        float8_step(factor->rows + at, by.vector, by.c, width);
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

/* Add up `chunks` vectors, from number `first` on, of the gradients of the row in a slot, and of
 * their squares; and those of the bias. */
LANES_INLINE void sum_gradients_part(
    const worker_t *worker, const side_t *side, const used_rows_t *used, int64_t slot, float *sums,
    float *bias_sums, ptrdiff_t first, const int chunks)
{
    ptrdiff_t width = worker->shared->model->full_width;
    int squares = side->of->factor.squares != NULL;
    float bias = -0.0f, bias_square = -0.0f;
    float *buffer = worker->shared->scratch + worker->thread * 3 * width;
    float8_t totals[8];
    for (int k = 0; k < 2 * chunks; k++)
        totals[k] = float8_splat(-0.0f);
    for (uint32_t i = used->firsts[slot]; i != END; i = used->uses[i].next) {
        gradient_t y
            = use_gradient(worker, side, used->uses + i, buffer, first, chunks);
        for (int k = 0; k < chunks; k++) {
            float8_t part = float8_splat(y.c) * float8_load(y.vector + first + 8 * k);
            totals[k] += part;
            totals[chunks + k] += part * part;
        }
        bias += y.c;
        bias_square += y.c * y.c;
    }
    for (int k = 0; k < chunks; k++) {
        float8_store(sums + first + 8 * k, totals[k]);
        if (squares)
            float8_store(sums + width + first + 8 * k, totals[chunks + k]);
    }
    bias_sums[0] = bias;
    bias_sums[1] = bias_square;
}

/* Add up the gradients of the row in a slot and of its bias, and with AdaGrad their squares. */
static void sum_gradients(
    const worker_t *worker, const side_t *side, const used_rows_t *used, int64_t slot, float *sums,
    float *bias_sums)
{
    ptrdiff_t width = worker->shared->model->full_width, first = 0;
    for (; first + 32 <= width; first += 32)
        sum_gradients_part(worker, side, used, slot, sums, bias_sums, first, 4);
    for (; first + 16 <= width; first += 16)
        sum_gradients_part(worker, side, used, slot, sums, bias_sums, first, 2);
    for (; first < width; first += 8)
        sum_gradients_part(worker, side, used, slot, sums, bias_sums, first, 1);
}

/* Change the plain rows that this thread owns. */
static void change_plain(const worker_t *worker, const side_t *side, const used_rows_t *used)
{
    enum { AHEAD = 4 };
    ptrdiff_t width = worker->shared->model->full_width;
    const factor_t *factor = &side->of->factor, *biases = &side->of->biases;
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
            gradient_t y = use_gradient(worker, side, first, buffer, 0, 0);
            change_row(worker, factor, row, y, NULL);
            bias_sums[0] = y.c;
            bias_sums[1] = y.c * y.c;
        } else {
            sum_gradients(worker, side, used, slot, sums, bias_sums);
            change_row(worker, factor, row, (gradient_t){sums, 1.0f}, sums + width);
        }
        if (biases->n_rows)
            change_bias(worker, biases, row, bias_sums);
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
    float *sums = side->sums.rows.data, *bias_sums = side->sums.biases.data;
    for (int64_t slot = 0; slot < used->n; slot++) {
        if (slot / CHUNK % worker->n_threads != worker->thread) {
            slot += CHUNK - 1;
            continue;
        }
        sum_gradients(
            worker, side, used, slot, sums + slot * 2 * width, bias_sums + 2 * slot);
    }
}

/* A factor that the sums of a side change, by features of the side; which half of the sums. */
typedef struct {
    const side_t *side;
    const csr_t *features;
    const factor_t *factor, *biases; /* no biases: NULL */
    ptrdiff_t half;
    int64_t first, last; /* entries */
} target_t;

/* List the entries of used rows whose features are in `bounds`, and mark these features; 0 without
 * memory. */
static int list_entries(
    feature_rows_t *rows, target_t *to, const int64_t *bounds, int64_t stamp)
{
    const used_rows_t *used = to->side->used;
    int64_t first = bounds[0], last = bounds[1], most = rows->n + 1;
    entry_t *entries;
    for (int64_t slot = 0; slot < used->n; slot++)
        most += feature_start(to->features, used->rows[slot] + 1)
                - feature_start(to->features, used->rows[slot]);
    if (!buffer_reserve(&rows->entries, most, sizeof(entry_t)))
        return 0;
    entries = rows->entries.data;
    to->first = rows->n;
    for (int64_t slot = 0; slot < used->n; slot++) {
        int64_t stop = feature_start(to->features, used->rows[slot] + 1);
        for (int64_t at = feature_start(to->features, used->rows[slot]); at < stop; at++) {
            int64_t feature = feature_column(to->features, at);
            entries[rows->n] = (entry_t){(uint32_t)slot, (uint32_t)feature, at};
            rows->n += (feature >= first) & (feature < last);
        }
    }
    to->last = rows->n;
    for (int64_t i = to->first; i < to->last; i++) {
        int64_t *mark = rows->marks + entries[i].feature;
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
    float *biases;
    if (!buffer_reserve(&rows->features, n, sizeof(int64_t))
        || !reserve_sums(&rows->sums, n, width))
        return 0;
    float8_clear(rows->sums.rows.data, n * 2 * width);
    biases = rows->sums.biases.data;
    for (int64_t i = 0; i < 2 * n; i++)
        biases[i] = -0.0f;
    return 1;
}

/* Distribute the sums of used rows to the rows of their features. */
static void distribute(const worker_t *worker, feature_rows_t *rows, const target_t *to)
{
    const factored_model_t *model = worker->shared->model;
    const ptrdiff_t width = model->width, full = model->full_width;
    const float *side_sums = to->side->sums.rows.data, *side_biases = to->side->sums.biases.data;
    const entry_t *entries = rows->entries.data;
    float *row_sums = rows->sums.rows.data, *bias_sums = rows->sums.biases.data;
    for (int64_t i = to->first; i < to->last; i++) {
        entry_t entry = entries[i];
        uint32_t sum = (uint32_t)rows->marks[entry.feature];
        float x = feature_value(to->features, entry.at), square = x * x;
        const float *sums = side_sums + (int64_t)entry.slot * 2 * full + to->half;
        const float *own = side_biases + 2 * (int64_t)entry.slot;
        float bias[2] = {x * own[0], square * own[1]};
        if (sum == NO_SUM) {
            change_row(worker, to->factor, entry.feature, (gradient_t){sums, x}, sums + full);
            if (to->biases)
                change_bias(worker, to->biases, entry.feature, bias);
            continue;
        }
        ((int64_t *)rows->features.data)[sum] = entry.feature;
        float8_add(row_sums + (int64_t)sum * 2 * width, sums, x, width);
        if (to->factor->squares)
            float8_add(row_sums + ((int64_t)sum * 2 + 1) * width, sums + full, square, width);
        bias_sums[2 * (int64_t)sum] += bias[0];
        bias_sums[2 * (int64_t)sum + 1] += bias[1];
    }
}

/* Change the rows of a factor, whose features `bounds` are this thread's, by one or two sides; 0
 * without memory. */
static int change_features(
    const worker_t *worker, feature_rows_t *rows, const int64_t *bounds, target_t *targets, int n)
{
    ptrdiff_t width = worker->shared->model->width;
    const int64_t *features;
    rows->n = rows->n_sums = 0;
    for (int i = 0; i < n; i++)
        if (!list_entries(rows, targets + i, bounds, worker->stamp))
            return 0;
    if (!clear_sums(rows, width))
        return 0;
    for (int i = 0; i < n; i++)
        distribute(worker, rows, targets + i);
    features = rows->features.data;
    for (int64_t i = 0; i < rows->n_sums; i++) {
        const float *sums = (const float *)rows->sums.rows.data + i * 2 * width;
        const float *biases = (const float *)rows->sums.biases.data + 2 * i;
        change_row(worker, targets->factor, features[i], (gradient_t){sums, 1.0f}, sums + width);
        if (targets->biases)
            change_bias(worker, targets->biases, features[i], biases);
    }
    return 1;
}

static int change_side(const worker_t *worker, const side_t *side)
{
    const factored_side_t *of = side->of;
    const factor_t *biases = of->biases.n_rows ? &of->biases : NULL;
    target_t target = {side, &of->features, &of->factor, biases, 0, 0, 0};
    return change_features(
        worker, side->rows + worker->thread, side->bounds + worker->thread, &target, 1);
}

/* Change the rows of S: first by the queries' contexts, then by documents. */
static int change_contexts(const worker_t *worker)
{
    const block_update_t *update = worker->shared;
    target_t targets[2];
    for (int s = 0; s < 2; s++)
        targets[s] = (target_t){
            update->sides + s, &update->model->sides[s].contexts, &update->model->S, NULL,
            update->model->width, 0, 0};
    return change_features(
        worker, update->context_rows + worker->thread, update->context_bounds + worker->thread,
        targets, 2);
}

/* --- a block -------------------------------------------------------------------------------- */

static void fail(block_update_t *update)
{
    __atomic_store_n(&update->failed, 1, __ATOMIC_RELAXED);
}

/* List the rows of a side that is not plain. */
static void list_side(const worker_t *worker, side_t *side)
{
    if (side->of->plain)
        return;
    list_used(worker, side, side->used, 0, 1);
    if (!reserve_sums(&side->sums, side->used->n, worker->shared->model->full_width))
        fail(worker->shared);
}

static void apply_composed(const worker_t *worker)
{
    block_update_t *update = worker->shared;
    if (worker->thread == 0)
        list_side(worker, update->sides + QUERIES);
    if (worker->thread == worker->n_threads - 1)
        list_side(worker, update->sides + DOCUMENTS);
    barrier_wait(&update->barrier, worker->n_threads);
    if (update->failed)
        return;
    for (int s = 0; s < 2; s++)
        if (!update->model->sides[s].plain)
            sum_side(worker, update->sides + s);
    barrier_wait(&update->barrier, worker->n_threads);
    for (int s = 0; s < 2; s++)
        if (!update->model->sides[s].plain && !change_side(worker, update->sides + s))
            fail(update);
    if (update->model->has_contexts && !change_contexts(worker))
        fail(update);
}

void update_apply(const worker_t *worker)
{
    block_update_t *update = worker->shared;
    const factored_side_t *sides = update->model->sides;
    for (int s = 0; s < 2; s++)
        if (sides[s].plain) {
            used_rows_t *used = update->sides[s].used + worker->thread;
            list_used(worker, update->sides + s, used, worker->thread, worker->n_threads);
            change_plain(worker, update->sides + s, used);
        }
    if (!sides[QUERIES].plain || !sides[DOCUMENTS].plain)
        apply_composed(worker);
}
