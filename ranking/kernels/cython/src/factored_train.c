/* Sampling and training by blocks, on several threads. */
#include "adaptive.h"
#include "factored_sample.h"
#include "factored_update.h"

/* The buffers of a block and of the threads that work on it. */
typedef struct {
    block_update_t update;
    int64_t *queries, *documents;
    float *slopes, *scores;
    double *lists; /* margins, slopes and scratch of each thread */
} block_t;

typedef struct {
    factored_task_t task;
    const int64_t *ptr; /* documents of a step: 0, 2, 4, ..., or with lists, 0, n + 1, ... */
    block_t *blocks; /* one for the team and one for serial work; hogwild: one per thread */
    int64_t next; /* hogwild: the first block that no thread has taken */
    barrier_t barrier;
    adaptive_t adaptive;
    arena_t arena;
} run_t;

LANES_INLINE int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Write the result of a search, and the slopes of pair `at` of the block. */
LANES_INLINE void record(
    const factored_task_t *task, const block_t *block, int64_t step, int64_t at,
    const search_t *search)
{
    task->margins[step] = search->margin;
    task->weights[step] = search->weight;
    if (task->triplets) {
        task->triplets[3 * step] = search->query;
        task->triplets[3 * step + 1] = search->positive;
        task->triplets[3 * step + 2] = search->negative;
    } else {
        double derivative = task->loss.slope(search->margin, task->loss.context);
        float slope = search->weight * (float)derivative;
        if (!task->model.adagrad)
            slope = task->learning_rates[step] * slope;
        block->queries[at] = search->query;
        block->documents[2 * at] = search->positive;
        block->documents[2 * at + 1] = search->negative;
        block->slopes[2 * at] = slope;
        block->slopes[2 * at + 1] = -slope;
    }
}

/* The number of documents of a step. */
LANES_INLINE int64_t step_size(const factored_task_t *task)
{
    return task->lists ? task->source.columns - 1 : 2;
}

/* The doubles that a thread needs for a batch of lists of n negatives. */
LANES_INLINE int64_t list_numbers(int64_t n)
{
    return SAMPLING_BATCH * n + n + 1 + listwise_scratch(n);
}

/* Score lists `at` to `at + batch->n` of the block, and write their losses and slopes. */
static void record_lists(
    const factored_task_t *task, const block_t *block, thread_caches_t *caches, int64_t step,
    int64_t at, search_batch_t *batch, double *numbers)
{
    int64_t n = task->source.columns - 2;
    double *slopes = numbers + SAMPLING_BATCH * n, *scratch = slopes + n + 1;
    score_lists(task, caches, step, batch, block->documents + at * (n + 1), numbers);
    for (int64_t i = 0; i < batch->n; i++) {
        float *to = block->slopes + (at + i) * (n + 1);
        float rate = task->model.adagrad ? 1.0f : task->learning_rates[step + i];
        task->losses[step + i]
            = listwise_loss(task->lists, numbers + i * n, n, slopes, scratch);
        block->queries[at + i] = batch->searches[i].query;
        to[0] = (float)slopes[0] * rate;
        for (int64_t j = 1; j <= n; j++) /* as they were stored, which is faster to load */
            to[j] = (float)slopes[j] * rate;
    }
}

/* Search this thread's part of `count` steps from `start` on, and copy what the steps read. */
static void search_block(
    const run_t *run, block_t *block, const worker_t *worker, int64_t start, int64_t count)
{
    const factored_task_t *task = &run->task;
    int64_t from = count * worker->thread / worker->n_threads;
    int64_t to = count * (worker->thread + 1) / worker->n_threads;
    float *scores = block->scores + worker->thread * task->source.n_positives;
    double *numbers = block->lists + worker->thread * list_numbers(task->source.columns - 2);
    thread_caches_t *caches = block->update.caches + worker->thread;
    search_batch_t batch;
    update_begin(worker, from);
    for (; from < to; from += SAMPLING_BATCH) {
        batch.n = smaller(SAMPLING_BATCH, to - from);
        if (task->lists) {
            record_lists(task, block, caches, start + from, from, &batch, numbers);
        } else {
            search_batch(task, caches, start + from, &batch, scores);
            for (int64_t i = 0; i < batch.n; i++)
                record(task, block, start + from + i, from + i, batch.searches + i);
        }
        if (!task->triplets)
            update_copy(worker, from, from + batch.n);
    }
}

