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

/* The u_j = margin - z_j of the last n % 4 negatives, and 0 behind them; n % 4 is less than 4, so
 * that the last one is always 0. */
static lanes_t last_violations(const double *margins, int64_t n, double margin)
{
    int64_t whole = n - n % LANES, left = n - whole;
    margins += whole;
    return (lanes_t){
        left > 0 ? margin - margins[0] : 0.0, left > 1 ? margin - margins[1] : 0.0,
        left > 2 ? margin - margins[2] : 0.0, 0.0};
}

static double largest_lane(lanes_t v)
{
    double top = v[0];
    for (int k = 1; k < LANES; k++)
        top = v[k] > top ? v[k] : top;
    return top;
}

static double domination(
    const listwise_loss_t *loss, const double *margins, int64_t n, double *slopes,
    double *scratch)
{
    const lanes_t margin = lanes_splat(loss->margin), zero = lanes_splat(0.0);
    int64_t whole = n - n % LANES;
    lanes_t last = last_violations(margins, n, loss->margin), tops = zero, sums = zero, shift;
    double top, below, total, r;
    tops = lanes_select(last > tops, last, tops);
    for (int64_t j = 0; j < whole; j += LANES) {
        lanes_t u = margin - lanes_load(margins + j);
        tops = lanes_select(u > tops, u, tops);
    }
    top = largest_lane(tops);
    shift = lanes_splat(top);
    for (int64_t j = 0; j < whole; j += LANES) {
        lanes_t e = lanes_exp((margin - lanes_load(margins + j)) - shift);
        lanes_store(scratch + j, e);
        sums += e;
    }
    last = lanes_exp(last - shift);
    total = last[LANES - 1]; /* exp(0 - top) */
    for (int64_t k = n - whole; k < LANES; k++)
        last[k] = 0.0;
    below = lanes_sum(sums + last);
    total += below;
    r = loss->weight / total;
    slopes[0] = -(r * below);
    for (int64_t j = 0; j < whole; j += LANES)
        lanes_store(slopes + 1 + j, lanes_splat(r) * lanes_load(scratch + j));
    for (int64_t j = whole; j < n; j++)
        slopes[1 + j] = r * last[j - whole];
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
