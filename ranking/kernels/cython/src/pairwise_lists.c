#include "pairwise_lists.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dense.h"
#include "lanes.h"
#include "thread_team.h"

enum {
    PARTS = 16,
    CHUNK = 64,
    PRODUCTS = 512,
    BLOCK = 4096,
    RUN = 16, /* rows that are sorted by insertion */
};

static const double SECANT = 0x1p-10;

/* --- one list ------------------------------------------------------------------------------- */

/* A row of a list: its margin less that of the first row, its weight and its number. */
typedef struct {
    double m, w;
    int64_t row;
} row_t;

/* One list, and memory for the longest. */
typedef struct {
    int64_t first, size, n_layers;
    const int64_t *layer_ptr;
    row_t *memory, *rows, *spare, *tops, *below;
    int64_t *layer_of, n_tops, n_below;
    double *low, *pull; /* by row, padded to lanes */
} list_t;

static int64_t longest_list(const pair_lists_t *lists)
{
    int64_t longest = 0;
    for (int64_t q = 0; q < lists->n_lists; q++) {
        int64_t size = lists->layer_ptr[lists->list_ptr[q + 1]]
                       - lists->layer_ptr[lists->list_ptr[q]];
        longest = size > longest ? size : longest;
    }
    return longest;
}

static int list_allocate(list_t *list, int64_t longest)
{
    size_t n = (size_t)longest + 4;
    list->memory = list->rows = malloc(4 * n * sizeof(row_t));
    list->layer_of = malloc(n * sizeof(int64_t));
    list->low = malloc(2 * n * sizeof(double));
    if (list->rows) {
        list->spare = list->rows + n;
        list->tops = list->rows + 2 * n;
        list->below = list->rows + 3 * n;
    }
    list->pull = list->low ? list->low + n : NULL;
    return list->rows && list->layer_of && list->low;
}

static void list_free(list_t *list)
{
    free(list->memory);
    free(list->layer_of);
    free(list->low);
}

static void list_load(list_t *list, const pair_lists_t *lists, int64_t q, const double *margins)
{
    int64_t first_layer = lists->list_ptr[q];
    list->layer_ptr = lists->layer_ptr + first_layer;
    list->n_layers = lists->list_ptr[q + 1] - first_layer;
    list->first = list->layer_ptr[0];
    list->size = list->layer_ptr[list->n_layers] - list->first;
    for (int64_t k = 0; k < list->n_layers; k++)
        for (int64_t r = list->layer_ptr[k] - list->first;
             r < list->layer_ptr[k + 1] - list->first; r++)
            list->layer_of[r] = k;
    for (int64_t r = 0; r < list->size; r++) {
        double m = margins[list->first + r] - margins[list->first];
        list->rows[r] = (row_t){m, lists->omega[list->first + r], r};
    }
}

/* Merge the sorted halves from[start, middle) and from[middle, stop). */
static void merge(const row_t *from, row_t *to, int64_t start, int64_t middle, int64_t stop)
{
    int64_t a = start, b = middle;
    for (int64_t at = start; at < stop; at++) {
        if (b < stop && (a >= middle || from[b].m < from[a].m))
            to[at] = from[b++];
        else
            to[at] = from[a++];
    }
}

/* Sort the rows by margin; equal ones keep their order. */
static void list_sort(list_t *list)
{
    int64_t n = list->size;
    for (int64_t start = 0; start < n; start += RUN) {
        int64_t stop = start + RUN < n ? start + RUN : n;
        for (int64_t i = start + 1; i < stop; i++) {
            row_t row = list->rows[i];
            int64_t at = i;
            for (; at > start && row.m < list->rows[at - 1].m; at--)
                list->rows[at] = list->rows[at - 1];
            list->rows[at] = row;
        }
    }
    for (int64_t width = RUN; width < n; width *= 2) {
        row_t *sorted = list->spare;
        for (int64_t start = 0; start < n; start += 2 * width) {
            int64_t middle = start + width < n ? start + width : n;
            int64_t stop = middle + width < n ? middle + width : n;
            merge(list->rows, sorted, start, middle, stop);
        }
        list->spare = list->rows;
        list->rows = sorted;
    }
}

