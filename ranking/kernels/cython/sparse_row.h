/* A row of W: what is not zero, in the form that takes least room, and the arithmetic on it.
 *
 * A row begins empty. A few entries are a list; more are a table of buckets; as many as a plain
 * array would hold in the same memory are a plain array. A bucket is eight columns and their eight
 * values, in float32 one line of the cache: one comparison of vectors finds a column, or that it is
 * not there, with hardly a branch to guess. A bucket that is full runs over into the next.
 *
 * An entry stored as v with |v| <= s is zero for good ("dead"): its place is taken again by the
 * same column, or given back when the table is built anew.
 *
 * Values are float or double; `wide` says which. It is a constant where these functions are
 * inlined, so that each is compiled twice.
 */
#ifndef RANKING_SPARSE_ROW_H
#define RANKING_SPARSE_ROW_H

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "lanes.h"
#if defined(__SSE2__)
#include <emmintrin.h>
#endif
#if !defined(_WIN32)
#include <sched.h>
#endif

#define ROW_BUCKET 8
#define ROW_FREE (-1)   /* no column */
#define ROW_DENSE (-1)  /* instead of a number of slots */
#define ROW_LINE 64

typedef struct {
    char *table;
    int32_t used;  /* slots that hold a column, dead ones too */
    int32_t slots; /* 0: nothing is there; up to 8: a list; ROW_DENSE: a value a column */
} row_t;

/* --- values and slots --- */

LANES_INLINE size_t row_size(int wide) { return wide ? sizeof(double) : sizeof(float); }

LANES_INLINE double row_load(const char *at, int wide)
{
    return wide ? *(const double *)at : (double)*(const float *)at;
}

LANES_INLINE void row_store(char *at, double value, int wide)
{
    if (wide) *(double *)at = value;
    else *(float *)at = (float)value;
}

LANES_INLINE uint32_t row_hash(int32_t column) { return (uint32_t)column * 2654435769u; }

LANES_INLINE size_t row_bucket_of(uint32_t hash, int32_t slots)
{
    return (size_t)(((uint64_t)hash * (uint32_t)(slots / ROW_BUCKET)) >> 32);
}

LANES_INLINE int32_t *row_key(const row_t *row, int32_t slot, int wide)
{
    size_t width = row->slots < ROW_BUCKET ? row->slots : ROW_BUCKET;
    char *bucket = row->table + slot / ROW_BUCKET * (width * (sizeof(int32_t) + row_size(wide)));
    return (int32_t *)bucket + slot % ROW_BUCKET;
}

LANES_INLINE char *row_value(const row_t *row, int32_t slot, int wide)
{
    size_t width = row->slots < ROW_BUCKET ? row->slots : ROW_BUCKET;
    char *bucket = row->table + slot / ROW_BUCKET * (width * (sizeof(int32_t) + row_size(wide)));
    return bucket + width * sizeof(int32_t) + slot % ROW_BUCKET * row_size(wide);
}

/* Which of a bucket's eight columns is this one, as bits; none or one of them. */
LANES_INLINE unsigned row_match(const int32_t *keys, int32_t column)
{
#if defined(__AVX2__)
    __m256i same = _mm256_cmpeq_epi32(_mm256_loadu_si256((const __m256i *)keys),
                                      _mm256_set1_epi32(column));
    return (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(same));
#elif defined(__SSE2__)
    __m128i wanted = _mm_set1_epi32(column);
    __m128i low = _mm_cmpeq_epi32(_mm_loadu_si128((const __m128i *)keys), wanted);
    __m128i high = _mm_cmpeq_epi32(_mm_loadu_si128((const __m128i *)(keys + 4)), wanted);
    return (unsigned)_mm_movemask_ps(_mm_castsi128_ps(low))
           | (unsigned)_mm_movemask_ps(_mm_castsi128_ps(high)) << 4;
#else
    unsigned bits = 0;
    for (int i = 0; i < ROW_BUCKET; i++) bits |= (unsigned)(keys[i] == column) << i;
    return bits;
#endif
}

