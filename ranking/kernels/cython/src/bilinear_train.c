/* Margins and steps of the bilinear model, by batches and on several threads. */
#include "bilinear_store.h"
#include "thread_team.h"

#define LANES 4
#define REBASE_WINDOW 4096.0
#define SMALLEST_SCALE 0x1p-64
#define HOGWILD_BLOCK 1024
#define MOST_SLOTS (1 << 20) /* remembered from reading a triplet's entries to writing them */

/* The buffers of a thread. */
typedef struct {
    sparse_vector_t query, positive, negative, difference;
    double *v;
    row_change_t change;
    int32_t *slots; /* of one row */
    int32_t *all_slots; /* of all entries of a triplet, by row */
    int64_t capacity; /* of all_slots */
} buffers_t;

/* What one thread works with. */
typedef struct {
    const bilinear_task_t *task;
    bilinear_store_t *store;
    shrinkage_state_t now;
    buffers_t *buffers;
    int thread, n_threads; /* changes the units (groups or rows) with unit % n_threads == thread */
    int locking; /* hogwild */
} worker_t;

typedef struct {
    const bilinear_task_t *task;
    shrinkage_state_t now;
    buffers_t *buffers; /* one per thread */
    int n_threads;
    int64_t start, stop; /* steps that the threads share */
    arena_t arena;
} run_t;

static worker_t worker_of(const run_t *run, int thread)
{
    return (worker_t){
        run->task, run->task->store, run->now, run->buffers + thread, thread, run->n_threads, 0};
}

/* --- sparse vectors ------------------------------------------------------------------------- */

LANES_INLINE void finish_vector(sparse_vector_t *vector)
{
    for (int32_t i = 0; i < vector->n; i++)
        vector->hashes[i] = row_hash(vector->indices[i]);
    for (int32_t i = vector->n; i < vector->n + LANES; i++)
        vector->values[i] = 0.0;
}

static void load_vector(const csr_t *from, int64_t row, sparse_vector_t *out)
{
    int64_t start = csr_start(from, row);
    out->n = (int32_t)(csr_start(from, row + 1) - start);
    for (int32_t i = 0; i < out->n; i++) {
        out->indices[i] = (int32_t)csr_column(from, start + i);
        out->values[i] = csr_value(from, start + i);
    }
    finish_vector(out);
}

/* Compute a - b, without entries that cancel. */
static void subtract(const sparse_vector_t *a, const sparse_vector_t *b, sparse_vector_t *out)
{
    int32_t i = 0, j = 0, n = 0;
    while (i < a->n || j < b->n) {
        if (j == b->n || (i < a->n && a->indices[i] < b->indices[j])) {
            out->indices[n] = a->indices[i];
            out->values[n] = a->values[i++];
        } else if (i == a->n || b->indices[j] < a->indices[i]) {
            out->indices[n] = b->indices[j];
            out->values[n] = 0.0 - b->values[j++];
        } else {
            out->indices[n] = a->indices[i];
            out->values[n] = a->values[i++] - b->values[j++];
        }
        n += out->values[n] != 0.0;
    }
    out->n = n;
    finish_vector(out);
}

static double sum_squares(const sparse_vector_t *vector)
{
    double total = 0.0;
    for (int32_t i = 0; i < vector->n; i++)
        total += vector->values[i] * vector->values[i];
    return total;
}

/* --- buffers -------------------------------------------------------------------------------- */

/* The most features of a row that columns first to last of the triplets name. */
static int64_t longest_row(
    const csr_t *features, const bilinear_task_t *task, int64_t first, int64_t last)
{
    int64_t most = 0;
    for (int64_t i = 0; i < task->n; i++)
        for (int64_t j = first; j < last; j++) {
            int64_t row = task->triplets[i * task->columns + j];
            int64_t size = csr_start(features, row + 1) - csr_start(features, row);
            most = size > most ? size : most;
        }
    return most;
}

static void open_vector(sparse_vector_t *vector, arena_t *arena, int64_t n)
{
    vector->indices = ARENA_ALLOC(arena, n + LANES, int32_t);
    vector->hashes = ARENA_ALLOC(arena, n + LANES, uint32_t);
    vector->values = ARENA_ALLOC(arena, n + LANES, double);
}

