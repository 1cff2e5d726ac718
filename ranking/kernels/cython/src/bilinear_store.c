#include "bilinear_store.h"

#include <stdlib.h>

#define SMALLEST_SCALE 0x1p-64
#define RESUM 0x1p-10

/* --- opening and closing -------------------------------------------------------------------- */

/* Insert the entries of the rows; 0 without memory. */
static int fill_rows(bilinear_store_t *store, const bilinear_state_t *from)
{
    int is64 = store->is64;
    for (int64_t row = 0; row < store->n_rows; row++) {
        int64_t start = from->indptr[row], stop = from->indptr[row + 1];
        sparse_row_t *to = store->rows + row;
        if (start == stop)
            continue;
        if (!row_open(to, stop - start, store->n_columns, is64)) {
            to->slots = 0;
            return 0;
        }
        for (int64_t at = start; at < stop; at++) {
            double value = row_load(from->data + (size_t)at * row_size(is64), is64);
            row_insert(to, from->indices[at], row_hash(from->indices[at]), value, is64);
        }
    }
    return 1;
}

/* List the rows of each group, in order, by counting. */
static void gather_groups(bilinear_store_t *store)
{
    int64_t *ptr = store->group_ptr;
    for (int64_t row = 0; row < store->n_rows; row++)
        ptr[store->groups[row] + 2]++;
    for (int64_t group = 0; group < store->n_groups; group++)
        ptr[group + 2] += ptr[group + 1];
    for (int64_t row = 0; row < store->n_rows; row++)
        store->group_rows[ptr[store->groups[row] + 1]++] = row;
}

int bilinear_open(bilinear_store_t *store, const bilinear_state_t *state)
{
    arena_t *arena = &store->arena;
    int64_t n_rows = store->n_rows, n_groups = state->n_groups;
    int64_t n_units = n_rows > n_groups ? n_rows : n_groups;
    store->n_groups = state->groups ? n_groups : 0;
    store->rows = ARENA_CALLOC(arena, n_rows, sparse_row_t);
    store->row_state = ARENA_ALLOC(arena, 3 * n_rows, double);
    store->groups = ARENA_ALLOC(arena, n_rows, int64_t);
    store->group_rows = ARENA_ALLOC(arena, n_rows, int64_t);
    store->group_ptr = ARENA_CALLOC(arena, n_groups + 2, int64_t);
    store->group_weights = ARENA_ALLOC(arena, n_groups, double);
    store->group_state = ARENA_ALLOC(arena, GROUP_STATE * n_groups, double);
    store->locks = ARENA_CALLOC(arena, n_units, unsigned char);
    if (arena->failed || !fill_rows(store, state))
        return 0;
    memcpy(store->row_state, state->row_state, 3 * (size_t)n_rows * sizeof(double));
    if (n_groups) {
        memcpy(store->group_weights, state->group_weights, (size_t)n_groups * sizeof(double));
        memcpy(
            store->group_state, state->group_state,
            GROUP_STATE * (size_t)n_groups * sizeof(double));
    }
    if (store->n_groups) {
        memcpy(store->groups, state->groups, (size_t)n_rows * sizeof(int64_t));
        gather_groups(store);
    }
    return 1;
}

void bilinear_close(bilinear_store_t *store)
{
    for (int64_t row = 0; store->rows && row < store->n_rows; row++)
        row_clear(store->rows + row);
    arena_free(&store->arena);
}

/* --- lazy shrinkage ------------------------------------------------------------------------- */

void store_rebase(bilinear_store_t *store, int64_t row, const shrinkage_state_t *now)
{
    shrinkage_t at = row_shrinkage(store, row, now);
    if (at.scale != 1.0 || at.threshold != 0.0)
        row_rebase(store->rows + row, store->n_columns, at, store->is64);
    store->row_state[3 * row] = now->scale;
    store->row_state[3 * row + 1] = now->threshold;
}

void store_apply(bilinear_store_t *store, int64_t group, const shrinkage_state_t *now)
{
    double *state = store->group_state + GROUP_STATE * group, f;
    int64_t first = store->group_ptr[group], last = store->group_ptr[group + 1];
    if (state[GROUP_THRESHOLD] == now->threshold)
        return;
    f = group_fraction(store, group, now);
    if (f == 0.0) {
        for (int64_t i = first; i < last; i++)
            row_clear(store->rows + store->group_rows[i]);
        state[SIGMA] = 1.0;
        state[SQUARE] = state[LARGEST_SQUARE] = 0.0;
    } else {
        state[SIGMA] *= f;
        state[SQUARE] *= f * f;
        state[LARGEST_SQUARE] *= f * f;
        if (state[SIGMA] < SMALLEST_SCALE) {
            for (int64_t i = first; i < last; i++)
                row_scale(
                    store->rows + store->group_rows[i], store->n_columns, state[SIGMA],
                    store->is64);
            state[SIGMA] = 1.0;
        }
    }
    state[GROUP_THRESHOLD] = now->threshold;
}