/* Whether a table with this many slots may hold this many columns: some slot stays free. */
LANES_INLINE int row_holds(int32_t slots, int64_t columns)
{
    return columns <= (slots <= ROW_BUCKET ? slots : slots - slots / 5);
}

/* --- finding --- */

LANES_INLINE int32_t row_find_listed(const row_t *row, int32_t column)
{
    const int32_t *keys = (const int32_t *)row->table;
    for (int32_t i = 0; i < row->used; i++)
        if (keys[i] == column) return i;
    return -1;
}

LANES_INLINE int32_t row_find_bucketed(const row_t *row, int32_t column, uint32_t hash, int wide)
{
    size_t stride = ROW_BUCKET * (sizeof(int32_t) + row_size(wide));
    size_t last = row->slots / ROW_BUCKET - 1;
    size_t bucket = row_bucket_of(hash, row->slots);
    for (;;) {
        const int32_t *keys = (const int32_t *)(row->table + bucket * stride);
        unsigned bits = row_match(keys, column);
        if (bits) return (int32_t)(bucket * ROW_BUCKET) + __builtin_ctz(bits);
        if (keys[ROW_BUCKET - 1] == ROW_FREE) return -1;
        bucket = bucket == last ? 0 : bucket + 1;
    }
}

LANES_INLINE int32_t row_find(const row_t *row, int32_t column, uint32_t hash, int wide)
{
    return row->slots <= ROW_BUCKET ? row_find_listed(row, column)
                                    : row_find_bucketed(row, column, hash, wide);
}

/* --- reading: v[i] is what is stored for columns[i], or 0; slots[i] its place, or -1 --- */

LANES_INLINE void row_read_bucketed(const row_t *row, const int32_t *columns,
                                    const uint32_t *hashes, int32_t n, int32_t *slots, double *v,
                                    int wide)
{
    const size_t stride = ROW_BUCKET * (sizeof(int32_t) + row_size(wide));
    for (int32_t i = 0; i < n; i++) {
        size_t bucket = row_bucket_of(hashes[i], row->slots);
        const char *at = row->table + bucket * stride;
        const int32_t *keys = (const int32_t *)at;
        unsigned bits = row_match(keys, columns[i]);
        if (__builtin_expect((bits == 0) & (keys[ROW_BUCKET - 1] != ROW_FREE), 0)) {
            slots[i] = row_find_bucketed(row, columns[i], hashes[i], wide);
            v[i] = slots[i] < 0 ? 0.0 : row_load(row_value(row, slots[i], wide), wide);
            continue;
        }
        /* Bits are masked, as whether a column is there cannot be guessed. */
        int64_t there = -(int64_t)(bits != 0);
        int lane = __builtin_ctz(bits | 1u << ROW_BUCKET) & (ROW_BUCKET - 1);
        slots[i] = (int32_t)(((int64_t)(bucket * ROW_BUCKET) + lane) | ~there);
        at += ROW_BUCKET * sizeof(int32_t) + lane * row_size(wide);
        double value = row_load(at, wide);
        int64_t as_bits;
        memcpy(&as_bits, &value, sizeof(value));
        as_bits &= there;
        memcpy(v + i, &as_bits, sizeof(value));
    }
}

LANES_INLINE void row_read_dense(const row_t *row, const int32_t *columns, int32_t n, double *v,
                                 int wide)
{
    for (int32_t i = 0; i < n; i++)
        v[i] = row_load(row->table + (size_t)columns[i] * row_size(wide), wide);
}

LANES_INLINE void row_read(const row_t *row, const int32_t *columns, const uint32_t *hashes,
                           int32_t n, int32_t *slots, double *v, int wide)
{
    if (row->slots == ROW_DENSE) {
        row_read_dense(row, columns, n, v, wide);
    } else if (row->slots > ROW_BUCKET) {
        row_read_bucketed(row, columns, hashes, n, slots, v, wide);
    } else {
        for (int32_t i = 0; i < n; i++) {
            slots[i] = row_find_listed(row, columns[i]);
            v[i] = slots[i] < 0 ? 0.0 : row_load(row_value(row, slots[i], wide), wide);
        }
    }
}