/* Open a run; `keep_slots` if triplets are searched and stepped at once. 0 without memory. */
static int open_run(run_t *run, const bilinear_task_t *task, int n_threads, int keep_slots)
{
    int64_t query = longest_row(&task->queries, task, 0, 1);
    int64_t document = longest_row(&task->documents, task, 1, task->columns);
    int64_t width = (query > 2 * document ? query : 2 * document) + LANES;
    arena_t *arena = &run->arena;
    *run = (run_t){.task = task, .now = *task->shrinkage, .n_threads = n_threads};
    run->buffers = ARENA_CALLOC(arena, n_threads, buffers_t);
    for (int i = 0; run->buffers && i < n_threads; i++) {
        buffers_t *own = run->buffers + i;
        open_vector(&own->query, arena, query);
        open_vector(&own->positive, arena, document);
        open_vector(&own->negative, arena, document);
        open_vector(&own->difference, arena, 2 * document);
        own->v = ARENA_ALLOC(arena, width, double);
        own->change.before = ARENA_ALLOC(arena, width, double);
        own->change.after = ARENA_ALLOC(arena, width, double);
        own->slots = ARENA_ALLOC(arena, width, int32_t);
        own->capacity = query * 2 * document < MOST_SLOTS ? query * 2 * document : MOST_SLOTS;
        own->capacity = keep_slots ? own->capacity : 0;
        own->all_slots = ARENA_ALLOC(arena, own->capacity, int32_t);
    }
    if (arena->failed) {
        arena_free(arena);
        return 0;
    }
    return 1;
}

/* Write back the shrinkage state. */
static int close_run(run_t *run)
{
    *run->task->shrinkage = run->now;
    arena_free(&run->arena);
    return 1;
}

static int threads_for(const bilinear_task_t *task)
{
    return task->n_threads < task->n ? task->n_threads : (int)task->n;
}

/* --- reading and changing W ----------------------------------------------------------------- */

/* Compute left' W right. If `keep`, store the slots of all entries. */
LANES_INLINE double score_as(
    const worker_t *worker, const sparse_vector_t *left, const sparse_vector_t *right, int keep,
    const int is64)
{
    const bilinear_store_t *store = worker->store;
    buffers_t *own = worker->buffers;
    double total = 0.0;
    memset(own->v + right->n, 0, LANES * sizeof(double));
    for (int32_t i = 0; i < left->n; i++) {
        int64_t row = left->indices[i];
        const sparse_row_t *from = store->rows + row;
        int32_t *slots = keep ? own->all_slots + (int64_t)i * right->n : own->slots;
        shrinkage_t at;
        if (worker->locking)
            row_lock(store->locks + unit_of(store, row));
        at = row_shrinkage(store, row, &worker->now);
        if (!worker->locking && i + 1 < left->n)
            row_prefetch(store->rows + left->indices[i + 1], right, is64);
        if (from->slots || keep)
            row_read(from, right, slots, own->v, is64);
        if (from->slots)
            total += left->values[i] * row_dot(own->v, right, at);
        if (worker->locking)
            row_unlock(store->locks + unit_of(store, row));
    }
    return total;
}

static double score(const worker_t *worker, const sparse_vector_t *document, int keep)
{
    const sparse_vector_t *left = &worker->buffers->query, *right = document;
    if (worker->task->transposed) {
        left = document;
        right = &worker->buffers->query;
    }
    return worker->store->is64 ? score_as(worker, left, right, keep, 1)
                               : score_as(worker, left, right, keep, 0);
}

/* Bring a row's shrinkage up to date before it changes; `known` slots may become invalid. */
LANES_INLINE shrinkage_t prepare_row(
    const worker_t *worker, int64_t row, double window, int *known)
{
    bilinear_store_t *store = worker->store;
    double *state = store->row_state + 3 * row;
    if (store->n_groups) {
        int64_t group = store->groups[row];
        store_apply(store, group, &worker->now);
        return (shrinkage_t){store->group_state[GROUP_STATE * group], 0.0};
    }
    if (state[2] != window) {
        const char *table = store->rows[row].table;
        store_rebase(store, row, &worker->now);
        state[2] = window;
        *known = *known && table == store->rows[row].table;
    }
    return row_shrinkage(store, row, &worker->now);
}

