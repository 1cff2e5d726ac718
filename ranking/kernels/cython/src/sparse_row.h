/* A row of W: what is not zero, in the smallest form, and the arithmetic on it.
 *
 * A row begins empty. A few entries are a list; more are a hash table of buckets; as many as a
 * dense array would hold in the same memory are a dense array. A bucket is eight columns and their
 * eight values, in float32 one cache line: one comparison of vectors finds a column, or that it is
 * absent, with hardly an unpredictable branch. A full bucket overflows into the next.
 *
 * Lazy shrinkage: a stored v is the weight sign(v) k max(|v| - s, 0), see `shrinkage_t`. An entry
 * with |v| <= s is zero for good ("dead"): its slot is reused by the same column, or released when
 * the table is rebuilt.
 *
 * Values are double if `is64`, else float. It is a constant where functions are inlined in hot
 * loops, so that these are compiled twice.
 */
#ifndef RANKING_SPARSE_ROW_H
#define RANKING_SPARSE_ROW_H

#include <math.h>
#include <string.h>

#include "lanes.h"
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#define ROW_BUCKET 8
#define ROW_FREE (-1) /* no column */
#define ROW_DENSE (-1) /* instead of a number of slots */

typedef struct {
    char *table;
    int32_t used; /* slots that hold a column, dead ones too */
    int32_t slots; /* 0: empty; up to 8: a list; ROW_DENSE: one value per column */
} sparse_row_t;

/* A sparse vector: rising indices, their hashes, and values padded with zeros to whole lanes. */
typedef struct {
    int32_t n;
    int32_t *indices;
    uint32_t *hashes;
    double *values;
} sparse_vector_t;

/* What is stored as v is the weight sign(v) scale max(|v| - threshold, 0). */
typedef struct {
    double scale, threshold;
} shrinkage_t;

/* Make `row` an empty one with slots for so many entries; 0 without memory. */
int row_open(sparse_row_t *row, int64_t entries, int64_t n_columns, int is64);

void row_clear(sparse_row_t *row);

size_t row_bytes(const sparse_row_t *row, int64_t n_columns, int is64);

/* Rebuild the row for its live entries and so many more; 0, and no change, without memory. */
int row_rebuild(
    sparse_row_t *row, int64_t n_columns, double threshold, int64_t incoming, int is64);

/* Store the row's weights as they are, and release memory if most of it is dead. */
void row_rebase(sparse_row_t *row, int64_t n_columns, shrinkage_t at, int is64);

/* Release the memory of a list or table if much of it is dead. */
void row_compact(sparse_row_t *row, int64_t n_columns, double threshold, int is64);

/* Multiply what is stored. */
void row_scale(sparse_row_t *row, int64_t n_columns, double by, int is64);

/* Count the weights that are not zero. */
int64_t row_count(const sparse_row_t *row, int64_t n_columns, shrinkage_t at, int is64);

/* Where `row_export` writes to; data are weights if `current`, else as stored. */
typedef struct {
    int32_t *columns;
    char *data;
    int current;
} row_export_t;

/* Write columns, sorted, and values of the weights that are not zero; return how many. */
int64_t row_export(
    const sparse_row_t *row, int64_t n_columns, shrinkage_t at, row_export_t to, int is64);

/* Spin locks for threads that share rows. */
void row_lock(unsigned char *flag);
void row_unlock(unsigned char *flag);

/* --- values and slots ----------------------------------------------------------------------- */

LANES_INLINE size_t row_size(int is64)
{
    return is64 ? sizeof(double) : sizeof(float);
}

LANES_INLINE double row_load(const char *at, int is64)
{
    return is64 ? *(const double *)at : (double)*(const float *)at;
}

LANES_INLINE void row_store(char *at, double value, int is64)
{
    if (is64)
        *(double *)at = value;
    else
        *(float *)at = (float)value;
}

LANES_INLINE uint32_t row_hash(int32_t column)
{
    return (uint32_t)column * 2654435769u;
}

LANES_INLINE size_t row_bucket_of(uint32_t hash, int32_t slots)
{
    return (size_t)(((uint64_t)hash * (uint32_t)(slots / ROW_BUCKET)) >> 32);
}

LANES_INLINE size_t row_stride(int is64)
{
    return ROW_BUCKET * (sizeof(int32_t) + row_size(is64));
}