static void fill_guides(run_t *run, int thread, int n_threads)
{
    if (run->task.source.positives)
        sampling_fill_guides(run->task.source.positives, thread, n_threads);
    barrier_wait(&run->barrier, n_threads);
}

/* Search a block at the parameters of its start, then take its steps. */
static void train_block(
    run_t *run, block_t *block, int64_t start, int64_t stamp, int thread, int n_threads)
{
    const factored_task_t *task = &run->task;
    int64_t count = smaller(task->batch_size, task->n - start);
    factored_steps_t steps = {count, block->queries, run->ptr, block->documents, block->slopes};
    worker_t worker = {
        &block->update, &steps, task->learning_rates[start], stamp, thread, n_threads};
    search_block(run, block, &worker, start, count);
    barrier_wait(&block->update.barrier, n_threads);
    update_apply(&worker);
    barrier_wait(&block->update.barrier, n_threads);
}

/* Train on the blocks that begin in start .. stop - 1. */
static void train_range(
    run_t *run, block_t *block, int64_t start, int64_t stop, int thread, int n_threads)
{
    int64_t size = run->task.batch_size;
    for (; start < stop && !block->update.failed; start += size)
        train_block(run, block, start, start / size + 1, thread, n_threads);
}

/* Train in parallel or on one thread, whichever is faster; large blocks are always parallel. */
static void train_work(void *of, int thread, int n_threads)
{
    run_t *run = of;
    const factored_task_t *task = &run->task;
    block_t *parallel = run->blocks, *serial = run->blocks + (task->n_threads > 1);
    int64_t start = 0, stop, size = task->batch_size;
    fill_guides(run, thread, n_threads);
    if (n_threads < task->n_threads || n_threads == 1) {
        if (thread == 0)
            train_range(run, serial, 0, task->n, 0, 1);
        return;
    }
    if (size >= ADAPTIVE_TRIAL) {
        train_range(run, parallel, 0, task->n, thread, n_threads);
        return;
    }
    while (start < task->n && !parallel->update.failed && !serial->update.failed) {
        if (thread == 0)
            adaptive_next(&run->adaptive, start);
        barrier_wait(&run->barrier, n_threads);
        stop = smaller(run->adaptive.stop, task->n);
        if (!run->adaptive.serial)
            train_range(run, parallel, start, stop, thread, n_threads);
        else if (thread == 0)
            train_range(run, serial, start, stop, 0, 1);
        start += (stop - start + size - 1) / size * size;
        barrier_wait(&run->barrier, n_threads);
    }
}

/* Each thread takes the next block without waiting for the others. */
static void hogwild_work(void *of, int thread, int n_threads)
{
    run_t *run = of;
    block_t *block = run->blocks + thread;
    int64_t start, stamp = 0;
    fill_guides(run, thread, n_threads);
    for (;;) {
        start = __atomic_fetch_add(&run->next, run->task.batch_size, __ATOMIC_RELAXED);
        if (start >= run->task.n || block->update.failed)
            return;
        train_block(run, block, start, ++stamp, 0, 1);
    }
}

static void sample_work(void *of, int thread, int n_threads)
{
    run_t *run = of;
    worker_t worker = {&run->blocks->update, NULL, 0.0f, 1, thread, n_threads};
    fill_guides(run, thread, n_threads);
    search_block(run, run->blocks, &worker, 0, run->task.n);
}