/* Separate the sorted rows of layer k and those below it. */
static void list_group(list_t *list, int64_t k)
{
    list->n_tops = list->n_below = 0;
    for (int64_t r = 0; r < list->size; r++) {
        int64_t layer = list->layer_of[list->rows[r].row];
        list->tops[list->n_tops] = list->rows[r];
        list->below[list->n_below] = list->rows[r];
        list->n_tops += layer == k;
        list->n_below += layer < k;
    }
}

/* --- value and slopes ----------------------------------------------------------------------- */

/* The slopes of the tops, highest first; return the loss. */
static double top_slopes(const list_t *list, const pair_curve_t *curve, double *out)
{
    const row_t *below = list->below;
    double value = 0.0, half = 0.5 * curve->bend;
    double n = 0.0, s1 = 0.0, s2 = 0.0, far = 0.0, f1 = 0.0, f2 = 0.0;
    int64_t p = list->n_below - 1, f = p;
    for (int64_t t = list->n_tops - 1; t >= 0; t--) {
        double u = 1.0 - list->tops[t].m, w = list->tops[t].w, c, t1, t2, v;
        for (; p >= 0 && u + below[p].m > curve->lower; p--) {
            n += 1.0;
            s1 += below[p].m;
            s2 += below[p].m * below[p].m;
        }
        for (; f >= 0 && u + below[f].m > curve->upper; f--) {
            far += 1.0;
            f1 += below[f].m;
            f2 += below[f].m * below[f].m;
        }
        c = n - far;
        t1 = s1 - f1;
        t2 = s2 - f2;
        v = half * (((c * u) * u + (2.0 * u) * t1) + t2);
        if (far > 0.0)
            v = v + (far * (u - 0.5 * curve->upper) + f1);
        value += w * v;
        out[list->tops[t].row] -= w * (curve->bend * (c * u + t1) + far);
    }
    return value;
}

/* The slopes of the rows below, lowest first. */
static void bottom_slopes(const list_t *list, const pair_curve_t *curve, double *out)
{
    const row_t *tops = list->tops;
    double n = 0.0, s1 = 0.0, far = 0.0, f1 = 0.0;
    int64_t p = 0, f = 0;
    for (int64_t b = 0; b < list->n_below; b++) {
        double m = list->below[b].m;
        for (; p < list->n_tops && (1.0 - tops[p].m) + m > curve->lower; p++) {
            n += tops[p].w;
            s1 += tops[p].w * (1.0 - tops[p].m);
        }
        for (; f < list->n_tops && (1.0 - tops[f].m) + m > curve->upper; f++) {
            far += tops[f].w;
            f1 += tops[f].w * (1.0 - tops[f].m);
        }
        out[list->below[b].row] += curve->bend * ((n - far) * m + (s1 - f1)) + far;
    }
}

static double window_slopes(list_t *list, const pair_curve_t *curve, double *out)
{
    double value = 0.0;
    list_sort(list);
    for (int64_t k = 1; k < list->n_layers; k++) {
        list_group(list, k);
        value += top_slopes(list, curve, out);
        bottom_slopes(list, curve, out);
    }
    return value;
}

/* Copy the margins below layer k, padded with -infinity, and return their padded number. */
static int64_t load_low(list_t *list, int64_t k)
{
    int64_t n = list->layer_ptr[k] - list->first, padded = (n + 3) / 4 * 4;
    for (int64_t r = 0; r < n; r++)
        list->low[r] = list->rows[r].m;
    for (int64_t r = n; r < padded; r++)
        list->low[r] = -INFINITY;
    memset(list->pull, 0, (size_t)padded * sizeof(double));
    return padded;
}

/* The loss of one row and the rows below it; their slopes are added to `pull`. */
static double logistic_row(list_t *list, double m, double w, int64_t padded, double *slope)
{
    const lanes_t zero = lanes_splat(0.0), one = lanes_splat(1.0);
    lanes_t sum = zero;
    double v = 0.0;
    for (int64_t start = 0; start < padded; start += PRODUCTS) {
        int64_t stop = start + PRODUCTS < padded ? start + PRODUCTS : padded;
        lanes_t linear = zero, factors = one;
        for (int64_t j = start; j < stop; j += 4) {
            lanes_t z = lanes_splat(m) - lanes_load(list->low + j);
            lanes_t e = lanes_exp(lanes_select(z < zero, z, -z)), plus = one + e;
            lanes_t s = lanes_select(z < zero, one, e) / plus;
            linear = linear + lanes_select(z < zero, -z, zero);
            factors = factors * plus;
            sum = sum + s;
            lanes_store(list->pull + j, lanes_load(list->pull + j) + lanes_splat(w) * s);
        }
        v += lanes_sum(linear) + log((factors[0] * factors[2]) * (factors[1] * factors[3]));
    }
    *slope = lanes_sum(sum);
    return v;
}

