/* Half-steps over M, one row at a time: product, threshold, norm and gain while it is in the cache.
 *
 * The embeddings of the other side are read in random order, and fetching them is the cost; so they
 * are prefetched.
 */
#include "alternating.h"

#include <stdlib.h>

#include "arena.h"
#include "float8.h"
#include "thread_team.h"

typedef int32_t float8_mask_t __attribute__((vector_size(32)));

enum {
    AHEAD = 8, /* entries of M by which an embedding is prefetched */
    TILE = 14, /* vectors of eight that are summed in registers: 16, less value and product */
    STREAMS = 8, /* wide embeddings that are added at a time */
    LINE = 16, /* floats of a cache line */
    CHUNKS = 32, /* of rows, per thread: the last ones to end should be short */
};

/* The column of a later entry, in this row or in one of the next. */
LANES_INLINE int64_t column_ahead(const csr_t *matrix, int64_t entry)
{
    return csr_column(matrix, entry < matrix->n_entries ? entry : matrix->n_entries - 1);
}

/* The first row of a chunk. Chunks have similar numbers of entries, as a few rows may have most of
 * them; each row counts as one more, so that empty rows are distributed, too. */
static int64_t chunk_start(const csr_t *matrix, int64_t chunk, int64_t chunks)
{
    int64_t low = 0, high = matrix->n_rows;
    int64_t goal
        = (int64_t)((double)(csr_start(matrix, high) + high) * (double)chunk / (double)chunks);
    if (chunk == chunks)
        return high;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (csr_start(matrix, middle) + middle < goal)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int64_t half_step_chunks(int64_t n_rows, int n_threads)
{
    int64_t most = (int64_t)n_threads * CHUNKS;
    return n_rows < most ? n_rows : most;
}

/* --- threshold and norm -------------------------------------------------------------------- */

LANES_INLINE float8_t float8_abs(float8_t v)
{
    return (float8_t)((float8_mask_t)v & 0x7fffffff);
}

LANES_INLINE float8_t soft_threshold(float8_t omega, float8_t threshold)
{
    float8_t shrunk = float8_abs(omega) - threshold;
    float8_mask_t sign = (float8_mask_t)omega & (int32_t)0x80000000;
    return (float8_t)(((float8_mask_t)shrunk | sign)
                      & (float8_mask_t)(shrunk > float8_splat(0.0f)));
}

/* Fill `soft` with the thresholded omega; return by what it is to be scaled. */
LANES_INLINE float shrink_row(
    const half_step_rule_t *rule, const float *omega, ptrdiff_t n, float *soft)
{
    float8_t squares = float8_splat(0.0f), threshold = float8_splat(rule->threshold);
    for (ptrdiff_t i = 0; i < n; i += 8) {
        float8_t s = soft_threshold(float8_load(omega + i), threshold);
        float8_store(soft + i, s);
        squares += s * s;
    }
    float square = float8_sum(squares);
    /* A factor of 1 changes nothing: one loop serves rows that are scaled and rows that are not. */
    return rule->limited && square > 0.0f ? rule->limit / sqrtf(square) : 1.0f;
}

/* The sums of which a gain is computed. */
typedef struct {
    float8_t products, sizes;
} gain_t;

LANES_INLINE void add_gain(gain_t *gain, float8_t row, float8_t omega)
{
    gain->products += row * omega;
    gain->sizes += float8_abs(row);
}

LANES_INLINE double total_gain(const half_step_rule_t *rule, const gain_t *gain)
{
    return (double)float8_sum(gain->products)
           - (double)rule->threshold * (double)float8_sum(gain->sizes);
}

/* --- dense --------------------------------------------------------------------------------- */

/* Call CASE(1), CASE(2), ... with a constant argument. */
#define CASE_1_TO_7(CASE) CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7)
#define CASE_8_TO_14(CASE) CASE(8) CASE(9) CASE(10) CASE(11) CASE(12) CASE(13) CASE(14)

/* Compute the product of a row in registers: embeddings have `parts` vectors of eight. */
LANES_INLINE void narrow_product(
    const half_step_t *task, int64_t start, int64_t stop, float *omega, const int parts)
{
    float8_t sums[TILE];
    for (int k = 0; k < parts; k++)
        sums[k] = float8_splat(0.0f);
    for (int64_t at = start; at < stop; at++) {
        const float *row = task->embeddings + csr_column(&task->matrix, at) * task->width;
        const float *later
            = task->embeddings + column_ahead(&task->matrix, at + AHEAD) * task->width;
        float8_t value = float8_splat(csr_value_float(&task->matrix, at));
        for (int line = 0; line < 8 * parts; line += LINE)
            __builtin_prefetch(later + line);
        __builtin_prefetch(later + 8 * parts - 1);
#pragma GCC unroll 14
        for (int k = 0; k < parts; k++)
            sums[k] += value * float8_load(row + 8 * k);
    }
    for (int k = 0; k < parts; k++)
        float8_store(omega + 8 * k, sums[k]);
}

/* Add some embeddings to omega side by side, so that the processor prefetches each of them. */
LANES_INLINE void add_streams(
    const half_step_t *task, int64_t at, float *omega, const int streams)
{
    const float *rows[STREAMS];
    float8_t values[STREAMS];
    for (int k = 0; k < streams; k++) {
        rows[k] = task->embeddings + csr_column(&task->matrix, at + k) * task->width;
        values[k] = float8_splat(csr_value_float(&task->matrix, at + k));
    }
    for (ptrdiff_t i = 0; i < task->width; i += 8) {
        float8_t sum = float8_load(omega + i);
#pragma GCC unroll 8
        for (int k = 0; k < streams; k++)
            sum += values[k] * float8_load(rows[k] + i);
        float8_store(omega + i, sum);
    }
}

/* Compute the product of a row with embeddings that are too wide for registers. */
static void wide_product(const half_step_t *task, int64_t start, int64_t stop, float *omega)
{
    memset(omega, 0, (size_t)task->width * sizeof(float));
    for (; stop - start >= STREAMS; start += STREAMS)
        add_streams(task, start, omega, STREAMS);
#define CASE(n)                                                                                    \
    case n:                                                                                        \
        add_streams(task, start, omega, n);                                                        \
        break;
    switch (stop - start) {
        CASE_1_TO_7(CASE)
    }
#undef CASE
}

static void product(const half_step_t *task, int64_t row, float *omega)
{
    int64_t start = csr_start(&task->matrix, row), stop = csr_start(&task->matrix, row + 1);
#define CASE(n)                                                                                    \
    case n:                                                                                        \
        narrow_product(task, start, stop, omega, n);                                               \
        break;
    switch (task->width / 8) {
        CASE_1_TO_7(CASE)
        CASE_8_TO_14(CASE)
    default:
        wide_product(task, start, stop, omega);
    }
#undef CASE
}

static void half_step_rows(const half_step_t *task, int64_t first, int64_t last, float *omega)
{
    for (int64_t row = first; row < last; row++) {
        float *out = task->out + row * task->width;
        gain_t gain = {float8_splat(0.0f), float8_splat(0.0f)};
        product(task, row, omega);
        float8_t scale = float8_splat(shrink_row(&task->rule, omega, task->width, out));
        for (ptrdiff_t i = 0; i < task->width; i += 8) {
            float8_t v = float8_load(out + i) * scale;
            float8_store(out + i, v);
            add_gain(&gain, v, float8_load(omega + i));
        }
        task->gains[row] = total_gain(&task->rule, &gain);
    }
}

typedef struct {
    const half_step_t *dense;
    const half_step_sparse_t *sparse;
    sparse_rows_t *chunks;
    int failed;
} half_step_run_t;

static void dense_work(void *of, int chunk, int n_chunks)
{
    half_step_run_t *run = of;
    const half_step_t *task = run->dense;
    float *omega = calloc((size_t)task->width, sizeof(float));
    if (omega)
        half_step_rows(
            task, chunk_start(&task->matrix, chunk, n_chunks),
            chunk_start(&task->matrix, chunk + 1, n_chunks), omega);
    else
        __atomic_store_n(&run->failed, 1, __ATOMIC_RELAXED);
    free(omega);
}

int half_step(const half_step_t *task, int n_threads)
{
    half_step_run_t run = {.dense = task};
    team_for(
        dense_work, &run, (int)half_step_chunks(task->matrix.n_rows, n_threads), n_threads);
    return !run.failed;
}

/* --- sparse -------------------------------------------------------------------------------- */

void sparse_rows_free(sparse_rows_t *rows)
{
    free(rows->dimensions);
    free(rows->values);
    rows->dimensions = NULL;
    rows->values = NULL;
}

/* Make sure that so many more fit; 0 without memory. */
static int reserve(sparse_rows_t *rows, int64_t more)
{
    int64_t capacity = rows->count + more;
    void *dimensions, *values;
    if (capacity <= rows->capacity)
        return 1;
    capacity += capacity / 2;
    if ((dimensions = realloc(rows->dimensions, (size_t)capacity * sizeof(int32_t))) == NULL)
        return 0;
    rows->dimensions = dimensions;
    if ((values = realloc(rows->values, (size_t)capacity * sizeof(float))) == NULL)
        return 0;
    rows->values = values;
    rows->capacity = capacity;
    return 1;
}

/* Pointers are prefetched first, as what they point to cannot be prefetched without them. Both
 * ends of an embedding are prefetched whatever its length: a short one should cost no branch. */
LANES_INLINE void prefetch_sparse(const half_step_sparse_t *task, int64_t at)
{
    int64_t later = column_ahead(&task->matrix, at + AHEAD);
    int64_t first = task->indptr[later], last = task->indptr[later + 1];
    __builtin_prefetch(task->indptr + column_ahead(&task->matrix, at + 2 * AHEAD));
    __builtin_prefetch(task->dimensions + first);
    __builtin_prefetch(task->values + first);
    __builtin_prefetch(task->dimensions + last);
    __builtin_prefetch(task->values + last);
    for (int64_t line = first + LINE; line < last; line += LINE) {
        __builtin_prefetch(task->dimensions + line);
        __builtin_prefetch(task->values + line);
    }
}

/* Add the product of a row to `omega`, which is zero. */
LANES_INLINE void scatter_product(const half_step_sparse_t *task, int64_t row, float *omega)
{
    int64_t stop = csr_start(&task->matrix, row + 1);
    for (int64_t at = csr_start(&task->matrix, row); at < stop; at++) {
        int64_t column = csr_column(&task->matrix, at), end = task->indptr[column + 1];
        float value = csr_value_float(&task->matrix, at);
        prefetch_sparse(task, at);
        for (int64_t i = task->indptr[column]; i < end; i++)
            omega[task->dimensions[i]] += value * task->values[i];
    }
}

LANES_INLINE int any_nonzero(float8_t v)
{
    float8_mask_t nonzero = (float8_mask_t)(v != float8_splat(0.0f));
#ifdef __AVX2__
    return _mm256_movemask_ps((__m256)nonzero) != 0;
#else
    int any = 0;
    for (int i = 0; i < 8; i++)
        any |= nonzero[i];
    return any != 0;
#endif
}

LANES_INLINE void append(sparse_rows_t *rows, float8_t v, ptrdiff_t first)
{
    for (int i = 0; i < 8; i++) {
        rows->dimensions[rows->count] = (int32_t)(first + i);
        rows->values[rows->count] = v[i];
        rows->count += v[i] != 0.0f;
    }
}

/* Compute rows first to last; `omega` and `soft` hold one row, and omega is zero before and after.
 * Return 0 without memory. */
static int sparse_half_step_rows(
    const half_step_sparse_t *task, int64_t first, int64_t last, float *omega, sparse_rows_t *out)
{
    float *soft = omega + task->width;
    for (int64_t row = first; row < last; row++) {
        int64_t before = out->count;
        gain_t gain = {float8_splat(0.0f), float8_splat(0.0f)};
        /* One more, as an entry is written before it is known to count. */
        if (!reserve(out, task->width + 1))
            return 0;
        scatter_product(task, row, omega);
        float8_t scale = float8_splat(shrink_row(&task->rule, omega, task->width, soft));
        for (ptrdiff_t i = 0; i < task->width; i += 8) {
            float8_t v = float8_load(soft + i) * scale;
            add_gain(&gain, v, float8_load(omega + i));
            float8_store(omega + i, float8_splat(0.0f));
            if (any_nonzero(v))
                append(out, v, i);
        }
        task->gains[row] = total_gain(&task->rule, &gain);
        task->counts[row] = out->count - before;
    }
    return 1;
}

static void sparse_work(void *of, int chunk, int n_chunks)
{
    half_step_run_t *run = of;
    const half_step_sparse_t *task = run->sparse;
    float *rows = calloc(2 * (size_t)task->width, sizeof(float));
    if (!rows
        || !sparse_half_step_rows(
            task, chunk_start(&task->matrix, chunk, n_chunks),
            chunk_start(&task->matrix, chunk + 1, n_chunks), rows, run->chunks + chunk))
        __atomic_store_n(&run->failed, 1, __ATOMIC_RELAXED);
    free(rows);
}

int half_step_sparse(const half_step_sparse_t *task, sparse_rows_t *chunks, int n_threads)
{
    half_step_run_t run = {.sparse = task, .chunks = chunks};
    team_for(
        sparse_work, &run, (int)half_step_chunks(task->matrix.n_rows, n_threads), n_threads);
    return !run.failed;
}

typedef struct {
    sparse_rows_t *chunks;
    int32_t *dimensions;
    float *values;
} join_t;

/* A chunk is freed as soon as it is copied, so that there are never two copies of everything. */
static void join_work(void *of, int chunk, int n_chunks)
{
    join_t *join = of;
    sparse_rows_t *from = join->chunks + chunk;
    int64_t start = 0;
    (void)n_chunks;
    for (int i = 0; i < chunk; i++)
        start += join->chunks[i].count;
    if (!from->count)
        return;
    memcpy(join->dimensions + start, from->dimensions, (size_t)from->count * sizeof(int32_t));
    memcpy(join->values + start, from->values, (size_t)from->count * sizeof(float));
    sparse_rows_free(from);
}

void sparse_rows_join(
    sparse_rows_t *chunks, int64_t n_chunks, int32_t *dimensions, float *values, int n_threads)
{
    join_t join = {chunks, dimensions, values};
    team_for(join_work, &join, (int)n_chunks, n_threads);
}

/* --- squared error of all pairs ------------------------------------------------------------ */

/* Working memory of a row, each of `width` floats. */
typedef struct {
    float *target, *residual, *direction, *product;
} squared_row_t;

static const float LEAST = 1e-30f;

/* out = x'G for `parts` vectors of eight from `from` on. */
LANES_INLINE void gram_tile(
    const squared_step_t *task, const float *x, float *out, ptrdiff_t from, const int parts)
{
    float8_t sums[8];
    for (int k = 0; k < parts; k++)
        sums[k] = float8_splat(0.0f);
    for (ptrdiff_t j = 0; j < task->width; j++) {
        const float *row = task->gram + j * task->width + from;
        float8_t value = float8_splat(x[j]);
#pragma GCC unroll 8
        for (int k = 0; k < parts; k++)
            sums[k] += value * float8_load(row + 8 * k);
    }
    for (int k = 0; k < parts; k++)
        float8_store(out + from + 8 * k, sums[k]);
}

static void gram_product(const squared_step_t *task, const float *x, float *out)
{
    ptrdiff_t from = 0;
    for (; from + 64 <= task->width; from += 64)
        gram_tile(task, x, out, from, 8);
#define CASE(n)                                                                                    \
    case n:                                                                                        \
        gram_tile(task, x, out, from, n);                                                          \
        break;
    switch ((task->width - from) / 8) {
        CASE_1_TO_7(CASE)
    }
#undef CASE
}

/* to += sum of c_j P[j] over the entries of a row, with c_j = excess (P[j] . x). */
LANES_INLINE void add_entries(
    const squared_step_t *task, int64_t row, const float *x, float *to, ptrdiff_t width)
{
    int64_t stop = csr_start(&task->matrix, row + 1);
    float excess = task->observed - task->unobserved;
    for (int64_t at = csr_start(&task->matrix, row); at < stop; at++) {
        const float *embedding = task->embeddings + csr_column(&task->matrix, at) * width;
        float8_t sums = float8_splat(0.0f);
#pragma GCC unroll 8
        for (ptrdiff_t i = 0; i < width; i += 8)
            sums += float8_load(embedding + i) * float8_load(x + i);
        float8_t by = float8_splat(excess * float8_sum(sums));
#pragma GCC unroll 8
        for (ptrdiff_t i = 0; i < width; i += 8)
            float8_store(to + i, float8_load(to + i) + by * float8_load(embedding + i));
    }
}

/* out = A x */
static void quadratic_product(const squared_step_t *task, int64_t row, const float *x, float *out)
{
    float8_t ridge = float8_splat(task->ridges[row]), weight = float8_splat(task->unobserved);
    gram_product(task, x, out);
    for (ptrdiff_t i = 0; i < task->width; i += 8)
        float8_store(out + i, ridge * float8_load(x + i) + weight * float8_load(out + i));
    switch (task->width) {
    case 32:
        add_entries(task, row, x, out, 32);
        break;
    case 64:
        add_entries(task, row, x, out, 64);
        break;
    default:
        add_entries(task, row, x, out, task->width);
    }
}

/* Fill b, and fetch the embeddings of the next row. */
static void squared_target(const squared_step_t *task, int64_t row, float *target)
{
    int64_t stop = csr_start(&task->matrix, row + 1);
    memset(target, 0, (size_t)task->width * sizeof(float));
    for (int64_t at = csr_start(&task->matrix, row); at < stop; at++) {
        float8_prefetch(
            task->embeddings + column_ahead(&task->matrix, at + AHEAD) * task->width,
            task->width);
        float8_add(
            target, task->embeddings + csr_column(&task->matrix, at) * task->width,
            task->observed * csr_value_float(&task->matrix, at), task->width);
    }
}

/* Take steps of conjugate gradients on a row; return its gain. */
static double squared_row(const squared_step_t *task, int64_t row, const squared_row_t *work)
{
    ptrdiff_t n = task->width;
    float *x = task->out + row * n, *residual = work->residual, *direction = work->direction;
    squared_target(task, row, work->target);
    quadratic_product(task, row, x, work->product);
    for (ptrdiff_t i = 0; i < n; i += 8) {
        float8_t r = float8_load(work->target + i) - float8_load(work->product + i);
        float8_store(residual + i, r);
        float8_store(direction + i, r);
    }
    float square = float8_dot(residual, residual, n);
    for (int64_t step = 0; step < task->steps && square > LEAST; step++) {
        quadratic_product(task, row, direction, work->product);
        float curvature = float8_dot(direction, work->product, n);
        if (!(curvature > 0.0f))
            break;
        float length = square / curvature, before = square;
        float8_add(x, direction, length, n);
        float8_step(residual, work->product, length, n);
        square = float8_dot(residual, residual, n);
        float8_t keep = float8_splat(square / before);
        for (ptrdiff_t i = 0; i < n; i += 8)
            float8_store(
                direction + i, float8_load(residual + i) + keep * float8_load(direction + i));
    }
    return (double)float8_dot(x, work->target, n) + (double)float8_dot(x, residual, n);
}

typedef struct {
    const squared_step_t *task;
    int failed;
} squared_run_t;

static void squared_work(void *of, int chunk, int n_chunks)
{
    squared_run_t *run = of;
    const squared_step_t *task = run->task;
    size_t n = (size_t)task->width;
    float *memory = calloc(4 * n, sizeof(float));
    squared_row_t work = {memory, memory + n, memory + 2 * n, memory + 3 * n};
    int64_t last = chunk_start(&task->matrix, chunk + 1, n_chunks);
    if (memory)
        for (int64_t row = chunk_start(&task->matrix, chunk, n_chunks); row < last; row++)
            task->gains[row] = squared_row(task, row, &work);
    else
        __atomic_store_n(&run->failed, 1, __ATOMIC_RELAXED);
    free(memory);
}

int squared_half_step(const squared_step_t *task, int n_threads)
{
    squared_run_t run = {.task = task};
    team_for(
        squared_work, &run, (int)half_step_chunks(task->matrix.n_rows, n_threads), n_threads);
    return !run.failed;
}