LANES_INLINE size_t row_width(const sparse_row_t *row)
{
    return row->slots < ROW_BUCKET ? (size_t)row->slots : ROW_BUCKET;
}

LANES_INLINE char *row_bucket(const sparse_row_t *row, int32_t slot, int is64)
{
    return row->table + slot / ROW_BUCKET * (row_width(row) * (sizeof(int32_t) + row_size(is64)));
}

LANES_INLINE int32_t *row_key(const sparse_row_t *row, int32_t slot, int is64)
{
    return (int32_t *)row_bucket(row, slot, is64) + slot % ROW_BUCKET;
}

LANES_INLINE char *row_value(const sparse_row_t *row, int32_t slot, int is64)
{
    return row_bucket(row, slot, is64) + row_width(row) * sizeof(int32_t)
           + slot % ROW_BUCKET * row_size(is64);
}

LANES_INLINE char *row_dense_value(const sparse_row_t *row, int64_t column, int is64)
{
    return row->table + (size_t)column * row_size(is64);
}

/* Compare the eight columns of a bucket with one; return a mask with at most one bit for a column,
 * or of all free slots. */
LANES_INLINE unsigned row_match(const int32_t *keys, int32_t column)
{
#if defined(__AVX2__)
    __m256i same = _mm256_cmpeq_epi32(
        _mm256_loadu_si256((const __m256i *)keys), _mm256_set1_epi32(column));
    return (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(same));
#elif defined(__SSE2__)
    __m128i wanted = _mm_set1_epi32(column);
    __m128i low = _mm_cmpeq_epi32(_mm_loadu_si128((const __m128i *)keys), wanted);
    __m128i high = _mm_cmpeq_epi32(_mm_loadu_si128((const __m128i *)(keys + 4)), wanted);
    return (unsigned)_mm_movemask_ps(_mm_castsi128_ps(low))
           | (unsigned)_mm_movemask_ps(_mm_castsi128_ps(high)) << 4;
#else
    unsigned bits = 0;
    for (int i = 0; i < ROW_BUCKET; i++)
        bits |= (unsigned)(keys[i] == column) << i;
    return bits;
#endif
}

/* --- lookup --------------------------------------------------------------------------------- */

LANES_INLINE int32_t row_find_listed(const sparse_row_t *row, int32_t column)
{
    const int32_t *keys = (const int32_t *)row->table;
    for (int32_t i = 0; i < row->used; i++)
        if (keys[i] == column)
            return i;
    return -1;
}

LANES_INLINE int32_t row_find_hashed(
    const sparse_row_t *row, int32_t column, uint32_t hash, int is64)
{
    size_t last = (size_t)row->slots / ROW_BUCKET - 1;
    size_t bucket = row_bucket_of(hash, row->slots);
    for (;;) {
        const int32_t *keys = (const int32_t *)(row->table + bucket * row_stride(is64));
        unsigned bits = row_match(keys, column);
        if (bits)
            return (int32_t)(bucket * ROW_BUCKET) + __builtin_ctz(bits);
        if (keys[ROW_BUCKET - 1] == ROW_FREE)
            return -1;
        bucket = bucket == last ? 0 : bucket + 1;
    }
}

LANES_INLINE int32_t row_find(const sparse_row_t *row, int32_t column, uint32_t hash, int is64)
{
    return row->slots <= ROW_BUCKET ? row_find_listed(row, column)
                                    : row_find_hashed(row, column, hash, is64);
}

LANES_INLINE void row_read_hashed(
    const sparse_row_t *row, const sparse_vector_t *at, int32_t *slots, double *v, int is64)
{
    for (int32_t i = 0; i < at->n; i++) {
        size_t bucket = row_bucket_of(at->hashes[i], row->slots);
        const char *from = row->table + bucket * row_stride(is64);
        const int32_t *keys = (const int32_t *)from;
        unsigned bits = row_match(keys, at->indices[i]);
        if (__builtin_expect((bits == 0) & (keys[ROW_BUCKET - 1] != ROW_FREE), 0)) {
            slots[i] = row_find_hashed(row, at->indices[i], at->hashes[i], is64);
            v[i] = slots[i] < 0 ? 0.0 : row_load(row_value(row, slots[i], is64), is64);
            continue;
        }
        /* Bits are masked, as a branch on the presence of a column could not be predicted. */
        int64_t present = -(int64_t)(bits != 0);
        int lane = __builtin_ctz(bits | 1u << ROW_BUCKET) & (ROW_BUCKET - 1);
        slots[i] = (int32_t)(((int64_t)(bucket * ROW_BUCKET) + lane) | ~present);
        from += ROW_BUCKET * sizeof(int32_t) + (size_t)lane * row_size(is64);
        double value = row_load(from, is64);
        int64_t as_bits;
        memcpy(&as_bits, &value, sizeof(value));
        as_bits &= present;
        memcpy(v + i, &as_bits, sizeof(value));
    }
}