static double native_row(list_t *list, const pair_curve_t *curve, double m, double w, int64_t n,
                         double *slope)
{
    double v = 0.0, total = 0.0;
    for (int64_t j = 0; j < n; j++) {
        double z = m - list->low[j], s;
        v += curve->value(z, curve->value_context);
        s = curve->slope(z, curve->slope_context);
        total += s;
        list->pull[j] -= w * s;
    }
    *slope = total;
    return v;
}

static double pair_slopes(list_t *list, const pair_curve_t *curve, double *out)
{
    double value = 0.0;
    for (int64_t k = 1; k < list->n_layers; k++) {
        int64_t n = list->layer_ptr[k] - list->first, padded = load_low(list, k);
        for (int64_t i = n; i < list->layer_ptr[k + 1] - list->first; i++) {
            double m = list->rows[i].m, w = list->rows[i].w, slope;
            if (curve->form == PAIRWISE_LOGISTIC) {
                value += w * logistic_row(list, m, w, padded, &slope);
                out[i] -= w * slope;
            } else {
                value += w * native_row(list, curve, m, w, n, &slope);
                out[i] += w * slope;
            }
        }
        for (int64_t j = 0; j < n; j++)
            out[j] += list->pull[j];
    }
    return value;
}

static int by_windows(const pair_curve_t *curve)
{
    return curve->form == PAIRWISE_HINGE || curve->form == PAIRWISE_SQUARED_HINGE;
}

typedef struct {
    const pair_lists_t *lists;
    const double *margins;
    const pair_curve_t *curve;
    double *out, *values;
    int64_t longest;
    int failed;
} slopes_task_t;

static void slopes_of_block(void *of, int block, int n_blocks)
{
    slopes_task_t *task = of;
    const pair_lists_t *lists = task->lists;
    list_t list;
    double value = 0.0;
    (void)n_blocks;
    if (!list_allocate(&list, task->longest)) {
        __atomic_store_n(&task->failed, 1, __ATOMIC_RELAXED);
        list_free(&list);
        return;
    }
    for (int64_t q = lists->block_ptr[block]; q < lists->block_ptr[block + 1]; q++) {
        double *out;
        list_load(&list, lists, q, task->margins);
        out = task->out + list.first;
        memset(out, 0, (size_t)list.size * sizeof(double));
        value += by_windows(task->curve) ? window_slopes(&list, task->curve, out)
                                         : pair_slopes(&list, task->curve, out);
    }
    task->values[block] = value;
    list_free(&list);
}

int pairwise_slopes(const pair_lists_t *lists, const double *margins, const pair_curve_t *curve,
                    double *out, double *values, int n_threads)
{
    slopes_task_t task = {lists, margins, curve, out, values, longest_list(lists), 0};
    team_for(slopes_of_block, &task, (int)lists->n_blocks, n_threads);
    return !task.failed;
}

/* --- the Gram matrix ------------------------------------------------------------------------ */

/* The rows of a list by row, `width` values each, padded to eight: x, and y = Hx. */
typedef struct {
    double *x, *y, *sum, *diagonal, *curvatures;
    int64_t *active, *cursor; /* the columns with entries, and where these continue */
    int64_t n_active, width;
} local_t;

/* Add the row `from` times `scale` to `to`. */
static void add_scaled(double *to, double scale, const double *from, int64_t width)
{
    lanes_t s = lanes_splat(scale);
    for (int64_t c = 0; c < width; c += 4)
        lanes_store(to + c, lanes_load(to + c) + s * lanes_load(from + c));
}

static void subtract_scaled(double *to, double scale, const double *from, int64_t width)
{
    lanes_t s = lanes_splat(scale);
    for (int64_t c = 0; c < width; c += 4)
        lanes_store(to + c, lanes_load(to + c) - s * lanes_load(from + c));
}

/* Add scale * (n * x - sum) to `to`. */
static void add_difference(double *to, double scale, double n, const double *x, const double *sum,
                           int64_t width)
{
    lanes_t s = lanes_splat(scale), count = lanes_splat(n);
    for (int64_t c = 0; c < width; c += 4)
        lanes_store(to + c, lanes_load(to + c)
                                + s * (count * lanes_load(x + c) - lanes_load(sum + c)));
}