/* The same from slots that are known. */
LANES_INLINE void row_recall(const row_t *row, const int32_t *columns, int32_t n,
                             const int32_t *slots, double *v, int wide)
{
    if (row->slots == ROW_DENSE) {
        row_read_dense(row, columns, n, v, wide);
        return;
    }
    for (int32_t i = 0; i < n; i++)
        v[i] = slots[i] < 0 ? 0.0 : row_load(row_value(row, slots[i], wide), wide);
}

/* Ask for the memory of these columns. Reading a table waits for each line that it has guessed
 * wrong about; asking waits for none, so that many lines are on their way at once. */
LANES_INLINE void row_ask(const row_t *row, const int32_t *columns, const uint32_t *hashes,
                          int32_t n, int wide)
{
    const size_t stride = ROW_BUCKET * (sizeof(int32_t) + row_size(wide));
    if (row->slots == ROW_DENSE) {
        for (int32_t i = 0; i < n; i++)
            __builtin_prefetch(row->table + (size_t)columns[i] * row_size(wide));
    } else if (row->slots > ROW_BUCKET) {
        for (int32_t i = 0; i < n; i++) {
            const char *at = row->table + row_bucket_of(hashes[i], row->slots) * stride;
            __builtin_prefetch(at);
            if (wide) __builtin_prefetch(at + stride - 1);
        }
    } else {
        __builtin_prefetch(row->table);
    }
}

/* --- building --- */

LANES_INLINE void row_clear(row_t *row)
{
    free(row->table);
    row->table = NULL;
    row->used = row->slots = 0;
}

LANES_INLINE size_t row_bytes(const row_t *row, int64_t n_columns, int wide)
{
    return row->slots == ROW_DENSE ? (size_t)n_columns * row_size(wide)
                                   : (size_t)row->slots * (sizeof(int32_t) + row_size(wide));
}

/* Slots for so many columns: more than they need, so that there is room to grow. */
LANES_INLINE int64_t row_slots_for(int64_t columns)
{
    int64_t slots = 2;
    while (slots < columns && slots < ROW_BUCKET) slots *= 2;
    if (columns > ROW_BUCKET)
        slots = (columns + columns / 4 + columns / 4) / ROW_BUCKET * ROW_BUCKET + ROW_BUCKET;
    return slots;
}

/* Make `row` an empty one with room for so many columns; 0 if there is no memory. */
LANES_INLINE int row_open(row_t *row, int64_t columns, int64_t n_columns, int wide)
{
    int64_t slots = row_slots_for(columns);
    size_t bytes = (size_t)slots * (sizeof(int32_t) + row_size(wide));
    row->used = 0;
    if (bytes >= (size_t)n_columns * row_size(wide)) {
        row->slots = ROW_DENSE;
        row->table = calloc((size_t)n_columns, row_size(wide));
        return row->table != NULL;
    }
    row->slots = (int32_t)slots;
#if !defined(_WIN32)
    if (slots > ROW_BUCKET) {
        void *table;
        if (posix_memalign(&table, ROW_LINE, bytes)) table = NULL;
        row->table = table;
    } else
#endif
        row->table = malloc(bytes);
    if (!row->table) return 0;
    memset(row->table, 0xFF, bytes); /* every column is ROW_FREE */
    return 1;
}

/* Put in a column that is not there; there is room. */
LANES_INLINE void row_insert(row_t *row, int32_t column, uint32_t hash, double value, int wide)
{
    int32_t slot = row->used;
    if (row->slots == ROW_DENSE) {
        row_store(row->table + (size_t)column * row_size(wide), value, wide);
        return;
    }
    if (row->slots > ROW_BUCKET) {
        size_t last = row->slots / ROW_BUCKET - 1;
        size_t bucket = row_bucket_of(hash, row->slots);
        unsigned room;
        while (!(room = row_match(row_key(row, (int32_t)(bucket * ROW_BUCKET), wide), ROW_FREE)))
            bucket = bucket == last ? 0 : bucket + 1;
        slot = (int32_t)(bucket * ROW_BUCKET) + __builtin_ctz(room);
    }
    *row_key(row, slot, wide) = column;
    row_store(row_value(row, slot, wide), value, wide);
    row->used++;
}