/* Subtract factor * left right' from the rows of W that this thread changes. */
LANES_INLINE void subtract_as(
    const worker_t *worker, const sparse_vector_t *left, const sparse_vector_t *right,
    double factor, int slots_known, const int is64)
{
    bilinear_store_t *store = worker->store;
    buffers_t *own = worker->buffers;
    double window = floor(worker->now.step / REBASE_WINDOW);
    memset(own->v + right->n, 0, LANES * sizeof(double));
    for (int32_t i = 0; i < left->n; i++) {
        int64_t row = left->indices[i], unit = unit_of(store, row);
        sparse_row_t *to = store->rows + row;
        int32_t *slots = own->slots;
        int known = slots_known;
        shrinkage_t at;
        if (worker->n_threads > 1 && unit % worker->n_threads != worker->thread)
            continue;
        if (worker->locking)
            row_lock(store->locks + unit);
        at = prepare_row(worker, row, window, &known);
        if (known) {
            slots = own->all_slots + (int64_t)i * right->n;
            row_read_slots(to, right, slots, own->v, is64);
        } else {
            row_read(to, right, slots, own->v, is64);
        }
        row_step(own->v, right, at, factor * left->values[i], worker->task->grow, own->change);
        if (!row_write(to, store->n_columns, right, slots, own->v, at.threshold, is64))
            store->failed = 1;
        if (store->n_groups)
            store_follow(store, unit, own->change, right->n);
        if (worker->locking)
            row_unlock(store->locks + unit);
    }
}

/* Rebase this thread's rows, so that scale and threshold can restart. */
static void restart(worker_t *worker)
{
    bilinear_store_t *store = worker->store;
    for (int64_t row = 0; row < store->n_rows; row++)
        if (unit_of(store, row) % worker->n_threads == worker->thread) {
            store_rebase(store, row, &worker->now);
            store->row_state[3 * row] = 1.0;
            store->row_state[3 * row + 1] = 0.0;
        }
    worker->now.scale = 1.0;
    worker->now.threshold = 0.0;
}

/* End a step: after every `prox_interval` steps, the penalty since the last time is applied. */
static void end_step(worker_t *worker, double learning_rate)
{
    const bilinear_task_t *task = worker->task;
    shrinkage_state_t *now = &worker->now;
    double sum;
    now->learning_rates += learning_rate;
    if (fmod(now->step, task->prox_interval) != 0.0)
        return;
    sum = now->learning_rates;
    now->learning_rates = 0.0;
    now->threshold += (task->l1 * sum) / now->scale;
    now->scale /= 1.0 + task->l2 * sum;
    if (now->scale < SMALLEST_SCALE)
        restart(worker);
}

/* --- one triplet ---------------------------------------------------------------------------- */

/* Whether slots are stored from reading to writing: not of large triplets, and not with groups, as
 * applying shrinkage may clear rows. */
static int keeps_slots(const worker_t *worker)
{
    const buffers_t *own = worker->buffers;
    if (worker->store->n_groups || worker->task->columns != 3)
        return 0;
    return (int64_t)own->query.n * own->difference.n <= own->capacity;
}

static double rank_weight(const bilinear_task_t *task, int64_t rank)
{
    return task->rank_weights[rank < task->n_ranks ? rank : task->n_ranks - 1];
}

/* Try negatives until one violates the margin. */
static void search_negatives(const worker_t *worker, int64_t step)
{
    const bilinear_task_t *task = worker->task;
    const int64_t *triplet = task->triplets + step * task->columns;
    buffers_t *own = worker->buffers;
    double high = score(worker, &own->positive, 0), margin = 0.0, weight = 0.0;
    for (int64_t trial = 1; trial < task->columns - 1; trial++) {
        load_vector(&task->documents, triplet[1 + trial], &own->negative);
        margin = high - score(worker, &own->negative, 0);
        task->negatives[step] = triplet[1 + trial];
        if (margin < 1.0) {
            weight = rank_weight(task, (task->n_documents - 1) / trial);
            break;
        }
    }
    task->margins[step] = margin;
    task->weights[step] = weight;
}

/* Fill margin, weight and negative of a triplet; the buffers hold its vectors. */
static void search(const worker_t *worker, int64_t step)
{
    const bilinear_task_t *task = worker->task;
    const int64_t *triplet = task->triplets + step * task->columns;
    buffers_t *own = worker->buffers;
    load_vector(&task->queries, triplet[0], &own->query);
    load_vector(&task->documents, triplet[1], &own->positive);
    if (task->columns != 3) {
        search_negatives(worker, step);
        return;
    }
    load_vector(&task->documents, triplet[2], &own->negative);
    subtract(&own->positive, &own->negative, &own->difference);
    task->margins[step] = score(worker, &own->difference, keeps_slots(worker));
    task->weights[step] = rank_weight(task, task->n_documents - 1);
    task->negatives[step] = triplet[2];
}