static void top_products(const list_t *list, const pair_curve_t *curve, local_t *local)
{
    const row_t *below = list->below;
    int64_t p = list->n_below - 1, f = p, width = local->width;
    double n = 0.0;
    memset(local->sum, 0, (size_t)width * sizeof(double));
    for (int64_t t = list->n_tops - 1; t >= 0; t--) {
        const row_t *top = list->tops + t;
        double u = 1.0 - top->m;
        for (; p >= 0 && u + below[p].m > curve->lower; p--) {
            n += 1.0;
            add_scaled(local->sum, 1.0, local->x + below[p].row * width, width);
        }
        for (; f >= 0 && u + below[f].m > curve->upper; f--) {
            n -= 1.0;
            subtract_scaled(local->sum, 1.0, local->x + below[f].row * width, width);
        }
        add_difference(local->y + top->row * width, top->w * curve->bend, n,
                       local->x + top->row * width, local->sum, width);
    }
}

static void bottom_products(const list_t *list, const pair_curve_t *curve, local_t *local)
{
    const row_t *tops = list->tops;
    int64_t p = 0, f = 0, width = local->width;
    double n = 0.0;
    memset(local->sum, 0, (size_t)width * sizeof(double));
    for (int64_t b = 0; b < list->n_below; b++) {
        const row_t *bottom = list->below + b;
        for (; p < list->n_tops && (1.0 - tops[p].m) + bottom->m > curve->lower; p++) {
            n += tops[p].w;
            add_scaled(local->sum, tops[p].w, local->x + tops[p].row * width, width);
        }
        for (; f < list->n_tops && (1.0 - tops[f].m) + bottom->m > curve->upper; f++) {
            n -= tops[f].w;
            subtract_scaled(local->sum, tops[f].w, local->x + tops[f].row * width, width);
        }
        add_difference(local->y + bottom->row * width, curve->bend, n,
                       local->x + bottom->row * width, local->sum, width);
    }
}

static void window_products(list_t *list, const pair_curve_t *curve, local_t *local)
{
    list_sort(list);
    for (int64_t k = 1; k < list->n_layers; k++) {
        list_group(list, k);
        top_products(list, curve, local);
        bottom_products(list, curve, local);
    }
}

/* Fill `curvatures` for the pairs of a row with margin m. */
static void pair_curvatures(const list_t *list, const pair_curve_t *curve, double m, int64_t n,
                            double *curvatures)
{
    const lanes_t zero = lanes_splat(0.0), one = lanes_splat(1.0);
    if (curve->form == PAIRWISE_LOGISTIC) {
        for (int64_t j = 0; j < n; j += 4) {
            lanes_t z = lanes_splat(m) - lanes_load(list->low + j);
            lanes_t e = lanes_exp(lanes_select(z < zero, z, -z)), plus = one + e;
            lanes_store(curvatures + j, (e / plus) / plus);
        }
        return;
    }
    for (int64_t j = 0; j < n; j++) {
        double z = m - list->low[j];
        double after = curve->slope(z + SECANT, curve->slope_context);
        double before = curve->slope(z - SECANT, curve->slope_context);
        double k = (after - before) * (0.5 / SECANT);
        k = k > 0.0 ? k : 0.0;
        curvatures[j] = k < curve->bend ? k : curve->bend;
    }
}

static void pair_products(list_t *list, const pair_curve_t *curve, local_t *local)
{
    int64_t width = local->width;
    memset(local->diagonal, 0, (size_t)list->size * sizeof(double));
    for (int64_t k = 1; k < list->n_layers; k++) {
        int64_t n = list->layer_ptr[k] - list->first;
        load_low(list, k);
        for (int64_t i = n; i < list->layer_ptr[k + 1] - list->first; i++) {
            double w = list->rows[i].w, total = 0.0;
            double *y = local->y + i * width;
            const double *x = local->x + i * width;
            pair_curvatures(list, curve, list->rows[i].m, n, local->curvatures);
            for (int64_t j = 0; j < n; j++) {
                double each = w * local->curvatures[j];
                if (each == 0.0)
                    continue;
                total += each;
                local->diagonal[j] += each;
                subtract_scaled(y, each, local->x + j * width, width);
                subtract_scaled(local->y + j * width, each, x, width);
            }
            local->diagonal[i] += total;
        }
    }
    for (int64_t r = 0; r < list->size; r++)
        add_scaled(local->y + r * width, local->diagonal[r], local->x + r * width, width);
}

