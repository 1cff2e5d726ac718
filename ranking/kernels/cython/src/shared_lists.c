/* Lists of one positive that share their negatives.
 *
 * Lists are taken by strips whose slopes stay in the second-level cache. Threads share the rows of
 * a strip: scores, slopes and gradients of queries; then they share the negatives, to whose
 * gradients the strip is added. Every product is c = sum over k of a_k b_k, one k after the other,
 * with four rows of a and two registers of b at a time.
 */
#include "shared_lists.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "arena.h"
#include "float8.h"
#include "thread_team.h"

typedef int32_t int8_t8 __attribute__((vector_size(32)));

enum {
    WIDTH = 8, /* floats of a register */
    PANEL = 16, /* negatives of a panel: two registers */
    ROWS = 4, /* rows of a tile */
    STRIP_FLOATS = 131072, /* slopes of a strip, about */
};

/* What all threads work on. */
typedef struct {
    const shared_lists_t *task;
    int64_t padded; /* negatives, rounded up to whole panels */
    int64_t strip; /* lists of a strip */
    float *panels; /* negatives, transposed by panels of sixteen */
    float *gradients; /* of the negatives, padded */
    float *columns; /* sums of the slopes of each negative */
    float *offsets; /* of the negatives; -inf where there is none */
    float *slopes; /* of a strip */
    barrier_t barrier;
} shared_work_t;

/* --- products ------------------------------------------------------------------------------- */

/* c = [c +] sum over k of a(row, k) b(k): the arrays, and their steps by row and by term. */
typedef struct {
    const float *a;
    ptrdiff_t row_step, step;
    const float *b;
    ptrdiff_t b_step;
    float *c;
    ptrdiff_t c_step;
    int64_t terms;
    bool add;
} product_t;

/* The product for `rows` rows and `registers` registers of columns. */
LANES_INLINE void product_tile(
    const product_t *of, int64_t row, int64_t column, const int rows, const int registers)
{
    const float *a = of->a + row * of->row_step, *b = of->b + column;
    float *c = of->c + row * of->c_step + column;
    const ptrdiff_t row_step = of->row_step, step = of->step, b_step = of->b_step;
    float8_t sums[ROWS][2];
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < registers; v++)
            sums[r][v]
                = of->add ? float8_load(c + r * of->c_step + v * WIDTH) : float8_splat(0.0f);
    for (int64_t k = 0; k < of->terms; k++) {
        float8_t right[2];
        for (int v = 0; v < registers; v++)
            right[v] = float8_load(b + k * b_step + v * WIDTH);
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) {
            float8_t left = float8_splat(a[r * row_step + k * step]);
#pragma GCC unroll 2
            for (int v = 0; v < registers; v++)
                sums[r][v] += left * right[v];
        }
    }
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < registers; v++)
            float8_store(c + r * of->c_step + v * WIDTH, sums[r][v]);
}

/* The product for any number of rows and of columns, a multiple of eight. */
LANES_INLINE void product_rows(const product_t *of, int64_t n_rows, int64_t n_columns)
{
    for (int64_t column = 0; column < n_columns; column += PANEL) {
        bool both = column + PANEL <= n_columns;
        int64_t row = 0;
        for (; row + ROWS <= n_rows; row += ROWS)
            if (both)
                product_tile(of, row, column, ROWS, 2);
            else
                product_tile(of, row, column, ROWS, 1);
        for (; row < n_rows; row++)
            if (both)
                product_tile(of, row, column, 1, 2);
            else
                product_tile(of, row, column, 1, 1);
    }
}

/* --- the exponential ------------------------------------------------------------------------ */

LANES_INLINE float8_t float8_select(int8_t8 mask, float8_t yes, float8_t no)
{
    return (float8_t)(((int8_t8)yes & mask) | ((int8_t8)no & ~mask));
}

/* exp(x) of numbers that are not positive; 0 below -87. */
LANES_INLINE float8_t float8_exp(float8_t x)
{
    const float8_t lowest = float8_splat(-87.0f), magic = float8_splat(12582912.0f);
    int8_t8 low = x < lowest;
    x = float8_select(low, lowest, x);
    float8_t t = x * float8_splat(0x1.715476p+0f) + magic;
    float8_t k = t - magic;
    float8_t r = (x - k * float8_splat(0x1.63p-1f)) - k * float8_splat(-0x1.bd0106p-13f);
    float8_t q = float8_splat(1.9875691500e-4f);
    q = q * r + float8_splat(1.3981999507e-3f);
    q = q * r + float8_splat(8.3334519073e-3f);
    q = q * r + float8_splat(4.1665795894e-2f);
    q = q * r + float8_splat(1.6666665459e-1f);
    q = q * r + float8_splat(5.0000001201e-1f);
    float8_t p = (q * (r * r) + r) + float8_splat(1.0f);
    float8_t e = (float8_t)((int8_t8)p + ((int8_t8)t << 23));
    return (float8_t)((int8_t8)e & ~low);
}