/* Go through the columns of a list or table; `at` is where a column's value is. */
#define ROW_EACH(row, wide, column, at)                                                            \
    for (int32_t row_width = (row)->slots < ROW_BUCKET ? (row)->slots : ROW_BUCKET, row_first = 0; \
         row_first < (row)->slots; row_first += ROW_BUCKET)                                        \
        for (const int32_t *row_keys = row_key(row, row_first, wide), *row_next = row_keys;        \
             row_next < row_keys + row_width; row_next++)                                          \
            if ((column = *row_next) != ROW_FREE                                                   \
                && (at = (char *)(row_keys + row_width) + (row_next - row_keys) * row_size(wide)))

LANES_INLINE int64_t row_count_living(const row_t *row, int64_t n_columns, double s, int wide)
{
    int64_t living = 0;
    int32_t column;
    char *at;
    if (row->slots == ROW_DENSE) {
        for (int64_t j = 0; j < n_columns; j++)
            living += !(fabs(row_load(row->table + j * row_size(wide), wide)) <= s);
        return living;
    }
    ROW_EACH (row, wide, column, at) living += !(fabs(row_load(at, wide)) <= s);
    return living;
}

/* Whether a list or table that is built anew would be clearly smaller. */
LANES_INLINE int row_is_loose(const row_t *row, int64_t living)
{
    return 5 * living < 3 * (int64_t)row->slots && (living == 0 || row->slots > ROW_BUCKET);
}

/* Build the row anew for what lives and so many columns more; 0, and no change, without memory. */
LANES_INLINE int row_rebuild(row_t *row, int64_t n_columns, double s, int64_t incoming, int wide)
{
    row_t built;
    int32_t column;
    char *at;
    int64_t living = row_count_living(row, n_columns, s, wide);
    if (living + incoming == 0) {
        row_clear(row);
        return 1;
    }
    if (!row_open(&built, living + incoming, n_columns, wide)) return 0;
    if (row->slots == ROW_DENSE) {
        for (int64_t j = 0; j < n_columns; j++) {
            double value = row_load(row->table + j * row_size(wide), wide);
            if (!(fabs(value) <= s))
                row_insert(&built, (int32_t)j, row_hash((int32_t)j), value, wide);
        }
    } else {
        ROW_EACH (row, wide, column, at) {
            double value = row_load(at, wide);
            if (!(fabs(value) <= s)) row_insert(&built, column, row_hash(column), value, wide);
        }
    }
    free(row->table);
    *row = built;
    return 1;
}

/* --- writing --- */

/* Store values at columns whose slots are known; 0, and no change, if there is no memory. */
LANES_INLINE int row_write(row_t *row, int64_t n_columns, const int32_t *columns,
                           const uint32_t *hashes, int32_t n, int32_t *slots, const double *stored,
                           double s, int wide)
{
    int32_t incoming = 0;
    if (row->slots != ROW_DENSE) {
        for (int32_t i = 0; i < n; i++) incoming += (slots[i] < 0) & (stored[i] != 0.0);
        if (!row_holds(row->slots, (int64_t)row->used + incoming)) {
            /* The dead go, so those among them that rise again come in, too. */
            for (int32_t i = 0; i < n; i++)
                incoming += slots[i] >= 0 && stored[i] != 0.0
                            && fabs(row_load(row_value(row, slots[i], wide), wide)) <= s;
            if (!row_rebuild(row, n_columns, s, incoming, wide)) return 0;
            if (row->slots != ROW_DENSE)
                for (int32_t i = 0; i < n; i++)
                    if (slots[i] >= 0) slots[i] = row_find(row, columns[i], hashes[i], wide);
        }
    }
    if (row->slots == ROW_DENSE) {
        for (int32_t i = 0; i < n; i++)
            row_store(row->table + (size_t)columns[i] * row_size(wide), stored[i], wide);
        return 1;
    }
    for (int32_t i = 0; i < n; i++) {
        if (slots[i] >= 0) row_store(row_value(row, slots[i], wide), stored[i], wide);
        else if (stored[i] != 0.0) row_insert(row, columns[i], hashes[i], stored[i], wide);
    }
    return 1;
}

