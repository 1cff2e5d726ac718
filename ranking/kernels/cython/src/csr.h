/* CSR matrices of any dtypes. */
#ifndef RANKING_CSR_H
#define RANKING_CSR_H

#include <stdint.h>

#include "lanes.h"

typedef struct {
    const void *indptr, *indices, *data;
    int64_t n_rows, n_entries;
    int identity; /* no arrays: row r has one entry, a 1 in column r; see `feature_start` */
    int index64, data64;
} csr_t;

/* The entries of a row are those from csr_start(row) to csr_start(row + 1). */
LANES_INLINE int64_t csr_start(const csr_t *csr, int64_t row)
{
    return csr->index64 ? ((const int64_t *)csr->indptr)[row]
                        : ((const int32_t *)csr->indptr)[row];
}

LANES_INLINE int64_t csr_column(const csr_t *csr, int64_t entry)
{
    return csr->index64 ? ((const int64_t *)csr->indices)[entry]
                        : ((const int32_t *)csr->indices)[entry];
}

LANES_INLINE double csr_value(const csr_t *csr, int64_t entry)
{
    return csr->data64 ? ((const double *)csr->data)[entry] : ((const float *)csr->data)[entry];
}

LANES_INLINE float csr_value_float(const csr_t *csr, int64_t entry)
{
    return csr->data64 ? (float)((const double *)csr->data)[entry]
                       : ((const float *)csr->data)[entry];
}

/* The same for features that may be the identity. */
LANES_INLINE int64_t feature_start(const csr_t *csr, int64_t row)
{
    return csr->identity ? row : csr_start(csr, row);
}

LANES_INLINE int64_t feature_column(const csr_t *csr, int64_t entry)
{
    return csr->identity ? entry : csr_column(csr, entry);
}

LANES_INLINE float feature_value(const csr_t *csr, int64_t entry)
{
    return csr->identity ? 1.0f : csr_value_float(csr, entry);
}

#endif
