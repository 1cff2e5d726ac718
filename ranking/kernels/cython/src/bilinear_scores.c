/* Scores of the bilinear model: the images W' q of a few queries, then products with documents. */
#include <string.h>

#include "bilinear.h"
#include "thread_team.h"

#define TOGETHER 8 /* queries that are scored together: their entries fill a cache line */

/* Fill images[column][query] with the sum, in stored order of the query, of q * w. */
static void fill_images(
    const bilinear_scores_t *task, int64_t first, int64_t count, double *images)
{
    const csr_t *queries = &task->queries, *weights = &task->weights;
    memset(images, 0, (size_t)task->n_columns * TOGETHER * sizeof(double));
    for (int64_t i = 0; i < count; i++)
        for (int64_t at = csr_start(queries, first + i); at < csr_start(queries, first + i + 1);
             at++) {
            double q = csr_value(queries, at);
            int64_t row = csr_column(queries, at), stop = csr_start(weights, row + 1);
            for (int64_t j = csr_start(weights, row); j < stop; j++)
                images[csr_column(weights, j) * TOGETHER + i] += q * csr_value(weights, j);
        }
}

static void score_queries(
    const bilinear_scores_t *task, int64_t first, int64_t count, double *images)
{
    const csr_t *documents = &task->documents;
    fill_images(task, first, count, images);
    for (int64_t document = 0; document < task->n_documents; document++) {
        double totals[TOGETHER] = {0.0};
        int64_t stop = csr_start(documents, document + 1);
        for (int64_t at = csr_start(documents, document); at < stop; at++) {
            double d = csr_value(documents, at);
            const double *image = images + csr_column(documents, at) * TOGETHER;
            for (int64_t i = 0; i < TOGETHER; i++)
                totals[i] += d * image[i];
        }
        for (int64_t i = 0; i < count; i++)
            task->out[(first + i) * task->n_documents + document] = totals[i];
    }
}

typedef struct {
    const bilinear_scores_t *task;
    double *images; /* per thread */
} scoring_t;

static void score_work(void *of, int thread, int n_threads)
{
    const scoring_t *scoring = of;
    const bilinear_scores_t *task = scoring->task;
    double *images = scoring->images + (int64_t)thread * task->n_columns * TOGETHER;
    for (int64_t first = thread * TOGETHER; first < task->n_queries;
         first += n_threads * TOGETHER) {
        int64_t left = task->n_queries - first;
        score_queries(task, first, left < TOGETHER ? left : TOGETHER, images);
    }
}

int bilinear_scores(const bilinear_scores_t *task, int n_threads)
{
    int64_t most = (task->n_queries + TOGETHER - 1) / TOGETHER;
    arena_t arena = {0};
    scoring_t scoring = {task, NULL};
    n_threads = n_threads < most ? n_threads : (int)most;
    scoring.images = ARENA_ALLOC(&arena, n_threads * task->n_columns * TOGETHER, double);
    if (!scoring.images)
        return 0;
    team_for(score_work, &scoring, n_threads, n_threads);
    arena_free(&arena);
    return 1;
}