LANES_INLINE float8_t float8_logistic(float8_t x)
{
    float8_t size = (float8_t)((int8_t8)x & 0x7fffffff), one = float8_splat(1.0f);
    float8_t e = float8_exp(-size);
    return float8_select(x >= float8_splat(0.0f), one, e) / (one + e);
}

/* --- slopes --------------------------------------------------------------------------------- */

/* a = scale * s + offset; return the greatest, not less than `top`. */
LANES_INLINE float scale_scores(
    float *row, const float *offsets, int64_t n, float scale, float top)
{
    float8_t most = float8_splat(top);
    for (int64_t j = 0; j < n; j += WIDTH) {
        float8_t a = float8_splat(scale) * float8_load(row + j) + float8_load(offsets + j);
        float8_store(row + j, a);
        most = float8_select(a > most, a, most);
    }
    for (int i = 0; i < WIDTH; i++)
        top = most[i] > top ? most[i] : top;
    return top;
}

LANES_INLINE float one_exp(float x)
{
    return float8_exp(float8_splat(x))[0];
}

/* Replace the scores of list b by slopes. */
LANES_INLINE void list_slopes_of(const shared_work_t *work, int64_t b, float *row)
{
    const shared_lists_t *task = work->task;
    const shared_loss_t *loss = &task->loss;
    int64_t n = work->padded;
    float own = loss->scale
                    * float8_dot(
                        task->queries + b * task->width, task->positives + b * task->width,
                        task->width)
                + task->positive_offsets[b];
    float scaled = task->weights[b] * loss->scale, top = 0.0f, total;
    float8_t sums = float8_splat(0.0f), zero = float8_splat(0.0f);
    for (int64_t at = task->excluded_ptr[b]; at < task->excluded_ptr[b + 1]; at++)
        row[task->excluded[at]] = -INFINITY;
    task->scores[b] = own;
    top = scale_scores(row, work->offsets, n, loss->scale, own);
    if (loss->form == SHARED_SOFTMAX) {
        for (int64_t j = 0; j < n; j += WIDTH) {
            float8_t e = float8_exp(float8_load(row + j) - float8_splat(top));
            float8_store(row + j, e);
            sums += e;
        }
        float below = float8_sum(sums), r;
        total = one_exp(own - top) + below;
        r = scaled / total;
        float8_scale(row, r, n);
        task->positive_slopes[b] = -(r * below);
        task->tops[b] = top + 0.0f;
    } else {
        float8_t r = float8_splat(scaled * loss->weight);
        for (int64_t j = 0; j < n; j += WIDTH) {
            float8_t a = float8_load(row + j), term;
            if (loss->form == SHARED_COSINE_CONTRASTIVE) {
                float8_t excess = a - float8_splat(loss->threshold);
                int8_t8 above = excess > zero;
                term = float8_select(above, excess, zero);
                float8_store(row + j, float8_select(above, r, zero));
            } else {
                term = float8_logistic(a);
                float8_store(row + j, r * term);
            }
            sums += term;
        }
        total = float8_sum(sums);
        task->positive_slopes[b]
            = loss->form == SHARED_LOGISTIC ? -(scaled * float8_logistic(float8_splat(-own))[0])
                                            : -scaled;
        task->tops[b] = 0.0f;
    }
    task->totals[b] = total;
}

/* out = [out +] c x, for the gradients of one list */
LANES_INLINE void scaled_row(float *out, const float *x, float c, int64_t n, bool add)
{
    for (int64_t i = 0; i < n; i += WIDTH) {
        float8_t y = float8_splat(c) * float8_load(x + i);
        float8_store(out + i, add ? float8_load(out + i) + y : y);
    }
}