/* Add the products of four columns of x and eight of y over some rows. */
static void add_tile(const local_t *local, int64_t start, int64_t stop, int64_t i, int64_t j,
                     double *gram, int64_t n)
{
    lanes_t sums[4][2];
    double out[8];
    for (int a = 0; a < 4; a++)
        sums[a][0] = sums[a][1] = lanes_splat(0.0);
    for (int64_t r = start; r < stop; r++) {
        const double *x = local->x + r * local->width + i, *y = local->y + r * local->width + j;
        lanes_t first = lanes_load(y), second = lanes_load(y + 4);
        for (int a = 0; a < 4; a++) {
            lanes_t each = lanes_splat(x[a]);
            sums[a][0] = sums[a][0] + each * first;
            sums[a][1] = sums[a][1] + each * second;
        }
    }
    for (int64_t a = 0; a < 4 && i + a < local->n_active; a++) {
        double *row = gram + local->active[i + a] * n;
        lanes_store(out, sums[a][0]);
        lanes_store(out + 4, sums[a][1]);
        for (int64_t b = 0; b < 8 && j + b < local->n_active; b++)
            row[local->active[j + b]] += out[b];
    }
}

static void add_products(const local_t *local, int64_t rows, double *gram, int64_t n)
{
    for (int64_t start = 0; start < rows; start += CHUNK) {
        int64_t stop = start + CHUNK < rows ? start + CHUNK : rows;
        for (int64_t i = 0; i < local->n_active; i += 4)
            for (int64_t j = i / 8 * 8; j < local->n_active; j += 8)
                add_tile(local, start, stop, i, j, gram, n);
    }
}

static double value_at(const columns_t *x, int64_t at)
{
    return x->data64 ? ((const double *)x->data)[at] : (double)((const float *)x->data)[at];
}

static int64_t index_at(const columns_t *x, const void *indices, int64_t at)
{
    return x->index64 ? ((const int64_t *)indices)[at] : ((const int32_t *)indices)[at];
}

/* The first entry from `start` on whose row is not below `row`. */
static int64_t seek(const columns_t *x, int64_t start, int64_t stop, int64_t row)
{
    while (start < stop) {
        int64_t middle = start + (stop - start) / 2;
        if (index_at(x, x->indices, middle) < row)
            start = middle + 1;
        else
            stop = middle;
    }
    return start;
}

/* Copy a column of a dense list to x, less its first value. */
static void load_dense(const columns_t *x, int64_t column, const list_t *list, double *to,
                       int64_t width)
{
    int64_t at = column * x->n_rows + list->first;
    double first = value_at(x, at);
    for (int64_t r = 0; r < list->size; r++)
        to[r * width] = value_at(x, at + r) - first;
}

static void load_sparse(const columns_t *x, int64_t start, int64_t stop, const list_t *list,
                        double *to, int64_t width)
{
    double first = index_at(x, x->indices, start) == list->first ? value_at(x, start) : 0.0;
    for (int64_t r = 0; r < list->size; r++)
        to[r * width] = 0.0 - first;
    for (int64_t at = start; at < stop; at++)
        to[(index_at(x, x->indices, at) - list->first) * width] = value_at(x, at) - first;
}

/* Find the columns with entries in a list; `cursor` is after the entries of the lists before. */
static void find_active(const column_selection_t *of, const list_t *list, local_t *local)
{
    const columns_t *x = of->features;
    local->n_active = 0;
    for (int64_t c = 0; c < of->n_columns; c++) {
        if (x->indptr != NULL) {
            int64_t end = index_at(x, x->indptr, of->columns[c] + 1);
            local->cursor[c] = seek(x, local->cursor[c], end, list->first);
            if (local->cursor[c] == end
                || index_at(x, x->indices, local->cursor[c]) >= list->first + list->size)
                continue;
        }
        local->active[local->n_active++] = c;
    }
    local->width = (local->n_active + 7) / 8 * 8;
}