/* Search a triplet whose step follows at once: the buffers hold what that needs. */
static void search_for_step(const worker_t *worker, int64_t step)
{
    buffers_t *own = worker->buffers;
    search(worker, step);
    if (worker->task->columns != 3 && worker->task->margins[step] < 1.0)
        subtract(&own->positive, &own->negative, &own->difference);
}

/* Take a step; `searched` says that the buffers hold the vectors of its triplet. */
static void take_step(const worker_t *worker, int64_t step, double factor, int searched)
{
    const bilinear_task_t *task = worker->task;
    buffers_t *own = worker->buffers;
    const sparse_vector_t *left = &own->query, *right = &own->difference;
    int known;
    if (!(factor != 0.0))
        return;
    if (!searched) {
        load_vector(&task->queries, task->triplets[step * task->columns], &own->query);
        load_vector(&task->documents, task->triplets[step * task->columns + 1], &own->positive);
        load_vector(&task->documents, task->negatives[step], &own->negative);
        subtract(&own->positive, &own->negative, &own->difference);
    }
    known = searched && keeps_slots(worker);
    if (task->transposed) {
        left = &own->difference;
        right = &own->query;
    }
    if (worker->store->is64)
        subtract_as(worker, left, right, factor, known, 1);
    else
        subtract_as(worker, left, right, factor, known, 0);
}

static double slope_of(const bilinear_task_t *task, int64_t step)
{
    return task->weights[step] * task->loss.slope(task->margins[step], task->loss.context);
}

/* --- batches -------------------------------------------------------------------------------- */

static void search_work(void *of, int thread, int n_threads)
{
    run_t *run = of;
    worker_t worker = worker_of(run, thread);
    for (int64_t step = run->start + thread; step < run->stop; step += n_threads)
        search(&worker, step);
}

/* Take all steps, on this thread's rows. Every thread computes the same shrinkage state. */
static void step_work(void *of, int thread, int n_threads)
{
    run_t *run = of;
    (void)n_threads;
    const bilinear_task_t *task = run->task;
    worker_t worker = worker_of(run, thread);
    for (int64_t step = run->start; step < run->stop; step++) {
        worker.now.step += 1.0;
        take_step(&worker, step, task->learning_rates[step] * task->slopes[step], 0);
        end_step(&worker, task->learning_rates[step]);
    }
    if (thread == 0)
        *task->shrinkage = worker.now;
}

static void share_search(run_t *run)
{
    team_for(search_work, run, run->n_threads, run->n_threads);
}

static void share_steps(run_t *run)
{
    team_for(step_work, run, run->n_threads, run->n_threads);
    run->now = *run->task->shrinkage;
}

static void train_batch(run_t *run)
{
    const bilinear_task_t *task = run->task;
    share_search(run);
    for (int64_t step = run->start; step < run->stop; step++)
        task->slopes[step] = slope_of(task, step);
    share_steps(run);
}

/* Search and step at once, in batches of one. */
static void train_one(run_t *run)
{
    const bilinear_task_t *task = run->task;
    int64_t step = run->start;
    worker_t worker = worker_of(run, 0);
    search_for_step(&worker, step);
    worker.now.step += 1.0;
    take_step(&worker, step, task->learning_rates[step] * slope_of(task, step), 1);
    end_step(&worker, task->learning_rates[step]);
    run->now = worker.now;
}

static void hogwild_work(void *of, int thread, int n_threads)
{
    run_t *run = of;
    const bilinear_task_t *task = run->task;
    worker_t worker = worker_of(run, thread);
    worker.thread = 0;
    worker.n_threads = worker.locking = 1;
    for (int64_t step = run->start + thread; step < run->stop; step += n_threads) {
        worker.now.step = run->now.step + (double)(step - run->start + 1);
        search(&worker, step);
        take_step(&worker, step, task->learning_rates[step] * slope_of(task, step), 0);
    }
}

/* Take the steps up to the next application of the penalty in no order. */
static void train_hogwild(run_t *run)
{
    worker_t worker = worker_of(run, 0);
    worker.n_threads = 1;
    team_for(hogwild_work, run, run->n_threads, run->n_threads);
    for (int64_t step = run->start; step < run->stop; step++) {
        worker.now.step += 1.0;
        end_step(&worker, run->task->learning_rates[step]);
    }
    run->now = worker.now;
}