/* Scores, slopes and gradients of some lists of a strip. */
static void take_lists(const shared_work_t *work, int64_t first, int64_t last, float *slopes)
{
    const shared_lists_t *task = work->task;
    int64_t width = task->width, padded = work->padded;
    for (int64_t panel = 0; panel < padded; panel += PANEL)
        product_rows(
            &(product_t){
                task->queries + first * width, width, 1, work->panels + panel * width, PANEL,
                slopes + panel, padded, width, false},
            last - first, PANEL);
    for (int64_t b = first; b < last; b++)
        list_slopes_of(work, b, slopes + (b - first) * padded);
    product_rows(
        &(product_t){
            slopes, padded, 1, task->negatives, width, task->query_gradients + first * width, width,
            task->n_negatives, false},
        last - first, width);
    for (int64_t b = first; b < last; b++) {
        float own = task->positive_slopes[b];
        scaled_row(task->query_gradients + b * width, task->positives + b * width, own, width, 1);
        scaled_row(task->positive_gradients + b * width, task->queries + b * width, own, width, 0);
    }
}

/* Add a strip to the gradients of some negatives, whole panels. */
static void take_negatives(
    const shared_work_t *work, int64_t start, int64_t stop, int64_t first, int64_t last)
{
    const shared_lists_t *task = work->task;
    int64_t width = task->width, padded = work->padded;
    if (stop <= start)
        return;
    product_rows(
        &(product_t){
            work->slopes + start, 1, padded, task->queries + first * width, width,
            work->gradients + start * width, width, last - first, true},
        stop - start, width);
    for (int64_t b = 0; b < last - first; b++)
        for (int64_t j = start; j < stop; j += WIDTH)
            float8_store(
                work->columns + j,
                float8_load(work->columns + j) + float8_load(work->slopes + b * padded + j));
}

/* --- threads -------------------------------------------------------------------------------- */

static void shared_work(void *of, int thread, int n_threads)
{
    shared_work_t *work = of;
    const shared_lists_t *task = work->task;
    int64_t panels = work->padded / PANEL;
    int64_t start = PANEL * (panels * thread / n_threads);
    int64_t stop = PANEL * (panels * (thread + 1) / n_threads);
    for (int64_t first = 0; first < task->n_lists; first += work->strip) {
        int64_t rest = task->n_lists - first;
        int64_t n = rest < work->strip ? rest : work->strip;
        int64_t tiles = (n + ROWS - 1) / ROWS;
        int64_t from = ROWS * (tiles * thread / n_threads);
        int64_t to = ROWS * (tiles * (thread + 1) / n_threads);
        to = to < n ? to : n;
        if (from < to)
            take_lists(work, first + from, first + to, work->slopes + from * work->padded);
        barrier_wait(&work->barrier, n_threads);
        take_negatives(work, start, stop, first, first + n);
        barrier_wait(&work->barrier, n_threads);
    }
}

/* Transpose the negatives by panels, padded. */
static void prepare(shared_work_t *work)
{
    const shared_lists_t *task = work->task;
    int64_t width = task->width, n = task->n_negatives;
    for (int64_t j = 0; j < n; j++)
        for (int64_t k = 0; k < width; k++)
            work->panels[(j / PANEL * width + k) * PANEL + j % PANEL]
                = task->negatives[j * width + k];
    for (int64_t j = 0; j < work->padded; j++)
        work->offsets[j] = j < n ? task->negative_offsets[j] : -INFINITY;
}

int shared_lists(const shared_lists_t *task, int n_threads)
{
    arena_t arena = {0};
    shared_work_t work = {.task = task};
    int64_t strip, size;
    work.padded = (task->n_negatives + PANEL - 1) / PANEL * PANEL;
    strip = STRIP_FLOATS / work.padded / ROWS * ROWS;
    strip = strip < ROWS * n_threads ? ROWS * n_threads : strip;
    work.strip = strip < task->n_lists ? strip : task->n_lists;
    size = work.padded * task->width;
    work.panels = ARENA_CALLOC(&arena, size, float);
    work.gradients = ARENA_CALLOC(&arena, size, float);
    work.columns = ARENA_CALLOC(&arena, work.padded, float);
    work.offsets = ARENA_ALLOC(&arena, work.padded, float);
    work.slopes = ARENA_ALLOC(&arena, (work.strip + ROWS) * work.padded, float);
    if (!arena.failed) {
        prepare(&work);
        team_run(shared_work, &work, n_threads);
        size_t used = sizeof(float) * (size_t)task->n_negatives;
        memcpy(task->negative_gradients, work.gradients, used * (size_t)task->width);
        memcpy(task->negative_slopes, work.columns, used);
    }
    int ready = !arena.failed;
    arena_free(&arena);
    return ready;
}