static void open_block(block_t *block, run_t *run, int n_threads)
{
    const factored_task_t *task = &run->task;
    int64_t n = task->batch_size;
    arena_t *arena = &run->arena;
    int64_t documents = step_size(task) * n, columns = task->source.columns;
    block_size_t size = {n, documents, n * (columns - 1)};
    update_open(&block->update, arena, &task->model, size, n_threads);
    block->update.penalty = task->penalty;
    block->scores = ARENA_ALLOC(arena, n_threads * task->source.n_positives, float);
    block->queries = ARENA_ALLOC(arena, n, int64_t);
    block->documents = ARENA_ALLOC(arena, documents, int64_t);
    block->slopes = ARENA_ALLOC(arena, documents, float);
    if (task->lists)
        block->lists = ARENA_ALLOC(arena, n_threads * list_numbers(columns - 2), double);
}

static int run_blocks(run_t *run, team_function_t *work, int n_blocks)
{
    const factored_task_t *task = &run->task;
    int64_t *ptr = ARENA_ALLOC(&run->arena, task->batch_size + 1, int64_t);
    int done;
    run->blocks = ARENA_CALLOC(&run->arena, n_blocks, block_t);
    if (!ptr || !run->blocks)
        return 0;
    for (int64_t i = 0; i <= task->batch_size; i++)
        ptr[i] = step_size(task) * i;
    run->ptr = ptr;
    if (task->source.positives)
        sampling_allocate_guides(task->source.positives, &run->arena, task->n);
    for (int i = 0; i < n_blocks; i++)
        open_block(run->blocks + i, run, i || task->hogwild ? 1 : task->n_threads);
    done = !run->arena.failed;
    if (done)
        team_run(work, run, task->n_threads);
    for (int i = 0; i < n_blocks; i++)
        done = done && !run->blocks[i].update.failed;
    return done;
}

int factored_sample(const factored_task_t *task)
{
    run_t run = {.task = *task};
    int done = run_blocks(&run, sample_work, 1);
    arena_free(&run.arena);
    return done;
}

int factored_train(const factored_task_t *task)
{
    run_t run = {.task = *task};
    int n_blocks = task->hogwild ? task->n_threads : task->n_threads > 1 ? 2 : 1;
    int done = run_blocks(&run, task->hogwild ? hogwild_work : train_work, n_blocks);
    arena_free(&run.arena);
    return done;
}

/* --- steps with known slopes ---------------------------------------------------------------- */

typedef struct {
    block_update_t update;
    const factored_steps_t *steps;
    float learning_rate;
    int missing; /* some threads were not started */
} known_steps_t;

static void update_work(void *of, int thread, int n_threads)
{
    known_steps_t *known = of;
    block_update_t *update = &known->update;
    worker_t worker = {update, known->steps, known->learning_rate, 1, thread, n_threads};
    int64_t n = known->steps->n, first = n * thread / n_threads;
    if (n_threads < update->n_threads) {
        __atomic_store_n(&known->missing, 1, __ATOMIC_RELAXED);
        return;
    }
    update_begin(&worker, first);
    update_copy(&worker, first, n * (thread + 1) / n_threads);
    barrier_wait(&update->barrier, n_threads);
    update_apply(&worker);
}

int factored_update(
    const factored_model_t *model, const factored_steps_t *steps, float learning_rate,
    row_penalty_t penalty, int n_threads)
{
    int64_t n_documents = steps->ptr[steps->n];
    block_size_t size = {steps->n, n_documents, n_documents};
    known_steps_t known = {.steps = steps, .learning_rate = learning_rate};
    arena_t arena = {0};
    int done;
    update_open(&known.update, &arena, model, size, n_threads);
    known.update.penalty = penalty;
    done = !arena.failed;
    if (done)
        team_run(update_work, &known, n_threads);
    done = done && !known.update.failed;
    arena_free(&arena);
    return known.missing ? factored_update(model, steps, learning_rate, penalty, 1) : done;
}

/* --- embeddings ----------------------------------------------------------------------------- */

static void embeddings_work(void *of, int thread, int n_threads)
{
    const embeddings_t *task = of;
    int64_t n = task->features->n_rows, last = n * (thread + 1) / n_threads;
    for (int64_t row = n * thread / n_threads; row < last; row++)
        compose(task, row, task->out + row * task->width);
}

void factored_embeddings(const embeddings_t *task, int n_threads)
{
    team_run(embeddings_work, (void *)task, n_threads);
}