static void local_load(const column_selection_t *of, const list_t *list, local_t *local)
{
    const columns_t *x = of->features;
    find_active(of, list, local);
    for (int64_t a = 0; a < local->n_active; a++) {
        int64_t c = local->active[a], column = of->columns[c];
        if (x->indptr == NULL) {
            load_dense(x, column, list, local->x + a, local->width);
        } else {
            int64_t end = index_at(x, x->indptr, column + 1);
            int64_t stop = seek(x, local->cursor[c], end, list->first + list->size);
            load_sparse(x, local->cursor[c], stop, list, local->x + a, local->width);
            local->cursor[c] = stop;
        }
    }
    for (int64_t a = local->n_active; a < local->width; a++)
        for (int64_t r = 0; r < list->size; r++)
            local->x[r * local->width + a] = 0.0;
    memset(local->y, 0, (size_t)(list->size * local->width) * sizeof(double));
}

static int local_allocate(local_t *local, const column_selection_t *of, int64_t longest)
{
    size_t n = (size_t)of->n_columns, width = (n + 7) / 8 * 8, rows = (size_t)longest;
    local->x = malloc((2 * rows * width + width + 2 * (rows + 4)) * sizeof(double));
    local->active = malloc((2 * n + 1) * sizeof(int64_t));
    if (local->x == NULL || local->active == NULL)
        return 0;
    local->y = local->x + rows * width;
    local->sum = local->y + rows * width;
    local->diagonal = local->sum + width;
    local->curvatures = local->diagonal + rows + 4;
    local->cursor = local->active + n;
    for (size_t c = 0; c < n; c++)
        local->cursor[c] = of->features->indptr
                               ? index_at(of->features, of->features->indptr, of->columns[c])
                               : 0;
    return 1;
}

typedef struct {
    const column_selection_t *x;
    const pair_lists_t *lists;
    const double *margins;
    const pair_curve_t *curve;
    const int64_t *selected;
    int64_t n_selected, longest;
    double *sums; /* one matrix per part */
    int failed;
} gram_task_t;

static void gram_of_part(void *of, int part, int parts)
{
    gram_task_t *task = of;
    int64_t n = task->x->n_columns;
    int64_t stop = (part + 1) * task->n_selected / parts;
    list_t list;
    local_t local;
    int ready = list_allocate(&list, task->longest);
    ready = local_allocate(&local, task->x, task->longest) && ready;
    if (!ready)
        __atomic_store_n(&task->failed, 1, __ATOMIC_RELAXED);
    for (int64_t at = part * task->n_selected / parts; ready && at < stop; at++) {
        list_load(&list, task->lists, task->selected[at], task->margins);
        local_load(task->x, &list, &local);
        if (by_windows(task->curve))
            window_products(&list, task->curve, &local);
        else
            pair_products(&list, task->curve, &local);
        add_products(&local, list.size, task->sums + part * n * n, n);
    }
    list_free(&list);
    free(local.x);
    free(local.active);
}

int pairwise_gram(const column_selection_t *x, const pair_lists_t *lists, const double *margins,
                  const pair_curve_t *curve, const int64_t *selected, int64_t n_selected,
                  double *out, int n_threads)
{
    int64_t n = x->n_columns;
    gram_task_t task = {x, lists, margins, curve, selected, n_selected, longest_list(lists),
                        NULL, 0};
    task.sums = calloc((size_t)(PARTS * n * n) + 1, sizeof(double));
    if (task.sums == NULL)
        return 0;
    team_for(gram_of_part, &task, PARTS, n_threads);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = i; j < n; j++) {
            double total = 0.0;
            for (int64_t part = 0; part < PARTS; part++)
                total += task.sums[part * n * n + i * n + j];
            out[i * n + j] = out[j * n + i] = total;
        }
    free(task.sums);
    return !task.failed;
}

/* --- columns -------------------------------------------------------------------------------- */

typedef struct {
    const column_selection_t *x;
    const double *from;
    double *to;
} columns_task_t;

static void products_of_block(void *of, int block, int n_blocks)
{
    const columns_task_t *task = of;
    const columns_t *x = task->x->features;
    int64_t start = (int64_t)block * BLOCK;
    int64_t rows = x->n_rows - start < BLOCK ? x->n_rows - start : BLOCK;
    const double *values = task->from + start;
    (void)n_blocks;
    for (int64_t c = 0; c < task->x->n_columns; c++) {
        int64_t at = task->x->columns[c] * x->n_rows + start;
        task->to[block * task->x->n_columns + c]
            = x->data64 ? dot_double((const double *)x->data + at, values, rows)
                        : dot_float((const float *)x->data + at, values, rows);
    }
}