/* Read from slots that are known; slots of a dense row are not read. */
LANES_INLINE void row_read_slots(
    const sparse_row_t *row, const sparse_vector_t *at, const int32_t *slots, double *v, int is64)
{
    if (row->slots == ROW_DENSE)
        for (int32_t i = 0; i < at->n; i++)
            v[i] = row_load(row_dense_value(row, at->indices[i], is64), is64);
    else
        for (int32_t i = 0; i < at->n; i++)
            v[i] = slots[i] < 0 ? 0.0 : row_load(row_value(row, slots[i], is64), is64);
}

/* Read what is stored at the indices of a vector, or 0, and find the slots, or -1. */
LANES_INLINE void row_read(
    const sparse_row_t *row, const sparse_vector_t *at, int32_t *slots, double *v, int is64)
{
    if (row->slots > ROW_BUCKET) {
        row_read_hashed(row, at, slots, v, is64);
        return;
    }
    if (row->slots != ROW_DENSE)
        for (int32_t i = 0; i < at->n; i++)
            slots[i] = row_find_listed(row, at->indices[i]);
    row_read_slots(row, at, slots, v, is64);
}

/* Prefetch the memory of these columns. A lookup waits for each line whose branch was predicted
 * wrong; a prefetch waits for none, so that many lines are fetched at once. */
LANES_INLINE void row_prefetch(const sparse_row_t *row, const sparse_vector_t *at, int is64)
{
    if (row->slots == ROW_DENSE) {
        for (int32_t i = 0; i < at->n; i++)
            __builtin_prefetch(row_dense_value(row, at->indices[i], is64));
    } else if (row->slots > ROW_BUCKET) {
        for (int32_t i = 0; i < at->n; i++) {
            const char *from
                = row->table + row_bucket_of(at->hashes[i], row->slots) * row_stride(is64);
            __builtin_prefetch(from);
            if (is64)
                __builtin_prefetch(from + row_stride(is64) - 1);
        }
    } else {
        __builtin_prefetch(row->table);
    }
}

/* --- writing -------------------------------------------------------------------------------- */

/* Insert a column that is absent; there is a free slot. */
LANES_INLINE void row_insert(
    sparse_row_t *row, int32_t column, uint32_t hash, double value, int is64)
{
    int32_t slot = row->used;
    if (row->slots == ROW_DENSE) {
        row_store(row_dense_value(row, column, is64), value, is64);
        return;
    }
    if (row->slots > ROW_BUCKET) {
        size_t last = (size_t)row->slots / ROW_BUCKET - 1;
        size_t bucket = row_bucket_of(hash, row->slots);
        unsigned is_free;
        while (!(is_free = row_match(
                     row_key(row, (int32_t)(bucket * ROW_BUCKET), is64), ROW_FREE)))
            bucket = bucket == last ? 0 : bucket + 1;
        slot = (int32_t)(bucket * ROW_BUCKET) + __builtin_ctz(is_free);
    }
    *row_key(row, slot, is64) = column;
    row_store(row_value(row, slot, is64), value, is64);
    row->used++;
}

/* Whether so many slots may hold so many columns: some slot of a table stays free. */
LANES_INLINE int row_holds(int32_t slots, int64_t columns)
{
    return columns <= (slots <= ROW_BUCKET ? slots : slots - slots / 5);
}

/* Make sure that absent columns with a value can be inserted; 0 without memory. */
LANES_INLINE int row_reserve(
    sparse_row_t *row, int64_t n_columns, const sparse_vector_t *at, int32_t *slots,
    const double *stored, double threshold, int is64)
{
    int32_t incoming = 0;
    for (int32_t i = 0; i < at->n; i++)
        incoming += (slots[i] < 0) & (stored[i] != 0.0);
    if (row_holds(row->slots, (int64_t)row->used + incoming))
        return 1;
    /* Rebuilding removes dead entries, so those that become alive again are inserted, too. */
    for (int32_t i = 0; i < at->n; i++)
        incoming += slots[i] >= 0 && stored[i] != 0.0
                    && fabs(row_load(row_value(row, slots[i], is64), is64)) <= threshold;
    if (!row_rebuild(row, n_columns, threshold, incoming, is64))
        return 0;
    if (row->slots != ROW_DENSE)
        for (int32_t i = 0; i < at->n; i++)
            if (slots[i] >= 0)
                slots[i] = row_find(row, at->indices[i], at->hashes[i], is64);
    return 1;
}

