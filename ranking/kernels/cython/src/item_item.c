/* Coordinate descent on one column of item-item weights at a time. */
#include "item_item.h"

#include <stdlib.h>
#include <string.h>

#include "thread_team.h"

enum { COLUMNS = 16 /* per piece of work: columns differ in cost */ };

/* Dense vectors of a thread: s = G w - G_j, and G_j. */
typedef struct {
    double *slopes, *target;
} column_state_t;

static void add_row(const csr_t *gram, int64_t item, double step, double *slopes)
{
    int64_t stop = csr_start(gram, item + 1);
    for (int64_t at = csr_start(gram, item); at < stop; at++)
        slopes[csr_column(gram, at)] += step * csr_value(gram, at);
}

/* The minimum along a candidate. */
static double best_weight(const item_rule_t *rule, double pull, double curvature)
{
    if (pull > rule->l1)
        return (pull - rule->l1) / curvature;
    if (pull < -rule->l1 && !rule->nonnegative)
        return (pull + rule->l1) / curvature;
    return 0.0;
}

/* Take a step along each candidate; return the largest curvature times squared step. */
static double sweep(const item_columns_t *task, int64_t column, int active, double *slopes)
{
    int64_t stop = csr_start(&task->candidates, column + 1);
    double largest = 0.0;
    for (int64_t at = csr_start(&task->candidates, column); at < stop; at++) {
        int64_t item = csr_column(&task->candidates, at);
        double old = task->weights[at], own = task->diagonal[item];
        double curvature = 2.0 * own + task->rule.l2;
        if (item == column || (active && old == 0.0) || !(curvature > 0.0))
            continue;
        double best
            = best_weight(&task->rule, 2.0 * (own * old - slopes[item]), curvature);
        double step = best - old;
        if (step != 0.0) {
            double size = curvature * (step * step);
            task->weights[at] = best;
            add_row(&task->gram, item, step, slopes);
            if (size > largest)
                largest = size;
        }
    }
    return largest;
}

static int64_t descend(const item_columns_t *task, int64_t column, double *slopes)
{
    double least = task->rule.tolerance * task->diagonal[column];
    int active = 0;
    for (int64_t count = 1; count <= task->rule.sweeps; count++) {
        int converged = sweep(task, column, active, slopes) <= least;
        if (converged && !active)
            return count;
        active = !converged;
    }
    return -task->rule.sweeps;
}

static void fit_column(const item_columns_t *task, int64_t column, const column_state_t *state)
{
    size_t bytes = (size_t)task->gram.n_rows * sizeof(double);
    int64_t first = csr_start(&task->candidates, column);
    int64_t stop = csr_start(&task->candidates, column + 1);
    int64_t end = csr_start(&task->gram, column + 1);
    double total = task->diagonal[column];
    memset(state->target, 0, bytes);
    for (int64_t at = csr_start(&task->gram, column); at < end; at++)
        state->target[csr_column(&task->gram, at)] = csr_value(&task->gram, at);
    for (int64_t i = 0; i < task->gram.n_rows; i++)
        state->slopes[i] = -state->target[i];
    for (int64_t at = first; at < stop; at++)
        if (task->weights[at] != 0.0)
            add_row(
                &task->gram, csr_column(&task->candidates, at), task->weights[at],
                state->slopes);
    task->sweeps[column] = descend(task, column, state->slopes);
    for (int64_t at = first; at < stop; at++) {
        int64_t item = csr_column(&task->candidates, at);
        total += task->weights[at] * (state->slopes[item] - state->target[item]);
    }
    task->losses[column] = total;
}

typedef struct {
    const item_columns_t *task;
    int failed;
} item_run_t;

static void item_work(void *of, int piece, int n_pieces)
{
    item_run_t *run = of;
    const item_columns_t *task = run->task;
    int64_t n = task->gram.n_rows, last = n * (piece + 1) / n_pieces;
    double *memory = malloc(2 * (size_t)n * sizeof(double));
    column_state_t state = {memory, memory + n};
    if (memory)
        for (int64_t column = n * piece / n_pieces; column < last; column++)
            fit_column(task, column, &state);
    else
        __atomic_store_n(&run->failed, 1, __ATOMIC_RELAXED);
    free(memory);
}

int item_columns(const item_columns_t *task, int n_threads)
{
    item_run_t run = {.task = task};
    team_for(item_work, &run, (int)((task->gram.n_rows + COLUMNS - 1) / COLUMNS), n_threads);
    return !run.failed;
}