static int64_t hogwild_stop(const run_t *run)
{
    const bilinear_task_t *task = run->task;
    double most = HOGWILD_BLOCK, left = (double)(task->n - run->start);
    if (task->l1 != 0.0 || task->l2 != 0.0)
        most = task->prox_interval - fmod(run->now.step, task->prox_interval);
    return run->start + (int64_t)(most < left ? most : left);
}

/* --- calls ---------------------------------------------------------------------------------- */

int bilinear_margins(const bilinear_task_t *task)
{
    run_t run;
    if (!open_run(&run, task, threads_for(task), 0))
        return 0;
    run.stop = task->n;
    share_search(&run);
    return close_run(&run);
}

int bilinear_update(const bilinear_task_t *task)
{
    run_t run;
    if (!open_run(&run, task, threads_for(task), 0))
        return 0;
    run.stop = task->n;
    share_steps(&run);
    if (task->l1 != 0.0)
        store_compact(task->store, task->n, &run.now);
    return close_run(&run);
}

int bilinear_train(const bilinear_task_t *task)
{
    run_t run;
    int hogwild = task->hogwild && threads_for(task) > 1, one = task->batch_size == 1;
    if (!open_run(&run, task, one && !hogwild ? 1 : threads_for(task), one))
        return 0;
    for (; run.start < task->n && !task->store->failed; run.start = run.stop) {
        int64_t left = task->n - run.start;
        run.stop = run.start + (task->batch_size < left ? task->batch_size : left);
        if (hogwild) {
            run.stop = hogwild_stop(&run);
            train_hogwild(&run);
        } else if (one) {
            train_one(&run);
        } else {
            train_batch(&run);
        }
        if (task->l1 != 0.0)
            store_compact(task->store, run.stop - run.start, &run.now);
    }
    return close_run(&run);
}

/* --- passive-aggressive steps --------------------------------------------------------------- */

/* Sum (left right')**2 over the entries of W that are not zero. */
static double sum_squares_alive(const worker_t *worker)
{
    const bilinear_store_t *store = worker->store;
    buffers_t *own = worker->buffers;
    const sparse_vector_t *left = &own->query, *right = &own->difference;
    double total = 0.0;
    if (worker->task->transposed) {
        left = &own->difference;
        right = &own->query;
    }
    for (int32_t i = 0; i < left->n; i++) {
        int64_t row = left->indices[i];
        double threshold = row_shrinkage(store, row, &worker->now).threshold, in_row = 0.0;
        row_read(store->rows + row, right, own->slots, own->v, store->is64);
        for (int32_t j = 0; j < right->n; j++)
            if (fabs(own->v[j]) > threshold)
                in_row += right->values[j] * right->values[j];
        total += left->values[i] * left->values[i] * in_row;
    }
    return total;
}

static double passive_rate(int squared, double margin, double n, double most)
{
    double rate, slack = 0.0;
    if (n == 0.0)
        return 0.0;
    if (squared) {
        slack = 1.0 / (2.0 * most);
        most = INFINITY;
    }
    rate = (1.0 - margin) / (n + slack);
    return rate < most ? rate : most;
}

static void passive_step(worker_t *worker, int64_t step, const passive_aggressive_t *rule)
{
    const bilinear_task_t *task = worker->task;
    double n, rate = 0.0;
    search_for_step(worker, step);
    if (task->margins[step] < 1.0) {
        n = task->grow
            ? sum_squares(&worker->buffers->query) * sum_squares(&worker->buffers->difference)
            : sum_squares_alive(worker);
        rate = passive_rate(
            rule->squared, task->margins[step], n, rule->aggressiveness * task->weights[step]);
    }
    rule->learning_rates[step] = rate;
    worker->now.step += 1.0;
    take_step(worker, step, rate * -1.0, 1);
    end_step(worker, rate);
}

int bilinear_passive_aggressive(const bilinear_task_t *task, const passive_aggressive_t *rule)
{
    bilinear_task_t each = *task;
    run_t run;
    worker_t worker;
    if (!open_run(&run, &each, 1, 1))
        return 0;
    worker = worker_of(&run, 0);
    for (int64_t step = 0; step < task->n && !task->store->failed; step++) {
        each.n_documents = rule->list_sizes[step];
        passive_step(&worker, step, rule);
    }
    run.now = worker.now;
    return close_run(&run);
}