/* Add the squares of a row's weights, by columns, to the total of its group. */
static double add_squares(bilinear_store_t *store, int64_t row, double sigma, double total)
{
    const shrinkage_t as_stored = {1.0, 0.0};
    const sparse_row_t *from = store->rows + row;
    int is64 = store->is64;
    int64_t n = row_count(from, store->n_columns, as_stored, is64);
    row_export_t to = {
        malloc((size_t)(n + 1) * sizeof(int32_t)), malloc((size_t)(n + 1) * sizeof(double)), 0};
    if (to.columns && to.data) {
        row_export(from, store->n_columns, as_stored, to, is64);
        for (int64_t i = 0; i < n; i++) {
            double weight = sigma * row_load(to.data + (size_t)i * row_size(is64), is64);
            total += weight * weight;
        }
    } else {
        store->failed = 1;
    }
    free(to.columns);
    free(to.data);
    return total;
}

void store_follow(bilinear_store_t *store, int64_t group, row_change_t change, int32_t n)
{
    double *state = store->group_state + GROUP_STATE * group, delta = 0.0, total = 0.0;
    for (int32_t i = 0; i < n; i++)
        delta += change.after[i] * change.after[i] - change.before[i] * change.before[i];
    state[SQUARE] += delta;
    if (state[SQUARE] > state[LARGEST_SQUARE])
        state[LARGEST_SQUARE] = state[SQUARE];
    if (state[SQUARE] < state[LARGEST_SQUARE] * RESUM) {
        for (int64_t i = store->group_ptr[group]; i < store->group_ptr[group + 1]; i++)
            total = add_squares(store, store->group_rows[i], state[SIGMA], total);
        state[SQUARE] = state[LARGEST_SQUARE] = total;
    }
}

static void compact_row(bilinear_store_t *store, int64_t row, const shrinkage_state_t *now)
{
    if (store->n_groups) {
        int64_t group = store->groups[row];
        if (store->group_state[GROUP_STATE * group + GROUP_THRESHOLD] != now->threshold
            && group_fraction(store, group, now) == 0.0)
            row_clear(store->rows + row);
    } else {
        double threshold = row_shrinkage(store, row, now).threshold;
        if (threshold > 0.0)
            row_compact(store->rows + row, store->n_columns, threshold, store->is64);
    }
}

void store_compact(bilinear_store_t *store, int64_t n_steps, const shrinkage_state_t *now)
{
    enum { ROUND = 8192 }; /* steps in which all rows are visited, if there are many */
    int64_t n = n_steps * (1 + store->n_rows / ROUND);
    for (int64_t i = 0; i < n && i < store->n_rows; i++) {
        int64_t row = store->next_compacted;
        store->next_compacted = row + 1 < store->n_rows ? row + 1 : 0;
        if (store->rows[row].slots != 0)
            compact_row(store, row, now);
    }
}

/* --- export --------------------------------------------------------------------------------- */

void bilinear_counts(const bilinear_store_t *store, const shrinkage_state_t *state, int64_t *out)
{
    for (int64_t row = 0; row < store->n_rows; row++)
        out[row] = row_count(
            store->rows + row, store->n_columns, row_shrinkage(store, row, state), store->is64);
}

void bilinear_export(
    const bilinear_store_t *store, const shrinkage_state_t *state, const int64_t *indptr,
    row_export_t to)
{
    for (int64_t row = 0; row < store->n_rows; row++) {
        row_export_t part = {
            to.columns + indptr[row], to.data + (size_t)indptr[row] * row_size(store->is64),
            to.current};
        if (indptr[row] != indptr[row + 1])
            row_export(
                store->rows + row, store->n_columns, row_shrinkage(store, row, state), part,
                store->is64);
    }
}

size_t bilinear_memory(const bilinear_store_t *store)
{
    size_t bytes = (size_t)store->n_rows * (sizeof(sparse_row_t) + 3 * sizeof(double) + 1);
    for (int64_t row = 0; row < store->n_rows; row++)
        bytes += row_bytes(store->rows + row, store->n_columns, store->is64);
    return bytes;
}
