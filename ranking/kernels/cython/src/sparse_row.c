#include "sparse_row.h"

#include <stdlib.h>
#if !defined(_WIN32)
#include <sched.h>
#endif

#define LINE 64

void row_clear(sparse_row_t *row)
{
    free(row->table);
    row->table = NULL;
    row->used = row->slots = 0;
}

size_t row_bytes(const sparse_row_t *row, int64_t n_columns, int is64)
{
    return row->slots == ROW_DENSE ? (size_t)n_columns * row_size(is64)
                                   : (size_t)row->slots * (sizeof(int32_t) + row_size(is64));
}

/* Slots for so many entries: more than needed, so that the row can grow. */
static int64_t slots_for(int64_t entries)
{
    int64_t slots = 2;
    while (slots < entries && slots < ROW_BUCKET)
        slots *= 2;
    if (entries > ROW_BUCKET)
        slots = (entries + entries / 4 + entries / 4) / ROW_BUCKET * ROW_BUCKET + ROW_BUCKET;
    return slots;
}

/* Allocate a table; those with buckets are aligned to cache lines. */
static char *allocate_table(int64_t slots, size_t bytes)
{
#if !defined(_WIN32)
    void *table;
    if (slots > ROW_BUCKET)
        return posix_memalign(&table, LINE, bytes) ? NULL : table;
#endif
    return malloc(bytes);
}

int row_open(sparse_row_t *row, int64_t entries, int64_t n_columns, int is64)
{
    int64_t slots = slots_for(entries);
    size_t bytes = (size_t)slots * (sizeof(int32_t) + row_size(is64));
    row->used = 0;
    if (bytes >= (size_t)n_columns * row_size(is64)) {
        row->slots = ROW_DENSE;
        row->table = calloc((size_t)n_columns, row_size(is64));
        return row->table != NULL;
    }
    row->slots = (int32_t)slots;
    row->table = allocate_table(slots, bytes);
    if (!row->table)
        return 0;
    memset(row->table, 0xFF, bytes); /* every column is ROW_FREE */
    return 1;
}

/* Find the entry at position i of a dense row or a table; NULL if the slot is free. */
LANES_INLINE char *entry_at(const sparse_row_t *row, int64_t i, int32_t *column, int is64)
{
    if (row->slots == ROW_DENSE) {
        *column = (int32_t)i;
        return row_dense_value(row, i, is64);
    }
    *column = *row_key(row, (int32_t)i, is64);
    return *column == ROW_FREE ? NULL : row_value(row, (int32_t)i, is64);
}

/* Iterate over the entries of a row: `column`, and `at`, where its value is. */
#define ROW_EACH(row, n_columns, is64, column, at)                                              \
    for (int64_t row_i = 0, row_n = (row)->slots == ROW_DENSE ? (n_columns) : (row)->slots;    \
         row_i < row_n; row_i++)                                                                \
        if ((at = entry_at(row, row_i, &column, is64)))

static int64_t count_alive(const sparse_row_t *row, int64_t n_columns, double threshold, int is64)
{
    int64_t alive = 0;
    int32_t column;
    char *at;
    ROW_EACH (row, n_columns, is64, column, at)
        alive += !(fabs(row_load(at, is64)) <= threshold);
    return alive;
}

LANES_INLINE int rebuild(
    sparse_row_t *row, int64_t n_columns, double threshold, int64_t incoming, const int is64)
{
    sparse_row_t built;
    int32_t column;
    char *at;
    int64_t alive = count_alive(row, n_columns, threshold, is64);
    if (alive + incoming == 0) {
        row_clear(row);
        return 1;
    }
    if (!row_open(&built, alive + incoming, n_columns, is64))
        return 0;
    ROW_EACH (row, n_columns, is64, column, at) {
        double value = row_load(at, is64);
        if (!(fabs(value) <= threshold))
            row_insert(&built, column, row_hash(column), value, is64);
    }
    free(row->table);
    *row = built;
    return 1;
}

int row_rebuild(
    sparse_row_t *row, int64_t n_columns, double threshold, int64_t incoming, int is64)
{
    return is64 ? rebuild(row, n_columns, threshold, incoming, 1)
                : rebuild(row, n_columns, threshold, incoming, 0);
}

/* Whether a list or table would be clearly smaller if it were rebuilt. */
static int is_loose(const sparse_row_t *row, int64_t alive)
{
    return 5 * alive < 3 * (int64_t)row->slots && (alive == 0 || row->slots > ROW_BUCKET);
}