/* Store values at columns whose slots are known; 0, and no change, without memory. */
LANES_INLINE int row_write(
    sparse_row_t *row, int64_t n_columns, const sparse_vector_t *at, int32_t *slots,
    const double *stored, double threshold, int is64)
{
    if (row->slots != ROW_DENSE
        && !row_reserve(row, n_columns, at, slots, stored, threshold, is64))
        return 0;
    if (row->slots == ROW_DENSE) {
        for (int32_t i = 0; i < at->n; i++)
            row_store(row_dense_value(row, at->indices[i], is64), stored[i], is64);
        return 1;
    }
    for (int32_t i = 0; i < at->n; i++) {
        if (slots[i] >= 0)
            row_store(row_value(row, slots[i], is64), stored[i], is64);
        else if (stored[i] != 0.0)
            row_insert(row, at->indices[i], at->hashes[i], stored[i], is64);
    }
    return 1;
}

/* --- arithmetic on weights ------------------------------------------------------------------ */

LANES_INLINE lanes_mask_t lanes_signs(void)
{
    const int64_t sign = INT64_MIN;
    return (lanes_mask_t){sign, sign, sign, sign};
}

LANES_INLINE lanes_t lanes_shrink(lanes_t v, lanes_t scale, lanes_t threshold)
{
    lanes_mask_t sign = (lanes_mask_t)v & lanes_signs();
    lanes_t left = (lanes_t)((lanes_mask_t)v & ~lanes_signs()) - threshold;
    return (lanes_t)(((lanes_mask_t)(scale * left) | sign) & (left > lanes_splat(0.0)));
}

LANES_INLINE double shrink(double v, shrinkage_t at)
{
    double left = fabs(v) - at.threshold;
    return left > 0.0 ? copysign(at.scale * left, v) : 0.0;
}

/* Sum, in lanes, weight times value; both arrays are padded with zeros to whole lanes. */
LANES_INLINE double row_dot(const double *v, const sparse_vector_t *with, shrinkage_t at)
{
    lanes_t sums = lanes_splat(0.0), k = lanes_splat(at.scale), s = lanes_splat(at.threshold);
    for (int32_t i = 0; i < with->n; i += 4)
        sums = sums + lanes_shrink(lanes_load(v + i), k, s) * lanes_load(with->values + i);
    return lanes_sum(sums);
}

/* The weights of a row before and after a step. */
typedef struct {
    double *before, *after;
} row_change_t;

/* Subtract factor * values from the weights; v becomes what is to be stored. Without `grow`, a
 * weight that is zero stays zero. */
LANES_INLINE void row_step(
    double *v, const sparse_vector_t *by, shrinkage_t at, double factor, int grow,
    row_change_t change)
{
    const lanes_t k = lanes_splat(at.scale), s = lanes_splat(at.threshold);
    const lanes_t zero = lanes_splat(0.0), shift = lanes_splat(fabs(at.threshold));
    const lanes_t factors = lanes_splat(factor);
    const lanes_mask_t may_grow = zero == (grow ? zero : lanes_splat(1.0));
    for (int32_t i = 0; i < by->n; i += 4) {
        lanes_t old = lanes_load(v + i);
        lanes_t before = lanes_shrink(old, k, s);
        lanes_mask_t alive = (lanes_t)((lanes_mask_t)old & ~lanes_signs()) > s;
        lanes_t after = lanes_select(
            alive | may_grow, before - factors * lanes_load(by->values + i), before);
        lanes_t unscaled = at.scale == 1.0 ? after : after / k;
        lanes_mask_t sign = (lanes_mask_t)after & lanes_signs();
        lanes_t stored = unscaled + (lanes_t)((lanes_mask_t)shift | sign);
        lanes_store(v + i, (lanes_t)((lanes_mask_t)stored & (after != zero)));
        lanes_store(change.before + i, before);
        lanes_store(change.after + i, after);
    }
}

#endif