/* --- the lens: what is stored as v is the weight sign(v) k max(|v| - s, 0) --- */

LANES_INLINE lanes_mask_t lanes_signs(void)
{
    const int64_t sign = INT64_MIN;
    return (lanes_mask_t){sign, sign, sign, sign};
}

LANES_INLINE lanes_t lanes_lens(lanes_t v, lanes_t k, lanes_t s)
{
    lanes_mask_t sign = (lanes_mask_t)v & lanes_signs();
    lanes_t left = (lanes_t)((lanes_mask_t)v & ~lanes_signs()) - s;
    return (lanes_t)(((lanes_mask_t)(k * left) | sign) & (left > lanes_splat(0.0)));
}

LANES_INLINE double row_lens(double v, double k, double s)
{
    double left = fabs(v) - s;
    return left > 0.0 ? copysign(k * left, v) : 0.0;
}

/* The sum in lanes of weight times b; both arrays are padded with zeros to whole lanes. */
LANES_INLINE double row_dot(const double *v, const double *b, int32_t n, double k, double s)
{
    lanes_t sums = lanes_splat(0.0), ks = lanes_splat(k), ss = lanes_splat(s);
    for (int32_t i = 0; i < n; i += 4)
        sums = sums + lanes_lens(lanes_load(v + i), ks, ss) * lanes_load(b + i);
    return lanes_fold(sums);
}

/* Take factor * b from the weights. `w` gets the weights before, `moved` those after, and v what is
 * to be stored. Without `grow`, what is zero stays so. */
LANES_INLINE void row_move(double *v, const double *b, int32_t n, double k, double s,
                           double factor, int grow, double *w, double *moved)
{
    const lanes_t ks = lanes_splat(k), ss = lanes_splat(s), by = lanes_splat(factor);
    const lanes_t zero = lanes_splat(0.0), shift = lanes_splat(fabs(s));
    const lanes_mask_t may = zero == (grow ? zero : lanes_splat(1.0));
    for (int32_t i = 0; i < n; i += 4) {
        lanes_t old = lanes_load(v + i);
        lanes_t before = lanes_lens(old, ks, ss);
        lanes_mask_t there = (lanes_t)((lanes_mask_t)old & ~lanes_signs()) > ss;
        lanes_t after = lanes_select(there | may, before - by * lanes_load(b + i), before);
        lanes_t bare = k == 1.0 ? after : after / ks;
        lanes_mask_t sign = (lanes_mask_t)after & lanes_signs();
        lanes_t stored = bare + (lanes_t)((lanes_mask_t)shift | sign);
        lanes_store(v + i, (lanes_t)((lanes_mask_t)stored & (after != zero)));
        lanes_store(w + i, before);
        lanes_store(moved + i, after);
    }
}

/* Store the row's weights as they are; give back room if most of it is dead. */
LANES_INLINE void row_renew(row_t *row, int64_t n_columns, double k, double s, int wide)
{
    int64_t living = 0;
    int32_t column;
    char *at;
    if (row->slots == ROW_DENSE) {
        if (wide) {
            double *v = (double *)row->table;
            for (int64_t j = 0; j < n_columns; j++) v[j] = row_lens(v[j], k, s);
            for (int64_t j = 0; j < n_columns; j++) living += v[j] != 0.0;
        } else {
            float *v = (float *)row->table;
            for (int64_t j = 0; j < n_columns; j++) v[j] = (float)row_lens((double)v[j], k, s);
            for (int64_t j = 0; j < n_columns; j++) living += v[j] != 0.0f;
        }
        if (living < n_columns / 4) row_rebuild(row, n_columns, 0.0, 0, wide);
        return;
    }
    ROW_EACH (row, wide, column, at) {
        double value = row_lens(row_load(at, wide), k, s);
        row_store(at, value, wide);
        living += value != 0.0;
    }
    if (row_is_loose(row, living)) row_rebuild(row, n_columns, 0.0, 0, wide);
}