static void products_of_column(void *of, int c, int n_columns)
{
    const columns_task_t *task = of;
    const columns_t *x = task->x->features;
    int64_t column = task->x->columns[c], stop = index_at(x, x->indptr, column + 1);
    double total = 0.0;
    (void)n_columns;
    for (int64_t at = index_at(x, x->indptr, column); at < stop; at++)
        total += value_at(x, at) * task->from[index_at(x, x->indices, at)];
    task->to[c] = total;
}

int column_products(const column_selection_t *x, const double *values, double *out, int n_threads)
{
    int64_t n = x->n_columns, blocks = (x->features->n_rows + BLOCK - 1) / BLOCK;
    columns_task_t task = {x, values, out};
    if (x->features->indptr != NULL) {
        team_for(products_of_column, &task, (int)n, n_threads);
        return 1;
    }
    task.to = malloc((size_t)(blocks * n + 1) * sizeof(double));
    if (task.to == NULL)
        return 0;
    team_for(products_of_block, &task, (int)blocks, n_threads);
    for (int64_t c = 0; c < n; c++) {
        double total = 0.0;
        for (int64_t block = 0; block < blocks; block++)
            total += task.to[block * n + c];
        out[c] = total;
    }
    free(task.to);
    return 1;
}

static void combine_block(void *of, int block, int n_blocks)
{
    const columns_task_t *task = of;
    const columns_t *x = task->x->features;
    int64_t start = (int64_t)block * BLOCK;
    int64_t rows = x->n_rows - start < BLOCK ? x->n_rows - start : BLOCK;
    double *restrict to = task->to + start;
    (void)n_blocks;
    for (int64_t c = 0; c < task->x->n_columns; c++) {
        int64_t at = task->x->columns[c] * x->n_rows + start;
        double weight = task->from[c];
        if (weight == 0.0)
            continue;
        if (x->data64) {
            const double *from = (const double *)x->data + at;
            for (int64_t r = 0; r < rows; r++)
                to[r] += weight * from[r];
        } else {
            const float *from = (const float *)x->data + at;
            for (int64_t r = 0; r < rows; r++)
                to[r] += weight * (double)from[r];
        }
    }
}

void column_combination(const column_selection_t *x, const double *weights, double *out,
                        int n_threads)
{
    const columns_t *of = x->features;
    columns_task_t task = {x, weights, out};
    if (of->indptr == NULL) {
        team_for(combine_block, &task, (int)((of->n_rows + BLOCK - 1) / BLOCK), n_threads);
        return;
    }
    for (int64_t c = 0; c < x->n_columns; c++) {
        int64_t stop = index_at(of, of->indptr, x->columns[c] + 1);
        if (weights[c] == 0.0)
            continue;
        for (int64_t at = index_at(of, of->indptr, x->columns[c]); at < stop; at++)
            out[index_at(of, of->indices, at)] += weights[c] * value_at(of, at);
    }
}

/* --- the quadratic model -------------------------------------------------------------------- */

/* Minimize along weight r; return a lower bound of the decrease. */
static double descend_along(const quadratic_model_t *model, int64_t r)
{
    const double *restrict row = model->gram + r * model->n;
    double *restrict gradient = model->gradient;
    double h = row[r], w = model->weights[r], c = h + model->l2, pull, target = 0.0, step;
    if (!(c > 0.0))
        return 0.0;
    pull = h * w - gradient[r];
    if (pull > model->l1)
        target = (pull - model->l1) / c;
    else if (pull < -model->l1)
        target = (pull + model->l1) / c;
    step = target - w;
    if (step == 0.0)
        return 0.0;
    model->weights[r] = target;
    for (int64_t i = 0; i < model->n; i++)
        gradient[i] += step * row[i];
    return 0.5 * c * (step * step);
}

int64_t quadratic_descent(const quadratic_model_t *model, int64_t sweeps)
{
    double total = 0.0;
    for (int64_t sweep = 0; sweep < sweeps; sweep++) {
        double change = 0.0;
        for (int64_t r = 0; r < model->n; r++)
            change += descend_along(model, r);
        total += change;
        if (!(change > model->tolerance * total))
            return sweep + 1;
    }
    return sweeps;
}
