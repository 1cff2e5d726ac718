#include "listwise.h"

#include <math.h>

#include "arena.h"
#include "lanes.h"
#include "thread_team.h"

#define LANES 4

int64_t listwise_scratch(int64_t n)
{
    return 2 * (n + 1) + LANES;
}

/* Replace u by exp(u - top), and return the sum in lanes. The lanes behind n become 0. */
static double exponentials(double *u, int64_t n, double top)
{
    lanes_t sums = lanes_splat(0.0), shift = lanes_splat(top);
    for (int64_t at = 0; at < n; at += LANES) {
        lanes_store(u + at, lanes_exp(lanes_load(u + at) - shift));
        for (int64_t k = n; k < at + LANES; k++)
            u[k] = 0.0;
        sums += lanes_load(u + at);
    }
    return lanes_sum(sums);
}

static double domination(
    const listwise_loss_t *loss, const double *margins, int64_t n, double *slopes,
    double *scratch)
{
    double top = 0.0, below, total, r;
    for (int64_t j = 0; j < n; j++) {
        scratch[j] = loss->margin - margins[j];
        top = scratch[j] > top ? scratch[j] : top;
    }
    for (int64_t j = n; j < n + LANES; j++)
        scratch[j] = 0.0;
    below = exponentials(scratch, n, top);
    total = lanes_exp_one(0.0 - top) + below;
    r = loss->weight / total;
    slopes[0] = -(r * below);
    for (int64_t j = 0; j < n; j++)
        slopes[1 + j] = r * scratch[j];
    if (!isfinite(total))
        return NAN;
    return loss->weight * (top == 0.0 ? log1p(below) : top + log(total));
}

static double native(
    const listwise_loss_t *loss, const double *margins, int64_t n, double *slopes,
    double *scratch)
{
    double *scores = scratch, *grades = scratch + n + 1, total = 0.0, value;
    int finite = 1;
    scores[0] = 0.0;
    grades[0] = 1.0;
    slopes[0] = 0.0;
    for (int64_t j = 1; j <= n; j++) {
        scores[j] = -margins[j - 1];
        grades[j] = slopes[j] = 0.0;
    }
    value = loss->value(scores, grades, n + 1, loss->value_context);
    loss->slopes(scores, grades, n + 1, slopes, loss->slopes_context);
    for (int64_t j = 1; j <= n; j++) {
        total += slopes[j];
        finite = finite && isfinite(slopes[j]);
    }
    slopes[0] = -total;
    return finite && isfinite(total) ? value : NAN;
}

double listwise_loss(
    const listwise_loss_t *loss, const double *margins, int64_t n, double *slopes,
    double *scratch)
{
    return loss->form == LISTWISE_NATIVE ? native(loss, margins, n, slopes, scratch)
                                         : domination(loss, margins, n, slopes, scratch);
}

typedef struct {
    const listwise_task_t *task;
    double *scratch; /* of all threads */
} run_t;

static void lists_work(void *of, int thread, int n_threads)
{
    const run_t *run = of;
    const listwise_task_t *task = run->task;
    int64_t n = task->n_negatives;
    double *scratch = run->scratch + thread * listwise_scratch(n);
    int64_t last = task->n_lists * (thread + 1) / n_threads;
    for (int64_t i = task->n_lists * thread / n_threads; i < last; i++)
        task->losses[i] = listwise_loss(
            &task->loss, task->margins + i * n, n, task->slopes + i * (n + 1), scratch);
}

int listwise_slopes(const listwise_task_t *task, int n_threads)
{
    arena_t arena = {0};
    run_t run = {task, NULL};
    run.scratch = ARENA_ALLOC(&arena, n_threads * listwise_scratch(task->n_negatives), double);
    if (run.scratch)
        team_run(lists_work, &run, n_threads);
    arena_free(&arena);
    return run.scratch != NULL;
}