/* Give back the room of a list or table if much of it is dead. */
LANES_INLINE void row_tidy(row_t *row, int64_t n_columns, double s, int wide)
{
    if (row->slots > 0 && row_is_loose(row, row_count_living(row, n_columns, s, wide)))
        row_rebuild(row, n_columns, s, 0, wide);
}

/* Multiply what is stored. */
LANES_INLINE void row_scale(row_t *row, int64_t n_columns, double k, int wide)
{
    int32_t column;
    char *at;
    if (row->slots == ROW_DENSE) {
        for (int64_t j = 0; j < n_columns; j++) {
            at = row->table + j * row_size(wide);
            row_store(at, row_load(at, wide) * k, wide);
        }
        return;
    }
    ROW_EACH (row, wide, column, at) row_store(at, row_load(at, wide) * k, wide);
}

/* --- what leaves a row --- */

LANES_INLINE int64_t row_count(const row_t *row, int64_t n_columns, double k, double s, int wide)
{
    int64_t count = 0;
    int32_t column;
    char *at;
    if (row->slots == ROW_DENSE) {
        for (int64_t j = 0; j < n_columns; j++)
            count += row_lens(row_load(row->table + j * row_size(wide), wide), k, s) != 0.0;
        return count;
    }
    ROW_EACH (row, wide, column, at) count += row_lens(row_load(at, wide), k, s) != 0.0;
    return count;
}

static int row_compare(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* Fill columns, in order, and values (if not NULL) with the weights that are not zero; values are
 * weights, or as stored. There is room for `row_count`. Returns how many there are. */
LANES_INLINE int64_t row_export(const row_t *row, int64_t n_columns, double k, double s,
                                int current, int32_t *columns, char *values, int wide)
{
    int64_t count = 0;
    int32_t column;
    char *at;
    if (row->slots == ROW_DENSE) {
        for (int64_t j = 0; j < n_columns; j++) {
            double v = row_load(row->table + j * row_size(wide), wide);
            double w = row_lens(v, k, s);
            if (w == 0.0) continue;
            columns[count] = (int32_t)j;
            row_store(values + count * row_size(wide), current ? w : v, wide);
            count++;
        }
        return count;
    }
    ROW_EACH (row, wide, column, at)
        if (row_lens(row_load(at, wide), k, s) != 0.0) columns[count++] = column;
    qsort(columns, (size_t)count, sizeof(int32_t), row_compare);
    for (int64_t i = 0; i < count; i++) {
        int32_t slot = row_find(row, columns[i], row_hash(columns[i]), wide);
        double v = row_load(row_value(row, slot, wide), wide);
        row_store(values + i * row_size(wide), current ? row_lens(v, k, s) : v, wide);
    }
    return count;
}

/* --- threads that share rows --- */

LANES_INLINE void row_lock(unsigned char *flag)
{
    while (__atomic_exchange_n(flag, 1, __ATOMIC_ACQUIRE)) {
        int turns = 0;
        while (__atomic_load_n(flag, __ATOMIC_RELAXED)) {
#if defined(__SSE2__)
            _mm_pause();
#endif
#if !defined(_WIN32)
            /* The thread that has the row may not be running at all. */
            if (++turns > 100) {
                sched_yield();
                turns = 0;
            }
#else
            (void)turns;
#endif
        }
    }
}

LANES_INLINE void row_unlock(unsigned char *flag) { __atomic_store_n(flag, 0, __ATOMIC_RELEASE); }

#endif