/* Rebase a dense row; return how many entries are not zero. */
LANES_INLINE int64_t rebase_dense(char *table, int64_t n, shrinkage_t by, const int is64)
{
    int64_t alive = 0;
    for (int64_t j = 0; j < n; j++) {
        char *at = table + (size_t)j * row_size(is64);
        row_store(at, shrink(row_load(at, is64), by), is64);
    }
    for (int64_t j = 0; j < n; j++)
        alive += row_load(table + (size_t)j * row_size(is64), is64) != 0.0;
    return alive;
}

void row_rebase(sparse_row_t *row, int64_t n_columns, shrinkage_t by, int is64)
{
    int64_t alive = 0;
    int32_t column;
    char *at;
    if (row->slots == ROW_DENSE) {
        alive = is64 ? rebase_dense(row->table, n_columns, by, 1)
                     : rebase_dense(row->table, n_columns, by, 0);
        if (alive < n_columns / 4)
            row_rebuild(row, n_columns, 0.0, 0, is64);
        return;
    }
    ROW_EACH (row, n_columns, is64, column, at) {
        double value = shrink(row_load(at, is64), by);
        row_store(at, value, is64);
        alive += value != 0.0;
    }
    if (is_loose(row, alive))
        row_rebuild(row, n_columns, 0.0, 0, is64);
}

void row_compact(sparse_row_t *row, int64_t n_columns, double threshold, int is64)
{
    if (row->slots > 0 && is_loose(row, count_alive(row, n_columns, threshold, is64)))
        row_rebuild(row, n_columns, threshold, 0, is64);
}

void row_scale(sparse_row_t *row, int64_t n_columns, double by, int is64)
{
    int32_t column;
    char *at;
    ROW_EACH (row, n_columns, is64, column, at)
        row_store(at, row_load(at, is64) * by, is64);
}

LANES_INLINE int64_t count_as(
    const sparse_row_t *row, int64_t n_columns, shrinkage_t by, const int is64)
{
    int64_t count = 0;
    int32_t column;
    char *at;
    if (row->slots == ROW_DENSE) /* a loop that is vectorised */
        for (int64_t j = 0; j < n_columns; j++)
            count += shrink(row_load(row_dense_value(row, j, is64), is64), by) != 0.0;
    else
        ROW_EACH (row, n_columns, is64, column, at)
            count += shrink(row_load(at, is64), by) != 0.0;
    return count;
}

int64_t row_count(const sparse_row_t *row, int64_t n_columns, shrinkage_t by, int is64)
{
    return is64 ? count_as(row, n_columns, by, 1) : count_as(row, n_columns, by, 0);
}

static int compare_columns(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* Write the weights of the columns that are not zero. */
LANES_INLINE int64_t export_dense(
    const sparse_row_t *row, int64_t n_columns, shrinkage_t by, row_export_t to, const int is64)
{
    int64_t count = 0;
    for (int64_t j = 0; j < n_columns; j++) {
        double value = row_load(row_dense_value(row, j, is64), is64), weight = shrink(value, by);
        if (weight == 0.0)
            continue;
        to.columns[count] = (int32_t)j;
        row_store(to.data + (size_t)count * row_size(is64), to.current ? weight : value, is64);
        count++;
    }
    return count;
}

int64_t row_export(
    const sparse_row_t *row, int64_t n_columns, shrinkage_t by, row_export_t to, int is64)
{
    int64_t count = 0;
    int32_t column;
    char *at;
    if (row->slots == ROW_DENSE)
        return is64 ? export_dense(row, n_columns, by, to, 1)
                    : export_dense(row, n_columns, by, to, 0);
    ROW_EACH (row, n_columns, is64, column, at)
        if (shrink(row_load(at, is64), by) != 0.0)
            to.columns[count++] = column;
    qsort(to.columns, (size_t)count, sizeof(int32_t), compare_columns);
    for (int64_t i = 0; i < count; i++) {
        column = to.columns[i];
        at = row_value(row, row_find(row, column, row_hash(column), is64), is64);
        row_store(
            to.data + (size_t)i * row_size(is64),
            to.current ? shrink(row_load(at, is64), by) : row_load(at, is64), is64);
    }
    return count;
}

void row_lock(unsigned char *flag)
{
    while (__atomic_exchange_n(flag, 1, __ATOMIC_ACQUIRE)) {
        int spins = 0;
        while (__atomic_load_n(flag, __ATOMIC_RELAXED)) {
#if defined(__SSE2__)
            _mm_pause();
#endif
#if !defined(_WIN32)
            /* The thread that holds the lock may not be running. */
            if (++spins > 100) {
                sched_yield();
                spins = 0;
            }
#else
            (void)spins;
#endif
        }
    }
}

void row_unlock(unsigned char *flag)
{
    __atomic_store_n(flag, 0, __ATOMIC_RELEASE);
}
